"""Fills the current folder with a small data set of every kind that the programs here read."""
import bz2, csv, gzip, io, json, lzma, os, pickle, random, sqlite3, tarfile, zipfile

import cv2
import h5py
import lmdb
import numpy
import PIL.Image
import torch

numbers = random.Random(1)
arrays = numpy.random.RandomState(1)

# samples: plain bytes, some more than a page, one empty
os.mkdir("samples")
for n in range(24):
    with open(f"samples/{n:03}.bin", "wb") as file:
        file.write(numbers.randbytes(n * 1237))

# images/CLASS: real PNG and JPEG files
for name in "cat", "dog":
    os.makedirs(f"images/{name}")
    for n in range(4):
        picture = PIL.Image.fromarray(arrays.randint(0, 256, (48, 64, 3), "u1"))
        picture.save(f"images/{name}/{n}.png")
        picture.save(f"images/{name}/{n}.jpg", quality=90)

# arrays
os.mkdir("arrays")
numpy.save("arrays/small.npy", arrays.rand(7, 3))
numpy.save("arrays/large.npy", arrays.rand(300, 100).astype("f4"))
numpy.save("arrays/objects.npy", numpy.array([{"a": 1}, [2, 3], None], dtype=object), allow_pickle=True)
arrays.rand(64, 32).astype("f4").tofile("arrays/raw.f32")
numpy.savetxt("arrays/table.txt", arrays.rand(20, 4))
numpy.savez("arrays/several.npz", first=arrays.rand(9), second=numpy.arange(500))

# tensors
os.mkdir("tensors")
weights = {"weight": torch.arange(1000.0), "bias": torch.ones(3)}
torch.save(weights, "tensors/new.pt")
torch.save(weights, "tensors/old.pt", _use_new_zipfile_serialization=False)

# h5/data.h5
os.mkdir("h5")
with h5py.File("h5/data.h5", "w") as file:
    file["plain"] = arrays.rand(100, 50)
    file.create_dataset("packed", data=numpy.arange(20000), chunks=(1000,), compression="gzip")
    file["plain"].attrs["unit"] = "m"

# lmdb: with and without its lock file
for folder in "lmdb", "lmdb-without-lock":
    with lmdb.open(folder, map_size=1 << 20) as env, env.begin(write=True) as txn:
        for n in range(100):
            txn.put(b"%08d" % n, numbers.randbytes(200))
os.remove("lmdb-without-lock/lock.mdb")

# shards: tar files as WebDataset has them
os.mkdir("shards")
for shard in range(2):
    with tarfile.open(f"shards/{shard}.tar", "w") as tar:
        for n in range(6):
            for kind, data in ("bin", numbers.randbytes(3000)), ("cls", b"%d" % n):
                member = tarfile.TarInfo(f"{shard}{n:04}.{kind}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))

# packed: archives and compressed files
os.mkdir("packed")
with zipfile.ZipFile("packed/all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for n in range(5):
        archive.writestr(zipfile.ZipInfo(f"inner/{n}.txt"), f"member {n}\n" * 300)
lines = b"".join(b"line %d\n" % n for n in range(2000))
with open("packed/lines.gz", "wb") as file:
    file.write(gzip.compress(lines, mtime=0))
for name, module in ("bz2", bz2), ("xz", lzma):
    with open(f"packed/lines.{name}", "wb") as file:
        file.write(module.compress(lines))

# text and records
os.mkdir("records")
with open("records/labels.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["name", "label", "remark"])
    writer.writerows([f"{n:03}.bin", n % 3, 'with "quotes", and\na line'] for n in range(24))
with open("records/meta.json", "w") as file:
    json.dump({"classes": ["cat", "dog"], "größe": [48, 64]}, file, ensure_ascii=False)
with open("records/sample.pickle", "wb") as file:
    pickle.dump({"n": list(range(1000)), "array": numpy.arange(2000)}, file)
with open("records/lines.txt", "wb") as file:
    file.write(b"first\r\nsecond\nthird\rfourth without an end")
with sqlite3.connect("records/table.sqlite") as table:
    table.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, bytes BLOB)")
    table.executemany("INSERT INTO sample VALUES (?, ?)", [(n, numbers.randbytes(300)) for n in range(50)])
table.close()
with open("records/labels_module.py", "w") as file:
    file.write("NAMES = ['cat', 'dog']\n")

# paths: links and folders
os.makedirs("paths/deep/er")
for name in "paths/file", "paths/deep/file", "paths/deep/er/file":
    with open(name, "w") as file:
        file.write(f"this is {name}\n")
os.symlink("deep/file", "paths/link")
os.symlink("deep", "paths/folder-link")
os.symlink("nowhere", "paths/dangling")
os.symlink("loop", "paths/loop")
os.link("paths/file", "paths/hard-link")

# locked: what the user may not read
os.makedirs("locked/folder")
for name in "locked/file", "locked/folder/file":
    with open(name, "w") as file:
        file.write("secret\n")
os.chmod("locked/file", 0)
os.chmod("locked/folder", 0)

# All files have a time in the past, with nanoseconds.
for folder, names, files in os.walk("."):
    for name in files:
        path = os.path.join(folder, name)
        if not os.path.islink(path):
            os.utime(path, ns=(1577836800123456789, 1577836800123456789))

"""Each library writes over a file that it has read, and reads what it wrote."""
import gzip, json, pickle, sqlite3, tarfile, io, zipfile

import cv2
import h5py
import numpy
import PIL.Image
import torch

from cases import case, digest, read


@case
def numpy_save():
    before = numpy.load("arrays/small.npy")
    numpy.save("arrays/small.npy", before * 2)
    return numpy.array_equal(numpy.load("arrays/small.npy"), before * 2)


@case
def numpy_memmap_for_writing():
    before = float(numpy.memmap("arrays/raw.f32", "f4", "r")[5])
    array = numpy.memmap("arrays/raw.f32", "f4", "r+")
    array[5] = before + 1
    array.flush()
    return numpy.fromfile("arrays/raw.f32", "f4")[5] == numpy.float32(before + 1)


@case
def numpy_load_with_mmap_for_writing():
    numpy.load("arrays/large.npy", mmap_mode="r")
    numpy.load("arrays/large.npy", mmap_mode="r+")[0, 0] = 7
    return float(numpy.load("arrays/large.npy")[0, 0])


@case
def torch_save():
    before = torch.load("tensors/new.pt")
    torch.save({key: value + 1 for key, value in before.items()}, "tensors/new.pt")
    return float(torch.load("tensors/new.pt")["weight"].sum() - before["weight"].sum())


@case
def torch_from_file_shared():
    name = "samples/016.bin"
    torch.from_file(name, shared=False, size=100, dtype=torch.uint8)
    torch.from_file(name, shared=True, size=100, dtype=torch.uint8).fill_(3)
    return read(name)[:101]


@case
def pil_save():
    with PIL.Image.open("images/cat/0.png") as picture:
        turned = picture.rotate(180)
    turned.save("images/cat/0.png")
    with PIL.Image.open("images/cat/0.png") as picture:
        return picture.tobytes() == turned.tobytes()


@case
def imwrite():
    picture = cv2.imread("images/dog/0.png")
    cv2.imwrite("images/dog/0.png", 255 - picture)
    return bool((cv2.imread("images/dog/0.png") == 255 - picture).all())


@case
def h5py_for_appending():
    with h5py.File("h5/data.h5", "r") as file:
        before = float(file["plain"][0, 0])
    with h5py.File("h5/data.h5", "r+") as file:
        file["plain"][0, 0] = before + 1
        file["added"] = numpy.arange(10)
    with h5py.File("h5/data.h5", "r") as file:
        return sorted(file), float(file["plain"][0, 0]) == before + 1


@case
def pickle_dump():
    with open("records/sample.pickle", "rb") as file:
        sample = pickle.load(file)
    with open("records/sample.pickle", "wb") as file:
        pickle.dump(sample["n"], file)
    with open("records/sample.pickle", "rb") as file:
        return len(pickle.load(file))


@case
def json_in_place():
    with open("records/meta.json", "r+", encoding="utf-8") as file:
        meta = json.load(file)
        meta["classes"].append("bird")
        file.seek(0)
        json.dump(meta, file)
        file.truncate()
    return json.loads(read("records/meta.json"))


@case
def zip_for_appending():
    with zipfile.ZipFile("packed/all.zip", "a") as archive:
        archive.writestr(zipfile.ZipInfo("added.txt"), "added")
    with zipfile.ZipFile("packed/all.zip") as archive:
        return archive.namelist()


@case
def tar_for_appending():
    with tarfile.open("shards/0.tar", "a") as tar:
        member = tarfile.TarInfo("added")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"added"))
    with tarfile.open("shards/0.tar") as tar:
        return tar.getnames()[-2:]


@case
def gzip_for_appending():
    before = len(gzip.open("packed/lines.gz").read())
    with open("packed/lines.gz", "ab") as file:
        file.write(gzip.compress(b"added", mtime=0))
    return len(gzip.open("packed/lines.gz").read()) - before


@case
def sqlite():
    for _ in range(2):
        table = sqlite3.connect("records/table.sqlite")
        with table:
            table.execute("INSERT INTO sample (bytes) VALUES (?)", [b"added"])
        table.close()
    table = sqlite3.connect("file:records/table.sqlite?mode=ro", uri=True)
    return table.execute("SELECT count(*), max(id) FROM sample").fetchone()


print(digest(read("images/cat/0.png")), digest(read("shards/0.tar")), digest(read("arrays/raw.f32")))

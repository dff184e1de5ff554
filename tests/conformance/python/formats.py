"""What Python's own library reads."""
import array, asyncio, csv, io, json, linecache, mmap, os, pathlib, pickle, sqlite3, sys
from concurrent.futures import ThreadPoolExecutor

from cases import case, digest, read

SAMPLES = [f"samples/{n:03}.bin" for n in range(24)]


@case
def pickles():
    with open("records/sample.pickle", "rb") as file:
        sample = pickle.load(file)
    return sum(sample["n"]), int(sample["array"].sum())


@case
def csv_file():
    with open("records/labels.csv", newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)][-2:]


@case
def json_file():
    with open("records/meta.json", encoding="utf-8") as file:
        return json.load(file)


@case
def text():
    lines = []
    for newline in None, "", "\n", "\r", "\r\n":
        with open("records/lines.txt", newline=newline) as file:
            lines.append(file.readlines())
    return lines


@case
def buffering():
    with open(SAMPLES[20], "rb", buffering=0) as raw, open(SAMPLES[20], "rb", buffering=17) as buffered:
        return type(raw).__name__, raw.read() == buffered.read(), raw.seekable(), raw.writable(), buffered.tell()


@case
def pathlib_reads():
    return pathlib.Path(SAMPLES[3]).read_bytes(), pathlib.Path("records/meta.json").read_text(encoding="utf-8")


@case
def readinto():
    buffer = bytearray(5000)
    with open(SAMPLES[9], "rb") as file:
        return file.readinto(buffer), buffer


@case
def array_fromfile():
    numbers = array.array("H")
    with open(SAMPLES[10], "rb") as file:
        numbers.fromfile(file, 100)
    return numbers.tobytes()


@case
def line():
    return linecache.getline("records/lines.txt", 2)


@case
def sqlite_read_only():
    sums = []
    for parameters in "mode=ro", "mode=ro&immutable=1":
        table = sqlite3.connect(f"file:records/table.sqlite?{parameters}", uri=True)
        sums.append(digest(b"".join(row[0] for row in table.execute("SELECT bytes FROM sample ORDER BY id DESC"))))
        table.close()
    return sums


@case
def open_code():
    with io.open_code(os.path.realpath("records/labels_module.py")) as file:
        return file.read()


@case
def system_calls():
    fd = os.open(SAMPLES[20], os.O_RDONLY | os.O_NOFOLLOW)
    again = os.dup(fd)
    parts = [os.read(fd, 10), os.pread(fd, 100, 5000), os.preadv(again, [bytearray(7), bytearray(9)], 30)]
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
    parts += [os.lseek(again, 0, os.SEEK_CUR), os.lseek(fd, -4, os.SEEK_END), os.read(again, 100)]
    os.close(fd)
    return parts, os.fstat(again).st_size


@case
def data_and_holes():
    fd = os.open(SAMPLES[20], os.O_RDONLY)
    return os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE)


@case
def copies_inside_the_kernel():
    source = os.open(SAMPLES[20], os.O_RDONLY)
    size = os.fstat(source).st_size
    reader, writer = os.pipe()
    ways = [os.sendfile(writer, source, 100, 1000), os.splice(source, writer, 1000, offset_src=50)]
    taken = os.read(reader, 65536)
    target = os.memfd_create("target")
    ways.append(os.sendfile(target, source, 0, size))
    os.lseek(target, 0, os.SEEK_SET)
    return ways, taken, os.read(target, size)


@case
def memory():
    with open(SAMPLES[20], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view.find(b"\x00"), view.size(), view[4096:]


@case
def threads():
    with ThreadPoolExecutor(8) as pool:
        return [digest(data) for data in pool.map(read, SAMPLES * 4)]


@case
def event_loop():
    async def all():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[loop.run_in_executor(None, read, name) for name in SAMPLES])

    return [digest(data) for data in asyncio.run(all())]


@case
def module_of_the_data_set():
    sys.path.insert(0, os.path.realpath("records"))
    import labels_module

    return labels_module.NAMES, os.path.relpath(labels_module.__file__)

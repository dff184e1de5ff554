"""Archives and compressed files."""
import bz2, gzip, itertools, lzma, tarfile, zipfile

from cases import case, digest, error

SHARDS = ["shards/0.tar", "shards/1.tar"]


@case
def tar_streams():
    def members():
        for path in SHARDS:
            with open(path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    yield member.name, tar.extractfile(member).read()

    # As WebDataset does: what has one key and follows one another is a sample.
    samples = itertools.groupby(members(), key=lambda member: member[0].split(".")[0])
    return [(key, [(name, digest(data)) for name, data in group]) for key, group in samples]


@case
def tar_with_seeks():
    with tarfile.open(SHARDS[1]) as tar:
        return [digest(tar.extractfile(name).read()) for name in sorted(tar.getnames(), reverse=True)]


@case
def tar_is_tarfile():
    return tarfile.is_tarfile(SHARDS[0]), tarfile.is_tarfile("samples/009.bin")


@case
def zip_members():
    with zipfile.ZipFile("packed/all.zip") as archive:
        return archive.testzip(), [(info.filename, digest(archive.read(info))) for info in archive.infolist()]


@case
def zip_members_interleaved():
    with zipfile.ZipFile("packed/all.zip") as archive:
        with archive.open("inner/1.txt") as a, archive.open("inner/2.txt") as b:
            return [a.readline() + b.readline() for _ in range(3)]


@case
def zip_path():
    return [path.read_text()[:9] for path in sorted(zipfile.Path("packed/all.zip", "inner/").iterdir(), key=str)]


@case
def compressed():
    openers = ("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)
    return [opener(f"packed/lines.{name}").read() for name, opener in openers]


@case
def compressed_text_with_seeks():
    with gzip.open("packed/lines.gz", "rt") as file:
        first = [next(file) for _ in range(3)]
        file.seek(0)
        return first, sum(len(line) for line in file)


error("a missing archive", tarfile.open, "shards/none.tar")
error("no tar file", tarfile.open, "samples/009.bin")
error("a folder as zip file", zipfile.ZipFile, "packed")
error("no gzip file", lambda: gzip.open("samples/009.bin").read())

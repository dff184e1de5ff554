"""A file is open for reading when it is written: the reader sees what was written."""
import os

import numpy

from cases import case


@case
def followed_as_a_log_is():
    with open("records/lines.txt", "rb") as reader:
        reader.read()
        with open("records/lines.txt", "ab") as writer:
            writer.write(b"added\n")
        return reader.read()


@case
def overwritten():
    with open("samples/009.bin", "rb", buffering=0) as reader:
        reader.read(10)
        with open("samples/009.bin", "rb+") as writer:
            writer.write(b"0123456789")
        reader.seek(0)
        return reader.read(10)


@case
def size():
    with open("samples/010.bin", "rb") as reader:
        os.truncate("samples/010.bin", 5)
        return os.fstat(reader.fileno()).st_size, reader.read()


@case
def mapped():
    view = numpy.memmap("arrays/raw.f32", "f4", "r")
    writer = numpy.memmap("arrays/raw.f32", "f4", "r+")
    writer[3] = 42
    return float(view[3])

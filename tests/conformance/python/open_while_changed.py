"""A file is open for reading when its mode, its time or its names change: its descriptor tells."""
import os, subprocess

from cases import case


def facts(fd):
    st = os.fstat(fd)
    return oct(st.st_mode), st.st_nlink, st.st_mtime


@case
def by_descriptor():
    fd = os.open("samples/018.bin", os.O_RDONLY)
    os.fchmod(fd, 0o640)
    os.utime(fd, (1600000000, 1600000000))
    return facts(fd)


@case
def by_path():
    fd = os.open("samples/019.bin", os.O_RDONLY)
    os.chmod("samples/019.bin", 0o600)
    os.utime("samples/019.bin", (1600000000, 1600000000))
    return facts(fd)


@case
def by_another_process():
    fd = os.open("samples/020.bin", os.O_RDONLY)
    subprocess.run(["/bin/chmod", "600", "samples/020.bin"], check=True)
    return facts(fd)


@case
def linked():
    fd = os.open("samples/021.bin", os.O_RDONLY)
    os.link("samples/021.bin", "samples/linked")
    return facts(fd)


@case
def renamed():
    fd = os.open("samples/022.bin", os.O_RDONLY)
    os.rename("samples/022.bin", "samples/renamed")
    return facts(fd), os.path.samestat(os.fstat(fd), os.stat("samples/renamed")), len(os.read(fd, 100000))


@case
def removed():
    fd = os.open("samples/014.bin", os.O_RDONLY)
    os.remove("samples/014.bin")
    return facts(fd), len(os.read(fd, 100000))


@case
def replaced():
    fd = os.open("samples/015.bin", os.O_RDONLY)
    os.replace("samples/016.bin", "samples/015.bin")
    return facts(fd), os.path.samestat(os.fstat(fd), os.stat("samples/015.bin")), len(os.read(fd, 100000))

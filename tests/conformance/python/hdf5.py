"""HDF5 files by h5py: reading."""
import subprocess, sys

import h5py

from cases import case, error

PATH = "h5/data.h5"


@case
def read():
    with h5py.File(PATH, "r") as file:
        plain, packed = file["plain"], file["packed"]
        return list(file), dict(plain.attrs), float(plain[()].sum()), int(packed[500:1500].sum())


@case
def opened_again_while_open():
    with h5py.File(PATH, "r") as first, h5py.File(PATH, "r") as second:
        return first["plain"][3, 4] == second["plain"][3, 4], first == second, first.id == second.id


@case
def opened_again_by_another_process():
    with h5py.File(PATH, "r") as file:
        child = "import h5py, sys; print(int(h5py.File(sys.argv[1], 'r')['packed'][()].sum()))"
        other = subprocess.run([sys.executable, "-c", child, PATH], capture_output=True, text=True, check=True)
        return int(file["packed"][()].sum()), other.stdout.strip()


@case
def of_an_open_file():
    with open(PATH, "rb") as raw, h5py.File(raw, "r") as file:
        return int(file["packed"][-1])


@case
def in_memory():
    with h5py.File(PATH, "r", driver="core") as file:
        return int(file["packed"][-2])


@case
def is_hdf5():
    return h5py.is_hdf5(PATH), h5py.is_hdf5("samples/009.bin"), h5py.is_hdf5("none")


# HDF5 knows a file by its device and inode: it has to find that this one is open.
with h5py.File(PATH, "r"):
    error("r+ while open for reading", h5py.File, PATH, "r+")
error("a missing file", h5py.File, "h5/none.h5", "r")
try:
    h5py.File("h5", "r")
except OSError as e:
    print("a folder:", type(e).__name__, e.errno)  # the message holds time and address
error("no HDF5 file", h5py.File, "samples/009.bin", "r")

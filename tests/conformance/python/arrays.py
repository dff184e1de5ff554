"""numpy and PyTorch, whole arrays and tensors."""
import mmap

import numpy
import torch

from cases import case, error


@case
def load():
    return numpy.load("arrays/small.npy").tobytes()


@case
def load_with_mmap():
    array = numpy.load("arrays/large.npy", mmap_mode="r")
    return type(array).__name__, array.shape, float(array[17, 5]), float(array.sum(dtype="f8"))


@case
def load_with_mmap_copy_on_write():
    array = numpy.load("arrays/large.npy", mmap_mode="c")
    array[:] = 1
    return float(array.sum()), float(numpy.load("arrays/large.npy").sum(dtype="f8"))


@case
def load_with_pickle():
    return numpy.load("arrays/objects.npy", allow_pickle=True).tolist()


@case
def fromfile():
    with open("arrays/raw.f32", "rb") as file:
        file.seek(400)
        part = numpy.fromfile(file, "f4", count=10)
        after = file.tell()
    return part.tolist(), after, float(numpy.fromfile("arrays/raw.f32", "f4", offset=800).sum(dtype="f8"))


@case
def memmap():
    array = numpy.memmap("arrays/raw.f32", "f4", "r", shape=(64, 32))
    return array.tobytes()


@case
def mmap_outlives_its_descriptor():
    with open("arrays/raw.f32", "rb") as file:
        view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    return view[:]


@case
def loadtxt():
    return numpy.loadtxt("arrays/table.txt").tobytes(), numpy.genfromtxt("arrays/table.txt").shape


@case
def savez():
    with numpy.load("arrays/several.npz") as archive:
        return archive.files, archive["first"].tolist(), int(archive["second"].sum())


@case
def torch_load():
    sums = []
    for name in "new", "old":
        loaded = torch.load(f"tensors/{name}.pt", map_location="cpu")
        sums.append({key: float(value.sum()) for key, value in loaded.items()})
    return sums


@case
def torch_from_file():
    tensor = torch.from_file("arrays/raw.f32", shared=False, size=2048)
    return tensor.numpy().tobytes()


@case
def untyped_storage_from_file():
    return float(torch.FloatStorage.from_file("arrays/raw.f32", False, 2048)[7])


error("load of objects without leave", numpy.load, "arrays/objects.npy")
error("load of a missing file", numpy.load, "arrays/none.npy")
error("load of a folder", numpy.load, "arrays")
error("memmap that is too long", numpy.memmap, "arrays/raw.f32", "f4", "r", shape=10**6)
error("memmap of an empty file", numpy.memmap, "samples/000.bin", "u1", "r")
error("torch.load of a missing file", torch.load, "tensors/none.pt")
error("torch.load of a folder", torch.load, "tensors")
error("torch.from_file that is too long", torch.from_file, "arrays/raw.f32", shared=False, size=10**6)
error("torch.from_file of a missing file", torch.from_file, "arrays/none", shared=False, size=1)

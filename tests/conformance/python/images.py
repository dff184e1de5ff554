"""Pictures, by torchvision, PIL and OpenCV."""
import os

os.environ["OPENCV_LOG_LEVEL"] = "ERROR"  # its warnings hold the time

import cv2
import PIL.Image
import torchvision
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import to_tensor

from cases import case, digest, error

NAMES = [f"images/{label}/{n}.{kind}" for label in ("cat", "dog") for n in range(4) for kind in ("png", "jpg")]


@case
def image_folder():
    pictures = ImageFolder("images", transform=to_tensor)
    loader = DataLoader(pictures, batch_size=4, num_workers=2, multiprocessing_context="fork")
    batches = [(digest(batch.numpy().tobytes()), labels.tolist()) for batch, labels in loader]
    return pictures.classes, batches


@case
def read_image():
    return [digest(torchvision.io.read_image(name).numpy().tobytes()) for name in NAMES]


@case
def read_file():
    return [digest(torchvision.io.read_file(name).numpy().tobytes()) for name in NAMES]


@case
def imread():
    return [digest(cv2.imread(name).tobytes()) for name in NAMES]


@case
def imread_of_a_missing_file():
    return cv2.imread("images/cat/none.png")


@case
def pil_opens_all_and_loads_later():
    pictures = [PIL.Image.open(name) for name in NAMES]
    return [(p.format, p.size, digest(p.convert("L").tobytes())) for p in pictures]


@case
def pil_verifies():
    for name in NAMES:
        PIL.Image.open(name).verify()


@case
def pil_of_an_open_file():
    sums = []
    for name in NAMES:
        with open(name, "rb") as file, PIL.Image.open(file) as picture:
            picture.draft("RGB", (16, 16))
            sums.append(digest(picture.tobytes()))
    return sums


error("read_image of a missing file", torchvision.io.read_image, "images/cat/none.png")
error("PIL of a missing file", PIL.Image.open, "images/cat/none.png")
error("PIL of a folder", PIL.Image.open, "images/cat")
error("PIL of what is no picture", PIL.Image.open, "samples/009.bin")

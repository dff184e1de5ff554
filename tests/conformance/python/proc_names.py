"""A descriptor's name in /proc leads to the file of the data set."""
import os

from cases import case

HERE = os.path.realpath(".")


@case
def file_behind_the_name():
    with open("paths/file") as file:
        name = f"/proc/self/fd/{file.fileno()}"
        return os.path.samefile(name, "paths/file"), os.stat(name).st_nlink


@case
def path_behind_the_name():
    with open("paths/file") as file:
        name = f"/proc/self/fd/{file.fileno()}"
        return os.path.relpath(os.readlink(name), HERE), os.path.relpath(os.path.realpath(name), HERE)

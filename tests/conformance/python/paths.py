"""Names, and what the system says of a file, by path and by descriptor."""
import fcntl, glob, os, pathlib, stat

from cases import case, read

NAMES = ["samples/020.bin", "paths/file", "paths/link", "paths/folder-link/file", "paths/hard-link", "samples/000.bin"]
FIELDS = ["mode", "ino", "dev", "nlink", "uid", "gid", "size", "mtime_ns", "ctime_ns", "blksize"]


@case
def fstat_is_stat():
    differing = []
    for name in NAMES:
        with open(name, "rb") as file:
            by_path, by_descriptor = os.stat(name), os.fstat(file.fileno())
        differing += [(name, f) for f in FIELDS if getattr(by_path, f"st_{f}") != getattr(by_descriptor, f"st_{f}")]
    return differing


@case
def time_and_mode():
    return [(oct(os.stat(name).st_mode), os.stat(name).st_size, os.stat(name).st_mtime_ns) for name in NAMES]


@case
def same_files():
    with open("paths/file") as a, open("paths/hard-link") as b, open("paths/link") as c, open("paths/deep/file") as d:
        return [
            os.path.samefile(a.fileno(), "paths/file"),
            os.path.samefile(a.fileno(), "paths/hard-link"),
            os.path.samefile(a.fileno(), c.fileno()),
            os.path.sameopenfile(a.fileno(), b.fileno()),
            os.path.sameopenfile(c.fileno(), d.fileno()),
            os.path.samestat(os.stat("paths/link"), os.fstat(d.fileno())),
            os.path.samestat(os.stat("paths/link", follow_symlinks=False), os.fstat(d.fileno())),
        ]


@case
def names():
    return [os.path.relpath(os.path.realpath(name), os.path.realpath(".")) for name in NAMES + ["paths/dangling"]]


@case
def file_objects_know_the_name_they_were_given():
    return [open(name, "rb").name for name in NAMES] + [pathlib.Path(NAMES[0]).open().name]


@case
def spellings():
    here = os.getcwd()
    spelled = ["./paths/file", "paths//file", "paths/./file", "paths/deep/../file"]
    spelled += [f"{here}/paths/file", f"{here}//paths/./file"]
    return [(read(name), read(os.fsencode(name))) for name in spelled]


@case
def folders():
    with os.scandir("paths") as entries:
        kinds = sorted((e.name, oct(e.stat(follow_symlinks=False).st_mode), e.is_symlink()) for e in entries)
    walked = sorted((folder, sorted(names), sorted(files)) for folder, names, files in os.walk("paths"))
    return kinds, walked, sorted(os.listdir("samples")), sorted(glob.glob("images/**/*.jpg", recursive=True))


@case
def scanned_and_opened():
    return [read(e.path) for e in sorted(os.scandir("paths/deep"), key=lambda e: e.name) if e.is_file()]


@case
def relative_to_a_folder():
    folder = os.open("paths", os.O_RDONLY | os.O_DIRECTORY)
    deep = os.open("deep", os.O_PATH | os.O_DIRECTORY, dir_fd=folder)
    contents = []
    below = [(folder, name) for name in ("file", "deep/file", "link")]
    for at, name in below + [(deep, name) for name in ("file", "er/file", "../file")]:
        fd = os.open(name, os.O_RDONLY, dir_fd=at)
        contents.append((os.read(fd, 100), os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=at))))
        os.close(fd)
    return contents, sorted(os.listdir(folder))


@case
def fwalk():
    contents = []
    for _, _, files, folder in os.fwalk("images"):
        for name in sorted(files):
            with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
                contents.append(len(file.read()))
    return sorted(contents)


@case
def opener():
    folder = os.open("paths/deep", os.O_RDONLY)
    with open("file", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)) as file:
        return file.read()


@case
def another_current_folder():
    here = os.open(".", os.O_RDONLY)
    os.chdir("paths/deep")
    contents = [read("file"), read("er/file"), read("../file")]
    os.fchdir(here)
    return contents, read("paths/file")


@case
def proc_self_fd():
    with open("paths/file", "rb") as file:
        by_name = os.open("paths/deep/file", os.O_PATH)
        return read(f"/proc/self/fd/{file.fileno()}"), read(f"/proc/self/fd/{by_name}")


@case
def extended_attributes():
    os.setxattr("paths/file", "user.remark", b"kept")
    with open("paths/file", "rb") as file, open("paths/deep/file") as other:
        return (
            os.listxattr(file.fileno()),
            os.getxattr(file.fileno(), "user.remark"),
            os.listxattr(other.fileno()),
            os.listxattr("paths/file"),
        )


@case
def access():
    names = NAMES + ["paths/dangling"]
    return [(os.access(name, os.R_OK), os.access(name, os.X_OK), os.path.exists(name)) for name in names]


@case
def flags():
    with open("paths/file") as file:
        fd = file.fileno()
        return fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD), stat.S_ISREG(os.fstat(fd).st_mode)

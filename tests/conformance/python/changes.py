"""Files and names of the data set are changed, by Python's own library; each is read before and afterwards."""
import fileinput, os, pathlib, shutil, tempfile

from cases import case, error, read


@case
def write():
    before = read("samples/001.bin")
    with open("samples/001.bin", "wb") as file:
        file.write(b"new")
    return before, read("samples/001.bin")


@case
def append():
    before = read("samples/002.bin")
    with open("samples/002.bin", "ab") as file:
        file.write(b"more")
    return read("samples/002.bin") == before + b"more"


@case
def read_and_write():
    with open("samples/003.bin", "rb+") as file:
        start = file.read(10)
        file.seek(0)
        file.write(start[::-1])
    return start, read("samples/003.bin")


@case
def opened_to_write_and_not_written():
    open("samples/004.bin", "ab").close()
    os.close(os.open("samples/004.bin", os.O_RDWR))
    return read("samples/004.bin")


@case
def create():
    with open("samples/new.bin", "x") as file:
        file.write("new")
    pathlib.Path("samples/touched").touch()
    pathlib.Path("samples/005.bin").touch()
    return read("samples/new.bin"), read("samples/touched"), os.stat("samples/005.bin").st_mtime > 1577836801


@case
def edited_in_place():
    lines = []
    with fileinput.input(["paths/file", "paths/deep/file"], inplace=True) as file:
        for line in file:
            lines.append(line)
            print(line.upper(), end="")
    return lines, read("paths/file"), read("paths/hard-link"), read("paths/deep/file"), read("paths/link")


@case
def edited_in_place_with_backup():
    with fileinput.input("paths/deep/er/file", inplace=True, backup=".bak") as file:
        for line in file:
            print("edited", line, end="")
    return read("paths/deep/er/file"), read("paths/deep/er/file.bak")


@case
def replaced():
    with open("samples/006.new", "w") as file:
        file.write("replaced")
    before = read("samples/006.bin")
    os.replace("samples/006.new", "samples/006.bin")
    return before, read("samples/006.bin")


@case
def renamed_onto_another():
    both = read("samples/007.bin"), read("samples/008.bin")
    os.rename("samples/007.bin", "samples/008.bin")
    return both, read("samples/008.bin")


@case
def exchanged():
    os.rename("samples/009.bin", "samples/turn")
    os.rename("samples/010.bin", "samples/009.bin")
    os.rename("samples/turn", "samples/010.bin")
    return read("samples/009.bin"), read("samples/010.bin")


@case
def truncated():
    before = read("samples/011.bin")
    os.truncate("samples/011.bin", 100)
    with open("samples/012.bin", "rb+") as file:
        file.truncate(50)
    return before, read("samples/011.bin"), read("samples/012.bin")


@case
def removed_and_made_again():
    before = read("samples/013.bin")
    os.remove("samples/013.bin")
    error("removed", open, "samples/013.bin")
    pathlib.Path("samples/013.bin").write_bytes(b"again")
    return before, read("samples/013.bin")


@case
def removed_while_open():
    with open("samples/014.bin", "rb") as file:
        os.remove("samples/014.bin")
        return file.read()


@case
def link_in_its_place():
    os.remove("samples/015.bin")
    os.symlink("016.bin", "samples/015.bin")
    return read("samples/015.bin") == read("samples/016.bin")


@case
def mode_and_time_by_descriptor():
    fd = os.open("samples/018.bin", os.O_RDONLY)
    os.fchmod(fd, 0o640)
    os.utime(fd, (1600000000, 1600000000))
    os.setxattr(fd, "user.remark", b"set")
    after = os.stat("samples/018.bin")
    return oct(after.st_mode), after.st_mtime, os.listxattr("samples/018.bin"), os.listxattr(fd)


@case
def mode_and_time_by_path():
    os.chmod("samples/019.bin", 0o600)
    os.utime("samples/019.bin", (1600000000, 1600000000))
    with open("samples/019.bin") as file:
        after = os.fstat(file.fileno())
    return oct(after.st_mode), after.st_mtime


@case
def written_through_proc():
    with open("samples/020.bin", "rb") as file, open(f"/proc/self/fd/{file.fileno()}", "rb+") as again:
        again.write(b"written")
    return read("samples/020.bin")


@case
def temporary_files():
    with tempfile.NamedTemporaryFile(dir="samples") as file:
        file.write(b"temporary")
        file.flush()
        contents = [read(file.name)]
    fd, name = tempfile.mkstemp(dir="samples", suffix=".bin")
    os.write(fd, b"made")
    contents.append(read(name))
    os.replace(name, "samples/021.bin")
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(b"no name")
        file.seek(0)
        contents.append(file.read())
    with tempfile.TemporaryDirectory(dir="samples") as folder:
        shutil.copy("samples/022.bin", folder)
        contents.append(read(f"{folder}/022.bin"))
    return contents, read("samples/021.bin"), sorted(os.listdir("samples"))


@case
def copied():
    shutil.copyfile("samples/022.bin", "copy-1")
    shutil.copy2("samples/022.bin", "copy-2")
    shutil.copyfile("samples/022.bin", "samples/023.bin")
    shutil.copyfile("paths/link", "copy-3", follow_symlinks=False)
    same = read("copy-1") == read("copy-2") == read("samples/023.bin")
    return same, os.stat("copy-2").st_mtime_ns, os.readlink("copy-3")


@case
def copied_by_descriptor():
    with open("samples/022.bin", "rb") as source, open("copy-4", "wb") as target:
        return os.copy_file_range(source.fileno(), target.fileno(), 1000), source.tell()


@case
def tree_copied():
    shutil.copytree("images", "images-copy")
    shutil.copytree("paths", "paths-copy", symlinks=True)
    return read("images-copy/cat/1.png") == read("images/cat/1.png"), os.stat("images-copy/cat/1.png").st_mtime_ns


@case
def tree_copied_onto_another():
    pathlib.Path("images-copy/cat/1.png").write_bytes(b"other")
    shutil.copytree("images-copy", "images", dirs_exist_ok=True)
    return read("images/cat/1.png")


@case
def moved():
    shutil.move("images/cat/2.png", "images/dog/moved.png")
    shutil.move("images/dog", "birds")
    error("moved away", open, "images/dog/1.png")
    return read("birds/moved.png"), read("birds/1.png")


@case
def folder_in_its_place():
    os.mkdir("images/dog")
    pathlib.Path("images/dog/1.png").write_bytes(b"another dog")
    return read("images/dog/1.png")


@case
def tree_removed():
    before = read("arrays/small.npy")
    shutil.rmtree("arrays")
    error("removed with its folder", open, "arrays/small.npy")
    os.mkdir("arrays")
    pathlib.Path("arrays/small.npy").write_bytes(b"new")
    return before, read("arrays/small.npy")


@case
def packed_and_unpacked():
    shutil.make_archive("records", "tar", ".", "records")
    shutil.unpack_archive("records.tar", "unpacked")
    os.remove("records.tar")
    return read("unpacked/records/meta.json") == read("records/meta.json")


@case
def relative_to_a_folder():
    folder = os.open("packed", os.O_RDONLY)
    before = read("packed/lines.gz")
    fd = os.open("lines.gz", os.O_WRONLY | os.O_TRUNC, dir_fd=folder)
    os.write(fd, b"new")
    os.rename("lines.bz2", "lines.xz", src_dir_fd=folder, dst_dir_fd=folder)
    os.remove("all.zip", dir_fd=folder)
    return before, read("packed/lines.gz"), read("packed/lines.xz"), os.listdir(folder)


# The last one, since nothing is served after it: nobody can tell the other names of what is written.
@case
def hard_link():
    os.link("samples/017.bin", "samples/linked")
    with open("samples/linked", "ab") as file:
        file.write(b"by another name")
    return read("samples/017.bin")[-15:], read("samples/linked")[-15:]

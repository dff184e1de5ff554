"""LMDB environments: reading."""
import lmdb

from cases import case, error


def records(path, **options):
    with lmdb.open(path, readonly=True, **options) as env, env.begin(buffers=True) as txn:
        return env.stat()["entries"], b"".join(bytes(value) for _, value in txn.cursor())


@case
def without_locks():
    return [records("lmdb", lock=False), records("lmdb-without-lock", lock=False)]


@case
def with_locks():
    return [records("lmdb", lock=True), records("lmdb-without-lock", lock=True)]


@case
def two_readers():
    with lmdb.open("lmdb", readonly=True, lock=False) as env, env.begin() as first, env.begin() as second:
        return first.get(b"00000003") == second.get(b"00000003"), env.path()


@case
def file_instead_of_folder():
    return records("lmdb/data.mdb", subdir=False, lock=False)


@case
def random_order():
    with lmdb.open("lmdb", readonly=True, lock=False, readahead=False) as env, env.begin() as txn:
        return b"".join(txn.get(b"%08d" % (n * 37 % 100)) for n in range(100))


error("a missing folder", lmdb.open, "none", readonly=True)
error("a folder without data", lmdb.open, "samples", readonly=True, lock=False)

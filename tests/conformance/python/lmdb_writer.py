"""An LMDB environment that is read, written, and read again."""
import os

import lmdb

from cases import case


def get(key, **options):
    with lmdb.open("lmdb", readonly=True, **options) as env, env.begin() as txn:
        return txn.get(key)


@case
def before():
    return get(b"00000001", lock=False)


@case
def written():
    with lmdb.open("lmdb", map_size=1 << 20) as env:
        with env.begin(write=True) as txn:
            txn.put(b"00000001", b"new")
            txn.delete(b"00000002")
        with env.begin() as txn:
            return txn.get(b"00000001"), txn.get(b"00000002"), env.stat()["entries"]


@case
def read_back():
    return [(get(b"00000001", lock=lock), get(b"00000002", lock=lock)) for lock in (False, True)]


@case
def read_back_by_a_child():
    child = os.fork()
    if child == 0:
        os._exit(0 if get(b"00000001", lock=False) == b"new" else 1)
    return os.waitpid(child, 0)[1]


@case
def copied():
    with lmdb.open("lmdb", readonly=True, lock=False) as env:
        os.mkdir("lmdb-copy")
        env.copy("lmdb-copy")
    with lmdb.open("lmdb-copy", readonly=True, lock=False) as env, env.begin() as txn:
        return txn.get(b"00000001"), env.stat()["entries"]

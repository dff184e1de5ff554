"""An LMDB environment is open for reading when another process commits: the next transaction sees it."""
import subprocess, sys

import lmdb

from cases import case

WRITE = """
import lmdb, sys
with lmdb.open("lmdb", map_size=1 << 20) as env, env.begin(write=True) as txn:
    txn.put(b"00000001", sys.argv[1].encode())
"""


def get(env, key):
    with env.begin() as txn:
        return txn.get(key), env.stat()["entries"]


def read_while_written(written, lock):
    with lmdb.open("lmdb", readonly=True, lock=lock) as env:
        before = get(env, b"00000003")
        subprocess.run([sys.executable, "-c", WRITE, written], check=True)
        return before, get(env, b"00000001"), get(env, b"00000003")


@case
def with_locks():
    return read_while_written("first", True)


@case
def without_locks():
    return read_while_written("second", False)

"""What one process has open for reading and has locked, another finds locked."""
import fcntl, sqlite3, subprocess, sys

import h5py

from cases import case, read


@case
def without_a_lock():
    return read("samples/001.bin")


def elsewhere(program, *args):
    """What a program prints in another process."""
    return subprocess.run([sys.executable, "-c", program, *args], stdout=subprocess.PIPE, check=True, text=True).stdout


TRY = """
import fcntl, sys
how, name, mode, kind = sys.argv[1:]
with open(name, mode) as file:
    try:
        getattr(fcntl, how)(file, getattr(fcntl, kind) | fcntl.LOCK_NB)
        print("not locked")
    except OSError as e:
        print(e)
"""


@case
def flock():
    outcomes = []
    with open("samples/009.bin", "rb") as file:
        for mine, theirs, mode in ("SH", "SH", "rb"), ("SH", "EX", "rb"), ("EX", "SH", "rb"), ("EX", "EX", "rb+"):
            fcntl.flock(file, getattr(fcntl, f"LOCK_{mine}"))
            outcomes.append(elsewhere(TRY, "flock", file.name, mode, f"LOCK_{theirs}"))
        fcntl.flock(file, fcntl.LOCK_UN)
        outcomes.append(elsewhere(TRY, "flock", file.name, "rb+", "LOCK_EX"))
    return outcomes


@case
def lockf():
    outcomes = []
    with open("samples/010.bin", "rb") as file:
        fcntl.lockf(file, fcntl.LOCK_SH)
        outcomes.append(elsewhere(TRY, "lockf", file.name, "rb", "LOCK_SH"))
        outcomes.append(elsewhere(TRY, "lockf", file.name, "rb+", "LOCK_EX"))
    outcomes.append(elsewhere(TRY, "lockf", file.name, "rb+", "LOCK_EX"))
    return outcomes


WRITE_HDF5 = """
import h5py, sys
try:
    h5py.File(sys.argv[1], "r+")
    print("not locked")
except OSError as e:
    print(e)
"""


@case
def hdf5():
    with h5py.File("h5/data.h5", "r") as file:
        return elsewhere(WRITE_HDF5, "h5/data.h5"), float(file["plain"][()].sum())


WRITE_SQLITE = """
import sqlite3, sys
table = sqlite3.connect(sys.argv[1], timeout=0)
try:
    with table:
        table.execute("DELETE FROM sample")
    print("not locked")
except sqlite3.OperationalError as e:
    print(e)
"""


@case
def sqlite():
    table = sqlite3.connect("file:records/table.sqlite?mode=ro", uri=True)
    rows = table.execute("SELECT id FROM sample")
    first = next(rows)
    outcome = elsewhere(WRITE_SQLITE, "records/table.sqlite")
    return first, outcome, len(rows.fetchall()), elsewhere(WRITE_SQLITE, "records/table.sqlite")

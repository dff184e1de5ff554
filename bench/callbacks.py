"""callbacks.py BUILD CONFIG ROUNDS DATASET...: times attach and detach, staging in between (see callbacks.sh)."""

import json
import os
import statistics
import subprocess
import sys
import time

build, config, rounds, datasets = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
stager = build + "/monarch-stager"


def timed(arguments, *fields):
    request = b"".join(field.encode() + b"\0" for field in fields)
    start = time.perf_counter()
    subprocess.run(arguments, input=request, check=True)
    return (time.perf_counter() - start) * 1000


def until(condition):
    while not condition():
        time.sleep(0.05)


def staged():
    status = subprocess.run(
        [build + "/monarchctl", "--config", config, "status", "--json"], check=True, capture_output=True
    ).stdout
    return any(lease["state"] == "staged" for lease in json.loads(status)["leases"])


def reaped():
    """No `monarch-stager reap` runs: its work in the background is not the callbacks'."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"monarch-stager\0reap" in file.read():
                    return False
        except OSError:
            pass
    return True


def row(name, *columns):
    text = [f"{statistics.median(c):.1f} / {max(c):.1f}" for c in columns]
    print(f"{name:>20}" + "".join(f"{t:>20}" for t in text))


print(f"Callbacks of the plugin: milliseconds, median / largest of {rounds}")
print(f"{'':>20}{'prolog (attach)':>20}{'epilog (detach)':>20}")
job = 0
for dataset in datasets:
    attach, detach = [], []
    for _ in range(rounds):
        job += 1
        until(reaped)
        attach.append(
            timed(
                [stager, "attach", "--config", config],
                f"job={job}", "uid=61001", "gid=61001", "node=n0", "partition=main",
                "option.dataset=" + dataset, "option.capacity=1GiB",
            )
        )
        until(staged)
        until(reaped)
        detach.append(timed([stager, "detach", "--config", config], f"job={job}", "node=n0"))
    row(os.path.basename(dataset) + " files", attach, detach)
nothing = [timed(["/bin/true"]) for _ in range(rounds)]
row("an empty program", nothing, nothing)

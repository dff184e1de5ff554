#!/usr/bin/env python3
"""The demo's table: table.py MEASURED SOURCE NODES.

MEASURED holds, for each of the jobs `without` and `with`: what train.py measured (JOB/RANK.json), slowfs's counters
(JOB.before.json, JOB.after.json) and Slurm's number of the job (JOB.job) and how long it took (JOB.us). SOURCE is the data
set without slowfs, NODES holds a folder a node. Exit status 1 when a job read other bytes than the source has.
"""
import hashlib
import json
import pathlib
import sqlite3
import sys

measured, source, nodes = (pathlib.Path(argument) for argument in sys.argv[1:4])
JOBS = ("without", "with")
NOT_OPERATIONS = {"bytes_read", "bytes_written", "inflight", "inflight_max", "control_loads", "control_errors", "sequence"}


def ranks(job):
    return [json.loads(path.read_text()) for path in sorted((measured / job).glob("*.json"))]


def source_counters(job):
    before, after = (json.loads((measured / f"{job}.{when}.json").read_text()) for when in ("before", "after"))
    counters = {name: after[name] - before[name] for name in after}
    counters["operations"] = sum(number for name, number in counters.items() if name not in NOT_OPERATIONS)
    return counters


def ledger_opens(job):
    """Opens served locally and by the source, from the leases of the job on all nodes."""
    number = (measured / f"{job}.job").read_text().strip()
    local = at_source = 0
    for path in sorted(nodes.glob("*/state/ledger/ledger.db")):
        ledger = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        for row in ledger.execute("SELECT opens_local, opens_source FROM lease WHERE job = ?", (number,)):
            local, at_source = local + row[0], at_source + row[1]
        ledger.close()
    return local, at_source


def line(what, without, staged, ratio=""):
    print(f"  {what:<30}{without:>16}{staged:>16}{ratio:>10}".rstrip())


def factor(without, staged):
    return f"{without / staged:.1f} x" if staged else ""


def compare(what, name, scale=1):
    values = [seen[job][name] for job in JOBS]
    line(what, *(f"{value / scale:,.0f}" for value in values), factor(*values))


results = {job: ranks(job) for job in JOBS}
seen = {job: source_counters(job) for job in JOBS}

line("", "without", "with", "ratio")
for epoch, times in enumerate(zip(*(zip(*(rank["seconds"] for rank in results[job])) for job in JOBS))):
    slower = [max(of_ranks) for of_ranks in times]
    line(f"epoch {epoch + 1}, the slower node", *(f"{seconds:.1f} s" for seconds in slower), factor(*slower))
seconds = [int((measured / f"{job}.us").read_text()) / 1e6 for job in JOBS]
line("from sbatch to the end", *(f"{value:.1f} s" for value in seconds), factor(*seconds))

# Without a session nobody counts the opens but the job itself: each of its reads is one.
reads = {job: [read for rank in results[job] for read in rank["digests"]] for job in JOBS}
opens = {job: ledger_opens(job) for job in JOBS}
line("opens served locally", *(f"{opens[job][0]:,}" for job in JOBS))
line("opens served by the source", f"{len(reads['without']):,}", f"{opens['with'][1]:,}")
compare("the source saw: opens", "open")
compare("the source saw: operations", "operations")
compare("the source gave: MB", "bytes_read", 1e6)

truth = {str(path.relative_to(source)): hashlib.sha256(path.read_bytes()).hexdigest() for path in source.rglob("*") if path.is_file()}
right = {job: sum(truth.get(path) == digest for path, digest in reads[job]) for job in JOBS}
line("reads with the right sha256", *(f"{right[job]:,} of {len(reads[job]):,}" for job in JOBS))
if any(right[job] != len(reads[job]) or not reads[job] for job in JOBS):
    sys.exit("demo: a job read other bytes than the source has")

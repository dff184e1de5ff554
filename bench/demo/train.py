#!/usr/bin/env python3
"""The demo's job: a training loop without the training.

train.py FOLDER EPOCHS reads what a data loader would, in plain Python: rank r of w takes every w-th file of an order that
is shuffled anew each epoch. Hashing stands for decoding. It prints the time of each epoch, and leaves in
$RESULTS/RANK.json what it measured and the sha256 of all that it read.
"""
import hashlib
import json
import os
import random
import sys
import time

folder, epochs = sys.argv[1], int(sys.argv[2])
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
node = os.environ["SLURMD_NODENAME"]

files = sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
times, digests = [], []
for epoch in range(epochs):
    order = files.copy()
    random.Random(epoch).shuffle(order)
    start = time.monotonic()
    for path in order[rank::world]:
        with open(path, "rb") as file:
            data = file.read()
        digests.append((os.path.relpath(path, folder), hashlib.sha256(data).hexdigest()))
    times.append(time.monotonic() - start)
    print(f"epoch {epoch + 1} on {node}: {times[-1]:.1f} s", flush=True)

os.makedirs(os.environ["RESULTS"], exist_ok=True)
with open(f"{os.environ['RESULTS']}/{rank}.json", "w", encoding="utf-8") as out:
    json.dump({"seconds": times, "digests": digests}, out)

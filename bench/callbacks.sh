#!/usr/bin/env bash
# What prolog and epilog add to a job: the wall time of what the plugin's two callbacks run and wait for, `monarch-stager
# attach` and `detach`, for data sets of different sizes. Run by `make bench` inside tests/cluster/sandbox.sh.
set -euo pipefail
: "${MONARCH_SANDBOX:?run this by make bench}"
: "${BUILD:?}"
rounds=${1:-20}
S=$MONARCH_SANDBOX
mount -t tmpfs -o size=4g,mode=755 bench /mnt
mkdir -p "$S/etc" /mnt/data
cat >"$S/etc/monarch.toml" <<T
[paths]
state = "$S/state"
run = "$S/run"
results = "$S/results"
[[tier]]
name = "ram"
tmpfs = "64MiB"
[[tier]]
name = "nvme"
path = "/mnt/tier"
T
"$BUILD/monarchctl" --config "$S/etc" tier init >/dev/null
chmod 711 "$S"
for files in 100 10000; do
    "$BUILD/mkdataset" --files "$files" --classes 10 --mean-bytes 4096 "/mnt/data/$files" >/dev/null
done
python3 "$(dirname "$0")/callbacks.py" "$BUILD" "$S/etc" "$rounds" /mnt/data/100 /mnt/data/10000

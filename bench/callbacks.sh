#!/usr/bin/env bash
# What prolog and epilog add to a job: the wall time of the plugin's two callbacks, which is that of `monarch-stager attach`
# and `detach`, for data sets of different sizes. Run by `make bench` inside tests/cluster/sandbox.sh.
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

fields() { local f; for f in "$@"; do printf '%s\0' "$f"; done; }
now() { date +%s%N; }
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f %.1f", v[int((NR + 1) / 2)], v[NR] }'; }

measure() { # FILES
    local n start
    : >"$S/attach" && : >"$S/detach"
    for ((n = 0; n < rounds; n++)); do
        start=$(now)
        fields job=$((n + 1)) uid=61001 gid=61001 node=n0 partition=main option.dataset="/mnt/data/$1" option.capacity=1GiB |
            "$BUILD/monarch-stager" attach --config "$S/etc"
        echo $((($(now) - start) / 10000)) | sed 's/..$/.&/' >>"$S/attach"
        # Let it stage, so that detach has something to leave behind.
        until [ "$(staged)" = "$1" ]; do sleep 0.05; done
        start=$(now)
        fields job=$((n + 1)) node=n0 | "$BUILD/monarch-stager" detach --config "$S/etc"
        echo $((($(now) - start) / 10000)) | sed 's/..$/.&/' >>"$S/detach"
    done
    printf '%10s  %17s  %17s\n' "$1" "$(median <"$S/attach" | sed 's/ / \/ /')" "$(median <"$S/detach" | sed 's/ / \/ /')"
}

staged() {
    "$BUILD/monarchctl" --config "$S/etc" status --json | jq '[.leases[] | select(.state == "staged") | .files_staged] | first // 0'
}

echo "Callbacks of the plugin, ms, median / largest of $rounds"
printf '%10s  %17s  %17s\n' FILES "PROLOG (attach)" "EPILOG (detach)"
for files in 100 10000; do
    "$BUILD/mkdataset" --files "$files" --classes 10 --mean-bytes 4096 "/mnt/data/$files" >/dev/null
    measure "$files"
done

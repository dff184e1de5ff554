#!/usr/bin/env bash
# The demo, run by `make demo`: the same job twice on a throwaway Slurm of two nodes, without and with Monarch.
#
# Everything happens in tests/cluster/sandbox.sh: a mount and process namespace of its own and one temporary folder, so
# that nothing outlives it, also after Ctrl-C. Exit status 1 when the staged job read other bytes than the source has,
# or when anything of it is left on the nodes.
# shellcheck disable=SC2317  # functions are called by name
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export BUILD=${BUILD:-$(dirname "$here")/build}
[[ ${1-} == --inside ]] || exec "$here/../tests/cluster/sandbox.sh" bash "$here/demo.sh" --inside

# shellcheck source=tests/cluster/slurm.sh
source "$here/../tests/cluster/slurm.sh"

files=2000
epochs=3
latency_us=3000
streams=8
ram=96MiB

S=$MONARCH_SANDBOX
source_dir=/mnt/shared/pictures
etc=$S/etc/monarch
measured=$S/measured
export XDG_STATE_HOME=$S/root # what root runs with `monarchctl run` is no part of this

# ---- how it looks --------------------------------------------------------------------------------------------

bold='' dim='' red='' green='' plain=''
if [[ -t 1 && -z ${NO_COLOR-} && ${TERM-dumb} != dumb ]]; then
    bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

heading() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
say() { printf '  %s\n' "$@"; }
typed() { printf '  %s%s%s\n' "$bold" "$1" "$plain"; }
indented() { sed "/./ { s/^/    $dim/; s/\$/$plain/ }"; }
die() {
    printf '%s\n' "${red}demo: $1$plain" >&2
    exit 1
}

# ---- the stage -----------------------------------------------------------------------------------------------

# A copy of the programs where every user may reach them: a clone in root's home is closed to ada.
install_programs() {
    local name
    mkdir -p "$S/bin"
    for name in monarchctl monarch-stager libmonarch.so spank_monarch.so slowfs mkdataset; do
        [[ -e $BUILD/$name ]] || die "$BUILD/$name is missing: call make demo"
        install -m 755 "$BUILD/$name" "$S/bin/"
    done
    PATH=$S/bin:$PATH
}

# In memory, and visible in this namespace alone: a disk for each node, and the place where the slow source shows.
make_disks() {
    local node
    mount -t tmpfs -o mode=755,size=1m monarch /mnt
    mkdir -p "$source_dir" "$measured"
    for node in "${SLURM_NODES[@]}"; do
        mkdir "/mnt/$node"
        mount -t tmpfs -o mode=755,size=1g monarch "/mnt/$node"
    done
}

# The machine's own pictures in class folders, where it has enough of a size worth staging; else false.
real_pictures() {
    local found n=0 file
    found=$(find /usr/share /usr/local/share /srv -xdev -type f -size +20k -size -2000k \
        \( -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png' \) 2>/dev/null | sed -n "1,${files}p")
    [ "$(wc -l <<<"$found")" -eq "$files" ] || return 1
    while read -r file; do
        install -D -m 644 "$file" "$S/pictures/train/class$((n % 20))/$n.${file##*.}" || return 1
        n=$((n + 1))
    done <<<"$found"
}

make_source() {
    real_pictures || mkdataset --files "$files" --classes 20 --mean-bytes 110000 --seed 1 "$S/pictures" >/dev/null
    chmod -R a+rX "$S/pictures"
    slowfs --metadata-latency-us "$latency_us" --data-latency-us "$latency_us" --attr-timeout-s 1 \
        --stats "$measured/now.json" --pidfile "$S/slowfs.pid" "$S/pictures" "$source_dir"
}

configure() {
    mkdir -p "$etc/policy.d" "$etc/datasets.d"
    cat >"$etc/monarch.toml" <<T
[paths]
state = "/mnt/%n/state"
run = "/mnt/%n/run"

[[tier]]
name = "ram"
tmpfs = "$ram"

[[tier]]
name = "nvme"
path = "/mnt/%n/monarch"
capacity = "90%"
T
    cat >"$etc/policy.d/50-vision.toml" <<T
[[rule]]
groups = ["vision"]
max_capacity = { ram = "$ram", nvme = "500MiB" }
max_streams = $streams
T
    cat >"$etc/datasets.d/pictures.toml" <<T
[dataset.pictures]
source = "$source_dir"
description = "$files pictures in 20 classes"
T
    slurm_plugstack "optional $S/bin/spank_monarch.so config=$etc"
}

# admin ARGUMENT…: monarchctl as the administrator types it; --config is left out of what is shown.
admin() {
    typed "# monarchctl $*"
    monarchctl --config "$etc" "$@" | sed "s|$etc|/etc/monarch|" | indented
}

# ---- the jobs ------------------------------------------------------------------------------------------------

write_job() {
    install -m 644 "$here/demo/train.py" "$S/home/ada/"
    cat >"$S/home/ada/job.sh" <<T
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive
srun /usr/bin/python3 train.py $source_dir $epochs
T
    chown ada: "$S/home/ada/job.sh"
}

# What slowfs has counted up to now: the version after the next one cannot have been begun before.
sequence() { sed -n 's/.*"sequence": *\([0-9]*\).*/\1/p' "$measured/now.json"; }
sequence_reached() { (($(sequence) >= $1)); }
count_source() { # FILE
    local wanted
    wanted=$(($(sequence) + 2))
    kill -USR1 "$(cat "$S/slowfs.pid")"
    poll 10 sequence_reached "$wanted" || die "slowfs does not write its counters"
    cp "$measured/now.json" "$measured/$1"
}

# run_job NAME WHILE SBATCH-OPTION…: calls WHILE until the job and its epilogs have ended; sets $job.
run_job() {
    local name=$1 while=$2 start
    shift 2
    typed "ada\$ sbatch $*${*:+ }job.sh"
    count_source "$name.before.json"
    shown=0
    start=${EPOCHREALTIME//[!0-9]/}
    # RESULTS is where train.py leaves what it measured.
    job=$(submit ada --output="$name.out" --export="ALL,RESULTS=$name" "$@" job.sh) || die "sbatch refused the job"
    until left_queue "$job"; do
        "$while" "$name"
        sleep 0.2
    done
    echo $((${EPOCHREALTIME//[!0-9]/} - start)) >"$measured/$name.us"
    "$while" "$name"
    count_source "$name.after.json"
    [[ $(job_field "$job" JobState) == COMPLETED ]] || { job_output "$job" >&2; die "job $job did not complete"; }
    echo "$job" >"$measured/$name.job"
    cp -r "$S/home/ada/$name" "$measured/"
}

# The lines of the job's output that have not been shown yet.
show_output() {
    local lines
    mapfile -t lines < <(tail -n "+$((shown + 1))" "$S/home/ada/$1.out" 2>/dev/null)
    shown=$((shown + ${#lines[@]}))
    [[ ${#lines[@]} -eq 0 ]] || printf '%s\n' "${lines[@]}" | indented
}

# ---- live status ---------------------------------------------------------------------------------------------

node0_status() { monarchctl --config "$etc" status --node node0; }

# On a terminal the tables are drawn over themselves; elsewhere they are printed when there is news.
drawn=0 news=''
show_status() {
    local text
    text=$(node0_status 2>/dev/null) || return 0
    grep -Eq ' pictures +(copying|staged) ' <<<"$text" || return 0
    [[ -n $news ]] || typed "# monarchctl status --node node0"
    if [[ -t 1 ]]; then
        news=drawn
        ((drawn == 0)) || printf '\e[%dA\e[J' "$drawn"
        # A line that wraps would be two.
        cut -c "1-$(($(tput cols 2>/dev/null || echo 120) - 5))" <<<"$text" | indented
        drawn=$(wc -l <<<"$text")
    else
        snapshot "$text"
    fi
}

# Everything at first, then the job's part when it gets to another state or has its first opens.
snapshot() {
    local now
    now=$(awk -v job="$job" '$1 == job { print $3, ($0 ~ /%.*%/ ? "opens" : "") }' <<<"$1")
    [[ $now != "$news" ]] || return 0
    if [[ -z $news ]]; then indented <<<"$1"; else sed -n '/^JOB/,$p' <<<"$1" | indented; fi
    news=$now
}

# ---- what is left --------------------------------------------------------------------------------------------

entries() { find "$@" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
rows() { # SQL, summed over the nodes' ledgers
    local node sum=0 n
    for node in "${SLURM_NODES[@]}"; do
        n=$(sqlite3 "/mnt/$node/state/ledger/ledger.db" "$1") || return
        sum=$((sum + n))
    done
    echo "$sum"
}
# Zombies are not counted: who has to reap them may be busy.
processes() {
    { pgrep -r D,R,S,T -x monarch-stager || true; pgrep -r D,R,S,T -u ada || true; } | sort -u | wc -l
}

left() {
    echo "copies on tiers: $(entries /mnt/node?/monarch/{stores,trash} /mnt/node?/run/tiers/*/{stores,trash})"
    echo "run-time folders: $(entries /mnt/node?/run/{jobs,stores,trash})"
    echo "mounts: $(awk '$5 ~ "^/mnt/node[^/]*/"' /proc/self/mountinfo | wc -l)"
    echo "leases and stores: $(rows 'SELECT (SELECT count(*) FROM lease WHERE ended_at IS NULL) + (SELECT count(*) FROM store)')"
    echo "reservations of space: $(rows 'SELECT (SELECT count(*) FROM reservation) + (SELECT count(*) FROM trash)')"
    echo "processes: $(processes)"
}
nothing_left() { left >"$measured/left" && ! grep -qv ': 0$' "$measured/left"; }

# ---- the play ------------------------------------------------------------------------------------------------

install_programs
make_disks

heading "A throwaway cluster"
say "A real Slurm of two nodes, node0 and node1, in $S."
make_source
say "$files image-like files in $source_dir: a file system that answers each request" \
    "$((latency_us / 1000)) ms late, as a busy shared one does, and counts what reaches it."
say "Each node has a tier \"ram\" of $ram, and a tier \"nvme\", which is this machine's memory in the role of a disk."
configure
# shellcheck disable=SC2119  # no lines for slurm.conf
slurm_start

heading "Once: what an administrator does"
say "Write monarch.toml, a policy rule and a catalog entry, load the plugin in plugstack.conf, and type"
admin policy check
admin tier init --node node0
typed "# monarchctl tier init --node node1"
monarchctl --config "$etc" tier init --node node1 >/dev/null
admin dataset list

write_job
heading "Without Monarch"
say "Ada's job reads all files in each of $epochs epochs, half of them on each node, shuffled anew each time, with Python's" \
    "open(). Each read goes to the source."
run_job without show_output

heading "With Monarch: the same job, one option more"
say "The nodes copy the files from the moment when the job gets them. What is there is opened locally, the rest at the" \
    "source."
run_job with show_status --monarch-dataset=pictures
show_output with

heading "Measured in this run"
poll 20 nothing_left || true
status=0
/usr/bin/python3 "$here/demo/table.py" "$measured" "$S/pictures" /mnt || status=1

heading "Left on the nodes after the job"
while IFS=: read -r what number; do
    [[ $number == " 0" ]] && color=$green || color=$red
    printf '  %-30s%s%16s%s\n' "$what" "$color" "${number# }" "$plain"
done <"$measured/left"
nothing_left || status=1
slurm_assert_not_drained || status=1
slurm_stop
exit "$status"

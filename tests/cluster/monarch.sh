# shellcheck shell=bash
# shellcheck disable=SC2016,SC2119,SC2120
# Monarch on the Slurm of slurm.sh: to be sourced by a bats file at its top, which then needs no teardown_file.
#
#   monarch_start [LINE…]         configuration, two tiers a node (ram, nvme), the plugin, Slurm; LINEs go to slurm.conf
#   monarch_stop
#   monarch_config, plugin [ARGUMENT…]      both anew, after a test changed them
#   make_dataset NAME [OPTION…]   mkdataset's, in $SOURCES/NAME and in the catalog
#   catalog NAME FOLDER           an entry of the catalog
#   slow_source NAME [OPTION…]    $SOURCES/NAME behind slowfs, in $SHARED/NAME and in the catalog as slow-NAME
#   slow_control NAME LINE…       what holds there from now on; without a LINE, nothing
#   slow_count NAME COUNTER       slow_since NAME COUNTER COUNT: waits for so many more since the last slow_control
#   run_job SBATCH-ARG…           submits as ada, waits, prints what the job printed; its id is in $SLURM_DIR/last
#   meet NAME COUNT               until COUNT callers met, jobs ($BIN/meet) and the test
#   digest FOLDER                 of the bytes of all its files, by name; in jobs $BIN/digest
#   ledger NODE SQL               lease NODE JOB COLUMNS
#   assert_clean                  nothing is left of any job, and both nodes are idle
#
# A node's own folders are $LOCAL/NODE/run and state, its tier nvme is the file system /mnt/NODE.

source "${BASH_SOURCE[0]%/*}/slurm.sh"

BUILD=$(realpath "${BUILD:-${BASH_SOURCE[0]%/*}/../../build}")
BIN=$MONARCH_SANDBOX/bin
ETC=$MONARCH_SANDBOX/etc-monarch
LOCAL=$MONARCH_SANDBOX/local
SOURCES=$MONARCH_SANDBOX/sources
SHARED=$MONARCH_SANDBOX/shared
MEET=$MONARCH_SANDBOX/meet

# ---- set-up --------------------------------------------------------------------------------------------------

monarch_start() {
    mkdir -p "$BIN" "$SOURCES" "$SHARED" "$LOCAL" "$MONARCH_SANDBOX/slow"
    mkdir -m 1777 "$MEET"
    # Copies: where the jobs' users can read them, and nobody replaces them while the tests run.
    cp "$BUILD"/{spank_monarch.so,monarch-stager,monarchctl,libmonarch.so} "$BIN"
    job_programs
    # Tiers lie outside /tmp; these mounts are the sandbox's own. One file system a node, so that each can be full.
    mount -t tmpfs -o mode=755 disks /mnt
    monarch_config
    local node
    for node in "${SLURM_NODES[@]}"; do
        mkdir "/mnt/$node"
        mount -t tmpfs -o mode=755,size=96m disk "/mnt/$node"
        "$BIN/monarchctl" tier init --config "$ETC" --node "$node"
    done
    plugin
    slurm_start "$@"
}

teardown_file() { monarch_stop; }

monarch_stop() {
    local name
    for name in "$SHARED"/*; do slow_control "${name##*/}"; done
    slurm_stop
    for name in "$MONARCH_SANDBOX"/slow/*.pid; do [[ ! -e $name ]] || kill "$(cat "$name")"; done
}

# Configuration, catalog and policy as they are when a test begins.
monarch_config() {
    rm -rf "$ETC"/{monarch.toml,policy.d}
    mkdir -p "$ETC/datasets.d" "$ETC/policy.d"
    cat >"$ETC/monarch.toml" <<END
[paths]
state = "$LOCAL/%n/state"
run = "$LOCAL/%n/run"
[[tier]]
name = "ram"
tmpfs = "24MiB"
[[tier]]
name = "nvme"
path = "/mnt/%n/tier"
capacity = "90%"
END
}

plugin() {
    slurm_plugstack "optional $BIN/spank_monarch.so config=$ETC $*"
}

catalog() {
    printf '[dataset.%s]\nsource = "%s"\n' "$1" "$2" >"$ETC/datasets.d/$1.toml"
}

make_dataset() {
    local name=$1
    shift
    "$BUILD/mkdataset" "$@" "$SOURCES/$name"
    catalog "$name" "$SOURCES/$name"
}

# What jobs call.
job_programs() {
    { echo '#!/bin/bash' && declare -f digest && echo 'digest "$1"'; } >"$BIN/digest"
    { echo '#!/bin/bash' && echo "MEET=$MEET" && declare -f meet && echo 'meet "$1" "$2"'; } >"$BIN/meet"
    chmod 755 "$BIN/digest" "$BIN/meet"
}

digest() {
    (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
}

meet() {
    local end=$((SECONDS + 60))
    mktemp -q "$MEET/$1.XXXXXX" >/dev/null
    until (($(find "$MEET" -name "$1.*" | wc -l) >= $2)); do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

# ---- the slow source -----------------------------------------------------------------------------------------

slow_source() {
    local name=$1 slow=$MONARCH_SANDBOX/slow/$1
    shift
    mkdir -p "$SHARED/$name"
    : >"$slow.control"
    "$BUILD/slowfs" --control "$slow.control" --stats "$slow.stats" --pidfile "$slow.pid" "$@" "$SOURCES/$name" \
        "$SHARED/$name" 3>&-
    catalog "slow-$name" "$SHARED/$name"
}

# slow_stat NAME COUNTER [before]: as written last, or when slow_control was called last.
slow_stat() {
    sed -n "s/^ *\"$2\": \([0-9]*\),*/\1/p" "$MONARCH_SANDBOX/slow/$1.${3:-stats}"
}

slow_since() {
    poll 60 slow_reached "$1" "$2" $(($(slow_stat "$1" "$2" before) + $3))
}

slow_reached() {
    (($(slow_stat "$1" "$2") >= $3))
}

# The second version of the counters from now on was begun after now.
slow_refresh() {
    local wanted=$(($(slow_stat "$1" sequence) + 2))
    kill -USR1 "$(cat "$MONARCH_SANDBOX/slow/$1.pid")"
    poll 20 slow_reached "$1" sequence "$wanted"
}

slow_count() {
    slow_refresh "$1" && slow_stat "$1" "$2"
}

slow_control() {
    local name=$1 slow=$MONARCH_SANDBOX/slow/$1 loads
    shift
    [[ -e $slow.pid ]] || return 0
    loads=$(slow_count "$name" control_loads)
    printf '%s\n' "$@" >"$slow.control.new"
    mv "$slow.control.new" "$slow.control"
    poll 20 slow_reached "$name" control_loads $((loads + 1))
    cp "$slow.stats" "$slow.before"
}

# ---- jobs and what is known of them --------------------------------------------------------------------------

run_job() {
    local id
    id=$(submit ada "$@") || return
    echo "$id" >"$SLURM_DIR/last"
    wait_job "$id"
    job_output "$id"
}

last_job() {
    cat "$SLURM_DIR/last"
}

ledger() {
    sqlite3 -cmd '.timeout 5000' "$LOCAL/$1/state/ledger/ledger.db" "$2"
}

lease() {
    ledger "$1" "select $3 from lease where job = '$2'"
}

# Whether the job's session on the node is there, and its stager.
is_attached() {
    [[ -e $LOCAL/$1/run/jobs/$2/env ]]
}

stager_of() {
    ledger "$1" "select stager_pid from store join lease on store_id = store.id where lease.job = '$2' and ended_at is null"
}

processes_of() {
    pgrep -u "$1" -x "$2"
}

# ---- what may be left of a job: nothing ----------------------------------------------------------------------

leftovers() {
    local node
    for node in "${SLURM_NODES[@]}"; do
        find "/mnt/$node"/tier/{stores,trash} "$LOCAL/$node"/run/{jobs,stores,trash} "$LOCAL/$node"/run/tiers/*/{stores,trash} \
            -mindepth 1 2>/dev/null
        [[ ! -e $LOCAL/$node/state/ledger/ledger.db ]] ||
            ledger "$node" "select 'live lease of job ' || job from lease where ended_at is null
                union all select 'store ' || id from store
                union all select 'reservation of store ' || store_id from reservation
                union all select 'trash ' || cast(path as text) from trash"
    done
    grep -o "$LOCAL/[^ ]*" /proc/mounts
    [[ ! ${MONARCH_MEMORY_CGROUP-} ]] || find "$MONARCH_MEMORY_CGROUP" -name 'monarch-stager-*'
    # An ended orphan may stay a zombie for a while: who has to reap it may be busy.
    ps -eo stat=,user:12=,args= | awk '$1 !~ /^Z/ && ($2 == "ada" || $2 == "ben" || /[m]onarch-stager/)'
}

is_clean() {
    [[ -z $(leftovers) ]]
}

assert_clean() {
    slurm_wait_idle 60
    slurm_assert_not_drained
    poll 40 is_clean && return 0
    leftovers
    return 1
}

#!/usr/bin/env bash
# sandbox.sh [--time T] [--memory SIZE] [--processes N] COMMAND…
#     run COMMAND as root where nothing that it starts, mounts or writes outlives it.
#
# COMMAND gets its own mount and process namespace, the users ada and ben, the group vision (ada is in it), and a
# folder $MONARCH_SANDBOX that is removed at the end; TMPDIR lies in it. $MONARCH_MEMORY_CGROUP is the folder of its memory
# cgroup, where that is of version 1. Exit status: COMMAND's, 124 when its time was up.
# All its processes together get at most 20 minutes (as sleep(1) takes it: 90, 20m, 1h), 12 GiB of memory (K, M, G; files on
# tmpfs count) and 4,000 processes: by cgroups, version 1 or 2; where there are none, by prlimit, so that memory is bounded a
# process and processes for ordinary users alone.
# Works in a chroot as well, also in one that is no mount point, given that /proc is mounted there.
# shellcheck disable=SC2317  # traps call what looks unreachable
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")

die() {
    echo "sandbox.sh: $*" >&2
    exit 1
}

# ---- limits --------------------------------------------------------------------------------------------------

time_limit=20m memory_limit=12G processes_limit=4000

# make_cgroup MOUNT PATH FILE…: a new cgroup, as near to PATH as one has all FILEs. Prints its folder.
make_cgroup() {
    local mount=$1 path=$2 file folder complete
    shift 2
    while :; do
        folder=${mount}${path%/}/${MONARCH_SANDBOX##*/}
        if mkdir "$folder" 2>/dev/null; then
            complete=yes
            for file in "$@"; do [[ -w $folder/$file ]] || complete=; done
            if [[ $complete ]]; then
                echo "$folder"
                return
            fi
            rmdir "$folder"
        fi
        [[ ${path%/} ]] || return 1
        path=${path%/*}
    done
}

# own_cgroup CONTROLLER: this process's cgroup in that hierarchy of version 1, or with "" in version 2's.
own_cgroup() {
    local number controllers path
    while IFS=: read -r number controllers path; do
        if [[ -z $1 && $number == 0 || -n $1 && ,$controllers, == *",$1,"* ]]; then
            echo "$path"
            return
        fi
    done </proc/self/cgroup
    return 1
}

# cgroup_mount CONTROLLER: where that hierarchy is mounted, or with "" version 2's.
cgroup_mount() {
    awk -v controller="$1" '
        controller == "" ? $3 == "cgroup2" : $3 == "cgroup" && ("," $4 ",") ~ ("," controller ",") { print $2; exit }' /proc/mounts
}

# limit_v1 CONTROLLER FILE VALUE: prints the folder.
limit_v1() {
    local mount path folder
    mount=$(cgroup_mount "$1") && path=$(own_cgroup "$1") && [[ $mount ]] || return 1
    folder=$(make_cgroup "$mount" "$path" "$2") || return 1
    echo "$3" >"$folder/$2" || { rmdir "$folder" && return 1; }
    echo "$folder"
}

# Makes the cgroups, whose folders go to `cgroups`; without them, `bounds` is the prlimit to run under.
make_limits() {
    local mount path folder
    cgroups=() bounds=()
    mount=$(cgroup_mount "") && path=$(own_cgroup "") && [[ $mount ]] &&
        folder=$(make_cgroup "$mount" "$path" memory.max pids.max) &&
        cgroups+=("$folder") && echo "$memory_limit" >"$folder/memory.max" && echo "$processes_limit" >"$folder/pids.max" &&
        return
    unset MONARCH_MEMORY_CGROUP
    if folder=$(limit_v1 memory memory.limit_in_bytes "$memory_limit"); then
        cgroups+=("$folder")
        export MONARCH_MEMORY_CGROUP=$folder
    else
        bounds+=(--data="$(numfmt --from=iec "$memory_limit")")
    fi
    if folder=$(limit_v1 pids pids.max "$processes_limit"); then
        cgroups+=("$folder")
    else
        bounds+=(--nproc="$processes_limit")
    fi
}

remove_limits() {
    local folder tries
    for folder in "${cgroups[@]}"; do
        for tries in {1..100}; do
            rmdir "$folder" 2>/dev/null && break
            sleep 0.05
        done
    done
}

# ---- outside -------------------------------------------------------------------------------------------------

# Ends the namespace, and with it every process in it. Killing its process 1 and not unshare, since unshare returns only
# when the last process of the namespace is gone; unshare itself where it has not got that far.
end_everything() {
    local init
    trap '' INT TERM HUP
    read -r init 2>/dev/null <"/proc/$unshare_pid/task/$unshare_pid/children" || init=$unshare_pid
    kill -KILL "$init" 2>/dev/null || true
    wait "$unshare_pid" 2>/dev/null || true
    exit "$1"
}

clean_up() {
    [[ -z ${timer:-} ]] || kill "$timer" 2>/dev/null || true
    remove_limits
    rm -rf --one-file-system -- "$MONARCH_SANDBOX" || true
}

# In its cgroups from the start. The shell starts background commands with SIGINT ignored, which COMMAND must not inherit;
# and --propagation private would fail where / is no mount point.
start_inside() {
    local folder
    for folder in "${cgroups[@]}"; do echo "$BASHPID" >"$folder/cgroup.procs"; done
    exec setpriv --pdeathsig KILL env --default-signal=INT,QUIT ${bounds[@]+prlimit "${bounds[@]}"} \
        unshare --mount --pid --fork --kill-child --propagation unchanged bash "$self" --inside "$@"
}

outside() {
    [[ $EUID -eq 0 ]] || die "needs root"
    [[ -r /proc/self/mountinfo ]] || die "/proc is not mounted"
    # Short, since sockets below it have 108 bytes for their whole path.
    MONARCH_SANDBOX=$(mktemp -d /tmp/monarch.XXXXXX)
    export MONARCH_SANDBOX
    cgroups=()
    trap clean_up EXIT
    chmod 755 "$MONARCH_SANDBOX"
    make_limits
    # In the background, so that a signal is seen at once.
    start_inside "$@" <&0 &
    unshare_pid=$!
    trap 'end_everything 130' INT
    trap 'end_everything 143' TERM
    trap 'end_everything 129' HUP
    setpriv --pdeathsig KILL sleep "$time_limit" </dev/null >/dev/null 2>&1 3>&- &
    timer=$!
    local status=0 ended
    wait -n -p ended "$unshare_pid" "$timer" || status=$?
    if [[ $ended == "$timer" ]]; then
        timer=
        echo "sandbox.sh: ended after $time_limit: $1" >&2
        end_everything 124
    fi
    exit "$status"
}

# ---- inside --------------------------------------------------------------------------------------------------

# Mounts made from here on must not appear outside. A chroot into a plain folder is part of a mount whose top is out of
# reach, so it cannot be made private, and anything mounted in it would show outside where that mount is shared. /proc is a
# mount of its own: made private, it can hold a private copy of the whole tree, and that becomes the new root.
make_private() {
    mount --make-rprivate / 2>/dev/null && return 0
    local root=/proc/fs
    mount --make-private /proc || die "/proc has to be a mount point in this chroot"
    mount -t tmpfs -o mode=755 monarch "$root"
    mount --make-private "$root"
    mkdir "$root/root"
    mount --rbind / "$root/root"
    mount --make-rprivate "$root/root"
    exec chroot "$root/root" env --chdir="$PWD" bash "$self" --inside-private "$@"
}

add_users() {
    local etc=$MONARCH_SANDBOX/etc home=$MONARCH_SANDBOX/home name
    mkdir "$etc" "$home"
    sed '/^\(ada\|ben\):/d' /etc/passwd >"$etc/passwd"
    sed '/^\(ada\|ben\|vision\):/d' /etc/group >"$etc/group"
    # "*" instead of "x": no password, and no line in shadow needed.
    cat >>"$etc/passwd" <<END
ada:*:61001:61001:Ada:$home/ada:/bin/bash
ben:*:61002:61002:Ben:$home/ben:/bin/bash
END
    cat >>"$etc/group" <<END
ada:*:61001:
ben:*:61002:
vision:*:61100:ada
END
    mount --bind "$etc/passwd" /etc/passwd
    mount --bind "$etc/group" /etc/group
    for name in ada ben; do install -d -m 700 -o "$name" -g "$name" "$home/$name"; done
}

dev_is_complete() {
    local name
    for name in null zero full random urandom tty ptmx fuse; do [[ -c /dev/$name ]] || return 1; done
    [[ -d /dev/pts && -d /dev/shm && -e /dev/fd ]]
}

# A /dev of the sandbox's own, for a chroot that has none or one without fuse.
make_dev() {
    mount -t tmpfs -o mode=755,nosuid monarch /dev
    mkdir /dev/pts /dev/shm
    local name numbers
    while read -r name numbers; do
        # shellcheck disable=SC2086  # major and minor
        mknod -m 666 "/dev/$name" c $numbers
    done <<'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
END
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 monarch /dev/pts
    ln -s pts/ptmx /dev/ptmx
    ln -s /proc/self/fd /dev/fd
    ln -s fd/0 /dev/stdin
    ln -s fd/1 /dev/stdout
    ln -s fd/2 /dev/stderr
}

inside() {
    mount -t proc -o nosuid,nodev,noexec proc /proc
    dev_is_complete || make_dev
    mount -t tmpfs -o mode=1777,nosuid,nodev monarch /dev/shm
    add_users
    mkdir -m 1777 "$MONARCH_SANDBOX/tmp"
    export TMPDIR=$MONARCH_SANDBOX/tmp
    # Not exec: this shell is process 1 and has to reap the orphans, else tests see daemons that have ended as zombies.
    local status=0
    "$@" || status=$?
    exit "$status"
}

while [[ ${1-} == --time || ${1-} == --memory || ${1-} == --processes ]]; do
    [[ $# -gt 2 ]] || die "usage: sandbox.sh [--time T] [--memory SIZE] [--processes N] COMMAND…"
    declare "${1#--}_limit=$2"
    shift 2
done
[[ $time_limit =~ ^[0-9]+[smh]?$ ]] || die "--time $time_limit is no time: as in 90, 20m or 1h"
[[ $memory_limit =~ ^[0-9]+[KMG]?$ ]] || die "--memory $memory_limit is no size: as in 256M or 12G"
[[ $processes_limit =~ ^[0-9]+$ ]] || die "--processes $processes_limit is no number"
case ${1-} in
"") die "usage: sandbox.sh [--time T] [--memory SIZE] [--processes N] COMMAND…" ;;
--inside)
    shift
    make_private "$@"
    inside "$@"
    ;;
--inside-private)
    shift
    inside "$@"
    ;;
*) outside "$@" ;;
esac

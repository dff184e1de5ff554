#!/usr/bin/env bash
# sandbox.sh COMMAND…   run COMMAND as root where nothing that it starts, mounts or writes outlives it.
#
# COMMAND gets its own mount and process namespace, the users ada and ben, the group vision (ada is in it), and a
# folder $MONARCH_SANDBOX that is removed at the end; TMPDIR lies in it. Exit status: COMMAND's.
# Works in a chroot as well, also in one that is no mount point, given that /proc is mounted there.
# shellcheck disable=SC2317  # traps call what looks unreachable
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")

die() {
    echo "sandbox.sh: $*" >&2
    exit 1
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

remove_folder() {
    rm -rf --one-file-system -- "$MONARCH_SANDBOX" || true
}

outside() {
    [[ $EUID -eq 0 ]] || die "needs root"
    [[ -r /proc/self/mountinfo ]] || die "/proc is not mounted"
    # Short, since sockets below it have 108 bytes for their whole path.
    MONARCH_SANDBOX=$(mktemp -d /tmp/monarch.XXXXXX)
    export MONARCH_SANDBOX
    trap remove_folder EXIT
    chmod 755 "$MONARCH_SANDBOX"

    # In the background, so that a signal is seen at once. The shell starts background commands with SIGINT ignored, which
    # COMMAND must not inherit; and --propagation private would fail where / is no mount point.
    setpriv --pdeathsig KILL env --default-signal=INT,QUIT \
        unshare --mount --pid --fork --kill-child --propagation unchanged \
        bash "$self" --inside "$@" <&0 &
    unshare_pid=$!
    trap 'end_everything 130' INT
    trap 'end_everything 143' TERM
    trap 'end_everything 129' HUP
    local status=0
    wait "$unshare_pid" || status=$?
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

case ${1-} in
"") die "usage: sandbox.sh COMMAND…" ;;
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

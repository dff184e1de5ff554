#!/usr/bin/env bats
# libmonarch.so in processes as they really are: children of every kind, scrubbed environments, other roots, no
# descriptors, no memory, seccomp, signal handlers, small stacks, sanitizers and other preloaded libraries. On a
# session made by hand (mksession): no stager, no Slurm.
#
# Every program runs twice: without Monarch on the tree $T/plain, so that it is known to be right, then with it on
# $T/monarch. The data set's files a (staged on the first tier), b (on the second) and c (not staged) say what $T/ref
# says, and so do written, written-2 and written-3 (staged), until a program writes "new" into them.

setup_file() {
    export SRC=$BATS_TEST_DIRNAME
    BUILD=$(realpath "${BUILD:-$SRC/../../build}")
    export BUILD
    export LIB=$BUILD/libmonarch.so
    export BIN=$BATS_FILE_TMPDIR
    local flags=(-std=gnu11 -O2 -Wall -Wextra "-I$SRC/../..") name
    gcc "${flags[@]}" "$SRC/mksession.c" -o "$BIN/mksession"
    for name in children limits seccomp moments; do
        gcc "${flags[@]}" "$SRC/processes_$name.c" -o "$BIN/$name" -pthread
    done
    for name in heap spy; do
        gcc "${flags[@]}" -fPIC -shared "$SRC/processes/$name.c" -o "$BIN/$name.so"
    done
}

setup() {
    PATH=$BIN:$PATH
    T=$(realpath "$(mktemp -d)")
    DS=$T/monarch/ds S=$T/job/0
    seq 1000 2000 >"$T/ref"
    local top file
    for top in "$T/plain" "$T/monarch"; do
        mkdir -p "$top/ds" "$top/other" "$top/link"
        for file in a b c written written-2 written-3; do cp "$T/ref" "$top/ds/$file"; done
        for file in a b c; do echo other >"$top/other/$file"; done
        echo fresh >"$top/ds/fresh"
    done
    mkdir -p "$S"
    mksession make "$S" "$DS" "$T/ram" "$T/nvme"
    stage 0 a written written-3
    stage 1 b written-2 written-3
    cd "$T"
}

teardown() {
    cd /
    if mountpoint -q "$T/jail$T/job"; then umount "$T/jail$T/"{job,ram,nvme,monarch}; fi 2>/dev/null
    rm -rf --one-file-system "$T"
}

# Runs a command as a task of the job.
job() { MONARCH_SESSION=$T/job LD_PRELOAD=$LIB timeout 60 "$@"; }
get() { mksession get "$S" "$@" | xargs; }
stage() { mksession stage "$S" "$@"; }

# PROGRAM MODE [ARGUMENT…]: without Monarch, then with it.
both() {
    local program=$1 mode=$2
    shift 2
    timeout 60 "$program" "$mode" "$T/plain/ds" "$T/ref" "$@" || { echo "it fails without Monarch: $program $mode"; false; }
    job "$program" "$mode" "$DS" "$T/ref" "$@"
}
# The same with a number, a small one without Monarch.
both_times() { # PROGRAM MODE N
    timeout 60 "$1" "$2" "$T/plain/ds" "$T/ref" 50 || { echo "it fails without Monarch: $1 $2"; false; }
    job "$1" "$2" "$DS" "$T/ref" "$3"
}

# A process of the job that knows nothing of what was before reads what the source says.
rereads() {
    local file
    for file; do job cat "$DS/$file" | cmp - "$DS/$file" || { echo "$file: old bytes"; false; }; done
}
all_new() {
    rereads a b c written written-2 written-3
    [ "$(cat "$DS/"{written,written-2,written-3})" = $'new\nnew\nnew' ]
}

# ---- children ----

@test "10,000 forked children open while threads open" {
    both_times children fork 10000
    [ "$(get opens_local)" -ge 6666 ]
    [ "$(get opens_source)" -ge 3333 ]
    [ "$(get processes)" = 10001 ]
}

@test "10,000 vfork children open while threads open" {
    both_times children vfork 10000
    [ "$(get opens_local)" -ge 6666 ]
}

@test "2,000 posix_spawn children open while threads open" {
    both_times children spawn 2000
    [ "$(get opens_local)" -ge 4000 ]
}

@test "the first open is in a forked child" {
    both_times children first-fork 1000
    [ "$(get opens_local opens_source)" = "$((667 + 2)) $((333 + 1))" ]
    [ "$(get processes)" = 1001 ]
}

@test "the first open is in a vfork child" {
    both_times children first-vfork 1000
    [ "$(get opens_local opens_source)" = "$((667 + 2)) $((333 + 1))" ]
}

@test "threads open for the first time while their process forks" {
    both_times children first-threads 300
    [ "$(get opens_local)" -ge 600 ]
}

@test "handlers of pthread_atfork open data-set files" {
    both_times children atfork 500
    [ "$(get opens_local)" -ge 3000 ]
}

@test "between fork and exec nothing is allocated, locked or logged" {
    LD_PRELOAD=$BIN/heap.so children heap "$T/plain/ds" "$T/ref"
    for order in "$BIN/heap.so $LIB" "$LIB $BIN/heap.so"; do
        mksession set "$S" disabled 0
        MONARCH_SESSION=$T/job LD_PRELOAD=$order children heap "$DS" "$T/ref"
    done
    # The interposer notices.
    run env LD_PRELOAD="$BIN/heap.so" python3 -c 'import os
if os.fork() == 0: os.execv("/bin/true", [b"x" * 100000])
assert os.wait()[1] == 0'
    [ "$status" -ne 0 ]
    [[ $output == *"between fork and exec"* ]]
    [ "$(get opens_local)" -ge 8 ]
    rereads a b c written
}

# ---- environments ----

@test "a program with a scrubbed environment reads the source" {
    both children exec "$T/no-such-session"
    [ "$(get opens_local opens_source)" = "14 7" ] # the parent once, each child once before its exec
    job env -i "$BIN/children" one "$DS" "$T/ref"
    job env -u MONARCH_SESSION "$BIN/children" one "$DS" "$T/ref"
    job env -u LD_PRELOAD "$BIN/children" one "$DS" "$T/ref"
    env -i LD_PRELOAD="$LIB" "$BIN/children" one "$DS" "$T/ref"
    mkdir "$T/ended"
    cp -a "$T/job" "$T/ended/job"
    rm -r "$T/ended"
    MONARCH_SESSION=$T/ended/job LD_PRELOAD=$LIB children one "$DS" "$T/ref"
    [ "$(get opens_local)" = 14 ]
}

@test "a program outlives its session and the stores" {
    coproc job moments outlive "$DS" "$T/ref"
    local pid=$COPROC_PID in=${COPROC[1]}
    read -r line <&"${COPROC[0]}"
    [ "$line" = ready ]
    rm -r "$T/job" "$T/ram" "$T/nvme"
    exec {in}>&-
    wait "$pid"
    all_new
}

# ---- another tree under the data set's name ----

# A root that has the session, the tiers and, at the data set's path, what $1 holds.
make_jail() {
    JAIL=$T/jail
    local folder
    for folder in job ram nvme; do
        mkdir -p "$JAIL$T/$folder"
        mount --bind "$T/$folder" "$JAIL$T/$folder"
    done
    mkdir -p "$JAIL$T/monarch" "$JAIL$T/plain"
    mkdir "$JAIL$T/plain/ds"
    cp "$T/plain/other/"* "$JAIL$T/plain/ds"
    mount --bind "$1" "$JAIL$T/monarch"
}

@test "chroot to where the data set's path names another tree, before the first open" {
    mkdir "$T/elsewhere"
    cp -r "$T/monarch/other" "$T/elsewhere/ds"
    make_jail "$T/elsewhere"
    both moments chroot "$JAIL" early
    [ "$(get opens_local)" = 0 ]
}

@test "chroot to where the data set's path names another tree, after an open" {
    mkdir "$T/elsewhere"
    cp -r "$T/monarch/other" "$T/elsewhere/ds"
    make_jail "$T/elsewhere"
    both moments chroot "$JAIL" late
    [ "$(get opens_local)" = 2 ]
}

@test "what is written in a root without /proc is not read from an old copy" {
    make_jail "$T/monarch"
    job moments jail-write "$DS" "$T/ref" "$JAIL"
    all_new
}

@test "another folder is mounted over the data set, before the first open" {
    both moments bind "$T/monarch/other" early
    [ "$(get opens_local)" = 0 ]
}

@test "another folder is mounted over the data set, after an open" {
    both moments bind "$T/monarch/other" late
    [ "$(get opens_local)" = 2 ]
}

@test "another folder is mounted over a folder of the data set" {
    mkdir "$DS/val"
    cp "$T/ref" "$DS/val/a"
    stage 0 val/a
    # shellcheck disable=SC2016
    run unshare --mount sh -c 'mount --bind "$0/monarch/other" "$1/val" && MONARCH_SESSION=$0/job LD_PRELOAD=$2 cat "$1/val/a"' \
        "$T" "$DS" "$LIB"
    [ "$output" = other ]
}

# ---- descriptors and limits ----

@test "a process closes every descriptor, and goes on" {
    for how in loop close_range closefrom dup2; do
        mksession set "$S" disabled 0
        before=$(get opens_local)
        both limits $how || { echo "$how"; false; }
        [ $(($(get opens_local) - before)) -ge 20 ]
        rereads a b c written
    done
}

@test "out of descriptors from before the first open" {
    both limits nofile
    [ "$(get opens_local)" -ge 5 ]
    rereads a b c written
}

@test "out of descriptors, and the first thing is a change that needs none" {
    both limits nofile-write
    rereads a b c written written-2
    run job cat "$DS/written-3"
    [ "$status" -eq 1 ]
}

@test "no address space for the session, from before the first open" {
    both limits as
    rereads a b c written written-2
}

@test "no data space for the session, from before the first open" {
    both limits data
    rereads a b c written written-2
}

@test "with RLIMIT_FSIZE 0, reading and retiring raise no SIGXFSZ" {
    both limits fsize
    rereads a b c written-2
    [ ! -e "$DS/written" ]
}

# ---- seccomp ----

# Each system call fails in one way, at one moment; what the program could do is the same without Monarch.
refused() { # ERRNO WHEN
    local call case folder top file
    for call in $(seccomp list); do
        for top in "$T/plain" "$T/monarch"; do
            folder=$top/ds/$call-$1-$2
            mkdir "$folder"
            for file in absolute relative link folder changed; do cp "$T/ref" "$folder/$file"; done
            mkdir "$top/link/$call-$1-$2"
            ln -s "$folder/link" "$top/link/$call-$1-$2/link"
        done
        case=$call-$1-$2
        stage 0 "$case/"{absolute,relative,link,folder,changed}
    done
    local wrong=()
    for call in $(seccomp list); do
        case=$call-$1-$2
        mksession set "$S" disabled 0
        timeout 60 seccomp refuse "$T/plain/ds" "$T/ref" "$call" "$1" "$2" >"$T/without" 2>&1
        job seccomp refuse "$DS" "$T/ref" "$call" "$1" "$2" >"$T/with" 2>&1 || wrong+=("$case:status")
        diff "$T/without" "$T/with" || wrong+=("$case:differs")
        for file in absolute relative link folder; do
            job cat "$DS/$case/$file" | cmp -s - "$DS/$case/$file" || wrong+=("$case/$file:old-bytes")
        done
    done
    printf '%s\n' "${wrong[@]}"
    [ ${#wrong[@]} = 0 ]
}

@test "a system call that is refused (EPERM) before the library needs it" { refused 1 first; }
@test "a system call that is refused (ENOSYS) before the library needs it" { refused 38 first; }
@test "a system call that is refused (EPERM) after a first read and a first change" { refused 1 later; }

@test "a refused system call does not make a wait longer" {
    coproc mksession hold "$S"
    local pid=$COPROC_PID
    read -r line <&"${COPROC[0]}"
    [ "$line" = held ]
    for call in futex fcntl clock_gettime newfstatat; do
        mksession set "$S" wait_deadline_ns 0
        mksession set "$S" wait_limit_ns 100000000
        mksession set "$S" wait 1
        seccomp waits "$T/plain/ds" "$T/ref" $call >"$T/without"
        job timeout 20 seccomp waits "$DS" "$T/ref" $call >"$T/with"
        cmp <(grep open "$T/without") <(grep open "$T/with")
    done
    kill "$pid"
}

@test "under a filter that kills, a program that has read before reads on" {
    for how in prctl syscall; do
        timeout 60 seccomp kill "$T/plain/ds" "$T/ref" $how >"$T/without"
        job seccomp kill "$DS" "$T/ref" $how >"$T/with" || { echo "$how: status $?"; false; }
        diff "$T/without" "$T/with"
    done
}

@test "under a filter that kills, a program that has read before writes, and no old byte is read" {
    for how in prctl syscall; do
        timeout 60 seccomp kill-write "$T/plain/ds" "$T/ref" $how >"$T/without"
        job seccomp kill-write "$DS" "$T/ref" $how >"$T/with" || { echo "$how: status $?"; false; }
        diff "$T/without" "$T/with"
        rereads a b c written
    done
}

# ---- moments ----

@test "a signal handler on a small stack opens and writes while opens are interrupted" {
    both moments handler
    all_new
    [ "$(get opens_local)" -gt 500 ]
}

@test "the first open is in a signal handler on a small stack" {
    both moments handler-first
    all_new
}

@test "a thread with a stack of little more than PTHREAD_STACK_MIN opens and writes" {
    both moments stack
    all_new
    [ "$(get opens_local)" -ge 5 ]
}

@test "threads go on after the main thread has ended" {
    both moments leaderless
    all_new
}

@test "a thread has descriptors of its own" {
    both moments own-files
    all_new
}

@test "root becomes another user after the first open" {
    chmod -R a+rwX "$T/plain" "$T/monarch"
    chmod 711 "$T"
    both moments drop "$(id -u ada)"
    all_new
}

# ---- loaders, sanitizers, other tools ----

@test "dlopen of the library late, and dlclose, are harmless" {
    both moments dlopen "$LIB"
}

@test "the library preloaded twice is the library once" {
    cp "$LIB" "$T/again.so"
    for preload in "$LIB $LIB" "$LIB:$LIB" "$LIB $T/again.so"; do
        before=$(get opens_local)
        MONARCH_SESSION=$T/job LD_PRELOAD=$preload children one "$DS" "$T/ref"
        [ "$(get opens_local)" = $((before + 2)) ]
        MONARCH_SESSION=$T/job LD_PRELOAD=$preload perl -e 'open(STDIN, "<", $ARGV[0]); print <STDIN>' "$DS/b" | cmp - "$DS/b"
    done
    MONARCH_SESSION=$T/job LD_PRELOAD="$LIB $T/again.so" moments stack "$DS" "$T/ref"
    all_new
}

@test "programs built with a sanitizer read, fork and write" {
    for sanitizer in address undefined thread; do
        for name in children moments; do
            gcc -std=gnu11 -O1 -g "-I$SRC/../.." -fsanitize=$sanitizer "$SRC/processes_$name.c" \
                -o "$BIN/$name-$sanitizer" -pthread
        done
        # Not at random addresses: ThreadSanitizer of GCC 12 does not know the widest layout of new kernels.
        for mode in "fork 200" "vfork 200" "first-fork 20" "atfork 50"; do
            # shellcheck disable=SC2086
            setarch -R "$BIN/children-$sanitizer" ${mode% *} "$T/plain/ds" "$T/ref" ${mode#* }
            # shellcheck disable=SC2086
            job setarch -R "$BIN/children-$sanitizer" ${mode% *} "$DS" "$T/ref" ${mode#* } ||
                { echo "$sanitizer: $mode"; false; }
        done
        job setarch -R "$BIN/moments-$sanitizer" outlive "$DS" "$T/ref" </dev/null || { echo "$sanitizer: writes"; false; }
    done
    [ "$(get opens_local)" -ge 1000 ]
    all_new
}

@test "another tool before the library sees what the program opens, after it does no harm" {
    cat >"$T/read.c" <<'EOF'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
static void all(int fd) {
    char bytes[512];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        if (write(1, bytes, (size_t)n) != n) _exit(1);
    close(fd);
}
int main(int argc, char** argv) {
    struct stat st;
    for (int i = 1; i < argc; i++) {
        all(open(argv[i], O_RDONLY));
        all(open64(argv[i], O_RDONLY));
        all(openat(AT_FDCWD, argv[i], O_RDONLY));
        FILE* f = fopen(argv[i], "r");
        FILE* g = fopen64(argv[i], "r");
        if (f == NULL || g == NULL || stat(argv[i], &st) != 0) return 1;
        for (int c; (c = getc(f)) != EOF;) putchar(c);
        for (int c; (c = getc(g)) != EOF;) putchar(c);
        fflush(stdout);
        fclose(f), fclose(g);
    }
    return 0;
}
EOF
    gcc -O1 "$T/read.c" -o "$T/read"
    "$T/read" "$DS/"{a,b,c} >"$T/without"
    [ "$(wc -c <"$T/without")" = $((15 * $(stat -c %s "$T/ref"))) ]
    SPY=$T/seen-without LD_PRELOAD=$BIN/spy.so "$T/read" "$DS/"{a,b,c} | cmp - "$T/without"

    SPY=$T/seen-before MONARCH_SESSION=$T/job LD_PRELOAD="$BIN/spy.so $LIB" "$T/read" "$DS/"{a,b,c} | cmp - "$T/without"
    cmp "$T/seen-without" "$T/seen-before"
    [ "$(grep -c "^open.* $DS/[abc]\$" "$T/seen-before")" = 9 ]
    [ "$(grep -c "^fopen.* $DS/[abc]\$" "$T/seen-before")" = 6 ]
    [ "$(get opens_local opens_source)" = "10 5" ]

    SPY=$T/seen-after MONARCH_SESSION=$T/job LD_PRELOAD="$LIB $BIN/spy.so" "$T/read" "$DS/"{a,b,c} | cmp - "$T/without"
    [ "$(get opens_local opens_source)" = "20 10" ]
    # What a program reads and closes, such a tool sees in either place.
    [ "$(sed -n 's/.*\(reads.*\)/\1/p' "$T/seen-after")" = "$(sed -n 's/.*\(reads.*\)/\1/p' "$T/seen-without")" ]
}

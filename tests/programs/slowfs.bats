#!/usr/bin/env bats
# slowfs (bench/slowfs.cc), the slow source of tests and benchmarks. Needs root and /dev/fuse.

setup() {
    BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    DIR=$(mktemp -d)
    chmod 755 "$DIR"
    mkdir "$DIR/src" "$DIR/mnt"
    mkdir -p "$DIR/src/train/n0000"
    for i in 1 2 3 4 5 6 7; do head -c 50000 /dev/urandom >"$DIR/src/train/n0000/$i.jpg"; done
    A=$DIR/mnt/train/n0000
    : >"$DIR/control"
}

teardown() {
    if [ -e "$DIR/pid" ]; then stop_slowfs; fi
    rm -rf --one-file-system "$DIR"
}

start_slowfs() {
    "$BUILD/slowfs" --pidfile "$DIR/pid" --stats "$DIR/stats" --control "$DIR/control" "$@" "$DIR/src" "$DIR/mnt" ||
        return
    PID=$(cat "$DIR/pid")
}

# Ended, though perhaps not yet reaped.
gone() {
    [ ! -e "/proc/$1" ] || grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null || [ ! -e "/proc/$1" ]
}

# Waits for a command to succeed.
await() {
    for _ in $(seq 1000); do
        if "$@"; then return; fi
        sleep 0.02
    done
    echo "waited in vain: $*" >&2
    return 1
}

stop_slowfs() {
    kill -TERM "$PID"
    await gone "$PID"
}

# A counter as the file has it now.
counter() { sed -n "s/^ *\"$1\": \([0-9]*\),*/\1/p" "$DIR/stats"; }

written_since() { [ "$(counter sequence)" -ge "$1" ]; }

# Waits until the file holds all that has been answered: the second version from now was begun after now.
refresh() {
    local wanted=$(($(counter sequence) + 2))
    kill -USR1 "$PID"
    await written_since "$wanted"
}

loaded() { [ "$(counter control_loads)" -ge "$1" ]; }

# Replaces the control file and waits until it holds.
control() {
    local wanted=$(($(counter control_loads) + 1))
    printf '%s\n' "$@" >"$DIR/control.new"
    mv "$DIR/control.new" "$DIR/control"
    kill -HUP "$PID"
    await loaded "$wanted"
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

read_all() {
    local start
    start=$(milliseconds)
    cat "$A"/*.jpg >/dev/null
    echo $(($(milliseconds) - start))
}

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

has_mount() { grep -q " $DIR/mnt " /proc/mounts; }

@test "shows the source's bytes, names and links as they are" {
    printf x >"$DIR/src/"$'with space, \xff\n'
    ln -s nowhere "$DIR/src/link"
    start_slowfs
    diff -r --no-dereference "$DIR/src" "$DIR/mnt"
    [ "$(readlink "$DIR/mnt/link")" = nowhere ]
    [ -e "$DIR/mnt/"$'with space, \xff\n' ]
}

@test "lists a large folder completely" {
    mkdir "$DIR/src/many"
    (cd "$DIR/src/many" && seq -f 'file_with_a_long_name_%06g' 5000 | xargs touch)
    start_slowfs
    diff <(cd "$DIR/src" && find . -printf '%p %s\n' | sort) <(cd "$DIR/mnt" && find . -printf '%p %s\n' | sort)
}

@test "adds latency, and the control file changes it" {
    start_slowfs
    fast=$(read_all)
    control 'latency 20000'
    slow=$(read_all)
    # 7 files, each at least an open and a read.
    [ "$slow" -ge 280 ]
    [ "$slow" -gt $((2 * fast)) ]
    control '# nothing'
    [ "$(read_all)" -lt "$slow" ]
}

@test "latency options: metadata and data" {
    start_slowfs --metadata-latency-us 20000
    [ "$(read_all)" -ge 140 ]
    stop_slowfs
    start_slowfs --data-latency-us 20000
    [ "$(read_all)" -ge 140 ]
}

@test "many requests wait at the same time" {
    start_slowfs
    ls "$A" >/dev/null
    control 'latency 200000'
    start=$(milliseconds)
    printf '%s\n' "$A"/{1,2,3,4,5,6,7}.jpg | xargs -P 7 -n 1 cat >/dev/null
    parallel=$(($(milliseconds) - start))
    serial=$(read_all)
    [ $((2 * parallel)) -lt "$serial" ]
    refresh
    [ "$(counter inflight_max)" -ge 4 ]
}

@test "--max-inflight holds" {
    start_slowfs --max-inflight 2 --metadata-latency-us 5000 --data-latency-us 5000
    printf '%s\n' "$A"/{1,2,3,4,5,6,7}.jpg | xargs -P 7 -n 1 cat >/dev/null
    refresh
    [ "$(counter inflight_max)" -eq 2 ]
}

@test "--bandwidth-mbs caps reads" {
    start_slowfs --bandwidth-mbs 1
    [ "$(read_all)" -ge 300 ] # 350 KB
}

@test "counts opens and bytes exactly, each epoch anew" {
    start_slowfs
    for epoch in 1 2; do
        cat "$A"/*.jpg >/dev/null
        refresh
        [ "$(counter open)" -eq $((7 * epoch)) ]
        [ "$(counter bytes_read)" -eq $((350000 * epoch)) ]
        [ "$(counter read)" -ge $((7 * epoch)) ]
    done
    [ "$(counter write)" -eq 0 ]
}

@test "counts lookups and attributes within the timeout once" {
    start_slowfs --attr-timeout-s 1000
    stat "$A/1.jpg" "$A/1.jpg" "$A/2.jpg" >/dev/null
    refresh
    [ "$(counter lookup)" -eq 4 ] # train, n0000 and two files
    before=$(counter lookup)
    stat "$A/1.jpg" "$A/2.jpg" >/dev/null
    refresh
    [ "$(counter lookup)" -eq "$before" ]
}

@test "without attribute timeout every stat reaches the source" {
    start_slowfs --attr-timeout-s 0
    stat "$A/1.jpg" >/dev/null
    refresh
    before=$(counter lookup)
    stat "$A/1.jpg" >/dev/null
    refresh
    [ "$(counter lookup)" -gt "$before" ]
}

@test "mmap works" {
    start_slowfs
    python3 -c '
import mmap, sys
with open(sys.argv[1], "rb") as a, open(sys.argv[2], "rb") as b:
    assert mmap.mmap(a.fileno(), 0, prot=mmap.PROT_READ)[:] == b.read()
' "$A/1.jpg" "$DIR/src/train/n0000/1.jpg"
}

@test "writes, renames and removals reach the source" {
    start_slowfs
    echo one >"$A/new"
    echo two >>"$A/new"
    echo over >"$A/1.jpg"
    mv "$A/2.jpg" "$A/two.jpg"
    rm "$A/3.jpg"
    mkdir "$DIR/mnt/val"
    mv "$A/4.jpg" "$DIR/mnt/val/"
    ln "$A/5.jpg" "$A/hard"
    ln -s 5.jpg "$A/soft"
    truncate -s 10 "$A/6.jpg"
    chmod 600 "$A/7.jpg"
    touch -d @1000000000 "$A/7.jpg"
    S=$DIR/src/train/n0000
    [ "$(cat "$S/new")" = $'one\ntwo' ]
    [ "$(cat "$S/1.jpg")" = over ]
    [ ! -e "$S/2.jpg" ] && [ -e "$S/two.jpg" ]
    [ ! -e "$S/3.jpg" ]
    [ -e "$DIR/src/val/4.jpg" ]
    [ "$S/hard" -ef "$S/5.jpg" ]
    [ "$(readlink "$S/soft")" = 5.jpg ]
    [ "$(stat -c %s "$S/6.jpg")" = 10 ]
    [ "$(stat -c '%a %Y' "$S/7.jpg")" = '600 1000000000' ]
    diff -r "$DIR/src" "$DIR/mnt"
    refresh
    [ "$(counter write)" -eq 3 ]
    [ "$(counter bytes_written)" -eq 13 ]
}

@test "a removed file can be read by who has it open" {
    start_slowfs
    exec 7<"$A/1.jpg"
    rm "$A/1.jpg"
    [ "$(wc -c <&7)" -eq 50000 ]
    exec 7<&-
}

@test "the caller's rights are enforced, and new files are the caller's" {
    chmod 640 "$DIR/src/train/n0000/1.jpg"
    mkdir -m 777 "$DIR/src/open"
    start_slowfs
    as_nobody cat "$A/2.jpg" >/dev/null
    run as_nobody cat "$A/1.jpg"
    [ "$status" -ne 0 ]
    [[ $output == *"Permission denied"* ]]
    run as_nobody rm -f "$A/2.jpg"
    [ "$status" -ne 0 ]
    [ -e "$DIR/src/train/n0000/2.jpg" ]
    as_nobody sh -c 'umask 027; echo x >"$1/file"; mkdir "$1/folder"; ln -s x "$1/link"' - "$DIR/mnt/open"
    [ "$(stat -c '%u:%g %a' "$DIR/src/open/file")" = '65534:65534 640' ]
    [ "$(stat -c '%u:%g %a' "$DIR/src/open/folder")" = '65534:65534 750' ]
    [ "$(stat -c '%u:%g' "$DIR/src/open/link")" = 65534:65534 ]
}

@test "fail: requests for the files that match fail" {
    start_slowfs
    control 'fail EIO train/n0000/1.jpg' 'fail:open ESTALE */2.jpg'
    run cat "$A/1.jpg"
    [ "$status" -ne 0 ]
    [[ $output == *"Input/output error"* ]]
    stat "$A/2.jpg" >/dev/null
    run cat "$A/2.jpg"
    [[ $output == *"Stale file handle"* ]]
    cmp "$A/3.jpg" "$DIR/src/train/n0000/3.jpg"
    control '# well again'
    cmp "$A/1.jpg" "$DIR/src/train/n0000/1.jpg"
}

@test "hang: a request is answered when the rule goes away" {
    start_slowfs
    control 'hang:read */1.jpg'
    cat "$A/1.jpg" >"$DIR/copy" &
    reader=$!
    reads() { refresh && [ "$(counter read)" -ge 1 ]; }
    await reads
    cmp "$A/2.jpg" "$DIR/src/train/n0000/2.jpg" # others go on
    [ ! -s "$DIR/copy" ]
    ! gone "$reader"
    control '# released'
    wait "$reader"
    cmp "$DIR/copy" "$DIR/src/train/n0000/1.jpg"
}

@test "short: a file that matches ends early" {
    start_slowfs
    control 'short */1.jpg'
    [ "$(wc -c <"$A/2.jpg")" -eq 50000 ]
    [ "$(cat "$A/1.jpg" | wc -c)" -lt 50000 ]
    control '# well again'
    await cmp "$A/2.jpg" "$DIR/src/train/n0000/2.jpg"
}

@test "a control file that is wrong changes nothing" {
    start_slowfs
    control 'fail EIO */1.jpg'
    printf 'fail ENONSENSE *\n' >"$DIR/control.new"
    mv "$DIR/control.new" "$DIR/control" # not in place: an empty file would be right, and hold
    kill -HUP "$PID"
    refused() { [ "$(counter control_errors)" -ge 1 ]; }
    await refused
    run cat "$A/1.jpg"
    [ "$status" -ne 0 ]
    stop_slowfs
    run start_slowfs
    [ "$status" -eq 2 ]
    [[ $output == *":1: not understood"* ]]
    ! has_mount
}

@test "a change of the control file is seen without a signal" {
    start_slowfs
    echo 'fail EIO */1.jpg' >"$DIR/control"
    fails() { ! cat "$A/1.jpg" >/dev/null 2>&1; }
    await fails
}

@test "SIGTERM unmounts and leaves nothing, even with a file open or a request hanging" {
    start_slowfs
    cat "$A/1.jpg" >/dev/null
    exec 7<"$A/2.jpg"
    control 'hang */3.jpg'
    cat "$A/3.jpg" >/dev/null 2>&1 &
    reader=$!
    lookups() { refresh && [ "$(counter lookup)" -ge 5 ]; }
    await lookups
    stop_slowfs
    exec 7<&-
    await gone "$reader"
    ! has_mount
    [ ! -e "$DIR/pid" ]
    [ -z "$(ls -A "$DIR/mnt")" ]
    [ ! -e "$DIR/stats.tmp" ]
    [ "$(counter open)" -ge 2 ]
}

@test "it ends when its mount is taken away" {
    start_slowfs
    umount "$DIR/mnt"
    await gone "$PID"
    [ ! -e "$DIR/pid" ]
}

@test "--foreground stays, and serves" {
    "$BUILD/slowfs" --foreground --pidfile "$DIR/pid" "$DIR/src" "$DIR/mnt" 3>&- &
    PID=$!
    await has_mount
    [ "$(cat "$DIR/pid")" = "$PID" ]
    cmp "$A/1.jpg" "$DIR/src/train/n0000/1.jpg"
    stop_slowfs
    wait "$PID"
    ! has_mount
}

@test "wrong calls end with one line and status 2, what is missing with 1" {
    run "$BUILD/slowfs" "$DIR/src"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    run "$BUILD/slowfs" --threads=many "$DIR/src" "$DIR/mnt"
    [ "$status" -eq 2 ]
    run "$BUILD/slowfs" "$DIR/none" "$DIR/mnt"
    [ "$status" -eq 1 ]
    run "$BUILD/slowfs" "$DIR/src" "$DIR/none"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    run "$BUILD/slowfs" --help
    [ "$status" -eq 0 ]
    for option in metadata-latency-us data-latency-us bandwidth-mbs max-inflight attr-timeout-s threads stats \
        control pidfile foreground; do
        [[ $output == *"--$option"* ]]
    done
}

@test "mkdataset makes the files asked for, the same for the same seed, no two alike" {
    "$BUILD/mkdataset" --files 300 --classes 7 --mean-bytes 2000 --seed 5 "$DIR/a"
    "$BUILD/mkdataset" --files 300 --classes 7 --mean-bytes 2000 --seed 5 "$DIR/b"
    "$BUILD/mkdataset" --files 300 --classes 7 --mean-bytes 2000 --seed 6 "$DIR/c"
    diff -r "$DIR/a" "$DIR/b"
    [ -e "$DIR/a/train/n0000/img_000001.jpg" ]
    [ -e "$DIR/a/train/n0006/img_000300.jpg" ]
    [ "$(find "$DIR/a" -mindepth 2 -type d | wc -l)" -eq 7 ]
    [ "$(find "$DIR/a" "$DIR/c" -type f -exec sha256sum {} + | cut -d' ' -f1 | sort -u | wc -l)" -eq 600 ]
    mean=$(find "$DIR/a" -type f -printf '%s\n' | awk '{ sum += $1 } END { print int(sum / NR) }')
    [ "$mean" -gt 1700 ] && [ "$mean" -lt 2300 ]
    run "$BUILD/mkdataset" "$DIR/a"
    [ "$status" -eq 1 ]
}

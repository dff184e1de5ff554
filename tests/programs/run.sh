# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034  # commands for an inner shell; used by the suites
# monarchctl run as an ordinary user: what the suites of it share. To be sourced by a bats file at its top.

bats_require_minimum_version 1.5.0

# Copied to where ada can reach them: the checkout may lie in a folder of root's alone.
setup_file() {
    local built=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    export BUILD
    BUILD=$(mktemp -d)
    chmod 755 "$BUILD"
    cp "$built"/{monarchctl,monarch-stager,libmonarch.so,slowfs,mkdataset} "$BUILD"
}

teardown_file() { rm -rf "$BUILD"; }

setup() {
    [ "$(id -u)" = 0 ] && getent passwd ada >/dev/null || skip "run by tests/cluster/sandbox.sh"
    DIR=$(mktemp -d)
    chmod 755 "$DIR"
    install -d -o ada -g ada "$DIR/home" "$DIR/t1" "$DIR/t2"
    STATE=$DIR/home/state
    make_data
}

# 160 files of about 20 KB in 4 classes; DATA is what jobs name.
make_data() {
    DATA=$DIR/data
    "$BUILD/mkdataset" --files 160 --classes 4 --mean-bytes 20000 "$DATA" >/dev/null
    chmod -R a+rX "$DATA"
    FILES=160
}

teardown() {
    if [ -e "$DIR/slow.pid" ]; then kill "$(cat "$DIR/slow.pid")" && await test ! -e "$DIR/slow.pid"; fi
    # What a test left running, in the background or because it failed.
    pkill -KILL -u ada || true
    await no_stager
    if [ -n "${MOUNTED:-}" ]; then umount -l "$MOUNTED"; fi
    rm -rf --one-file-system "$DIR"
}

# A command as the user ada, with her own state folder.
ada() {
    setpriv --reuid ada --regid ada --init-groups --inh-caps=-all env -u MONARCH_SESSION HOME="$DIR/home" USER=ada \
        XDG_STATE_HOME="$STATE" TMPDIR="$DIR/home" PATH="$BUILD:/usr/bin:/bin" DIR="$DIR" DATA="$DATA" BUILD="$BUILD" "$@"
}

ctl_run() { ada monarchctl run --dataset "$DATA" "$@"; }

# Waits for a command to succeed.
await() {
    local until=$((SECONDS + 60))
    while [ $SECONDS -lt $until ]; do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.02
    done
    echo "waited in vain: $*" >&2
    return 1
}

# Every file's bytes, by name, as `sha256sum` prints them.
SUMS='cd "$DATA" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum'
sums() { DATA=$DATA bash -c "$SUMS"; }

# A value of a report: `report FILE EXPRESSION` on `j`.
report() { python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# What `SELECT ...` finds in ada's ledger, which sqlite3 must not make before she does.
ledger() { [ -s "$STATE/monarch/ledger/ledger.db" ] && sqlite3 "$STATE/monarch/ledger/ledger.db" "SELECT $1"; }
rows() { ledger "count(*) FROM $1"; }

stagers() { pgrep -x -c monarch-stager || true; }
no_stager() { [ "$(stagers)" -eq 0 ]; }

# A stager that hangs in the source ends when the source answers; what it had goes before.
nothing_left() { [ "$(stagers)" -eq 0 ] && nothing_stored; }
nothing_stored() {
    [ -z "$(find "$STATE"/monarch/run/{jobs,stores,trash} "$DIR"/{t1,t2,home/monarch-61001}/{stores,trash} -mindepth 1 2>/dev/null)" ] &&
        [ "$(ledger '(SELECT count(*) FROM lease WHERE ended_at IS NULL), (SELECT count(*) FROM store), (SELECT count(*) FROM reservation),
            (SELECT count(*) FROM trash)')" = "0|0|0|0" ]
}

reap() { ada "$BUILD/monarch-stager" reap --run "$STATE/monarch/run" --state "$STATE/monarch"; }

# Puts the data set behind slowfs with the given rules, one a line, in force.
slow_source() {
    mkdir "$DIR/slow"
    printf '%s\n' "$@" >"$DIR/control"
    "$BUILD/slowfs" --attr-timeout-s 0 --pidfile "$DIR/slow.pid" --control "$DIR/control" --stats "$DIR/slow.json" "$DATA" "$DIR/slow"
    SOURCE=$DATA DATA=$DIR/slow
}

loads() { sed -n 's/^ *"control_loads": \([0-9]*\),*/\1/p' "$DIR/slow.json"; }
loaded() { [ "$(loads)" -ge "$1" ]; }
control() {
    local wanted
    await test -s "$DIR/slow.json"
    wanted=$(($(loads) + 1))
    printf '%s\n' "$@" >"$DIR/control.new"
    mv "$DIR/control.new" "$DIR/control"
    kill -HUP "$(cat "$DIR/slow.pid")"
    await loaded "$wanted"
}

# A counter of ada's only session, from `status --json`.
counter() { ada monarchctl status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["leases"][0][sys.argv[1]])' "$1"; }
has_staged() { [ "$(counter files_staged)" -eq "$1" ]; }
in_state() { [ "$(counter state)" = "$1" ]; }

on_tier() { (cd "$1"/stores/*/data/files && find . -type f -printf '%P\n' | LC_ALL=C sort); }

one_line_error() {
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "monarchctl: "*": "* ]]
}

#!/usr/bin/env bats
# monarchctl run: the whole life of a session around one command, as an ordinary user. Run by tests/cluster/sandbox.sh.
# shellcheck disable=SC2016  # commands for an inner shell

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

@test "exit status is the command's" {
    for status_wanted in 0 1 2 77 255; do
        run ctl_run -- sh -c "exit $status_wanted"
        [ "$status" -eq "$status_wanted" ]
    done
    run ctl_run -- sh -c 'kill -TERM $$'
    [ "$status" -eq 143 ]
    run ctl_run -- sh -c 'kill -KILL $$'
    [ "$status" -eq 137 ]
    run -127 ctl_run -- no-such-command
    [[ $output == "monarchctl: cannot run no-such-command: "* ]]
    run ctl_run -- "$DATA"
    [ "$status" -eq 126 ]
    await nothing_left
}

@test "every byte is the same, from local copies that the source gave once" {
    ctl_run --wait all --report "$DIR/home/r.json" -- bash -c "$SUMS" >"$DIR/staged"
    diff <(sums) "$DIR/staged"
    [ "$(report "$DIR/home/r.json" '[j[k] for k in ("files_total", "files_planned", "files_staged", "source_reads", "opens_local")]')" = \
        "[$FILES, $FILES, $FILES, $FILES, $FILES]" ]
    [ "$(report "$DIR/home/r.json" '[j[k] for k in ("exit_status", "files_failed", "opens_source", "bytes_source", "prediction_hits")]')" = \
        "[0, 0, 0, 0, $FILES]" ]
    [ "$(report "$DIR/home/r.json" 'j["bytes_local"] == j["bytes_total"] == j["bytes_staged"]')" = True ]
    [ "$(report "$DIR/home/r.json" 'j["sessions"][0]["outcome"] + j["predictor"]')" = detachedname ]
    await nothing_left
    [ -s "$STATE"/monarch/jobs/run-*/*.data.json ]
}

@test "root's own run works as well" {
    XDG_STATE_HOME=$DIR/root TMPDIR=$DIR DATA=$DATA "$BUILD/monarchctl" run --dataset "$DATA" --wait all --report "$DIR/r.json" -- \
        bash -c "$SUMS" >"$DIR/staged"
    diff <(sums) "$DIR/staged"
    [ "$(report "$DIR/r.json" 'j["opens_local"]')" -eq $FILES ]
    await rmdir "$DIR/root/monarch/run/stores" "$DIR/root/monarch/run/jobs"  # empty
}

@test "the fastest tier with room takes the file" {
    ctl_run --tier "a=$DIR/t1:2MiB" --tier "b=$DIR/t2:64MiB" --wait all -- bash -c '
        monarchctl wait all
        for t in t1 t2; do (cd "$DIR/$t"/stores/*/data/files && find . -type f -printf "%P\n") >"$DIR/home/$t"; done
        du -s -B1 "$DIR"/t1/stores/*/data | cut -f1 >"$DIR/home/du"'
    sort "$DIR/home/t1" "$DIR/home/t2" | diff - <(cd "$DATA" && find . -type f -printf '%P\n' | sort)
    [ "$(cat "$DIR/home/du")" -le $((2 << 20)) ]
    ada monarchctl plan "$DATA" --sequence >"$DIR/sequence"
    # All that comes before the first file of b is on a, and after it only small ones that fill a up.
    first=$(grep -n -F -x -f "$DIR/home/t2" "$DIR/sequence" | head -1 | cut -d: -f1)
    [ "$first" -gt 60 ]
    later=$(tail -n "+$first" "$DIR/sequence" | grep -c -F -x -f "$DIR/home/t1" || true)
    [ "$later" -le 3 ]
    await nothing_left
}

@test "half the space: the plan's first files are staged, and never more than reserved" {
    ctl_run --tier "a=$DIR/t1" --capacity 2MiB --wait all --report "$DIR/home/r.json" -- bash -c '
        monarchctl wait all
        (cd "$DIR"/t1/stores/*/data/files && find . -type f -printf "%P\n") >"$DIR/home/staged"
        du -s -B1 "$DIR"/t1/stores/*/data | cut -f1 >"$DIR/home/du"; '"$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    staged=$(wc -l <"$DIR/home/staged")
    [ "$staged" -gt 50 ] && [ "$staged" -lt 120 ]
    ada monarchctl plan "$DATA" --sequence | head -n "$staged" | sort | diff - <(sort "$DIR/home/staged")
    [ "$(cat "$DIR/home/du")" -le $((2 << 20)) ]
    [ "$(report "$DIR/home/r.json" '[j["opens_local"], j["opens_source"], j["files_planned"]]')" = "[$staged, $((FILES - staged)), $staged]" ]
}

@test "--capacity by tier, and a tier that is not named gets nothing" {
    ctl_run --tier "a=$DIR/t1" --tier "b=$DIR/t2" --capacity b=64MiB -- \
        bash -c 'monarchctl wait all; ls "$DIR"/t1/stores "$DIR"/t2/stores/*/data/files' >"$DIR/out"
    grep -q train "$DIR/out"
    [ "$(sed -n 2p "$DIR/out")" = "" ]
}

@test "a source that is missing, unreadable or empty: the command runs, wait says no" {
    mkdir "$DIR/empty"
    install -d -m 700 "$DIR/secret"
    printf x >"$DIR/file"
    for path in "$DIR/missing" "$DIR/secret" "$DIR/file"; do
        run --separate-stderr ada monarchctl run --dataset "$path" --wait all --report "$DIR/home/r.json" -- sh -c 'monarchctl wait all 2>/dev/null; echo "$?"; exit 5'
        [ "$status" -eq 5 ]
        [ "${lines[-1]}" = 1 ]
        [ "$(report "$DIR/home/r.json" '[j["files_total"], j["files_staged"], j["exit_status"]]')" = "[0, 0, 5]" ]
        echo "$stderr"
        # Why is said once, in one line, even by a command that ends at once.
        # shellcheck disable=SC2154
        [[ $stderr == "monarchctl: data set ${path##*/}: cannot open the source $path: "* ]]
        run ada monarchctl run --dataset "$path" --report "$DIR/home/r.json" -- true
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "monarchctl: data set ${path##*/}: cannot open the source $path: "* ]]
        [[ $(report "$DIR/home/r.json" 'j["sessions"][0]["note"]') == "cannot open the source $path: "* ]]
    done
    # status says it as well.
    ada monarchctl run --dataset "$DIR/missing" -- sh -c 'read -r line <"$DIR/home/go"' 2>/dev/null 3>&- &
    ada mkfifo "$DIR/home/go"
    await in_state failed
    run ada monarchctl status
    [[ $output == *"NOTE"*"cannot open the source $DIR/missing: No such file or directory"* ]]
    echo >"$DIR/home/go"
    wait $!
    run ada monarchctl run --dataset "$DIR/empty" --wait all -- sh -c 'monarchctl wait all; echo "$?"'
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = 0 ]
    await nothing_left
}

@test "unreadable files and folders stay on the source, the others are staged" {
    chmod 600 "$DATA/train/n0000/img_000001.jpg"
    chmod 700 "$DATA/train/n0003"
    ctl_run --report "$DIR/home/r.json" -- monarchctl wait all
    [ "$(report "$DIR/home/r.json" '[j["files_total"], j["files_staged"], j["files_failed"]]')" = "[120, 119, 1]" ]
    run ctl_run -- cat "$DATA/train/n0000/img_000001.jpg"
    [ "$status" -eq 1 ]
    [[ $output == *"Permission denied"* ]]
}

@test "a tier that cannot be used is said, and the command runs" {
    install -d -m 755 "$DIR/roots"
    run ctl_run --tier "a=$DIR/roots/tier" -- cat "$DATA/train/n0000/img_000001.jpg"
    [ "$status" -eq 0 ]
    ctl_run --tier "a=$DIR/roots/tier" -- true 2>"$DIR/err"
    grep -q "tier a is not used" "$DIR/err"
    grep -q "is read from its source" "$DIR/err"
    # Another's folder is never used: its owner could put other bytes there.
    install -d -o ben -m 777 "$DIR/bens"
    ctl_run --tier "a=$DIR/bens" --wait all --report "$DIR/home/r.json" -- bash -c "$SUMS" 2>"$DIR/err" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" 'j["opens_local"]')" -eq 0 ]
    grep -q "belongs to uid" "$DIR/err"
    await nothing_left
}

@test "a tier that runs full stops there; nothing incomplete has a name" {
    mount -t tmpfs -o size=64M,nr_inodes=60,uid=61001,mode=700 monarch-test "$DIR/t1"
    MOUNTED=$DIR/t1
    ctl_run --tier "a=$DIR/t1" --report "$DIR/home/r.json" -- bash -c '
        monarchctl wait all
        cd "$DIR"/t1/stores/*/data/files && find . -type f -exec cmp {} "$DATA"/{} \; && cd / && '"$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" 'j["files_total"] == 160 and 20 < j["files_staged"] == j["files_planned"] < 60 and j["files_failed"] == 0')" = True ]
    await nothing_left
}

@test "a wrong call is one line and exit status 2, and starts nothing" {
    for options in "" "--dataset $DATA" "--dataset no-such-name, -- true" "--dataset $DATA --capacity 12QB -- true" \
        "--dataset $DATA --wait never -- true" "--dataset $DATA --order nonsense -- true" "--dataset $DATA --tier x -- true" \
        "--dataset $DATA --tier a= -- true" "--dataset $DATA --tier a=/x:12QB -- true" "--dataset $DATA --tier a=/x --tier a=/y -- true" \
        "--dataset $DATA --tier a=/x --tier b=/x/ -- true" "--dataset $DATA --capacity b=1GiB --tier a=/x -- true" \
        "--dataset $DATA --ranks 8/8 -- true" "--dataset $DATA --ranks 1 -- true" "--dataset $DATA --ranks ,/2 -- true" "--nonsense -- true"; do
        # shellcheck disable=SC2086
        run ada monarchctl run $options
        echo "run $options: $status: $output"
        [ "$status" -eq 2 ]
        one_line_error
    done
    [ ! -e "$STATE/monarch/ledger" ]
}

@test "relative paths are the shell's, and --dataset may be repeated" {
    cp -a "$DATA" "$DIR/second,set"
    mkdir -p "$DIR/etc/datasets.d" "$DIR/second,set/catalogued"
    ln -s "$DATA" "$DIR/second,set/link"
    printf '[dataset.catalogued]\nsource = "%s"\n' "$DATA" >"$DIR/etc/datasets.d/c.toml"
    chmod -R a+rX "$DIR/etc" "$DIR/second,set"
    cd "$DIR/second,set"
    root() { ada MONARCH_CONFIG="$DIR/etc" monarchctl run --dataset "$1" --wait all -- sh -c 'tr "\0" "\n" <"$MONARCH_SESSION/0/map" | sed -n "s/^root=//p"'; }
    for spec in . ./ ../second%2Cset train/..; do [ "$(root "$spec")" = "$DIR/second,set" ]; done
    [ "$(root train)" = "$DIR/second,set/train" ]
    [ "$(root ../data/train)" = "$DIR/data/train" ]
    [ "$(root "$DIR/second%2Cset/../data")" = "$DATA" ]
    [ "$(root link/../data/train)" = "$DIR/data/train" ]
    # The catalog's names go first.
    [ "$(root catalogued)" = "$DATA" ]
    [ "$(root ./catalogued)" = "$DIR/second,set/catalogued" ]
    ada monarchctl run --dataset train --dataset ../data --tier a=../t1 --wait all --report "$DIR/home/r.json" -- \
        sh -c 'cat train/*/* "$MONARCH_DATASET_DATA"/train/*/* | sha256sum; ls "$DIR"/t1/stores | wc -l' >"$DIR/out"
    [ "$(head -n 1 "$DIR/out")" = "$(cat "$DATA"/train/*/* "$DATA"/train/*/* | sha256sum)" ]
    [ "$(tail -n 1 "$DIR/out")" = 2 ]
    [ "$(report "$DIR/home/r.json" 'j["opens_local"]')" -eq $((2 * FILES)) ]
    [ "$(ada monarchctl plan . --sequence | wc -l)" -eq $FILES ]
    cd train
    [ "$(ada monarchctl plan n0000 --sequence | wc -l)" -eq 40 ]
    [ "$(ada monarchctl plan ../../data --sequence | wc -l)" -eq $FILES ]
    run ada monarchctl plan n9999
    [ "$status" -eq 2 ]
    one_line_error
}

@test "a tier in a data set and a data set in a tier are refused by name, through links as well" {
    chown ada "$DATA"
    ada mkdir -p "$DATA/tier" "$DIR/t1/inner"
    ada cp -r "$DATA/train/n0000" "$DIR/t1/inner"
    ada ln -s "$DIR/t1/inner" "$DIR/home/seems-elsewhere"
    refused() { # DATA-SET TIER WHY
        run ada monarchctl run --dataset "$1" --tier "a=$2" --report "$DIR/home/r.json" -- echo ran
        echo "$output"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 2 ]
        [[ $output == *"ran"* && $output == *"$3"* ]]
        [ "$(report "$DIR/home/r.json" 'j["files_staged"]')" -eq 0 ]
    }
    refused "$DATA" "$DATA/tier" "tier a ($DATA/tier) lies in the data set $DATA"
    refused "$DATA/train" "$DATA" "the data set $DATA/train lies in tier a ($DATA)"
    refused "$DIR/t1" "$DIR/t1" "tier a ($DIR/t1) lies in the data set $DIR/t1"
    refused "$DIR/home/seems-elsewhere" "$DIR/t1" "the data set $DIR/t1/inner lies in tier a ($DIR/t1)"
}

@test "Monarch installed under a path with a space and a colon serves, and says nothing" {
    mkdir "$DIR/my programs: new"
    cp "$BUILD"/{monarchctl,monarch-stager,libmonarch.so} "$DIR/my programs: new"
    for _ in 1 2; do
        ada "$DIR/my programs: new/monarchctl" run --dataset "$DATA" --wait all --report "$DIR/home/r.json" -- bash -c "$SUMS" >"$DIR/sums" 2>"$DIR/err"
        diff <(sums) "$DIR/sums"
        [ ! -s "$DIR/err" ]
        [ "$(report "$DIR/home/r.json" '[j["opens_local"], j["opens_source"]]')" = "[$FILES, 0]" ]
    done
    # Where the run-time folder has one as well, that is said, and nothing else is printed.
    STATE="$DIR/home/a b"
    run ada "$DIR/my programs: new/monarchctl" run --dataset "$DATA" -- cat "$DATA/train/n0000/img_000001.jpg"
    [ "$status" -eq 0 ]
    [[ $output == "monarchctl: opens go to the source, since the loader cannot preload from a path with a space or colon: "* ]]
}

@test "status within a run shows the run's tiers" {
    ctl_run --tier "a=$DIR/t1:32MiB" --tier "b=$DIR/t2:64MiB" --capacity 8MiB --wait all -- bash -c "$SUMS; "'monarchctl status --json >"$DIR/home/status.json"; monarchctl status >"$DIR/home/status"' >/dev/null
    python3 - "$DIR/home/status.json" "$DIR" <<'END'
import json, sys
tiers = json.load(open(sys.argv[1]))["tiers"]
assert [(t["name"], t["path"], t["capacity_bytes"], t["state"]) for t in tiers] == \
    [("a", sys.argv[2] + "/t1", 32 << 20, "ready")], tiers
assert 3 << 20 < tiers[0]["used_bytes"] <= 8 << 20, tiers
END
    grep -q "^a  *$DIR/t1  *32 MiB" "$DIR/home/status"
}

@test "--ranks and options of later versions do not keep a command from running" {
    run ctl_run --ranks 2,3/8 --epochs 3 -- echo ran
    [ "$status" -eq 0 ]
    [ "$output" = ran ]
    run ctl_run --report "$DIR/missing/r.json" -- echo ran
    [ "$status" -eq 1 ]
    one_line_error
}

@test "plan: any name, in the walk's order, -0 as it is" {
    mkdir "$DATA/train/a-b" "$DATA/train/a" "$DATA/new"$'\n'"line"
    printf x >"$DATA/train/a-b/1"
    printf x >"$DATA/train/a/"$'\xff\xfe'
    printf x >"$DATA/new"$'\n'"line/f"
    printf x >"$DATA/beside"
    ada monarchctl plan "$DATA" --sequence -0 >"$DIR/sequence"
    python3 - "$DIR/sequence" "$DATA" <<'END'
import os, sys
got = open(sys.argv[1], "rb").read().split(b"\0")[:-1]
root = os.fsencode(sys.argv[2])
want = []
for c in sorted(e.name for e in os.scandir(root) if e.is_dir()):
    for folder, _, files in sorted(os.walk(os.path.join(root, c))):
        want += [os.path.relpath(os.path.join(folder, f), root) for f in sorted(files)]
want += sorted(e.name for e in os.scandir(root) if e.is_file())
assert got == want, next((g, w) for g, w in zip(got, want) if g != w)
END
    run ada monarchctl plan "$DATA" --sequence
    [ "${#lines[@]}" -eq $((FILES + 4)) ]
    [[ $output == *'new\x0aline/f'* && $output == *'train/a/\xff\xfe'* ]]
    run ada monarchctl plan "$DATA" --capacity 2MiB --json
    [ "$(python3 -c 'import json, sys; j = json.loads(sys.argv[1]); print(j["plan"][0]["files_total"], j["plan"][0]["files_planned"] < 120)' "$output")" = "164 True" ]
    [ ! -e "$STATE/monarch" ]
}

@test "any name is staged: newlines, bytes that are no UTF-8, 255 bytes, deep folders" {
    long=$(printf 'n%.0s' $(seq 255))
    deep=$DATA/$(printf 'd/%.0s' $(seq 200))
    mkdir -p "$deep" "$DATA/$long"
    for f in "$DATA/"$'new\nline' "$DATA/"$'\xff\xfe\x01' "$DATA/ space " "$DATA/-n" "$DATA/$long/$long" "$deep/f"; do printf '%s' "$f" >"$f"; done
    ctl_run --wait all --report "$DIR/home/r.json" -- bash -c "$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" '[j["files_staged"], j["opens_local"]]')" = "[$((FILES + 6)), $((FILES + 6))]" ]
    await nothing_left
}

@test "symbolic links read the same wherever they lead" {
    printf outside >"$DIR/outside"
    printf ids >"$DIR/ids"
    ln -s n0000/img_000001.jpg "$DATA/train/inside"
    ln -s ../train/n0000 "$DATA/train/folder"
    ln -s "$DATA/train/n0001" "$DATA/absolute"
    ln -s nowhere "$DATA/dangling"
    ln -s loop "$DATA/loop"
    ln -s ../outside "$DATA/out"
    ln -s . "$DATA/dot"
    ln -s dot/../ids "$DATA/sly"
    ln -s train/folder/img_000002.jpg "$DATA/twice"
    read_links='cd "$DATA"; for f in train/inside train/folder/img_000002.jpg absolute/img_000041.jpg dangling loop out sly dot/dot/twice twice; do cat "$f" 2>&1 | sha256sum; done; readlink train/inside sly; find -L . -type f 2>/dev/null | sort | sha256sum'
    DATA=$DATA bash -c "$read_links" >"$DIR/plain"
    ctl_run --wait all -- bash -c "$read_links" >"$DIR/staged"
    diff "$DIR/plain" "$DIR/staged"
    await nothing_left
}

@test "status shows a run while it stages" {
    slow_source 'hang:read train/n0003/*'
    ctl_run --tier "a=$DIR/t1" -- sh -c 'read -r line <"$DIR/home/go"' 3>&- &
    ada mkfifo "$DIR/home/go"
    await has_staged 120
    run ada monarchctl status --json
    [ "$status" -eq 0 ]
    python3 - "$output" "$DIR" <<'END'
import json, sys
j = json.loads(sys.argv[1])
lease, store = j["leases"][0], j["stores"][0]
assert (lease["state"], lease["files_total"], lease["files_staged"]) == ("copying", 160, 120), lease
assert (store["leases"], store["stager"], store["dataset"]) == (1, "running", "slow"), store
assert 0.6 < lease["share"] < 0.9, lease
END
    run ada monarchctl status
    [ "$status" -eq 0 ]
    [[ $output == *copying* && $output == *running* ]]
    control '# nothing'
    await in_state staged
    echo >"$DIR/home/go"
    wait $!
    await nothing_left
}

@test "--wait holds the first open until so much is staged, and no longer" {
    slow_source 'hang:read train/n0003/*'
    read_one='cat "$DATA/train/n0000/img_000001.jpg" >/dev/null; echo >"$DIR/home/read"'
    for wait in none 60% 1s 60%,5m all,1s; do
        rm -f "$DIR/home/read"
        ctl_run --tier "a=$DIR/t1" --wait "$wait" -- sh -c "$read_one"
        [ -e "$DIR/home/read" ]
        await nothing_stored
    done
    rm -f "$DIR/home/read"
    ctl_run --tier "a=$DIR/t1" --wait all -- sh -c "$read_one" 3>&- &
    await has_staged 120
    [ ! -e "$DIR/home/read" ]
    control '# nothing'
    wait $!
    [ -e "$DIR/home/read" ]
}

@test "wait inside a run: reached, or not in time" {
    slow_source 'hang:read train/n0003/*'
    ctl_run --tier "a=$DIR/t1" -- bash -c '
        monarchctl wait none; echo "none $?"
        monarchctl wait 60%; echo "60% $?"
        monarchctl wait all,1s; echo "1s $?"
        echo >"$DIR/home/waiting"
        monarchctl wait all; echo "all $?"' >"$DIR/out" 2>"$DIR/err" 3>&- &
    await test -e "$DIR/home/waiting"
    control '# nothing'
    wait $!
    [ "$(tr '\n' ' ' <"$DIR/out")" = "none 0 60% 0 1s 1 all 0 " ]
    grep -q "monarchctl: not staged within 1s" "$DIR/err"
    await nothing_left
    run ada monarchctl wait
    [ "$status" -eq 1 ]
    one_line_error
    run ada monarchctl wait nonsense
    [ "$status" -eq 2 ]
}

@test "wait ends when the stager is gone" {
    slow_source 'latency 50000'
    run ctl_run --tier "a=$DIR/t1" -- bash -c 'pkill -STOP -x monarch-stager; monarchctl wait & pkill -KILL -x monarch-stager; wait $!'
    [ "$status" -eq 1 ]
    one_line_error
    control '# nothing'
    await nothing_left
}

@test "runs at the same time share one store, staged once" {
    ada mkfifo "$DIR/home/go1" "$DIR/home/go2" "$DIR/home/go3" "$DIR/home/go4"
    pids=()
    for n in 1 2 3 4; do
        ctl_run --wait all --report "$DIR/home/r$n.json" -- bash -c "monarchctl wait all; $SUMS; read -r line <\$DIR/home/go$n" >"$DIR/sums$n" 3>&- &
        pids+=($!)
    done
    full() { [ "$(wc -l <"$1")" -eq "$FILES" ]; }
    for n in 1 2 3 4; do await full "$DIR/sums$n"; done
    [ "$(rows store)" -eq 1 ]
    [ "$(rows 'lease WHERE ended_at IS NULL')" -eq 4 ]
    [ "$(stagers)" -eq 1 ]
    for n in 1 2 3 4; do
        echo >"$DIR/home/go$n"
        wait "${pids[n - 1]}"
        diff <(sums) "$DIR/sums$n"
    done
    reads=0
    for n in 1 2 3 4; do
        [ "$(report "$DIR/home/r$n.json" '[j["files_staged"], j["opens_local"]]')" = "[$FILES, $FILES]" ]
        reads=$((reads + $(report "$DIR/home/r$n.json" 'j["source_reads"]')))
    done
    [ "$reads" -eq $FILES ]
    await nothing_left
}

@test "twenty runs in a row, each on the whole tier: all are served in full" {
    for n in $(seq 20); do
        ctl_run --tier "a=$DIR/t1:1GiB" --wait all --report "$DIR/home/r.json" -- bash -c "$SUMS" 2>>"$DIR/err" | cmp - <(sums)
        [ "$(report "$DIR/home/r.json" '[j["files_planned"], j["files_staged"], j["opens_local"], j["opens_source"]]')" = "[$FILES, $FILES, $FILES, 0]" ]
    done
    cat "$DIR/err"
    [ ! -s "$DIR/err" ]
    await nothing_left
}

@test "a store's reservation shrinks to what its plan needs as soon as the data set is listed" {
    rm -rf "$DATA"/train/*
    for n in 1 2 3; do head -c 10000 /dev/zero >"$DATA/train/$n"; done
    ctl_run --tier "a=$DIR/t1:1GiB" -- sh -c 'read -r line <"$DIR/home/go"' 3>&- &
    ada mkfifo "$DIR/home/go"
    shrunk() { [ "$(ledger 'bytes = share AND bytes < 2 << 20 FROM reservation')" = 1 ]; }
    await shrunk
    await has_staged 3
    # All the rest is there for another data set.
    ada cp -r "$DATA" "$DIR/home/other"
    ada monarchctl run --dataset "$DIR/home/other" --tier "a=$DIR/t1:1GiB" -- true
    [ "$(ledger "note FROM lease WHERE name = 'other'")" = "" ]
    echo >"$DIR/home/go"
    wait $!
    await nothing_left
}

@test "two data sets share by need, not by halves" {
    cp -a "$DATA" "$DIR/big"
    rm -rf "$DATA"/train/n000[123]
    # Four and a half megabytes in all.
    ada monarchctl run --dataset "$DATA,$DIR/big" --tier "a=$DIR/t1:7MiB" --wait all --report "$DIR/home/r.json" -- \
        sh -c 'cat "$MONARCH_DATASET_DATA"/train/*/* "$MONARCH_DATASET_BIG"/train/*/* | sha256sum' >"$DIR/sum"
    cat "$DATA"/train/*/* "$DIR"/big/train/*/* | sha256sum | diff - "$DIR/sum"
    [ "$(report "$DIR/home/r.json" '[(s["files_planned"], s["files_staged"]) for s in j["sessions"]]')" = "[(40, 40), (160, 160)]" ]
    [ "$(report "$DIR/home/r.json" '[j["opens_local"], j["opens_source"]]')" = "[200, 0]" ]
    await nothing_left
}

@test "a run on a tier that others hold in full says who holds it" {
    ctl_run --tier "a=$DIR/t1:2MiB" -- sh -c 'read -r line <"$DIR/home/go"' 3>&- &
    ada mkfifo "$DIR/home/go"
    await in_state staged
    ada cp -r "$DATA" "$DIR/home/other"
    run ada monarchctl run --dataset "$DIR/home/other" --tier "a=$DIR/t1:2MiB" -- true
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "monarchctl: "*"no space for it on this node's tiers: a, of 2 MiB: "*" held by job run-"* ]]
    echo >"$DIR/home/go"
    wait $!
    await nothing_left
}

@test "runs that come and go all the time stage or do without, and leave nothing" {
    pids=()
    for n in 1 2 3; do
        for _ in 1 2 3; do
            ctl_run --wait all -- bash -c "$SUMS" 2>>"$DIR/err" | cmp - <(sums) || echo "run $n differs" >>"$DIR/bad"
        done 3>&- &
        pids+=($!)
    done
    wait "${pids[@]}"
    [ ! -e "$DIR/bad" ]
    # None was refused because another came or went.
    if grep "read from its source" "$DIR/err"; then false; fi
    await nothing_left
}

@test "kill -9 of monarchctl: reap and the next run leave nothing" {
    ctl_run --tier "a=$DIR/t1" -- sh -c 'echo >"$DIR/home/started"; exec sleep 600' 3>&- &
    await test -e "$DIR/home/started"
    await in_state staged
    pkill -KILL -x monarchctl
    # Another run does not use what was listed before: the data set may have changed since.
    printf changed >"$DATA/train/n0000/img_000001.jpg"
    [ "$(ctl_run --tier "a=$DIR/t1" --wait all -- cat "$DATA/train/n0000/img_000001.jpg")" = changed ]
    pkill -x sleep
    reap
    await nothing_left
}

@test "kill -9 of the stager: the command goes on, detach cleans up" {
    slow_source 'hang:read train/n0003/*'
    ctl_run --tier "a=$DIR/t1" -- bash -c 'monarchctl wait 60%; echo >"$DIR/home/started"; read -r line <"$DIR/home/go"; '"$SUMS" >"$DIR/sums" 3>&- &
    ada mkfifo "$DIR/home/go"
    await test -e "$DIR/home/started"
    pkill -KILL -x monarch-stager
    control '# nothing'
    await no_stager
    echo >"$DIR/home/go"
    wait $!
    diff <(sums) "$DIR/sums"
    await nothing_left
}

@test "kill -9 of the stager under two runs: the end of one starts it again, and what is there stays" {
    ada mkfifo "$DIR/home/go1" "$DIR/home/go2"
    for n in 1 2; do
        ctl_run --tier "a=$DIR/t1" --report "$DIR/home/r$n.json" -- bash -c "monarchctl wait all; echo >\$DIR/home/at$n; read -r line <\$DIR/home/go$n" 3>&- &
        pids[n]=$!
    done
    for n in 1 2; do await test -e "$DIR/home/at$n"; done
    pkill -KILL -x monarch-stager
    echo >"$DIR/home/go1"
    wait "${pids[1]}"
    pgrep -x monarch-stager
    await in_state staged
    [ "$(counter files_staged)" -eq $FILES ]
    echo >"$DIR/home/go2"
    wait "${pids[2]}"
    [ $(($(report "$DIR/home/r1.json" 'j["source_reads"]') + $(report "$DIR/home/r2.json" 'j["source_reads"]'))) -eq $FILES ]
    await nothing_left
}

@test "kill -9 of the command: its status is told and nothing is left" {
    ctl_run -- sh -c 'echo $$ >"$DIR/home/pid"; exec sleep 600' 3>&- &
    await test -s "$DIR/home/pid"
    kill -KILL "$(cat "$DIR/home/pid")"
    status=0
    wait $! || status=$?
    [ "$status" -eq 137 ]
    await nothing_left
}

@test "signals reach the command, and those that the caller ignores stay ignored" {
    ctl_run -- bash -c 'trap "exit 9" TERM; echo >"$DIR/home/started"; while :; do sleep 0.02; done' 3>&- &
    await test -e "$DIR/home/started"
    pkill -TERM -x monarchctl
    status=0
    wait $! || status=$?
    [ "$status" -eq 9 ]
    rm "$DIR/home/started"
    (trap '' HUP; exec setpriv --reuid ada --regid ada --init-groups env XDG_STATE_HOME="$STATE" DIR="$DIR" "$BUILD/monarchctl" run --dataset "$DATA" -- \
        bash -c 'kill -HUP $$ $PPID; exit 3') 3>&- &
    status=0
    wait $! || status=$?
    [ "$status" -eq 3 ]
    await nothing_left
}

@test "kill -9 of attach at any moment: reap leaves nothing" {
    # The runner is gone: no process has this start time.
    printf '%s\0' "state=$STATE/monarch" "run=$STATE/monarch/run" uid=61001 gid=61001 node=n "option.dataset=$DATA" \
        tier=a "path=$DIR/t1" capacity=64MiB tier=b "path=$DIR/t2" capacity=64MiB >"$DIR/request"
    ada mkdir -p "$STATE/monarch"
    for n in $(seq 25); do
        { cat "$DIR/request"; printf 'job=run-1-1-%s\0' "$n"; } >"$DIR/request.$n"
        ada "$BUILD/monarch-stager" attach --user <"$DIR/request.$n" 2>/dev/null 3>&- &
        # After up to 60 ms, which is longer than an attach takes.
        sleep "$(printf '0.%03d' $((n * 5 / 2)))"
        pkill -KILL -x -P $! monarch-stager || kill -KILL $! || true
        wait $! || true
    done
    await reap
    await nothing_left
}

@test "kill -9 of root's attach, with mounts: detach and reap leave nothing" {
    mkdir "$DIR/etc"
    printf '[paths]\nstate = "%s"\nrun = "%s"\n[[tier]]\nname = "ram"\ntmpfs = "64MiB"\n' "$DIR/lib" "$DIR/run" >"$DIR/etc/monarch.toml"
    for n in $(seq 16); do
        printf '%s\0' "job=$n" uid=61001 gid=61001 node=n "option.dataset=$DATA" option.capacity=8MiB >"$DIR/request"
        "$BUILD/monarch-stager" attach --config "$DIR/etc" <"$DIR/request" 2>/dev/null 3>&- &
        sleep "$(printf '0.%03d' $((n * 3)))"
        kill -KILL $! || true
        wait $! || true
        if [ $((n % 2)) -eq 0 ]; then printf '%s\0' "job=$n" node=n | "$BUILD/monarch-stager" detach --config "$DIR/etc" 2>/dev/null; fi
    done
    for n in $(seq 16); do printf '%s\0' "job=$n" node=n | "$BUILD/monarch-stager" detach --config "$DIR/etc" 2>/dev/null; done
    await "$BUILD/monarch-stager" reap --config "$DIR/etc" --node n
    if grep "$DIR" /proc/mounts; then false; fi
    [ -z "$(find "$DIR"/run/{jobs,stores,trash} "$DIR"/run/tiers/ram/{stores,trash} -mindepth 1)" ]
    [ "$(stagers)" -eq 0 ]
}

@test "a file that changes while it is copied is not staged" {
    head -c 3000000 /dev/zero >"$DATA/train/n0000/big"
    chmod 644 "$DATA/train/n0000/big"
    slow_source 'hang:read train/n0000/big'
    ctl_run --tier "a=$DIR/t1" --report "$DIR/home/r.json" -- bash -c 'read -r line <"$DIR/home/go"; sha256sum <"$DATA/train/n0000/big"' >"$DIR/sum" 3>&- &
    ada mkfifo "$DIR/home/go"
    await has_staged 160
    printf new | dd of="$SOURCE/train/n0000/big" conv=notrunc status=none
    control '# nothing'
    await in_state staged
    [ ! -e "$DIR"/t1/stores/*/data/files/train/n0000/big ]
    echo >"$DIR/home/go"
    wait $!
    diff "$DIR/sum" <(sha256sum <"$SOURCE/train/n0000/big")
    [ "$(report "$DIR/home/r.json" '[j["files_staged"], j["files_failed"], j["opens_source"]]')" = "[160, 1, 1]" ]
}

@test "a job that rewrites and removes its files never reads old bytes" {
    chown -R ada "$DATA"
    ctl_run --report "$DIR/home/r.json" -- python3 - <<'END'
import os, sys
root = os.environ["DATA"] + "/train"
files = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
for round in range(5):
    for n, f in enumerate(files):
        new = b"%d %d" % (round, n)
        if n % 4 == 0:
            with open(f, "wb") as out: out.write(new)
        elif n % 4 == 1:
            with open(f + ".new", "wb") as out: out.write(new)
            os.rename(f + ".new", f)
        elif n % 4 == 2:
            os.unlink(f)
            try:
                open(f)
                sys.exit("removed, but there: " + f)
            except FileNotFoundError:
                with open(f, "xb") as out: out.write(new)
        else:
            continue
        got = open(f, "rb").read()
        if got != new: sys.exit("%s: %r, not %r" % (f, got[:20], new))
END
    await nothing_left
}

@test "MONARCH_DISABLE=1 is pure pass-through" {
    ctl_run --wait all --report "$DIR/home/r.json" -- env MONARCH_DISABLE=1 bash -c "$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" '[j["opens_local"], j["opens_source"]]')" = "[0, 0]" ]
}

@test "several data sets, one environment variable each; a name twice is refused" {
    cp -a "$DATA" "$DIR/other-set"
    ada monarchctl run --dataset "$DATA,$DIR/other-set" --wait all --report "$DIR/home/r.json" -- \
        sh -c 'cat "$MONARCH_DATASET_DATA"/train/*/* "$MONARCH_DATASET_OTHER_SET"/train/*/* | sha256sum' >"$DIR/sum"
    cat "$DATA"/train/*/* "$DATA"/train/*/* | sha256sum | diff - "$DIR/sum"
    [ "$(report "$DIR/home/r.json" '[len(j["sessions"]), j["opens_local"]]')" = "[2, $((2 * FILES))]" ]
    run ada monarchctl run --dataset "$DATA,$DIR/x/data" -- true
    [ "$status" -eq 2 ]
    await nothing_left
}

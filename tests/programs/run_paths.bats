#!/usr/bin/env bats
# monarchctl run: data sets, tiers and files by any name, and what is said of those that cannot be read. Run by tests/cluster/sandbox.sh.
# shellcheck disable=SC2016  # commands for an inner shell

source "$BATS_TEST_DIRNAME/run.sh"

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

@test "a run that comes to a store which others hold hears that the data set has changed since" {
    ctl_run --tier "a=$DIR/t1" -- sh -c 'read -r line <"$DIR/home/go"' 3>&- &
    ada mkfifo "$DIR/home/go" "$DIR/home/go2"
    await has_staged 160
    ctl_run --tier "a=$DIR/t1" --report "$DIR/home/r.json" -- true 2>"$DIR/err"
    [ ! -s "$DIR/err" ]
    printf changed >"$DATA/train/n0000/img_000001.jpg"
    has_note() { ada monarchctl status --json | grep -q "train/n0000/img_000001.jpg has changed since another job"; }
    ctl_run --tier "a=$DIR/t1" -- sh -c 'read -r line <"$DIR/home/go2"' 2>"$DIR/err" 3>&- &
    await has_note
    echo >"$DIR/home/go2"
    wait $!
    [ "$(grep -c "^monarchctl: data set data: train/n0000/img_000001.jpg has changed since another job of yours staged" "$DIR/err")" -eq 1 ]
    touch "$DATA"
    has_note() { ada monarchctl status --json | grep -q "its root has changed since"; }
    ctl_run --tier "a=$DIR/t1" -- sh -c 'read -r line <"$DIR/home/go2"' 2>"$DIR/err" 3>&- &
    await has_note
    echo >"$DIR/home/go2"
    wait $!
    echo >"$DIR/home/go"
    await nothing_left
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

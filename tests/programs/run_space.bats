#!/usr/bin/env bats
# monarchctl run: who gets which space on the tiers, and never more. Run by tests/cluster/sandbox.sh.
# shellcheck disable=SC2016  # commands for an inner shell

source "$BATS_TEST_DIRNAME/run.sh"

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

@test "a fast tier of few inodes: the files that it has none for lie on the next, in space that is reserved" {
    mount -t tmpfs -o size=64M,nr_inodes=60,uid=61001,mode=700 monarch-test "$DIR/t1"
    MOUNTED=$DIR/t1
    ctl_run --tier "a=$DIR/t1" --tier "b=$DIR/t2:64MiB" --wait all --report "$DIR/home/r.json" -- \
        bash -c "$SUMS; "'read -r line <"$DIR/home/go"' >"$DIR/sums" 3>&- &
    ada mkfifo "$DIR/home/go"
    await has_staged $FILES
    await grep -qa settled=1 "$STATE"/monarch/run/stores/*/grant
    [ "$(du -s -B1 "$DIR"/t2/stores/*/data | cut -f1)" -le "$(ledger "bytes FROM reservation WHERE tier = 'b'")" ]
    echo >"$DIR/home/go"
    wait $!
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" '[j["files_planned"], j["files_staged"], j["opens_local"]]')" = "[$FILES, $FILES, $FILES]" ]
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

@test "symbolic links count in the plan: never more on the tier than was reserved" {
    chown -R ada "$DATA"
    ada bash -c 'cd "$DATA/train" && for n in $(seq 1000); do ln -s "$(printf "n0000/%0100d" "$n")" "link$n"; done'
    ctl_run --tier "a=$DIR/t1:3MiB" --wait all -- bash -c 'monarchctl wait all; du -s -B1 "$DIR"/t1/stores/*/data | cut -f1 >"$DIR/home/du"; '"$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(cat "$DIR/home/du")" -le $((3 << 20)) ]
    with=$(ada monarchctl plan "$DATA" --capacity 3MiB --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["plan"][0]["files_planned"])')
    find "$DATA" -type l -delete
    without=$(ada monarchctl plan "$DATA" --capacity 3MiB --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["plan"][0]["files_planned"])')
    [ "$with" -lt "$without" ]
}

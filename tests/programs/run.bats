#!/usr/bin/env bats
# monarchctl run: the whole life of a session around one command, as an ordinary user. Run by tests/cluster/sandbox.sh.
# shellcheck disable=SC2016  # commands for an inner shell

source "$BATS_TEST_DIRNAME/run.sh"

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

@test "--ranks and options of later versions do not keep a command from running" {
    run ctl_run --ranks 2,3/8 --epochs 3 -- echo ran
    [ "$status" -eq 0 ]
    [ "$output" = ran ]
    run ctl_run --report "$DIR/missing/r.json" -- echo ran
    [ "$status" -eq 1 ]
    one_line_error
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

@test "a folder that is renamed takes its files out of the staged counts" {
    chown -R ada "$DATA"
    ctl_run --tier "a=$DIR/t1" --wait all --report "$DIR/home/r.json" -- bash -c '
        monarchctl wait all; mv "$DATA/train/n0003" "$DATA/train/moved"; cat "$DATA/train/moved"/* >/dev/null; read -r line <"$DIR/home/go"' 3>&- &
    ada mkfifo "$DIR/home/go"
    await has_staged 120
    # Those of its files are retired in the state file, too.
    retired() { [ "$(sqlite3 "$DIR"/t1/stores/*/data/store.db "SELECT count(*) FROM file WHERE state = 'retired'")" -eq 40 ]; }
    await retired
    echo >"$DIR/home/go"
    wait $!
    [ "$(report "$DIR/home/r.json" '[j["files_planned"], j["files_staged"]]')" = "[160, 120]" ]
    [ "$(report "$DIR/home/r.json" 'j["bytes_staged"] < j["bytes_planned"]')" = True ]
}

@test "MONARCH_DISABLE=1 is pure pass-through" {
    ctl_run --wait all --report "$DIR/home/r.json" -- env MONARCH_DISABLE=1 bash -c "$SUMS" >"$DIR/sums"
    diff <(sums) "$DIR/sums"
    [ "$(report "$DIR/home/r.json" '[j["opens_local"], j["opens_source"]]')" = "[0, 0]" ]
}

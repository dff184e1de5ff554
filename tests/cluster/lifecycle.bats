#!/usr/bin/env bats
# However a job ends, and whatever dies meanwhile: no node drains, nothing is left, the ledger has the outcome.
# Every test ends with assert_clean.

source "$BATS_TEST_DIRNAME/monarch.sh"

setup_file() {
    # A requeued job waits until its first run's credential has expired, two minutes otherwise: before, slurmd would
    # start the batch script without waiting for the prolog.
    SLURM_CRED_EXPIRE=15 monarch_start "RequeueExit=77"
    make_dataset pics --files 80 --classes 4 --mean-bytes 20000
    slow_source pics
}

teardown() {
    slow_control pics
    assert_clean
}

# A two-node job whose tasks wait in their first open, since the source hangs; `cat` is what waits. Its id is in $id.
submit_waiting() {
    slow_control pics "hang:read *"
    id=$(submit ada -N2 --monarch-dataset=slow-pics --monarch-wait=all --wrap "srun cat $SHARED/pics/train/n0000/img_000001.jpg" "$@")
    tasks_wait
}

tasks_wait() {
    poll 60 two_wait
    # Copying has begun, and hangs.
    slow_since pics read 2
}

# Sleeping, so not in a read of the source, which would hang uninterruptibly.
two_wait() {
    (($(ps -u ada -o stat=,comm= | grep -c '^S.* cat$') >= 2))
}

# The job is gone from both nodes while the source still hangs, and nobody was hurt.
ended_while_hanging() {
    wait_job "$1" 60
    slurm_wait_idle 60
    slurm_assert_not_drained
    [ -z "$(processes_of ada cat)" ]
    local node
    for node in node0 node1; do [ "$(lease "$node" "$1" outcome)" = detached ] || return 1; done
}

@test "assert_clean sees what a running job has" {
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet seen 2")
    poll 60 job_has_printed "$id"
    run leftovers
    echo "$output"
    for what in "live lease of job $id" "reservation of store" "/mnt/node0/tier/stores/" "$LOCAL/node0/run/jobs/$id" \
        "$LOCAL/node0/run/tiers/ram/stores/"*"/data" "monarch-stager run"; do
        [[ $output == *"$what"* ]]
    done
    meet seen 2
}

# ---- the job is ended while its first open waits -------------------------------------------------------------

@test "scancel while the first open waits for staging" {
    submit_waiting
    scancel "$id"
    ended_while_hanging "$id"
}

@test "scancel --signal=KILL while the first open waits" {
    submit_waiting
    scancel --signal=KILL --full "$id"
    ended_while_hanging "$id"
}

@test "the time limit while the first open waits" {
    submit_waiting --time=60
    scontrol update JobId="$id" EndTime=now
    ended_while_hanging "$id"
    [ "$(job_field "$id" JobState)" = TIMEOUT ]
}

@test "srun interrupted twice while the first open waits" {
    slow_control pics "hang:read *"
    as_user ada env --default-signal=INT srun -Q -N2 --job-name=interrupted --monarch-dataset=slow-pics --monarch-wait=all \
        cat "$SHARED/pics/train/n0000/img_000001.jpg" >"$LOCAL/interrupted" 2>&1 3>&- &
    tasks_wait
    id=$(squeue -h -n interrupted -o %A)
    poll 30 interrupted "$(pgrep -o -u ada -x srun)"
    ended_while_hanging "$id"
}

# Two within a second end srun; it can miss one that comes while it deals with the one before.
interrupted() {
    kill -INT "$1" 2>/dev/null || true
    is_gone "$1"
}

@test "scancel while the listing hangs" {
    slow_control pics "hang:opendir *" "hang:readdir *"
    id=$(submit ada -N2 --monarch-dataset=slow-pics --monarch-wait=all --wrap "srun cat $SHARED/pics/train/n0000/img_000001.jpg")
    poll 60 two_wait
    scancel "$id"
    ended_while_hanging "$id"
}

@test "a job that ends before it is staged" {
    slow_control pics "hang:read *"
    id=$(submit ada -N2 --monarch-dataset=slow-pics --wrap true)
    ended_while_hanging "$id"
    [ "$(job_field "$id" JobState)" = COMPLETED ]
}

@test "the wait ends when its time is up, and the job reads the source" {
    slow_control pics "hang:read */img_000080.jpg"
    run run_job -N1 -w node0 --monarch-dataset=slow-pics --monarch-wait=all,2s \
        --wrap "sha256sum <$SHARED/pics/train/n0000/img_000001.jpg; cat $SHARED/pics/train/n0000/img_000001.jpg | sha256sum"
    [ "${lines[0]}" = "$(sha256sum <"$SOURCES/pics/train/n0000/img_000001.jpg")" ]
    [ "${lines[1]}" = "${lines[0]}" ]
}

# ---- something dies while the job runs -----------------------------------------------------------------------

@test "kill -9 of the stager while the first open waits: it ends, and the bytes are right" {
    slow_control pics "hang:read *"
    id=$(submit ada -N1 -w node0 --monarch-dataset=slow-pics --monarch-wait=all --wrap "$BIN/digest $SHARED/pics")
    slow_since pics read 2
    pid=$(stager_of node0 "$id")
    kill -KILL "$pid"
    slow_control pics
    wait_job "$id"
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" outcome,opens_source)" = "detached|80" ]
}

@test "kill -9 of the stager after staging: the copies are still read" {
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --monarch-wait=all \
        --wrap "$BIN/digest $SOURCES/pics; $BIN/meet staged 2; $BIN/meet killed 2; $BIN/digest $SOURCES/pics")
    meet staged 2
    kill -KILL "$(stager_of node0 "$id")"
    meet killed 2
    wait_job "$id"
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" outcome,opens_local,opens_source)" = "detached|160|0" ]
}

@test "kill -9 of a stager that two jobs share: the first one's end brings another" {
    for name in first second; do
        submit ada -n1 -w node0 --monarch-dataset=pics --monarch-wait=all --output=$name \
            --wrap "$BIN/digest $SOURCES/pics; $BIN/meet both 3; $BIN/meet $name 2; $BIN/digest $SOURCES/pics" >/dev/null
    done
    meet both 3
    old=$(ledger node0 "select stager_pid from store")
    kill -KILL "$old"
    meet first 2
    poll 30 has_other_stager "$old"
    meet second 2
    slurm_wait_idle
    for name in first second; do
        [ "$(cat "$MONARCH_SANDBOX/home/ada/$name")" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    done
    [[ $(slurmd_log node0) == *"had ended: started again"* ]]
}

has_other_stager() {
    [ "$(ledger node0 "select stager_pid from store")" != "$1" ]
}

@test "kill -9 of slurmd while the job runs" {
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet slurmd 2")
    poll 60 job_has_printed "$id"
    slurm_restart_slurmd node0 KILL
    meet slurmd 2
    wait_job "$id"
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" outcome,opens_local)" = "detached|80" ]
}

job_has_printed() {
    [[ -n $(job_output "$1" 2>/dev/null) ]]
}

@test "what a node that lost power left is gone after the next job's attach" {
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet power 2")
    poll 60 job_has_printed "$id"
    # As after a boot: no stager, the leases are of another boot, folders nobody knows.
    kill -KILL "$(stager_of node0 "$id")"
    ledger node0 "update lease set boot_id = 'another' where ended_at is null; update store set boot_id = 'another'"
    mkdir -p /mnt/node0/tier/stores/987654/data "$LOCAL/node0/run/jobs/987654"
    run run_job -n1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics"
    [ "$output" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$(last_job)" outcome,opens_local)" = "detached|80" ]
    [ "$(lease node0 "$id" outcome)" = rebooted ]
    meet power 2
}

@test "requeue: the second run has the same job id, its own lease and its own copies" {
    id=$(submit ada -N1 -w node0 --requeue --open-mode=append --monarch-dataset=pics --monarch-wait=all \
        --wrap "$BIN/digest $SOURCES/pics; [ \${SLURM_RESTART_COUNT:-0} -ge 1 ] || exit 77")
    poll 60 is_requeued "$id"
    wait_job "$id"
    job_output "$id"
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" restart,outcome,source_reads,opens_local,opens_source)" = "$(printf '%s\n' "0|detached|80|80|0" "1|detached|80|80|0")" ]
}

# It waits for its second run, and nothing of the first is left on the node.
is_requeued() {
    [ "$(job_field "$1" JobState)" = PENDING ] && [ "$(job_field "$1" Restarts)" = 1 ] && ! is_attached node0 "$1"
}

@test "a second job keeps the store of a first one that ends" {
    first=$(submit ada -n1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet shared 3")
    second=$(submit ada -n1 -w node0 --monarch-dataset=pics --monarch-wait=all \
        --wrap "$BIN/meet shared 3; $BIN/meet alone 2; $BIN/digest $SOURCES/pics")
    meet shared 3
    wait_job "$first"
    meet alone 2
    wait_job "$second"
    [ "$(job_output "$second")" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$second" outcome,opens_local,opens_source)" = "detached|80|0" ]
}

#!/usr/bin/env bats
# The harness itself: without this, a failure elsewhere could be the cluster's.

setup_file() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
    slurm_start
}

teardown_file() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
    slurm_stop
}

setup() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
}

@test "a two-node job of an ordinary user runs on both nodes" {
    id=$(submit ada -N2 --wrap 'srun bash -c "echo \$(hostname) \$SLURMD_NODENAME"')
    wait_job "$id"
    [ "$(job_field "$id" JobState)" = COMPLETED ]
    run job_output "$id"
    [ "$(sort <<<"$output")" = "$(printf '%s\n' "$(hostname) node0" "$(hostname) node1")" ]
}

@test "a job has its user's supplementary groups" {
    id=$(submit ada --wrap 'id -un; id -Gn')
    wait_job "$id"
    [ "$(job_output "$id")" = "$(printf '%s\n' ada 'ada vision')" ]
    id=$(submit ben --wrap 'id -Gn')
    wait_job "$id"
    [ "$(job_output "$id")" = ben ]
}

@test "as_user gives a clean environment in the user's home" {
    export LEAKED=1
    run as_user ben env
    [[ $output == *"SLURM_CONF=$SLURM_CONF"* && $output != *LEAKED* ]]
    run as_user ben bash -c 'pwd; id -u; squeue -h'
    [ "$output" = "$(printf '%s\n' "$MONARCH_SANDBOX/home/ben" 61002)" ]
}

@test "several jobs share a node" {
    first=$(submit ada -n1 -c2 -w node0 --wrap 'sleep 60')
    second=$(submit ben -n1 -c2 -w node0 --wrap 'true')
    wait_job "$second" 30
    [ "$(job_field "$first" JobState)" = RUNNING ]
    scancel "$first"
    wait_job "$first"
}

@test "a job in the partition gpu, with its output where it says" {
    id=$(submit ben -p gpu -o out.%j --wrap 'echo $SLURM_JOB_PARTITION')
    wait_job "$id"
    [ "$(job_output "$id")" = gpu ]
    [ -f "$MONARCH_SANDBOX/home/ben/out.$id" ]
}

@test "a slurmd that was stopped or killed comes back" {
    slurm_restart_slurmd node0
    slurm_restart_slurmd node1 KILL
    id=$(submit ada -N2 --wrap 'srun true')
    wait_job "$id"
    [ "$(job_field "$id" ExitCode)" = 0:0 ]
    slurm_wait_idle
    slurm_assert_not_drained
    [[ $(slurmd_log node1) == *"slurmd started"* ]]
}

@test "a drained node is noticed" {
    scontrol update NodeName=node1 State=DRAIN Reason=harness
    run slurm_assert_not_drained
    [ "$status" -ne 0 ]
    [[ $output == *harness* ]]
    scontrol update NodeName=node1 State=RESUME
    slurm_wait_idle 30
}

@test "slurm_stop leaves no process, not even those of a running job" {
    id=$(submit ada -N2 --wrap 'trap "" TERM; srun sleep 1234')
    poll 30 job_runs "$id"
    before=$(ls "$SLURM_DIR"/run/*.pid | wc -l)
    [ "$before" -ge 4 ]
    slurm_stop
    run bash -c 'ps -eo user:12,stat,args | grep -E "^(ada|ben) |slurm(ctld|d|stepd|scriptd)|munged" | grep -v grep'
    echo "$output"
    [ "$output" = "" ]
    slurm_start "KillWait=3"
    [[ $(scontrol show config) == *"KillWait                = 3 sec"* ]]
}

job_runs() {
    [ "$(job_field "$1" JobState)" = RUNNING ] && pgrep -f 'sleep 1234' >/dev/null
}

@test "a sandbox ends with everything that was started, mounted and written in it" {
    run env --default-signal=INT "$BATS_TEST_DIRNAME/sandbox.sh" bash -c '
        mkdir "$MONARCH_SANDBOX/mnt"; mount -t tmpfs inner "$MONARCH_SANDBOX/mnt"
        setsid sleep 4321 >/dev/null 2>&1 3>&- &
        echo "$MONARCH_SANDBOX"; exit 7'
    [ "$status" -eq 7 ]
    [ ! -e "$output" ]
    run pgrep -f 'sleep 4321'
    [ "$output" = "" ]
    run grep -c "inner" /proc/self/mountinfo
    [ "$output" = 0 ]
}

@test "a signal ends a sandbox, also one whose command does not listen" {
    "$BATS_TEST_DIRNAME/sandbox.sh" bash -c 'trap "" TERM; echo "$MONARCH_SANDBOX" >"$0"; while :; do sleep 0.1; done' \
        "$BATS_TEST_TMPDIR/folder" 3>&- &
    pid=$!
    poll 20 test -s "$BATS_TEST_TMPDIR/folder"
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ "$status" -eq 143 ]
    [ ! -e "$(cat "$BATS_TEST_TMPDIR/folder")" ]
}

# ---- a sandbox's limits: whatever runs wild in one ends by itself, and the machine is as it was ---------------

# bounded OPTION… -- COMMAND…: runs a sandbox with a mark in its command line, and sees that nothing of it is left.
bounded() {
    local options=() processes folder
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    # shellcheck disable=SC2016
    run "$BATS_TEST_DIRNAME/sandbox.sh" "${options[@]}" bash -c 'echo "in $MONARCH_SANDBOX"; exec "$@"' "$@"
    folder=$(sed -n 's/^in //p' <<<"$output")
    processes=$(ps -eo stat=,args= | awk '$1 !~ /^Z/ && /[w]ild-one/')
    echo "$output"
    echo "$processes"
    [ "$processes" = "" ]
    [[ $folder == /tmp/monarch.* && ! -e $folder ]]
    [ -z "$(find /sys/fs/cgroup -type d -name "${folder##*/}" 2>/dev/null)" ]
}

has_cgroups() {
    awk '$3 == "cgroup2" || $3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { found = 1 } END { exit !found }' /proc/mounts
}

@test "a fork storm ends in its sandbox, which never holds more processes than it may" {
    bounded --time 5 --processes 200 -- bash -c '
        : wild-one
        storm() { while :; do (storm) & done; }
        storm 2>/dev/null &
        most=0
        while :; do
            set -- /proc/[0-9]*
            ((most >= $#)) || { most=$#; echo "$most"; }
        done'
    [ "$status" -eq 124 ]
    grep -q "^sandbox.sh: ended after 5: bash$" <<<"$output"
    most=$(grep -x '[0-9]*' <<<"$output" | tail -n 1)
    [ "$most" -gt 50 ]
    if has_cgroups; then [ "$most" -le 200 ]; fi
}

@test "a memory hog ends in its sandbox" {
    has_cgroups || skip "no cgroups"
    bounded --time 60 --memory 256M -- /usr/bin/python3 -c 'import sys
held = []  # wild-one
while True:
    held.append(bytearray(b"x" * (1 << 20)))
    print(len(held), flush=True)'
    [ "$status" -eq 137 ]
    [ "$(grep -x '[0-9]*' <<<"$output" | tail -n 1)" -gt 100 ]
    [ "$(grep -x '[0-9]*' <<<"$output" | tail -n 1)" -le 256 ]
    # Files on tmpfs outlive who wrote them: then the sandbox goes as a whole.
    bounded --time 60 --memory 256M -- bash -c 'while :; do head -c 16M /dev/zero >>/dev/shm/wild-one; done'
    [ "$status" -ne 0 ]
}

@test "a program that sleeps for ever ends with its sandbox's time" {
    bounded --time 2 -- bash -c 'trap "" TERM INT; setsid bash -c ": wild-one; sleep 54321" & sleep 54321; echo wild-one'
    [ "$status" -eq 124 ]
    [ "$(pgrep -f 'sleep 54321')" = "" ]
}

@test "the limits are 20 minutes, 12 GiB and 4,000 processes, and wrong options are refused" {
    has_cgroups || skip "no cgroups"
    run "$BATS_TEST_DIRNAME/sandbox.sh" bash -c '
        while IFS=: read -r number controllers path; do
            for folder in /sys/fs/cgroup/$controllers /sys/fs/cgroup /sys/fs/cgroup/unified; do
                for file in memory.max memory.limit_in_bytes pids.max; do
                    [ ! -e "$folder$path/$file" ] || cat "$folder$path/$file"
                done
            done
        done </proc/self/cgroup'
    echo "$output"
    [[ $output == *12884901888* && $output == *4000* ]]
    grep -q '^time_limit=20m ' "$BATS_TEST_DIRNAME/sandbox.sh"
    run "$BATS_TEST_DIRNAME/sandbox.sh" --time 5
    [ "$status" -eq 1 ]
    [[ $output == "sandbox.sh: usage: "* ]]
    for option in "--memory nonsense" "--time ever" "--processes -1"; do
        # shellcheck disable=SC2086
        run "$BATS_TEST_DIRNAME/sandbox.sh" $option true
        [ "$status" -eq 1 ]
        [[ $output == "sandbox.sh: $option is no "* ]]
    done
}

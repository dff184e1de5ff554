#!/usr/bin/env bats
# The plugin without a Slurm: what it exports, and what prolog and epilog do with monarch-stager.

bats_require_minimum_version 1.5.0

setup_file() {
    export BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    export PLUGIN=$BUILD/spank_monarch.so
    gcc -Wall -Wextra -Werror -rdynamic "$BATS_TEST_DIRNAME/spank_host.c" -o "$BATS_FILE_TMPDIR/host" -ldl
}

setup() {
    bin=$BATS_TEST_TMPDIR/bin etc=$BATS_TEST_TMPDIR/etc run=$BATS_TEST_TMPDIR/run
    mkdir -p "$bin" "$etc" "$run"
    printf '[paths]\nrun = "%s"\n[[tier]]\nname = "disk"\npath = "/nonexistent"\n' "$run" >"$etc/monarch.toml"
    # Writes down how it was called.
    stager <<END
echo "\$@" >"$BATS_TEST_TMPDIR/arguments"
tr '\\0' '\\n' >"$BATS_TEST_TMPDIR/request"
ls /proc/\$\$/fd >"$BATS_TEST_TMPDIR/descriptors"
tr '\\0' '\\n' </proc/\$\$/environ >"$BATS_TEST_TMPDIR/environment"
cut -d' ' -f6 /proc/\$\$/stat >"$BATS_TEST_TMPDIR/session"
echo \$\$ >"$BATS_TEST_TMPDIR/pid"
END
    unset SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_CPUS_PER_NODE
    export SLURMD_NODENAME=b
}

# The program that stands for monarch-stager, its commands from standard input.
stager() {
    { echo '#!/bin/sh'; cat; } >"$bin/monarch-stager"
    chmod 755 "$bin/monarch-stager"
}

# host prolog|epilog [-- OPTION…]
host() {
    "$BATS_FILE_TMPDIR/host" "$PLUGIN" "$1" "config=$etc" "bin=$bin" "${@:2}"
}

@test "it exports Slurm's names and nothing else" {
    run bash -c "nm -D --defined-only '$PLUGIN' | awk '{ print \$3 }' | sort | tr '\n' ' '"
    [ "$output" = "plugin_name plugin_type plugin_version slurm_spank_init slurm_spank_init_post_opt slurm_spank_job_epilog \
slurm_spank_job_prolog slurm_spank_task_init spank_plugin_version " ]
}

@test "nothing of it stays behind in a program that unloads it" {
    run ! bash -c "nm '$PLUGIN' | grep ' u '"
}

@test "it needs the C++ run-time libraries alone" {
    run ! bash -c "readelf -d '$PLUGIN' | grep NEEDED | grep -v -e 'libstdc++' -e libgcc_s -e 'libm\.' -e 'libc\.'"
}

@test "it uses nothing of Slurm but the SPANK functions" {
    run bash -c "nm -D --undefined-only '$PLUGIN' | awk '{ print \$2 }' | grep -e slurm -e spank | sort | tr '\n' ' '"
    [ "$output" = "slurm_error slurm_info slurm_spank_log spank_context spank_get_item spank_job_control_setenv \
spank_job_control_unsetenv spank_option_getopt spank_option_register spank_setenv spank_unsetenv " ]
}

@test "prolog: without a data set nothing is run" {
    run host prolog -- epochs=3
    [ "$output" = "returned 0" ]
    [ ! -e "$BATS_TEST_TMPDIR/request" ]
}

@test "prolog: the request to attach" {
    export SLURM_NODELIST=a,b,c SLURM_JOB_NUM_NODES=3 SLURM_JOB_PARTITION=gpu SLURM_JOB_RESTART_COUNT=2
    run host prolog -- dataset=imagenet,/x epochs=3
    [ "$output" = "returned 0" ]
    [ "$(cat "$BATS_TEST_TMPDIR/arguments")" = "attach --config $etc" ]
    run cat "$BATS_TEST_TMPDIR/request"
    [ "$output" = "job=7
restart=2
uid=1000
gid=1001
node=b
nodelist=a,b,c
node_index=1
nodes=3
partition=gpu
option.dataset=imagenet,/x
option.epochs=3" ]
}

@test "prolog: the job's share of this node's CPUs" {
    local cpus
    cpus=$(getconf _NPROCESSORS_ONLN)
    export SLURM_NODELIST=a,b,c
    SLURM_JOB_CPUS_PER_NODE="$cpus(x2),1" host prolog -- dataset=x
    grep -x cpu_share=1.000000 "$BATS_TEST_TMPDIR/request"
    SLURM_JOB_CPUS_PER_NODE="$cpus,1,$cpus" host prolog -- dataset=x
    grep -x "cpu_share=$(awk "BEGIN { printf \"%.6f\", 1 / $cpus }")" "$BATS_TEST_TMPDIR/request"
    for nonsense in "" x 2 "2(x" "2(x0),3" "0(x3)" "-1(x3)"; do
        SLURM_JOB_CPUS_PER_NODE=$nonsense host prolog -- dataset=x
        run ! grep cpu_share "$BATS_TEST_TMPDIR/request"
    done
}

@test "prolog: attach gets a session of its own, three descriptors and an empty environment" {
    export SECRET=1
    exec 17</dev/null
    host prolog -- dataset=x
    [ "$(cat "$BATS_TEST_TMPDIR/session")" = "$(cat "$BATS_TEST_TMPDIR/pid")" ]
    # 10 and 11 are the shell's own.
    [ "$(grep -vx '1[01]' "$BATS_TEST_TMPDIR/descriptors" | sort -n | tr '\n' ' ')" = "0 1 2 " ]
    [ "$(grep -v ^PWD= "$BATS_TEST_TMPDIR/environment")" = "PATH=/usr/sbin:/usr/bin:/sbin:/bin" ]
}

@test "prolog: a value with control characters or of over 64 KiB is left out" {
    run host prolog -- dataset=x order=$'a\nb' wait="$(head -c 65537 /dev/zero | tr '\0' a)"
    [ "${lines[0]}" = "error: monarch: job 7: --monarch-order is too long or has control characters: left out" ]
    [ "${lines[1]}" = "error: monarch: job 7: --monarch-wait is too long or has control characters: left out" ]
    [ "${lines[2]}" = "returned 0" ]
    [ "$(grep -c ^option "$BATS_TEST_TMPDIR/request")" -eq 1 ]
}

@test "prolog: what attach says goes to the log, as errors when it failed" {
    stager <<<'echo "first line" >&2; printf second >&2'
    run host prolog -- dataset=x
    [ "$output" = $'info: monarch: first line\ninfo: monarch: second\nreturned 0' ]
    stager <<<'echo "it failed" >&2; exit 1'
    run host prolog -- dataset=x
    [ "$output" = $'error: monarch: it failed\nreturned 0' ]
}

@test "prolog: attach fails without a word, is killed, is no program, is missing" {
    stager <<<'exit 3'
    run host prolog -- dataset=x
    [[ ${lines[0]} == "error: monarch: job 7: "* && ${lines[1]} == "returned 0" ]]
    stager <<<'kill -9 $$'
    run host prolog -- dataset=x
    [[ ${lines[0]} == "error: monarch: job 7: "* && ${lines[1]} == "returned 0" ]]
    echo "no program" >"$bin/monarch-stager"
    run host prolog -- dataset=x
    [[ ${lines[0]} == "error: monarch: job 7: "* && ${lines[1]} == "returned 0" ]]
    rm "$bin/monarch-stager"
    run host prolog -- dataset=x
    [[ ${lines[0]} == "error: monarch: job 7: no monarch-stager"* && ${lines[1]} == "returned 0" ]]
}

@test "prolog: it does not wait for an attach that hangs, nor for what that leaves running" {
    stager <<<'exec sleep 30'
    SECONDS=0
    run timeout 10 "$BATS_FILE_TMPDIR/host" "$PLUGIN" prolog "config=$etc" "bin=$bin" -- dataset=x
    [ "$output" = $'info: monarch: job 7: attach goes on in the background\nreturned 0' ]
    # Its error output stays open in a process that it leaves behind.
    stager <<<'sleep 30 & echo attached >&2'
    run timeout 10 "$BATS_FILE_TMPDIR/host" "$PLUGIN" prolog "config=$etc" "bin=$bin" -- dataset=x
    [ "$output" = $'info: monarch: attached\nreturned 0' ]
    [ "$SECONDS" -lt 10 ]
}

@test "prolog: an attach that writes without end neither blocks nor fills the log" {
    stager <<<'exec yes >&2'
    run host prolog -- dataset=x
    [ "${#output}" -lt 100000 ]
    [ "${lines[-1]}" = "returned 0" ]
}

@test "epilog: nothing is run for a job that has no folder and had no option" {
    run host epilog
    [ "$output" = "returned 0" ]
    [ ! -e "$BATS_TEST_TMPDIR/request" ]
}

@test "epilog: detach for a job that has a folder, also without the option" {
    mkdir -p "$run/jobs/7"
    run host epilog
    [ "$output" = "returned 0" ]
    [ "$(cat "$BATS_TEST_TMPDIR/arguments")" = "detach --config $etc" ]
    [ "$(cat "$BATS_TEST_TMPDIR/request")" = $'job=7\nnode=b' ]
}

@test "epilog: detach for a job that had the option, or where the configuration cannot be read" {
    host epilog -- dataset=x
    [ -s "$BATS_TEST_TMPDIR/request" ]
    rm "$BATS_TEST_TMPDIR/request"
    echo nonsense >"$etc/monarch.toml"
    host epilog
    [ -s "$BATS_TEST_TMPDIR/request" ]
}

@test "the stager beside the plugin is found without bin=" {
    cp "$PLUGIN" "$bin"
    "$BATS_FILE_TMPDIR/host" "$bin/spank_monarch.so" prolog "config=$etc" -- dataset=x
    [ -s "$BATS_TEST_TMPDIR/request" ]
}

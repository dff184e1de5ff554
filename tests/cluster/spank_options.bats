#!/usr/bin/env bats
# shellcheck disable=SC2016  # what a job's shell is to expand
# The job's options: how they are given, which one holds, what is refused, and what the job sees of them.

setup_file() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
    export BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    # Where the jobs' users can read them, too.
    export BIN=$MONARCH_SANDBOX/bin
    mkdir -p "$BIN"
    cp "$BUILD"/{spank_monarch.so,monarch-stager,monarchctl,libmonarch.so} "$BIN"
    export ETC=$MONARCH_SANDBOX/etc-monarch SOURCE=$MONARCH_SANDBOX/source
    local name
    for name in flowers birds; do
        mkdir -p "$SOURCE/$name"
        for n in 1 2 3; do echo "$name $n" >"$SOURCE/$name/$n"; done
    done
    # A tier lies outside /tmp; this mount is the sandbox's.
    mount -t tmpfs -o mode=755 monarch /mnt
    write_configuration
    local node
    for node in "${SLURM_NODES[@]}"; do
        mkdir -p "/mnt/$node"
        "$BIN/monarchctl" tier init --config "$ETC" --node "$node"
    done
    plugin
    slurm_start
}

teardown_file() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
    slurm_stop
}

setup() {
    source "$BATS_TEST_DIRNAME/slurm.sh"
}

teardown() {
    slurm_wait_idle 60
    slurm_assert_not_drained
    plugin
    write_configuration
}

# plugin [ARGUMENT…]: read anew by each sbatch, prolog and step.
plugin() {
    slurm_plugstack "optional $BIN/spank_monarch.so config=$ETC $*"
}

write_configuration() {
    rm -rf "$ETC"
    mkdir -p "$ETC/datasets.d" "$ETC/policy.d"
    cat >"$ETC/monarch.toml" <<END
[paths]
state = "$MONARCH_SANDBOX/local/%n/state"
run = "$MONARCH_SANDBOX/local/%n/run"
[[tier]]
name = "disk"
path = "/mnt/%n/tier"
capacity = "100MiB"
END
    cat >"$ETC/datasets.d/all.toml" <<END
[dataset.flowers]
source = "$SOURCE/flowers"
description = "three flowers"
[dataset.birds]
source = "$SOURCE/birds"
END
}

# What a job prints that asks `env` for the variables of its data sets.
print_datasets='env | grep ^MONARCH_DATASET_ | sort'

# run_batch SBATCH-ARG…: submits standard input, waits, prints what the job printed.
run_batch() {
    local id
    id=$(submit ada -N1 "$@") || return
    wait_job "$id"
    job_output "$id"
}

# refused COMMAND…: as ada; one line, an exit status, and nothing in the queue.
refused() {
    run as_user ada "$@"
    echo "$output"
    [ "$status" -ne 0 ] && [ "${#lines[@]}" -eq 1 ] && [ -z "$(squeue -h)" ]
}

# ---- how they are given ------------------------------------------------------------------------------------

@test "sbatch, srun and salloc list the options in their help" {
    for program in sbatch srun salloc; do
        run as_user ada "$program" --help
        for name in dataset order epochs ranks capacity wait access keep; do
            [[ $output == *"--monarch-$name="* ]]
        done
        [[ $output == *"[monarch] "* ]]
    done
}

@test "sbatch --monarch-dataset: the job gets the path and a session" {
    run run_batch --monarch-dataset=flowers --wrap "$print_datasets; cat \$MONARCH_SESSION/0/map | tr '\\0' '\\n'"
    [ "${lines[0]}" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
    [[ $output == *"root=$SOURCE/flowers"* ]]
}

@test "every node of a job has a session of its own" {
    run run_batch -N2 --monarch-dataset=flowers --wrap "srun bash -c 'echo \$MONARCH_SESSION'"
    [ "$(sort <<<"$output" | uniq | wc -l)" -eq 2 ]
    [[ $output == *"/node0/"* && $output == *"/node1/"* ]]
}

@test "an #SBATCH line" {
    run run_batch <<END
#!/bin/bash
#SBATCH --monarch-dataset=flowers
$print_datasets
END
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "srun --monarch-dataset" {
    run as_user ada srun -Q --monarch-dataset=flowers bash -c "$print_datasets"
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "salloc --monarch-dataset, srun in it" {
    run as_user ada salloc -Q --monarch-dataset=flowers srun bash -c "$print_datasets"
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "the environment variable, for sbatch, srun and salloc" {
    run as_user ada env MONARCH_DATASET=flowers srun -Q bash -c "$print_datasets"
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
    run as_user ada env MONARCH_DATASET=flowers salloc -Q srun bash -c "$print_datasets"
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
    as_user ada env MONARCH_DATASET=flowers sbatch -Q -o by-environment --wrap "$print_datasets"
    slurm_wait_idle
    [ "$(cat "$MONARCH_SANDBOX/home/ada/by-environment")" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "the command line comes before the #SBATCH line" {
    run run_batch --monarch-dataset=birds <<END
#!/bin/bash
#SBATCH --monarch-dataset=flowers
$print_datasets
END
    [ "$output" = "MONARCH_DATASET_BIRDS=$SOURCE/birds" ]
}

@test "the #SBATCH line comes before the environment" {
    as_user ada env MONARCH_DATASET=birds sbatch -Q -o before-environment <<END
#!/bin/bash
#SBATCH --monarch-dataset=flowers
$print_datasets
END
    slurm_wait_idle
    [ "$(cat "$MONARCH_SANDBOX/home/ada/before-environment")" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "two data sets, and a path beside a name" {
    run run_batch --monarch-dataset="flowers,$SOURCE/birds/" --wrap "$print_datasets"
    [ "${lines[0]}" = "MONARCH_DATASET_BIRDS=$SOURCE/birds" ]
    [ "${lines[1]}" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "both components of a heterogeneous job" {
    run as_user ada srun -Q --mem=50 --monarch-dataset=flowers bash -c "$print_datasets" : --mem=60 bash -c "$print_datasets"
    [ "${#lines[@]}" -eq 2 ]
    [ "${lines[0]}" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
    [ "${lines[1]}" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "--export=NONE" {
    run run_batch --export=NONE --monarch-dataset=flowers --wrap "$print_datasets"
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers" ]
}

@test "list prints the catalog, needs no script and submits nothing" {
    for command in "sbatch --monarch-dataset=list" "srun --monarch-dataset list" "salloc -p main --monarch-dataset=list"; do
        # shellcheck disable=SC2086
        run as_user ada timeout 10 $command < <(sleep 20)
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 3 ]
        [[ ${lines[0]} == NAME*SOURCE*DESCRIPTION ]]
        [[ ${lines[2]} == "flowers "*"$SOURCE/flowers"*"three flowers" ]]
    done
    [ -z "$(squeue -h)" ]
}

@test "list behind the script is the script's argument" {
    run as_user ada srun -Q echo --monarch-dataset=list
    [ "$output" = "--monarch-dataset=list" ]
}

# ---- what is refused ---------------------------------------------------------------------------------------

@test "refused in one line: a malformed option" {
    refused sbatch --monarch-dataset=flowers --monarch-capacity=12QB --wrap true
    [[ $output == *"--monarch-capacity=12QB"* ]]
    refused srun --monarch-dataset=some/relative/path true
    refused salloc --monarch-dataset=flowers --monarch-wait=never true
}

@test "refused in one line: a name that the catalog does not hold" {
    for command in "sbatch --wrap true" "srun true" "salloc true"; do
        # shellcheck disable=SC2086
        set -- $command
        refused "$1" --monarch-dataset=fish "${@:2}"
        [[ $output == *"'fish'"*"monarchctl dataset list"* ]]
    done
}

@test "refused in one line: a malformed #SBATCH line or environment variable" {
    run as_user ada sbatch <<<$'#!/bin/sh\n#SBATCH --monarch-dataset=fish\ntrue'
    [ "$status" -ne 0 ]
    [ "${#lines[@]}" -eq 1 ]
    refused env MONARCH_DATASET=fish srun true
}

@test "refused in one line: an option without a data set" {
    refused sbatch --monarch-epochs=3 --wrap true
    [[ $output == *"--monarch-epochs"*"--monarch-dataset"* ]]
}

@test "refused in one line: what every rule of the policy forbids" {
    cat >"$ETC/policy.d/10-paths.toml" <<END
[[rule]]
users = ["ada"]
paths = ["/lustre/**"]
END
    refused sbatch --monarch-dataset="$SOURCE/birds" --wrap true
    [[ $output == *"$SOURCE/birds"* ]]
}

@test "a refusal has the exit status that the user wants for Slurm's own errors" {
    run as_user ada env SLURM_EXIT_ERROR=77 srun --monarch-dataset=fish true
    [ "$status" -eq 77 ]
}

@test "a plugin that plugstack.conf calls required refuses in one line, too" {
    slurm_plugstack "required $BIN/spank_monarch.so config=$ETC"
    refused sbatch --monarch-dataset=fish --wrap true
}

@test "a broken catalog on the submit host: one line, and the job is submitted" {
    echo "x = " >"$ETC/datasets.d/broken.toml"
    run as_user ada sbatch --monarch-dataset=flowers --wrap true
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == *"broken.toml:1:"* ]]
}

# ---- what is none of the job's -----------------------------------------------------------------------------

@test "a job without an option sees and prints nothing" {
    run as_user ada srun -Q bash -c 'env | grep -e ^MONARCH_ -e LD_PRELOAD -e _BIND= | grep -v ^MONARCH_SANDBOX='
    [ "$output" = "srun: error: node0: task 0: Exited with exit code 1" ]
    run as_user ada env MONARCH_EPOCHS=3 srun -Q echo hello
    [ "$output" = hello ]
}

@test "srun with an option of its own in an allocation only warns, in one line" {
    run as_user ada salloc -Q --monarch-dataset=flowers srun --monarch-dataset=birds bash -c "$print_datasets"
    [ "${#lines[@]}" -eq 2 ]
    [[ $output == *"srun: monarch: "*"inside an allocation"* ]]
    [[ $output == *"MONARCH_DATASET_FLOWERS=$SOURCE/flowers"* ]]
    run as_user ada salloc -Q srun --monarch-dataset=birds true
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
}

@test "a job submitted from inside a staged job does not inherit its data set" {
    as_user ada salloc -Q --monarch-dataset=flowers srun sbatch -Q -o nested --wrap \
        'env | grep -e ^MONARCH_ -e LD_PRELOAD -e _BIND= | grep -v ^MONARCH_SANDBOX='
    slurm_wait_idle
    [ -z "$(cat "$MONARCH_SANDBOX/home/ada/nested")" ]
}

@test "a job submitted from inside a staged job with a data set of its own" {
    as_user ada salloc -Q --monarch-dataset=flowers srun sbatch -Q --monarch-dataset=birds -o nested-own --wrap "$print_datasets"
    slurm_wait_idle
    [ "$(cat "$MONARCH_SANDBOX/home/ada/nested-own")" = "MONARCH_DATASET_BIRDS=$SOURCE/birds" ]
}

@test "the user's own variables stay: MONARCH_DATASET, LD_PRELOAD, APPTAINER_BIND" {
    run as_user ada env MONARCH_DATASET=flowers LD_PRELOAD=libm.so.6 APPTAINER_BIND=/opt,/srv \
        srun -Q bash -c 'echo $MONARCH_DATASET; echo $LD_PRELOAD; echo $APPTAINER_BIND; echo $SINGULARITY_BIND'
    [ "${lines[0]}" = flowers ]
    [ "${lines[1]}" = "libm.so.6:$BIN/libmonarch.so" ]
    [[ ${lines[2]} == "/opt,/srv,$BIN,"*"/run/jobs/"* ]]
    [[ ${lines[3]} == "$BIN,"* ]]
}

@test "--monarch-access=none leaves the loader alone" {
    run as_user ada srun -Q --monarch-dataset=flowers --monarch-access=none bash -c 'echo "<$LD_PRELOAD>"'
    [ "$output" = "<>" ]
}

@test "a plugin that is listed twice does everything once" {
    slurm_plugstack "optional $BIN/spank_monarch.so config=$ETC" "optional $BIN/spank_monarch.so config=$ETC"
    run as_user ada srun -Q --monarch-dataset=flowers bash -c 'env | grep ^MONARCH_DATASET_; echo $LD_PRELOAD'
    [ "$output" = "MONARCH_DATASET_FLOWERS=$SOURCE/flowers"$'\n'"$BIN/libmonarch.so" ]
}

# ---- what goes wrong on the node ---------------------------------------------------------------------------

@test "a broken configuration: the job runs, and each node says why once" {
    echo "nonsense" >>"$ETC/monarch.toml"
    run run_batch -N2 --monarch-dataset=flowers --wrap 'srun true; srun true; echo finished'
    [ "$(grep -c 'node0: .*monarch.toml:' <<<"$output")" -eq 1 ]
    [ "$(grep -c 'node1: .*monarch.toml:' <<<"$output")" -eq 1 ]
    [ "$(tail -n 1 <<<"$output")" = finished ]
}

@test "no stager on the node: the job runs and says why" {
    plugin bin=/nonexistent
    run run_batch --monarch-dataset=flowers --wrap 'echo finished'
    [[ ${lines[0]} == "monarch: node0: "*monarch-stager* ]]
    [ "${lines[1]}" = finished ]
    slurmd_log node0 | grep -q 'monarch: job .*monarch-stager'
}

@test "a stager that hangs: the job starts, ends and says why" {
    mkdir -p "$MONARCH_SANDBOX/hanging"
    printf '#!/bin/sh\nexec sleep 120\n' >"$MONARCH_SANDBOX/hanging/monarch-stager"
    chmod 755 "$MONARCH_SANDBOX/hanging/monarch-stager"
    plugin bin="$MONARCH_SANDBOX/hanging"
    SECONDS=0
    run run_batch --monarch-dataset=flowers --wrap 'echo finished'
    [[ ${lines[0]} == "monarch: node0: nothing is staged: "* ]]
    [ "${lines[1]}" = finished ]
    slurm_wait_idle 30
    [ "$SECONDS" -lt 60 ]
    pkill -KILL -x sleep
}

@test "a note of attach is said once a node, not in every step" {
    run run_batch -N2 --monarch-dataset="$MONARCH_SANDBOX/gone" --wrap 'srun true; srun true'
    [ "$(grep -c '^monarch: node0: ' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^monarch: node1: ' <<<"$output")" -eq 1 ]
}

@test "what the stager finds out after attach is said, too" {
    install -d -m 700 "$MONARCH_SANDBOX/secret"
    run run_batch --monarch-dataset="$MONARCH_SANDBOX/secret" --wrap 'srun true; srun true; echo finished'
    [ "$(grep -c '^monarch: node0: .*secret' <<<"$output")" -eq 1 ]
    [ "$(tail -n 1 <<<"$output")" = finished ]
}

@test "without PrologFlags=Alloc a node is staged when the first step comes to it" {
    sed -i '/^PrologFlags=/d' "$SLURM_CONF"
    scontrol reconfigure
    run run_batch -N2 --monarch-dataset=flowers --wrap "srun bash -c 'echo \$MONARCH_SESSION'"
    [[ $output == *"/node0/"* && $output == *"/node1/"* ]]
    run as_user ada salloc -Q -N2 --monarch-dataset=flowers srun --monarch-dataset=birds bash -c "$print_datasets"
    [ "$(grep -c "^MONARCH_DATASET_FLOWERS=" <<<"$output")" -eq 2 ]
}

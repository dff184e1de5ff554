#!/usr/bin/env bats
# Whatever is wrong with the node, the job runs and reads what it would read without Monarch, no node drains, and the job's
# output and slurmd's log say why.

source "$BATS_TEST_DIRNAME/monarch.sh"

setup_file() {
    monarch_start
    make_dataset pics --files 80 --classes 4 --mean-bytes 20000
    slow_source pics
}

teardown() {
    slow_control pics
    monarch_config
    plugin
    catalog pics "$SOURCES/pics"
    catalog slow-pics "$SHARED/pics"
    assert_clean
}

# A job that is held until the node has changed under it.
submit_held() {
    submit ada -H -N1 -w node0 --wrap "$BIN/digest $SOURCES/pics" "$@"
}

# released JOB WHY: it reads the source, and says why in one line.
released() {
    scontrol release "$1"
    reads_source "$@"
}

# unstaged WHY SBATCH-ARG…: the same for a job that starts at once.
unstaged() {
    local id
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --wrap "$BIN/digest $SOURCES/pics" "${@:2}")
    reads_source "$id" "$1"
}

reads_source() {
    wait_job "$1"
    run job_output "$1"
    echo "$output"
    [ "${#lines[@]}" -eq 2 ] || return 1
    [[ ${lines[0]} == "monarch: node0: "*$2* ]] || return 1
    [ "${lines[1]}" = "$(digest "$SOURCES/pics")" ] || return 1
    slurmd_log node0 | grep -F "job $1" | grep -F "$2" | grep -q "monarch: " || return 1
    [ "$(job_field "$1" ExitCode)" = 0:0 ]
}

# ---- refused by the node -------------------------------------------------------------------------------------

@test "a name that only the node does not know" {
    id=$(submit_held --monarch-dataset=pics)
    rm "$ETC/datasets.d/pics.toml"
    released "$id" "not in this node's catalog"
    [ "$(lease node0 "$id" outcome,opens_local)" = "refused|0" ]
}

@test "a path that the policy forbids in the job's partition" {
    cat >"$ETC/policy.d/50-paths.toml" <<END
[[rule]]
partitions = ["gpu"]
[[rule]]
partitions = ["main"]
paths = ["/lustre/**"]
END
    unstaged "$SOURCES/pics" --monarch-dataset="$SOURCES/pics"
    [ "$(lease node0 "$(ledger node0 'select max(job) from lease')" outcome)" = refused ]
    run run_job -N1 -w node0 -p gpu --monarch-dataset="$SOURCES/pics" --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics"
    [ "$output" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$(last_job)" outcome,opens_local)" = "detached|80" ]
}

@test "a policy without a rule for the user" {
    printf '[[rule]]\nusers = ["ben"]\n[[rule]]\npartitions = ["gpu"]\n' >"$ETC/policy.d/50-users.toml"
    unstaged "no policy rule matches ada in partition main"
}

@test "two data sets, of which one is refused: the other is staged" {
    id=$(submit_held --monarch-dataset="slow-pics,pics" --monarch-wait=all)
    rm "$ETC/datasets.d/slow-pics.toml"
    released "$id" "slow-pics is read from its source"
    [ "$(lease node0 "$id" "name,outcome,opens_local")" = "$(printf '%s\n' "slow-pics|refused|0" "pics|detached|80")" ]
}

# ---- the installation ----------------------------------------------------------------------------------------

@test "a broken configuration" {
    id=$(submit_held --monarch-dataset=pics)
    echo "nonsense" >>"$ETC/monarch.toml"
    released "$id" "monarch.toml:"
}

@test "a broken policy forbids, it is not passed over" {
    id=$(submit_held --monarch-dataset=pics)
    printf '[[rule]]\nuser = ["ada"]\n' >"$ETC/policy.d/50-typo.toml"
    released "$id" "50-typo.toml:2"
}

@test "a broken catalog: the job still has the paths that it gave itself" {
    id=$(submit_held --monarch-dataset="pics,$SOURCES/pics/train" --monarch-wait=all)
    echo "[dataset" >"$ETC/datasets.d/typo.toml"
    scontrol release "$id"
    run reads_source "$id" "typo.toml:1"
    rm "$ETC/datasets.d/typo.toml"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(lease node0 "$id" "name,outcome")" = "$(printf '%s\n' "pics|refused" "train|detached")" ]
}

@test "a configuration that breaks while a job runs: policy and catalog do not keep it from being cleaned up" {
    id=$(submit ada -N1 -w node0 --monarch-dataset=pics --wrap "$BIN/meet typo 2")
    poll 30 is_attached node0 "$id"
    printf '[[rule]]\nuser = ["ada"]\n' >"$ETC/policy.d/50-typo.toml"
    meet typo 2
    wait_job "$id"
    [ "$(lease node0 "$id" outcome)" = detached ]
}

@test "a missing configuration" {
    id=$(submit_held --monarch-dataset=pics)
    rm "$ETC/monarch.toml"
    released "$id" "monarch.toml"
}

@test "a missing stager" {
    mkdir -p "$BIN/partial"
    cp "$BIN/spank_monarch.so" "$BIN/partial"
    slurm_plugstack "optional $BIN/partial/spank_monarch.so config=$ETC"
    unstaged "monarch-stager"
}

@test "a missing libmonarch.so" {
    mkdir -p "$BIN/partial"
    cp "$BIN/monarch-stager" "$BIN/partial"
    plugin bin="$BIN/partial"
    unstaged "libmonarch.so is missing"
}

@test "a ledger that is no database" {
    folder=$LOCAL/node0/state/ledger
    mkdir -p "$folder"
    mv "$folder" "$folder.good"
    mkdir -m 700 "$folder"
    yes nonsense 2>/dev/null | head -c 65536 >"$folder/ledger.db"
    run unstaged "ledger.db"
    rm -rf "$folder"
    mv "$folder.good" "$folder"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a state folder that cannot be written" {
    sed -i 's|^state = .*|state = "/proc/monarch"|' "$ETC/monarch.toml"
    unstaged "/proc/monarch"
}

# ---- the tiers -----------------------------------------------------------------------------------------------

@test "a full tier" {
    fill_disk
    unstaged "no space for it on this node's tiers" --monarch-capacity=nvme=10MiB
    rm /mnt/node0/filler
}

fill_disk() {
    head -c 200M /dev/zero >/mnt/node0/filler 2>/dev/null || true
}

@test "a tier that others fill while the data set is staged: the rest stays on the source" {
    slow_control pics "hang:read *"
    id=$(submit ada -N1 -w node0 --monarch-dataset=slow-pics --monarch-wait=all --monarch-capacity=nvme=20MiB \
        --wrap "$BIN/digest $SHARED/pics")
    slow_since pics read 8
    fill_disk
    slow_control pics
    wait_job "$id"
    rm /mnt/node0/filler
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" "outcome, opens_local + opens_source, opens_source > 0, files_failed > 0")" = "detached|80|1|1" ]
}

@test "a tier without its marker is not used, the others are" {
    rm /mnt/node0/tier/.monarch-tier
    run unstaged "tier nvme is not used: " --monarch-wait=all
    "$BIN/monarchctl" tier init --config "$ETC" --node node0
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(lease node0 "$(ledger node0 'select max(cast(job as integer)) from lease')" outcome,opens_local)" = "detached|80" ]
}

@test "a disk that is not mounted: nothing is written below its mount point" {
    umount /mnt/node0
    run unstaged "tier nvme is not used: "
    find /mnt/node0 -mindepth 1 >"$LOCAL/below"
    mount -t tmpfs -o mode=755,size=96m disk /mnt/node0
    "$BIN/monarchctl" tier init --config "$ETC" --node node0
    echo "$output"
    [ "$status" -eq 0 ]
    [ ! -s "$LOCAL/below" ]
}

# ---- the source ----------------------------------------------------------------------------------------------

# same_as_without FOLDER WHY: what programs say about it, their exit status included, is the same with and without Monarch;
# the first step after the stager found out says why.
same_as_without() {
    local probe=$BIN/probe
    printf '#!/bin/bash\n%s; echo $?\n' "cat '$1/file'" "ls '$1'" "cat <'$1/file'" "test -r '$1/file'" >"$probe"
    chmod 755 "$probe"
    without=$(run_job -N1 -w node0 --wrap "$probe")
    with=$(run_job -N1 -w node0 --monarch-dataset="$1" --wrap "$probe
        until [ -s \$MONARCH_SESSION/0/note ]; do sleep 0.05; done
        srun -Q true")
    diff <(echo "$without") <(grep -v '^monarch: node0: ' <<<"$with")
    [ "$(grep -c '^monarch: node0: ' <<<"$with")" -eq 1 ]
    [[ $with == *"monarch: node0: "*"$2"* ]]
}

@test "a source that the user may not read" {
    install -d -m 700 "$SOURCES/secret"
    echo secret >"$SOURCES/secret/file"
    same_as_without "$SOURCES/secret" "Permission denied"
}

@test "a source that is not there" {
    same_as_without "$SOURCES/gone" "No such file or directory"
}

@test "a source of which a folder and a file may not be read: the rest is staged" {
    cp -r "$SOURCES/pics" "$SOURCES/partly"
    chmod 700 "$SOURCES/partly/train/n0001"
    chmod 600 "$SOURCES/partly/train/n0000/img_000001.jpg"
    script="find $SOURCES/partly -type f | sort | xargs sha256sum 2>&1"
    without=$(run_job -N1 -w node0 --wrap "$script")
    with=$(run_job -N1 -w node0 --monarch-dataset="$SOURCES/partly" --monarch-wait=all --wrap "$script")
    diff <(echo "$without") <(echo "$with")
    [ "$(grep -c 'Permission denied' <<<"$with")" -eq 2 ]
    [ "$(lease node0 "$(last_job)" "outcome, opens_local = files_staged, files_failed")" = "detached|1|1" ]
}

@test "a source that fails for some files: they fail for the job as without Monarch, the rest is staged" {
    slow_control pics "fail:read EIO train/n0001/*"
    script="for n in 0 1 2 3; do cat $SHARED/pics/train/n000\$n/* 2>&1 | sha256sum; done"
    without=$(run_job -N1 -w node0 --wrap "$script")
    with=$(run_job -N1 -w node0 --monarch-dataset=slow-pics --monarch-wait=all --wrap "$script")
    diff <(echo "$without") <(echo "$with")
    [ "$(lease node0 "$(last_job)" files_staged,files_failed,opens_local,opens_source)" = "60|20|60|20" ]
}

@test "a source whose listing hangs: the job reads what it opens, and ends" {
    slow_control pics "hang:readdir *" "hang:opendir *"
    run run_job -N1 -w node0 --monarch-dataset=slow-pics --wrap "cat $SHARED/pics/train/n0000/img_000001.jpg | sha256sum"
    [ "$output" = "$(sha256sum <"$SOURCES/pics/train/n0000/img_000001.jpg")" ]
    slurm_wait_idle 30
    [ "$(lease node0 "$(last_job)" outcome,opens_source)" = "detached|1" ]
}

@test "fewer epochs than nodes: nothing is copied, so that the source serves no more than without Monarch" {
    id=$(submit ada -N2 --monarch-dataset=pics --monarch-epochs=1 --wrap "$BIN/digest $SOURCES/pics")
    reads_source "$id" "read a file less than once here"
}

@test "fewer epochs than nodes, but the order is known: it is staged" {
    id=$(submit ada -N2 --monarch-dataset=pics --monarch-epochs=1 --monarch-order=name --monarch-wait=all \
        --wrap "$BIN/digest $SOURCES/pics")
    wait_job "$id"
    [ "$(lease node0 "$id" "outcome,opens_local")" = "detached|80" ]
}

# ---- the data set cannot be read -----------------------------------------------------------------------------

@test "a data set that is a file, is missing, or is not the user's to read: the job's output says so in one line" {
    echo x >"$SOURCES/no-folder"
    install -d -m 700 "$SOURCES/roots-own"
    for name in no-folder missing roots-own; do
        run run_job -N1 -w node0 --monarch-dataset="$SOURCES/$name" \
            --wrap 'until [ -s $MONARCH_SESSION/0/note ]; do sleep 0.05; done; srun echo ran; srun true'
        echo "$output"
        [ "$(grep -c "^monarch: node0: cannot open the source $SOURCES/$name: " <<<"$output")" -eq 1 ]
        [ "$(grep -cx ran <<<"$output")" -eq 1 ]
        [ "${#lines[@]}" -eq 2 ]
        [ "$(job_field "$(last_job)" ExitCode)" = 0:0 ]
    done
}

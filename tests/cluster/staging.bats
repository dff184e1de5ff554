#!/usr/bin/env bats
# What a job's data set goes through when all is well: staged, read locally with the right bytes, accounted for, gone.
# Every test ends with assert_clean.

source "$BATS_TEST_DIRNAME/monarch.sh"

setup_file() {
    monarch_start
    make_dataset pics --files 200 --classes 8 --mean-bytes 20000
    make_dataset more --files 60 --classes 4 --mean-bytes 20000 --seed 2
    chown -R ada: "$SOURCES"
    slow_source pics
}

teardown() {
    slow_control pics
    assert_clean
}

# both_nodes_say COLUMNS VALUES: of the last job's lease.
both_nodes_say() {
    local node
    for node in node0 node1; do
        run lease "$node" "$(last_job)" "$1"
        echo "$node: $1: $output"
        [ "$output" = "$2" ] || return 1
    done
}

@test "the whole data set is read locally on both nodes, and the ledger counts it" {
    run run_job -N2 --monarch-dataset=pics --monarch-wait=all --wrap "srun $BIN/digest $SOURCES/pics"
    [ "$output" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    bytes=$(find "$SOURCES/pics" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
    both_nodes_say outcome,predictor,prediction_hits "detached|name|200"
    both_nodes_say files_total,files_planned,files_staged,files_failed,source_reads "200|200|200|0|200"
    both_nodes_say bytes_total,bytes_planned,bytes_staged "$bytes|$bytes|$bytes"
    both_nodes_say opens_local,bytes_local,opens_source,bytes_source "200|$bytes|0|0"
    both_nodes_say "ended_at >= attached_at" 1
}

@test "without --monarch-wait a file that is not staged yet is read from the source" {
    slow_control pics "hang:readdir *"
    id=$(submit ada -N1 -w node0 --monarch-dataset=slow-pics --wrap "cat $SHARED/pics/train/n0000/* | sha256sum; $BIN/meet first 2
        $BIN/digest $SHARED/pics" --output=unwaited)
    slow_control pics
    meet first 2
    wait_job "$id"
    run cat "$MONARCH_SANDBOX/home/ada/unwaited"
    [ "${lines[0]}" = "$(cat "$SOURCES"/pics/train/n0000/* | sha256sum)" ]
    [ "${lines[1]}" = "$(digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$id" "opens_local + opens_source >= 200")" = 1 ]
}

@test "half the capacity: never more bytes on the tiers than reserved" {
    slow_control pics "latency 20000"
    id=$(submit ada -N1 -w node0 --monarch-dataset=slow-pics --monarch-wait=all --monarch-capacity=ram=1MiB,nvme=2MiB \
        --wrap "$BIN/digest $SHARED/pics; $BIN/meet sampled 2")
    poll 30 is_attached node0 "$id"
    [ "$(ledger node0 "select tier, bytes from reservation order by position")" = "$(printf '%s\n' "ram|1048576" "nvme|2097152")" ]
    until [[ $(job_output "$id" 2>/dev/null) == *-* ]]; do sample_tiers; done
    sample_tiers
    meet sampled 2
    wait_job "$id"
    [ "$(job_output "$id")" = "$(digest "$SOURCES/pics")" ]
    # Most of it was used, so that the samples say something.
    [ "$most_ram" -gt 900000 ]
    [ "$most_ram" -le 1048576 ]
    [ "$most_nvme" -gt 1200000 ]
    [ "$most_nvme" -le 2097152 ]
}

# The most bytes seen on node0's tiers, as the file systems count them.
sample_tiers() {
    local bytes
    bytes=$(du -s --block-size=1 "$LOCAL/node0/run/tiers/ram/stores" 2>/dev/null | cut -f1)
    ((bytes <= ${most_ram:-0})) || most_ram=$bytes
    bytes=$(du -s --block-size=1 "/mnt/node0/tier/stores" 2>/dev/null | cut -f1)
    ((bytes <= ${most_nvme:-0})) || most_nvme=$bytes
}

@test "half the capacity: the files that are staged are the plan's first" {
    run_job -N1 -w node0 --monarch-dataset=pics --monarch-wait=all --monarch-capacity=ram=1MiB,nvme=2MiB --output=half <<END >/dev/null
#!/bin/bash
$BIN/digest $SOURCES/pics
tiers=\$(tr '\\0' '\\n' <\$MONARCH_SESSION/0/map | sed -n 's/^tier=//p')
find \$tiers -type f -printf '%P\\n' | sort >on-tiers
database=\$(dirname \$(tail -n 1 <<<"\$tiers"))/store.db
until sqlite3 \$database "select cast(path as text) from file where state = 'staged' order by path" >in-database 2>/dev/null &&
    [ \$(wc -l <in-database) -ge \$(wc -l <on-tiers) ]; do sleep 0.1; done
END
    cd "$MONARCH_SANDBOX/home/ada"
    [ "$(cat half)" = "$(digest "$SOURCES/pics")" ]
    count=$(wc -l <on-tiers)
    [ "$count" -gt 50 ]
    [ "$count" -lt 150 ]
    diff on-tiers <("$BIN/monarchctl" --config "$ETC" plan pics --sequence | head -n "$count" | LC_ALL=C sort)
    diff on-tiers in-database
    [ "$(lease node0 "$(last_job)" files_staged,opens_local,opens_source,source_reads)" = "$count|$count|$((200 - count))|$count" ]
}

@test "an array of four tasks on one node shares one store, which is staged once" {
    before=$(slow_count pics open)
    id=$(submit ada -w node0 -n1 -c1 --array=0-3 --monarch-dataset=slow-pics --monarch-wait=all --output=task.%a \
        --wrap "$BIN/meet array 4; $BIN/digest $SHARED/pics")
    wait_job "$id"
    run cat "$MONARCH_SANDBOX"/home/ada/task.{0,1,2,3}
    echo "$output"
    [ "$(sort -u <<<"$output")" = "$(digest "$SOURCES/pics")" ]
    # One store, the last one; each file was opened once at the source and four times locally.
    last="from lease where store_id = (select max(store_id) from lease)"
    [ "$(ledger node0 "select count(*), sum(source_reads), sum(opens_local), sum(opens_source) $last")" = "4|200|800|0" ]
    [ "$(slow_count pics open)" -eq $((before + 200)) ]
}

@test "srun in salloc: each step on each node reads locally" {
    run as_user ada salloc -Q -N2 --monarch-dataset=pics --monarch-wait=all \
        bash -c "srun $BIN/digest $SOURCES/pics; srun $BIN/digest $SOURCES/pics; echo \$SLURM_JOB_ID >salloc-job"
    [ "$(sort -u <<<"$output")" = "$(digest "$SOURCES/pics")" ]
    [ "${#lines[@]}" -eq 4 ]
    cp "$MONARCH_SANDBOX/home/ada/salloc-job" "$SLURM_DIR/last"
    slurm_wait_idle
    both_nodes_say outcome,opens_local,opens_source,source_reads "detached|400|0|200"
}

@test "srun on its own" {
    run as_user ada srun -Q -N2 --monarch-dataset=pics --monarch-wait=all bash -c "echo \$SLURM_JOB_ID >srun-job; $BIN/digest $SOURCES/pics"
    [ "$output" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    cp "$MONARCH_SANDBOX/home/ada/srun-job" "$SLURM_DIR/last"
    slurm_wait_idle
    both_nodes_say outcome,opens_local,opens_source "detached|200|0"
}

@test "--export=NONE: batch script and steps read locally" {
    run run_job -N1 -w node0 --export=NONE --monarch-dataset=pics --monarch-wait=all \
        --wrap "$BIN/digest \$MONARCH_DATASET_PICS; srun /bin/bash -c '$BIN/digest \$MONARCH_DATASET_PICS'"
    echo "$output"
    [ "$output" = "$(digest "$SOURCES/pics"; digest "$SOURCES/pics")" ]
    [ "$(lease node0 "$(last_job)" opens_local,opens_source)" = "400|0" ]
}

@test "two users at once on one node: each has a store of his own, which the other cannot read" {
    for user in ada ben; do
        submit $user -w node0 -n1 --monarch-dataset=pics --monarch-wait=all --output=two-users \
            --wrap "$BIN/digest $SOURCES/pics; $BIN/meet users-read 3; $BIN/meet users-looked 3" >/dev/null
    done
    meet users-read 3
    [ "$(ledger node0 "select uid from store order by uid")" = $'61001\n61002' ]
    for folder in /mnt/node0/tier/stores/* "$LOCAL"/node0/run/tiers/ram/stores/*; do
        readers=0
        for user in ada ben; do as_user $user ls "$folder/data/files" >/dev/null 2>&1 && readers=$((readers + 1)); done
        [ "$readers" -eq 1 ]
    done
    meet users-looked 3
    slurm_wait_idle
    for user in ada ben; do [ "$(cat "$MONARCH_SANDBOX/home/$user/two-users")" = "$(digest "$SOURCES/pics")" ]; done
}

@test "two data sets in one job: a session and a lease each" {
    run run_job -N1 -w node0 --monarch-dataset="pics,$SOURCES/more" --monarch-wait=all \
        --wrap "$BIN/digest \$MONARCH_DATASET_PICS; $BIN/digest \$MONARCH_DATASET_MORE; ls \$MONARCH_SESSION/0/map \$MONARCH_SESSION/1/map | wc -l"
    [ "${lines[0]}" = "$(digest "$SOURCES/pics")" ]
    [ "${lines[1]}" = "$(digest "$SOURCES/more")" ]
    echo "$output"
    [ "${lines[2]}" = 2 ]
    [ "$(lease node0 "$(last_job)" name,opens_local,opens_source)" = "$(printf '%s\n' "pics|200|0" "more|60|0")" ]
}

@test "two exclusive jobs in a row, the first with 20,000 files: both are staged in full" {
    make_dataset many --files 20000 --classes 100 --mean-bytes 2000
    make_dataset large --files 300 --classes 4 --mean-bytes 200000
    for name in many large; do
        submit ada -N1 -w node0 --exclusive --monarch-dataset=$name --monarch-wait=all --output=row-$name --wrap "$BIN/digest $SOURCES/$name"
    done >"$LOCAL/row"
    poll 60 is_attached node0 "$(head -n 1 "$LOCAL/row")"
    for id in $(cat "$LOCAL/row"); do
        until left_queue "$id"; do never_more_than_there_is; done
    done
    for name in many large; do [ "$(cat "$MONARCH_SANDBOX/home/ada/row-$name")" = "$(digest "$SOURCES/$name")" ]; done
    run ledger node0 "select files_planned, files_staged, opens_local, opens_source, note from lease order by id desc limit 2"
    echo "$output"
    [ "${lines[1]}" = "20000|20000|20000|0|" ]
    [ "${lines[0]}" = "300|300|300|0|" ]
    rm -rf "$SOURCES"/{many,large}
}

# Of node0's ledger: reservations and trash of each tier are within its capacity.
never_more_than_there_is() {
    run ledger node0 "select path from (select path, bytes, capacity from reservation union all select tier, bytes, 0 from trash)
        group by path having max(capacity) > 0 and sum(bytes) > max(capacity)"
    echo "$output"
    [ "$output" = "" ]
    # Nor on the disk: 90 % of 96 MiB, and what the file system itself takes.
    [ "$(df --output=used -B1 /mnt/node0 | tail -n 1)" -le $((96 * 1024 * 1024 * 9 / 10 + 65536)) ]
}

@test "the stager has a memory bound of its own, its memory tier and 2 GiB, which is gone with it" {
    [ -n "${MONARCH_MEMORY_CGROUP-}" ] || skip "no memory cgroups of version 1 here"
    id=$(submit ada -w node0 --exclusive --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet bound 2")
    poll 60 job_has_printed "$id"
    folder=$(echo "$MONARCH_MEMORY_CGROUP"/monarch-stager-*-"$(stager_of node0 "$id")")
    [ "$(cat "$folder/cgroup.procs")" = "$(stager_of node0 "$id")" ]
    [ "$(cat "$folder/memory.limit_in_bytes")" -eq $((2048 * 1024 * 1024 + 24 * 1024 * 1024)) ]
    # What it copied into memory is charged to it.
    [ "$(cat "$folder/memory.usage_in_bytes")" -gt 3000000 ]
    meet bound 2
    wait_job "$id"
    [ ! -e "$folder" ]
}

@test "while a job runs, status shows everybody its tiers, its lease and its progress" {
    id=$(submit ada -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/digest $SOURCES/pics; $BIN/meet status 2")
    poll 60 job_has_printed "$id"
    run as_user ben "$BIN/monarchctl" --config "$ETC" status --node node0
    [ "$status" -eq 0 ]
    [[ $output == *ram* ]]
    [[ $output == *nvme* ]]
    run as_user ben "$BIN/monarchctl" --config "$ETC" status --node node0 --json
    [ "$(jq -r ".leases[] | select(.job == \"$id\") | .uid" <<<"$output")" = 61001 ]
    meet status 2
    wait_job "$id"
}

job_has_printed() {
    [[ -n $(job_output "$1" 2>/dev/null) ]]
}

@test "how long attach and detach take, for few files and for many" {
    mkdir -p "$SOURCES/one" "$BIN/timed"
    echo one >"$SOURCES/one/file"
    catalog one "$SOURCES/one"
    make_dataset many --files 10000 --classes 100 --mean-bytes 200
    cat >"$BIN/timed/monarch-stager" <<END
#!/bin/bash
from=\$EPOCHREALTIME
"$BIN/monarch-stager" "\$@"
status=\$? to=\$EPOCHREALTIME
echo "\$1 \$(((\${to/./} - \${from/./}) / 1000)) ms" >>"$LOCAL/timed"
exit \$status
END
    chmod 755 "$BIN/timed/monarch-stager"
    plugin bin="$BIN/timed"
    for name in one many; do
        rm -f "$LOCAL/timed"
        for _ in 1 2 3; do run_job -N1 -w node0 --monarch-dataset=$name --wrap true; done
        plugin bin="$BIN/timed"
        [ "$(grep -c ' ms$' "$LOCAL/timed")" -eq 6 ]
        echo "# data set of $(find "$SOURCES/$name" -type f | wc -l) files: $(sort "$LOCAL/timed" | paste -sd, | sed 's/,/, /g')" >&3
    done
    plugin
}

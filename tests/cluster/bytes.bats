#!/usr/bin/env bats
# A job reads the same bytes with Monarch as without, whatever reads them and whatever it does to its files.

source "$BATS_TEST_DIRNAME/monarch.sh"

setup_file() {
    monarch_start
    make_dataset pics --files 60 --classes 4 --mean-bytes 20000
    chown -R ada: "$SOURCES"
}

teardown() {
    assert_clean
}

@test "what programs read is the same with and without Monarch" {
    cc -O2 "$BATS_TEST_DIRNAME/fixtures/reader.c" -o "$BIN/reader"
    cp "$BATS_TEST_DIRNAME"/fixtures/read_every_way.{sh,py} "$BIN"
    without=$(run_job -N1 -w node0 --wrap "$BIN/read_every_way.sh $SOURCES/pics")
    with=$(run_job -N1 -w node0 --monarch-dataset=pics --monarch-wait=all --wrap "$BIN/read_every_way.sh $SOURCES/pics")
    diff <(echo "$without") <(echo "$with")
    [ "$(wc -l <<<"$with")" -eq 12 ]
    [[ $with == *"finds no difference:"$'\n'* ]]
    # They did read local copies: each file eleven times.
    [ "$(lease node0 "$(last_job)" opens_local,opens_source)" = "660|0" ]
}

@test "a job that rewrites, replaces and removes its files while they are staged never reads old bytes" {
    cc -O2 -pthread "$BATS_TEST_DIRNAME/../programs/preload_churn.c" -o "$BIN/churn"
    /usr/bin/python3 - "$SOURCES/churn" <<'END'
import os, struct, sys
for n in range(1000):
    folder = f"{sys.argv[1]}/{n % 10:02}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{n}", "wb") as file:
        file.write(struct.pack("<64Q", *[1] * 64))
END
    chown -R ada: "$SOURCES/churn"
    slow_source churn --attr-timeout-s 0 --data-latency-us 500
    # Few streams, so that staging goes on while the files change.
    printf '[[rule]]\nmax_streams = 2\n' >"$ETC/policy.d/50-streams.toml"
    run run_job -N1 -w node0 --monarch-dataset=slow-churn --wrap "$BIN/churn $SHARED/churn 1000 3"
    echo "$output"
    [[ $output == *" 0 stale, 0 torn" ]]
    [ "$(lease node0 "$(last_job)" "outcome, opens_local > 0, opens_source > 0")" = "detached|1|1" ]
}

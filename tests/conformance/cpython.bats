#!/usr/bin/env bats
# CPython's own tests of files give the same results with Monarch as without, test by test.
#
# The data set is CPython's folder of tests, everything staged: the tests, their modules and their data are read from the
# copies. The temporary folder lies in it as well, so every file that a test makes, changes and removes is the data set's.

setup_file() {
    BUILD=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build}")
    WORK=$(realpath "$(mktemp -d)")
    chmod 755 "$WORK"
    export BUILD WORK
    # What is compiled lies with what it was compiled from; the tests' first run compiles in the data set.
    rsync -a --exclude __pycache__ /usr/lib/python3.11/test "$WORK/original/"
}

setup() { cd "$WORK"; }
teardown() { cd / && rm -rf "$WORK/plain" "$WORK/monarch"; }
teardown_file() { rm -rf "$WORK"; }

# python_tests FOLDER [COMMAND…]: CPython's tests, as COMMAND's command, on the data set FOLDER/data. Its output goes to
# FOLDER/log, its results to FOLDER/results and its exit status to FOLDER/status.
python_tests() {
    local folder=$1 status=0
    shift
    cd "$folder/data" || return
    # A shell's background commands have SIGINT ignored, and a test must not have that.
    "${as[@]}" env --default-signal=INT,QUIT HOME="$home" TMPDIR="$folder/data/tmp" XDG_STATE_HOME="$folder/state" \
        PYTHONPATH="$folder/data" "$@" /usr/bin/python3 -m test --timeout 200 --tempdir "$folder/data/tmp" \
        --junit-xml "$folder/junit.xml" "${options[@]}" "${modules[@]}" >"$folder/log" 2>&1 3>&- </dev/null || status=$?
    echo "$status" >"$folder/status"
    /usr/bin/python3 "$BATS_TEST_DIRNAME/cpython/results.py" "$folder/junit.xml" >"$folder/results"
}

# same_results USER LOCAL MODULE… [-- OPTION…]: both runs at once, each in a data set of its own. Fails unless every test
# has the same result, some tests of each module passed, and at least LOCAL opens were local.
same_results() {
    local user=$1 local_opens=$2 modules=() options=() as=() home=$HOME folder module pids=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do modules+=("$1") && shift; done
    [ $# -eq 0 ] || { shift && options=("$@"); }
    if [ "$user" != root ]; then
        as=(setpriv --reuid "$user" --regid "$user" --init-groups --)
        home=$(getent passwd "$user" | cut -d : -f 6)
    fi
    for folder in "$WORK/plain" "$WORK/monarch"; do
        mkdir "$folder"
        cp -a "$WORK/original" "$folder/data"
        mkdir "$folder/data/tmp"
        chown -R "$user:" "$folder"
    done

    python_tests "$WORK/plain" &
    pids=($!)
    python_tests "$WORK/monarch" "$BUILD/monarchctl" run --dataset "$WORK/monarch/data" \
        --tier "t=$WORK/monarch/tier:1GiB" --wait all --report "$WORK/monarch/report.json" -- &
    pids+=($!)
    wait "${pids[@]}" || { tail -n 40 "$WORK"/*/log && return 1; }

    diff "$WORK/plain/results" "$WORK/monarch/results" || { grep -A 25 -E '^(ERROR|FAIL):' "$WORK/monarch/log"; return 1; }
    diff "$WORK/plain/status" "$WORK/monarch/status"
    for module in "${modules[@]}"; do
        grep -q "^test\.$module\..* ok$" "$WORK/plain/results" || { echo "$module: no test passed" && return 1; }
    done
    jq -c '{opens_local, opens_source, files_staged}' "$WORK/monarch/report.json"
    [ "$(jq .opens_local "$WORK/monarch/report.json")" -ge "$local_opens" ]
}

@test "test_os has the same results" {
    same_results ada 100 test_os
}

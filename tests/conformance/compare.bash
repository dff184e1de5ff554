# compare.bash: the same command without and with Monarch, on the same data set. To be sourced by a suite.
#
# setup_file of a suite fills $ORIGINAL, the data set as it is before each run (at most 100 MiB), and then each
#   same [--local N] [--user NAME] [--tree] COMMAND…
# runs COMMAND twice in a fresh copy of it, $DATA (always the same path, and the current folder), without and with
# Monarch, everything staged. It fails unless standard output, standard error and exit status are the same and at
# least N opens (default 1) were local. With --tree, the data set afterwards (names, types, modes, sizes, bytes) must be
# the same, too. What the staged run printed is in $output, its exit status in $status, its counters in $REPORT.

# shellcheck disable=SC2034
compare_setup() {
    BUILD=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build}")
    WORK=$(realpath "$(mktemp -d)")
    chmod 755 "$WORK"
    ORIGINAL=$WORK/original DATA=$WORK/data REPORT=$WORK/report.json
    export BUILD WORK ORIGINAL DATA REPORT
    mkdir "$ORIGINAL" "$WORK/bin"
    # Where every user reaches them.
    cp "$BUILD"/{monarchctl,monarch-stager,libmonarch.so} "$WORK/bin"
}

compare_teardown() {
    cd /
    rm -rf "$WORK"
}

fresh_data() { # [USER]
    cd /
    rm -rf "$DATA"
    cp -a "$ORIGINAL" "$DATA"
    [ -z "${1:-}" ] || chown -R "$1:" "$DATA"
    cd "$DATA" || return 1
}

# What a folder holds; times are left out, since two runs are not at one time.
tree_of() {
    (cd "$1" && find . -printf '%P %y %m %l ' \( -type f -printf '%s ' -exec sha256sum {} \; -o -printf '\n' \) | sort)
}

# A command staged as a job without Slurm is: everything is on the tier before its first read.
staged() { # COMMAND…
    "$WORK/bin/monarchctl" run --dataset "$DATA" --tier "t=$TIER:1GiB" --wait all --report "$REPORT" -- "$@"
}

same() {
    local user='' local_opens=1 tree='' plain=0 as=() failed=''
    while [[ $1 == --* ]]; do
        case $1 in
            --local) local_opens=$2 && shift 2 ;;
            --user) user=$2 && shift 2 ;;
            --tree) tree=yes && shift ;;
            *) echo "same: unknown option $1" && return 2 ;;
        esac
    done
    TIER=$WORK/tier
    export TIER XDG_STATE_HOME=$WORK/state
    rm -rf "$WORK/tier" "$WORK/state" "$REPORT"
    if [ -n "$user" ]; then
        as=(setpriv --reuid "$user" --regid "$user" --init-groups --)
        TIER=$WORK/of-user/tier XDG_STATE_HOME=$WORK/of-user/state REPORT=$WORK/of-user/report.json
        rm -rf "$WORK/of-user"
        install -d -o "$user" "$WORK/of-user"
    fi

    fresh_data "$user"
    "${as[@]}" "$@" >"$WORK/plain.out" 2>"$WORK/plain.err" </dev/null || plain=$?
    [ -z "$tree" ] || tree_of "$DATA" >"$WORK/plain.tree"

    fresh_data "$user"
    status=0
    "${as[@]}" "$WORK/bin/monarchctl" run --dataset "$DATA" --tier "t=$TIER:1GiB" --wait all --report "$REPORT" -- "$@" \
        >"$WORK/monarch.out" 2>"$WORK/monarch.err" </dev/null || status=$?
    [ -z "$tree" ] || tree_of "$DATA" >"$WORK/monarch.tree"
    output=$(<"$WORK/monarch.out")

    diff "$WORK/plain.out" "$WORK/monarch.out" || failed="standard output"
    diff "$WORK/plain.err" "$WORK/monarch.err" || failed="standard error"
    [ "$plain" -eq "$status" ] || failed="exit status $plain without, $status with"
    [ -z "$tree" ] || diff "$WORK/plain.tree" "$WORK/monarch.tree" || failed="the data set afterwards"
    [ "$(jq .opens_local "$REPORT")" -ge "$local_opens" ] ||
        failed="opens that were local: $(jq -c '{opens_local, opens_source, files_staged}' "$REPORT"), not $local_opens"
    [ -z "$failed" ] || { echo "differs: $failed" && return 1; }
}

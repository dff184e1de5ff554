#!/usr/bin/env bash
# Runs every test suite, as many at once as there are processors, and ends with one line, "N passed, N failed".
# Called by `make check`.
#   tests/check.sh [SUITE...]   unit, unit-san, or the path of a .bats file; default: everything
set -uo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-$PWD/build}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

suites=("$@")
if [ ${#suites[@]} -eq 0 ]; then
    # The long ones first, so that none is left over at the end.
    suites=(tests/conformance/*.bats tests/cluster/*.bats tests/programs/*.bats unit unit-san)
fi

# A suite has a namespace of its own (tests/cluster/sandbox.sh): suites do not see each other.
run_suite() { # SUITE LOG
    local start=$SECONDS status
    case $1 in
        unit | unit-san) "$BUILD/$1" ;;
        *) tests/cluster/sandbox.sh bats "$1" ;;
    esac >"$2" 2>&1 </dev/null
    status=$?
    echo "$status $((SECONDS - start))" >"$2.end"
}

passed=0 failed=0
count() { # SUITE LOG
    local ok bad status seconds
    read -r status seconds <"$2.end" || status=1
    if [[ $1 == unit* ]]; then
        ok=$(sed -n 's/^\[doctest\] test cases: .*| *\([0-9]*\) passed.*/\1/p' "$2")
        bad=$(sed -n 's/^\[doctest\] test cases: .*| *\([0-9]*\) failed.*/\1/p' "$2")
    else
        ok=$(grep -c '^ok ' "$2")
        bad=$(grep -c '^not ok ' "$2")
    fi
    # A suite that ended badly, or without a test, is a failure even when it counted none.
    if [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then bad=1; fi
    if [ $((${ok:-0} + ${bad:-0})) -eq 0 ]; then bad=1; fi
    passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
    printf '%-40s %3d passed, %d failed (%d s)\n' "$1" "${ok:-0}" "${bad:-0}" "${seconds:-0}"
    [ "${bad:-0}" -eq 0 ] || sed 's/^/    /' "$2"
}

count_ended() {
    local n
    for n in "${!suites[@]}"; do
        [ -e "$logs/$n.end" ] && [ ! -e "$logs/$n.counted" ] || continue
        count "${suites[n]}" "$logs/$n"
        touch "$logs/$n.counted"
    done
}

at_once=${JOBS:-$(nproc)} running=0
for n in "${!suites[@]}"; do
    if [ "$running" -ge "$at_once" ]; then
        wait -n
        running=$((running - 1))
        count_ended
    fi
    run_suite "${suites[n]}" "$logs/$n" &
    running=$((running + 1))
done
wait
count_ended
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# Runs every test suite and ends with one line, "N passed, N failed". Called by `make check`.
#   tests/check.sh [SUITE...]   unit, unit-san, or the path of a .bats file; default: everything
set -uo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-$PWD/build}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

suites=("$@")
if [ ${#suites[@]} -eq 0 ]; then
    suites=(unit unit-san tests/programs/*.bats tests/cluster/*.bats tests/conformance/*.bats)
fi

run_suite() { # SUITE LOG
    case $1 in
        unit | unit-san) "$BUILD/$1" ;;
        *) tests/cluster/sandbox.sh bats "$1" ;;
    esac >"$2" 2>&1
}

passed=0 failed=0
count() { # SUITE LOG STATUS SECONDS
    local ok bad
    if [[ $1 == unit* ]]; then
        ok=$(sed -n 's/^\[doctest\] test cases: .*| *\([0-9]*\) passed.*/\1/p' "$2")
        bad=$(sed -n 's/^\[doctest\] test cases: .*| *\([0-9]*\) failed.*/\1/p' "$2")
    else
        ok=$(grep -c '^ok ' "$2")
        bad=$(grep -c '^not ok ' "$2")
    fi
    # A suite that ended badly, or without a test, is a failure even when it counted none.
    if [ "$3" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then bad=1; fi
    if [ $((${ok:-0} + ${bad:-0})) -eq 0 ]; then bad=1; fi
    passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
    printf '%-44s %3d passed, %d failed (%d s)\n' "$1" "${ok:-0}" "${bad:-0}" "$4"
    [ "${bad:-0}" -eq 0 ] || sed 's/^/    /' "$2"
}

for suite in "${suites[@]}"; do
    [ "$suite" = "${suite#tests/}" ] || [ -e "$suite" ] || continue
    log=$logs/log start=$SECONDS
    run_suite "$suite" "$log"
    count "$suite" "$log" $? $((SECONDS - start))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bats
# The manual pages and the README say what the programs have.

setup_file() {
    BUILD=$(realpath "${BUILD:-$BATS_TEST_DIRNAME/../../build}")
    ROOT=$(realpath "$BATS_TEST_DIRNAME/../..")
    export BUILD ROOT
}

# A page as plain text: one line a paragraph, nothing bold.
page() { mandoc -T ascii -O width=900 "$ROOT/man/$1" | sed 's/.\x08//g'; }

# The options that PROGRAM SUBCOMMAND… --help prints, one a line.
options_of() { "$@" --help | sed -n '/^Options:/,/^$/p' | grep -oE '^  (-[a-zA-Z0-9](,|  ))?(--[a-z0-9-]+)?' | tr -s ', ' '\n' | grep -- - | sort -u; }

subcommands_of() { "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'; }

# A subcommand's lines in the synopsis, its subsection, and what the page says of all of them before the first one.
about() { # PAGE PROGRAM SUBCOMMAND…
    local text program=$2 name=${*:3}
    text=$(page "$1")
    grep -E "^ +$program ${name:+(\[[^]]*\] )*$name( |\$)}" <<<"$text" || true
    sed -n "/^   $name\$/,/^   \?[^ ]/p" <<<"$text"
    sed -n '/^DESCRIPTION/,/^   [^ ]/p' <<<"$text"
}

# Every option of every subcommand of PROGRAM, in PAGE.
check_options() { # PAGE PROGRAM SUBCOMMAND…
    local option sub text
    text=$(about "$@")
    for option in $(options_of "$BUILD/$2" "${@:3}"); do
        # Common to all of them: in the part on the program.
        grep -qE -- "(^|[^a-z0-9-])$option([^a-z0-9-]|\$)" <<<"$text" || missing+="${*:2} $option"$'\n'
    done
    for sub in $(subcommands_of "$BUILD/$2" "${@:3}"); do check_options "$@" "$sub"; done
}

@test "every manual page is clean mdoc" {
    for page in "$ROOT"/man/*.[1-8]; do
        mandoc -T lint -W warning "$page"
    done
}

@test "the check of options sees the options and the subcommands" {
    [ "$(options_of "$BUILD/monarch-stager" reap | tr '\n' ' ')" = "--background --config --help --node --run --state -h " ]
    [[ " $(subcommands_of "$BUILD/monarchctl" | tr '\n' ' ') " == *" tier "* ]]
    missing=
    check_options monarch.toml.5 monarch-stager
    [[ $missing == *"reap --state"* ]]
}

@test "monarchctl(1) has every option of every subcommand" {
    missing=
    check_options monarchctl.1 monarchctl
    echo "not in the page: $missing"
    [ -z "$missing" ]
}

@test "monarch-stager(8) has every option of every subcommand" {
    missing=
    check_options monarch-stager.8 monarch-stager
    echo "not in the page: $missing"
    [ -z "$missing" ]
}

@test "spank_monarch(8) has every option and variable of the plugin" {
    text=$(page spank_monarch.8)
    while read -r name variable; do
        grep -q -- "--monarch-$name=" <<<"$text"
        grep -q "$variable" <<<"$text"
    done < <(sed -n 's/^ *{"\([a-z]*\)", "\(MONARCH_[A-Z]*\)", .*/\1 \2/p' "$ROOT/core/options.cc")
    [ "$(grep -c '"MONARCH_[A-Z]*", ' "$ROOT/core/options.cc")" -ge 8 ]
}

@test "README: its make targets exist, its two commands are on the first screen" {
    cd "$ROOT"
    targets=$(grep -oE '\bmake [a-z]+' README.md | grep -v 'make && ' | awk '{ print $2 }' | sort -u)
    for target in $targets; do
        grep -qE "^$target:" Makefile || { echo "no target $target"; return 1; }
    done
    head -n 30 README.md | grep -Fx '    apt-get update && apt-get install -y make && make demo'
    head -n 30 README.md | grep -Fx '    apt-get update && apt-get install -y make && make check'
}

@test "README: the files, options and subcommands that it names exist" {
    cd "$ROOT"
    for file in $(grep -oE '\]\([a-zA-Z0-9_./-]+\)' README.md | tr -d ']()'); do
        [ -e "$file" ] || { echo "no file $file"; return 1; }
    done
    while read -r option; do
        grep -q "\"${option#--monarch-}\"" core/options.cc || { echo "no option $option"; return 1; }
    done < <(grep -oE -- '--monarch-[a-z]+' README.md | sort -u)
    while read -r _ sub; do
        "$BUILD/monarchctl" "$sub" --help >/dev/null || { echo "no subcommand $sub"; return 1; }
    done < <(grep -oE '`?monarchctl [a-z]+' README.md | sort -u)
}

# Programs of older systems run with libmonarch.so preloaded: containers bring their own C library.

setup_file() {
    export BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    export ROOT=$BUILD/debian11
    # Made once a checkout; a root that was cut short is made again.
    if [ ! -e "$ROOT/.complete" ]; then
        rm -rf "$ROOT"
        mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
        debootstrap --variant=minbase --include=perl-base bullseye "$ROOT" ${mirror:+"$mirror"}
        touch "$ROOT/.complete"
    fi
    export WORK
    WORK=$(mktemp -d)
    mkdir "$WORK/data"
    for n in $(seq 20); do echo "source $n" >"$WORK/data/$n"; done
}

teardown_file() { rm -rf "$WORK"; }

# The root with the library, the session's folders and the data at their own paths.
inside() {
    unshare --mount bash -c '
        for path in "$BUILD" "$WORK"; do mkdir -p "$ROOT$path" && mount --bind "$path" "$ROOT$path"; done
        mkdir -p "$ROOT/proc" && mount --bind /proc "$ROOT/proc"
        exec chroot "$ROOT" "$@"' inside "$@"
}

staged() {
    XDG_STATE_HOME=$WORK/state "$BUILD/monarchctl" run --dataset "$WORK/data" --tier t="$WORK/tier:1GiB" --wait all \
        --report "$WORK/report.json" -- "$@"
}

export -f inside

@test "the root's C library is older than the one that Monarch was built with" {
    run inside ldd --version
    [[ $output == *"2.31"* ]]
}

@test "cat of an older system reads the local copies" {
    run staged bash -c 'inside cat $(seq -f "$WORK/data/%g" 20)'
    [ "$status" -eq 0 ]
    [ "$output" = "$(for n in $(seq 20); do echo "source $n"; done)" ]
    [ "$(jq .opens_local "$WORK/report.json")" -eq 20 ]
}

@test "perl of an older system reopens a handle on a local copy, and sees the source's inode" {
    run staged bash -c 'inside perl -e "open(F, q(<), q($WORK/data/7)); print scalar <F>; print((stat F)[1]);"'
    [ "$status" -eq 0 ]
    [ "$output" = "source 7"$'\n'"$(stat -c %i "$WORK/data/7")" ]
}

@test "a shell of an older system writes, and its own change is read" {
    run staged bash -c 'inside sh -c "cat $WORK/data/1; echo new >$WORK/data/1; cat $WORK/data/1"'
    [ "$output" = "source 1"$'\n'"new" ]
    [ "$(cat "$WORK/data/1")" = new ]
}

# make install puts everything where the programs look for each other, and never over an administrator's file.

setup() {
    BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    DEST=$(mktemp -d)
    cd "$BATS_TEST_DIRNAME/../.."
}

teardown() { rm -rf "$DEST"; }

install_to() { make -s install DESTDIR="$DEST" BUILD="$BUILD" PREFIX=/opt/monarch SYSCONFDIR=/opt/etc SLURM_PLUGINDIR=/opt/slurm; }

@test "install, then uninstall: the configuration alone stays" {
    install_to
    for file in opt/monarch/bin/monarchctl opt/monarch/libexec/monarch/monarch-stager opt/monarch/libexec/monarch/libmonarch.so \
        opt/slurm/spank_monarch.so opt/etc/monarch/monarch.toml opt/etc/monarch/policy.d/50-example.toml \
        opt/etc/monarch/datasets.d/example.toml opt/etc/slurm/plugstack.conf.d/monarch.conf \
        opt/monarch/share/man/man1/monarchctl.1 opt/monarch/share/man/man5/monarch.toml.5 \
        opt/monarch/share/man/man8/monarch-stager.8 opt/monarch/share/man/man8/spank_monarch.8; do
        [ -e "$DEST/$file" ] || { echo "missing: $file"; return 1; }
    done
    "$DEST/opt/monarch/bin/monarchctl" --config "$DEST/opt/etc/monarch" policy check
    mkdir "$DEST/data" && echo content >"$DEST/data/file"
    export XDG_STATE_HOME=$DEST/state
    "$DEST/opt/monarch/bin/monarchctl" run --dataset "$DEST/data" --tier t="$DEST/tier" --wait all --report "$DEST/report.json" -- \
        cat "$DEST/data/file"
    [ "$(jq .opens_local "$DEST/report.json")" -eq 1 ]
    while pgrep -x monarch-stager; do sleep 0.02; done
    rm -r "$DEST/data" "$DEST/state" "$DEST/tier" "$DEST/report.json"
    make -s uninstall DESTDIR="$DEST" BUILD="$BUILD" PREFIX=/opt/monarch SYSCONFDIR=/opt/etc SLURM_PLUGINDIR=/opt/slurm
    run find "$DEST" -type f -not -path "*/opt/etc/*"
    [ -z "$output" ]
    [ -e "$DEST/opt/etc/monarch/monarch.toml" ]
}

@test "a second install keeps what the administrator wrote" {
    install_to
    echo "# mine" >>"$DEST/opt/etc/monarch/monarch.toml"
    run install_to
    [ "$status" -eq 0 ]
    [[ $output == *"kept $DEST/opt/etc/"*"monarch.toml"* ]]
    [ "$(tail -n 1 "$DEST/opt/etc/monarch/monarch.toml")" = "# mine" ]
}

@test "make without a compiler or a header says in one line which command installs it; make deps does" {
    unset MAKEFLAGS MAKELEVEL # those of a make that runs the tests
    run make -s all BUILD="$DEST/build" CXX=no-such-compiler
    [ "$status" -eq 2 ]
    [ "$(grep -c "^make: no-such-compiler is missing: 'make deps' installs " <<<"$output")" -eq 1 ]
    # As where libslurm-dev is not installed.
    printf '#!/bin/sh\nfor a; do [ "$a" != -E ] || { ! grep -q slurm/spank.h; exit; }; done\nexec g++ "$@"\n' >"$DEST/g++"
    chmod 755 "$DEST/g++"
    run make -s -j4 all BUILD="$DEST/build" CXX="$DEST/g++"
    echo "$output"
    [ "$status" -eq 2 ]
    grep -q "^make: <slurm/spank.h> is missing: 'make deps' installs " <<<"$output"
    # That line and make's own.
    [ "$(grep -vc '^make: \*\*\*' <<<"$output")" -eq 1 ]
    [[ $(make -n deps) == *"tests/packages.sh build test demo"* ]]
    make deps
}

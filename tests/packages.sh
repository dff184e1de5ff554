#!/usr/bin/env bash
# packages.sh LIST…   install what is missing of the named groups of Debian packages.
#
# Nothing missing: one dpkg-query and done, so make may call it every time. Needs root or sudo otherwise.
set -euo pipefail

# shellcheck disable=SC2034  # the groups are used by name
build=(
    g++ make pkg-config
    libsqlite3-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
    libfuse3-dev libslurm-dev
)
# shellcheck disable=SC2034
test=(
    doctest-dev bats sqlite3 python3 python3-numpy rsync curl jq binutils strace procps
    slurmctld slurmd slurm-client munge debootstrap fuse3 mandoc musl-tools
)
# shellcheck disable=SC2034
demo=(
    sqlite3 python3 slurmctld slurmd slurm-client munge fuse3 procps
)
# shellcheck disable=SC2034
lint=(
    clang-format clang-tidy shellcheck
)
groups=(build test demo lint)

POLICY=/usr/sbin/policy-rc.d

die() {
    echo "packages.sh: $*" >&2
    exit 1
}

# Packages of the given groups, one a line.
packages_of() {
    local group name
    for group in "$@"; do
        [[ " ${groups[*]} " == *" $group "* ]] || die "no group '$group': choose from ${groups[*]}"
        local -n members=$group
        for name in "${members[@]}"; do echo "$name"; done
    done | LC_ALL=C sort -u
}

# Of the given packages, those that are not installed.
missing_of() {
    # dpkg-query fails when it does not know a name, and that is no error here.
    LC_ALL=C comm -23 <(printf '%s\n' "$@") \
        <({ dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } | sed -n 's/^installed //p' | LC_ALL=C sort -u)
}

# Debian starts a service as soon as it is installed; a development machine should not get a half-configured
# slurmctld by that. An administrator's own policy stays as it is.
forbid_services() {
    [[ ! -e $POLICY && ! -L $POLICY ]] || return 0
    trap 'rm -f "$POLICY"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

[[ $# -gt 0 ]] || die "usage: packages.sh LIST… with LIST from ${groups[*]}"
wanted=$(packages_of "$@")
mapfile -t wanted <<<"$wanted"
mapfile -t missing < <(missing_of "${wanted[@]}")
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || die "needs root to install: ${missing[*]}"
    exec sudo -- "$0" "$@"
fi

# Two runs at once would remove each other's policy file; the second finds nothing missing.
exec 9</var/lib/dpkg
flock 9
mapfile -t missing < <(missing_of "${wanted[@]}")
[[ ${#missing[@]} -gt 0 ]] || exit 0

echo "packages.sh: installing ${missing[*]}" >&2
forbid_services
apt update 9<&- || die "apt-get update failed"
apt install -y --no-install-recommends "${missing[@]}" 9<&- >/dev/null || die "could not install: ${missing[*]}"

#!/usr/bin/env bats
# monarchctl: catalog, tiers, configuration check, and how it says what is wrong.

setup() {
    BUILD=${BUILD:-$BATS_TEST_DIRNAME/../../build}
    PATH=$(realpath "$BUILD"):$PATH
    ETC=$BATS_TEST_TMPDIR/etc
    ROOT=$BATS_TEST_DIRNAME/../..
    mkdir -p "$ETC/policy.d" "$ETC/datasets.d"
    cat > "$ETC/monarch.toml" <<-END
	[[tier]]
	name = "ram"
	tmpfs = "64MiB"
	END
    cat > "$ETC/datasets.d/images.toml" <<-END
	[dataset.imagenet]
	source = "/lustre/imagenet"
	manifest = "/lustre/imagenet.manifest"
	description = "a line\nand another"
	[dataset.coco-2017]
	source = "s3://bucket/coco"
	END
}

teardown() {
    if [ -n "${MOUNTED:-}" ]; then umount -l "$MOUNTED" && rmdir "$MOUNTED"; fi
}

ctl() { run monarchctl --config "$ETC" "$@"; }

# The value that the JSON in $output has at a Python expression on `j`.
json() { python3 -c 'import json, sys; j = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$output" "$1"; }

# A disk of 16 MiB for a tier of its own, outside of /tmp; `tier` becomes its folder.
mount_disk() {
    [ "$(id -u)" = 0 ] || skip "needs root"
    MOUNTED=$(mktemp -d /mnt/monarch-cli-XXXXXX)
    mount -t tmpfs -o size=16M,mode=0755 monarch-test "$MOUNTED" || { rmdir "$MOUNTED"; MOUNTED=; skip "cannot mount"; }
    tier=$MOUNTED/monarch
    printf '[[tier]]\nname = "nvme"\npath = "%s"\ncapacity = "50%%"\n' "$tier" >> "$ETC/monarch.toml"
}

one_line_error() {
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "monarchctl: "*": "* ]]
}

@test "help and version, for every subcommand, with examples" {
    run monarchctl --version
    [ "$status" -eq 0 ]
    [[ $output =~ ^monarchctl\ [0-9] ]]
    run monarchctl --help
    [ "$status" -eq 0 ]
    [[ $output == *Examples:* ]]
    mapfile -t commands < <(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<< "$output")
    [ "${#commands[@]}" -ge 3 ]
    commands+=("dataset list" "dataset show" "tier list" "tier init" "policy check")
    for command in "${commands[@]}"; do
        run monarchctl $command --help
        [ "$status" -eq 0 ]
        [[ $output == *Examples:* ]]
    done
}

@test "a wrong call is one line and exit status 2" {
    for call in "" "nonsense" "--nonsense" "dataset" "dataset nonsense" "dataset list --nonsense" "dataset list extra" \
        "dataset show" "tier" "tier init --tier" "policy check --nonsense" "--config"; do
        run monarchctl $call
        echo "monarchctl $call: $status: $output"
        [ "$status" -eq 2 ]
        one_line_error
        [[ $output == *"--help"* ]]
    done
}

@test "dataset list prints the catalog" {
    ctl dataset list
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[0]} =~ ^NAME\ +SOURCE\ +MANIFEST\ +DESCRIPTION$ ]]
    [[ ${lines[1]} =~ ^coco-2017\ +s3://bucket/coco\ +-\ +-$ ]]
    [[ ${lines[2]} =~ ^imagenet\ +/lustre/imagenet\ +/lustre/imagenet.manifest\ +a\ line\\x0aand\ another$ ]]
}

@test "dataset list --json has the same facts" {
    ctl dataset list --json
    [ "$status" -eq 0 ]
    [ "$(json '[d["name"] for d in j["datasets"]]')" = "['coco-2017', 'imagenet']" ]
    [ "$(json 'j["datasets"][1]["manifest"]')" = /lustre/imagenet.manifest ]
    [ "$(json 'repr(j["datasets"][0]["manifest"])')" = "''" ]
}

@test "dataset show prints one data set and where it is defined" {
    ctl dataset show imagenet
    [ "$status" -eq 0 ]
    [[ $output =~ variable:\ +MONARCH_DATASET_IMAGENET ]]
    [[ $output == *"$ETC/datasets.d/images.toml"* ]]
    ctl dataset show coco-2017 --json
    [ "$(json 'j["variable"]')" = MONARCH_DATASET_COCO_2017 ]
    [ "$(json 'j["source"]')" = s3://bucket/coco ]
}

@test "dataset show refuses an unknown name" {
    for name in imagent /lustre/imagenet '' $'a\nb' ..; do
        ctl dataset show "$name"
        [ "$status" -eq 1 ]
        one_line_error
    done
}

@test "no catalog, or a broken one, is said" {
    printf '[dataset.x]\nsauce = "/x"\n' > "$ETC/datasets.d/broken.toml"
    ctl dataset list
    [ "$status" -eq 1 ]
    [[ $output == "monarchctl: $ETC/datasets.d/broken.toml:"[12]": "* ]]
    one_line_error
    rm -r "$ETC/datasets.d"
    ctl dataset list
    [ "$status" -eq 1 ]
    one_line_error
}

@test "the configuration folder: --config, else MONARCH_CONFIG, which root does not read" {
    MONARCH_CONFIG=$ETC run monarchctl dataset show imagenet --config "$ETC/none"
    [ "$status" -eq 1 ]
    [ "$(id -u)" = 0 ] || skip "needs root"
    MONARCH_CONFIG=$BATS_TEST_TMPDIR/root-does-not-read-this run monarchctl dataset list
    [[ $output != *root-does-not-read-this* ]]
    chmod -R a+rX "$BATS_RUN_TMPDIR"
    MONARCH_CONFIG=$BATS_TEST_TMPDIR/users-do run setpriv --reuid=65534 --regid=65534 --clear-groups monarchctl dataset list
    [[ $output == *users-do* ]]
}

@test "tier list: what is there and what is missing" {
    mount_disk
    ctl tier list
    [ "$status" -eq 0 ]
    [[ ${lines[1]} =~ ^ram\ +tmpfs\ +/run/monarch/tiers/ram\ +64\ MiB\ +ready$ ]]
    [[ ${lines[2]} =~ ^nvme\ +disk\ +$tier\ +-\ +missing:\ run ]]
    mkdir "$tier"
    ctl tier list
    [[ ${lines[2]} == *"no marker: run"* ]]
    ctl tier list --json
    [ "$(json '[(t["name"], t["ready"], t["capacity_bytes"]) for t in j["tiers"]]')" \
        = "[('ram', True, 67108864), ('nvme', False, None)]" ]
}

@test "tier init makes the folder and its marker, once" {
    mount_disk
    ctl tier init
    [ "$status" -eq 0 ]
    [[ $output == *"nvme: made $tier/.monarch-tier"* ]]
    [ "$(stat -c '%a %u %F' "$tier")" = "711 0 directory" ]
    [ "$(stat -c '%a %u %F' "$tier/stores")" = "711 0 directory" ]
    [ "$(stat -c '%a %u %F' "$tier/trash")" = "711 0 directory" ]
    [ "$(stat -c '%a %u %F' "$tier/.monarch-tier")" = "644 0 regular file" ]
    ctl tier list --json
    [ "$(json 'j["tiers"][1]["capacity_bytes"]')" = 8388608 ]
    before=$(stat -c '%n %i %Z' "$tier" "$tier/stores" "$tier/trash" "$tier/.monarch-tier")
    ctl tier init
    [ "$status" -eq 0 ]
    [[ $output != *" made "* ]]
    [ "$(stat -c '%n %i %Z' "$tier" "$tier/stores" "$tier/trash" "$tier/.monarch-tier")" = "$before" ]
}

@test "tier init works under a strict umask and on a mount point" {
    mount_disk
    sed -i "s|$tier|$MOUNTED|" "$ETC/monarch.toml"
    umask 0077
    ctl tier init
    [ "$status" -eq 0 ]
    [ "$(stat -c %a "$MOUNTED")" = 755 ]
    [ "$(stat -c %a "$MOUNTED/stores")" = 711 ]
    [ "$(stat -c %a "$MOUNTED/.monarch-tier")" = 644 ]
}

@test "tier init: one tier, by name" {
    mount_disk
    ctl tier init --tier ram
    [ "$status" -eq 0 ]
    [ ! -e "$tier" ]
    ctl tier init --tier none
    [ "$status" -eq 1 ]
    one_line_error
    ctl tier init --tier nvme
    [ "$status" -eq 0 ]
    [ -d "$tier" ]
}

@test "tier init: --node fills %n" {
    mount_disk
    sed -i "s|$tier|$MOUNTED/%n|" "$ETC/monarch.toml"
    ctl tier init --node node7
    [ "$status" -eq 0 ]
    [ -f "$MOUNTED/node7/.monarch-tier" ]
}

# Runs `tier init` for the tier and expects a refusal that says $1 and leaves no marker.
refused() {
    ctl tier init --tier nvme
    echo "$output"
    [ "$status" -eq 1 ]
    one_line_error
    [[ $output == *"$1"* ]]
    [ ! -e "$tier/.monarch-tier" ]
    ctl tier list
    [[ ${lines[2]} != *" ready" ]]
}

@test "tier init refuses the root file system unless it is allowed" {
    mount_disk
    umount "$MOUNTED"
    refused "it is on the root file system: mount a disk there, or set on_root = true"
    [ ! -e "$tier" ]
    echo 'on_root = true' >> "$ETC/monarch.toml"
    ctl tier init
    [ "$status" -eq 0 ]
    rm -r "$tier"
    rmdir "$MOUNTED"
    MOUNTED=
}

@test "tier init refuses folders that jobs see as their own" {
    mount_disk
    for folder in /tmp/x /var/tmp/x /dev/shm/x /dev/shm; do
        sed -i "s|^path = .*|path = \"$folder\"|" "$ETC/monarch.toml"
        refused "which jobs may see as their own"
        [ "$folder" = /dev/shm ] || [ ! -e "$folder" ]
    done
}

@test "tier init refuses links" {
    mount_disk
    mkdir "$MOUNTED/real"
    ln -s real "$tier"
    refused "it is a link or no folder"
    [ -z "$(ls -A "$MOUNTED/real")" ]
    rm "$tier"
    mkdir "$tier"
    ln -s ../real "$tier/stores"
    refused "it is a link or no folder"
}

@test "tier init refuses folders that others write to" {
    mount_disk
    mkdir "$tier"
    for mode in 0777 0775 1777; do
        chmod "$mode" "$tier"
        refused "others than root can write to it"
    done
    chmod 0755 "$tier"
    chown 65534 "$tier"
    refused "others than root can write to it"
    chown 0 "$tier"
    chmod 0777 "$MOUNTED"
    refused "others than root can write to $MOUNTED"
    chmod 0755 "$MOUNTED"
    ctl tier init
    [ "$status" -eq 0 ]
}

@test "a marker that is not root's own file does not count" {
    mount_disk
    ctl tier init
    chown 65534 "$tier/.monarch-tier"
    ctl tier list
    [[ ${lines[2]} == *"is not root's own file"* ]]
    ctl tier init
    [ "$status" -eq 1 ]
    rm "$tier/.monarch-tier"
    ln -s /etc/passwd "$tier/.monarch-tier"
    ctl tier init
    [ "$status" -eq 1 ]
    ctl tier list
    [[ ${lines[2]} != *" ready" ]]
    rm "$tier/.monarch-tier"
    mkfifo "$tier/.monarch-tier"
    run timeout 5 monarchctl --config "$ETC" tier list
    [ "$status" -eq 0 ]
    [[ ${lines[2]} != *" ready" ]]
}

@test "tier init says which parent is missing, and that it needs root" {
    mount_disk
    sed -i "s|$tier|$MOUNTED/a/b|" "$ETC/monarch.toml"
    refused "$MOUNTED/a: No such file or directory"
    chmod -R a+rX "$BATS_RUN_TMPDIR"
    sed -i "s|$MOUNTED/a/b|$tier|" "$ETC/monarch.toml"
    run setpriv --reuid=65534 --regid=65534 --clear-groups monarchctl --config "$ETC" tier init --tier nvme
    [ "$status" -eq 1 ]
    one_line_error
    [[ $output == *"only root can make a tier: run it as root" ]]
    ctl tier init
    run setpriv --reuid=65534 --regid=65534 --clear-groups monarchctl --config "$ETC" tier list
    [[ ${lines[2]} == *" ready" ]]
}

@test "policy check: a good folder" {
    printf '[[rule]]\nmax_capacity = { ram = "1G" }\n' > "$ETC/policy.d/10-a.toml"
    ctl policy check
    [ "$status" -eq 0 ]
    [ "$output" = "OK $ETC/monarch.toml
OK $ETC/policy.d/10-a.toml
OK $ETC/datasets.d/images.toml" ]
    ctl policy check --json
    [ "$(json '[f["ok"] for f in j["files"]]')" = "[True, True, True]" ]
}

@test "policy check: every broken file is said with its line, the others are OK" {
    printf '[[rule]]\n\nuser = ["bob"]\n' > "$ETC/policy.d/10-a.toml"
    printf '[[rule]]\n' > "$ETC/policy.d/20-b.toml"
    echo 'x = = 1' >> "$ETC/monarch.toml"
    ctl policy check
    [ "$status" -eq 1 ]
    [[ $output == *"monarchctl: $ETC/monarch.toml:4: "* ]]
    [[ $output == *"monarchctl: $ETC/policy.d/10-a.toml:3: unknown key 'user'"* ]]
    [[ $output == *"OK $ETC/policy.d/20-b.toml"* ]]
    [[ $output == *"OK $ETC/datasets.d/images.toml"* ]]
}

@test "policy check: a name in two files of the catalog" {
    cp "$ETC/datasets.d/images.toml" "$ETC/datasets.d/more.toml"
    ctl policy check
    [ "$status" -eq 1 ]
    [[ $output == *"$ETC/datasets.d/more.toml:"*" is already in $ETC/datasets.d/images.toml"* ]]
}

@test "policy check: a rule for a tier that this node has not is noted" {
    printf '[[rule]]\nmax_capacity = { nvmee = "1G" }\n' > "$ETC/policy.d/10-a.toml"
    ctl policy check
    [ "$status" -eq 0 ]
    [[ $output == *"10-a.toml:1: note: monarch.toml has no tier 'nvmee'"* ]]
}

@test "policy check: files by name, whatever they are called" {
    printf '[[rule]]\nmax_streams = 0\n' > "$BATS_TEST_TMPDIR/new"
    ctl policy check "$BATS_TEST_TMPDIR/new" "$ETC/monarch.toml" "$ETC/datasets.d/images.toml" "$ETC/none.toml"
    [ "$status" -eq 1 ]
    [[ $output == *"monarchctl: $BATS_TEST_TMPDIR/new:2: max_streams: "* ]]
    [[ $output == *"OK $ETC/monarch.toml"* ]]
    [[ $output == *"OK $ETC/datasets.d/images.toml"* ]]
    [[ $output == *"none.toml: cannot be read: No such file or directory"* ]]
}

@test "the shipped configuration is right, limits nothing and names nothing" {
    run monarchctl policy check --config "$ROOT/etc/monarch"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    run monarchctl dataset list --json --config "$ROOT/etc/monarch"
    [ "$(json 'j["datasets"]')" = "[]" ]
    run grep -c '^[^#]' "$ROOT/etc/monarch/policy.d/50-example.toml"
    [ "$output" = 0 ]
}

@test "the shipped examples are right when the # before them is taken away" {
    cp -r "$ROOT/etc/monarch/." "$ETC"
    rm "$ETC/datasets.d/images.toml"
    sed -i 's/^#\([^ ]\)/\1/' "$ETC/monarch.toml" "$ETC"/*.d/*.toml
    ctl policy check
    [ "$status" -eq 0 ]
    [[ $output != *note* ]]
    ctl dataset list --json
    [ "$(json 'len(j["datasets"])')" = 2 ]
    ctl tier list --json
    [ "$(json 'len(j["tiers"])')" = 2 ]
    [ "$(grep -c '^\[\[rule\]\]' "$ETC/policy.d/50-example.toml")" = 3 ]
}

@test "the examples of monarch.toml(5) are right" {
    rm "$ETC/datasets.d/images.toml"
    files=(none monarch.toml policy.d/50-gpu.toml datasets.d/imagenet.toml)
    for n in 1 2 3; do
        awk -v n=$n '/^\.Ed/ { inside = 0 } inside && i == n; /^\.Bd -literal/ { inside = 1; i++ }' \
            "$ROOT/man/monarch.toml.5" > "$ETC/${files[n]}"
        [ -s "$ETC/${files[n]}" ]
    done
    ctl policy check
    [ "$status" -eq 0 ]
    [[ $output != *note* ]]
    ctl dataset show imagenet
    [ "$status" -eq 0 ]
}

@test "the shipped plugstack line is one that Slurm can split at spaces" {
    run grep -v '^#' "$ROOT/etc/plugstack.conf.d/monarch.conf"
    [ "${#lines[@]}" -eq 1 ]
    [ "$output" = "optional spank_monarch.so" ]
}

@test "standard output that cannot be written is an error" {
    run bash -c 'monarchctl --config "$1" dataset list > /dev/full' _ "$ETC"
    [ "$status" -eq 1 ]
    one_line_error
}

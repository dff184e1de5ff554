#!/usr/bin/env bats
# Python programs load data the same with Monarch as without it: PyTorch, numpy, h5py, LMDB, PIL, OpenCV and Python's
# own library. Run by tests/cluster/sandbox.sh. The programs are in python/ and start in the data set.

setup_file() {
    source "$BATS_TEST_DIRNAME/compare.bash"
    compare_setup
    # Copied to where ada can reach them: the checkout may lie in a folder of root's alone.
    export PROGRAMS=$WORK/programs
    cp -r "$BATS_TEST_DIRNAME/python" "$PROGRAMS"
    chmod -R a+rX "$PROGRAMS"
    # No cached byte code, so that both runs compile alike.
    export PYTHONDONTWRITEBYTECODE=1
    unset PYTHONPATH PYTHONHOME
    (cd "$ORIGINAL" && /usr/bin/python3 "$PROGRAMS/make_data.py")
}

teardown_file() {
    source "$BATS_TEST_DIRNAME/compare.bash"
    compare_teardown
}

setup() {
    source "$BATS_TEST_DIRNAME/compare.bash"
}

opens() { jq ".opens_$1" "$REPORT"; }

# A program that ends well, with at least so many local opens.
works() { # LOCAL [--tree] PROGRAM [ARGUMENT…]
    local local_opens=$1 tree=()
    shift
    if [ "$1" = --tree ]; then tree=(--tree) && shift; fi
    same --local "$local_opens" "${tree[@]}" /usr/bin/python3 "$PROGRAMS/$1" "${@:2}" ||
        { cat "$WORK/monarch.err" && return 1; }
    [ "$status" -eq 0 ] || { echo "exit status $status" && cat "$WORK/monarch.err" && return 1; }
}

# A program that reads and does not write: all that it opens is local.
reads() { # LOCAL PROGRAM [ARGUMENT…]
    works "$@" || return 1
    [ "$(opens source)" -eq 0 ] || { jq -c . "$REPORT" && return 1; }
}

@test "PyTorch's DataLoader with no, two and four forked workers" {
    reads $((4 * 2 * 24)) loader.py fork:0 fork:2 fork:4 fork:2:persistent
    [ "$(wc -l <<<"$output")" -eq $((4 * 2 * 24)) ]
    # Every kind saw every sample once an epoch, in the order of the seed.
    [ "$(cut -d ' ' -f 2- <<<"$output" | sort | uniq -c | awk '{ print $1 }' | sort -u)" = 4 ]
    [ "$(awk '{ print $4 }' <<<"$output" | sort -u | wc -l)" -eq 24 ]
}

@test "PyTorch's DataLoader with spawned workers and with a fork server" {
    reads $((2 * 2 * 24)) loader.py spawn:2:persistent forkserver:2:persistent
    [ "$(wc -l <<<"$output")" -eq $((2 * 2 * 24)) ]
}

@test "pictures by torchvision's ImageFolder and read_image, PIL and OpenCV" {
    reads $((7 * 16)) images.py
}

@test "arrays by numpy, tensors by PyTorch" {
    reads 20 arrays.py
}

@test "HDF5 files by h5py" {
    works 4 hdf5.py # HDF5 locks what it opens, and what is locked is the source
}

@test "a file that is open for reading is locked against others as its reader wants it" {
    works 1 locks.py
    [ "$(grep -o 'not locked' <<<"$output" | wc -l)" -eq 5 ]
}

@test "LMDB environments, with and without locks" {
    works 7 lmdb_readers.py
}

@test "an LMDB environment is written and read back" {
    works 1 lmdb_writer.py
    [[ $output == *"read_back: [[b'new', None], [b'new', None]]"* ]]
}

@test "an LMDB environment that is open for reading sees what another process commits" {
    works 1 lmdb_committed.py
}

@test "tar streams as WebDataset reads them, zip files, compressed files" {
    reads 25 archives.py
    [[ $output == *"tar_streams: [['00000', [['00000.bin', "*"['00000.cls', "* ]]
}

@test "Python's own library: text, records, mappings, calls that copy inside the kernel, threads" {
    works 140 formats.py # sqlite locks what it reads
}

@test "names of files, and what the system says of them" {
    works 50 paths.py
    [[ $output == *"fstat_is_stat: []"* ]]
}

@test "processes however they are started read the same" {
    works $((9 * 24)) children.py
}

@test "every change by Python's own library is seen, and leaves the same data set" {
    works 40 --tree changes.py
}

@test "numpy, PyTorch, h5py, PIL, OpenCV and others write over what they read, and read what they wrote" {
    works 14 --tree rewrites.py
}

@test "who reads a file while it is written sees what is written" {
    works 4 open_while_written.py
}

@test "who has a file open while its mode, its time or its names change sees the change" {
    works 7 open_while_changed.py
}

@test "a descriptor's name in /proc leads to the file of the data set" {
    works 2 proc_names.py
}

@test "what a user cannot open fails with the same errors" {
    same --local 5 --user ada --tree /usr/bin/python3 "$PROGRAMS/refused.py"
    [ "$status" -eq 0 ]
    [[ $output == *"an unreadable file: PermissionError [13, 'locked/file', None]"* ]]
    [[ $output == *"no longer readable: PermissionError [13, 'samples/005.bin', None]"* ]]
    [[ $output == *"readable again: <6185 bytes "* ]]
}

@test "an exception that is not caught ends a program the same" {
    same --local 1 /usr/bin/python3 -c 'print(len(open("samples/003.bin", "rb").read())); open("samples/none")'
    [ "$status" -eq 1 ]
    [[ $(<"$WORK/monarch.err") == *"FileNotFoundError: [Errno 2] No such file or directory: 'samples/none'" ]]
}

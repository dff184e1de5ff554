#!/usr/bin/env bats
# libmonarch.so with real programs, on a session made by hand (mksession): no stager, no Slurm.
# Each test has a data set of its own, ds, with copies on the tiers ram and nvme of what it stages.

setup_file() {
    export SRC=$BATS_TEST_DIRNAME
    export BUILD=$(realpath "${BUILD:-$SRC/../../build}")
    export LIB=$BUILD/libmonarch.so
    export BIN=$BATS_FILE_TMPDIR
    local flags="-std=gnu11 -O1 -Wall -Wextra -I$SRC/../.."
    gcc $flags "$SRC/mksession.c" -o "$BIN/mksession"
    gcc $flags -Wno-nonnull "$SRC/preload_client.c" -o "$BIN/client" -pthread
    ln -s /usr/bin/python3 "$BIN/python3" # the real one, no wrapper of a version manager
    gcc $flags "$SRC/preload_churn.c" -o "$BIN/churn" -pthread
}

setup() {
    PATH=$BIN:$PATH
    T=$(realpath "$(mktemp -d)")
    mkdir -p "$T/ds/train/n01" "$T/job/0" "$T/cwd"
    DS=$T/ds S=$T/job/0
    for i in 1 2 3 4; do
        seq $((i * 1000)) $((i * 1000 + 500)) >"$DS/train/n01/$i.txt"
        touch -d "2020-01-0$i 01:02:03.$i" "$DS/train/n01/$i.txt"
        chmod 64$i "$DS/train/n01/$i.txt"
    done
    mksession make "$S" "$DS" "$T/ram" "$T/nvme"
    A=train/n01/1.txt B=train/n01/2.txt C=train/n01/3.txt
    cd "$T/cwd"
}

teardown() {
    if [ -n "${HOLDER:-}" ]; then kill "$HOLDER" 2>/dev/null || true; fi
    cd /
    rm -rf "$T"
}

# Runs a command as a task of the job.
job() { MONARCH_SESSION=$T/job LD_PRELOAD=$LIB "$@"; }
get() { mksession get "$S" "$@" | xargs; }
opens() { get opens_local opens_source; }
stage() { mksession stage "$S" "$@"; }

# Runs the command without and with Monarch, and compares output and exit status.
same() {
    local plain=0 monarch=0
    "$@" >"$T/plain" 2>&1 </dev/null || plain=$?
    job "$@" >"$T/monarch" 2>&1 </dev/null || monarch=$?
    cmp "$T/plain" "$T/monarch"
    [ $plain = $monarch ]
}

until_true() {
    for _ in $(seq 1000); do
        if "$@"; then return 0; fi
        sleep 0.01
    done
    return 1
}

# ---- the library itself ----

@test "it exports what it wraps and nothing else" {
    nm -D --defined-only "$LIB" | awk '{ print $3 }' | sort >"$T/exported"
    sed -n '/global:/,/local:/p' "$SRC/../../preload/libmonarch.map" | grep -v : | tr -d ' \n' | tr ';' '\n' | sort >"$T/listed"
    diff "$T/exported" "$T/listed"
}

@test "it needs libc alone, and no version newer than GLIBC_2.17" {
    [ "$(readelf -d "$LIB" | grep -c NEEDED)" = 1 ]
    readelf -d "$LIB" | grep -q 'NEEDED.*\[libc.so.6\]'
    ! readelf -d "$LIB" | grep -E 'RPATH|RUNPATH'
    newest=$(printf '%s\n' GLIBC_2.17 $(objdump -T "$LIB" | grep -o 'GLIBC_[0-9.]*') | sort -V | tail -1)
    [ "$newest" = GLIBC_2.17 ]
    ! objdump -T "$LIB" | grep -E 'GLIBC_PRIVATE|GLIBCXX|CXXABI'
}

@test "a process that opens nothing pays nothing" {
    job strace -f -o "$T/trace" true
    ! grep -E "$S" "$T/trace"
    [ "$(get processes)" = 0 ]
}

# ---- reading ----

@test "every way to open for reading is served locally" {
    stage 0 $A
    for how in $(client list read); do
        before=$(get opens_local)
        job client read "$how" "$DS/$A" </dev/null >"$T/out" || { echo "$how failed"; false; }
        cmp "$T/out" "$DS/$A" || { echo "$how: other bytes"; false; }
        [ "$(get opens_local)" -gt "$before" ] || { echo "$how: not local"; false; }
    done
    [ "$(get opens_source)" = 0 ]
}

@test "what is not staged comes from the source, and is counted" {
    stage 0 $A
    stage 1 $B
    same cat "$DS/$A" "$DS/$B" "$DS/$C"
    [ "$(opens)" = "2 1" ]
    [ "$(get processes)" = 1 ]
    mksession ring "$S" >"$T/ring"
    [ "$(awk '{ print $1, $2 }' "$T/ring" | xargs)" = "register 255 open 0 open 1 open 255" ]
    [ "$(awk '$1 == "open" { print $4 }' "$T/ring" | xargs)" = "$(for f in $A $B $C; do mksession hash $f; done | xargs)" ]
}

@test "errors are the source's" {
    same cat "$DS/train" "$DS/no" "$DS/$A/" "$DS/$A/x" "$DS/train/../$A"
    mkdir -p "$T/ram/files/only" && echo x >"$T/ram/files/$(basename "$T")"
    same cat "$DS/only"
    ln -s loop "$DS/loop"
    same cat "$DS/loop"
    [ "$(get opens_local)" = 0 ]
}

@test "folders and special files are the source's" {
    stage 0 $A
    mkfifo "$DS/fifo"
    job cat "$DS/fifo" >"$T/out" &
    echo through >"$DS/fifo"
    wait $!
    [ "$(cat "$T/out")" = through ]
    job python3 -c 'import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); print(sorted(os.listdir(fd)))' "$DS/train/n01" >"$T/out"
    [ "$(cat "$T/out")" = "['1.txt', '2.txt', '3.txt', '4.txt']" ]
    [ "$(opens)" = "0 0" ]
}

@test "relative paths and odd spellings reach the copies" {
    stage 0 $A
    cd "$DS"
    same cat $A ./train//n01/./1.txt
    cd train/n01
    same cat 1.txt ./1.txt
    cd "$T"
    same cat ds/$A ./ds/train/./n01//1.txt "$T/./ds//$A"
    cd /
    same cat "${DS#/}/$A"
    [ "$(opens)" = "8 0" ]
    same cat "$DS/train/../$A" # as it is
    [ "$(get opens_local)" = 8 ]
    cd "$DS/train"
    same cat ../$A
    [ "$(get opens_local)" = 8 ]
}

@test "symbolic links of the user's reach the copies, and are never out of date" {
    stage 0 $A
    ln -s "$DS" "$T/direct"
    ln -s direct/train "$T/inner"
    ln -s "$T" "$T/above"
    same cat "$T/direct/$A" "$T/inner/n01/1.txt" "$T/above/ds/$A" "$T/above/direct/$A"
    cd "$T/direct"
    same cat $A
    cd "$T"
    same cat inner/n01/1.txt
    [ "$(opens)" = "6 0" ]
    mkdir -p "$T/second/train/n01"
    echo other >"$T/second/$A"
    cat >"$T/repoint.py" <<'END'
import os, sys
path, link, target = sys.argv[1:]
first = open(path).read()
os.symlink(target, link + ".new")
os.rename(link + ".new", link)
assert open(path).read() == "other\n" != first
END
    job python3 "$T/repoint.py" "$T/direct/$A" "$T/direct" "$T/second"
}

@test "a root that is a symbolic link works by both names" {
    mkdir "$T/job2" "$T/job2/0"
    ln -s "$DS" "$T/named"
    S=$T/job2/0
    mksession make "$S" "$T/named" "$T/ram2"
    stage 0 $A
    for path in "$T/named/$A" "$DS/$A"; do
        MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB cat "$path" | cmp - "$DS/$A"
    done
    [ "$(opens)" = "2 0" ]
    # The root becomes another folder: nothing of the old one is served.
    mkdir -p "$T/second/train/n01"
    echo other >"$T/second/$A"
    MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB ln -sfn "$T/second" "$T/named"
    [ "$(MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB cat "$T/named/$A")" = other ]
    [ "$(get disabled)" = 1 ]
}

@test "any name works" {
    for name in $'new\nline' $'\xff\xfe' ' ' '*' '-' "$(printf '%0255d' 0)"; do
        echo "bytes of $name" >"$DS/$name"
        stage 0 "$name"
        same cat "$DS/$name"
    done
    [ "$(opens)" = "6 0" ]
    long=$DS
    while [ ${#long} -lt 3900 ]; do long=$long/$(printf '%0100d' 0); done
    mkdir -p "$long"
    echo deep >"$long/file"
    same cat "$long/file"
}

@test "several data sets, one in the other" {
    mkdir "$T/job/1"
    mksession make "$T/job/1" "$DS/train" "$T/ram2"
    stage 0 $A
    mksession stage "$T/job/1" 0 n01/2.txt
    same cat "$DS/$A" "$DS/$B"
    [ "$(opens)" = "0 0" ] # the inner one is asked
    [ "$(S=$T/job/1 opens)" = "1 1" ]
    job client change open_rdwr "$DS/$A"
    [ -L "$T/ram/files/$A" ]
    [ -L "$T/ram2/files/n01/1.txt" ]
}

@test "programs read the same bytes" {
    stage 0 $A $B
    stage 1 $C
    cat >"$T/read.py" <<'END'
import mmap, os, pathlib, shutil, sys
path = sys.argv[1]
out = [open(path).read(), open(path, "rb").read().decode(), pathlib.Path(path).read_text()]
fd = os.open(path, os.O_RDONLY)
assert os.path.sameopenfile(fd, os.open(path, os.O_RDONLY))
assert os.path.samestat(os.fstat(fd), os.stat(path))
out += [os.pread(fd, 100, 5).decode(), mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:].decode()]
shutil.copy2(path, "copy")
assert os.stat("copy").st_mtime_ns == os.stat(path).st_mtime_ns
pid = os.fork()
if pid == 0:
    print(len(open(path).read()), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
try:
    import numpy
    out += [bytes(numpy.memmap(path, "u1", "r")).decode(), bytes(numpy.fromfile(path, "u1")).decode()]
except ImportError:
    pass
print("".join(out))
END
    for f in $A $B $C train/n01/4.txt; do same python3 "$T/read.py" "$DS/$f"; done
    [ "$(get opens_local)" -gt 20 ]
    same dd if="$DS/$A" bs=7 status=none
    same grep -r 1234 "$DS"
    same find "$DS" -type f -newermt 2020-01-02 -size -10k
    same sh -c "cat < $DS/$A; sha256sum $DS/*/*/*; head -1 $DS/$B; wc $DS/$C; sort $DS/$A | tail -1; cmp $DS/$A $DS/$B"
    same tar -C "$DS" -cf - .
    same sh -c "gzip -nc $DS/$A"
    same perl -e 'open F, $ARGV[0] or die; print <F>; open STDIN, "<", $ARGV[0]; print <STDIN>' "$DS/$A"
    same diff -r "$DS" "$DS"
}

@test "copies made of the data set are the source's, attributes and all" {
    setfattr -n user.keep -v kept "$DS/$A" 2>/dev/null || python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.keep", b"kept")' "$DS/$A"
    stage 0 $A $B $C
    # Some programs leave a folder's time alone where it is the same to the second.
    touch -d "2021-02-03 04:05:06.7" "$DS/train/n01" "$DS/train" "$DS"
    for how in "cp -a" "cp -rp" "rsync -aX" "cp -a --reflink=auto"; do
        rm -rf plain monarch
        $how "$DS/" plain
        job $how "$DS/" monarch
        diff -r plain monarch
        (cd plain && find . -printf '%p %s %T@ %m %u %g\n' | sort) >"$T/plain"
        (cd monarch && find . -printf '%p %s %T@ %m %u %g\n' | sort) >"$T/monarch"
        [ "$(wc -l <"$T/plain")" -eq 7 ]
        diff "$T/plain" "$T/monarch"
        python3 -c 'import os, sys
for f in sys.argv[1:]: print({n: os.getxattr(f, n) for n in os.listxattr(f)})' plain/$A plain/$B >"$T/plain"
        python3 -c 'import os, sys
for f in sys.argv[1:]: print({n: os.getxattr(f, n) for n in os.listxattr(f)})' monarch/$A monarch/$B >"$T/monarch"
        cmp "$T/plain" "$T/monarch"
    done
    [ "$(get opens_local)" -gt 5 ]
    job install -m 600 "$DS/$A" installed
    cmp installed "$DS/$A"
    cp -a "$DS" "$T/reference"
    job mv "$DS/$A" moved
    cmp moved "$T/reference/$A"
    ! job cat "$DS/$A"
}

@test "fstat and its kin say what stat says" {
    stage 0 $A
    stage 1 $B
    for f in $A $B $C; do job client identity "$DS/$f"; done
    cat >"$T/same.py" <<'END'
import os, sys
if len(sys.argv) > 2:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.unlink(sys.argv[2])
else:
    fd = 3
a, b = os.fstat(fd), os.stat(sys.argv[1])
for name in "st_dev", "st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime_ns":
    assert getattr(a, name) == getattr(b, name), name
END
    # A descriptor that came by exec, in a process that has opened nothing.
    job sh -c 'exec 3<"$1"; exec python3 "$2" "$1"' sh "$DS/$A" "$T/same.py"
    # Its copy is gone meanwhile.
    job python3 "$T/same.py" "$DS/$A" "$T/ram/files/$A"
    # The attribute alone makes no copy.
    cp -a "$T/nvme/files/$B" "$T/nvme-copy"
    ln "$T/nvme-copy" "$T/other-name"
    job python3 "$T/same.py" "$T/nvme-copy" "$T/other-name"
}

@test "fstat where the tier has no extended attributes" {
    mkdir "$T/job2" "$T/job2/0"
    S=$T/job2/0
    MKSESSION_IDS=1 mksession make "$S" "$DS" "$T/ram2" "$T/nvme2"
    stage 0 $A
    stage 1 $B
    for f in $A $B $C; do MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB client identity "$DS/$f"; done
    [ "$(opens)" = "2 1" ]
    printf 'garbage' >"$T/ram2/ids"
    MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB cat "$DS/$A" | cmp - "$DS/$A"
}

@test "ranks are told once a process" {
    stage 0 $A
    RANK=3 WORLD_SIZE=8 SLURM_PROCID=1 SLURM_NTASKS=2 job cat "$DS/$A" "$DS/$A" >/dev/null
    SLURM_PROCID=1 SLURM_NTASKS=2 job cat "$DS/$A" >/dev/null
    RANK=x WORLD_SIZE=8 job cat "$DS/$A" >/dev/null
    RANK=8 WORLD_SIZE=8 job cat "$DS/$A" >/dev/null
    SLURM_PROCID=0 SLURM_NTASKS=1 job python3 -c 'import os, sys
open(sys.argv[1])
for i in range(2):
    pid = os.fork()
    if pid == 0:
        open(sys.argv[1]); open(sys.argv[1]); os._exit(0)
    os.waitpid(pid, 0)' "$DS/$A"
    registered=$(mksession ring "$S" | awk '$1 == "register" { print $4 }' | xargs)
    none=ffffffffffffffff one=0000000000000001
    [ "$registered" = "0000000300000008 0000000100000002 $none $none $one $one $one" ]
    [ "$(get processes)" = 7 ]
    [ "$(mksession ring "$S" | grep register | awk '{ print $3 }' | sort -u | wc -l)" = 7 ]
}

# ---- changing ----

# For every way, a folder of its own in the data set and in a twin of it, changed with and without Monarch.
@test "every way to change a file or a name retires its copies first" {
    hows=$(client list change)
    cat >"$T/make.py" <<'END'
import os, sys
for folder in sys.argv[1:]:
    os.makedirs(folder)
    with open(folder + "/file", "w") as f: f.writelines("%d\n" % i for i in range(100))
    os.setxattr(folder + "/file", "user.keep", b"kept")
    os.utime(folder + "/file", (1577836800, 1577836800))
END
    cat >"$T/describe.py" <<'END'
import os, stat, sys
os.chdir(sys.argv[1])
for folder, _, names in sorted(os.walk(".")):
    for path in sorted(folder + "/" + n for n in names):
        if "XXXXXX" in path: continue
        st = os.lstat(path)
        regular = stat.S_ISREG(st.st_mode)
        print(path, oct(st.st_mode), st.st_nlink, st.st_mtime if st.st_mtime < 1600000000 else "now",
              [(n, os.getxattr(path, n)) for n in sorted(os.listxattr(path))] if regular else "",
              open(path).read() if regular else os.path.islink(path) and os.readlink(path))
END
    for top in "$DS" "$T/plain" "$T/cwd/ds" "$T/cwd/plain"; do python3 "$T/make.py" $(printf "$top/%s\n" $hows); done
    find "$T/cwd" -name file -delete
    stage 0 $(printf '%s/file\n' $hows)
    stage 1 $(printf '%s/file\n' $hows)
    for how in $hows; do
        cd "$T/cwd/plain/$how"
        client change "$how" "$T/plain/$how/file" >/dev/null || { echo "$how failed without"; false; }
        mksession set "$S" disabled 0 # link_from and its like write to a file of two names
        cd "$T/cwd/ds/$how"
        job client change "$how" "$DS/$how/file" >/dev/null || { echo "$how failed"; false; }
    done
    # No copy is left, the same became of the files, and they read the same.
    [ -z "$(find "$T/ram/files" "$T/nvme/files" -name file ! -type l)" ]
    [ "$(find "$T/ram/files" "$T/nvme/files" -type l -name file | wc -l)" -gt 150 ]
    python3 "$T/describe.py" "$T/plain" >"$T/expected"
    [ "$(grep -c ^./ "$T/expected")" -gt 90 ]
    mv "$DS/train" "$T/train"
    python3 "$T/describe.py" "$DS" >"$T/got"
    diff "$T/expected" "$T/got"
    mksession set "$S" disabled 0
    job python3 "$T/describe.py" "$DS" >"$T/got"
    diff "$T/expected" "$T/got"
    # Nothing can put an old copy back.
    for how in $hows; do ! stage 0 "$how/file" 2>/dev/null || { echo "$how: published again"; false; }; done
    [ "$(get retired)" -ge "$(wc -w <<<"$hows")" ]
    mksession ring "$S" | grep -q "^retire 255 .* $(mksession hash unlink/file)"
}

@test "what only looks like a change retires nothing" {
    stage 0 $A
    chmod 755 "$DS/train" # a folder's attributes
    job chmod 700 "$DS/train/n01"
    job touch "$DS/train"
    ! job rmdir "$DS/train/n01" 2>/dev/null
    ! job python3 -c 'import os, sys; os.unlink(sys.argv[1])' "$DS/train/n01" 2>/dev/null
    ! job python3 -c 'open("'"$DS"'/train", "r+")' 2>/dev/null
    ! job sh -c ": > $DS/train/n01" 2>/dev/null
    ! job rm "$DS/no-such-file" 2>/dev/null
    job python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)' "$DS/train/n01"
    job python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)' "$DS/train/n01"
    [ "$(get retired disabled)" = "0 0" ]
    job cat "$DS/$A" | cmp - "$DS/$A"
    [ "$(opens)" = "1 0" ]
}

@test "renamed and removed folders take their copies along" {
    mkdir "$DS/second"
    seq 5 >"$DS/second/1.txt"
    stage 0 $A $B second/1.txt
    stage 1 $C second/1.txt
    job mv "$DS/train" "$DS/moved"
    same cat "$DS/moved/n01/1.txt"
    same cat "$DS/$A"
    job mv "$DS/second" "$DS/train"
    same cat "$DS/train/1.txt"
    job rm -r "$DS/train"
    same cat "$DS/train/1.txt"
    [ "$(get opens_local disabled)" = "0 0" ]
    # What was moved aside waits for the stager in the store's tmp.
    [ "$(find "$T/ram/tmp" -name 'retired-*' -type d | wc -l)" -ge 1 ]
    [ -z "$(find "$T/ram/tmp" "$T/nvme/tmp" -maxdepth 1 -type l)" ]
}

@test "when the root itself is renamed, nothing is served any more" {
    stage 0 $A
    job mv "$DS" "$T/elsewhere"
    mkdir -p "$DS/train/n01"
    echo other >"$DS/$A"
    [ "$(job cat "$DS/$A")" = other ]
    [ "$(get disabled)" = 1 ]
}

@test "bytes with several names are not served after a change" {
    ln "$DS/$A" "$DS/hard"
    stage 0 $A hard
    job sh -c "echo changed > $DS/hard"
    [ "$(job cat "$DS/$A")" = changed ]
    [ "$(get disabled)" = 1 ]
}

@test "names that cannot be retired turn the session off" {
    stage 0 $A $B
    rm -rf "$T/ram/tmp"
    job sh -c "echo changed > $DS/$A"
    [ "$(job cat "$DS/$A")" = changed ]
    [ "$(get disabled)" = 1 ]
    [ "$(get retire_lost)" -ge 1 ]
    job cat "$DS/$B" | cmp - "$DS/$B"
    [ "$(get opens_local)" = 0 ]
}

@test "on a tier without a free inode, the copy makes room for its own mark" {
    mkdir "$T/small" "$T/job2" "$T/job2/0"
    mount -t tmpfs -o size=1M,nr_inodes=8 none "$T/small" 2>/dev/null || skip "needs mount"
    S=$T/job2/0
    mksession make "$S" "$DS" "$T/small/store"
    cp "$DS/$A" "$DS/1.txt"
    ok=1
    stage 0 1.txt || ok=0
    touch "$T/small/store/tmp/"{1,2,3,4,5,6,7,8} 2>/dev/null || true
    MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB sh -c "echo changed > $DS/1.txt"
    [ "$(MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB cat "$DS/1.txt")" = changed ] || ok=0
    [ -L "$T/small/store/files/1.txt" ] || ok=0
    MONARCH_SESSION=$T/job2 LD_PRELOAD=$LIB sh -c "echo changed > $DS/$A" # no room for this mark
    [ "$(get disabled)" = 1 ] || ok=0
    umount "$T/small"
    [ $ok = 1 ]
}

@test "the tiers' own files are left alone" {
    stage 0 $A
    stage 1 $A
    job cat "$T/ram/files/$A" | cmp - "$DS/$A"
    job rm "$T/ram/files/$A"
    [ -e "$DS/$A" ]
    [ "$(get retired)" = 0 ]
    job cat "$DS/$A" | cmp - "$DS/$A"
    [ "$(opens)" = "1 0" ]
}

@test "thousands of changes while the stager publishes: no old byte is read" {
    rm -r "$DS/train"
    for d in 00 01 02 03 04 05 06 07 08 09; do mkdir "$DS/$d"; done
    python3 -c 'import sys
for i in range(3000): open("%s/%02u/%u" % (sys.argv[1], i % 10, i), "wb").write(b"\1\0\0\0\0\0\0\0" * 64)' "$DS"
    mksession publish "$S" 0 &
    first=$!
    mksession publish "$S" 1 &
    second=$!
    until_true test -e "$T/ram/files/05/5"
    run job churn "$DS" 3000 3
    kill $first $second
    echo "$output"
    [ "$status" = 0 ]
    [ "$(get disabled)" = 0 ]
    [ "$(get retired)" -ge 3000 ]
    [ "$(get opens_local)" -gt 100 ]
}

# ---- waiting ----

hold() {
    coproc mksession hold "$S"
    HOLDER=$COPROC_PID
    read -r line <&"${COPROC[0]}"
    [ "$line" = held ]
}
hour=3600000000000
waiting() { [ "$(get wait_deadline_ns)" != 0 ]; }
# Starts a reader that has to wait, and returns when it does.
reader() {
    MONARCH_SESSION=$T/job LD_PRELOAD=$LIB cat "$DS/$A" >"$T/out" 3>&- &
    READER=$!
    until_true waiting
    kill -0 $READER
    [ ! -s "$T/out" ]
}
read_it() {
    wait $READER
    cmp "$T/out" "$DS/$A"
}

@test "waiting ends when the stager says so" {
    hold
    mksession set "$S" wait_limit_ns $hour
    mksession set "$S" wait 1
    reader
    stage 0 $A
    mksession set "$S" wait 2
    read_it
    [ "$(opens)" = "1 0" ]
    [ "$(get waited_ns)" -gt 0 ]
    job cat "$DS/$A" >/dev/null
}

@test "waiting ends when time is up, once for all processes" {
    hold
    mksession set "$S" wait_limit_ns 300000000
    mksession set "$S" wait 1
    job cat "$DS/$A" >/dev/null
    waited=$(get waited_ns)
    [ "$waited" -ge 300000000 ]
    job cat "$DS/$A" "$DS/$B" >/dev/null
    [ $(($(get waited_ns) - waited)) -lt 300000000 ]
    mksession set "$S" wait_deadline_ns 18446744073709551615 # nonsense: the limit holds
    job cat "$DS/$A" >/dev/null
}

@test "waiting ends when the session has ended, or is disabled, or nothing more will be staged" {
    for field in "ended 1" "disabled 1" "state 3" "state 4"; do
        hold
        for f in "wait_deadline_ns 0" "wait_limit_ns $hour" "ended 0" "disabled 0" "state 2" "wait 1"; do
            mksession set "$S" $f
        done
        reader
        mksession set "$S" $field
        read_it
        kill $HOLDER
        wait $HOLDER || true
    done
}

@test "waiting ends when the session's folder is gone" {
    hold
    mksession set "$S" wait_limit_ns $hour
    mksession set "$S" wait 1
    reader
    mv "$S" "$T/gone"
    read_it
}

@test "waiting ends when the stager is gone" {
    hold
    mksession set "$S" wait_limit_ns $hour
    mksession set "$S" wait 1
    reader
    kill -9 $HOLDER
    read_it
}

@test "an undecided stager is waited for, but not long" {
    hold
    mksession set "$S" wait 0
    job cat "$DS/$A" >/dev/null &
    until_true test "$(get processes)" = 1 || until_true sh -c "[ \$(mksession get '$S' processes) = 1 ]"
    mksession set "$S" wait 2
    wait $!
    mksession set "$S" wait 77 # nonsense
    job cat "$DS/$A" >/dev/null
}

@test "a waiting process handles its signals, and can be killed" {
    hold
    mksession set "$S" wait_limit_ns $hour
    mksession set "$S" wait 1
    cat >"$T/signals.py" <<'END'
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.set_wakeup_fd(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK), warn_on_full_buffer=False)
print(open(sys.argv[1]).readline())
END
    MONARCH_SESSION=$T/job LD_PRELOAD=$LIB python3 "$T/signals.py" "$DS/$A" "$T/got" >"$T/out" &
    READER=$!
    until_true waiting
    kill -USR1 $READER
    until_true test -s "$T/got" # the handler has run, and the wait goes on
    kill -0 $READER
    kill -TERM $READER
    status=0
    wait $READER || status=$?
    [ $status = 143 ]
    mksession set "$S" wait_deadline_ns 0
    reader
    kill -KILL $READER
    status=0
    wait $READER || status=$?
    [ $status = 137 ]
}

@test "all threads of a process wait" {
    hold
    mksession set "$S" wait_limit_ns $hour
    mksession set "$S" wait 1
    cat >"$T/threads.py" <<'END'
import sys, threading
threads = [threading.Thread(target=lambda: sys.stdout.write(open(sys.argv[1]).readline())) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
END
    job python3 "$T/threads.py" "$DS/$A" >"$T/out" &
    READER=$!
    until_true waiting
    stage 0 $A
    mksession set "$S" wait 2
    wait $READER
    [ "$(sort -u "$T/out")" = 1000 ]
    [ "$(opens)" = "4 0" ]
}

# ---- nothing of it ----

@test "MONARCH_DISABLE=1 is pure pass-through" {
    stage 0 $A
    MONARCH_DISABLE=1 job cat "$DS/$A" | cmp - "$DS/$A"
    MONARCH_DISABLE=1 job bash -c "ls $DS; cat < $DS/$A" >/dev/null
    MONARCH_DISABLE=1 job client change open_rdwr "$DS/$B"
    [ "$(get opens_local opens_source processes retired)" = "0 0 0 0" ]
    MONARCH_DISABLE=0 job cat "$DS/$A" >/dev/null
    [ "$(opens)" = "1 0" ]
}

@test "a missing or broken session is as none" {
    stage 0 $A
    for session in "" relative /no/such/folder "$DS" "$(printf '/%05000d' 0)"; do
        MONARCH_SESSION=$session LD_PRELOAD=$LIB cat "$DS/$A" | cmp - "$DS/$A"
        MONARCH_SESSION=$session LD_PRELOAD=$LIB client read fopen "$DS/$A" | cmp - "$DS/$A"
    done
    LD_PRELOAD=$LIB cat "$DS/$A" | cmp - "$DS/$A"
    cp "$S/map" "$T/map"
    for map in '' 'root' 'root=\0' 'root=relative\0' 'root=/\0' 'root=/a/../b\0' "root=$DS" 'tier=/x\0' \
        "root=$DS\0tier=relative\0" "$(printf 'tier=/x\\0%.0s' $(seq 20))"; do
        printf "$map" >"$S/map"
        job cat "$DS/$A" | cmp - "$DS/$A"
    done
    head -c 100000 /dev/urandom >"$S/map"
    job cat "$DS/$A" | cmp - "$DS/$A"
    head -c 100000 /dev/zero >"$S/map"
    job cat "$DS/$A" | cmp - "$DS/$A"
    cp "$T/map" "$S/map"
    cp "$S/page" "$T/page"
    printf 'x' | dd of="$S/page" conv=notrunc status=none
    job cat "$DS/$A" | cmp - "$DS/$A"
    : >"$S/page"
    job cat "$DS/$A" | cmp - "$DS/$A"
    rm "$S/page"
    job cat "$DS/$A" | cmp - "$DS/$A"
    # Even so, a change is not missed: other processes may see more.
    job client change open_rdwr "$DS/$A"
    [ -L "$T/ram/files/$A" ]
    cp "$T/page" "$S/page"
    [ "$(get opens_local)" = 0 ]
    stage 0 $B
    rm "$S/ring"
    job cat "$DS/$B" | cmp - "$DS/$B"
    [ "$(get opens_local)" = 1 ]
}

@test "an ended or disabled session serves nothing" {
    stage 0 $A
    for field in ended disabled; do
        mksession set "$S" $field 1
        job cat "$DS/$A" | cmp - "$DS/$A"
        mksession set "$S" $field 0
    done
    [ "$(get opens_local)" = 0 ]
}

@test "another folder under the root's name (a container's) is not taken for it" {
    stage 0 $A
    mv "$DS" "$T/elsewhere"
    mkdir -p "$DS/train/n01"
    echo other >"$DS/$A"
    [ "$(job cat "$DS/$A")" = other ]
    [ "$(opens)" = "0 0" ]
}

@test "out of descriptors, small stacks, threads that open while others fork" {
    stage 0 $A
    cat >"$T/hard.py" <<'END'
import os, resource, sys, threading
path = sys.argv[1]
expected = open(path, "rb").read()
stop = False
sys.setswitchinterval(0.0005)
def opener():
    while not stop:
        with open(path, "rb") as f: assert f.read() == expected
threading.stack_size(32768)
threads = [threading.Thread(target=opener) for _ in range(2)]
for t in threads: t.start()
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.read(os.open(path, os.O_RDONLY), 1 << 20) == expected else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
held = []
try:
    while True: held.append(os.open(path, os.O_RDONLY))
except OSError as e:
    assert e.errno == 24
os.close(held.pop())
os.chmod(path, 0o600)
END
    job python3 "$T/hard.py" "$DS/$A"
    [ -L "$T/ram/files/$A" ]
}

@test "a thread that waits in an open can be cancelled" {
    mkfifo "$DS/fifo" "$T/fifo"
    timeout 20 client cancel "$T/fifo"
    for fifo in "$DS/fifo" "$T/fifo"; do job timeout 20 client cancel "$fifo"; done
}

@test "programs built with AddressSanitizer, and with another libc" {
    stage 0 $A
    cat >"$T/cat.c" <<'END'
#include <stdio.h>
#include <sys/stat.h>
int main(int argc, char** argv) {
    struct stat a, b;
    FILE* f = fopen(argv[argc - 1], "r");
    if (f == NULL || fstat(fileno(f), &a) != 0 || stat(argv[1], &b) != 0 || a.st_ino != b.st_ino) return 1;
    for (int c; (c = getc(f)) != EOF;) putchar(c);
    f = freopen(argv[1], "r", stdin);
    return f == NULL || getc(f) == EOF || fclose(fopen(argv[1], "r+")) != 0;
}
END
    if gcc -fsanitize=address "$T/cat.c" -o "$T/cat-asan" 2>/dev/null; then same "$T/cat-asan" "$DS/$A"; fi
    rm -f "$T/ram/files/$A" "$T/nvme/files/$A"
    stage 0 $A
    if command -v musl-gcc >/dev/null; then same musl-gcc -O1 "$T/cat.c" -o "$T/cat-musl"; same "$T/cat-musl" "$DS/$A"; fi
    [ -L "$T/ram/files/$A" ] || ! command -v musl-gcc >/dev/null
}

@test "a set-user-ID program is left alone" {
    [ "$(id -u)" = 0 ] || skip "needs root"
    stage 0 $A
    chmod 755 "$T" "$T/cwd"
    cp "$(command -v cat)" suid-cat
    chown nobody suid-cat
    chmod 4755 suid-cat
    job ./suid-cat "$DS/train/n01/4.txt" >/dev/null
    job ./suid-cat "$DS/$A" >/dev/null || true
    [ "$(opens)" = "0 0" ]
}

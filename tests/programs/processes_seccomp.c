/* A program with a seccomp filter of its own.
 *
 *   processes_seccomp list                          the system calls that libmonarch.so may make
 *   processes_seccomp refuse DS REF CALL ERRNO WHEN one of them fails; then reads, and four files are written
 *   processes_seccomp waits DS REF CALL             one of them fails, and the first open has to wait
 *   processes_seccomp kill DS REF prctl|syscall     after a first read, only what the program itself calls is
 *                                                   allowed: it reads on
 *   processes_seccomp kill-write DS REF HOW         and it writes
 *
 * WHEN is `first` (before the library has seen anything) or `later` (after a first read and a first change).
 * The files written are DS/CALL-ERRNO-WHEN/absolute, relative, link (its folder by another name, ../link next
 * to DS) and folder (by a descriptor). What became of each step is printed, so that a run with and one without
 * the library can be compared. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/programs/processes/check.h"

static const struct {
    const char* name;
    int number;
} calls[] = {
#define CALL(name) {#name, SYS_##name},
    CALL(readlinkat) CALL(getcwd) CALL(fstat) CALL(newfstatat) CALL(fgetxattr) CALL(mmap) CALL(munmap)
        CALL(madvise) CALL(futex) CALL(fcntl) CALL(symlinkat) CALL(renameat) CALL(unlinkat) CALL(mkdirat)
            CALL(getpid) CALL(gettid) CALL(getuid) CALL(geteuid) CALL(getgid) CALL(getegid)
                CALL(clock_gettime) CALL(getrandom) CALL(statx) CALL(setxattr) CALL(flistxattr)
#undef CALL
};
enum { CALLS = sizeof calls / sizeof *calls };

static int number_of(const char* name) {
    for (int i = 0; i < CALLS; i++)
        if (strcmp(calls[i].name, name) == 0) return calls[i].number;
    CHECK(!"a known system call");
    return -1;
}

static void install(struct sock_filter* filter, size_t length, int by_syscall) {
    struct sock_fprog program = {(unsigned short)length, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_syscall)
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static void refuse(int number, int error) {
    struct sock_filter filter[] = {
        LOAD_NUMBER,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | (unsigned)error),
        RETURN(SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter, 0);
}

static void allow_little(int by_syscall) {
    static const int allowed[] = {
#ifdef SYS_open
        SYS_open,
#endif
        SYS_openat, SYS_read, SYS_write, SYS_fstat,      SYS_newfstatat,   SYS_close,
        SYS_lseek,  SYS_mmap, SYS_brk,   SYS_exit_group, SYS_rt_sigreturn,
    };
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[N + 3] = {LOAD_NUMBER};
    for (unsigned i = 0; i < N; i++)
        filter[1 + i] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], N - i, 0);
    filter[N + 1] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
    filter[N + 2] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    install(filter, N + 3, by_syscall);
}

static void tell(const char* what, int ok) {
    char line[80];
    const int n = snprintf(line, sizeof line, "%s: %s\n", what, ok ? "well" : "failed");
    CHECK(write(1, line, (size_t)n) == n);
}

static int right_stream(FILE* f) {
    char bytes[sizeof expected];
    if (f == NULL) return 0;
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    return fclose(f) == 0 && n == (size_t)expected_bytes && memcmp(bytes, expected, n) == 0;
}

/* With `little`, only what allow_little() allows. */
static void read_all(const char* ds, int little) {
    struct stat by_name, by_fd;
    for (int i = 0; i < 3; i++) {
        const char* path = in(ds, (const char*[]){"a", "b", "c"}[i]);
        tell("open", right(path));
        tell("fopen", right_stream(fopen(path, "r")));
        if (!little) tell("freopen", right_stream(freopen(path, "r", stdin)));
        const int fd = open(path, O_RDONLY);
        const int both = stat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0;
        tell("stat", both && by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev);
        close(fd);
    }
}

int main(int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int i = 0; i < CALLS; i++) puts(calls[i].name);
        return 0;
    }
    if (argc < 5) return 2;
    const char *mode = argv[1], *ds = argv[2], *what = argv[4];
    watchdog();
    expect(argv[3]);
    if (strcmp(mode, "kill") == 0 || strcmp(mode, "kill-write") == 0) {
        CHECK(right(in(ds, "a")));
        const char* written = in(ds, "written");
        allow_little(strcmp(what, "syscall") == 0);
        read_all(ds, 1);
        if (strcmp(mode, "kill-write") == 0) CHECK(rewrite(written, "new\n") && says(written, "new\n"));
        return 0;
    }
    if (strcmp(mode, "waits") == 0) {
        refuse(number_of(what), EPERM);
        read_all(ds, 0);
        return 0;
    }
    if (argc != 7) return 2;
    char name[200], folder[4300], link[4400];
    snprintf(name, sizeof name, "%s-%s-%s", what, argv[5], argv[6]);
    snprintf(folder, sizeof folder, "%s/%s", ds, name);
    snprintf(link, sizeof link, "%s/../link/%s/link", ds, name);
    CHECK(chdir(folder) == 0);
    const int dirfd = (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    CHECK(dirfd >= 0);
    if (strcmp(argv[6], "later") == 0) CHECK(right(in(ds, "a")) && chmod("changed", 0640) == 0);
    refuse(number_of(what), atoi(argv[5]));
    read_all(ds, 0);
    tell("absolute", rewrite(in(folder, "absolute"), "new\n") && says(in(folder, "absolute"), "new\n"));
    tell("relative", rewrite("relative", "new\n") && says("relative", "new\n"));
    tell("link", rewrite(link, "new\n") && says(link, "new\n"));
    tell("folder", write_fd(openat(dirfd, "folder", O_WRONLY | O_TRUNC), "new\n") &&
                       says_fd(openat(dirfd, "folder", O_RDONLY), "new\n", 4));
    read_all(ds, 0);
    return 0;
}

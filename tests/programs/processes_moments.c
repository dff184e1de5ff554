/* Reading and writing at moments and in places where a process is not quite whole.
 *
 *   processes_moments handler DS REF       a signal handler on a small stack opens, reads and writes while opens
 *                                          and changes are interrupted
 *   processes_moments handler-first DS REF the process's first open is in such a handler
 *   processes_moments stack DS REF         a thread with little more than PTHREAD_STACK_MIN
 *   processes_moments leaderless DS REF    the main thread has ended
 *   processes_moments own-files DS REF     a thread with descriptors of its own (unshare)
 *   processes_moments chroot DS REF JAIL early|late     a root in which DS is a folder that says "other": from
 *                                          before the first open, or after it
 *   processes_moments jail-write DS REF JAIL            a root in which DS is DS, without /proc: writes
 *   processes_moments bind DS REF OTHER early|late      OTHER is mounted over DS
 *   processes_moments drop DS REF UID      root until after the first open; then reads, and writes
 *   processes_moments outlive DS REF       prints "ready", waits for the end of standard input, goes on
 *   processes_moments dlopen DS REF LIB    loads the library late, calls it, unloads it, a few times
 *
 * DS/a and DS/b are staged, DS/c is not. DS/written, written-2 … are staged, say what REF says, and say "new"
 * afterwards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/programs/processes/check.h"

static const char* ds;

static void open_all(void) {
    CHECK(right(in(ds, "a")) && right(in(ds, "b")) && right(in(ds, "c")));
}
static void write_all(void) {
    static const char* const names[] = {"written", "written-2", "written-3"};
    for (int i = 0; i < 3; i++) CHECK(rewrite(in(ds, names[i]), "new\n") && says(in(ds, names[i]), "new\n"));
}

/* Memory for a stack, with pages before it that end a program which uses more. */
static char* make_stack(size_t bytes) {
    const size_t guard = 1 << 20; /* a stack grows down to where its memory begins */
    char* at = mmap(NULL, guard + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at + guard, bytes, PROT_READ | PROT_WRITE) == 0);
    return at + guard;
}

/* ---- signal handlers ---- */

static char a[4200], c[4200], written[4200], to_handler[4200];
static volatile sig_atomic_t handled;

static void open_in_handler(int signal) {
    const int before = errno;
    (void)signal;
    CHECK(right(handled % 2 == 0 ? a : c) && right("b"));
    int fd = open(to_handler, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "new\n", 4, 0) == 4 && close(fd) == 0);
    CHECK(chmod(to_handler, handled % 2 == 0 ? 0600 : 0640) == 0);
    handled++;
    errno = before;
}

static void handle(void) {
    const size_t bytes = (size_t)MINSIGSTKSZ + 16384;
    stack_t stack = {.ss_sp = make_stack(bytes), .ss_size = bytes};
    struct sigaction action = {.sa_handler = open_in_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    strcpy(a, in(ds, "a")), strcpy(c, in(ds, "c"));
    strcpy(written, in(ds, "written")), strcpy(to_handler, in(ds, "written-2"));
    CHECK(chdir(ds) == 0);
}

enum { INTERRUPTIONS = 500 };

/* Signals at moments that have nothing to do with what the other thread does. */
static void* interrupt(void* thread) {
    for (sig_atomic_t sent = handled; sent < INTERRUPTIONS; sent++) {
        usleep(100);
        CHECK(pthread_kill((pthread_t)thread, SIGUSR1) == 0);
        while (handled <= sent) sched_yield();
    }
    return NULL;
}

static void interrupted(void) {
    pthread_t thread;
    handled = 0;
    CHECK(pthread_create(&thread, NULL, interrupt, (void*)pthread_self()) == 0);
    for (int i = 0; handled < INTERRUPTIONS; i++) {
        if (i % 64 == 0) watchdog();
        open_all();
        CHECK(right("a") && right("./b"));
        if (i % 4 == 0) CHECK(rewrite(written, "new\n"));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(truncate(to_handler, 4) == 0);
    CHECK(says(written, "new\n") && says(to_handler, "new\n"));
    CHECK(rewrite(in(ds, "written-3"), "new\n"));
}

/* ---- threads ---- */

static void* work_on_small_stack(void* unused) {
    char link[64], name[] = "temporary-XXXXXX";
    struct stat st;
    (void)unused;
    open_all();
    CHECK(chdir(ds) == 0 && right("a") && right("./b"));
    write_all();
    int fd = open("a", O_RDONLY), folder = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && right_fd(openat(folder, "b", O_RDONLY)));
    sprintf(link, "/proc/self/fd/%d", fd);
    CHECK(chmod(link, 0640) == 0 && fchmod(fd, 0600) == 0);
    int temporary = mkstemp(name);
    CHECK(write_fd(temporary, "new\n") && rename(name, "written") == 0 && says("written", "new\n"));
    FILE* f = fopen("b", "r");
    CHECK(f != NULL && (f = freopen("c", "r", f)) != NULL && fgetc(f) == expected[0] && fclose(f) == 0);
    return NULL;
}

static void run_on_small_stack(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = ((size_t)PTHREAD_STACK_MIN + 16384 + page - 1) / page * page;
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, make_stack(bytes), bytes) == 0);
    CHECK(pthread_create(&thread, &attributes, work_on_small_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static pthread_t leader;

static void* work_without_leader(void* folder_fd) {
    const int folder = (int)(size_t)folder_fd;
    CHECK(pthread_join(leader, NULL) == 0);
    open_all();
    CHECK(chdir(ds) == 0 && right("a"));
    CHECK(right_fd(openat(folder, "b", O_RDONLY)));
    CHECK(write_fd(openat(folder, "written", O_WRONLY | O_TRUNC), "new\n") && says("written", "new\n"));
    CHECK(rewrite("written-2", "new\n") && says("written-2", "new\n"));
    CHECK(rewrite(in(ds, "written-3"), "new\n") && says(in(ds, "written-3"), "new\n"));
    open_all();
    exit(0);
}

/* A folder beside the data set's own, under the number that a folder of the data set has in other threads. */
static void* work_with_own_files(void* folder_fd) {
    const int folder = (int)(size_t)folder_fd;
    CHECK(unshare(CLONE_FILES) == 0);
    int other = open(in(ds, "../other"), O_RDONLY | O_DIRECTORY);
    CHECK(other >= 0 && dup2(other, folder) == folder);
    CHECK(says_fd(openat(folder, "a", O_RDONLY), "other\n", 6));
    int ours = open(ds, O_RDONLY | O_DIRECTORY);
    CHECK(ours >= 0 && dup2(ours, other) == other);
    CHECK(right_fd(openat(other, "a", O_RDONLY)));
    CHECK(write_fd(openat(other, "written", O_WRONLY | O_TRUNC), "new\n"));
    CHECK(says(in(ds, "written"), "new\n"));
    CHECK(rewrite(in(ds, "written-2"), "new\n") && rewrite(in(ds, "written-3"), "new\n"));
    return NULL;
}

static pthread_t start_with_folder(void* (*work)(void*)) {
    pthread_t thread;
    open_all();
    const int folder = open(ds, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0 && pthread_create(&thread, NULL, work, (void*)(size_t)folder) == 0);
    return thread;
}

/* ---- another tree under the data set's name ---- */

static void expect_other(void) {
    for (int i = 0; i < 2; i++) {
        CHECK(says(in(ds, "a"), "other\n") && says(in(ds, "b"), "other\n") && says(in(ds, "c"), "other\n"));
        CHECK(chdir(ds) == 0 && says("a", "other\n"));
    }
    FILE* f = fopen(in(ds, "a"), "r");
    CHECK(f != NULL && fgetc(f) == 'o' && fclose(f) == 0);
}

/* In the other root, the data set is what it is, but a descriptor's name cannot be asked for. */
static void write_in_jail(const char* jail) {
    CHECK(chroot(jail) == 0 && chdir("/") == 0);
    CHECK(access("/proc/self", F_OK) != 0);
    open_all();
    int folder = open(ds, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0 && write_fd(openat(folder, "written", O_WRONLY | O_TRUNC), "new\n"));
    CHECK(says_fd(openat(folder, "written", O_RDONLY), "new\n", 4));
    CHECK(chdir(ds) == 0 && rewrite("written-2", "new\n"));
    CHECK(rewrite(in(ds, "written-3"), "new\n"));
    CHECK(says(in(ds, "written"), "new\n") && says("written-2", "new\n") && says("written-3", "new\n"));
}

/* ---- the rest ---- */

static void outlive(void) {
    open_all();
    const int held = open(in(ds, "a"), O_RDONLY);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) continue;
    CHECK(right_fd(held));
    open_all();
    write_all();
    open_all();
}

static void load_late(const char* lib) {
    for (int i = 0; i < 20; i++) {
        open_all();
        void* handle = dlopen(lib, RTLD_NOW | (i % 2 == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
        if (handle == NULL) dprintf(2, "%s\n", dlerror());
        CHECK(handle != NULL);
        open_all();
        int (*its_open)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(handle, "open");
        CHECK(its_open != NULL && its_open != open);
        CHECK(right_fd(its_open(in(ds, "a"), O_RDONLY)) && right_fd(its_open(in(ds, "c"), O_RDONLY)));
        CHECK(dlclose(handle) == 0);
        open_all();
    }
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const char *mode = argv[1], *more = argc > 4 ? argv[4] : "";
    const int late = argc > 5 && strcmp(argv[5], "late") == 0;
    ds = argv[2];
    watchdog();
    expect(argv[3]);
    if (strcmp(mode, "handler") == 0) {
        handle();
        interrupted();
    } else if (strcmp(mode, "handler-first") == 0) {
        handle();
        CHECK(raise(SIGUSR1) == 0 && handled == 1);
        interrupted();
    } else if (strcmp(mode, "stack") == 0) {
        run_on_small_stack();
    } else if (strcmp(mode, "leaderless") == 0) {
        leader = pthread_self();
        start_with_folder(work_without_leader);
        pthread_exit(NULL);
    } else if (strcmp(mode, "own-files") == 0) {
        CHECK(pthread_join(start_with_folder(work_with_own_files), NULL) == 0);
        open_all();
    } else if (strcmp(mode, "chroot") == 0) {
        if (late) open_all();
        CHECK(chroot(more) == 0 && chdir("/") == 0);
        expect_other();
    } else if (strcmp(mode, "jail-write") == 0) {
        write_in_jail(more);
    } else if (strcmp(mode, "bind") == 0) {
        if (late) open_all();
        CHECK(unshare(CLONE_NEWNS) == 0 && mount(more, ds, NULL, MS_BIND, NULL) == 0);
        expect_other();
    } else if (strcmp(mode, "drop") == 0) {
        const unsigned user = (unsigned)atoi(more);
        open_all();
        CHECK(setgid(user) == 0 && setuid(user) == 0);
        open_all();
        write_all();
        open_all();
    } else if (strcmp(mode, "outlive") == 0) {
        outlive();
    } else if (strcmp(mode, "dlopen") == 0) {
        load_late(more);
    } else {
        return 2;
    }
    return 0;
}

/* Children of every kind, while threads of the parent open data-set files in a loop.
 *
 *   processes_children fork|vfork|spawn DS REF N    N children, each opens a file and ends at once
 *   processes_children first-fork|first-vfork DS REF N
 *                                                   the parent opens nothing before its children have
 *   processes_children first-threads DS REF N       N processes: first opens of threads during a fork
 *   processes_children atfork DS REF N              handlers of pthread_atfork that open
 *   processes_children exec DS REF SESSION          exec with environments that lack this and that
 *   processes_children one DS REF                   opens the files once
 *   processes_children heap DS REF                  opens and writes between fork and exec (processes/heap.c)
 *
 * DS/a and DS/b are staged, DS/c is not; `heap` writes DS/written. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>

#include "tests/programs/processes/check.h"

enum { OPENERS = 2, BATCH = 32 };

extern char** environ;
static const char *mode, *ds, *ref;
static char path[3][4200];
static int over;

/* With a pause after each open, so that the children get a processor, too. */
static void* opener(void* start) {
    for (size_t i = (size_t)start; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        CHECK(right(path[i % 3]));
        usleep(50);
    }
    return NULL;
}

static void start_openers(pthread_t* thread) {
    for (size_t i = 0; i < OPENERS; i++) CHECK(pthread_create(&thread[i], NULL, opener, (void*)i) == 0);
}
static void join_openers(pthread_t* thread) {
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < OPENERS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

/* Many at a time, so that none waits for another's turn. */
static void fork_many(int i, int n) {
    pid_t pid[BATCH];
    for (int k = 0; k < n; k++) {
        pid[k] = fork();
        CHECK(pid[k] >= 0);
        if (pid[k] == 0) {
            watchdog();
            _exit(right(path[(i + k) % 3]) ? 0 : 3);
        }
    }
    for (int k = 0; k < n; k++) child_is_well(pid[k]);
}

static void vfork_one(int i) {
    pid_t pid = vfork();
    CHECK(pid >= 0);
    if (pid == 0) {
        watchdog();
        _exit(right(path[i % 3]) ? 0 : 3);
    }
    child_is_well(pid);
}
static void vfork_many(int i, int n) {
    for (int k = 0; k < n; k++) vfork_one(i + k);
}

/* The child has one more file open, as descriptor 9. */
static void spawn_many(int i, int n) {
    char* argv[] = {"child", "one", (char*)(size_t)ds, (char*)(size_t)ref, "9", NULL};
    pid_t pid[BATCH];
    for (int k = 0; k < n; k++) {
        posix_spawn_file_actions_t actions;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_addopen(&actions, 9, path[(i + k) % 3], O_RDONLY, 0) == 0);
        CHECK(posix_spawn(&pid[k], "/proc/self/exe", &actions, NULL, argv, environ) == 0);
        CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
    }
    for (int k = 0; k < n; k++) child_is_well(pid[k]);
}

static void many(int n, void (*some)(int, int)) {
    for (int i = 0; i < n; i += BATCH) {
        watchdog();
        some(i, n - i < BATCH ? n - i : BATCH);
    }
}

static void among_openers(int n, void (*some)(int, int)) {
    pthread_t thread[OPENERS];
    start_openers(thread);
    many(n, some);
    join_openers(thread);
}

/* In children that have opened nothing: threads do it for the first time while their process forks. */
static void first_threads(int i, int n) {
    pid_t pid[BATCH];
    for (int k = 0; k < n; k++) {
        pid[k] = fork();
        CHECK(pid[k] >= 0);
        if (pid[k] == 0) {
            watchdog();
            among_openers(3, (i + k) % 2 == 0 ? fork_many : vfork_many);
            _exit(0);
        }
    }
    for (int k = 0; k < n; k++) child_is_well(pid[k]);
}

static void open_all(void) {
    for (int i = 0; i < 3; i++) CHECK(right(path[i]));
}

static void exec_one(char** env) {
    char* argv[] = {"child", "one", (char*)(size_t)ds, (char*)(size_t)ref, NULL};
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        open_all();
        execve("/proc/self/exe", argv, env);
        _exit(4);
    }
    child_is_well(pid);
}

static void exec_scrubbed(const char* session) {
    char none[4200], *preload = "UNUSED=", *own = "UNUSED=";
    for (char** e = environ; *e != NULL; e++) {
        if (strncmp(*e, "LD_PRELOAD=", 11) == 0) preload = *e;
        if (strncmp(*e, "MONARCH_SESSION=", 16) == 0) own = *e;
    }
    sprintf(none, "MONARCH_SESSION=%s", session);
    open_all();
    exec_one((char*[]){NULL});
    exec_one((char*[]){preload, NULL});
    exec_one((char*[]){own, NULL});
    exec_one((char*[]){preload, "MONARCH_SESSION=", NULL});
    exec_one((char*[]){preload, none, NULL});
    exec_one((char*[]){none, preload, NULL});
}

/* What a program may do between fork and exec is what a signal handler may do. */
static void open_and_write_before_exec(void) {
    const char *written = in(ds, "written"), *fresh = in(ds, "fresh"), *moved = in(ds, "moved");
    char* argv[] = {"child", "one", (char*)(size_t)ds, (char*)(size_t)ref, NULL};
    struct stat st;
    struct statx stx;
    open_all();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        open_all();
        int fd = open(path[0], O_RDONLY);
        CHECK(fstat(fd, &st) == 0 && statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) == 0);
        CHECK(dup2(fd, 9) == 9);
        CHECK(rewrite(written, "new\n") && says(written, "new\n"));
        CHECK(chmod(written, 0640) == 0);
        CHECK(write_fd(open(fresh, O_WRONLY | O_CREAT | O_EXCL, 0600), "new\n"));
        CHECK(rename(fresh, moved) == 0 && unlink(moved) == 0);
        execve("/proc/self/exe", argv, environ);
        _exit(4);
    }
    child_is_well(pid);
}

static int before, after_in_parent, after_in_child;
static void prepare(void) {
    open_all();
    before++;
}
static void parent(void) {
    open_all();
    after_in_parent++;
}
static void child(void) {
    open_all();
    after_in_child++;
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    mode = argv[1], ds = argv[2], ref = argv[3];
    const char* last = argc > 4 ? argv[4] : "0";
    const int n = atoi(last);
    watchdog();
    expect(ref);
    for (int i = 0; i < 3; i++) sprintf(path[i], "%s/%c", ds, "abc"[i]);
    if (strcmp(mode, "fork") == 0) {
        among_openers(n, fork_many);
    } else if (strcmp(mode, "vfork") == 0) {
        among_openers(n, vfork_many);
    } else if (strcmp(mode, "spawn") == 0) {
        among_openers(n, spawn_many);
    } else if (strcmp(mode, "first-fork") == 0) {
        many(n, fork_many);
        open_all();
    } else if (strcmp(mode, "first-vfork") == 0) {
        many(n, vfork_many);
        open_all();
    } else if (strcmp(mode, "first-threads") == 0) {
        many(n, first_threads);
        open_all();
    } else if (strcmp(mode, "atfork") == 0) {
        CHECK(pthread_atfork(prepare, parent, child) == 0);
        among_openers(n, fork_many);
        CHECK(before == n && after_in_parent == n && after_in_child == 0);
    } else if (strcmp(mode, "exec") == 0) {
        exec_scrubbed(last);
    } else if (strcmp(mode, "heap") == 0) {
        open_and_write_before_exec();
    } else if (strcmp(mode, "one") == 0) {
        open_all();
        if (n > 0) CHECK(right_fd(n));
    } else {
        return 2;
    }
    return 0;
}

/* What the programs processes_*.c share. Each takes a mode, a data set's folder and a file REF outside of it
 * that holds the bytes of the data set's files a, b and c. They end with 0 when all is well. Nothing here
 * allocates memory, so that it can be used after fork, in a vfork child and in a signal handler. */
#ifndef MONARCH_TESTS_PROCESSES_CHECK_H
#define MONARCH_TESTS_PROCESSES_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                        \
    do {                                                                                   \
        if (!(what)) {                                                                     \
            dprintf(2, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);        \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

/* A hang is a failure: the alarm ends the process. Called again wherever the program gets on. */
static inline void watchdog(void) {
    alarm(20);
}

static char expected[16384];
static ssize_t expected_bytes;

/* Reads REF by a direct system call: the library has not seen an open afterwards. */
static inline void expect(const char* ref) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, ref, O_RDONLY);
    CHECK(fd >= 0);
    expected_bytes = read(fd, expected, sizeof expected);
    CHECK(expected_bytes > 0 && close(fd) == 0);
}

/* Does the descriptor say this, and no more? It is closed. */
static inline int says_fd(int fd, const char* bytes, ssize_t length) {
    char buffer[512];
    ssize_t at = 0, n;
    if (fd < 0) return 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        if (at + n > length || memcmp(buffer, bytes + at, (size_t)n) != 0) break;
        at += n;
    }
    close(fd);
    return n == 0 && at == length;
}
static inline int right_fd(int fd) {
    return says_fd(fd, expected, expected_bytes);
}
static inline int right(const char* path) {
    return right_fd(open(path, O_RDONLY));
}
static inline int says(const char* path, const char* text) {
    return says_fd(open(path, O_RDONLY), text, (ssize_t)strlen(text));
}

static inline int write_fd(int fd, const char* text) {
    const ssize_t length = (ssize_t)strlen(text);
    if (fd < 0) return 0;
    int ok = write(fd, text, (size_t)length) == length;
    return close(fd) == 0 && ok;
}
/* Replaces the file's bytes. */
static inline int rewrite(const char* path, const char* text) {
    return write_fd(open(path, O_WRONLY | O_TRUNC), text);
}

/* FOLDER/NAME, in a buffer that is used again after 16 calls. */
static inline const char* in(const char* folder, const char* name) {
    static char ring[16][4200];
    static unsigned next;
    char* to = ring[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 16];
    strcat(strcat(strcpy(to, folder), "/"), name);
    return to;
}

/* The child must have ended with 0. */
static inline void child_is_well(pid_t pid) {
    int status = -1;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == pid);
    if (status != 0) dprintf(2, "the child's status is %#x\n", (unsigned)status);
    CHECK(status == 0);
}

#endif

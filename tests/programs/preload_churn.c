/* Rewrites, replaces and removes the files of a data set in a loop while other threads read them, and ends
 * with an error when a reader sees bytes from before a change that was finished when it opened the file.
 *
 *   preload_churn ROOT FILES ROUNDS
 *
 * A file's bytes are its version, 64 times over; the version before the first change is 1, so that an old
 * version and zeros are told apart. Run it with a stager (`mksession publish`) at work. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 64, READERS = 2 };

static const char* root;
static unsigned files, rounds;
static unsigned long* finished; /* per file: the version of the last change that has returned */
static unsigned done;
static unsigned long reads, stale, torn, zeros;

static void name_of(unsigned i, char* to) {
    sprintf(to, "%s/%02u/%u", root, i % 10, i);
}

static void write_version(const char* path, int flags, unsigned long version) {
    unsigned long words[WORDS];
    for (int i = 0; i < WORDS; i++) words[i] = version;
    int fd = open(path, flags, 0600);
    if (fd < 0 || write(fd, words, sizeof words) != sizeof words || close(fd) != 0) {
        perror(path);
        exit(1);
    }
}

/* One read; with exact, the version must be that one. */
static void check(unsigned i, int exact) {
    char path[4200];
    unsigned long words[WORDS];
    name_of(i, path);
    const unsigned long before = __atomic_load_n(&finished[i], __ATOMIC_SEQ_CST);
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        if (errno != ENOENT || exact) {
            fprintf(stderr, "preload_churn: %s: %s\n", path, strerror(errno));
            exit(1);
        }
        return;
    }
    ssize_t n = read(fd, words, sizeof words);
    close(fd);
    __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
    if (n == 0 && !exact) return; /* just truncated */
    if (n != sizeof words) {
        __atomic_fetch_add(&torn, 1, __ATOMIC_RELAXED);
        return;
    }
    if (words[0] ==
        0) { /* no version: a page not filled yet, as FUSE gives now and then, without Monarch too */
        __atomic_fetch_add(&zeros, 1, __ATOMIC_RELAXED);
        fprintf(stderr, "preload_churn: %s: zeros read\n", path);
        return;
    }
    if (words[0] < before || (exact && words[0] != before)) {
        __atomic_fetch_add(&stale, 1, __ATOMIC_RELAXED);
        fprintf(stderr, "preload_churn: %s: version %lu read after %lu was written\n", path, words[0],
                before);
    }
}

static void* reader(void* seed) {
    unsigned state = (unsigned)(size_t)seed;
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) check((unsigned)rand_r(&state) % files, 0);
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    root = argv[1];
    files = (unsigned)atoi(argv[2]);
    rounds = (unsigned)atoi(argv[3]);
    finished = calloc(files, sizeof *finished);
    for (unsigned i = 0; i < files; i++) finished[i] = 1;
    pthread_t thread[READERS];
    for (int i = 0; i < READERS; i++) pthread_create(&thread[i], NULL, reader, (void*)(size_t)(i + 1));
    char path[4200], fresh[4300];
    for (unsigned round = 2; round <= rounds + 1; round++) {
        for (unsigned i = 0; i < files; i++) {
            const unsigned long version = round;
            name_of(i, path);
            check(i, 1);
            switch ((i + round) % 4) {
                case 0:
                    write_version(path, O_WRONLY | O_TRUNC, version);
                    break;
                case 1:
                    write_version(path, O_WRONLY, version);
                    break;
                case 2:
                    sprintf(fresh, "%s.fresh", path);
                    write_version(fresh, O_WRONLY | O_CREAT | O_EXCL, version);
                    if (rename(fresh, path) != 0) perror(path), exit(1);
                    break;
                default:
                    if (unlink(path) != 0) perror(path), exit(1);
                    if (open(path, O_RDONLY) >= 0) {
                        fprintf(stderr, "preload_churn: %s: opened after its removal\n", path);
                        stale++;
                    }
                    write_version(path, O_WRONLY | O_CREAT, version);
            }
            __atomic_store_n(&finished[i], version, __ATOMIC_SEQ_CST);
            check(i, 1);
        }
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) pthread_join(thread[i], NULL);
    printf("%lu reads, %lu zeros, %lu stale, %lu torn\n", reads, zeros, stale, torn);
    return stale != 0 || torn != 0;
}

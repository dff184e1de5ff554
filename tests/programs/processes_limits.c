/* A process that closes what is not its own, or has nothing left of what an open needs.
 *
 *   processes_limits loop|close_range|closefrom|dup2 DS REF   every descriptor is closed, or made another one
 *   processes_limits nofile DS REF       out of descriptors, from before the first open
 *   processes_limits nofile-write DS REF out of descriptors: changes that need none, the first thing it does
 *   processes_limits as|data DS REF      RLIMIT_AS or RLIMIT_DATA so small that mmap fails: it reads, then writes
 *   processes_limits fsize DS REF        RLIMIT_FSIZE 0
 *
 * DS/a and DS/b are staged, DS/c is not; what is written is DS/written, DS/written-2 and so on, all staged. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/programs/processes/check.h"

static const char* ds;

static void limit(int what, rlim_t soft) {
    struct rlimit l;
    CHECK(getrlimit(what, &l) == 0);
    l.rlim_cur = soft;
    CHECK(setrlimit(what, &l) == 0);
}

static void open_all(void) {
    CHECK(right(in(ds, "a")) && right(in(ds, "b")) && right(in(ds, "c")));
    FILE* f = fopen(in(ds, "a"), "r");
    CHECK(f != NULL && fgetc(f) == expected[0] && fclose(f) == 0);
}

static void close_all(const char* how) {
    open_all();
    int fd = open(in(ds, "a"), O_RDONLY), null = open("/dev/null", O_RDWR);
    CHECK(fd >= 0 && null >= 0);
    if (strcmp(how, "loop") == 0) {
        for (int i = 0; i < 1024; i++) close(i);
    } else if (strcmp(how, "close_range") == 0) {
        CHECK(close_range(0, ~0u, 0) == 0);
    } else if (strcmp(how, "closefrom") == 0) {
        closefrom(0);
    } else {
        limit(RLIMIT_NOFILE, 1024);
        for (int i = 0; i < 1024; i++) CHECK(i == null || dup2(null, i) == i);
        CHECK(open(in(ds, "a"), O_RDONLY) < 0 && errno == EMFILE);
        for (int i = 0; i < 10; i++) close(i);
    }
    for (int i = 0; i < 5; i++) open_all();
    CHECK(rewrite(in(ds, "written"), "new\n") && says(in(ds, "written"), "new\n"));
    open_all();
}

/* Uses every descriptor, and returns the last one. */
static int use_up(void) {
    int last = -1, fd;
    limit(RLIMIT_NOFILE, 64);
    while ((fd = dup(0)) >= 0) last = fd;
    CHECK(errno == EMFILE && last > 0);
    return last;
}

static void fails(void) {
    errno = 0;
    CHECK(open(in(ds, "a"), O_RDONLY) < 0 && errno == EMFILE);
    errno = 0;
    CHECK(open(in(ds, "c"), O_RDONLY) < 0 && errno == EMFILE);
    errno = 0;
    CHECK(fopen(in(ds, "a"), "r") == NULL && errno == EMFILE);
    errno = 0;
    CHECK(openat(AT_FDCWD, in(ds, "b"), O_RDONLY) < 0 && errno == EMFILE);
    errno = 0;
    CHECK(open(in(ds, "a"), O_RDWR) < 0 && errno == EMFILE);
    errno = 0;
    CHECK(open(in(ds, "missing"), O_RDONLY) < 0 && (errno == EMFILE || errno == ENOENT));
}

static void out_of_descriptors(void) {
    int last = use_up();
    fails();
    close(last); /* one is enough for an open, also for the first one */
    open_all();
    int held = open(in(ds, "a"), O_RDONLY);
    CHECK(held == last);
    fails();
    CHECK(truncate(in(ds, "written"), 0) == 0); /* needs none */
    CHECK(right_fd(held));
    CHECK(says(in(ds, "written"), ""));
    CHECK(rewrite(in(ds, "written"), "new\n") && says(in(ds, "written"), "new\n"));
    open_all();
}

static void change_out_of_descriptors(void) {
    const char *replaced = in(ds, "written-2"), *fresh = in(ds, "fresh");
    int last = use_up();
    CHECK(truncate(in(ds, "written"), 4) == 0);
    CHECK(rename(fresh, replaced) == 0);
    CHECK(unlink(in(ds, "written-3")) == 0);
    close(last);
    CHECK(says(in(ds, "written"), "1000"));
    CHECK(says(replaced, "fresh\n"));
    CHECK(open(in(ds, "written-3"), O_RDONLY) < 0 && errno == ENOENT);
}

/* The process's size, without an open that the library sees. */
static rlim_t address_space(void) {
    char text[64] = "";
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/statm", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Changes and reads again what a file says that has been read before, or not. */
static void out_of_memory(int what) {
    limit(what, what == RLIMIT_AS ? address_space() + 32768 : 4096);
    CHECK(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    for (int i = 0; i < 3; i++) CHECK(right(in(ds, "a")) && right(in(ds, "b")) && right(in(ds, "c")));
    CHECK(rewrite(in(ds, "written"), "new\n") && says(in(ds, "written"), "new\n"));
    CHECK(truncate(in(ds, "written-2"), 4) == 0 && says(in(ds, "written-2"), "1000"));
    limit(what, RLIM_INFINITY);
    open_all();
    CHECK(says(in(ds, "written"), "new\n") && says(in(ds, "written-2"), "1000"));
}

/* SIGXFSZ ends the program. */
static void no_file_size(void) {
    limit(RLIMIT_FSIZE, 0);
    open_all();
    CHECK(chmod(in(ds, "written"), 0640) == 0);
    CHECK(rename(in(ds, "written"), in(ds, "moved")) == 0 && unlink(in(ds, "moved")) == 0);
    int fd = open(in(ds, "written-2"), O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && close(fd) == 0 && says(in(ds, "written-2"), ""));
    CHECK(open(in(ds, "written"), O_RDONLY) < 0 && errno == ENOENT);
    open_all();
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const char* mode = argv[1];
    ds = argv[2];
    watchdog();
    expect(argv[3]);
    if (strcmp(mode, "nofile") == 0)
        out_of_descriptors();
    else if (strcmp(mode, "nofile-write") == 0)
        change_out_of_descriptors();
    else if (strcmp(mode, "as") == 0)
        out_of_memory(RLIMIT_AS);
    else if (strcmp(mode, "data") == 0)
        out_of_memory(RLIMIT_DATA);
    else if (strcmp(mode, "fsize") == 0)
        no_file_size();
    else
        close_all(mode);
    return 0;
}

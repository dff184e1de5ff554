/* A program that reads and changes files in every way that libc offers, for the tests of libmonarch.so.
 *
 *   preload_client read HOW PATH        writes the file's bytes to standard output
 *   preload_client change HOW PATH      changes the file PATH, or its name (PATH.new is the other name)
 *   preload_client identity PATH        is what fstat and its kin say of the open file what stat says of its
 * name? preload_client list read|change     every HOW, one a line
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

extern int __open_2(const char*, int);
extern int __open64_2(const char*, int);
extern int __openat_2(int, const char*, int);
extern int __openat64_2(int, const char*, int);
extern int __fxstat(int, int, struct stat*);
extern int __fxstat64(int, int, struct stat64*);
extern int __fxstatat(int, int, const char*, struct stat*, int);
extern int __fxstatat64(int, int, const char*, struct stat64*, int);
extern int __xmknod(int, const char*, mode_t, dev_t*);
extern int __xmknodat(int, int, const char*, mode_t, dev_t*);
extern char** environ;

#define CHECK(what) ((what) ? (void)0 : fail(#what, __LINE__))
static void fail(const char* what, int line) {
    fprintf(stderr, "preload_client: line %d: %s: %s\n", line, what, strerror(errno));
    exit(1);
}

static char folder[4096], name[4096], other[4200];
static int folder_fd(void) {
    return open(folder, O_RDONLY | O_DIRECTORY);
}

/* ---- reading ---- */

static void show(int fd) {
    char bytes[65536];
    ssize_t n;
    CHECK(fd >= 0);
    while ((n = read(fd, bytes, sizeof bytes)) > 0) CHECK(write(1, bytes, (size_t)n) == n);
    CHECK(n == 0);
}
static void show_stream(FILE* f) {
    int c;
    CHECK(f != NULL);
    while ((c = getc(f)) != EOF) putchar(c);
    fflush(stdout);
}
static void show_wide_stream(FILE* f) {
    wint_t c;
    CHECK(f != NULL);
    while ((c = getwc(f)) != WEOF) CHECK(write(1, &(char){(char)c}, 1) == 1);
}
static void show_mapped(int fd) {
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    char* bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(bytes != MAP_FAILED && write(1, bytes, (size_t)st.st_size) == st.st_size);
}
static void* show_thread(void* path) {
    show(open(path, O_RDONLY));
    return NULL;
}
static const char* in_handler;
static void handler(int number) {
    (void)number;
    show(open(in_handler, O_RDONLY));
}

#define READS(X)                                                                                           \
    X(open, show(open(path, O_RDONLY)))                                                                    \
    X(open64, show(open64(path, O_RDONLY)))                                                                \
    X(open_flags, show(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOATIME | O_NOFOLLOW))) \
    X(open_largefile, show(open(path, O_RDONLY | 0100000)))                                                \
    X(openat_cwd, show(openat(AT_FDCWD, path, O_RDONLY)))                                                  \
    X(openat_absolute, show(openat(-1, path, O_RDONLY)))                                                   \
    X(openat, show(openat(folder_fd(), name, O_RDONLY)))                                                   \
    X(openat64, show(openat64(folder_fd(), name, O_RDONLY)))                                               \
    X(open_2, show(__open_2(path, O_RDONLY)))                                                              \
    X(open64_2, show(__open64_2(path, O_RDONLY)))                                                          \
    X(openat_2, show(__openat_2(folder_fd(), name, O_RDONLY)))                                             \
    X(openat64_2, show(__openat64_2(folder_fd(), name, O_RDONLY)))                                         \
    X(fopen, show_stream(fopen(path, "r")))                                                                \
    X(fopen_mode, show_stream(fopen(path, "rbem")))                                                        \
    X(fopen_ccs, show_wide_stream(fopen(path, "r,ccs=ISO-8859-1")))                                        \
    X(fopen64, show_stream(fopen64(path, "rb")))                                                           \
    X(freopen, show_stream(freopen(path, "r", stdin)))                                                     \
    X(freopen64, show_stream(freopen64(path, "r", stdin)))                                                 \
    X(mmap, show_mapped(open(path, O_RDONLY)))                                                             \
    X(dup, show(dup(open(path, O_RDONLY))))                                                                \
    X(reopen, {                                                                                            \
        char again[64];                                                                                    \
        sprintf(again, "/proc/self/fd/%d", open(path, O_RDONLY));                                          \
        show(open(again, O_RDONLY));                                                                       \
    })                                                                                                     \
    X(chdir, CHECK(chdir(folder) == 0); show(open(name, O_RDONLY)))                                        \
    X(chdir_above, {                                                                                       \
        char up[8300];                                                                                     \
        sprintf(up, "./%s//./%s", basename(strdup(folder)), name);                                         \
        CHECK(chdir(dirname(strdup(folder))) == 0);                                                        \
        show(open(up, O_RDONLY));                                                                          \
    })                                                                                                     \
    X(fork, {                                                                                              \
        int status;                                                                                        \
        pid_t child = fork();                                                                              \
        if (child == 0) {                                                                                  \
            show(open(path, O_RDONLY));                                                                    \
            _exit(0);                                                                                      \
        }                                                                                                  \
        CHECK(waitpid(child, &status, 0) == child && status == 0);                                         \
    })                                                                                                     \
    X(vfork, {                                                                                             \
        int status;                                                                                        \
        pid_t child = vfork();                                                                             \
        if (child == 0) {                                                                                  \
            show(open(path, O_RDONLY));                                                                    \
            _exit(0);                                                                                      \
        }                                                                                                  \
        CHECK(waitpid(child, &status, 0) == child && status == 0);                                         \
    })                                                                                                     \
    X(spawn, {                                                                                             \
        int status;                                                                                        \
        pid_t child;                                                                                       \
        char* arguments[] = {"cat", (char*)path, NULL};                                                    \
        CHECK(posix_spawnp(&child, "cat", NULL, NULL, arguments, environ) == 0);                           \
        CHECK(waitpid(child, &status, 0) == child && status == 0);                                         \
    })                                                                                                     \
    X(thread, {                                                                                            \
        pthread_t thread;                                                                                  \
        pthread_attr_t attributes;                                                                         \
        pthread_attr_init(&attributes);                                                                    \
        pthread_attr_setstacksize(&attributes, 131072);                                                    \
        CHECK(pthread_create(&thread, &attributes, show_thread, (void*)path) == 0);                        \
        pthread_join(thread, NULL);                                                                        \
    })                                                                                                     \
    X(signal, in_handler = path; signal(SIGUSR1, handler); raise(SIGUSR1))                                 \
    X(errno_kept, errno = 4711; int fd = open(path, O_RDONLY); CHECK(errno == 4711);                       \
      FILE* f = fopen(path, "r"); CHECK(f != NULL && errno == 4711); show(fd))

/* ---- changing ---- */

static void put(int fd) {
    CHECK(fd >= 0 && pwrite(fd, "changed", 7, 0) == 7);
}
static void put_stream(FILE* f) {
    CHECK(f != NULL && fputs("changed", f) >= 0 && fflush(f) == 0);
}
static const char* by_fd(int fd) {
    static char text[64];
    CHECK(fd >= 0);
    sprintf(text, "/proc/self/fd/%d", fd);
    return text;
}
#define READ_ONLY open(path, O_RDONLY)
static void new_file(const char* path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    put(fd);
    close(fd);
}
static const struct timespec times_ns[2] = {{1000, 5}, {2000, 7}};
static const struct timeval times_us[2] = {{1000, 5}, {2000, 7}};
static char* template(int suffix) {
    static char text[4300];
    sprintf(text, "%s/XXXXXX%s", folder, suffix ? ".tmp" : "");
    return text;
}
static void spawn_opening(const char* path, int flags) {
    posix_spawn_file_actions_t actions;
    char* arguments[] = {"printf", "changed", NULL};
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, path, flags, 0600) == 0);
    CHECK(posix_spawnp(&child, "printf", &actions, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

#define CHANGES(X)                                                                                        \
    X(open_rdwr, put(open(path, O_RDWR)))                                                                 \
    X(open_wronly, put(open64(path, O_WRONLY)))                                                           \
    X(open_trunc, put(open(path, O_WRONLY | O_TRUNC)))                                                    \
    X(open_rdonly_trunc, CHECK(open(path, O_RDONLY | O_TRUNC) >= 0))                                      \
    X(open_append, CHECK(write(open(path, O_WRONLY | O_APPEND), "x", 1) == 1))                            \
    X(open_creat, put(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)))                                    \
    X(open_excl, CHECK(unlink(path) == 0); put(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)))            \
    X(openat_rdwr, put(openat(folder_fd(), name, O_RDWR)))                                                \
    X(openat64_rdwr, put(openat64(folder_fd(), name, O_RDWR)))                                            \
    X(open_2_rdwr, put(__open_2(path, O_RDWR)))                                                           \
    X(open64_2_rdwr, put(__open64_2(path, O_RDWR)))                                                       \
    X(openat_2_rdwr, put(__openat_2(folder_fd(), name, O_RDWR)))                                          \
    X(openat64_2_rdwr, put(__openat64_2(folder_fd(), name, O_RDWR)))                                      \
    X(open_relative, CHECK(chdir(folder) == 0); put(open(name, O_RDWR)))                                  \
    X(open_dotdot, char up[8300]; CHECK(chdir(folder) == 0);                                              \
      sprintf(up, "../%s/%s", basename(strdup(folder)), name); put(open(up, O_RDWR)))                     \
    X(open_symlink, CHECK(symlink(path, "user-link") == 0); put(open("user-link", O_WRONLY | O_TRUNC)))   \
    X(open_folder_link, CHECK(symlink(folder, "user-folder") == 0); CHECK(chdir("user-folder") == 0);     \
      put(open(name, O_WRONLY | O_TRUNC)))                                                                \
    X(reopen_rdwr, put(open(by_fd(READ_ONLY), O_RDWR)))                                                   \
    X(reopen_trunc, put(open(by_fd(READ_ONLY), O_RDWR | O_TRUNC)))                                        \
    X(reopen_stream, put_stream(fopen(by_fd(READ_ONLY), "r+")))                                           \
    X(reopen_stream_w, put_stream(fopen(by_fd(READ_ONLY), "w")))                                          \
    X(reopen_truncate, CHECK(truncate(by_fd(READ_ONLY), 3) == 0))                                         \
    X(freopen_null, FILE* f = fopen(path, "r"); put_stream(freopen(NULL, "r+", f)))                       \
    X(creat, put(creat(path, 0600)))                                                                      \
    X(creat64, put(creat64(path, 0600)))                                                                  \
    X(fopen_r_plus, put_stream(fopen(path, "r+")))                                                        \
    X(fopen_w, put_stream(fopen64(path, "w")))                                                            \
    X(fopen_a, put_stream(fopen(path, "ab")))                                                             \
    X(freopen_w, put_stream(freopen(path, "w", stdout)))                                                  \
    X(freopen64_a, put_stream(freopen64(path, "a", stdout)))                                              \
    X(truncate, CHECK(truncate(path, 3) == 0))                                                            \
    X(truncate64, CHECK(truncate64(path, 3) == 0))                                                        \
    X(rename_over, new_file("fresh"); CHECK(rename("fresh", path) == 0))                                  \
    X(renameat_over, new_file("fresh"); CHECK(renameat(AT_FDCWD, "fresh", folder_fd(), name) == 0))       \
    X(renameat2_exchange, new_file("fresh");                                                              \
      CHECK(renameat2(AT_FDCWD, "fresh", AT_FDCWD, path, RENAME_EXCHANGE) == 0))                          \
    X(rename_away, CHECK(rename(path, other) == 0))                                                       \
    X(renameat_away, CHECK(renameat(folder_fd(), name, AT_FDCWD, other) == 0))                            \
    X(unlink, CHECK(unlink(path) == 0))                                                                   \
    X(unlinkat, CHECK(unlinkat(folder_fd(), name, 0) == 0))                                               \
    X(remove, CHECK(remove(path) == 0))                                                                   \
    X(link_from, CHECK(link(path, other) == 0); put(open(other, O_RDWR)))                                 \
    X(linkat_from, CHECK(linkat(folder_fd(), name, AT_FDCWD, other, 0) == 0); put(open(other, O_RDWR)))   \
    X(linkat_fd, CHECK(linkat(AT_FDCWD, by_fd(READ_ONLY), AT_FDCWD, other, AT_SYMLINK_FOLLOW) == 0);      \
      put(open(other, O_RDWR)))                                                                           \
    X(linkat_empty, CHECK(linkat(READ_ONLY, "", AT_FDCWD, other, AT_EMPTY_PATH) == 0);                    \
      put(open(other, O_RDWR)))                                                                           \
    X(link_to, new_file("fresh"); CHECK(unlink(path) == 0 && link("fresh", path) == 0))                   \
    X(symlink, CHECK(unlink(path) == 0 && symlink("/etc/passwd", path) == 0))                             \
    X(symlinkat, CHECK(unlink(path) == 0 && symlinkat("/etc/passwd", folder_fd(), name) == 0))            \
    X(mknod, CHECK(unlink(path) == 0 && mknod(path, S_IFREG | 0600, 0) == 0))                             \
    X(mknodat, CHECK(unlink(path) == 0 && mknodat(folder_fd(), name, S_IFREG | 0600, 0) == 0))            \
    X(xmknod, dev_t dev = 0; CHECK(unlink(path) == 0 && __xmknod(0, path, S_IFREG | 0600, &dev) == 0))    \
    X(xmknodat, dev_t dev = 0;                                                                            \
      CHECK(unlink(path) == 0 && __xmknodat(0, AT_FDCWD, path, S_IFREG | 0600, &dev) == 0))               \
    X(mkfifo, CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0))                                        \
    X(mkfifoat, CHECK(unlink(path) == 0 && mkfifoat(folder_fd(), name, 0600) == 0))                       \
    X(mkstemp, char* t = template(0); int fd = mkstemp(t); put(fd); CHECK(rename(t, path) == 0))          \
    X(mkstemp64, char* t = template(0); int fd = mkstemp64(t); put(fd); CHECK(rename(t, path) == 0))      \
    X(mkostemp, char* t = template(0); int fd = mkostemp(t, O_CLOEXEC); put(fd);                          \
      CHECK(rename(t, path) == 0))                                                                        \
    X(mkostemp64, char* t = template(0); int fd = mkostemp64(t, 0); put(fd); CHECK(rename(t, path) == 0)) \
    X(mkstemps, char* t = template(1); int fd = mkstemps(t, 4); put(fd); CHECK(rename(t, path) == 0))     \
    X(mkstemps64, char* t = template(1); int fd = mkstemps64(t, 4); put(fd); CHECK(rename(t, path) == 0)) \
    X(mkostemps, char* t = template(1); int fd = mkostemps(t, 4, O_APPEND); put(fd);                      \
      CHECK(rename(t, path) == 0))                                                                        \
    X(mkostemps64, char* t = template(1); int fd = mkostemps64(t, 4, 0); put(fd);                         \
      CHECK(rename(t, path) == 0))                                                                        \
    X(chmod, CHECK(chmod(path, 0604) == 0))                                                               \
    X(fchmod, CHECK(fchmod(READ_ONLY, 0604) == 0))                                                        \
    X(fchmodat, CHECK(fchmodat(folder_fd(), name, 0604, 0) == 0))                                         \
    X(fchmodat_nofollow, CHECK(fchmodat(folder_fd(), name, 0604, AT_SYMLINK_NOFOLLOW) == 0))              \
    X(lchmod, CHECK(lchmod(path, 0604) == 0))                                                             \
    X(chmod_fd, CHECK(chmod(by_fd(READ_ONLY), 0604) == 0))                                                \
    X(chown, CHECK(chown(path, getuid(), getgid()) == 0))                                                 \
    X(lchown, CHECK(lchown(path, getuid(), getgid()) == 0))                                               \
    X(fchown, CHECK(fchown(READ_ONLY, getuid(), getgid()) == 0))                                          \
    X(fchownat, CHECK(fchownat(folder_fd(), name, getuid(), getgid(), 0) == 0))                           \
    X(fchownat_empty, CHECK(fchownat(READ_ONLY, "", getuid(), getgid(), AT_EMPTY_PATH) == 0))             \
    X(utime, struct utimbuf t = {1000, 2000}; CHECK(utime(path, &t) == 0))                                \
    X(utimes, CHECK(utimes(path, times_us) == 0))                                                         \
    X(lutimes, CHECK(lutimes(path, times_us) == 0))                                                       \
    X(futimes, CHECK(futimes(READ_ONLY, times_us) == 0))                                                  \
    X(futimesat, CHECK(futimesat(folder_fd(), name, times_us) == 0))                                      \
    X(utimensat, CHECK(utimensat(AT_FDCWD, path, times_ns, 0) == 0))                                      \
    X(utimensat_nofollow, CHECK(utimensat(folder_fd(), name, times_ns, AT_SYMLINK_NOFOLLOW) == 0))        \
    X(futimens, CHECK(futimens(READ_ONLY, times_ns) == 0))                                                \
    X(setxattr, CHECK(setxattr(path, "user.x", "y", 1, 0) == 0))                                          \
    X(lsetxattr, CHECK(lsetxattr(path, "user.x", "y", 1, 0) == 0))                                        \
    X(fsetxattr, CHECK(fsetxattr(READ_ONLY, "user.x", "y", 1, 0) == 0))                                   \
    X(removexattr, CHECK(removexattr(path, "user.keep") == 0))                                            \
    X(lremovexattr, CHECK(lremovexattr(path, "user.keep") == 0))                                          \
    X(fremovexattr, CHECK(fremovexattr(READ_ONLY, "user.keep") == 0))                                     \
    X(spawn_wronly, spawn_opening(path, O_WRONLY | O_TRUNC))                                              \
    X(spawn_creat, spawn_opening(path, O_WRONLY | O_CREAT | O_APPEND))                                    \
    X(rename_folder, char moved[4200]; sprintf(moved, "%s.moved", folder);                                \
      CHECK(rename(folder, moved) == 0 && mkdir(folder, 0700) == 0); new_file(path))                      \
    X(rmdir, CHECK(unlink(path) == 0 && rmdir(folder) == 0 && mkdir(folder, 0700) == 0))                  \
    X(unlinkat_dir, CHECK(unlink(path) == 0 && unlinkat(AT_FDCWD, folder, AT_REMOVEDIR) == 0);            \
      CHECK(mkdir(folder, 0700) == 0))                                                                    \
    X(remove_dir, CHECK(remove(path) == 0 && remove(folder) == 0 && mkdir(folder, 0700) == 0))

#define FUNCTION(how, ...)                     \
    static void read_##how(const char* path) { \
        (void)path;                            \
        __VA_ARGS__;                           \
    }
READS(FUNCTION)
#undef FUNCTION
#define FUNCTION(how, ...)                       \
    static void change_##how(const char* path) { \
        (void)path;                              \
        __VA_ARGS__;                             \
    }
CHANGES(FUNCTION)
#undef FUNCTION

static const struct {
    const char* verb;
    const char* how;
    void (*run)(const char*);
} table[] = {
#define ROW(how, ...) {"read", #how, read_##how},
    READS(ROW)
#undef ROW
#define ROW(how, ...) {"change", #how, change_##how},
        CHANGES(ROW)
#undef ROW
};

/* ---- identity ---- */

static void identity(const char* path) {
    struct stat by_name, st;
    struct stat64 st64;
    struct statx stx;
    CHECK(stat(path, &by_name) == 0);
    int fd = open(path, O_RDONLY);
#define SAME(s)                                                                            \
    CHECK((s).st_dev == by_name.st_dev && (s).st_ino == by_name.st_ino);                   \
    CHECK((s).st_mode == by_name.st_mode && (s).st_uid == by_name.st_uid);                 \
    CHECK((s).st_gid == by_name.st_gid && (s).st_nlink == by_name.st_nlink);               \
    CHECK((s).st_size == by_name.st_size && (s).st_mtim.tv_sec == by_name.st_mtim.tv_sec); \
    CHECK((s).st_mtim.tv_nsec == by_name.st_mtim.tv_nsec);                                 \
    memset(&(s), 0, sizeof(s))
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    SAME(st);
    CHECK(fstat64(fd, &st64) == 0);
    SAME(st64);
    CHECK(fstatat(fd, "", &st, AT_EMPTY_PATH) == 0);
    SAME(st);
    CHECK(fstatat64(fd, "", &st64, AT_EMPTY_PATH) == 0);
    SAME(st64);
    CHECK(__fxstat(1, fd, &st) == 0);
    SAME(st);
    CHECK(__fxstat64(1, fd, &st64) == 0);
    SAME(st64);
    CHECK(__fxstatat(1, fd, "", &st, AT_EMPTY_PATH) == 0);
    SAME(st);
    CHECK(__fxstatat64(1, fd, "", &st64, AT_EMPTY_PATH) == 0);
    SAME(st64);
    CHECK(fstatat(AT_FDCWD, path, &st, 0) == 0);
    SAME(st);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) == 0);
    CHECK(stx.stx_ino == by_name.st_ino && stx.stx_mode == by_name.st_mode && stx.stx_uid == by_name.st_uid);
    CHECK(makedev(stx.stx_dev_major, stx.stx_dev_minor) == by_name.st_dev);
    CHECK(stx.stx_nlink == by_name.st_nlink && stx.stx_gid == by_name.st_gid);
    /* Attributes are the source's as well. */
    char list[1024] = "", value[64];
    ssize_t n = flistxattr(fd, list, sizeof list), expected = listxattr(path, NULL, 0);
    CHECK(n == expected);
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1) CHECK(strstr(list + i, "monarch") == NULL);
    CHECK(fgetxattr(fd, "user.monarch.source", value, sizeof value) < 0 && errno == ENODATA);
    /* And across exec, in a process that has opened nothing yet. */
    close(fd);
}

/* ---- cancellation ---- */

static void* open_fifo(void* path) {
    open(path, O_RDONLY);
    return NULL;
}
static void* openat_fifo(void* path) {
    openat(open("/", O_RDONLY | O_DIRECTORY), (const char*)path + 1, O_RDONLY);
    return NULL;
}
static void cancel(char* path) {
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void* result;
        CHECK(pthread_create(&thread, NULL, i == 0 ? open_fifo : openat_fifo, path) == 0);
        usleep(20000); /* in the open, or just before it: it must end either way */
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
}

int main(int argc, char** argv) {
    if (argc == 3 && strcmp(argv[1], "cancel") == 0) {
        cancel(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)
            if (strcmp(table[i].verb, argv[2]) == 0) puts(table[i].how);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "identity") == 0) {
        identity(argv[2]);
        return 0;
    }
    if (argc != 4) return 2;
    const char* path = argv[3];
    char* copy = strdup(path);
    strcpy(folder, dirname(copy));
    strcpy(name, strrchr(path, '/') + 1);
    sprintf(other, "%s.new", path);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].verb, argv[1]) != 0 || strcmp(table[i].how, argv[2]) != 0) continue;
        table[i].run(path);
        return 0;
    }
    fprintf(stderr, "preload_client: %s: unknown\n", argv[2]);
    return 2;
}

/* Every symbol that libmonarch.so wraps, with its real type; libmonarch.map lists the same names. Each
 * wrapper is: is it ours? else straight on. Nothing but these names is visible outside. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#define __nonnull(parameters) /* a null path is EFAULT, not a reason to drop our tests for it */
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "preload/preload.h"
#include "preload/sys.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* ---- open ---- */

static int open_any(int dirfd, const char* path, int flags, mode_t mode) {
    if (path != NULL && read_flags(flags)) {
        if (map_current == NULL && path[0] == '/' && path_system(path))
            return (int)sys_result(read_source(dirfd, path, flags, mode));
        struct maps* m = map_get();
        if (m->sessions > 0) {
            struct opening o = {.dirfd = dirfd, .path = path, .flags = flags};
            return (int)sys_result(read_open(m, &o));
        }
    } else if (path != NULL) {
        const int how = change_of_flags(flags);
        struct maps* m;
        if (how != 0 && (m = map_get())->sessions > 0) {
            struct change c = {
                SYS_openat, {dirfd, (long)path, flags, mode}, {{0, 1, (unsigned char)how}, {-1, -1, 0}}};
            return (int)sys_result(change_path(m, &c));
        }
    }
    return (int)sys_result(read_source(dirfd, path, flags, mode));
}

#define MODE_OF(flags, mode)                                         \
    do {                                                             \
        if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) { \
            va_list ap;                                              \
            va_start(ap, flags);                                     \
            mode = va_arg(ap, mode_t);                               \
            va_end(ap);                                              \
        }                                                            \
    } while (0)

EXPORT int open(const char* path, int flags, ...) {
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(AT_FDCWD, path, flags, mode);
}
EXPORT int open64(const char* path, int flags, ...) {
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(AT_FDCWD, path, flags, mode);
}
EXPORT int openat(int dirfd, const char* path, int flags, ...) {
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(dirfd, path, flags, mode);
}
EXPORT int openat64(int dirfd, const char* path, int flags, ...) {
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(dirfd, path, flags, mode);
}

/* What the compiler calls where open has two arguments and flags are not known when compiling. With flags
 * that need a third one, libc's own ends the program. */
static bool lacks_mode(int flags) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

static int checked_open(const char* name, const char* path, int flags) {
    if (!lacks_mode(flags)) return open_any(AT_FDCWD, path, flags, 0);
    int (*real)(const char*, int) = (int (*)(const char*, int))libc_next(name);
    return real != NULL ? real(path, flags) : (int)sys_result(-EINVAL);
}
static int checked_openat(const char* name, int dirfd, const char* path, int flags) {
    if (!lacks_mode(flags)) return open_any(dirfd, path, flags, 0);
    int (*real)(int, const char*, int) = (int (*)(int, const char*, int))libc_next(name);
    return real != NULL ? real(dirfd, path, flags) : (int)sys_result(-EINVAL);
}
EXPORT int __open_2(const char* path, int flags) {
    return checked_open("__open_2", path, flags);
}
EXPORT int __open64_2(const char* path, int flags) {
    return checked_open("__open64_2", path, flags);
}
EXPORT int __openat_2(int dirfd, const char* path, int flags) {
    return checked_openat("__openat_2", dirfd, path, flags);
}
EXPORT int __openat64_2(int dirfd, const char* path, int flags) {
    return checked_openat("__openat64_2", dirfd, path, flags);
}
EXPORT int creat(const char* path, mode_t mode) {
    return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
EXPORT int creat64(const char* path, mode_t mode) {
    return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* ---- streams ---- */

extern int fileno(FILE*) __attribute__((weak));

static LARGE_FRAME FILE* changing_stream(struct maps* m, const char* path, const char* mode, int how,
                                         FILE* reopen) {
    char source[4096];
    const bool before = (how & AFTER) == 0;
    if (path != NULL) {
        if (change_announce(m, path, how, before, source, sizeof source)) {
            path = source;
            if (before) change_announce(m, path, how, true, NULL, 0);
        }
    } else if (copy_source_of(m, fileno(reopen), source, sizeof source)) { /* freopen(NULL, "r+", …) */
        path = source;
        if (before) change_announce(m, path, how, true, NULL, 0);
    }
    FILE* stream = read_source_stream(path, mode, reopen);
    if (stream != NULL && !before && path != NULL) change_announce(m, path, how, true, NULL, 0);
    return stream;
}

static FILE* open_stream_any(const char* path, const char* mode, FILE* reopen) {
    const int how = change_of_mode(mode);
    if (how == 0 && path != NULL && read_mode(mode)) {
        if (map_current == NULL && path[0] == '/' && path_system(path))
            return read_source_stream(path, mode, reopen);
        struct maps* m = map_get();
        if (m->sessions > 0) {
            struct opening o = {.dirfd = AT_FDCWD, .path = path, .mode = mode, .reopen = reopen};
            read_open(m, &o);
            return o.stream;
        }
    } else if (how != 0 && (path != NULL || reopen != NULL)) {
        struct maps* m = map_get();
        if (m->sessions > 0) return changing_stream(m, path, mode, how, reopen);
    }
    return read_source_stream(path, mode, reopen);
}

EXPORT FILE* fopen(const char* path, const char* mode) {
    return open_stream_any(path, mode, NULL);
}
EXPORT FILE* fopen64(const char* path, const char* mode) {
    return open_stream_any(path, mode, NULL);
}
EXPORT FILE* freopen(const char* path, const char* mode, FILE* stream) {
    return open_stream_any(path, mode, stream);
}
EXPORT FILE* freopen64(const char* path, const char* mode, FILE* stream) {
    return open_stream_any(path, mode, stream);
}

/* ---- what a redirected descriptor is ---- */

static void show_source(int fd, struct stat* st) {
    struct monarch_source_id id;
    if (!S_ISREG(st->st_mode) || !copy_identity(map_get(), fd, st, &id)) return;
    st->st_dev = id.dev;
    st->st_ino = id.ino;
    st->st_mode = id.mode;
    st->st_uid = id.uid;
    st->st_gid = id.gid;
    st->st_nlink = id.nlink;
}

static int stat_descriptor(int fd, struct stat* st) {
    int answer = sys_fstat(fd, st);
    if (answer == 0) show_source(fd, st);
    return (int)sys_result(answer);
}
static int stat_at(int dirfd, const char* path, struct stat* st, int flags) {
    int answer = sys_fstatat(dirfd, path, st, flags);
    if (answer == 0 && (flags & AT_EMPTY_PATH) && (path == NULL || path[0] == '\0')) show_source(dirfd, st);
    return (int)sys_result(answer);
}
EXPORT int fstat(int fd, struct stat* st) {
    return stat_descriptor(fd, st);
}
EXPORT int fstat64(int fd, struct stat64* st) {
    return stat_descriptor(fd, (struct stat*)st);
}
EXPORT int __fxstat(int version, int fd, struct stat* st) {
    (void)version;
    return stat_descriptor(fd, st);
}
EXPORT int __fxstat64(int version, int fd, struct stat64* st) {
    (void)version;
    return stat_descriptor(fd, (struct stat*)st);
}
EXPORT int fstatat(int dirfd, const char* path, struct stat* st, int flags) {
    return stat_at(dirfd, path, st, flags);
}
EXPORT int fstatat64(int dirfd, const char* path, struct stat64* st, int flags) {
    return stat_at(dirfd, path, (struct stat*)st, flags);
}
EXPORT int __fxstatat(int version, int dirfd, const char* path, struct stat* st, int flags) {
    (void)version;
    return stat_at(dirfd, path, st, flags);
}
EXPORT int __fxstatat64(int version, int dirfd, const char* path, struct stat64* st, int flags) {
    (void)version;
    return stat_at(dirfd, path, (struct stat*)st, flags);
}

EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* stx) {
    long answer = sys_call(SYS_statx, dirfd, (long)path, flags, mask, (long)stx, 0);
    if (answer == -ENOSYS) { /* an old kernel: libc's own makes do with fstatat */
        int (*real)(int, const char*, int, unsigned, struct statx*) =
            (int (*)(int, const char*, int, unsigned, struct statx*))libc_next("statx");
        if (real != NULL) return real(dirfd, path, flags, mask, stx);
    }
    if (answer == 0 && (flags & AT_EMPTY_PATH) && (path == NULL || path[0] == '\0') &&
        S_ISREG(stx->stx_mode)) {
        const uint64_t major = stx->stx_dev_major, minor = stx->stx_dev_minor;
        struct stat st = {.st_mode = stx->stx_mode, .st_ino = stx->stx_ino};
        st.st_dev = (minor & 0xff) | (major & 0xfff) << 8 | (minor & ~(uint64_t)0xff) << 12 |
                    (major & ~(uint64_t)0xfff) << 32;
        struct monarch_source_id id;
        if (copy_identity(map_get(), dirfd, &st, &id)) {
            stx->stx_dev_major = (uint32_t)((id.dev >> 8 & 0xfff) | (id.dev >> 32 & ~(uint64_t)0xfff));
            stx->stx_dev_minor = (uint32_t)((id.dev & 0xff) | (id.dev >> 12 & ~(uint64_t)0xff));
            stx->stx_ino = id.ino;
            stx->stx_mode = (uint16_t)id.mode;
            stx->stx_uid = id.uid;
            stx->stx_gid = id.gid;
            stx->stx_nlink = id.nlink;
        }
    }
    return (int)sys_result(answer);
}

/* Extended attributes of a redirected descriptor (access control lists, too) are the source's; so `cp -a`
 * does not take ours along. */
static LARGE_FRAME bool source_attribute(int fd, const char* name, void* to, size_t size, long* answer) {
    char source[4096];
    struct stat st;
    struct monarch_source_id id;
    struct maps* m = map_get();
    if (m->sessions == 0 || sys_fstat(fd, &st) != 0 || !copy_identity(m, fd, &st, &id) ||
        !copy_source_of(m, fd, source, sizeof source))
        return false;
    *answer = name == NULL ? sys_call(SYS_listxattr, (long)source, (long)to, (long)size, 0, 0, 0)
                           : sys_call(SYS_getxattr, (long)source, (long)name, (long)to, (long)size, 0, 0);
    return true;
}
EXPORT ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) {
    long answer;
    if (map_get()->sessions > 0 && source_attribute(fd, name, value, size, &answer))
        return sys_result(answer);
    return sys_result(sys_fgetxattr(fd, name, value, size));
}
EXPORT ssize_t flistxattr(int fd, char* list, size_t size) {
    long answer;
    if (map_get()->sessions > 0 && source_attribute(fd, NULL, list, size, &answer)) return sys_result(answer);
    return sys_result(sys_call(SYS_flistxattr, fd, (long)list, (long)size, 0, 0, 0));
}

/* ---- changes: names ---- */

enum { NAME_GOES = TREE | CHAIN };

static int one_path(struct change c) {
    return (int)sys_result(change_path(map_get(), &c));
}

static int truncate_path(const char* path, off_t length) {
    return one_path(
        (struct change){SYS_truncate, {(long)path, length}, {{-1, 0, BYTES | FOLLOW}, {-1, -1, 0}}});
}
EXPORT int truncate(const char* path, off_t length) {
    return truncate_path(path, length);
}
EXPORT int truncate64(const char* path, off64_t length) {
    return truncate_path(path, length);
}

static int rename_at(int from_dirfd, const char* from, int to_dirfd, const char* to, unsigned flags) {
    return one_path((struct change){flags == 0 ? SYS_renameat : SYS_renameat2,
                                    {from_dirfd, (long)from, to_dirfd, (long)to, flags},
                                    {{0, 1, NAME_GOES}, {2, 3, NAME_GOES | NEW}}});
}
EXPORT int rename(const char* from, const char* to) {
    return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
EXPORT int renameat(int from_dirfd, const char* from, int to_dirfd, const char* to) {
    return rename_at(from_dirfd, from, to_dirfd, to, 0);
}
EXPORT int renameat2(int from_dirfd, const char* from, int to_dirfd, const char* to, unsigned flags) {
    return rename_at(from_dirfd, from, to_dirfd, to, flags);
}

static int unlink_at(int dirfd, const char* path, int flags) {
    const int how = flags & AT_REMOVEDIR ? NAME_GOES | AFTER : CHAIN;
    return one_path(
        (struct change){SYS_unlinkat, {dirfd, (long)path, flags}, {{0, 1, (unsigned char)how}, {-1, -1, 0}}});
}
EXPORT int unlink(const char* path) {
    return unlink_at(AT_FDCWD, path, 0);
}
EXPORT int unlinkat(int dirfd, const char* path, int flags) {
    return unlink_at(dirfd, path, flags);
}
EXPORT int rmdir(const char* path) {
    return unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}
EXPORT int remove(const char* path) {
    const int before = errno;
    if (unlink_at(AT_FDCWD, path, 0) == 0) return 0;
    if (errno != EISDIR) return -1;
    errno = before;
    return unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Hard links share their bytes: a change through the new name would not be seen at the old one. So both are
 * retired. */
static int link_at(int from_dirfd, const char* from, int to_dirfd, const char* to, int flags) {
    struct change by_path = {SYS_linkat,
                             {from_dirfd, (long)from, to_dirfd, (long)to, flags},
                             {{0, 1, flags & AT_SYMLINK_FOLLOW ? FOLLOW : 0}, {2, 3, NEW}}};
    if ((flags & AT_EMPTY_PATH) == 0 || from[0] != '\0') return one_path(by_path);
    struct change by_fd = by_path;
    by_fd.at[0].path = -1;
    by_path.argument[4] = flags & ~AT_EMPTY_PATH;
    return (int)sys_result(change_descriptor(map_get(), from_dirfd, &by_fd, &by_path));
}
EXPORT int link(const char* from, const char* to) {
    return link_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
EXPORT int linkat(int from_dirfd, const char* from, int to_dirfd, const char* to, int flags) {
    return link_at(from_dirfd, from, to_dirfd, to, flags);
}

static int symlink_at(const char* target, int dirfd, const char* path) {
    return one_path(
        (struct change){SYS_symlinkat, {(long)target, dirfd, (long)path}, {{1, 2, NEW}, {-1, -1, 0}}});
}
EXPORT int symlink(const char* target, const char* path) {
    return symlink_at(target, AT_FDCWD, path);
}
EXPORT int symlinkat(const char* target, int dirfd, const char* path) {
    return symlink_at(target, dirfd, path);
}

static int make_node(int dirfd, const char* path, mode_t mode, dev_t dev) {
    if (dev != (unsigned)dev) return (int)sys_result(-EINVAL);
    return one_path(
        (struct change){SYS_mknodat, {dirfd, (long)path, mode, (long)dev}, {{0, 1, NEW}, {-1, -1, 0}}});
}
EXPORT int mknod(const char* path, mode_t mode, dev_t dev) {
    return make_node(AT_FDCWD, path, mode, dev);
}
EXPORT int mknodat(int dirfd, const char* path, mode_t mode, dev_t dev) {
    return make_node(dirfd, path, mode, dev);
}
EXPORT int __xmknod(int version, const char* path, mode_t mode, dev_t* dev) {
    (void)version;
    return make_node(AT_FDCWD, path, mode, *dev);
}
EXPORT int __xmknodat(int version, int dirfd, const char* path, mode_t mode, dev_t* dev) {
    (void)version;
    return make_node(dirfd, path, mode, *dev);
}
EXPORT int mkfifo(const char* path, mode_t mode) {
    return make_node(AT_FDCWD, path, mode | S_IFIFO, 0);
}
EXPORT int mkfifoat(int dirfd, const char* path, mode_t mode) {
    return make_node(dirfd, path, mode | S_IFIFO, 0);
}

/* ---- changes: temporary files, whose names libc would make and open out of our sight ---- */

static uint64_t random_bits(void) {
    uint64_t bits = 0;
    if (sys_call(SYS_getrandom, (long)&bits, sizeof bits, 1 /* GRND_NONBLOCK */, 0, 0, 0) !=
        (long)sizeof bits)
        bits =
            path_hash(sys_now_ns(), (const char*)&bits, 0) ^ path_hash(sys_gettid(), (const char*)&bits, 8);
    return bits;
}

static int make_temporary(char* name, int suffix, int flags) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t length = strlen(name);
    if (suffix < 0 || length < 6 + (size_t)suffix ||
        memcmp(name + length - (size_t)suffix - 6, "XXXXXX", 6) != 0)
        return (int)sys_result(-EINVAL);
    char* x = name + length - (size_t)suffix - 6;
    const int before = errno;
    for (int attempt = 0; attempt < 62 * 62 * 62; attempt++) {
        uint64_t bits = random_bits();
        for (int i = 0; i < 6; i++, bits /= 62) x[i] = letters[bits % 62];
        int fd = open_any(AT_FDCWD, name, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) errno = before;
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}
EXPORT int mkstemp(char* name) {
    return make_temporary(name, 0, 0);
}
EXPORT int mkstemp64(char* name) {
    return make_temporary(name, 0, 0);
}
EXPORT int mkostemp(char* name, int flags) {
    return make_temporary(name, 0, flags);
}
EXPORT int mkostemp64(char* name, int flags) {
    return make_temporary(name, 0, flags);
}
EXPORT int mkstemps(char* name, int suffix) {
    return make_temporary(name, suffix, 0);
}
EXPORT int mkstemps64(char* name, int suffix) {
    return make_temporary(name, suffix, 0);
}
EXPORT int mkostemps(char* name, int suffix, int flags) {
    return make_temporary(name, suffix, flags);
}
EXPORT int mkostemps64(char* name, int suffix, int flags) {
    return make_temporary(name, suffix, flags);
}

/* ---- changes: attributes. A copy has its source's mode, owner, time; a descriptor of a copy changes the
 * source ---- */

static int by_descriptor(int fd, struct change by_fd, struct change by_path) {
    return (int)sys_result(change_descriptor(map_get(), fd, &by_fd, &by_path));
}
#define NO_PATH        \
    {                  \
        {-1, -1, 0}, { \
            -1, -1, 0  \
        }              \
    }

static int change_mode(int dirfd, const char* path, mode_t mode) {
    return one_path((struct change){SYS_fchmodat, {dirfd, (long)path, mode}, {{0, 1, FOLLOW}, {-1, -1, 0}}});
}
EXPORT int chmod(const char* path, mode_t mode) {
    return change_mode(AT_FDCWD, path, mode);
}
EXPORT int fchmodat(int dirfd, const char* path, mode_t mode, int flags) {
    if (flags == 0) return change_mode(dirfd, path, mode);
    const int before = errno;
    int result = one_path((struct change){SYS_fchmodat2,
                                          {dirfd, (long)path, mode, flags},
                                          {{0, 1, flags & AT_SYMLINK_NOFOLLOW ? 0 : FOLLOW}, {-1, -1, 0}}});
    if (result == 0 || errno != ENOSYS) return result;
    errno = before; /* before Linux 6.6, libc does what can be done */
    int (*real)(int, const char*, mode_t, int) =
        (int (*)(int, const char*, mode_t, int))libc_next("fchmodat");
    return real != NULL ? real(dirfd, path, mode, flags) : (int)sys_result(-EOPNOTSUPP);
}
EXPORT int lchmod(const char* path, mode_t mode) {
    return fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fchmod(int fd, mode_t mode) {
    return by_descriptor(fd, (struct change){SYS_fchmod, {fd, mode}, NO_PATH},
                         (struct change){SYS_fchmodat, {AT_FDCWD, 0, mode}, {{0, 1, FOLLOW}, {-1, -1, 0}}});
}

static int change_owner(int dirfd, const char* path, uid_t uid, gid_t gid, int flags) {
    const unsigned char how = flags & AT_SYMLINK_NOFOLLOW ? 0 : FOLLOW;
    struct change by_path = {SYS_fchownat, {dirfd, (long)path, uid, gid, flags}, {{0, 1, how}, {-1, -1, 0}}};
    if ((flags & AT_EMPTY_PATH) == 0 || path[0] != '\0') return one_path(by_path);
    struct change by_fd = by_path;
    by_fd.at[0].path = -1;
    by_path.argument[0] = AT_FDCWD;
    by_path.argument[4] = flags & ~AT_EMPTY_PATH;
    return by_descriptor(dirfd, by_fd, by_path);
}
EXPORT int chown(const char* path, uid_t uid, gid_t gid) {
    return change_owner(AT_FDCWD, path, uid, gid, 0);
}
EXPORT int lchown(const char* path, uid_t uid, gid_t gid) {
    return change_owner(AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fchownat(int dirfd, const char* path, uid_t uid, gid_t gid, int flags) {
    return change_owner(dirfd, path, uid, gid, flags);
}
EXPORT int fchown(int fd, uid_t uid, gid_t gid) {
    return by_descriptor(
        fd, (struct change){SYS_fchown, {fd, uid, gid}, NO_PATH},
        (struct change){SYS_fchownat, {AT_FDCWD, 0, uid, gid, 0}, {{0, 1, FOLLOW}, {-1, -1, 0}}});
}

static int change_times(int dirfd, const char* path, const struct timespec* times, int flags) {
    const unsigned char how = flags & AT_SYMLINK_NOFOLLOW ? 0 : FOLLOW;
    struct change by_path = {
        SYS_utimensat, {dirfd, (long)path, (long)times, flags}, {{0, 1, how}, {-1, -1, 0}}};
    if (path != NULL && ((flags & AT_EMPTY_PATH) == 0 || path[0] != '\0')) return one_path(by_path);
    struct change by_fd = by_path;
    by_fd.at[0].path = -1;
    by_path.argument[0] = AT_FDCWD;
    by_path.argument[3] = flags & ~AT_EMPTY_PATH;
    return by_descriptor(dirfd, by_fd, by_path);
}
static int change_times_of_day(int dirfd, const char* path, const struct timeval* times, int flags) {
    struct timespec t[2];
    if (times == NULL) return change_times(dirfd, path, NULL, flags);
    for (int i = 0; i < 2; i++) {
        if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000) return (int)sys_result(-EINVAL);
        t[i] = (struct timespec){times[i].tv_sec, times[i].tv_usec * 1000};
    }
    return change_times(dirfd, path, t, flags);
}
EXPORT int utimensat(int dirfd, const char* path, const struct timespec times[2], int flags) {
    return change_times(dirfd, path, times, flags);
}
EXPORT int futimens(int fd, const struct timespec times[2]) {
    return change_times(fd, NULL, times, 0);
}
EXPORT int utimes(const char* path, const struct timeval times[2]) {
    return change_times_of_day(AT_FDCWD, path, times, 0);
}
EXPORT int lutimes(const char* path, const struct timeval times[2]) {
    return change_times_of_day(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}
EXPORT int futimes(int fd, const struct timeval times[2]) {
    return change_times_of_day(fd, NULL, times, 0);
}
EXPORT int futimesat(int dirfd, const char* path, const struct timeval times[2]) {
    return change_times_of_day(dirfd, path, times, 0);
}
EXPORT int utime(const char* path, const struct utimbuf* times) {
    struct timespec t[2];
    if (times != NULL) {
        t[0] = (struct timespec){times->actime, 0};
        t[1] = (struct timespec){times->modtime, 0};
    }
    return change_times(AT_FDCWD, path, times != NULL ? t : NULL, 0);
}

EXPORT int setxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
    return one_path((struct change){SYS_setxattr,
                                    {(long)path, (long)name, (long)value, (long)size, flags},
                                    {{-1, 0, FOLLOW}, {-1, -1, 0}}});
}
EXPORT int lsetxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
    return one_path((struct change){
        SYS_lsetxattr, {(long)path, (long)name, (long)value, (long)size, flags}, {{-1, 0, 0}, {-1, -1, 0}}});
}
EXPORT int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
    return by_descriptor(
        fd, (struct change){SYS_fsetxattr, {fd, (long)name, (long)value, (long)size, flags}, NO_PATH},
        (struct change){
            SYS_setxattr, {0, (long)name, (long)value, (long)size, flags}, {{-1, 0, FOLLOW}, {-1, -1, 0}}});
}
EXPORT int removexattr(const char* path, const char* name) {
    return one_path(
        (struct change){SYS_removexattr, {(long)path, (long)name}, {{-1, 0, FOLLOW}, {-1, -1, 0}}});
}
EXPORT int lremovexattr(const char* path, const char* name) {
    return one_path((struct change){SYS_lremovexattr, {(long)path, (long)name}, {{-1, 0, 0}, {-1, -1, 0}}});
}
EXPORT int fremovexattr(int fd, const char* name) {
    return by_descriptor(fd, (struct change){SYS_fremovexattr, {fd, (long)name}, NO_PATH},
                         (struct change){SYS_removexattr, {0, (long)name}, {{-1, 0, FOLLOW}, {-1, -1, 0}}});
}

/* ---- changes: a file that a child is going to open ---- */

EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* actions, int fd, const char* path,
                                            int flags, mode_t mode) {
    const int how = change_of_flags(flags);
    if (how != 0) change_announce(map_get(), path, how | NEW, true, NULL, 0);
    int (*real)(posix_spawn_file_actions_t*, int, const char*, int, mode_t) =
        (int (*)(posix_spawn_file_actions_t*, int, const char*, int, mode_t))libc_next(
            "posix_spawn_file_actions_addopen");
    return real != NULL ? real(actions, fd, path, flags, mode) : ENOSYS;
}

/* ---- not a wrapper: AddressSanitizer asks for this ---- */

/* Its runtime ends a program that has any library preloaded before it, unless told that this is meant. A
 * program's own answer, and ASAN_OPTIONS, go before ours. */
EXPORT const char* __asan_default_options(void) {
    return "verify_asan_link_order=0";
}

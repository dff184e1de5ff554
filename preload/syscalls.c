/* libc's syscall(): a program's own way to the calls that wrappers.c wraps. Everything else goes straight on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <utime.h>

#include "preload/preload.h"
#include "preload/sys.h"

/* Not from unistd.h and the like, which declare syscall() with an open list of arguments. The kernel takes six. */
long syscall(long number, long a, long b, long c, long d, long e, long f);
int prctl(int, ...);
int flock(int, int);
int chroot(const char*);
int setns(int, int);
int truncate(const char*, long);
int unlink(const char*);
int unlinkat(int, const char*, int);
int rmdir(const char*);
int link(const char*, const char*);
int linkat(int, const char*, int, const char*, int);
int symlink(const char*, const char*);
int symlinkat(const char*, int, const char*);
int chown(const char*, unsigned, unsigned);
int lchown(const char*, unsigned, unsigned);
int fchown(int, unsigned, unsigned);
int fchownat(int, const char*, unsigned, unsigned, int);
int setxattr(const char*, const char*, const void*, size_t, int);
int lsetxattr(const char*, const char*, const void*, size_t, int);
int fsetxattr(int, const char*, const void*, size_t, int);
int removexattr(const char*, const char*);
int lremovexattr(const char*, const char*);
int fremovexattr(int, const char*);
long fgetxattr(int, const char*, void*, size_t);
long flistxattr(int, char*, size_t);
int utimes(const char*, const void*);
int futimesat(int, const char*, const void*);
int mount(const char*, const char*, const char*, unsigned long, const void*);
int umount2(const char*, int);
int pivot_root(const char*, const char*);

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* openat2 restricts how the path is followed: reads are passed on as they are. */
static long open_restricted(long dirfd, long path, long how, long size) {
    const uint64_t* flags = (const uint64_t*)how;
    struct change c = {SYS_openat2, {dirfd, path, how, size}, {{-1, -1, 0}, {-1, -1, 0}}};
    const int change = flags == NULL || size < 24 || path == 0 ? 0 : change_of_flags((int)*flags);
    if (change != 0) {
        c.at[0].dirfd = 0;
        c.at[0].path = 1;
        c.at[0].how = (unsigned char)change;
    }
    return sys_result(change_path(map_get(), &c));
}

__attribute__((visibility("default"))) long syscall(long number, long a, long b, long c, long d, long e, long f) {
#define P(x) ((const char*)(x))
#define I(x) ((int)(x))
#define U(x) ((unsigned)(x))
    switch (number) {
#ifdef SYS_open /* not on aarch64 */
        case SYS_open: return open(P(a), I(b), U(c));
        case SYS_creat: return creat(P(a), U(b));
        case SYS_rename: return rename(P(a), P(b));
        case SYS_unlink: return unlink(P(a));
        case SYS_rmdir: return rmdir(P(a));
        case SYS_link: return link(P(a), P(b));
        case SYS_symlink: return symlink(P(a), P(b));
        case SYS_mknod: return mknod(P(a), U(b), U(c));
        case SYS_chmod: return chmod(P(a), U(b));
        case SYS_chown: return chown(P(a), U(b), U(c));
        case SYS_lchown: return lchown(P(a), U(b), U(c));
        case SYS_utime: return utime(P(a), (const struct utimbuf*)b);
        case SYS_utimes: return utimes(P(a), P(b));
        case SYS_futimesat: return futimesat(I(a), P(b), P(c));
        case SYS_stat: return stat(P(a), (struct stat*)b);
#endif
#ifdef SYS_renameat /* not on the newest architectures */
        case SYS_renameat: return renameat(I(a), P(b), I(c), P(d));
#endif
        case SYS_openat: return openat(I(a), P(b), I(c), U(d));
        case SYS_openat2: return open_restricted(a, b, c, d);
        case SYS_fstat: return fstat(I(a), (struct stat*)b);
        case SYS_newfstatat: return fstatat(I(a), P(b), (struct stat*)c, I(d));
        case SYS_statx: return statx(I(a), P(b), I(c), U(d), (struct statx*)e);
        case SYS_fgetxattr: return fgetxattr(I(a), P(b), (void*)c, (size_t)d);
        case SYS_flistxattr: return flistxattr(I(a), (char*)b, (size_t)c);
        case SYS_fcntl: return fcntl(I(a), I(b), c);
        case SYS_flock: return flock(I(a), I(b));
        case SYS_truncate: return truncate(P(a), b);
        case SYS_renameat2: return renameat2(I(a), P(b), I(c), P(d), U(e));
        case SYS_unlinkat: return unlinkat(I(a), P(b), I(c));
        case SYS_linkat: return linkat(I(a), P(b), I(c), P(d), I(e));
        case SYS_symlinkat: return symlinkat(P(a), I(b), P(c));
        case SYS_mknodat: return mknodat(I(a), P(b), U(c), U(d));
        case SYS_fchmod: return fchmod(I(a), U(b));
        case SYS_fchmodat: return fchmodat(I(a), P(b), U(c), 0);
        case SYS_fchmodat2: return fchmodat(I(a), P(b), U(c), I(d));
        case SYS_fchown: return fchown(I(a), U(b), U(c));
        case SYS_fchownat: return fchownat(I(a), P(b), U(c), U(d), I(e));
        case SYS_utimensat: return utimensat(I(a), P(b), (const struct timespec*)c, I(d));
        case SYS_setxattr: return setxattr(P(a), P(b), P(c), (size_t)d, I(e));
        case SYS_lsetxattr: return lsetxattr(P(a), P(b), P(c), (size_t)d, I(e));
        case SYS_fsetxattr: return fsetxattr(I(a), P(b), P(c), (size_t)d, I(e));
        case SYS_removexattr: return removexattr(P(a), P(b));
        case SYS_lremovexattr: return lremovexattr(P(a), P(b));
        case SYS_fremovexattr: return fremovexattr(I(a), P(b));
        case SYS_open_by_handle_at: return open_by_handle_at(I(a), (struct file_handle*)b, I(c));
        case SYS_chroot: return chroot(P(a));
        case SYS_setns: return setns(I(a), I(b));
        case SYS_mount: return mount(P(a), P(b), P(c), (unsigned long)d, P(e));
        case SYS_umount2: return umount2(P(a), I(b));
        case SYS_pivot_root: return pivot_root(P(a), P(b));
        case SYS_prctl: return prctl(I(a), b, c, d, e);
        case SYS_seccomp: {
            if (a != 0 && a != 1) break; /* SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER */
            map_confine();
            const long answer = sys_call(number, a, b, c, 0, 0, 0);
            if (answer < 0) map_confine_failed();
            return sys_result(answer);
        }
        default: break;
    }
    return sys_result(sys_call(number, a, b, c, d, e, f));
}

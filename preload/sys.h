/* System calls made directly, and the few libc functions that we lean on, all weak.
 *
 * Each sys_…() returns the kernel's answer: a result, or minus the error number. errno is never touched here,
 * so a wrapper that ends well leaves errno as it found it. Calling the kernel directly keeps the library free
 * of symbol versions (it starts with every glibc since 2.17, and with musl) and of whatever others interpose.
 */
#ifndef MONARCH_PRELOAD_SYS_H
#define MONARCH_PRELOAD_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static inline long sys_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "the preload library knows the system calls of x86-64 and aarch64"
#endif
}

static inline int sys_openat(int dirfd, const char* path, int flags, unsigned mode) {
    return (int)sys_call(SYS_openat, dirfd, (long)path, flags, mode, 0, 0);
}
static inline int sys_close(int fd) {
    return (int)sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}
static inline long sys_read(int fd, void* to, size_t bytes) {
    return sys_call(SYS_read, fd, (long)to, (long)bytes, 0, 0, 0);
}
static inline int sys_fstat(int fd, struct stat* st) {
    return (int)sys_call(SYS_fstat, fd, (long)st, 0, 0, 0, 0);
}
static inline int sys_fstatat(int dirfd, const char* path, struct stat* st, int flags) {
    return (int)sys_call(SYS_newfstatat, dirfd, (long)path, (long)st, flags, 0, 0);
}
/* Writes no NUL byte. A result equal to `bytes` may have been cut. */
static inline long sys_readlink(const char* path, char* to, size_t bytes) {
    return sys_call(SYS_readlinkat, AT_FDCWD, (long)path, (long)to, (long)bytes, 0, 0);
}
/* The result counts the NUL byte. */
static inline long sys_getcwd(char* to, size_t bytes) {
    return sys_call(SYS_getcwd, (long)to, (long)bytes, 0, 0, 0, 0);
}
static inline long sys_mmap(void* at, size_t bytes, int prot, int flags, int fd) {
    return sys_call(SYS_mmap, (long)at, (long)bytes, prot, flags, fd, 0);
}
static inline void sys_munmap(void* at, size_t bytes) {
    sys_call(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}
static inline uint32_t sys_getpid(void) {
    return (uint32_t)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}
static inline uint32_t sys_gettid(void) {
    return (uint32_t)sys_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}
static inline int sys_symlink(const char* target, const char* path) {
    return (int)sys_call(SYS_symlinkat, (long)target, AT_FDCWD, (long)path, 0, 0, 0);
}
static inline int sys_rename(const char* from, const char* to) {
    return (int)sys_call(SYS_renameat, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0);
}
static inline int sys_unlink(const char* path) {
    return (int)sys_call(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
}
static inline int sys_mkdir(const char* path, unsigned mode) {
    return (int)sys_call(SYS_mkdirat, AT_FDCWD, (long)path, mode, 0, 0, 0);
}
static inline long sys_fgetxattr(int fd, const char* name, void* to, size_t bytes) {
    return sys_call(SYS_fgetxattr, fd, (long)name, (long)to, (long)bytes, 0, 0);
}
/* libc's answers without entering the kernel. */
extern int clock_gettime(clockid_t, struct timespec*) __attribute__((weak));
static inline uint64_t sys_now_ns(void) {
    struct timespec t = {0, 0};
    if (clock_gettime == NULL || clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        sys_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0, 0, 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What a libc function returns for the kernel's answer: -1 and errno for an error. */
static inline long sys_result(long answer) {
    if (answer >= 0 || answer < -4095) return answer;
    errno = (int)-answer;
    return -1;
}

#endif

/* libc's own function of a name that we wrap, for the few that are no system call. They are looked up at the
 * call that needs them, not before. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>

#include "preload/preload.h"

#if defined(__x86_64__)
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#else
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
#endif
extern void* dlsym(void*, const char*) __attribute__((weak));
/* Until 2.33, glibc has dlsym in another library, which may be absent, and these two instead. */
extern void* __libc_dlopen_mode(const char*, int) __attribute__((weak));
extern void* __libc_dlsym(void*, const char*) __attribute__((weak));

void* libc_next(const char* name) {
    if (dlsym != NULL) return dlsym((void*)-1L /* RTLD_NEXT */, name);
    if (__libc_dlopen_mode == NULL || __libc_dlsym == NULL) return NULL;
    void* libc = __libc_dlopen_mode("libc.so.6", (int)0x80000002u);
    return libc == NULL ? NULL : __libc_dlsym(libc, name);
}

FILE* libc_freopen(const char* path, const char* mode, FILE* stream) {
    static FILE* (*known)(const char*, const char*, FILE*);
    FILE* (*real)(const char*, const char*, FILE*) = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (real == NULL) {
        real = (FILE * (*)(const char*, const char*, FILE*)) libc_next("freopen");
        if (real == NULL) {
            errno = ENOSYS;
            return NULL;
        }
        __atomic_store_n(&known, real, __ATOMIC_RELAXED);
    }
    return real(path, mode, stream);
}

/* To be preloaded: ends a child with SIGABRT that allocates or frees memory, takes a lock or starts a log between
 * fork and exec. (Another thread may hold malloc's lock, or any lock, when a process forks.) */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static long owner; /* the process that this program was started in */

__attribute__((constructor)) static void start(void) {
    owner = syscall(SYS_getpid);
}

static void forbidden_in_child(const char* what) {
    if (owner == 0 || syscall(SYS_getpid) == owner) return;
    size_t length = 0;
    while (what[length] != '\0') length++;
    if (write(2, what, length) < 0 || write(2, " between fork and exec\n", 23) < 0) _exit(9);
    abort();
}

void* malloc(size_t bytes) {
    forbidden_in_child("malloc");
    return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
    forbidden_in_child("calloc");
    return __libc_calloc(n, bytes);
}
void* realloc(void* at, size_t bytes) {
    forbidden_in_child("realloc");
    return __libc_realloc(at, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
    forbidden_in_child("memalign");
    return __libc_memalign(alignment, bytes);
}
void free(void* at) {
    if (at != NULL) forbidden_in_child("free");
    __libc_free(at);
}
#define LOCK(name, type)                  \
    int name(type* lock) {                \
        (void)lock;                       \
        forbidden_in_child(#name);        \
        return 0; /* one thread only */   \
    }
LOCK(pthread_mutex_lock, pthread_mutex_t)
LOCK(pthread_mutex_trylock, pthread_mutex_t)
LOCK(pthread_mutex_unlock, pthread_mutex_t)
LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCK(pthread_rwlock_unlock, pthread_rwlock_t)

void syslog(int priority, const char* format, ...) {
    (void)priority;
    (void)format;
    forbidden_in_child("syslog");
}

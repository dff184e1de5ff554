/* An open for reading: the complete copy on the fastest tier that has one, else the source. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "preload/preload.h"
#include "preload/sys.h"

/* The versions are the oldest that there are, so that no new glibc is needed; weak, since not every libc has
 * them. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
__asm__(".symver pthread_setcanceltype,pthread_setcanceltype@" OLDEST);
extern int pthread_setcanceltype(int, int*) __attribute__((weak));
extern int __open64(const char*, int, ...) __attribute__((weak));
extern FILE* _IO_fopen(const char*, const char*) __attribute__((weak));
extern FILE* fdopen(int, const char*) __attribute__((weak));
extern int fclose(FILE*) __attribute__((weak));
extern int fileno(FILE*) __attribute__((weak));

/* ---- the plain calls ---- */

int read_source(int dirfd, const char* path, int flags, unsigned mode) {
    /* An open can block for good (a FIFO), and pthread_cancel must end it there, as it ends libc's. */
    if (dirfd == AT_FDCWD && __open64 != NULL) {
        const int fd = __open64(path, flags, mode);
        return fd >= 0 ? fd : -errno;
    }
    int before = PTHREAD_CANCEL_DEFERRED;
    if (pthread_setcanceltype != NULL) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    int fd = sys_openat(dirfd, path, flags, mode);
    if (pthread_setcanceltype != NULL) pthread_setcanceltype(before, &before);
    return fd;
}

/* Only where libc has no other name for fopen (musl). */
static FILE* open_stream(const char* path, const char* mode) {
    int flags = mode[0] == 'r' ? O_RDONLY : mode[0] == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
    bool update = false;
    for (const char* p = mode; *p != '\0' && *p != ','; p++) {
        if (*p == '+') update = true;
        if (*p == 'x') flags |= O_EXCL;
        if (*p == 'e') flags |= O_CLOEXEC;
    }
    if (mode[0] != 'r' && mode[0] != 'w' && mode[0] != 'a') {
        errno = EINVAL;
        return NULL;
    }
    if (update)
        flags |= O_RDWR;
    else if (mode[0] != 'r')
        flags |= O_WRONLY;
    int fd = (int)sys_result(read_source(AT_FDCWD, path, flags, 0666));
    if (fd < 0) return NULL;
    FILE* stream = fdopen != NULL ? fdopen(fd, mode) : NULL;
    if (stream == NULL) sys_close(fd);
    return stream;
}

FILE* read_source_stream(const char* path, const char* mode, FILE* reopen) {
    if (reopen != NULL) return libc_freopen(path, mode, reopen);
    return _IO_fopen != NULL ? _IO_fopen(path, mode) : open_stream(path, mode);
}

/* ---- one attempt ---- */

static int attempt_source(struct opening* o) {
    if (o->mode == NULL) return read_source(o->dirfd, o->path, o->flags, 0);
    o->stream = read_source_stream(o->path, o->mode, o->reopen);
    return o->stream == NULL ? -errno : fileno(o->stream);
}

/* Opens the copy `path`. Only a regular file will do: where the tier has a folder, the source has one, too,
 * and that is the one to open. */
static int attempt_copy(struct opening* o, const char* path, struct stat* st) {
    if (o->mode == NULL || o->reopen != NULL) {
        int fd = sys_openat(AT_FDCWD, path, o->mode == NULL ? o->flags : O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0) return fd;
        int answer = sys_fstat(fd, st);
        if (answer == 0 && !S_ISREG(st->st_mode)) answer = -EISDIR;
        if (o->mode == NULL && answer == 0) return fd;
        sys_close(fd);
        if (answer != 0) return answer;
    }
    const int before = errno;
    o->stream = read_source_stream(path, o->mode, o->reopen);
    errno = before;
    if (o->stream == NULL) return -ENOENT;
    int fd = fileno(o->stream);
    if (sys_fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || o->reopen != NULL)) return fd;
    fclose(o->stream);
    errno = before;
    o->stream = NULL;
    return -EISDIR;
}

/* ---- one data set ---- */

enum root_check { UNCHECKED, SAME, OTHER };

/* In a container or after chroot, the root's path may name another folder than the one that was staged. */
static bool root_is_ours(struct session* s, int spelling) {
    const struct monarch_page* page = s->page;
    uint32_t* known = &s->root_checked[spelling];
    switch (__atomic_load_n(known, __ATOMIC_RELAXED)) {
        case SAME:
            return true;
        case OTHER:
            return false;
    }
    const char* canonical = map_canonical(s);
    if (canonical == NULL || page->root_ino == 0) return true; /* the stager does not know it yet */
    struct stat st;
    if (sys_fstatat(AT_FDCWD, spelling == ROOT_CANONICAL ? canonical : s->root, &st, 0) != 0) return false;
    bool same = st.st_dev == page->root_dev && st.st_ino == page->root_ino;
    __atomic_store_n(known, same ? SAME : OTHER, __ATOMIC_RELAXED);
    return same;
}

/* Opens what lies at `path` below the session's root. */
static __attribute__((noinline)) int open_below_root(struct maps* m, struct session* s, int spelling,
                                                     struct relative path, struct opening* o) {
    struct monarch_page* page = s->page;
    if (page == NULL || __atomic_load_n(&page->ended, __ATOMIC_RELAXED)) return attempt_source(o);

    /* One buffer for all tiers: the relative path, and room before it for each tier's folder. */
    const size_t room = strlen(path.head) + strlen(path.tail) + 3;
    if (room > 8192) return attempt_source(o);
    char buffer[s->longest + room];
    char* rel = buffer + s->longest;
    bool slash_at_end;
    const int length = path_normalise(path, rel, room, &slash_at_end);
    if (length <= 0 || slash_at_end || !root_is_ours(s, spelling)) return attempt_source(o);

    const uint64_t hash = monarch_hash(rel + 1, (uint64_t)length - 1);
    struct stat st;
    ring_join(s);
    wait_first(s);
    if (!__atomic_load_n(&page->disabled, __ATOMIC_ACQUIRE)) {
        for (uint32_t i = 0; i < s->tiers; i++) {
            const struct tier* t = &s->tier[i];
            char* copy = rel - t->length;
            memmove(copy, t->folder, t->length);
            int fd = attempt_copy(o, copy, &st);
            if (fd < 0) continue;
            copy_opened(m, t, &st);
            __atomic_fetch_add(&page->counters.opens_local, 1, __ATOMIC_RELAXED);
            ring_record(s, MONARCH_OPEN, (uint8_t)i, hash);
            return fd;
        }
    }
    int fd = attempt_source(o);
    if (fd >= 0 && sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        __atomic_fetch_add(&page->counters.opens_source, 1, __ATOMIC_RELAXED);
        ring_record(s, MONARCH_OPEN, MONARCH_TIER_SOURCE, hash);
    }
    return fd;
}

/* ---- which data set ---- */

/* The session in whose data set base/path lies, as it is spelled; of several, the innermost. `base` is
 * resolved, and empty for an absolute path. */
static struct session* find_spelled(struct maps* m, const char* base, const char* path, int* spelling,
                                    struct relative* rel) {
    struct session* found = NULL;
    bool found_in_path = false;
    const bool relative = path[0] != '/';
    for (uint32_t i = 0; i < m->sessions; i++) {
        struct session* s = &m->session[i];
        for (int k = 0; k < ROOT_SPELLINGS; k++) {
            const char* root = k == ROOT_AS_GIVEN ? s->root : map_other_spelling(s);
            if (root == NULL) continue;
            const char* rest;
            struct relative place;
            bool in_path = true;
            if (base[0] != '\0' && (rest = path_below(root, base, false)) != NULL) {
                place = (struct relative){rest, path};
                in_path = false;
            } else {
                const char* below_base = base[0] == '\0' ? root : path_below(base, root, false);
                rest = below_base == NULL ? NULL : path_below(below_base, path, relative);
                if (rest == NULL) continue;
                place = (struct relative){"", rest};
            }
            const char* found_rest = found == NULL ? NULL : found_in_path ? rel->tail : rel->head;
            if (found != NULL && (in_path == found_in_path ? rest <= found_rest : found_in_path)) continue;
            found = s;
            found_in_path = in_path;
            *rel = place;
            *spelling = k;
        }
    }
    return found;
}

/* Folders that are known to lie in no data set, by the hash of their spelling. An entry that is out of date
 * costs locality, never a wrong byte; that a folder does lie in a data set is found out anew at each open. */
enum { FOREIGN_SLOTS = 2048 };
static uint64_t foreign[FOREIGN_SLOTS];

/* `start` stands for the folder that the path begins in. */
static uint64_t folder_hash(uint64_t start, const char* path) {
    const char* slash = strrchr(path, '/');
    return path_hash(start, path, slash == NULL ? 0 : (size_t)(slash - path)) | 1;
}

static bool is_foreign(uint64_t hash) {
    return __atomic_load_n(&foreign[hash / 2 % FOREIGN_SLOTS], __ATOMIC_RELAXED) == hash;
}

/* A negative answer holds only if every root was known by its real name. */
static void remember_foreign(const struct maps* m, uint64_t hash) {
    for (uint32_t i = 0; i < m->sessions; i++) {
        const struct session* s = &m->session[i];
        if (s->page != NULL && map_canonical(s) == NULL &&
            !__atomic_load_n(&s->page->ended, __ATOMIC_RELAXED))
            return;
    }
    __atomic_store_n(&foreign[hash / 2 % FOREIGN_SLOTS], hash, __ATOMIC_RELAXED);
}

/* Follows the links of the path's folder, until a data set's root is reached. */
static struct session* find_through_links(struct maps* m, struct walk* w, int* spelling,
                                          struct relative* rel) {
    while (!walk_at_last(w) && walk_step(w, true) > 0) {
        for (uint32_t i = 0; i < m->sessions; i++) {
            struct session* s = &m->session[i];
            for (int k = 0; k < ROOT_SPELLINGS; k++) {
                const char* root = k == ROOT_AS_GIVEN ? s->root : map_canonical(s);
                if (root == NULL || strcmp(root, w->text) != 0) continue;
                *spelling = k;
                *rel = (struct relative){"", w->text + w->rest};
                return s;
            }
        }
    }
    return NULL;
}

static LARGE_FRAME int open_absolute(struct maps* m, uint64_t hash, struct opening* o) {
    struct walk w;
    struct relative rel;
    int spelling;
    if (!walk_start(&w, AT_FDCWD, o->path)) return attempt_source(o);
    struct session* s = find_through_links(m, &w, &spelling, &rel);
    if (s != NULL) return open_below_root(m, s, spelling, rel, o);
    remember_foreign(m, hash);
    return attempt_source(o);
}

static LARGE_FRAME int open_relative(struct maps* m, uint64_t hash, struct opening* o) {
    struct walk w;
    struct relative rel;
    int spelling;
    if (!walk_start(&w, o->dirfd, o->path)) return attempt_source(o);
    struct session* s = find_spelled(m, w.text, o->path, &spelling, &rel);
    if (s != NULL) return open_below_root(m, s, spelling, rel, o);
    if (hash == 0) {
        hash = folder_hash(path_hash(1, w.text, (size_t)w.done), o->path);
        if (is_foreign(hash)) return attempt_source(o);
    }
    s = find_through_links(m, &w, &spelling, &rel);
    if (s != NULL) return open_below_root(m, s, spelling, rel, o);
    remember_foreign(m, hash);
    return attempt_source(o);
}

int read_open(struct maps* m, struct opening* o) {
    uint64_t hash = 0;
    if (o->path[0] == '\0') return attempt_source(o);
    if (o->path[0] != '/') {
        if (o->dirfd != AT_FDCWD) { /* what folder it is costs less to ask than what its name is */
            struct stat st;
            if (sys_fstat(o->dirfd, &st) != 0) return attempt_source(o);
            const uint64_t folder[2] = {st.st_dev, st.st_ino};
            hash = folder_hash(path_hash(2, (const char*)folder, sizeof folder), o->path);
            if (is_foreign(hash)) return attempt_source(o);
        }
        return open_relative(m, hash, o);
    }
    struct relative rel;
    int spelling;
    struct session* s = find_spelled(m, "", o->path, &spelling, &rel);
    if (s != NULL) return open_below_root(m, s, spelling, rel, o);
    if (path_system(o->path)) return attempt_source(o);
    hash = folder_hash(0, o->path);
    return is_foreign(hash) ? attempt_source(o) : open_absolute(m, hash, o);
}

/* The session's maps. Every thread that finds none reads them by itself into memory of its own; one of them
 * wins. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/sys.h"

extern char** environ __attribute__((weak));
extern unsigned long getauxval(unsigned long) __attribute__((weak));

static struct maps no_session;
struct maps* map_current;

const char* map_environment(const char* name) {
    if (&environ == NULL || environ == NULL) return NULL;
    size_t length = strlen(name);
    for (char** e = environ; *e != NULL; e++)
        if ((*e)[0] == name[0] && strncmp(*e, name, length) == 0 && (*e)[length] == '=')
            return *e + length + 1;
    return NULL;
}

/* A program that runs with more rights than its caller must not be steered by the caller's environment. */
static bool privileged(void) {
    if (getauxval != NULL && getauxval(AT_SECURE) != 0) return true;
    return sys_call(SYS_getuid, 0, 0, 0, 0, 0, 0) != sys_call(SYS_geteuid, 0, 0, 0, 0, 0, 0) ||
           sys_call(SYS_getgid, 0, 0, 0, 0, 0, 0) != sys_call(SYS_getegid, 0, 0, 0, 0, 0, 0);
}

/* Is it absolute, without "//", "." and ".." components, and more than a slash? */
static bool is_normal(const char* path) {
    char normal[4096];
    bool slash;
    if (path[0] != '/' || strlen(path) >= sizeof normal) return false;
    int length = path_normalise((struct relative){path, ""}, normal, sizeof normal, &slash);
    return length > 0 && strcmp(normal, path) == 0;
}

/* One session from its map's text: NUL-ended "key=value" records, which stay where they are. */
static bool parse(struct session* s, const char* text, const char* end) {
    uint32_t ids = 0;
    for (const char* record = text; record < end; record += strlen(record) + 1) {
        const char* value = strchr(record, '=');
        if (value == NULL) return false;
        size_t key = (size_t)(value++ - record);
        if (key == 4 && memcmp(record, "root", 4) == 0) {
            s->root = value;
        } else if (key == 4 && memcmp(record, "lock", 4) == 0) {
            s->lock = value;
        } else if (key == 4 && memcmp(record, "tier", 4) == 0) {
            if (s->tiers == MONARCH_MAX_TIERS || !is_normal(value)) return false;
            s->tier[s->tiers++].folder = value;
        } else if (key == 3 && memcmp(record, "ids", 3) == 0) {
            if (ids < MONARCH_MAX_TIERS) s->tier[ids++].ids_path = value;
        }
    }
    if (s->root == NULL || !is_normal(s->root)) return false;
    s->root_length = s->longest = (uint32_t)strlen(s->root);
    for (uint32_t i = 0; i < s->tiers; i++) {
        struct tier* t = &s->tier[i];
        t->length = (uint32_t)strlen(t->folder);
        t->store_length = (uint32_t)(strrchr(t->folder, '/') - t->folder);
        if (t->length > s->longest) s->longest = t->length;
        struct stat st;
        if (sys_fstatat(AT_FDCWD, t->folder, &st, 0) == 0) t->dev = st.st_dev;
    }
    return true;
}

LARGE_FRAME void* map_file(const char* folder, const char* name, size_t bytes) {
    char path[4096];
    bool slash;
    struct stat st;
    if (path_normalise((struct relative){folder, name}, path, sizeof path, &slash) < 0) return NULL;
    int fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0) return NULL;
    long at = -1;
    if (sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= bytes)
        at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    sys_close(fd);
    return at < 0 && at >= -4095 ? NULL : (void*)at;
}

static struct monarch_page* map_page(const char* folder) {
    struct monarch_page* page = map_file(folder, "page", sizeof *page);
    if (page == NULL) return NULL;
    if (page->magic == MONARCH_PAGE_MAGIC && page->version == MONARCH_SHM_VERSION &&
        page->bytes == sizeof *page)
        return page;
    sys_munmap(page, sizeof *page);
    return NULL;
}

/* Reads all of "FOLDER/map" to `to`, with a NUL byte after it. Returns its length or minus the error number.
 */
static LARGE_FRAME long read_map(const char* folder, char* to) {
    char path[4096];
    bool slash;
    if (path_normalise((struct relative){folder, "map"}, path, sizeof path, &slash) < 0) return -ENOENT;
    int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0) return fd;
    long length = 0, n;
    while ((n = sys_read(fd, to + length, (size_t)(MONARCH_MAP_BYTES - length))) != 0) {
        if (n == -EINTR) continue;
        if (n < 0) break;
        length += n;
    }
    sys_close(fd);
    if (n < 0 || length == 0 || to[length - 1] != '\0') return -EINVAL;
    return length;
}

/* Makes m the maps, unless another thread came first. */
static struct maps* settle(struct maps* m) {
    struct maps* none = NULL;
    if (__atomic_compare_exchange_n(&map_current, &none, m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return m;
    return none;
}

/* No page is larger. The arena's first one is wiped at fork and holds the process's number. */
enum { LARGEST_PAGE = 65536, ARENA_FOLDER = 4096, ARENA_SESSION = MONARCH_MAP_BYTES + ARENA_FOLDER };

uint32_t map_process(void) {
    const struct maps* m = __atomic_load_n(&map_current, __ATOMIC_ACQUIRE);
    uint32_t* known = m == NULL ? NULL : m->process;
    if (known == NULL) return sys_getpid();
    uint32_t number = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (number == 0) {
        number = sys_getpid();
        __atomic_store_n(known, number, __ATOMIC_RELAXED);
    }
    return number;
}

LARGE_FRAME struct maps* map_load(void) {
    if (&environ == NULL || environ == NULL) return &no_session; /* so early that nobody can tell yet */
    const char* job = map_environment("MONARCH_SESSION");
    const char* disable = map_environment("MONARCH_DISABLE");
    if (job == NULL || job[0] != '/' || strlen(job) > ARENA_FOLDER - 16 ||
        (disable != NULL && disable[0] != '\0' && strcmp(disable, "0") != 0) || privileged())
        return settle(&no_session);

    /* Address space for the largest maps possible; pages that are not written cost nothing. */
    size_t bytes = LARGEST_PAGE + sizeof(struct maps) + (size_t)MONARCH_MAX_SESSIONS * ARENA_SESSION;
    long arena =
        sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (arena < 0 && arena >= -4095) return &no_session;
    struct maps* m = (struct maps*)(arena + LARGEST_PAGE);
    if (sys_call(SYS_madvise, arena, LARGEST_PAGE, 18 /* MADV_WIPEONFORK */, 0, 0, 0) == 0)
        m->process = (uint32_t*)arena;
    char* at = (char*)(m + 1);
    long error = 0;
    for (int number = 0; number < MONARCH_MAX_SESSIONS; number++) {
        char name[3] = {(char)('0' + number / 10), (char)('0' + number % 10), '\0'};
        bool slash;
        int length =
            path_normalise((struct relative){job, number < 10 ? name + 1 : name}, at, ARENA_FOLDER, &slash);
        char* text = at + length + 1;
        error = length < 0 ? -ENOENT : read_map(at, text);
        if (error < 0 && error != -EINVAL) break; /* no more of them */
        struct session* s = &m->session[m->sessions];
        if (error < 0 || !parse(s, text, text + error)) { /* garbage: this one is left out */
            memset(s, 0, sizeof *s);
            continue;
        }
        s->folder = at;
        s->page = map_page(at);
        m->sessions++;
        at = text + error;
    }
    bool again = error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EINTR;
    if (m->sessions == 0 || again) { /* out of descriptors, say: the next call tries again */
        for (uint32_t i = 0; i < m->sessions; i++)
            if (m->session[i].page != NULL) sys_munmap(m->session[i].page, sizeof *m->session[i].page);
        sys_munmap((void*)arena, bytes);
        return again ? &no_session : settle(&no_session);
    }
    uintptr_t used = ((uintptr_t)at + LARGEST_PAGE - 1) & ~(uintptr_t)(LARGEST_PAGE - 1);
    const uintptr_t end = (uintptr_t)arena + bytes;
    if (used > end) used = end;
    if (used < end) sys_munmap((void*)used, end - used);
    struct maps* winner = settle(m);
    if (winner != m) {
        for (uint32_t i = 0; i < m->sessions; i++)
            if (m->session[i].page != NULL) sys_munmap(m->session[i].page, sizeof *m->session[i].page);
        sys_munmap((void*)arena, used - (uintptr_t)arena);
    }
    return winner;
}

const char* map_canonical(const struct session* s) {
    const struct monarch_page* page = s->page;
    if (page == NULL || __atomic_load_n(&page->canonical_ready, __ATOMIC_ACQUIRE) == 0) return NULL;
    /* Anybody of the job can write here. */
    if (page->canonical[0] != '/' || page->canonical[1] == '\0' ||
        page->canonical[sizeof page->canonical - 1] != '\0')
        return NULL;
    return page->canonical;
}

const char* map_other_spelling(struct session* s) {
    uint32_t known = __atomic_load_n(&s->one_spelling, __ATOMIC_RELAXED);
    if (known == 1) return NULL;
    const char* canonical = map_canonical(s);
    if (canonical == NULL || known == 2) return canonical;
    known = strcmp(canonical, s->root) == 0 ? 1 : 2;
    __atomic_store_n(&s->one_spelling, known, __ATOMIC_RELAXED);
    return known == 1 ? NULL : canonical;
}

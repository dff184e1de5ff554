/* A descriptor of a copy: whose copy it is. There is no table of descriptors to keep in step with dup, close
 * and exec: the copy itself says it, by an extended attribute or in its tier's table. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "preload/preload.h"
#include "preload/sys.h"

/* Copies that this process has opened, by the hash of device and inode: their place need not be asked for
 * again. */
enum { OPENED_SLOTS = 1024 };
static uint64_t opened[OPENED_SLOTS];

static uint64_t file_hash(const struct stat* st) {
    const uint64_t file[2] = {st->st_dev, st->st_ino};
    return path_hash(0, (const char*)file, sizeof file) | 1;
}

void copy_opened(struct maps* m, const struct tier* t, const struct stat* st) {
    const uint64_t hash = file_hash(st);
    __atomic_store_n(&opened[hash / 2 % OPENED_SLOTS], hash, __ATOMIC_RELAXED);
    if (t->dev == st->st_dev) return;
    for (int i = 0; i < OTHER_DEVICES; i++) {
        uint64_t none = 0;
        if (__atomic_load_n(&m->other_dev[i], __ATOMIC_RELAXED) == st->st_dev) return;
        if (__atomic_compare_exchange_n(&m->other_dev[i], &none, (uint64_t)st->st_dev, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

static bool on_a_tier(const struct maps* m, uint64_t dev) {
    for (int i = 0; i < OTHER_DEVICES; i++)
        if (__atomic_load_n(&m->other_dev[i], __ATOMIC_RELAXED) == dev) return true;
    for (uint32_t i = 0; i < m->sessions; i++)
        for (uint32_t k = 0; k < m->session[i].tiers; k++)
            if (m->session[i].tier[k].dev == dev) return true;
    return false;
}

/* The tier of the store that the resolved path lies in (also when it has been moved to the store's tmp). */
static struct tier* tier_of(struct maps* m, const char* path, struct session** session) {
    for (uint32_t i = 0; i < m->sessions; i++) {
        for (uint32_t k = 0; k < m->session[i].tiers; k++) {
            struct tier* t = &m->session[i].tier[k];
            if (strncmp(path, t->folder, t->store_length) != 0 || path[t->store_length] != '/') continue;
            *session = &m->session[i];
            return t;
        }
    }
    return NULL;
}

/* Maps the tier's table of identities, once. */
static const struct monarch_ids* table_of(struct tier* t) {
    static const struct monarch_ids none;
    const struct monarch_ids* ids = __atomic_load_n(&t->ids, __ATOMIC_ACQUIRE);
    if (ids != NULL) return ids == &none ? NULL : ids;
    struct stat st;
    long at = -1;
    int fd = sys_openat(AT_FDCWD, t->ids_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0) return NULL;
    if (sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= sizeof *ids)
        at = sys_mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd);
    sys_close(fd);
    if (at < 0 && at >= -4095) return NULL;
    ids = (const struct monarch_ids*)at;
    const uint64_t fit = ((uint64_t)st.st_size - sizeof *ids) / sizeof ids->entry[0];
    if (ids->magic == MONARCH_IDS_MAGIC && ids->slots > 0 && ids->slots <= fit) {
        __atomic_store_n(&t->ids_slots, ids->slots, __ATOMIC_RELEASE);
    } else {
        sys_munmap((void*)at, (size_t)st.st_size);
        ids = &none;
    }
    const struct monarch_ids* empty = NULL;
    if (!__atomic_compare_exchange_n(&t->ids, &empty, ids, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (ids != &none) sys_munmap((void*)at, (size_t)st.st_size);
        ids = empty;
    }
    return ids == &none ? NULL : ids;
}

static bool look_up(struct tier* t, uint64_t ino, struct monarch_source_id* id) {
    if (t->ids_path == NULL || t->ids_path[0] == '\0') return false;
    const struct monarch_ids* ids = table_of(t);
    if (ids == NULL) return false;
    const uint64_t slots = __atomic_load_n(&t->ids_slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < slots; i++) {
        const struct monarch_ids_entry* e = &ids->entry[(ino + i) % slots];
        uint64_t there = __atomic_load_n(&e->ino, __ATOMIC_ACQUIRE);
        if (there == 0) return false;
        if (there != ino) continue;
        *id = e->id;
        return true;
    }
    return false;
}

LARGE_FRAME static bool identify(struct maps* m, int fd, const struct stat* st,
                                 struct monarch_source_id* id) {
    /* The attribute alone proves nothing: `cp -a` of a copy takes it along. The copy's place does. */
    struct session* s;
    struct monarch_source_id found;
    bool attribute = sys_fgetxattr(fd, MONARCH_XATTR, &found, sizeof found) == (long)sizeof found;
    const uint64_t hash = file_hash(st);
    if (attribute && __atomic_load_n(&opened[hash / 2 % OPENED_SLOTS], __ATOMIC_RELAXED) == hash) {
        *id = found;
        return true;
    }
    bool tables = false;
    for (uint32_t i = 0; i < m->sessions; i++)
        for (uint32_t k = 0; k < m->session[i].tiers; k++)
            if (m->session[i].tier[k].ids_path != NULL && m->session[i].tier[k].ids_path[0] != '\0')
                tables = true;
    if (!attribute && !tables) return false;
    struct walk w;
    struct tier* t = walk_descriptor(&w, fd) ? tier_of(m, w.text, &s) : NULL;
    if (t == NULL || (!attribute && !look_up(t, st->st_ino, &found))) return false;
    *id = found;
    return true;
}

bool copy_identity(struct maps* m, int fd, const struct stat* st, struct monarch_source_id* id) {
    return m->sessions > 0 && S_ISREG(st->st_mode) && on_a_tier(m, st->st_dev) && identify(m, fd, st, id);
}

bool copy_source(struct maps* m, const char* path, char* to, size_t size) {
    struct session* s;
    struct tier* t = tier_of(m, path, &s);
    if (t == NULL) return false;
    const char* rel = path_below(t->folder, path, false);
    if (rel == NULL || rel[0] == '\0') return false;
    if (to == NULL) return true;
    size_t length = strlen(rel);
    if (s->root_length + length + 1 > size) return false;
    memmove(to, s->root, s->root_length);
    memmove(to + s->root_length, rel, length + 1);
    /* What the kernel appends to the name of an open file that has been removed (evicted, or retired). */
    static const char deleted[] = " (deleted)";
    const size_t suffix = sizeof deleted - 1;
    struct stat st;
    if (length > suffix && strcmp(rel + length - suffix, deleted) == 0 &&
        sys_fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        to[s->root_length + length - suffix] = '\0';
    return true;
}

LARGE_FRAME bool copy_source_of(struct maps* m, int fd, char* to, size_t size) {
    struct walk w;
    return m->sessions > 0 && walk_descriptor(&w, fd) && copy_source(m, w.text, to, size);
}

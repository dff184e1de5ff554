/* A call that changes the source: which names it retires, and when. Paths are always followed to their end
 * here, never looked up in a cache: a copy that is not retired means wrong bytes. */
#define _GNU_SOURCE
#include <string.h>

#include "preload/preload.h"
#include "preload/sys.h"

enum verdict { FOREIGN, OURS, A_COPY };

/* ---- the names that lead to the root ---- */

/* One walk to the root; for each name on the way that is a link or a folder, is it `name` (resolved)? With
 * name NULL, the hashes of the last components are collected instead. */
static LARGE_FRAME bool on_the_way(struct session* s, const char* name) {
    struct walk w;
    uint64_t hash[ROOT_NAMES];
    uint32_t n = 0;
    if (!walk_start(&w, AT_FDCWD, s->root)) return false;
    for (;;) {
        /* The next name, before it is followed: what is resolved,  + "/" + component. */
        const char* at = w.text + w.rest;
        while (*at == '/') at++;
        size_t length = strcspn(at, "/");
        if (length == 0) break;
        if (name == NULL) {
            if (n < ROOT_NAMES) hash[n++] = path_hash(0, at, length);
        } else if (strncmp(name, w.text, (size_t)w.done) == 0 && name[w.done] == '/' &&
                   strncmp(name + w.done + 1, at, length) == 0 && name[w.done + 1 + length] == '\0') {
            return true;
        }
        if (walk_step(&w, true) <= 0) break;
    }
    if (name != NULL) return false;
    for (uint32_t i = 0; i < n; i++) __atomic_store_n(&s->root_name[i], hash[i], __ATOMIC_RELAXED);
    __atomic_store_n(&s->names, n + 1, __ATOMIC_RELEASE);
    return false;
}

/* Would the call, which takes away `name` (resolved, not followed), make the root another folder? */
static bool leads_to_root(struct session* s, const char* name, int how) {
    uint32_t names = __atomic_load_n(&s->names, __ATOMIC_ACQUIRE);
    if (names == 0) {
        on_the_way(s, NULL);
        names = __atomic_load_n(&s->names, __ATOMIC_ACQUIRE);
        if (names == 0) return false;
    }
    const char* last = strrchr(name, '/');
    const uint64_t hash = last == NULL ? 0 : path_hash(0, last + 1, strlen(last + 1));
    bool possible = names - 1 == ROOT_NAMES;
    for (uint32_t i = 0; i + 1 < names && !possible; i++)
        possible = __atomic_load_n(&s->root_name[i], __ATOMIC_RELAXED) == hash;
    if (!possible || !on_the_way(s, name)) return false;
    struct stat st;
    return (how & TREE) || sys_fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode);
}

/* ---- which data set ---- */

/* The rest of the resolved path below the session's real root, or NULL. */
static LARGE_FRAME const char* below_walked_root(const struct session* s, const char* path) {
    struct walk root;
    if (!walk_start(&root, AT_FDCWD, s->root) || !walk_all(&root, true) || root.text[0] == '\0') return NULL;
    return path_below(root.text, path, false);
}

static const char* below_root(const struct session* s, const char* path) {
    const char* rest = path_below(s->root, path, false);
    if (rest != NULL) return rest;
    const char* canonical = map_canonical(s);
    return canonical != NULL ? path_below(canonical, path, false) : below_walked_root(s, path);
}

/* As the path is spelled: base (resolved) and path. */
static enum verdict look_at_spelling(struct maps* m, const char* base, const char* path, int how, bool act) {
    enum verdict verdict = FOREIGN;
    for (uint32_t i = 0; i < m->sessions; i++) {
        struct session* s = &m->session[i];
        for (int k = 0; k < ROOT_SPELLINGS; k++) {
            const char* root = k == ROOT_AS_GIVEN ? s->root : map_canonical(s);
            const char* rest;
            struct relative rel;
            if (root == NULL) continue;
            if (base[0] != '\0' && (rest = path_below(root, base, false)) != NULL) {
                rel = (struct relative){rest, path};
            } else {
                const char* below_base = base[0] == '\0' ? root : path_below(base, root, false);
                rest = below_base == NULL ? NULL : path_below(below_base, path, path[0] != '/');
                if (rest == NULL) continue;
                rel = (struct relative){"", rest};
            }
            verdict = OURS;
            if (act) retire(s, rel, how);
        }
    }
    return verdict;
}

static enum verdict look_at_resolved(struct maps* m, struct walk* w, int how, bool act, char* to,
                                     size_t size) {
    enum verdict verdict = FOREIGN;
    if ((how & (TREE | CHAIN)) == 0 && copy_source(m, w->text, to, size)) return A_COPY;
    for (uint32_t i = 0; i < m->sessions; i++) {
        struct session* s = &m->session[i];
        const char* rest = below_root(s, w->text);
        if (rest != NULL) {
            verdict = OURS;
            if (act) retire(s, (struct relative){rest, ""}, how);
        } else if ((how & CHAIN) && leads_to_root(s, w->text, how)) {
            verdict = OURS;
            if (act) retire_all(s);
        }
    }
    return verdict;
}

/* Finds out whose the path is, and retires it if `act`. For a copy's path, its source's path is written to
 * `to`. */
static LARGE_FRAME enum verdict look(struct maps* m, int dirfd, const char* path, int how, bool act, char* to,
                                     size_t size) {
    struct walk w;
    if (path == NULL || path[0] == '\0') return FOREIGN;
    if (strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/tty") == 0) return FOREIGN;
    if (!walk_start(&w, dirfd, path))
        return path[0] == '/' ? look_at_spelling(m, "", path, how, act) : FOREIGN;
    const enum verdict spelled = look_at_spelling(m, w.text, path, how, act);
    if (!walk_all(&w, (how & FOLLOW) != 0)) return spelled;
    const enum verdict resolved = look_at_resolved(m, &w, how, act, to, size);
    return resolved == FOREIGN ? spelled : resolved;
}

bool change_announce(struct maps* m, const char* path, int how, bool act, char* to, size_t size) {
    return m->sessions > 0 && look(m, AT_FDCWD, path, how, act, to, size) == A_COPY;
}

/* ---- the calls ---- */

enum { SOURCE_BYTES = 4096 };

static long make_call(const struct change* c) {
    const long* a = c->argument;
    if (c->number == SYS_openat) return read_source((int)a[0], (const char*)a[1], (int)a[2], (unsigned)a[3]);
    return sys_call(c->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static enum verdict look_at(struct maps* m, const struct change* c, int i, bool act, char* to, size_t size) {
    const int dirfd = c->at[i].dirfd < 0 ? AT_FDCWD : (int)c->argument[(int)c->at[i].dirfd];
    return look(m, dirfd, (const char*)c->argument[(int)c->at[i].path], c->at[i].how, act, to, size);
}

/* The path is a copy's (/proc/self/fd/N of a redirected descriptor): the call goes to the source. */
static LARGE_FRAME long change_source(struct maps* m, struct change* c, int i) {
    char source[SOURCE_BYTES];
    if (look_at(m, c, i, false, source, sizeof source) != A_COPY) return make_call(c);
    c->argument[(int)c->at[i].path] = (long)source;
    if (c->at[i].dirfd >= 0) c->argument[(int)c->at[i].dirfd] = AT_FDCWD;
    return change_path(m, c);
}

long change_path(struct maps* m, struct change* c) {
    enum verdict verdict[2] = {FOREIGN, FOREIGN};
    for (int i = 0; i < 2 && m->sessions > 0; i++) {
        if (c->at[i].path < 0) continue;
        verdict[i] = look_at(m, c, i, false, NULL, 0);
        if (verdict[i] == A_COPY) return change_source(m, c, i);
    }
    for (int i = 0; i < 2; i++)
        if (verdict[i] == OURS && (c->at[i].how & AFTER) == 0) look_at(m, c, i, true, NULL, 0);
    const long answer = make_call(c);
    if (answer < 0 && answer >= -4095) return answer;
    for (int i = 0; i < 2; i++)
        if (verdict[i] == OURS && (c->at[i].how & AFTER)) look_at(m, c, i, true, NULL, 0);
    return answer;
}

static LARGE_FRAME enum verdict verdict_of_descriptor(struct maps* m, int fd) {
    struct walk w;
    return walk_descriptor(&w, fd) ? look_at_resolved(m, &w, 0, true, NULL, 0) : FOREIGN;
}

static LARGE_FRAME long change_source_of(struct maps* m, int fd, struct change* by_path) {
    char source[SOURCE_BYTES];
    if (!copy_source_of(m, fd, source, sizeof source)) return -ENOENT;
    by_path->argument[(int)by_path->at[0].path] = (long)source;
    return change_path(m, by_path);
}

long change_descriptor(struct maps* m, int fd, struct change* by_fd, struct change* by_path) {
    if (m->sessions > 0 && verdict_of_descriptor(m, fd) == A_COPY) return change_source_of(m, fd, by_path);
    return change_path(m, by_fd);
}

/* Taking a name out of use. A dangling symbolic link is renamed over the name on every tier, whether a copy
 * is there or not: an open through it fails, and the stager, which publishes by link or RENAME_NOREPLACE,
 * cannot put a copy there any more, not even one that it is finishing right now. The link stays as long as
 * the store. */
#define _GNU_SOURCE
#include <string.h>

#include "preload/preload.h"
#include "preload/sys.h"

void retire_all(struct session* s) {
    if (s->page == NULL) return;
    __atomic_fetch_add(&s->page->retire_lost, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&s->page->disabled, 1, __ATOMIC_RELEASE);
}

/* "STORE/tmp/retired-TID-N": N from a counter, so that a name is tried once. */
static void temporary_name(const struct tier* t, char* to) {
    static uint32_t counter;
    static const char middle[] = "/tmp/retired-";
    memmove(to, t->folder, t->store_length);
    to += t->store_length;
    memmove(to, middle, sizeof middle - 1);
    to += sizeof middle - 1;
    const uint32_t parts[2] = {sys_gettid(), __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED)};
    for (int i = 0; i < 2; i++) {
        if (i > 0) *to++ = '-';
        for (int shift = 28; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[parts[i] >> shift & 15];
    }
    *to = '\0';
}
enum { TEMPORARY_EXTRA = 13 + 8 + 1 + 8 + 1 };

/* Makes the folders between the tier's folder and the name. Returns 0, -ENOTDIR when one of them is retired
 * or a file, or another error. */
static int make_parents(const struct tier* t, char* name) {
    for (char* slash = strchr(name + t->length + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int answer = sys_mkdir(name, 0700);
        *slash = '/';
        if (answer != 0 && answer != -EEXIST) return answer;
    }
    return 0;
}

enum outcome { RETIRED_NOW, RETIRED_BEFORE, FAILED };

/* Is the name retired already, or a folder above it? (Or is that the copy of a file: nothing can be opened
 * below it either.) */
static bool is_retired(const char* name) {
    static const char target[] = MONARCH_RETIRED_TARGET;
    char link[sizeof target];
    const long length = sys_readlink(name, link, sizeof link);
    return length == -ENOTDIR ||
           (length == (long)sizeof target - 1 && memcmp(link, target, sizeof target - 1) == 0);
}

/* Moves a folder out of the way, into the store's tmp, from where the stager removes it. */
static int move_away(const struct tier* t, const char* name) {
    char aside[t->store_length + TEMPORARY_EXTRA];
    int answer = -EEXIST;
    for (int i = 0; i < 1000 && (answer == -EEXIST || answer == -ENOTEMPTY); i++) {
        temporary_name(t, aside);
        answer = sys_rename(name, aside);
    }
    return answer;
}

/* Puts the link at `name` (which is below the tier's folder). Returns 0, or 1 when there is no need to, or
 * minus an error number. */
static int put_link(const struct tier* t, char* name, int how) {
    char link[t->store_length + TEMPORARY_EXTRA];
    int answer = -EEXIST;
    for (int i = 0; i < 1000 && answer == -EEXIST; i++) {
        temporary_name(t, link);
        answer = sys_symlink(MONARCH_RETIRED_TARGET, link);
    }
    if (answer != 0) return answer;
    for (int attempt = 0; attempt < 1000; attempt++) {
        answer = sys_rename(link, name);
        if (answer == 0) return 0;
        if (answer == -ENOENT) { /* the folder is not there, or not any more */
            answer = make_parents(t, name);
            if (answer != 0 && answer != -ENOENT) break;
        } else if (answer == -EISDIR || answer == -ENOTEMPTY || answer == -EEXIST) {
            if ((how & TREE) == 0) { /* a folder is no copy, and the call does not touch its files */
                answer = 1;
                break;
            }
            answer = move_away(t, name);
            if (answer != 0 && answer != -ENOENT && answer != -ENOTDIR) break;
        } else {
            break;
        }
        answer = -EAGAIN;
    }
    sys_unlink(link);
    return answer == -ENOTDIR ? 1 : answer; /* a folder above it has been retired meanwhile */
}

static enum outcome retire_on(const struct tier* t, char* name, int how) {
    if (is_retired(name)) return RETIRED_BEFORE;
    int answer = put_link(t, name, how);
    if (answer == -ENOSPC || answer == -EDQUOT) { /* removing the copy makes room for the link */
        sys_unlink(name);
        answer = put_link(t, name, how);
    }
    if (answer >= 0) return answer == 0 ? RETIRED_NOW : RETIRED_BEFORE;
    sys_unlink(name);
    return FAILED;
}

/* On all tiers; `rel` has room before it for a tier's folder. */
static enum outcome retire_everywhere(struct session* s, char* rel, int how) {
    enum outcome outcome = RETIRED_BEFORE;
    for (uint32_t i = 0; i < s->tiers; i++) {
        char* name = rel - s->tier[i].length;
        memmove(name, s->tier[i].folder, s->tier[i].length);
        const enum outcome here = retire_on(&s->tier[i], name, how);
        if (here == FAILED || (here == RETIRED_NOW && outcome != FAILED)) outcome = here;
    }
    return outcome;
}

void retire(struct session* s, struct relative path, int how) {
    const size_t room = strlen(path.head) + strlen(path.tail) + 3;
    if (room > 8192) return;
    char buffer[s->longest + room];
    char* rel = buffer + s->longest;
    bool slash_at_end;
    const int length = path_normalise(path, rel, room, &slash_at_end);
    if (length < 0) return; /* ".." after the root: the resolved path tells */

    /* What is there now? A folder's own attributes are nobody's copy. */
    struct stat st;
    char* name = rel - s->root_length;
    memmove(name, s->root, s->root_length);
    const int there = sys_fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW);
    if (there == 0 && S_ISDIR(st.st_mode) && (how & TREE) == 0) return;
    if (length == 0) { /* the root itself goes away, or is a link that does */
        if (how & (TREE | CHAIN)) retire_all(s);
        return;
    }
    if (there == -ENOENT && (how & (NEW | AFTER)) == 0) return;
    /* Bytes that have other names, too, which nobody can tell us. */
    if (there == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1 && (how & BYTES)) retire_all(s);

    enum outcome outcome = retire_everywhere(s, rel, how);
    if (s->page != NULL && outcome == RETIRED_NOW) __atomic_fetch_add(&s->page->retired, 1, __ATOMIC_RELAXED);
    /* The stager may have removed the link together with a copy that it was just evicting. After it has
     * removed a name it reads the ring before it stages that name again: so the record comes first, then
     * another look. */
    const uint64_t hash = monarch_hash(rel + 1, (uint64_t)length - 1);
    for (int i = 0; i < 100 && outcome != FAILED; i++) {
        if (s->page != NULL) {
            ring_join(s);
            ring_record(s, MONARCH_RETIRE, MONARCH_TIER_SOURCE, hash);
        }
        outcome = retire_everywhere(s, rel, how);
        if (outcome == RETIRED_BEFORE) return;
    }
    retire_all(s);
}

/* A lock on a copy would keep no writer out: writers open the source. So a descriptor of a copy on which a lock
 * is asked becomes one of the source, at the same place in the file, and the lock is asked there. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/sys.h"

/* Opens the source of the copy that `fd` is, as `fd` was opened. -ENOENT when it is not there any more: a file
 * of another name or none is what this descriptor would be without Monarch, and no writer gets at it. */
static LARGE_FRAME int open_source(struct maps* m, int fd, const struct monarch_source_id* id) {
    char path[4096];
    struct stat st;
    if (!copy_source_of(m, fd, path, sizeof path)) return -ENOENT;
    const long flags = sys_call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    if (flags < 0) return (int)flags;
    /* Not what the name has become, should that block: a FIFO. */
    int source = sys_openat(AT_FDCWD, path, (int)flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (source < 0) return source;
    if (sys_fstat(source, &st) == 0 && st.st_dev == id->dev && st.st_ino == id->ino) {
        sys_call(SYS_fcntl, source, F_SETFL, flags, 0, 0, 0);
        return source;
    }
    sys_close(source);
    return -ENOENT;
}

/* It counts as an open of the source, then. */
static LARGE_FRAME void count(struct maps* m, int fd) {
    struct walk w;
    struct session* s = walk_descriptor(&w, fd) ? copy_session(m, w.text) : NULL;
    if (s == NULL || s->page == NULL) return;
    char source[4096];
    __atomic_fetch_sub(&s->page->counters.opens_local, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->page->counters.opens_source, 1, __ATOMIC_RELAXED);
    if (!copy_source(m, w.text, source, sizeof source)) return;
    ring_join(s);
    const char* rel = source + s->root_length + 1;
    ring_record(s, MONARCH_MOVED, MONARCH_TIER_SOURCE, monarch_hash(rel, strlen(rel)));
}

static bool is_copy(struct maps* m, int fd, struct monarch_source_id* id) {
    struct stat st;
    return m->sessions > 0 && sys_fstat(fd, &st) == 0 && copy_identity(m, fd, &st, id);
}

/* Makes `fd`, a copy's, a descriptor of its source. Place and flags stay. False: the source cannot be opened. */
static bool move(struct maps* m, int fd, const struct monarch_source_id* id) {
    const int source = open_source(m, fd, id);
    if (source < 0) return false;
    count(m, fd);
    const long at = sys_call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
    const long flags = sys_call(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0);
    if (at > 0) sys_call(SYS_lseek, source, at, SEEK_SET, 0, 0, 0);
    const long moved = sys_call(SYS_dup3, source, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
    sys_close(source);
    return moved >= 0;
}

void lock_at_source(int fd) {
    struct maps* m = map_get();
    struct monarch_source_id id;
    if (is_copy(m, fd, &id)) move(m, fd, &id);
}

long lock_flock(int fd, int operation) {
    /* `flock 9`, run by a shell that opened descriptor 9: when we are gone, the lock has to stay with what the shell
     * has. That is the copy; locking it as well keeps out whoever does the same on this node. */
    struct maps* m = map_get();
    struct monarch_source_id id;
    const long copy = is_copy(m, fd, &id) ? sys_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0) : -1;
    const bool moved = copy >= 0 && move(m, fd, &id);
    long answer = sys_call(SYS_flock, fd, operation, 0, 0, 0, 0);
    if (moved && answer == 0) {
        answer = sys_call(SYS_flock, copy, operation, 0, 0, 0, 0);
        if (answer != 0) sys_call(SYS_flock, fd, LOCK_UN, 0, 0, 0, 0);
    }
    if (copy >= 0) sys_close((int)copy);
    return answer;
}

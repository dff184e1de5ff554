/* Waiting at a process's first open of a data-set file (--monarch-wait), in slices, so that whatever ends it
 * is seen: the stager says go, time is up, the session is over, or nobody is left who could say go. A signal
 * handler runs in between and the wait goes on; a signal that kills, kills. */
#define _GNU_SOURCE
#include <linux/futex.h>

#include "preload/preload.h"
#include "preload/sys.h"

enum { SLICE_NS = 100000000 };
static const uint64_t undecided_ns = (uint64_t)MONARCH_UNDECIDED_MS * 1000000u;

enum stager { STAGER_LIVES, STAGER_NO_LOCK, STAGER_NO_SESSION };

static enum stager look_for_stager(const struct session* s) {
    struct stat st;
    if (sys_fstatat(AT_FDCWD, s->folder, &st, 0) == -ENOENT) return STAGER_NO_SESSION;
    if (s->lock == NULL) return STAGER_LIVES;
    int fd = sys_openat(AT_FDCWD, s->lock, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd == -ENOENT) return STAGER_NO_LOCK;
    if (fd < 0) return STAGER_LIVES; /* cannot tell; time will end it */
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int answer = (int)sys_call(SYS_fcntl, fd, F_OFD_GETLK, (long)&lock, 0, 0, 0);
    sys_close(fd);
    return answer == 0 && lock.l_type == F_UNLCK ? STAGER_NO_LOCK : STAGER_LIVES;
}

static LARGE_FRAME void wait_long(struct session* s) {
    struct monarch_page* page = s->page;
    const uint64_t start = sys_now_ns();
    uint64_t lock_free_since = 0;
    for (;;) {
        uint32_t wait = __atomic_load_n(&page->wait, __ATOMIC_ACQUIRE);
        uint32_t state = __atomic_load_n(&page->state, __ATOMIC_RELAXED);
        if (wait != MONARCH_WAIT_UNDECIDED && wait != MONARCH_WAIT_HOLD) break;
        if (__atomic_load_n(&page->ended, __ATOMIC_RELAXED) ||
            __atomic_load_n(&page->disabled, __ATOMIC_RELAXED) || state >= MONARCH_STAGED)
            break;

        const uint64_t now = sys_now_ns();
        uint64_t deadline = start + undecided_ns;
        if (wait == MONARCH_WAIT_HOLD) {
            /* The first waiter of the session starts the clock; nobody waits longer than the limit himself.
             */
            const uint64_t limit = __atomic_load_n(&page->wait_limit_ns, __ATOMIC_RELAXED);
            const uint64_t own = start + limit < start ? ~(uint64_t)0 : start + limit;
            uint64_t common = 0;
            if (__atomic_compare_exchange_n(&page->wait_deadline_ns, &common, own, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
                common = own;
            deadline = common < own ? common : own;
        }
        if (now >= deadline) break;

        /* A stager that is just being started does not hold its lock yet. */
        enum stager stager = look_for_stager(s);
        if (stager == STAGER_NO_SESSION) break;
        if (stager == STAGER_LIVES) {
            lock_free_since = 0;
        } else if (lock_free_since == 0) {
            lock_free_since = now;
        } else if (now - lock_free_since >= (state == MONARCH_STARTING ? undecided_ns : SLICE_NS / 2)) {
            break;
        }

        const uint64_t left = deadline - now;
        struct timespec slice = {0, (long)(left < SLICE_NS ? left : SLICE_NS)};
        sys_call(SYS_futex, (long)&page->wait, FUTEX_WAIT, wait, (long)&slice, 0, 0);
    }
    __atomic_store_n(&s->wait_over, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&page->waited_ns, sys_now_ns() - start, __ATOMIC_RELAXED);
}

void wait_first(struct session* s) {
    if (__atomic_load_n(&s->page->wait, __ATOMIC_ACQUIRE) == MONARCH_WAIT_GO ||
        __atomic_load_n(&s->wait_over, __ATOMIC_ACQUIRE))
        return;
    wait_long(s);
}

/* The parts of libmonarch.so, from the bottom up:
 *
 *   sys.h      system calls
 *   libc.c     libc's own freopen and such
 *   flags.c    what an open means to do
 *   path.c     paths as text: is it below a root, following symbolic links by hand
 *   map.c      the session's maps, read once, at the first call that could matter
 *   ring.c     counters and records for the stager
 *   wait.c     waiting at a process's first open of a data-set file
 *   read.c     an open for reading: tiers first, then the source
 *   copy.c     a descriptor of a copy: whose copy it is
 *   retire.c   taking a name out of use on every tier
 *   change.c   a call that changes the source: what it retires
 *   wrappers.c every symbol that is wrapped, with its real type
 *
 * Rules that hold throughout. Nothing is allocated, no lock is taken, no thread or handler is registered, no
 * constructor runs; state is reached through one pointer that is set once by compare-and-swap, so that
 * threads, signal handlers, fork and vfork at any moment find it whole. Every failure means: as if the
 * library were not there. Functions with a large frame (a path of 4 KiB) are never inlined, so that a call
 * which is not ours fits a small signal stack. */
#ifndef MONARCH_PRELOAD_PRELOAD_H
#define MONARCH_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/shm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LARGE_FRAME __attribute__((noinline))

/* ---- flags.c ---- */

/* Is it an open for reading that a copy can serve? */
bool read_flags(int flags);
bool read_mode(const char* mode);

/* What a call does to the name or the file. */
enum {
    FOLLOW = 1, /* a symbolic link at the end is followed */
    NEW = 2,    /* the name need not exist */
    BYTES = 4,  /* the file's bytes may change */
    AFTER = 8,  /* nothing has changed before the caller has the result: retire when the call went well */
    TREE = 16,  /* a folder's whole tree goes with the name */
    CHAIN = 32, /* if the name leads to the root, the root is another folder afterwards */
};

/* What an open with these flags does, 0 or some of the above; 0: it changes nothing. */
int change_of_flags(int flags);
int change_of_mode(const char* mode);

/* ---- path.c ---- */

/* If `path` lies at or below `root`, the rest of it ("" or beginning with a slash), else NULL. `root` is
 * normal (no "//", no "." or ".." component, no slash at the end); `path` may hold "//" and "/./". A path
 * that is `relative` need not begin with a slash: it goes on where the caller stopped. */
const char* path_below(const char* root, const char* path, bool relative);

/* A path below a root, in one or two pieces: `tail` goes on where `head` ends. */
struct relative {
    const char* head;
    const char* tail;
};

/* Writes the components of head and tail to `to`, each with a slash before it and without empty and "." ones,
 * and a NUL byte. Returns the length, or -1 for a ".." component or for want of room. `*slash_at_end` tells
 * whether the path ended in a slash or "." (it can only be a folder). */
int path_normalise(struct relative path, char* to, size_t size, bool* slash_at_end);

/* Following a path by hand, without a descriptor and without /proc. The first `done` bytes of text are
 * resolved: absolute, free of links, "." and ".."; text + rest is what is still to follow, up to the NUL byte
 * at the end of `text`. */
struct walk {
    int done;
    int rest;
    int links;
    bool blind; /* a component was missing: what comes after it cannot be a link */
    char text[4096 + 256];
};

/* Starts at the root, the current folder or dirfd's, as the call would. False when that has no name or is too
 * long. */
bool walk_start(struct walk* w, int dirfd, const char* path);
/* Starts with the name of an open descriptor, all resolved. False when it has none. */
bool walk_descriptor(struct walk* w, int fd);
/* Resolves the next component; the last one is followed only if `follow` (or a slash stands after it).
 * Returns 1, or 0 at the end, or -1 when the path cannot be followed (too long, too many links). */
int walk_step(struct walk* w, bool follow);
/* All steps. True when the end was reached: text is then the resolved path ("" for the root). */
bool walk_all(struct walk* w, bool follow);
/* Is the next component the last one? */
bool walk_at_last(const struct walk* w);

/* Folders that hold no data set: nothing is loaded for them. */
bool path_system(const char* path);
/* A hash that differs from path to path (not stored anywhere). */
uint64_t path_hash(uint64_t start, const char* bytes, size_t length);
/* The same as "/proc/self/fd/N". */
#define FD_PATH_BYTES 32
void path_of_descriptor(int fd, char to[FD_PATH_BYTES]);

/* ---- map.c ---- */

struct tier {
    const char* folder; /* absolute, normal */
    uint32_t length;
    uint32_t store_length; /* of the folder that `folder` and its sibling tmp lie in */
    uint64_t dev;
    const char* ids_path; /* NULL or "": the tier has extended attributes */
    const struct monarch_ids* ids;
    uint64_t ids_slots;
};

enum { ROOT_AS_GIVEN, ROOT_CANONICAL, ROOT_SPELLINGS };
#define ROOT_NAMES 32

/* One data set. What is not const after loading is read and written atomically. */
struct session {
    const char* folder; /* MONARCH_SESSION/N */
    const char* root;
    const char* lock; /* NULL: unknown */
    uint32_t root_length;
    uint32_t longest; /* length of the longest of the tier folders and the root */
    uint32_t tiers;
    struct tier tier[MONARCH_MAX_TIERS];
    struct monarch_page* page; /* NULL: could not be mapped: nothing is redirected */
    struct monarch_ring* ring; /* NULL: not mapped yet; RING_NONE: cannot be */
    uint32_t registered;       /* the process that has registered: differs after a fork */
    uint32_t wait_over;
    uint32_t one_spelling;                 /* 1: canonical is root, 2: it is not */
    uint32_t root_checked[ROOT_SPELLINGS]; /* enum root_check */
    uint32_t names;                        /* of root_name, plus 1; 0: not computed */
    uint64_t root_name[ROOT_NAMES];        /* hashes of the names that lead to the root */
};

#define OTHER_DEVICES 4

struct maps {
    uint32_t sessions;
    uint32_t* process;                 /* see map_process() */
    uint64_t other_dev[OTHER_DEVICES]; /* further devices seen on copies (overlay file systems); 0: free */
    struct session session[MONARCH_MAX_SESSIONS];
};

extern struct maps* map_current;
struct maps* map_load(void);

/* The maps; without a session, or when anything is wrong with it, maps of no session. */
static inline struct maps* map_get(void) {
    struct maps* m = __atomic_load_n(&map_current, __ATOMIC_ACQUIRE);
    return __builtin_expect(m != NULL, 1) ? m : map_load();
}

/* The value of an environment variable, or NULL. */
const char* map_environment(const char* name);
/* The canonical root, or NULL while the stager has not found it. */
const char* map_canonical(const struct session* s);
/* The same, or NULL when it is spelled as the root is given. */
const char* map_other_spelling(struct session* s);
/* The process's number, without a system call where the kernel wipes a page at fork (4.14); a vfork child
 * says its parent's. */
uint32_t map_process(void);
/* Opens "FOLDER/name" of the session and maps `bytes` of it, shared. NULL on any failure. */
void* map_file(const char* folder, const char* name, size_t bytes);

/* ---- libc.c ---- */

/* libc's function of this name, or NULL. */
void* libc_next(const char* name);
FILE* libc_freopen(const char* path, const char* mode, FILE* stream);

/* ---- ring.c ---- */

#define RING_NONE ((struct monarch_ring*)-1)

/* At each matching open: at the process's first one, maps the ring and registers. */
void ring_join(struct session* s);
void ring_record(struct session* s, enum monarch_record_kind kind, uint8_t tier, uint64_t hash);

/* ---- wait.c ---- */

void wait_first(struct session* s);

/* ---- read.c ---- */

/* One open for reading: of a descriptor (mode NULL) or of a stream. */
struct opening {
    int dirfd;
    const char* path;
    int flags;
    const char* mode; /* of fopen */
    FILE* reopen;     /* freopen's stream, or NULL */
    FILE* stream;     /* the result */
};

/* Opens: a copy if there is one, else the source. Returns the descriptor or minus the error number; streams
 * leave errno as libc set it. */
int read_open(struct maps* m, struct opening* o);
/* The plain open, as if we were not there; a cancellation point like libc's. */
int read_source(int dirfd, const char* path, int flags, unsigned mode);
FILE* read_source_stream(const char* path, const char* mode, FILE* reopen);

/* ---- copy.c ---- */

/* Is the descriptor, whose fstat gave `st`, a copy? Then *id is its source's identity. */
bool copy_identity(struct maps* m, int fd, const struct stat* st, struct monarch_source_id* id);
/* To be called for each copy that is opened. */
void copy_opened(struct maps* m, const struct tier* t, const struct stat* st);
/* If `path` (resolved) is a copy's name, writes the source's path to `to`, if that is not NULL. */
bool copy_source(struct maps* m, const char* path, char* to, size_t size);
/* The same for a descriptor. */
bool copy_source_of(struct maps* m, int fd, char* to, size_t size);

/* ---- retire.c ---- */

/* Takes the path below the session's root out of use on every tier, for good. */
void retire(struct session* s, struct relative path, int how);
/* Everything is opened at the source from now on. */
void retire_all(struct session* s);

/* ---- change.c ---- */

/* A system call with up to two paths among its arguments. */
struct change {
    long number;
    long argument[6];
    struct {
        signed char dirfd; /* index of the argument; -1: none, the current folder */
        signed char path;  /* -1: no path */
        unsigned char how;
    } at[2];
};

/* Retires what the call changes, makes the call, returns the kernel's answer. */
long change_path(struct maps* m, struct change* c);
/* A call that changes the file behind a descriptor: `by_path` is the same call by a path, for the case that
 * the descriptor is a copy: then the source is changed. */
long change_descriptor(struct maps* m, int fd, struct change* by_fd, struct change* by_path);
/* Only the retiring (if `act`), for calls that are not system calls. True: the path is a copy's, nothing was
 * retired, and its source's path is in `to`. */
bool change_announce(struct maps* m, const char* path, int how, bool act, char* to, size_t size);

#ifdef __cplusplus
}
#endif

#endif

/* What the stager and libmonarch.so share: the session's folder, its page, its ring and its map.
 *
 * A C header on purpose: preload/ includes nothing else of Monarch. Fixed-width types, no padding left to the
 * compiler, everything little-endian on one node.
 *
 * RUN/jobs/JOB/            root's, 0711; MONARCH_SESSION names it. One numbered folder a lease (data set):
 * RUN/jobs/JOB/N/map       what to redirect, NUL-separated "key=value" records (core/fields.h), keys below
 * RUN/jobs/JOB/N/page      struct monarch_page
 * RUN/jobs/JOB/N/ring      struct monarch_ring
 * RUN/jobs/JOB/N/note      empty, or one line by the stager for the job's output: why nothing is staged
 * N counts from 0 without a gap; the four files belong to the job's user (0600), their folders to root, so
 * nobody else can read, replace or add one. The user can write anything into page and ring: who reads them
 * clamps.
 *
 * Keys of the map, in any order, unknown ones ignored:
 *   name=TEXT     the data set as the job names it (for people; libmonarch.so ignores it)
 *   root=PATH     the data set's root as the job knows it: absolute, no "//", no "." or ".." component, no
 *                 trailing slash
 *   tier=PATH     the folder that holds the complete copies on one tier, by relative path; repeated, fastest
 * first; absolute and free of symbolic links; its sibling `tmp` is where libmonarch.so makes and moves things
 *   lock=PATH     the store's lock file: the stager holds an OFD write lock on it while it lives
 *   ids=PATH      repeated once a tier, in the tiers' order: the table of source identities (struct
 *                 monarch_ids) that stands in for the extended attribute where the tier has none
 */
#ifndef MONARCH_CORE_SHM_H
#define MONARCH_CORE_SHM_H

#include <stdint.h>

#define MONARCH_PAGE_MAGIC 0x4d4f4e41524b5031ULL /* "MONARKP1" */
#define MONARCH_RING_MAGIC 0x4d4f4e41524b5231ULL
#define MONARCH_IDS_MAGIC 0x4d4f4e41524b4931ULL
#define MONARCH_SHM_VERSION 2

#define MONARCH_MAX_TIERS 8
#define MONARCH_MAX_SESSIONS 16 /* data sets a job */
#define MONARCH_MAP_BYTES 65536 /* a map is never larger */

/* How far the first open of a data-set file has to wait: the stager decides, libmonarch.so obeys. */
enum monarch_wait {
    MONARCH_WAIT_UNDECIDED = 0, /* `auto` before the files are counted: wait up to MONARCH_UNDECIDED_MS */
    MONARCH_WAIT_HOLD = 1, /* wait until it changes, or wait_limit_ns after the session's first waiter came */
    MONARCH_WAIT_GO = 2,   /* nothing to wait for */
};
#define MONARCH_UNDECIDED_MS 5000

enum monarch_state {
    MONARCH_STARTING = 0,
    MONARCH_LISTING = 1,
    MONARCH_COPYING = 2,
    MONARCH_STAGED = 3, /* the plan is done */
    MONARCH_FAILED = 4, /* nothing (more) will be staged; why is in the log */
};

/* The counters of a session. The order is that of the design's list and of the ledger's columns. */
struct monarch_counters {
    uint64_t files_total;
    uint64_t bytes_total;
    uint64_t files_planned;
    uint64_t bytes_planned;
    uint64_t files_staged;
    uint64_t bytes_staged;
    uint64_t files_failed;
    uint64_t opens_local;  /* added to by libmonarch.so, atomically */
    uint64_t opens_source; /* added to by libmonarch.so, atomically */
    uint64_t bytes_local;
    uint64_t bytes_source;
    uint64_t source_reads;
    uint64_t prediction_hits;
};

struct monarch_page {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* sizeof(struct monarch_page) */

    uint32_t ended;    /* 1: the session is over, nothing is waited for */
    uint32_t disabled; /* 1: open everything at the source (a copy could not be retired) */
    uint32_t wait;     /* enum monarch_wait; a futex: woken when it changes */
    uint32_t state;    /* enum monarch_state */

    uint64_t wait_limit_ns;    /* longest wait of the session */
    uint64_t wait_deadline_ns; /* CLOCK_MONOTONIC; 0 until the first waiter sets it by compare-and-swap */

    struct monarch_counters counters;
    char predictor[64]; /* NUL-terminated */

    uint64_t ring_lost;   /* records that the stager never saw: overwritten or torn */
    uint64_t ring_tail;   /* the stager's place in the ring, so that a restarted one goes on there */
    uint64_t processes;   /* added to by libmonarch.so at a process's first matching open */
    uint64_t waited_ns;   /* added to by libmonarch.so: time spent waiting in opens */
    uint64_t retired;     /* added to by libmonarch.so: names retired */
    uint64_t retire_lost; /* added to by libmonarch.so: names that could not be retired: sets `disabled` */

    /* The root's st_dev and st_ino, set before `canonical_ready`; ino 0: unknown. Where the root's path names
     * another folder (in a container, after chroot), libmonarch.so redirects nothing. */
    uint64_t root_dev;
    uint64_t root_ino;

    /* The root with every symbolic link resolved, set by the stager as soon as the source answers. */
    uint32_t canonical_ready; /* written last, with release order */
    uint32_t
        drained; /* set by the stager once `ended` is seen and the ring is empty: the counters are final */
    char canonical[4096]; /* NUL-terminated */

    /* What the whole data set takes on the tiers, set by the stager before `need_known`; root clamps it. */
    uint64_t need_bytes;                    /* files and folders, whichever tiers they are on */
    uint64_t need_fixed[MONARCH_MAX_TIERS]; /* and on each tier whatever lies there: links, state, tables */
    uint32_t need_known;                    /* written last, with release order */
    uint32_t reserved;
};

/* The ring: producers never wait. A producer takes a number with fetch_add(&head), writes slot[number %
 * slots]: seq = 0, the fields, then seq = number + 1 with release order. The reader takes slots in number
 * order, checks seq before and after, counts what was overwritten, and skips a slot that stays unfinished (a
 * killed writer). */
enum monarch_record_kind {
    MONARCH_OPEN = 1,     /* an open for reading of a data-set file: tier says from where */
    MONARCH_REGISTER = 2, /* a process's first matching open: hash = rank << 32 | world, ~0 when unknown */
    MONARCH_RETIRE = 3,   /* the name was retired: its copies are gone for good */
};
#define MONARCH_TIER_SOURCE 255

struct monarch_record {
    uint64_t seq;
    uint64_t hash;    /* monarch_hash() of the path relative to the root */
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint32_t pid;
    uint8_t kind; /* enum monarch_record_kind */
    uint8_t tier; /* index of the tier in the map, or MONARCH_TIER_SOURCE */
    uint16_t reserved;
};

#define MONARCH_RING_SLOTS 32768 /* a power of two; 1 MiB a session */

struct monarch_ring {
    uint64_t magic;
    uint32_t version;
    uint32_t slots; /* MONARCH_RING_SLOTS */
    uint64_t head;  /* next number */
    uint64_t reserved[5];
    struct monarch_record slot[MONARCH_RING_SLOTS];
};

/* Who the copy's source is, kept with the copy as the extended attribute MONARCH_XATTR or, where the tier has
 * no user attributes, in the tier's table: an open-addressing hash on the copy's inode number (slot ino %
 * slots, next slot on collision, ino 0 = free), written before the copy gets its name. */
#define MONARCH_XATTR "user.monarch.source"
struct monarch_source_id {
    uint64_t dev;
    uint64_t ino;
    uint32_t mode; /* st_mode of the source */
    uint32_t uid;
    uint32_t gid;
    uint32_t nlink;
};

struct monarch_ids_entry {
    uint64_t ino; /* of the copy; written last, with release order */
    struct monarch_source_id id;
};

struct monarch_ids {
    uint64_t magic;
    uint64_t slots;
    struct monarch_ids_entry entry[]; /* slots of them */
};

/* A retired name is a symbolic link to this: it can be opened nowhere. */
#define MONARCH_RETIRED_TARGET "/dev/null/monarch-retired"

/* 64-bit hash of a relative path: FNV-1a, then the finaliser of MurmurHash3 (fmix64). */
static inline uint64_t monarch_hash(const char* bytes, uint64_t length) {
    uint64_t h = 0xcbf29ce484222325ULL;
    for (uint64_t i = 0; i < length; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return h ^ (h >> 33);
}

#endif

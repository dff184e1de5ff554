/* Counters and records for the stager. */
#define _GNU_SOURCE
#include <string.h>

#include "preload/preload.h"
#include "preload/sys.h"

void ring_record(struct session* s, enum monarch_record_kind kind, uint8_t tier, uint64_t hash) {
    struct monarch_ring* ring = __atomic_load_n(&s->ring, __ATOMIC_ACQUIRE);
    if (ring == NULL || ring == RING_NONE) return;
    uint64_t number = __atomic_fetch_add(&ring->head, 1, __ATOMIC_RELAXED);
    struct monarch_record* slot = &ring->slot[number % MONARCH_RING_SLOTS];
    __atomic_store_n(&slot->seq, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* whoever sees a new field sees seq = 0, or later */
    __atomic_store_n(&slot->hash, hash, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->time_ns, sys_now_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->pid, map_process(), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->kind, (uint8_t)kind, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->tier, tier, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->seq, number + 1, __ATOMIC_RELEASE);
}

/* A small number from the environment, or -1. */
static int64_t number_of(const char* name) {
    const char* text = map_environment(name);
    if (text == NULL || *text == '\0') return -1;
    int64_t value = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || value > 100000000) return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

/* rank << 32 | world, or ~0. */
static uint64_t rank_and_world(void) {
    static const char* const names[][2] = {{"RANK", "WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (int i = 0; i < 2; i++) {
        int64_t rank = number_of(names[i][0]), world = number_of(names[i][1]);
        if (rank >= 0 && world > rank) return (uint64_t)rank << 32 | (uint64_t)world;
    }
    return ~(uint64_t)0;
}

static LARGE_FRAME void join(struct session* s, uint32_t pid) {
    if (__atomic_load_n(&s->ring, __ATOMIC_ACQUIRE) == NULL) {
        struct monarch_ring* ring = map_file(s->folder, "ring", sizeof *ring);
        if (ring != NULL && (ring->magic != MONARCH_RING_MAGIC || ring->version != MONARCH_SHM_VERSION ||
                             ring->slots != MONARCH_RING_SLOTS)) {
            sys_munmap(ring, sizeof *ring);
            ring = NULL;
        }
        struct monarch_ring* none = NULL;
        bool first = __atomic_compare_exchange_n(&s->ring, &none, ring != NULL ? ring : RING_NONE, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (!first && ring != NULL) sys_munmap(ring, sizeof *ring);
    }
    if (__atomic_exchange_n(&s->registered, pid, __ATOMIC_ACQ_REL) == pid) return; /* another thread did it */
    __atomic_fetch_add(&s->page->processes, 1, __ATOMIC_RELAXED);
    ring_record(s, MONARCH_REGISTER, MONARCH_TIER_SOURCE, rank_and_world());
}

void ring_join(struct session* s) {
    uint32_t pid = map_process();
    if (__builtin_expect(__atomic_load_n(&s->registered, __ATOMIC_ACQUIRE) != pid, 0)) join(s, pid);
}

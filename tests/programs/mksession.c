/* A session made by hand, and a stager's part in it, for tests of libmonarch.so without a stager. SESSION is
 * the numbered folder (…/jobs/JOB/0).
 *
 *   mksession make SESSION ROOT STORE…     map, page, ring and lock; STORE/files and STORE/tmp for each tier
 *   mksession stage SESSION TIER REL…      copies ROOT/REL to a tier, with its identity
 *   mksession set SESSION FIELD VALUE      a field of the page
 *   mksession get SESSION FIELD…           their values, one a line
 *   mksession ring SESSION                 the records: kind tier pid hash
 *   mksession hash REL                     the hash that the records have
 *   mksession hold SESSION                 holds the stager's lock until standard input ends
 *   mksession publish SESSION TIER         stages every file of ROOT over and over, until it is killed
 *
 * With MKSESSION_IDS=1, identities go to a table and not to extended attributes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/shm.h"

static const char* session;
static char root[4096], lock[4096], tier[MONARCH_MAX_TIERS][4096], ids[MONARCH_MAX_TIERS][4096];
static int tiers, idses;

static void die(const char* what) {
    fprintf(stderr, "mksession: %s: %s\n", what, strerror(errno));
    exit(1);
}

static char* format(const char* a, const char* b) {
    char* text;
    if (asprintf(&text, "%s/%s", a, b) < 0) die("asprintf");
    return text;
}

static void* map_whole(const char* name, size_t bytes, int create) {
    char* path = format(session, name);
    int fd = open(path, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0 || (create && posix_fallocate(fd, 0, (off_t)bytes) != 0)) die(path);
    void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) die(path);
    close(fd);
    free(path);
    return at;
}
static struct monarch_page* page(void) {
    return map_whole("page", sizeof(struct monarch_page), 0);
}

static void make(int argc, char** argv) {
    char* map = format(session, "map");
    FILE* f = fopen(map, "wx");
    if (f == NULL) die(map);
    fprintf(f, "root=%s%cunknown=key%clock=%s/lock%c", argv[0], 0, 0, session, 0);
    for (int i = 1; i < argc; i++) {
        char *files = format(argv[i], "files"), *tmp = format(argv[i], "tmp"),
             *table = format(argv[i], "ids");
        if ((mkdir(argv[i], 0700) != 0 && errno != EEXIST) || mkdir(files, 0700) != 0 ||
            mkdir(tmp, 0700) != 0)
            die(argv[i]);
        fprintf(f, "tier=%s%c", files, 0);
        if (getenv("MKSESSION_IDS") == NULL) continue;
        fprintf(f, "ids=%s%c", table, 0);
        struct monarch_ids header = {.magic = MONARCH_IDS_MAGIC, .slots = 64};
        int fd = open(table, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 || write(fd, &header, sizeof header) != sizeof header ||
            ftruncate(fd, (off_t)(sizeof header + 64 * sizeof(struct monarch_ids_entry))) != 0)
            die(table);
        close(fd);
    }
    if (fclose(f) != 0) die(map);
    char* name = format(session, "lock");
    close(open(name, O_RDWR | O_CREAT, 0600));
    struct monarch_page* p = map_whole("page", sizeof *p, 1);
    p->magic = MONARCH_PAGE_MAGIC;
    p->version = MONARCH_SHM_VERSION;
    p->bytes = sizeof *p;
    p->wait = MONARCH_WAIT_GO;
    p->state = MONARCH_COPYING;
    struct stat st;
    if (stat(argv[0], &st) == 0 && realpath(argv[0], p->canonical) != NULL) {
        p->root_dev = st.st_dev;
        p->root_ino = st.st_ino;
        p->canonical_ready = 1;
    }
    struct monarch_ring* r = map_whole("ring", sizeof *r, 1);
    r->magic = MONARCH_RING_MAGIC;
    r->version = MONARCH_SHM_VERSION;
    r->slots = MONARCH_RING_SLOTS;
}

static void read_map(void) {
    char text[MONARCH_MAP_BYTES];
    char* map = format(session, "map");
    int fd = open(map, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0) die(map);
    close(fd);
    for (char* record = text; record < text + n; record += strlen(record) + 1) {
        if (strncmp(record, "root=", 5) == 0) strcpy(root, record + 5);
        if (strncmp(record, "lock=", 5) == 0) strcpy(lock, record + 5);
        if (strncmp(record, "tier=", 5) == 0) strcpy(tier[tiers++], record + 5);
        if (strncmp(record, "ids=", 4) == 0) strcpy(ids[idses++], record + 4);
    }
}

static void remember(int number, uint64_t ino, struct monarch_source_id id) {
    size_t bytes = sizeof(struct monarch_ids) + 64 * sizeof(struct monarch_ids_entry);
    int fd = open(ids[number], O_RDWR);
    struct monarch_ids* table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || table == MAP_FAILED) die(ids[number]);
    for (uint64_t i = 0; i < 64; i++) {
        struct monarch_ids_entry* e = &table->entry[(ino + i) % 64];
        if (e->ino != 0) continue;
        e->id = id;
        __atomic_store_n(&e->ino, ino, __ATOMIC_RELEASE);
        break;
    }
    close(fd);
}

/* As the stager does it: a file without a name, complete in every way, then its name. Returns 0, or an error
 * number. */
static int stage(int number, const char* rel) {
    char *from = format(root, rel), *to = format(tier[number], rel);
    int result = 0, in = -1, out = -1;
    struct stat st;
    in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (in < 0 || fstat(in, &st) != 0) result = errno;
    if (result == 0 && !S_ISREG(st.st_mode)) result = EINVAL;
    if (result == 0) {
        out = open(tier[number], O_TMPFILE | O_RDWR, 0600);
        char* bytes = malloc((size_t)st.st_size + 1);
        if (out < 0 || bytes == NULL || pread(in, bytes, (size_t)st.st_size, 0) != st.st_size ||
            write(out, bytes, (size_t)st.st_size) != st.st_size)
            result = out < 0 ? errno : EAGAIN;
        free(bytes);
    }
    if (result == 0) {
        struct monarch_source_id id = {st.st_dev, st.st_ino, st.st_mode,
                                       st.st_uid, st.st_gid, (uint32_t)st.st_nlink};
        struct timespec times[2] = {st.st_atim, st.st_mtim};
        struct stat copy;
        fchmod(out, st.st_mode & 07777);
        futimens(out, times);
        fstat(out, &copy);
        if (idses > 0)
            remember(number, copy.st_ino, id);
        else if (fsetxattr(out, MONARCH_XATTR, &id, sizeof id, 0) != 0)
            die("fsetxattr");
        for (size_t i = strlen(tier[number]) + 1; to[i] != 0; i++) {
            if (to[i] != '/') continue;
            to[i] = 0;
            mkdir(to, 0700);
            to[i] = '/';
        }
        char fd_path[64];
        sprintf(fd_path, "/proc/self/fd/%d", out);
        if (linkat(AT_FDCWD, fd_path, AT_FDCWD, to, AT_SYMLINK_FOLLOW) != 0) result = errno;
    }
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    free(from);
    free(to);
    return result;
}

static int publish_tier;
static int publish(const char* path, const struct stat* st, int type, struct FTW* ftw) {
    (void)st;
    (void)ftw;
    if (type == FTW_F) stage(publish_tier, path + strlen(root) + 1);
    return 0;
}

static void* field(struct monarch_page* p, const char* name, size_t* bytes) {
#define FIELD(where, what) \
    if (strcmp(name, #what) == 0) return *bytes = sizeof(where what), &(where what);
    FIELD(p->, ended)
    FIELD(p->, disabled)
    FIELD(p->, wait)
    FIELD(p->, state)
    FIELD(p->, wait_limit_ns)
    FIELD(p->, wait_deadline_ns)
    FIELD(p->counters., opens_local)
    FIELD(p->counters., opens_source)
    FIELD(p->, processes)
    FIELD(p->, waited_ns)
    FIELD(p->, retired)
    FIELD(p->, retire_lost)
    FIELD(p->, canonical_ready)
    FIELD(p->, root_ino)
    errno = EINVAL;
    die(name);
    return NULL;
}

int main(int argc, char** argv) {
    if (argc == 3 && strcmp(argv[1], "hash") == 0)
        return printf("%016llx\n", (unsigned long long)monarch_hash(argv[2], strlen(argv[2]))) < 0;
    if (argc < 3) return 2;
    session = argv[2];
    size_t bytes;
    if (strcmp(argv[1], "make") == 0) {
        make(argc - 3, argv + 3);
        return 0;
    }
    read_map();
    if (strcmp(argv[1], "stage") == 0) {
        for (int i = 4; i < argc; i++)
            if ((errno = stage(atoi(argv[3]), argv[i])) != 0) die(argv[i]);
    } else if (strcmp(argv[1], "set") == 0) {
        void* at = field(page(), argv[3], &bytes);
        uint64_t value = strtoull(argv[4], NULL, 0);
        if (bytes == 4)
            __atomic_store_n((uint32_t*)at, (uint32_t)value, __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint64_t*)at, value, __ATOMIC_RELEASE);
        if (strcmp(argv[3], "wait") == 0) syscall(SYS_futex, at, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
    } else if (strcmp(argv[1], "get") == 0) {
        for (int i = 3; i < argc; i++) {
            void* at = field(page(), argv[i], &bytes);
            printf("%llu\n", bytes == 4 ? *(uint32_t*)at : *(unsigned long long*)at);
        }
    } else if (strcmp(argv[1], "ring") == 0) {
        struct monarch_ring* r = map_whole("ring", sizeof *r, 0);
        for (uint64_t i = 0; i < r->head && i < MONARCH_RING_SLOTS; i++) {
            const struct monarch_record* e = &r->slot[i];
            static const char* const kind[] = {"?", "open", "register", "retire"};
            if (e->seq == i + 1)
                printf("%s %u %u %016llx\n", kind[e->kind & 3], e->tier, e->pid, (unsigned long long)e->hash);
        }
    } else if (strcmp(argv[1], "hold") == 0) {
        int fd = open(lock, O_RDWR);
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fd < 0 || fcntl(fd, F_OFD_SETLKW, &l) != 0) die(lock);
        puts("held");
        fflush(stdout);
        while (getchar() != EOF) continue;
    } else if (strcmp(argv[1], "publish") == 0) {
        publish_tier = atoi(argv[3]);
        for (;;) nftw(root, publish, 16, FTW_PHYS);
    } else {
        return 2;
    }
    return 0;
}

/* Paths as text. */
#define _GNU_SOURCE
#include <string.h>

#include "preload/preload.h"
#include "preload/sys.h"

const char* path_below(const char* root, const char* path, bool relative) {
    for (;;) {
        if (*root == '\0') return *path == '\0' || *path == '/' || relative ? path : NULL;
        if (*path != '/' && !relative) return NULL;
        relative = false;
        for (;;) {
            if (*path == '/') {
                path++;
            } else if (path[0] == '.' && path[1] == '/') {
                path += 2;
            } else {
                break;
            }
        }
        root++; /* its slash */
        while (*root != '\0' && *root != '/')
            if (*root++ != *path++) return NULL;
        if (*path != '\0' && *path != '/') return NULL;
    }
}

/* Appends one piece; see path_normalise. */
static int append(const char* piece, char* to, int at, int size, bool* slash_at_end) {
    while (*piece != '\0') {
        int length = 0;
        while (piece[length] != '\0' && piece[length] != '/') length++;
        bool dot = length == 1 && piece[0] == '.';
        *slash_at_end = length == 0 || dot;
        if (length == 2 && piece[0] == '.' && piece[1] == '.') return -1;
        if (length > 0 && !dot) {
            if (at + 1 + length + 1 > size) return -1;
            to[at++] = '/';
            memmove(to + at, piece, (size_t)length);
            at += length;
        }
        piece += length;
        if (*piece == '/') {
            piece++;
            if (*piece == '\0') *slash_at_end = true;
        }
    }
    return at;
}

int path_normalise(struct relative path, char* to, size_t size, bool* slash_at_end) {
    *slash_at_end = false;
    int length = append(path.head, to, 0, (int)size, slash_at_end);
    if (length >= 0) length = append(path.tail, to, length, (int)size, slash_at_end);
    if (length < 0 || (size_t)length >= size) return -1;
    to[length] = '\0';
    return length;
}

void path_of_descriptor(int fd, char to[FD_PATH_BYTES]) {
    static const char prefix[] = "/proc/self/fd/";
    char digits[12];
    int n = 0;
    unsigned value = fd < 0 ? 0 : (unsigned)fd;
    do digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    char* at = to;
    for (const char* p = prefix; *p != '\0'; p++) *at++ = *p;
    while (n > 0) *at++ = digits[--n];
    *at = '\0';
}

/* ---- following a path ---- */

enum { WALK_GAP = 4 }; /* bytes kept free between the resolved and the remaining part */

bool walk_descriptor(struct walk* w, int fd) {
    char link[FD_PATH_BYTES];
    path_of_descriptor(fd, link);
    int room = (int)sizeof w->text - 1 - WALK_GAP;
    long length = fd < 0 ? -EBADF : sys_readlink(link, w->text, (size_t)room);
    if (length <= 0 || length >= room || w->text[0] != '/') return false;
    if (length == 1) length = 0; /* "/" */
    w->text[length] = '\0';
    w->text[sizeof w->text - 1] = '\0';
    w->done = (int)length;
    w->rest = (int)sizeof w->text - 1;
    w->links = 0;
    w->blind = false;
    return true;
}

bool walk_start(struct walk* w, int dirfd, const char* path) {
    w->done = 0;
    w->links = 0;
    w->blind = false;
    w->text[0] = '\0';
    size_t length = strlen(path);
    if (length > 4095) return false;
    if (path[0] != '/') {
        if (dirfd == AT_FDCWD) {
            long cwd = sys_getcwd(w->text, sizeof w->text);
            if (cwd <= 0 || w->text[0] != '/') return false;
            w->done = cwd == 2 ? 0 : (int)cwd - 1; /* without the NUL byte; "/" is "" */
        } else if (!walk_descriptor(w, dirfd)) {
            return false;
        }
    }
    w->rest = (int)(sizeof w->text - 1 - length);
    if (w->rest - w->done < WALK_GAP) return false;
    w->text[w->done] = '\0';
    memmove(w->text + w->rest, path, length);
    w->text[sizeof w->text - 1] = '\0';
    return true;
}

/* The next component: its place and length; length 0 at the end. */
static const char* next_component(const struct walk* w, int* length) {
    const char* at = w->text + w->rest;
    while (*at == '/') at++;
    *length = 0;
    while (at[*length] != '\0' && at[*length] != '/') ++*length;
    return at;
}

static bool is_last(const char* end_of_component) {
    while (*end_of_component == '/') end_of_component++;
    return *end_of_component == '\0';
}

bool walk_at_last(const struct walk* w) {
    int length;
    const char* at = next_component(w, &length);
    return is_last(at + length);
}

int walk_step(struct walk* w, bool follow) {
    int length;
    const char* at = next_component(w, &length);
    if (length == 0) return 0;
    const char* after = at + length;
    int next = (int)(after - w->text);
    if (length == 1 && at[0] == '.') {
        w->rest = next;
        return 1;
    }
    if (length == 2 && at[0] == '.' && at[1] == '.') {
        while (w->done > 0 && w->text[--w->done] != '/') continue;
        w->text[w->done] = '\0';
        w->rest = next;
        return 1;
    }
    int end = w->done + 1 + length;
    if (end > next || (end == next && *after != '\0')) return -1; /* the two parts would touch */
    bool last = is_last(after);
    bool slash = *after == '/';
    w->text[w->done] = '/';
    memmove(w->text + w->done + 1, at, (size_t)length);
    w->text[end] = '\0';
    if (w->blind || (last && !follow && !slash)) {
        w->done = end;
        w->rest = next;
        return 1;
    }
    long room = next - end - 2;
    long target = room > 0 ? sys_readlink(w->text, w->text + end + 1, (size_t)room) : -ENAMETOOLONG;
    if (target == -ENAMETOOLONG) return -1;
    if (target < 0) {
        if (target != -EINVAL) w->blind = true;
        w->done = end;
        w->rest = next;
        return 1;
    }
    if (target == 0 || target >= room || ++w->links > 40) return -1;
    if (w->text[end + 1] == '/') w->done = 0;
    w->rest = next - (int)target;
    memmove(w->text + w->rest, w->text + end + 1, (size_t)target);
    w->text[w->done] = '\0';
    return 1;
}

bool walk_all(struct walk* w, bool follow) {
    int step;
    do step = walk_step(w, follow);
    while (step > 0);
    return step == 0;
}

/* ---- what cannot be ours ---- */

static bool starts(const char* path, const char* prefix) {
    while (*prefix != '\0')
        if (*path++ != *prefix++) return false;
    return true;
}

bool path_system(const char* path) {
    switch (path[1]) {
        case 'p':
            return starts(path, "/proc/");
        case 's':
            return starts(path, "/sys/");
        case 'e':
            return starts(path, "/etc/");
        case 'd':
            return starts(path, "/dev/") && !starts(path, "/dev/shm/");
        default:
            return false;
    }
}

uint64_t path_hash(uint64_t start, const char* bytes, size_t length) {
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = (start ^ length) * k;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        __builtin_memcpy(&word, bytes, 8);
        h = (h ^ word) * k;
        h ^= h >> 32;
    }
    uint64_t word = 0;
    for (; length > 0; length--) word = word << 8 | (unsigned char)*bytes++;
    h = (h ^ word) * k;
    return h ^ (h >> 29);
}

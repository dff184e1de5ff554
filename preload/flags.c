/* What an open means to do, by its flags or its mode. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>

#include "preload/preload.h"

/* The kernel's O_LARGEFILE, which 64-bit programs may pass; libc says 0. */
#if defined(__x86_64__)
#define O_LARGEFILE_KERNEL 0100000
#else
#define O_LARGEFILE_KERNEL 0400000
#endif

bool read_flags(int flags) {
    return (flags & ~(O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOATIME | O_LARGEFILE_KERNEL | O_NOFOLLOW)) ==
           O_RDONLY;
}

bool read_mode(const char* mode) {
    if (mode == NULL || mode[0] != 'r') return false;
    for (; *mode != '\0' && *mode != ','; mode++)
        if (*mode == '+') return false;
    return true;
}

int change_of_flags(int flags) {
    if ((flags & O_PATH) || (flags & O_TMPFILE) == O_TMPFILE) return 0;
    if ((flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC)) == 0) return 0;
    int how = BYTES;
    if (flags & O_CREAT) how |= NEW;
    if ((flags & O_NOFOLLOW) == 0 && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL)) how |= FOLLOW;
    /* Without O_TRUNC nothing is written before we return; an open that fails has changed nothing. */
    if ((flags & O_TRUNC) == 0) how |= AFTER;
    return how;
}

int change_of_mode(const char* mode) {
    if (mode == NULL || read_mode(mode)) return 0;
    switch (mode[0]) {
        case 'r':
            return BYTES | FOLLOW | AFTER;
        case 'a':
            return BYTES | FOLLOW | AFTER | NEW;
        case 'w':
            return BYTES | FOLLOW | NEW;
        default:
            return 0;
    }
}

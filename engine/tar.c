/*
 * Tar archives for build contexts. Pure.
 */
#include "engine/tar.h"

#include <stdio.h>
#include <string.h>

#define TAR_BLOCK_BYTES 512U

struct tar_header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char user[32];
    char group[32];
    char device_major[8];
    char device_minor[8];
    char prefix[155];
    char padding[12];
};

_Static_assert(sizeof(struct tar_header) == TAR_BLOCK_BYTES, "a tar header is one block");

/* Puts a long name into prefix and name, cut at a slash. */
static bool tar_name(struct tar_header *h, struct str name)
{
    size_t cut = 0;
    if (name.len <= sizeof(h->name)) {
        memcpy(h->name, name.ptr, name.len);
        return name.len > 0;
    }
    for (size_t i = 0; i < name.len && i <= sizeof(h->prefix); i++) {
        if (name.ptr[i] == '/') {
            cut = i;
        }
    }
    if (cut == 0 || name.len - cut - 1 > sizeof(h->name) || name.len - cut - 1 == 0) {
        return false;
    }
    memcpy(h->prefix, name.ptr, cut);
    memcpy(h->name, name.ptr + cut + 1, name.len - cut - 1);
    return true;
}

static void tar_pad(struct buf *out, size_t len)
{
    static const char zeros[TAR_BLOCK_BYTES];
    buf_add(out, zeros, (TAR_BLOCK_BYTES - len % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES);
}

int tar_add(struct buf *out, struct str name, uint32_t mode, struct str content, struct err *e)
{
    struct tar_header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    unsigned sum = 0;
    if (!tar_name(&h, name)) {
        return err_set(e, ERR_INVALID, 0, "the name %.*s is too long for a build context",
                       STR_FMT(name));
    }
    (void)snprintf(h.mode, sizeof(h.mode), "%07o", mode & 07777U);
    (void)snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
    (void)snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
    (void)snprintf(h.size, sizeof(h.size), "%011zo", content.len);
    (void)snprintf(h.mtime, sizeof(h.mtime), "%011o", 0U);
    memset(h.checksum, ' ', sizeof(h.checksum));
    for (size_t i = 0; i < sizeof(h); i++) {
        sum += ((const unsigned char *)&h)[i];
    }
    (void)snprintf(h.checksum, sizeof(h.checksum), "%06o", sum & 0777777U);
    buf_add(out, &h, sizeof(h));
    buf_add_str(out, content);
    tar_pad(out, content.len);
    return 0;
}

void tar_end(struct buf *out)
{
    static const char zeros[2 * TAR_BLOCK_BYTES];
    buf_add(out, zeros, sizeof(zeros));
}

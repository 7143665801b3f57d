/*
 * A counter over WebSocket frames (RFC 6455 section 5.2). Must never change or keep a byte of them.
 * Pure functions.
 */
#include "proxy/ws_frames.h"

static unsigned header_size(const struct ws_frames *f)
{
    unsigned size = 2;

    if (f->header_len < 2) {
        return 2;
    }
    if ((f->header[1] & 0x7f) == 126) {
        size += 2;
    } else if ((f->header[1] & 0x7f) == 127) {
        size += 8;
    }
    return size + (f->header[1] & 0x80 ? 4 : 0);
}

static uint64_t payload_size(const struct ws_frames *f)
{
    unsigned small = f->header[1] & 0x7f;
    unsigned count = small == 126 ? 2 : small == 127 ? 8 : 0;
    uint64_t size = 0;

    if (count == 0) {
        return small;
    }
    for (unsigned i = 0; i < count; i++) {
        size = (size << 8) | f->header[2 + i];
    }
    return size;
}

void ws_frames_feed(struct ws_frames *f, struct str bytes)
{
    while (bytes.len > 0) {
        if (f->payload_left > 0) {
            size_t skip = bytes.len < f->payload_left ? bytes.len : (size_t)f->payload_left;

            f->payload_left -= skip;
            bytes = str_cut(bytes, skip, bytes.len);
            continue;
        }
        f->header[f->header_len++] = (uint8_t)bytes.ptr[0];
        bytes = str_cut(bytes, 1, bytes.len);
        if (f->header_len >= 2 && f->header_len == header_size(f)) {
            f->payload_left = payload_size(f);
            f->header_len = 0;
        }
    }
}

bool ws_frames_at_boundary(const struct ws_frames *f)
{
    return f->payload_left == 0 && f->header_len == 0;
}

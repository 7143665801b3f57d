/*
 * Where one WebSocket frame ends and the next begins, so that a frame of ours can stand between
 * two. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"

/* Zeroed is the start of a connection. */
struct ws_frames {
    uint8_t header[14];
    uint8_t header_len;
    uint64_t payload_left;
};

void ws_frames_feed(struct ws_frames *f, struct str bytes);
/* Nothing of a frame is pending. */
bool ws_frames_at_boundary(const struct ws_frames *f);

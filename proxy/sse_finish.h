/*
 * Whether the stream of a model came to its own end: some agents ask for ever when a cut stream
 * looks finished. Pure.
 */
#pragma once

#include <stdbool.h>

#include "lib/str.h"
#include "proxy/json_scan.h"

enum sse_kind {
    SSE_NONE,
    SSE_CHAT,
    SSE_MESSAGES,
    SSE_RESPONSES,
    SSE_GEMINI
};

/* Zeroed but for its kind is the start. */
struct sse_finish {
    enum sse_kind kind;
    bool is_finished;
    bool is_data, is_line_known; /* of the line that is being read */
    unsigned start_len;
    char start[16]; /* the line's first bytes */
    struct json_scan scan;
};

/* By the last part of the path; SSE_NONE: nothing is expected. */
enum sse_kind sse_kind_of(struct str path);
void sse_finish_feed(struct sse_finish *f, struct str bytes);
/* False when the stream ended without its finish marker (or an error event, which is an end too).
 */
bool sse_finish_is_whole(const struct sse_finish *f);

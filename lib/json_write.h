/*
 * JSON writer: compact, append-only, straight into a buffer. No tree, no allocation of its own.
 *
 * Commas are put by itself. Strings must be UTF-8; broken bytes become U+FFFD. No thread of its
 * own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"

#define JSON_WRITE_DEPTH_MAX 16

struct json_writer {
    struct buf *out; /* borrowed */
    int depth;
    bool need_comma[JSON_WRITE_DEPTH_MAX];
};

void json_begin(struct json_writer *w, struct buf *out);
/* key NULL inside arrays and at the top. */
void json_object(struct json_writer *w, const char *key);
void json_object_end(struct json_writer *w);
void json_array(struct json_writer *w, const char *key);
void json_array_end(struct json_writer *w);
void json_str(struct json_writer *w, const char *key, struct str value);
void json_text(struct json_writer *w, const char *key, const char *value); /* NULL: null */
void json_int(struct json_writer *w, const char *key, int64_t value);
void json_bool(struct json_writer *w, const char *key, bool value);
void json_null(struct json_writer *w, const char *key);
/* Milliseconds since the epoch as RFC 3339; 0 or less: null. */
void json_time(struct json_writer *w, const char *key, int64_t unix_ms);
/* A value that is JSON already. */
void json_raw(struct json_writer *w, const char *key, struct str json);
/* Just the quoted, escaped string. */
void json_escape(struct buf *out, struct str value);

/*
 * A look at the members of a JSON text as it streams by: no tree, no memory, no judgement on its
 * form. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"

#define JSON_SCAN_KEY_MAX   32
#define JSON_SCAN_VALUE_MAX 128
#define JSON_SCAN_PATH_MAX  96
/* What lies deeper is passed over. */
#define JSON_SCAN_DEPTH_MAX 16

enum json_scan_kind {
    JSON_SCAN_STRING,
    JSON_SCAN_ODD,   /* a string with an escape or longer than JSON_SCAN_VALUE_MAX; text is empty */
    JSON_SCAN_PLAIN, /* a number, true, false, null */
    JSON_SCAN_OBJECT, /* its beginning */
    JSON_SCAN_ARRAY,
};

/* Borrowed for the call. */
struct json_scan_value {
    /* Keys joined by dots, "[]" for an element: "choices.[].finish_reason". A key with an escape is
     * "?", one that is too long "~". */
    struct str path;
    enum json_scan_kind kind;
    struct str text;
    uint64_t string_bytes; /* of a string, as written */
};

/* Zeroed is the start of a text. */
struct json_scan {
    unsigned depth;
    uint32_t arrays;                    /* bit n: depth n + 1 is an array */
    uint8_t marks[JSON_SCAN_DEPTH_MAX]; /* length of the path that leads to each depth */
    uint8_t path_len;                   /* of the member that is being read */
    unsigned lost_depth;                /* the path of what is from here on did not fit; 0: none */
    bool in_string, is_escaped, has_escape, is_long;
    bool has_string, in_plain, has_member;
    uint8_t value_len;
    uint64_t string_bytes;
    char path[JSON_SCAN_PATH_MAX];
    char value[JSON_SCAN_VALUE_MAX];
};

typedef void (*json_scan_fn)(void *ctx, const struct json_scan_value *value);

/* Tells every value that has a path, once its end (of an object or array: its beginning) was seen.
 */
void json_scan_feed(struct json_scan *s, struct str bytes, json_scan_fn fn, void *ctx);

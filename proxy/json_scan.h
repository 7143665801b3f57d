/*
 * A look at the strings of a JSON text as it streams by: no tree, no memory, no judgement on its
 * form. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"

#define JSON_SCAN_KEY_MAX   32
#define JSON_SCAN_VALUE_MAX 128

/* Zeroed is the start of a text. */
struct json_scan {
    unsigned depth;
    bool in_string, is_escaped, is_odd; /* odd: too long or with an escape; it is passed over */
    bool has_key;                       /* the string before was followed by a colon */
    bool has_string;
    uint8_t key_len, value_len;
    char key[JSON_SCAN_KEY_MAX];
    char value[JSON_SCAN_VALUE_MAX];
};

/* A string value, or with value.ptr NULL the start of an object, of a key at a depth (1 is the
 * outermost object). */
typedef void (*json_scan_fn)(void *ctx, unsigned depth, struct str key, struct str value);

void json_scan_feed(struct json_scan *s, struct str bytes, json_scan_fn fn, void *ctx);

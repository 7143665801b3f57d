/*
 * Ids: ULIDs in lower case, 26 characters. The one parser, for every path, host and body.
 */
#pragma once

#include <stdbool.h>

#include "lib/str.h"

#define ULID_LEN 26

struct ulid {
    char text[ULID_LEN + 1];
};

/* A new one; rises within a process even inside one millisecond. Any thread. */
struct ulid ulid_new(void);
/* Strict: exactly 26 of Crockford's alphabet in lower case (no i l o u), first character 0..7. */
bool ulid_parse(struct str s, struct ulid *ret_id);
bool ulid_eq(const struct ulid *a, const struct ulid *b);

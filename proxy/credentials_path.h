/*
 * What a sandbox may ask for: /<provider>/<rest>, exactly as sent, nothing that a server could read
 * in another way. Pure.
 */
#pragma once

#include <stdbool.h>

#include "lib/str.h"

struct credentials_target {
    struct str provider; /* letters, digits, - and _ */
    struct str path;     /* with its leading slash, without query */
    struct str query;    /* with its question mark, or empty */
};

/* False for absolute form, "." and ".." segments, "//", backslashes, encoded slashes, dots and
 * backslashes, and anything that is no visible ASCII. Slices of target. */
bool credentials_target_parse(struct str target, struct credentials_target *ret);
/* Whether "METHOD /pattern" names this request; * stands for one or more characters other than a
 * slash. */
bool credentials_path_matches(struct str line, struct str method, struct str path);

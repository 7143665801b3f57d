/*
 * The one reader of preview host names: s-<id>-<port>.preview.<domain>. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"
#include "lib/ulid.h"

struct preview_host {
    struct ulid id;
    uint16_t port;
    bool is_localhost; /* the name ends in localhost: only the machine's owner comes by it */
};

/* Strict: letters of either case, an optional :port of decimal digits, nothing else; no trailing
 * dot. `domain` is PREVIEW_DOMAIN in lower case; names under localhost are always known. False for
 * anything else. */
bool preview_host_parse(struct str host, struct str domain, struct preview_host *ret_host);

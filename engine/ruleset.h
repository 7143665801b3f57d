/*
 * The text of the walls: one nftables table of our own. Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/allow.h"
#include "lib/buf.h"
#include "lib/str.h"

#define RULESET_RESOLVERS_MAX 16
#define RULESET_BYTES_MAX     65536

struct ruleset {
    const char *table;
    const char *bridge;
    const struct allow_list *allow;
    struct allow_prefix resolvers[RULESET_RESOLVERS_MAX];
    size_t resolver_count;
    const char *other_bridges; /* elements of an nftables set, or "" */
};

/* A batch that replaces the table at once: there is no moment without it. Appends. */
void ruleset_write(const struct ruleset *rules, struct buf *out);

/* Adds the "nameserver" addresses of a resolv.conf, without loopback ones and doubles. */
void ruleset_add_resolvers(struct ruleset *rules, struct str resolv_conf);
void ruleset_add_resolver(struct ruleset *rules, const struct allow_prefix *address);

/* Does a listing of the table have as many chains and rules as the batch that made it? Sets are
 * written on one line by both. */
bool ruleset_is_listed(struct str batch, struct str listing);

/*
 * A free subnet for the bridge. Pure, any thread.
 */
#pragma once

#include "engine/allow.h"
#include "lib/err.h"
#include "lib/json_read.h"
#include "lib/str.h"

#define SUBNET_TAKEN_MAX 1024

struct subnet_taken {
    struct allow_prefix items[SUBNET_TAKEN_MAX];
    size_t count;
};

/* Adds the subnets of every network in the engine's list of networks. */
void subnet_take_networks(struct subnet_taken *taken, const struct json_value *networks);
/* Adds the destinations of the text of /proc/net/route; the default route takes nothing. */
void subnet_take_routes(struct subnet_taken *taken, struct str routes);
/* The first /20 of 10.201.0.0 onwards, then 172.16/12, that overlaps nothing. ERR_LIMIT when there
 * is none. */
int subnet_choose(const struct subnet_taken *taken, struct allow_prefix *ret, struct err *e)
    MUST_CHECK;

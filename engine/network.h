/*
 * The bridge of the sandboxes, made and made again through Docker. Any thread; one at a time.
 */
#pragma once

#include "engine/config.h"
#include "engine/docker.h"
#include "lib/buf.h"
#include "lib/err.h"

#define NETWORK_ID_BYTES 65

struct network {
    char id[NETWORK_ID_BYTES]; /* the engine's */
    char subnet[ALLOW_TEXT_BYTES];
};

/* Makes sure that the network exists as we want it. ERR_CONFLICT somebody else's network has that
 * name; the engine's words otherwise. Blocks. */
int network_ensure(struct docker *docker, const struct config *config, struct network *ret,
                   struct err *e) MUST_CHECK;

/* What exists now; ERR_NOT_FOUND when there is none. */
int network_inspect(struct docker *docker, const struct config *config, struct network *ret,
                    struct err *e) MUST_CHECK;

/* Names of the other bridges of the engine, each as an element of an nftables set, joined by ", ".
 * Appends. */
int network_other_bridges(struct docker *docker, const struct config *config, struct buf *out,
                          struct err *e) MUST_CHECK;

/* Parts, for tests; pure. */
void network_body(const struct config *config, const char *subnet, struct buf *out);
/* ERR_CONFLICT when the network is not this installation's, or not as walls need it. */
int network_check(const struct json_value *network, const struct config *config,
                  struct network *ret, struct err *e) MUST_CHECK;
void network_list_bridges(const struct json_value *networks, const char *own, struct buf *out);

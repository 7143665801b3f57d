/*
 * Walls: the nftables table that keeps sandboxes away from the host, from one another and from
 * private networks.
 *
 * A thread of its own loads the table, watches nftables and puts the table back when somebody
 * flushed or changed it. No sandbox starts without it, unless the owner's setting says so. Any
 * thread may ask.
 */
#pragma once

#include "engine/config.h"
#include "lib/err.h"

struct walls;

enum walls_state {
    WALLS_OFF,
    WALLS_UP,
    WALLS_FAILED
};

/* Borrows config for its life. Never NULL. Nothing is loaded before walls_start. */
struct walls *walls_new(const struct config *config);
/* Loads the table once (its failure is kept as the state) and starts the thread. */
void walls_start(struct walls *w);
/* Ends the thread; the table stays: sandboxes run on. */
void walls_stop(struct walls *w);
void walls_free(struct walls *w);

/* Takes the table down, for an uninstallation. ERR_UNAVAILABLE. */
int walls_remove(const struct config *config, struct err *e) MUST_CHECK;

/* Elements of an nftables set of interface names (network_other_bridges); takes effect within a
 * second. Copied. */
void walls_set_bridges(struct walls *w, const char *elements);

/* State and, when failed, why. */
enum walls_state walls_state_get(struct walls *w, struct err *ret_why);

/* 0 when the table stands (checked and loaded now, if need be) or walls are off by the owner's
 * word. ERR_UNAVAILABLE, the message begins with "walls: ". Blocks for milliseconds. */
int walls_require(struct walls *w, struct err *e) MUST_CHECK;

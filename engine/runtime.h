/*
 * Is this Docker one that sandboxes can be trusted to, and does it have the runtime of the owner's
 * setting? Any thread.
 */
#pragma once

#include "engine/config.h"
#include "engine/docker.h"
#include "lib/err.h"

struct runtime; /* the last good answer; internally locked */

/* Borrows both. Asks nothing yet. Never NULL. */
struct runtime *runtime_new(struct docker *docker, const struct config *config);
void runtime_free(struct runtime *r);

/* ERR_UNAVAILABLE: a rootless, remapped or desktop engine; a data directory that is another one on
 * the host; runsc missing or without
 * --host-uds=open, with the exact lines for daemon.json. Else the engine's words. Asks Docker
 * unless it has answered well since runtime_forget. */
int runtime_check(struct runtime *r, struct err *e) MUST_CHECK;
/* The engine came back: it may be another one. */
void runtime_forget(struct runtime *r);

/* Docker mounts the host's directories: is our data directory the host's of the same name? Over
 * what Docker says about our own container. ERR_UNAVAILABLE names the setting. Pure. */
int runtime_check_mounts(const struct json_value *own, const char *data_dir, struct err *e)
    MUST_CHECK;
/* The check over the answer of GET /info. Pure. */
int runtime_check_info(const struct json_value *info, bool is_runsc, struct err *e) MUST_CHECK;

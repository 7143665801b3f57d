/*
 * The container runtime of the owner's setting: is it there, and set up as we need it? Any thread.
 */
#pragma once

#include "engine/config.h"
#include "engine/docker.h"
#include "lib/err.h"

/* runc is always fine. runsc must be registered with --host-uds=open. ERR_UNAVAILABLE with the
 * exact lines for daemon.json; else the engine's words. Asks Docker. */
int runtime_check(struct docker *docker, const struct config *config, struct err *e) MUST_CHECK;
/* The same over the answer of GET /info. Pure. */
int runtime_check_info(const struct json_value *info, struct err *e) MUST_CHECK;

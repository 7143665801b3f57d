/*
 * How many sleeping apps visitors may wake: per client address as the edge saw it, and all
 * together.
 *
 * Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proxy/http_head.h"

/* Starts a minute; 0: not limited. */
void limit_set(uint64_t per_client, uint64_t per_minute);
/* Counts one start for the client of that request; false when it has none left, and
 * *ret_retry_after_s says when it has. Clients on this machine, tunnels among them, are not
 * counted. */
bool limit_take(const struct head *request, int64_t now_ms, int64_t *ret_retry_after_s);

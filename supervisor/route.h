/*
 * Route: from a port to where it really listens inside the sandbox, without waiting. One thread,
 * the relay's.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "supervisor/sockets.h"

enum route_result {
    ROUTE_OK,
    ROUTE_REFUSED,
    ROUTE_TIMEOUT,
    ROUTE_UNREACHABLE,
    ROUTE_IN_PROGRESS
};

/* Where one stream's connect is; zeroed but for port at its beginning. */
struct route {
    uint16_t port;
    unsigned tried; /* addresses */
};

/* As docs/protocols.md, section 6, names it. */
const char *route_result_name(enum route_result result);
/*
 * Tries the next addresses until one takes the connection or cannot say yet. On ROUTE_OK and
 * ROUTE_IN_PROGRESS *ret_fd is a non-blocking socket of the caller's; ask route_check when it
 * becomes writable, and come back here when that fails.
 */
enum route_result route_next(struct route *r, struct sockets *table, int *ret_fd);
/* The outcome of a connect that was in progress: ROUTE_IN_PROGRESS when it still is. */
enum route_result route_check(int fd);

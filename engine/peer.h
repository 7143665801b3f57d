/*
 * Is the other end of a connected socket PID 1 of a sandbox? Any thread.
 */
#pragma once

#include <stdbool.h>

#include "engine/config.h"
#include "engine/inspect.h"
#include "lib/err.h"

#define PEER_DETAIL_BYTES 128

/* fd: a connected Unix socket. *ret_detail says what was found, for the event. ERR_INVALID fd is
 * none. */
int peer_is_init(const struct config *config, const struct inspect *container, int fd,
                 bool *ret_is_init, char ret_detail[PEER_DETAIL_BYTES], struct err *e) MUST_CHECK;

/* The same while Docker still starts the container and says nothing about it. False: ask again by
 * peer_is_init. Never for gVisor. */
bool peer_is_starting(const struct config *config, const struct ulid *id, int fd,
                      char ret_detail[PEER_DETAIL_BYTES]);

/*
 * Dialling a Unix socket without waiting. One thread.
 */
#pragma once

#include "lib/err.h"

/* A connected, non-blocking descriptor; the caller owns it. ERR_BUSY: its backlog is full just now;
 * ERR_UNAVAILABLE. */
int dial_unix(const char *path, int *ret_fd, struct err *e) MUST_CHECK;

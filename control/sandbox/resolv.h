/*
 * The resolv.conf of a sandbox whose runtime cannot reach the engine's own resolver (runsc). Any
 * thread.
 */
#pragma once

#include "lib/err.h"

/* Makes it say SANDBOXD_DNS, else the host's resolvers that a sandbox can reach. ERR_IO. */
int resolv_write(const char *path, struct err *e) MUST_CHECK;

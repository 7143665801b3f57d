/*
 * The resolv.conf of a sandbox whose runtime cannot reach the engine's own resolver (runsc). Any
 * thread.
 */
#pragma once

#include "lib/err.h"

/* Makes it say the resolvers of the setting (comma separated, "" for none), else the host's that a
 * sandbox can reach. ERR_IO. */
int resolv_write(const char *path, const char *setting, struct err *e) MUST_CHECK;

/*
 * How many connections each sandbox has, so that one of them cannot take the place of all. Main
 * thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/ulid.h"

/* False: that sandbox has as many as it may. */
bool clients_enter(const struct ulid *sandbox);
void clients_leave(const struct ulid *sandbox);

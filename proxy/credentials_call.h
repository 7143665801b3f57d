/*
 * One request of an agent on its way to a provider. Main thread.
 */
#pragma once

#include "proxy/front.h"

extern const struct front_role credentials_role;

unsigned calls_count(void);
/* The service leaves: everything that runs is cut. */
void calls_cut(void);

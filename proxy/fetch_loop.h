/*
 * The client for providers on our event loop. Main thread.
 */
#pragma once

#include "lib/fetch_multi.h"

/* Made at the first call; borrowed, lives as long as the process. */
struct fetch_multi *fetch_loop_get(void);

/*
 * The reserve: a file of real blocks beside the database, given back to the file system when a full
 * disk would keep us from writing down what ends now. Any thread; nothing but reserve_await waits.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/paths.h"

#define RESERVE_BYTES (32LL * 1024 * 1024)

struct reserve {
    char path[PATHS_MAX];
    atomic_bool is_held;
};

/* Takes the file that is there, or makes it. */
void reserve_init(struct reserve *r, const char *data_dir);
/* Makes it again when it is gone and there is room for several of its size. */
void reserve_restore(struct reserve *r);
/* Gives it back. True when it was there. */
bool reserve_release(struct reserve *r);
/* Room for a write: returns at once when there is some. On a full disk it waits a few seconds, for
 * whoever fills the disk is being stopped meanwhile and would take what is given back too soon;
 * then it gives the reserve back. Without a reserve there is nothing to wait for. */
void reserve_await(struct reserve *r);
/* Bytes that root may still write beside it; -1 when that cannot be read. */
int64_t reserve_room(const struct reserve *r);

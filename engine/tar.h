/*
 * Tar archives for build contexts: regular files only, ustar. Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

/* Appends one file. ERR_INVALID when the name does not fit (255 bytes, a slash where the format
 * wants one). Owner 0:0, time 0: the same context is the same bytes. */
int tar_add(struct buf *out, struct str name, uint32_t mode, struct str content, struct err *e)
    MUST_CHECK;
/* Ends the archive. */
void tar_end(struct buf *out);

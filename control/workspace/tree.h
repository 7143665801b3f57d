/*
 * Whole trees of a workspace: how much disk they take, and removing them. Hostile trees: links are
 * never followed, depth and time are bounded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

/* Bytes allocated below path, walking at most budget_ms; *ret_complete is false when time or depth
 * ran out. Blocks. */
int tree_measure(const char *path, int64_t budget_ms, int64_t *ret_bytes, bool *ret_complete,
                 struct err *e) MUST_CHECK;
/* Removes path and everything below. Missing is fine; can be repeated after a crash. Blocks. */
int tree_remove(const char *path, struct err *e) MUST_CHECK;

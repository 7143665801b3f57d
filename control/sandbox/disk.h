/*
 * Which sandbox fills the disk. Pure: figures in, a decision out; disk.c looks and acts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The floor where SANDBOXD_DISK_FLOOR_MB does not name one: so much must stay free. */
#define DISK_FLOOR_PERCENT     2
#define DISK_FLOOR_MIN_BYTES   (512LL << 20)
#define DISK_FLOOR_MAX_BYTES   (4LL << 30)
#define DISK_FLOOR_MAX_PERCENT 10 /* of a small disk */

/* floor_mb -1: chosen from the size; 0: off. */
int64_t disk_floor(int64_t total_bytes, int64_t floor_mb);
/* Below the floor it is low, until there is an eighth more (256 MiB at most). */
bool disk_is_low(bool was_low, int64_t free_bytes, int64_t floor_bytes);

/* One running sandbox: its last measure from before the disk was low, and the one of now. */
struct disk_measure {
    int64_t base_bytes; /* -1: never measured */
    int64_t base_ms;    /* monotonic */
    int64_t bytes;
    int64_t at_ms;    /* monotonic */
    bool is_complete; /* else it is at least that large */
};

int64_t disk_growth(const struct disk_measure *m);
/* The index of the one that grew fastest, of those that grew by so much that it matters. When
 * nobody did while the free space goes on falling: the largest of those whose tree is too large to
 * be walked in time. -1: something else fills the disk, and nothing is stopped for it. */
int disk_pick(const struct disk_measure *list, size_t count, int64_t floor_bytes, bool is_falling);
/* What counts as growth, and as falling. */
int64_t disk_matters(int64_t floor_bytes);

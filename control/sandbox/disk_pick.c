/*
 * Decisions about the disk. Pure; any thread.
 */
#include "control/sandbox/disk.h"

/* What matters: a share of the floor, so that what programs write in passing is left alone. */
#define DISK_GROWTH_SHARE     64
#define DISK_GROWTH_MIN_BYTES (1LL << 20)
#define DISK_GROWTH_MAX_BYTES (64LL << 20)
#define DISK_ROOM_SHARE       8 /* of the floor, above it, until it is no longer low */
#define DISK_ROOM_MAX_BYTES   (256LL << 20)
#define DISK_RATE_MS_MIN      1000

int64_t disk_floor(int64_t total_bytes, int64_t floor_mb)
{
    int64_t floor = total_bytes / 100 * DISK_FLOOR_PERCENT;
    int64_t most = total_bytes / 100 * DISK_FLOOR_MAX_PERCENT;
    if (floor_mb >= 0) {
        return floor_mb << 20;
    }
    floor = floor < DISK_FLOOR_MIN_BYTES ? DISK_FLOOR_MIN_BYTES : floor;
    floor = floor > DISK_FLOOR_MAX_BYTES ? DISK_FLOOR_MAX_BYTES : floor;
    return floor > most ? most : floor;
}

bool disk_is_low(bool was_low, int64_t free_bytes, int64_t floor_bytes)
{
    int64_t room = floor_bytes / DISK_ROOM_SHARE;
    room = room > DISK_ROOM_MAX_BYTES ? DISK_ROOM_MAX_BYTES : room;
    return free_bytes < floor_bytes + (was_low ? room : 0);
}

int64_t disk_matters(int64_t floor_bytes)
{
    int64_t matters = floor_bytes / DISK_GROWTH_SHARE;
    matters = matters > DISK_GROWTH_MAX_BYTES ? DISK_GROWTH_MAX_BYTES : matters;
    return matters < DISK_GROWTH_MIN_BYTES ? DISK_GROWTH_MIN_BYTES : matters;
}

int64_t disk_growth(const struct disk_measure *m)
{
    if (m->base_bytes < 0 && !m->is_complete) {
        return 0; /* two unknown figures have no difference */
    }
    int64_t base = m->base_bytes < 0 ? 0 : m->base_bytes;
    return m->bytes > base ? m->bytes - base : 0;
}

/* Bytes a second since its last measure. */
static double disk_rate(const struct disk_measure *m)
{
    int64_t took_ms = m->at_ms - m->base_ms;
    return (double)disk_growth(m) * 1000.0 /
           (double)(took_ms < DISK_RATE_MS_MIN ? DISK_RATE_MS_MIN : took_ms);
}

static int disk_pick_unknown(const struct disk_measure *list, size_t count)
{
    int best = -1;
    for (size_t i = 0; i < count; i++) {
        if (!list[i].is_complete && (best < 0 || list[i].bytes > list[best].bytes)) {
            best = (int)i;
        }
    }
    return best;
}

int disk_pick(const struct disk_measure *list, size_t count, int64_t floor_bytes, bool is_falling)
{
    int best = -1;
    for (size_t i = 0; i < count; i++) {
        if (disk_growth(&list[i]) >= disk_matters(floor_bytes) &&
            (best < 0 || disk_rate(&list[i]) > disk_rate(&list[best]))) {
            best = (int)i;
        }
    }
    return best < 0 && is_falling ? disk_pick_unknown(list, count) : best;
}

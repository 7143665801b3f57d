/*
 * The reserve file. Must never fail anybody: without it everything works as long as there is room.
 */
#include "control/store/reserve.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"

/* Less than this is no room: a transaction may write a few hundred pages twice. */
#define RESERVE_ROOM_MIN_BYTES (4LL * 1024 * 1024)
/* Made only where it takes no more than a part of what is left. */
#define RESERVE_MAKE_BYTES  (4 * RESERVE_BYTES)
#define RESERVE_AWAIT_MS    5000
#define RESERVE_LOOK_MS     50
#define RESERVE_BLOCK_BYTES 512
#define RESERVE_NAME        "/reserve"

int64_t reserve_room(const struct reserve *r)
{
    /* The file may be gone; its directory is not. */
    char directory[PATHS_MAX];
    (void)snprintf(directory, sizeof(directory), "%.*s",
                   (int)(strlen(r->path) - strlen(RESERVE_NAME)), r->path);
    struct statvfs fs;
    return statvfs(directory, &fs) == 0 ? (int64_t)fs.f_bfree * (int64_t)fs.f_frsize : -1;
}

static bool reserve_is_whole(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           (int64_t)st.st_blocks * RESERVE_BLOCK_BYTES >= RESERVE_BYTES;
}

/* posix_fallocate writes where the file system cannot allocate: the blocks are real either way. */
static bool reserve_make(struct reserve *r)
{
    int fd AUTOCLOSE = open(r->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    if (reserve_is_whole(fd)) {
        return true;
    }
    if (reserve_room(r) >= RESERVE_MAKE_BYTES && posix_fallocate(fd, 0, RESERVE_BYTES) == 0) {
        return true;
    }
    (void)unlink(r->path);
    return false;
}

void reserve_init(struct reserve *r, const char *data_dir)
{
    (void)paths_join(r->path, data_dir, "state" RESERVE_NAME);
    atomic_store(&r->is_held, reserve_make(r));
    if (!atomic_load(&r->is_held)) {
        log_warn("no room for the reserve file: a full disk may lose what happens then", "path",
                 r->path);
    }
}

void reserve_restore(struct reserve *r)
{
    if (!atomic_load(&r->is_held) && reserve_room(r) >= RESERVE_MAKE_BYTES && reserve_make(r)) {
        atomic_store(&r->is_held, true);
        log_info("the reserve file is there again", "path", r->path);
    }
}

bool reserve_release(struct reserve *r)
{
    if (!atomic_exchange(&r->is_held, false)) {
        return false;
    }
    (void)unlink(r->path);
    log_error("the disk is full: the reserve file was given back, so that what ends now is stored",
              "path", r->path);
    return true;
}

void reserve_await(struct reserve *r)
{
    int64_t deadline_ms = clock_mono_ms() + RESERVE_AWAIT_MS;
    while (atomic_load(&r->is_held)) {
        int64_t room = reserve_room(r);
        if (room < 0 || room >= RESERVE_ROOM_MIN_BYTES) {
            return;
        }
        if (clock_until(deadline_ms) == 0) {
            (void)reserve_release(r);
            return;
        }
        clock_sleep_ms(RESERVE_LOOK_MS);
    }
}

/*
 * Watching the database's directory. Writes go to the log beside the database first, which may be
 * replaced: so it is the directory that is watched.
 */
#include "control/store/watch.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/fd.h"
#include "lib/paths.h"

#define WATCH_DRAIN_BYTES 4096

int watch_open(const char *data_dir)
{
    char path[PATHS_MAX];
    int fd AUTOCLOSE = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, paths_join(path, data_dir, "state"), IN_MODIFY) < 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

void watch_drain(int fd)
{
    alignas(struct inotify_event) char events[WATCH_DRAIN_BYTES];
    while (read(fd, events, sizeof(events)) > 0) {
    }
}

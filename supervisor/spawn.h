/*
 * Spawn: fork and exec of ourselves as a child (see child.h). Never blocks; the only place where
 * PID 1 forks. One thread.
 */
#pragma once

#include <sys/types.h>

#include "lib/err.h"

/* Told in hello. Not the commit: a container is made anew when this program changes, so it must
 * change seldom. */
#define SUPERVISOR_VERSION "2"

#define SPAWN_ARGS_MAX 1024 /* an argv that fits into one record */

struct spawn {
    const char *const *args; /* behind "child", ended by NULL: mode and its arguments */
    const char *const *envp; /* ended by NULL; exactly this */
    int fds[3];     /* 0, 1 and 2 of the child; -1: /dev/null for 0, ours for 1 and 2. Borrowed */
    int control_fd; /* becomes 3; -1: none. Borrowed */
};

/* Remembers our own path. Before PID 1 makes itself non-dumpable. */
void spawn_init(const char *argv0);
/* Our own path, borrowed for ever. */
const char *spawn_self(void);
/* ERR_UNAVAILABLE: no process or memory left; try again later. */
int spawn_start(const struct spawn *s, pid_t *ret_pid, struct err *e) MUST_CHECK;

/*
 * Containers that Docker is starting at this moment.
 *
 * Docker answers nothing about a container until its start is over, some milliseconds after PID 1
 * ran its first instruction. Who PID 1 is can be told without it: by the container whose cgroup a
 * process is in, and by its number in its own pid namespace. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "engine/inspect.h"
#include "lib/str.h"

/* Around the start of a container. With more than 64 at once the later ones are not known here,
 * which costs them those milliseconds. */
void starting_begin(const struct inspect *container);
void starting_end(const struct inspect *container);

/* Is that process, with that user, PID 1 of the container that is being started for this sandbox?
 * False also when that cannot be told: ask Docker then. Does not block. */
bool starting_is_init(const struct ulid *id, pid_t pid, uid_t uid);

/* Whether a text of /proc/<pid>/status is of a process that is number 1 of a pid namespace right
 * below the reader's own. Pure. */
bool starting_status_is_init(struct str status);

/*
 * Use of memory and CPU of a container, read from its cgroup, versions 1 and 2. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/err.h"
#include "lib/str.h"

#define CGROUP_PATH_BYTES 512

struct cgroup_usage {
    uint64_t memory_bytes; /* without page cache that can be dropped */
    uint64_t limit_bytes;  /* 0: none */
    uint64_t cpu_usec;
};

/* container_id: the engine's, 64 hex digits: a path that does not name it is not believed.
 * ERR_NOT_FOUND, ERR_IO. */
int cgroup_usage_read(pid_t pid, const char *container_id, struct cgroup_usage *ret, struct err *e)
    MUST_CHECK;

/* Is that process in the container's cgroup? For peers under gVisor. ERR_NOT_FOUND, ERR_IO. */
int cgroup_has_process(pid_t pid, const char *container_id, bool *ret_is_in, struct err *e)
    MUST_CHECK;

/* Parsers; pure.
 * Path of one controller in /proc/<pid>/cgroup; "" is the unified hierarchy. False when absent or
 * too long. */
bool cgroup_parse_path(struct str text, const char *controller, char ret_path[CGROUP_PATH_BYTES]);
/* Does any line's path have the container's directory, "<id>" or "docker-<id>.scope", as a
 * component? */
bool cgroup_text_names(struct str text, const char *container_id);
/* Value of "key value" in a flat keyed file such as memory.stat. */
bool cgroup_parse_key(struct str text, const char *key, uint64_t *ret_value);
/* use - inactive and active file pages, never below 0. version 1 or 2 picks the names. */
uint64_t cgroup_memory_real(uint64_t use, struct str memory_stat, int version);

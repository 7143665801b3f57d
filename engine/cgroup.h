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

/* Where a container's memory is accounted. */
struct cgroup_place {
    int version;
    char dir[CGROUP_PATH_BYTES];
};

struct cgroup_memory {
    uint64_t real_bytes;  /* without page cache that can be dropped */
    uint64_t limit_bytes; /* 0: none */
    uint64_t oom_kills;   /* processes of it that the kernel killed for memory, since it is there */
    /* Version 2: out-of-memory at its own limit. Version 1 counts only how often the limit was
     * touched. */
    uint64_t limit_hits;
};

enum cgroup_kill {
    CGROUP_KILL_NONE,
    CGROUP_KILL_LIMIT, /* at the container's own limit */
    CGROUP_KILL_HOST,  /* the host had none left */
};

/* "no", "limit", "host" */
const char *cgroup_kill_name(enum cgroup_kill kill);

/* Finds the place once; a path that does not name the container is not believed. ERR_NOT_FOUND,
 * ERR_IO. */
int cgroup_find(pid_t pid, const char *container_id, struct cgroup_place *ret, struct err *e)
    MUST_CHECK;
/* Three small files. ERR_NOT_FOUND, ERR_IO: the container ended. */
int cgroup_memory_read(const struct cgroup_place *place, struct cgroup_memory *ret, struct err *e)
    MUST_CHECK;

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
/* Who killed between two readings of one container. Both versions count a kill in the container
 * whoever ordered it; only version 2 counts apart what its own limit did. docker_says: Docker told
 * of an out-of-memory of that container, which under version 1 the kernel tells of its limit alone.
 * Pure. */
enum cgroup_kill cgroup_kill_cause(int version, const struct cgroup_memory *before,
                                   const struct cgroup_memory *now, bool host_was_short,
                                   bool docker_says);
/* use - inactive and active file pages, never below 0. version 1 or 2 picks the names. */
uint64_t cgroup_memory_real(uint64_t use, struct str memory_stat, int version);

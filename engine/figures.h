/*
 * Figures of the host: memory and the version of its cgroup tree. Any thread; reads /proc and /sys.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/str.h"

struct figures_memory {
    uint64_t total_bytes;
    uint64_t available_bytes;
};

/* From /proc/meminfo. ERR_IO. */
int figures_memory_read(struct figures_memory *ret, struct err *e) MUST_CHECK;
/* Its parser. False when MemTotal or MemAvailable is missing. Pure. */
bool figures_memory_parse(struct str text, struct figures_memory *ret);
/* Half of the host's memory, 1 to 4 GiB, unless the setting (not 0) says otherwise. Pure. */
uint64_t figures_memory_default(uint64_t total_bytes, uint64_t setting_bytes);
/* 1 or 2. */
int figures_cgroup_version(void);

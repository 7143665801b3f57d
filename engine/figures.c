/*
 * Figures of the host. Any thread.
 */
#include "engine/figures.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/fd.h"
#include "lib/mem.h"

#define MEMINFO_BYTES_MAX 65536
#define GIB               (1ULL << 30)

/* "MemTotal:       16384 kB" → bytes. */
static bool figures_line(struct str line, struct str key, uint64_t *ret_bytes)
{
    uint64_t kib = 0;
    if (!str_starts(line, key)) {
        return false;
    }
    struct str value = str_trim(str_cut(line, key.len, line.len));
    if (!str_ends(value, STR(" kB")) ||
        !str_to_u64(str_trim(str_cut(value, 0, value.len - 3)), UINT64_MAX / 1024, &kib)) {
        return false;
    }
    *ret_bytes = kib * 1024;
    return true;
}

bool figures_memory_parse(struct str text, struct figures_memory *ret)
{
    struct figures_memory found = {0};
    struct str line;
    bool has_total = false;
    bool has_available = false;
    while (str_split(&text, '\n', &line)) {
        has_total = has_total || figures_line(line, STR("MemTotal:"), &found.total_bytes);
        has_available =
            has_available || figures_line(line, STR("MemAvailable:"), &found.available_bytes);
    }
    if (has_total && has_available) {
        *ret = found;
    }
    return has_total && has_available;
}

int figures_memory_read(struct figures_memory *ret, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (fd_read_file("/proc/meminfo", MEMINFO_BYTES_MAX, &text, &len, e) < 0) {
        return -1;
    }
    if (!figures_memory_parse(str_n(text, len), ret)) {
        return err_set(e, ERR_IO, 0, "/proc/meminfo names no MemTotal and MemAvailable");
    }
    return 0;
}

uint64_t figures_memory_default(uint64_t total_bytes, uint64_t setting_bytes)
{
    if (setting_bytes > 0) {
        return setting_bytes < total_bytes ? setting_bytes : total_bytes;
    }
    uint64_t half = total_bytes / 2;
    if (half < GIB) {
        return GIB;
    }
    return half > 4 * GIB ? 4 * GIB : half;
}

int figures_cgroup_version(void)
{
    return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? 2 : 1;
}

/*
 * Use of memory and CPU of a container. Reads the host's cgroup tree, mounted at its usual place.
 * Any thread.
 */
#include "engine/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/figures.h"
#include "lib/fd.h"
#include "lib/mem.h"

#define CGROUP_ROOT    "/sys/fs/cgroup"
#define FILE_BYTES_MAX 65536
/* Version 1 writes "no limit" as a number near 2^63. */
#define LIMIT_NONE_BYTES (1ULL << 60)

bool cgroup_parse_path(struct str text, const char *controller, char ret_path[CGROUP_PATH_BYTES])
{
    struct str line;
    while (str_split(&text, '\n', &line)) {
        struct str number;
        struct str names;
        struct str name;
        if (!str_split(&line, ':', &number) || !str_split(&line, ':', &names) || !line.ptr) {
            continue;
        }
        bool is_match = *controller == '\0' && str_empty(names);
        while (!is_match && !str_empty(names) && str_split(&names, ',', &name)) {
            is_match = str_is(name, controller);
        }
        if (is_match && line.len < CGROUP_PATH_BYTES) {
            memcpy(ret_path, line.ptr, line.len);
            ret_path[line.len] = '\0';
            return true;
        }
    }
    return false;
}

/* "docker-<id>.scope" or "<id>" */
static bool component_is(struct str component, struct str id)
{
    struct str prefix = STR("docker-");
    if (str_starts(component, prefix) && str_ends(component, STR(".scope"))) {
        component = str_cut(component, prefix.len, component.len - STR(".scope").len);
    }
    return str_eq(component, id);
}

bool cgroup_text_names(struct str text, const char *container_id)
{
    struct str line;
    while (str_split(&text, '\n', &line)) {
        struct str ignored;
        struct str component;
        if (!str_split(&line, ':', &ignored) || !str_split(&line, ':', &ignored)) {
            continue;
        }
        while (line.ptr && str_split(&line, '/', &component)) {
            if (component_is(component, str_of(container_id))) {
                return true;
            }
        }
    }
    return false;
}

bool cgroup_parse_key(struct str text, const char *key, uint64_t *ret_value)
{
    struct str line;
    while (str_split(&text, '\n', &line)) {
        struct str name;
        if (str_split(&line, ' ', &name) && str_is(name, key)) {
            return str_to_u64(line, UINT64_MAX, ret_value);
        }
    }
    return false;
}

uint64_t cgroup_memory_real(uint64_t use, struct str memory_stat, int version)
{
    uint64_t inactive = 0;
    uint64_t active = 0;
    (void)cgroup_parse_key(memory_stat, version == 2 ? "inactive_file" : "total_inactive_file",
                           &inactive);
    (void)cgroup_parse_key(memory_stat, version == 2 ? "active_file" : "total_active_file",
                           &active);
    uint64_t cache = inactive + active;
    return cache < use ? use - cache : 0;
}

static int process_text(pid_t pid, char **ret_text, size_t *ret_len, struct err *e)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    return fd_read_file(path, FILE_BYTES_MAX, ret_text, ret_len, e);
}

int cgroup_has_process(pid_t pid, const char *container_id, bool *ret_is_in, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (process_text(pid, &text, &len, e) < 0) {
        return -1;
    }
    *ret_is_in = cgroup_text_names(str_n(text, len), container_id);
    return 0;
}

static int file_text(const char *dir, const char *name, char **ret_text, size_t *ret_len,
                     struct err *e)
{
    char path[CGROUP_PATH_BYTES * 2];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return fd_read_file(path, FILE_BYTES_MAX, ret_text, ret_len, e);
}

/* "max" is no limit: 0. */
static int file_number(const char *dir, const char *name, uint64_t *ret_value, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (file_text(dir, name, &text, &len, e) < 0) {
        return -1;
    }
    struct str value = str_trim(str_n(text, len));
    if (str_is(value, "max")) {
        *ret_value = 0;
        return 0;
    }
    if (!str_to_u64(value, UINT64_MAX, ret_value)) {
        return err_set(e, ERR_IO, 0, "%s/%s is no number", dir, name);
    }
    return 0;
}

/*
 * Directory of a controller. Our own container may have a cgroup namespace of its own (the default
 * under version 2): then the path of others begins with "/..", and the places where Docker puts
 * containers are tried.
 */
static int controller_dir(struct str process, const char *controller, const char *hierarchy,
                          char ret_dir[CGROUP_PATH_BYTES], struct err *e)
{
    static const char *const parents[] = {"", "/docker", "/system.slice"};
    char path[CGROUP_PATH_BYTES];
    if (!cgroup_parse_path(process, controller, path)) {
        return err_set(e, ERR_NOT_FOUND, 0, "no cgroup with %s",
                       *controller ? controller : "version 2");
    }
    const char *below = path;
    while (strncmp(below, "/..", 3) == 0) {
        below += 3;
    }
    for (size_t i = 0; i < ARRAY_LEN(parents); i++) {
        int len = snprintf(ret_dir, CGROUP_PATH_BYTES, CGROUP_ROOT "%s%s%s%s",
                           *hierarchy ? "/" : "", hierarchy, parents[i], below);
        if (len > 0 && len < CGROUP_PATH_BYTES && access(ret_dir, F_OK) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_NOT_FOUND, 0, "no cgroup directory for %s below " CGROUP_ROOT, path);
}

static int usage_v1(struct str process, struct cgroup_usage *ret, struct err *e)
{
    char dir[CGROUP_PATH_BYTES];
    char *stat AUTOFREE = NULL;
    size_t stat_len = 0;
    uint64_t use = 0;
    uint64_t cpu_nsec = 0;
    if (controller_dir(process, "memory", "memory", dir, e) < 0 ||
        file_number(dir, "memory.usage_in_bytes", &use, e) < 0 ||
        file_number(dir, "memory.limit_in_bytes", &ret->limit_bytes, e) < 0 ||
        file_text(dir, "memory.stat", &stat, &stat_len, e) < 0 ||
        controller_dir(process, "cpuacct", "cpuacct", dir, e) < 0 ||
        file_number(dir, "cpuacct.usage", &cpu_nsec, e) < 0) {
        return -1;
    }
    ret->memory_bytes = cgroup_memory_real(use, str_n(stat, stat_len), 1);
    ret->cpu_usec = cpu_nsec / 1000;
    return 0;
}

static int usage_v2(struct str process, struct cgroup_usage *ret, struct err *e)
{
    char dir[CGROUP_PATH_BYTES];
    char *stat AUTOFREE = NULL;
    char *cpu AUTOFREE = NULL;
    size_t stat_len = 0;
    size_t cpu_len = 0;
    uint64_t use = 0;
    if (controller_dir(process, "", "", dir, e) < 0 ||
        file_number(dir, "memory.current", &use, e) < 0 ||
        file_number(dir, "memory.max", &ret->limit_bytes, e) < 0 ||
        file_text(dir, "memory.stat", &stat, &stat_len, e) < 0 ||
        file_text(dir, "cpu.stat", &cpu, &cpu_len, e) < 0) {
        return -1;
    }
    ret->memory_bytes = cgroup_memory_real(use, str_n(stat, stat_len), 2);
    if (!cgroup_parse_key(str_n(cpu, cpu_len), "usage_usec", &ret->cpu_usec)) {
        return err_set(e, ERR_IO, 0, "cpu.stat without usage_usec");
    }
    return 0;
}

int cgroup_usage_read(pid_t pid, const char *container_id, struct cgroup_usage *ret, struct err *e)
{
    struct cgroup_usage usage = {0};
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (process_text(pid, &text, &len, e) < 0) {
        return -1;
    }
    struct str process = str_n(text, len);
    if (!cgroup_text_names(process, container_id)) {
        return err_set(e, ERR_NOT_FOUND, 0, "process %d is not in the container's cgroup",
                       (int)pid);
    }
    int result =
        figures_cgroup_version() == 2 ? usage_v2(process, &usage, e) : usage_v1(process, &usage, e);
    if (result < 0) {
        return -1;
    }
    if (usage.limit_bytes >= LIMIT_NONE_BYTES) {
        usage.limit_bytes = 0;
    }
    *ret = usage;
    return 0;
}

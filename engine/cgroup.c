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

const char *cgroup_kill_name(enum cgroup_kill kill)
{
    static const char *const names[] = {
        [CGROUP_KILL_NONE] = "no", [CGROUP_KILL_LIMIT] = "limit", [CGROUP_KILL_HOST] = "host"};
    return names[kill];
}

enum cgroup_kill cgroup_kill_cause(int version, const struct cgroup_memory *before,
                                   const struct cgroup_memory *now, bool host_was_short,
                                   bool docker_says)
{
    if (now->oom_kills <= before->oom_kills) {
        return CGROUP_KILL_NONE;
    }
    bool touched = now->limit_hits > before->limit_hits;
    if (version == 2) {
        return touched ? CGROUP_KILL_LIMIT : CGROUP_KILL_HOST;
    }
    if (docker_says) {
        return CGROUP_KILL_LIMIT;
    }
    /* Page cache touches a limit all day: that alone says nothing while the host had none left. */
    return touched && !host_was_short ? CGROUP_KILL_LIMIT : CGROUP_KILL_HOST;
}

static int memory_v1(const char *dir, struct cgroup_memory *ret, struct err *e)
{
    char *stat AUTOFREE = NULL;
    char *oom AUTOFREE = NULL;
    size_t stat_len = 0;
    size_t oom_len = 0;
    uint64_t use = 0;
    if (file_number(dir, "memory.usage_in_bytes", &use, e) < 0 ||
        file_number(dir, "memory.limit_in_bytes", &ret->limit_bytes, e) < 0 ||
        file_number(dir, "memory.failcnt", &ret->limit_hits, e) < 0 ||
        file_text(dir, "memory.stat", &stat, &stat_len, e) < 0 ||
        file_text(dir, "memory.oom_control", &oom, &oom_len, e) < 0) {
        return -1;
    }
    ret->real_bytes = cgroup_memory_real(use, str_n(stat, stat_len), 1);
    /* Kernels before 4.13 do not count: then nothing is blamed on it. */
    (void)cgroup_parse_key(str_n(oom, oom_len), "oom_kill", &ret->oom_kills);
    return 0;
}

static int memory_v2(const char *dir, struct cgroup_memory *ret, struct err *e)
{
    char *stat AUTOFREE = NULL;
    char *events AUTOFREE = NULL;
    size_t stat_len = 0;
    size_t events_len = 0;
    uint64_t use = 0;
    if (file_number(dir, "memory.current", &use, e) < 0 ||
        file_number(dir, "memory.max", &ret->limit_bytes, e) < 0 ||
        file_text(dir, "memory.stat", &stat, &stat_len, e) < 0 ||
        file_text(dir, "memory.events", &events, &events_len, e) < 0) {
        return -1;
    }
    ret->real_bytes = cgroup_memory_real(use, str_n(stat, stat_len), 2);
    (void)cgroup_parse_key(str_n(events, events_len), "oom_kill", &ret->oom_kills);
    (void)cgroup_parse_key(str_n(events, events_len), "oom", &ret->limit_hits);
    return 0;
}

int cgroup_memory_read(const struct cgroup_place *place, struct cgroup_memory *ret, struct err *e)
{
    struct cgroup_memory found = {0};
    int result =
        place->version == 2 ? memory_v2(place->dir, &found, e) : memory_v1(place->dir, &found, e);
    if (result < 0) {
        return -1;
    }
    if (found.limit_bytes >= LIMIT_NONE_BYTES) {
        found.limit_bytes = 0;
    }
    *ret = found;
    return 0;
}

/* The process's cgroup file, when it names the container. */
static int process_of(pid_t pid, const char *container_id, char **ret_text, size_t *ret_len,
                      struct err *e)
{
    if (process_text(pid, ret_text, ret_len, e) < 0) {
        return -1;
    }
    if (!cgroup_text_names(str_n(*ret_text, *ret_len), container_id)) {
        return err_set(e, ERR_NOT_FOUND, 0, "process %d is not in the container's cgroup",
                       (int)pid);
    }
    return 0;
}

static int place_of(struct str process, struct cgroup_place *ret, struct err *e)
{
    ret->version = figures_cgroup_version();
    return ret->version == 2 ? controller_dir(process, "", "", ret->dir, e)
                             : controller_dir(process, "memory", "memory", ret->dir, e);
}

int cgroup_find(pid_t pid, const char *container_id, struct cgroup_place *ret, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (process_of(pid, container_id, &text, &len, e) < 0) {
        return -1;
    }
    return place_of(str_n(text, len), ret, e);
}

static int cpu_usec(struct str process, const struct cgroup_place *place, uint64_t *ret,
                    struct err *e)
{
    char dir[CGROUP_PATH_BYTES];
    char *cpu AUTOFREE = NULL;
    size_t len = 0;
    if (place->version == 1) {
        uint64_t nsec = 0;
        if (controller_dir(process, "cpuacct", "cpuacct", dir, e) < 0 ||
            file_number(dir, "cpuacct.usage", &nsec, e) < 0) {
            return -1;
        }
        *ret = nsec / 1000;
        return 0;
    }
    if (file_text(place->dir, "cpu.stat", &cpu, &len, e) < 0) {
        return -1;
    }
    if (!cgroup_parse_key(str_n(cpu, len), "usage_usec", ret)) {
        return err_set(e, ERR_IO, 0, "cpu.stat without usage_usec");
    }
    return 0;
}

int cgroup_usage_read(pid_t pid, const char *container_id, struct cgroup_usage *ret, struct err *e)
{
    struct cgroup_place place;
    struct cgroup_memory memory;
    uint64_t usec = 0;
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (process_of(pid, container_id, &text, &len, e) < 0 ||
        place_of(str_n(text, len), &place, e) < 0 || cgroup_memory_read(&place, &memory, e) < 0 ||
        cpu_usec(str_n(text, len), &place, &usec, e) < 0) {
        return -1;
    }
    *ret = (struct cgroup_usage){
        .memory_bytes = memory.real_bytes, .limit_bytes = memory.limit_bytes, .cpu_usec = usec};
    return 0;
}

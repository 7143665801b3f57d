/*
 * Settings of sandboxd-engine. Runs in main before any thread; must never read a setting twice.
 */
#include "engine/config.h"

#include <stdio.h>
#include <string.h>

#include "lib/env.h"

#define UID_BASE_DEFAULT   2000000000U
#define UID_BASE_MIN       10000U
#define UID_BASE_MAX       4294800000U
#define MEMORY_MIN_BYTES   (64ULL << 20)
#define MEMORY_MAX_BYTES   (1ULL << 44)
#define CPUS_MAX           1000U
#define DATA_DIR_BYTES_MAX 255U

bool config_bridge_is_valid(struct str name)
{
    if (name.len == 0 || name.len >= CONFIG_BRIDGE_BYTES || name.ptr[0] < 'a' ||
        name.ptr[0] > 'z') {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) {
            return false;
        }
    }
    return true;
}

static bool path_char_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

bool config_path_is_valid(struct str path)
{
    struct str part;
    if (path.len < 2 || path.len > DATA_DIR_BYTES_MAX || path.ptr[0] != '/') {
        return false;
    }
    struct str rest = str_cut(path, 1, path.len);
    while (str_split(&rest, '/', &part)) {
        if (str_empty(part) || str_is(part, ".") || str_is(part, "..")) {
            return false;
        }
        for (size_t i = 0; i < part.len; i++) {
            if (!path_char_is_plain(part.ptr[i])) {
                return false;
            }
        }
    }
    return path.ptr[path.len - 1] != '/';
}

bool config_parse_cpus(struct str text, uint64_t *ret_milli)
{
    uint64_t whole = 0;
    uint64_t part = 0;
    ptrdiff_t dot = str_find(text, '.');
    size_t end = dot < 0 ? text.len : (size_t)dot;
    if (!str_to_u64(str_cut(text, 0, end), CPUS_MAX, &whole)) {
        return false;
    }
    if (dot >= 0) {
        struct str digits = str_cut(text, end + 1, text.len);
        uint64_t unit = 100;
        if (str_empty(digits) || digits.len > 3) {
            return false;
        }
        for (size_t i = 0; i < digits.len; i++, unit /= 10) {
            if (digits.ptr[i] < '0' || digits.ptr[i] > '9') {
                return false;
            }
            part += (uint64_t)(digits.ptr[i] - '0') * unit;
        }
    }
    *ret_milli = whole * 1000 + part;
    return true;
}

static int config_load_paths(struct config *c, struct err *e)
{
    c->data_dir = env_text("SANDBOXD_DATA_DIR", "/var/lib/sandboxed");
    c->docker_socket = env_text("SANDBOXD_DOCKER_SOCKET", "/var/run/docker.sock");
    c->presets_dir = env_text("SANDBOXD_PRESETS_DIR", "/usr/share/sandboxd/presets");
    c->ca_dir = env_text("SANDBOXD_CA_DIR", "/usr/local/share/ca-certificates");
    c->build_config_dir = env_text("SANDBOXD_BUILD_CONFIG_DIR", "");
    if (!config_path_is_valid(str_of(c->data_dir))) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_DATA_DIR is \"%s\": it must be an absolute path of letters, digits, "
            "_ - and . without a slash at its end, at most %u bytes",
            c->data_dir, DATA_DIR_BYTES_MAX);
    }
    return 0;
}

static int config_load_network(struct config *c, struct err *e)
{
    c->bridge = env_text("SANDBOXD_BRIDGE", "sbx0");
    c->subnet = env_text("SANDBOXD_SUBNET", "");
    if (!config_bridge_is_valid(str_of(c->bridge))) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_BRIDGE is \"%s\": it must be 1 to 15 of a-z, 0-9 and _, a letter first",
            c->bridge);
    }
    (void)snprintf(c->table, sizeof(c->table), "sandboxd_%s", c->bridge);
    struct allow_prefix subnet;
    if (*c->subnet && (!allow_parse_prefix(str_of(c->subnet), &subnet) || subnet.is_v6 ||
                       subnet.bits < 8 || subnet.bits > 28 || !allow_prefix_is_base(&subnet))) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_SUBNET is \"%s\": it must be an IPv4 network such as 10.201.0.0/20, "
            "length 8 to 28",
            c->subnet);
    }
    if (env_bool("SANDBOXD_WALLS", true, &c->walls_on, e) < 0) {
        return -1;
    }
    if (allow_parse(str_of(env_text("SANDBOXD_EGRESS_ALLOW", "")), &c->allow, e) < 0) {
        return err_wrap(e, "SANDBOXD_EGRESS_ALLOW");
    }
    return 0;
}

static int config_load_dns(struct config *c, struct err *e)
{
    const char *text = env_text("SANDBOXD_DNS", "");
    struct str rest = str_of(text);
    struct str part;
    while (*text && str_split(&rest, ',', &part)) {
        part = str_trim(part);
        if (c->dns_count == CONFIG_DNS_MAX || !allow_parse_prefix(part, &c->dns[c->dns_count]) ||
            !allow_prefix_is_address(&c->dns[c->dns_count])) {
            return err_set(
                e, ERR_INVALID, 0,
                "SANDBOXD_DNS has \"%.*s\": it must be at most %d addresses, separated by "
                "commas",
                STR_FMT(part), CONFIG_DNS_MAX);
        }
        c->dns_count++;
    }
    return 0;
}

static int config_load_runtime(struct config *c, struct err *e)
{
    const char *runtime = env_text("SANDBOXD_RUNTIME", "runc");
    c->runsc = strcmp(runtime, "runsc") == 0;
    if (!c->runsc && strcmp(runtime, "runc") != 0) {
        return err_set(e, ERR_INVALID, 0, "SANDBOXD_RUNTIME is \"%s\": it must be runc or runsc",
                       runtime);
    }
    const char *cpus = env_text("SANDBOXD_SANDBOX_CPUS", "");
    if (*cpus && !config_parse_cpus(str_of(cpus), &c->cpus_milli)) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_SANDBOX_CPUS is \"%s\": it must be a number of CPUs such as 2 or 0.5", cpus);
    }
    if (env_bytes("SANDBOXD_SANDBOX_MEMORY", MEMORY_MIN_BYTES, MEMORY_MAX_BYTES, 0,
                  &c->memory_bytes, e) < 0) {
        return -1;
    }
    return env_u64("SANDBOXD_UID_BASE", UID_BASE_MIN, UID_BASE_MAX, UID_BASE_DEFAULT, &c->uid_base,
                   e);
}

int config_load(struct config *ret, struct err *e)
{
    *ret = (struct config){0};
    const char *level = env_text("SANDBOXD_LOG_LEVEL", "info");
    if (!log_level_parse(level, &ret->log_level)) {
        return err_set(e, ERR_INVALID, 0,
                       "SANDBOXD_LOG_LEVEL is \"%s\": it must be debug, info, warn or error",
                       level);
    }
    if (config_load_paths(ret, e) < 0 || config_load_network(ret, e) < 0 ||
        config_load_dns(ret, e) < 0) {
        return -1;
    }
    return config_load_runtime(ret, e);
}

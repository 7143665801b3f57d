/*
 * Settings of sandboxd-engine, read once at start before any thread; constant afterwards.
 *
 * The engine decides isolation by its own copy of the settings and never by what a caller says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/allow.h"
#include "lib/err.h"
#include "lib/log.h"

#define CONFIG_DNS_MAX      8
#define CONFIG_BRIDGE_BYTES 16 /* IFNAMSIZ */

struct config {
    const char *data_dir; /* all strings: borrowed from the environment */
    const char *bridge;
    const char *subnet; /* "" when we choose */
    const char *docker_socket;
    const char *presets_dir;
    const char *ca_dir;
    const char *build_config_dir; /* "" when there is none */
    char table[CONFIG_BRIDGE_BYTES + 16];
    bool walls_on;
    bool runsc;
    struct allow_list allow;
    struct allow_prefix dns[CONFIG_DNS_MAX];
    size_t dns_count;
    uint64_t memory_bytes; /* 0: half of the host's */
    uint64_t cpus_milli;   /* 0: no limit */
    uint64_t uid_base;
    enum log_level log_level;
};

/* One line naming the setting on anything wrong. ERR_INVALID. */
int config_load(struct config *ret, struct err *e) MUST_CHECK;

/* "1.5" → 1500; at most three decimals. False for anything else or above 1,000 CPUs. */
bool config_parse_cpus(struct str text, uint64_t *ret_milli);
/* A Linux interface name that is also a plain nftables word: [a-z][a-z0-9_]{0,14}. */
bool config_bridge_is_valid(struct str name);
/* Absolute, no empty, "." or ".." component, no trailing slash, only letters, digits and _ - . / */
bool config_path_is_valid(struct str path);

/*
 * Settings of sandboxd, read once at start (docs/protocols.md, section 1). Constant afterwards; any
 * thread reads it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

#define CONFIG_TOKENS_MAX    32
#define CONFIG_PROVIDERS_MAX 16
#define CONFIG_VERSION       "0.1.0"

struct config_token {
    const char *name;
    const char *secret;
};

struct config {
    const char *data_dir;
    uint16_t api_port;
    uint16_t console_port;
    uint16_t preview_port;
    uint16_t http_port;
    const char *preview_domain;
    bool preview_tls;
    const char *console_host;
    bool console_insecure_http;
    struct config_token tokens[CONFIG_TOKENS_MAX];
    unsigned token_count;
    bool auth_disabled;
    const char *secrets_key; /* base64 or "" */
    uint32_t uid_base;
    const char *default_agent;
    const char *free_models;  /* comma separated */
    int64_t disk_floor_mb;    /* -1: chosen from the disk's size; 0: off */
    int64_t idle_threshold_s; /* 0: off */
    int64_t keep_alive_max_s;
    bool preview_private;                                  /* what a new app gets */
    int64_t wakes_per_minute_per_client, wakes_per_minute; /* 0: not limited */
    int64_t memory_low_percent;                            /* 0: off */
    int64_t memory_critical_percent;
    int64_t memory_watched_s;
    int64_t requests_per_minute; /* of one task; 0: no limit */
    const char *presets_dir;
    const char *console_dir;
    const char *init_source;
    const char *dns; /* resolvers of sandboxes under runsc, comma separated, "" for the host's */
};

/* ERR_INVALID with one line naming setting and fix. Strings are borrowed from the environment or
 * static. */
int config_load(struct config *ret, struct err *e) MUST_CHECK;
/* True when the console may be served over plain HTTP on its real name: localhost, or TLS, or the
 * owner's word. */
bool config_domain_is_local(const struct config *c);

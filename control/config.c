/*
 * Settings of sandboxd. The main thread at start.
 */
#include "control/config.h"

#include <stdio.h>
#include <string.h>

#include "lib/env.h"
#include "lib/mem.h"
#include "lib/str.h"

#define CONFIG_DATA_DIR_BYTES_MAX 200
#define CONFIG_TOKEN_BYTES_MIN    16
#define CONFIG_DISK_FLOOR_MB_MAX  (1024UL * 1024)
#define CONFIG_WAKES_MAX          100000

bool config_domain_is_local(const struct config *c)
{
    struct str domain = str_of(c->preview_domain);
    return str_is(domain, "localhost") || str_ends(domain, STR(".localhost"));
}

static int config_tokens(struct config *c, struct err *e)
{
    struct str rest = str_of(env_text("SANDBOXD_API_TOKENS", ""));
    struct str pair;
    while (rest.len > 0 && str_split(&rest, ',', &pair)) {
        struct str name;
        pair = str_trim(pair);
        if (pair.len == 0) {
            continue;
        }
        struct str secret = pair;
        if (!str_split(&secret, '=', &name) || str_trim(name).len == 0 ||
            secret.len < CONFIG_TOKEN_BYTES_MIN || !str_is_text(pair, false)) {
            return err_set(e, ERR_INVALID, 0,
                           "SANDBOXD_API_TOKENS: every entry is name=secret with a secret of %d or "
                           "more characters, entries separated by commas",
                           CONFIG_TOKEN_BYTES_MIN);
        }
        if (c->token_count == CONFIG_TOKENS_MAX) {
            return err_set(e, ERR_INVALID, 0, "SANDBOXD_API_TOKENS: more than %d entries",
                           CONFIG_TOKENS_MAX);
        }
        name = str_trim(name);
        secret = str_trim(secret);
        c->tokens[c->token_count++] = (struct config_token){
            .name = mem_dup(name.ptr, name.len), .secret = mem_dup(secret.ptr, secret.len)};
    }
    return 0;
}

static int config_domain(struct config *c, struct err *e)
{
    c->preview_domain = env_text("PREVIEW_DOMAIN", "localhost");
    struct str d = str_of(c->preview_domain);
    bool good = d.len > 0 && d.len < 200 && d.ptr[0] != '.' && d.ptr[d.len - 1] != '.';
    for (size_t i = 0; i < d.len; i++) {
        char ch = d.ptr[i];
        good = good &&
               ((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '.' || ch == '-');
    }
    if (!good) {
        return err_set(e, ERR_INVALID, 0,
                       "PREVIEW_DOMAIN is \"%.100s\"; a plain domain name in lower case is wanted, "
                       "without scheme, port or dots at the ends",
                       c->preview_domain);
    }
    static char console[256];
    (void)snprintf(console, sizeof(console), "console.%s", c->preview_domain);
    c->console_host = env_text("CONSOLE_HOST", console);
    if (env_bool("PREVIEW_TLS", false, &c->preview_tls, e) != 0 ||
        env_bool("CONSOLE_INSECURE_HTTP", false, &c->console_insecure_http, e) != 0) {
        return -1;
    }
    return 0;
}

static int config_auth(struct config *c, struct err *e)
{
    if (config_tokens(c, e) != 0 ||
        env_bool("SANDBOXD_API_AUTH_DISABLED", false, &c->auth_disabled, e) != 0) {
        return -1;
    }
    if (c->auth_disabled && !config_domain_is_local(c)) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_API_AUTH_DISABLED is on and PREVIEW_DOMAIN is \"%s\": an open API is "
            "for localhost only; unset one of them",
            c->preview_domain);
    }
    if (c->token_count == 0 && !c->auth_disabled) {
        return err_set(e, ERR_INVALID, 0,
                       "SANDBOXD_API_TOKENS is empty: nobody could use the API; put name=sk_… into "
                       ".env (install.sh writes one)");
    }
    return 0;
}

static int config_access(struct config *c, struct err *e)
{
    const char *text = env_text("SANDBOXD_PREVIEW_ACCESS", "public");
    uint64_t of_one = 0;
    uint64_t of_all = 0;
    if (!str_is(str_of(text), "public") && !str_is(str_of(text), "private")) {
        return err_set(e, ERR_INVALID, 0,
                       "SANDBOXD_PREVIEW_ACCESS is \"%.32s\"; public or private is accepted", text);
    }
    c->preview_private = str_is(str_of(text), "private");
    if (env_u64("SANDBOXD_WAKES_PER_MINUTE_PER_CLIENT", 0, CONFIG_WAKES_MAX, 10, &of_one, e) != 0 ||
        env_u64("SANDBOXD_WAKES_PER_MINUTE", 0, CONFIG_WAKES_MAX, 60, &of_all, e) != 0) {
        return -1;
    }
    c->wakes_per_minute_per_client = (int64_t)of_one;
    c->wakes_per_minute = (int64_t)of_all;
    return 0;
}

static int config_numbers(struct config *c, struct err *e)
{
    uint64_t base = 0;
    uint64_t idle = 0;
    uint64_t floor = 0;
    uint64_t keep_alive = 0;
    uint64_t requests = 0;
    if (env_port("API_PORT", 9090, &c->api_port, e) != 0 ||
        env_port("CONSOLE_PORT", 9091, &c->console_port, e) != 0 ||
        env_port("PREVIEW_PORT", 9080, &c->preview_port, e) != 0 ||
        env_port("HTTP_PORT", 80, &c->http_port, e) != 0 ||
        env_u64("SANDBOXD_UID_BASE", 100000, 4294000000ULL, 2000000000, &base, e) != 0 ||
        env_u64("SANDBOXD_DISK_FLOOR_MB", 0, CONFIG_DISK_FLOOR_MB_MAX, UINT32_MAX, &floor, e) !=
            0 ||
        env_u64("SANDBOXD_IDLE_THRESHOLD_SECONDS", 0, 31536000, 2100, &idle, e) != 0 ||
        env_u64("SANDBOXD_KEEP_ALIVE_MAX_SECONDS", 60, 31536000, 86400, &keep_alive, e) != 0 ||
        env_u64("SANDBOXD_TASK_REQUESTS_PER_MINUTE", 0, 100000, 120, &requests, e) != 0) {
        return -1;
    }
    if (c->api_port == c->console_port) {
        return err_set(e, ERR_INVALID, 0, "API_PORT and CONSOLE_PORT are both %u; they must differ",
                       c->api_port);
    }
    c->uid_base = (uint32_t)base;
    c->disk_floor_mb = floor == UINT32_MAX ? -1 : (int64_t)floor;
    c->idle_threshold_s = (int64_t)idle;
    c->keep_alive_max_s = (int64_t)keep_alive;
    c->requests_per_minute = (int64_t)requests;
    return 0;
}

static int config_memory(struct config *c, struct err *e)
{
    uint64_t low = 0;
    uint64_t critical = 0;
    uint64_t watched = 0;
    if (env_u64("SANDBOXD_MEMORY_LOW_PERCENT", 0, 99, 10, &low, e) != 0 ||
        env_u64("SANDBOXD_MEMORY_CRITICAL_PERCENT", 0, 99, 4, &critical, e) != 0 ||
        env_u64("SANDBOXD_MEMORY_WATCHED_SECONDS", 0, 86400, 120, &watched, e) != 0) {
        return -1;
    }
    if (low > 0 && critical > low) {
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_MEMORY_CRITICAL_PERCENT is %llu and SANDBOXD_MEMORY_LOW_PERCENT is "
            "%llu: the critical mark must not be above the low one",
            (unsigned long long)critical, (unsigned long long)low);
    }
    c->memory_low_percent = (int64_t)low;
    c->memory_critical_percent = (int64_t)critical;
    c->memory_watched_s = (int64_t)watched;
    return 0;
}

int config_load(struct config *ret, struct err *e)
{
    *ret = (struct config){0};
    ret->data_dir = env_text("SANDBOXD_DATA_DIR", "/var/lib/sandboxed");
    size_t len = strlen(ret->data_dir);
    if (ret->data_dir[0] != '/' || len > CONFIG_DATA_DIR_BYTES_MAX ||
        ret->data_dir[len - 1] == '/') {
        return err_set(e, ERR_INVALID, 0,
                       "SANDBOXD_DATA_DIR is \"%.64s\"; an absolute path of at most %d characters "
                       "without a slash at its end is wanted",
                       ret->data_dir, CONFIG_DATA_DIR_BYTES_MAX);
    }
    ret->secrets_key = env_text("SANDBOXD_SECRETS_KEY", "");
    ret->default_agent = env_text("SANDBOXD_DEFAULT_AGENT", "opencode");
    ret->free_models = env_text("SANDBOXD_OPENCODE_FREE_MODEL", "big-pickle");
    ret->presets_dir = env_text("SANDBOXD_PRESETS_DIR", "/usr/share/sandboxd/presets");
    ret->console_dir = env_text("SANDBOXD_CONSOLE_DIR", "/usr/share/sandboxd/console");
    ret->dns = env_text("SANDBOXD_DNS", "");
    ret->init_source = env_text("SANDBOXD_INIT_SOURCE", "/usr/lib/sandboxd/sandboxd-init");
    return config_numbers(ret, e) != 0 || config_access(ret, e) != 0 ||
                   config_memory(ret, e) != 0 || config_domain(ret, e) != 0 ||
                   config_auth(ret, e) != 0
               ? -1
               : 0;
}

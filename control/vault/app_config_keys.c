/*
 * Names of variables: which an owner may set. Pure, any thread.
 */
#include "control/vault/app_config.h"
#include "lib/mem.h"

static const char *const config_scope_names[] = {
    [APP_CONFIG_RUNTIME] = "runtime",
    [APP_CONFIG_AGENT] = "agent",
    [APP_CONFIG_BOTH] = "both",
};

const char *app_config_scope_name(enum app_config_scope scope)
{
    return config_scope_names[scope];
}

bool app_config_scope_parse(struct str name, enum app_config_scope *ret)
{
    for (size_t i = APP_CONFIG_RUNTIME; i <= APP_CONFIG_BOTH; i++) {
        if (str_is(name, config_scope_names[i])) {
            *ret = (enum app_config_scope)i;
            return true;
        }
    }
    return false;
}

struct config_reserved {
    const char *name; /* one that ends with _ stands for all that begin so */
    const char *why;
};

/* For everybody. */
static const struct config_reserved config_reserved[] = {
    {"PATH", "programs would not be found any more"},
    {"HOME", "the sandbox sets it"},
    {"USER", "the sandbox sets it"},
    {"LOGNAME", "the sandbox sets it"},
    {"SHELL", "the sandbox sets it"},
    {"PWD", "the sandbox sets it"},
    {"TMPDIR", "the sandbox sets it"},
    {"HOST", "the sandbox sets it, so that the preview reaches the app"},
    {"PORT", "the sandbox sets it, so that the preview reaches the app"},
    {"HOSTNAME", "dev servers would listen on it, where the preview does not reach them"},
    {"IFS", "shells would read commands differently"},
    {"ENV", "shells would run it"},
    {"BASH_ENV", "shells would run it"},
    {"BASH_FUNC_", "shells would run it"},
    {"LD_", "the dynamic linker would load other code into every program"},
    {"GLIBC_TUNABLES", "it changes every program"},
    {"SANDBOXD_", "these names belong to sandboxd"},
    {"__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS", "sandboxd sets it for the preview"},
};

/* For agents: what they are driven by. */
static const struct config_reserved config_reserved_agent[] = {
    {"ANTHROPIC_", "sandboxd points the agent at its provider with it"},
    {"OPENAI_", "sandboxd points the agent at its provider with it"},
    {"CLAUDE_", "sandboxd drives the agent with it"},
    {"OPENCODE_", "sandboxd drives the agent with it"},
    {"CODEX_", "sandboxd drives the agent with it"},
    {"DISABLE_", "sandboxd drives the agent with it"},
    {"XDG_", "sandboxd drives the agent with it"},
    {"GIT_CONFIG_", "it would change how the agent's git works"},
    {"NODE_OPTIONS", "the agent itself would start with it"},
    {"BUN_", "the agent itself would start with it"},
    {"TERM", "sandboxd drives the agent with it"},
};

/* Proxies in either case: the agent would send its task token there. */
static bool config_is_proxy(struct str key)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq_nocase(key, str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static const char *config_find(const struct config_reserved *list, size_t count, struct str key)
{
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(list[i].name);
        bool is = str_ends(name, STR("_")) ? str_starts(key, name) : str_eq(key, name);

        if (is) {
            return list[i].why;
        }
    }
    return NULL;
}

static bool config_is_name(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

        if (!letter && !(i > 0 && c >= '0' && c <= '9')) {
            return false;
        }
    }
    return key.len > 0 && key.len <= APP_CONFIG_KEY_BYTES_MAX;
}

int app_config_check_key(struct str key, enum app_config_scope scope, struct err *e)
{
    const char *why = NULL;

    if (!config_is_name(key)) {
        return err_set(e, ERR_INVALID, 0,
                       "a key has 1 to %d letters, digits and _, and does not begin with a digit",
                       APP_CONFIG_KEY_BYTES_MAX);
    }
    why = config_find(config_reserved, ARRAY_LEN(config_reserved), key);
    if (why) {
        return err_set(e, ERR_INVALID, 0, "%.*s cannot be set: %s", STR_FMT(key), why);
    }
    if (scope & APP_CONFIG_AGENT) {
        why = config_find(config_reserved_agent, ARRAY_LEN(config_reserved_agent), key);
        why = config_is_proxy(key) ? "the agent would send its token there" : why;
    }
    return why ? err_set(e, ERR_INVALID, 0,
                         "%.*s cannot be set for agents: %s; with scope \"runtime\" it can",
                         STR_FMT(key), why)
               : 0;
}

/*
 * What owners give their apps: secrets and settings that become environment variables. Values are
 * sealed at rest; who may see them is said by scope and by `sensitive`. Any thread; blocks for a
 * query's time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/store/app_config.h"
#include "lib/arena.h"
#include "lib/err.h"
#include "lib/mask.h"
#include "lib/record.h"
#include "lib/str.h"
#include "lib/ulid.h"

#define APP_CONFIG_KEY_BYTES_MAX   128
#define APP_CONFIG_VALUE_BYTES_MAX 16384

struct vault;

/* Who gets it in the environment. */
enum app_config_scope {
    APP_CONFIG_RUNTIME = 1, /* the app's processes */
    APP_CONFIG_AGENT = 2,   /* the agents that work on it */
    APP_CONFIG_BOTH = 3
};

const char *app_config_scope_name(enum app_config_scope scope);
/* False for none of that name. */
bool app_config_scope_parse(struct str name, enum app_config_scope *ret);
/* Is that a key, and one that owners may set with that scope? ERR_INVALID says why not. */
int app_config_check_key(struct str key, enum app_config_scope scope, struct err *e) MUST_CHECK;

struct app_config_item {
    const char *key;
    const char *value; /* NULL when it is sensitive */
    enum app_config_scope scope;
    bool sensitive;
    bool is_masked; /* sensitive, and long enough to be taken out of logs and events */
    int64_t version;
    int64_t created_at;
    int64_t updated_at;
};

struct app_config {
    struct app_config_item *items; /* by key */
    size_t count;
    int64_t version; /* of the last change that processes can see, 0: never one */
};

/* Without sensitive values. Lives in the arena. ERR_NOT_FOUND: no such app. */
int vault_config_list(struct vault *v, const struct ulid *app, struct arena *a,
                      struct app_config *ret, struct err *e) MUST_CHECK;

/* What of it changes; what is not set stays, or has its default where the key is new. */
struct app_config_change {
    const char *key;
    struct str value; /* ptr NULL: stays */
    enum app_config_scope scope;
    bool set_scope;
    bool sensitive;
    bool set_sensitive;
    bool is_running; /* processes run with what is there: its value is masked until they are gone */
};

/* On disk when it returns. ERR_INVALID, ERR_LIMIT, ERR_NOT_FOUND (the app). *ret_created: the key
 * is new; *ret_changed: something differs. */
int vault_config_set(struct vault *v, const struct ulid *app,
                     const struct app_config_change *change, bool *ret_created, bool *ret_changed,
                     struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. is_running as in a change. */
int vault_config_remove(struct vault *v, const struct ulid *app, struct str key, bool is_running,
                        struct err *e) MUST_CHECK;

/* Adds to a `configure` record what a boot starts with: `config_version`, `config`, `secret` and
 * `mask`, values in the clear: the caller wipes its buffer. */
int vault_config_add(struct vault *v, const struct ulid *app, struct record_writer *w,
                     int64_t *ret_version, struct err *e) MUST_CHECK;
/* Adds what no output may show, beside the version that is in force and stays so. */
int vault_config_add_masks(struct vault *v, const struct ulid *app, int64_t in_force,
                           struct record_writer *w, struct err *e) MUST_CHECK;
/* KEY=value of scope agent, ended by NULL, in the arena. */
int vault_config_agent_env(struct vault *v, const struct ulid *app, struct arena *a,
                           const char *const **ret, struct err *e) MUST_CHECK;
/* Of all sensitive values, and of those that were changed while processes run with them; NULL:
 * there are none. The caller frees it. */
int vault_config_mask(struct vault *v, const struct ulid *app, struct mask **ret, struct err *e)
    MUST_CHECK;
/* Rises with every change of any app: a mask that is older may lack something. */
uint64_t vault_config_changes(const struct vault *v);

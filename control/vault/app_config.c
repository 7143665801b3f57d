/*
 * What owners give their apps. It must never return, log or tell of a sensitive value: those leave
 * it for a sandbox's supervisor and for masks only. Any thread.
 */
#include "control/vault/app_config.h"

#include <stdio.h>

#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/thread.h"

#define CONFIG_PURPOSE     "app-config"
#define CONFIG_ROW_BYTES   (ULID_LEN + 1 + APP_CONFIG_KEY_BYTES_MAX + 1)
#define CONFIG_BOX_BYTES   (2 * APP_CONFIG_VALUE_BYTES_MAX)
#define CONFIG_PAIR_BYTES  (APP_CONFIG_KEY_BYTES_MAX + 1 + APP_CONFIG_VALUE_BYTES_MAX)
#define CONFIG_ARENA_BYTES (1024L * 1024)

/* What a box is bound to: a value cannot be moved to another app or key. */
static const char *config_row_name(const struct ulid *app, const char *key,
                                   char out[CONFIG_ROW_BYTES])
{
    (void)snprintf(out, CONFIG_ROW_BYTES, "%s/%s", app->text, key);
    return out;
}

static int config_open(const struct vault *v, const struct ulid *app,
                       const struct app_config_row *row, struct buf *out, struct err *e)
{
    char name[CONFIG_ROW_BYTES];

    if (crypto_open(&v->master, CONFIG_PURPOSE, config_row_name(app, row->key, name),
                    str_of(row->box), out, e) != 0) {
        return err_wrap(e, "the value of %s", row->key);
    }
    return 0;
}

static enum app_config_scope config_scope(const struct app_config_row *row)
{
    enum app_config_scope scope = APP_CONFIG_RUNTIME;

    (void)app_config_scope_parse(str_of(row->scope), &scope);
    return scope;
}

/* ---- looking ---- */

static int config_item(const struct vault *v, const struct ulid *app,
                       const struct app_config_row *row, struct arena *a,
                       struct app_config_item *ret, struct err *e)
{
    BUF_WIPED(value, CONFIG_PAIR_BYTES);

    if (config_open(v, app, row, &value, e) != 0) {
        return -1;
    }
    *ret = (struct app_config_item){
        .key = row->key,
        .value = row->sensitive ? NULL : arena_str(a, buf_str(&value)),
        .scope = config_scope(row),
        .sensitive = row->sensitive,
        .is_masked = row->sensitive && mask_covers(buf_str(&value)),
        .version = row->version,
        .created_at = row->created_at,
        .updated_at = row->updated_at,
    };
    return 0;
}

int vault_config_list(struct vault *v, const struct ulid *app, struct arena *a,
                      struct app_config *ret, struct err *e)
{
    struct app_config_rows rows;

    if (app_config_list(v->db, app, a, &rows, e) != 0) {
        return -1;
    }
    *ret = (struct app_config){.items = arena_alloc(a, sizeof(*ret->items) * (rows.count + 1)),
                               .count = rows.count,
                               .version = rows.version};
    for (size_t i = 0; i < rows.count; i++) {
        if (config_item(v, app, &rows.items[i], a, &ret->items[i], e) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- changing ---- */

/* A change, and what is there before it. */
struct config_edit {
    struct vault *v;
    const struct ulid *app;
    const struct app_config_change *change;
    const struct app_config_row *before; /* NULL: the key is new */
};

static const struct app_config_row *config_find(const struct app_config_rows *rows, const char *key)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->items[i].key, key) == 0) {
            return &rows->items[i];
        }
    }
    return NULL;
}

static int config_check_value(struct str value, struct err *e)
{
    if (value.len > APP_CONFIG_VALUE_BYTES_MAX) {
        return err_set(e, ERR_INVALID, 0,
                       "a value may have %d bytes; put what is larger into a file of the app",
                       APP_CONFIG_VALUE_BYTES_MAX);
    }
    if (memchr(value.ptr, '\0', value.len)) {
        return err_set(e, ERR_INVALID, 0, "a value cannot hold a NUL: no environment can");
    }
    return 0;
}

/* The value to be stored: the new one, or the one of before, which is opened into old. */
static int config_take_value(const struct config_edit *edit, struct buf *old, struct str *ret,
                             struct err *e)
{
    const struct app_config_change *c = edit->change;
    const struct app_config_row *before = edit->before;

    if (before && config_open(edit->v, edit->app, before, old, e) != 0) {
        return -1;
    }
    if (!c->value.ptr && !before) {
        return err_set(e, ERR_INVALID, 0, "value is wanted: %s is not set yet", c->key);
    }
    if (!c->value.ptr && before->sensitive && c->set_sensitive && !c->sensitive) {
        return err_set(e, ERR_INVALID, 0,
                       "a sensitive value is never shown: send it along to make it an open one");
    }
    *ret = c->value.ptr ? c->value : buf_str(old);
    return config_check_value(*ret, e);
}

/* Do processes of the app see a difference, in what they get? */
static bool config_is_seen(const struct app_config_row *before, enum app_config_scope scope,
                           bool same_value)
{
    bool was = before && (config_scope(before) & APP_CONFIG_RUNTIME) != 0;
    bool is = (scope & APP_CONFIG_RUNTIME) != 0;

    return was != is || (is && !same_value);
}

/* The box of before, when processes run with it and it is nobody's business. */
static const char *config_former(const struct app_config_row *before, bool is_running)
{
    bool kept = is_running && before && before->sensitive &&
                (config_scope(before) & APP_CONFIG_RUNTIME) != 0;

    return kept ? before->box : NULL;
}

static int config_store(const struct config_edit *edit, struct app_config_row *row,
                        struct str value, bool same_value, struct err *e)
{
    struct vault *v = edit->v;
    const struct ulid *app = edit->app;
    struct app_config_effect effect = {
        .is_seen = config_is_seen(edit->before, config_scope(row), same_value),
        .former = config_former(edit->before, edit->change->is_running)};
    BUF_AUTO(box, CONFIG_BOX_BYTES);
    char name[CONFIG_ROW_BYTES];

    crypto_seal(&v->master, CONFIG_PURPOSE, config_row_name(app, row->key, name), value, &box);
    if (!buf_ok(&box)) {
        return err_set(e, ERR_INTERNAL, 0, "a box is too small");
    }
    row->box = box.ptr;
    row->bytes = (int64_t)(strlen(row->key) + value.len);
    row->created_at = clock_unix_ms();
    row->updated_at = row->created_at;
    if (app_config_put(v->db, app, row, &effect, e) != 0) {
        return -1;
    }
    atomic_fetch_add(&v->config_changes, 1);
    return 0;
}

static int config_set(const struct config_edit *edit, bool *ret_changed, struct err *e)
{
    BUF_WIPED(old, CONFIG_PAIR_BYTES);
    struct str value = {"", 0};
    const struct app_config_change *c = edit->change;
    const struct app_config_row *before = edit->before;
    enum app_config_scope scope = before ? config_scope(before) : APP_CONFIG_RUNTIME;
    bool sensitive = before ? before->sensitive : true;

    scope = c->set_scope ? c->scope : scope;
    sensitive = c->set_sensitive ? c->sensitive : sensitive;
    if (app_config_check_key(str_of(c->key), scope, e) != 0 ||
        config_take_value(edit, &old, &value, e) != 0) {
        return -1;
    }
    bool same_value = before && str_eq_secret(value, buf_str(&old));
    *ret_changed = !same_value || scope != config_scope(before) || sensitive != before->sensitive;
    if (!*ret_changed) {
        return 0;
    }
    struct app_config_row row = {
        .key = c->key, .scope = app_config_scope_name(scope), .sensitive = sensitive};
    return config_store(edit, &row, value, same_value, e);
}

int vault_config_set(struct vault *v, const struct ulid *app,
                     const struct app_config_change *change, bool *ret_created, bool *ret_changed,
                     struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(CONFIG_ARENA_BYTES);
    struct app_config_rows rows;

    LOCK_GUARD(&v->config_lock);
    if (app_config_list(v->db, app, a, &rows, e) != 0) {
        return -1;
    }
    struct config_edit edit = {
        .v = v, .app = app, .change = change, .before = config_find(&rows, change->key)};
    *ret_created = !edit.before;
    return config_set(&edit, ret_changed, e);
}

int vault_config_remove(struct vault *v, const struct ulid *app, struct str key, bool is_running,
                        struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(CONFIG_ARENA_BYTES);
    struct app_config_rows rows;

    LOCK_GUARD(&v->config_lock);
    if (app_config_list(v->db, app, a, &rows, e) != 0) {
        return -1;
    }
    const struct app_config_row *row = config_find(&rows, arena_str(a, key));
    if (!row) {
        struct str shown = str_cut(key, 0, APP_CONFIG_KEY_BYTES_MAX);
        return err_set(e, ERR_NOT_FOUND, 0, "%.*s is not set", STR_FMT(shown));
    }
    struct app_config_effect effect = {.is_seen = (config_scope(row) & APP_CONFIG_RUNTIME) != 0,
                                       .former = config_former(row, is_running)};
    if (app_config_remove(v->db, app, row->key, &effect, e) != 0) {
        return -1;
    }
    atomic_fetch_add(&v->config_changes, 1);
    return 0;
}

/* ---- handing it out ---- */

typedef void (*config_fn)(void *ctx, const struct app_config_row *row, struct str value);

/* Opens one after the other, and wipes each. */
static int config_open_each(struct vault *v, const struct ulid *app,
                            const struct app_config_rows *rows, config_fn fn, void *ctx,
                            struct err *e)
{
    for (size_t i = 0; i < rows->count; i++) {
        BUF_WIPED(value, CONFIG_PAIR_BYTES);

        if (config_open(v, app, &rows->items[i], &value, e) != 0) {
            return -1;
        }
        fn(ctx, &rows->items[i], buf_str(&value));
    }
    return 0;
}

/* All of an app. */
static int config_each(struct vault *v, const struct ulid *app, config_fn fn, void *ctx,
                       int64_t *ret_version, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(CONFIG_ARENA_BYTES);
    struct app_config_rows rows;

    if (app_config_list(v->db, app, a, &rows, e) != 0) {
        return -1;
    }
    if (config_open_each(v, app, &rows, fn, ctx, e) != 0) {
        return -1;
    }
    *ret_version = rows.version;
    return 0;
}

static void config_add_pair(struct record_writer *w, const char *field, const char *key,
                            struct str value)
{
    BUF_WIPED(pair, CONFIG_PAIR_BYTES);

    buf_puts(&pair, key);
    buf_putc(&pair, '=');
    buf_add_str(&pair, value);
    record_add(w, field, buf_str(&pair));
}

static void config_add_row(void *ctx, const struct app_config_row *row, struct str value)
{
    struct record_writer *w = ctx;

    if (config_scope(row) & APP_CONFIG_RUNTIME) {
        config_add_pair(w, row->sensitive ? "secret" : "config", row->key, value);
    } else if (row->sensitive) {
        record_add(w, "mask", value);
    }
}

int vault_config_add(struct vault *v, const struct ulid *app, struct record_writer *w,
                     int64_t *ret_version, struct err *e)
{
    if (config_each(v, app, config_add_row, w, ret_version, e) != 0) {
        return -1;
    }
    record_addn(w, "config_version", *ret_version);
    return 0;
}

static void config_add_mask(void *ctx, const struct app_config_row *row, struct str value)
{
    if (row->sensitive) {
        record_add(ctx, "mask", value);
    }
}

int vault_config_add_masks(struct vault *v, const struct ulid *app, int64_t in_force,
                           struct record_writer *w, struct err *e)
{
    int64_t version = 0;

    record_addn(w, "config_version", in_force);
    return config_each(v, app, config_add_mask, w, &version, e);
}

struct config_env {
    struct arena *arena;
    const char **vars;
    size_t count;
};

static void config_env_row(void *ctx, const struct app_config_row *row, struct str value)
{
    struct config_env *env = ctx;

    if ((config_scope(row) & APP_CONFIG_AGENT) && env->count < APP_CONFIG_COUNT_MAX) {
        env->vars[env->count++] = arena_printf(env->arena, "%s=%.*s", row->key, STR_FMT(value));
    }
}

int vault_config_agent_env(struct vault *v, const struct ulid *app, struct arena *a,
                           const char *const **ret, struct err *e)
{
    int64_t version = 0;
    struct config_env env = {
        .arena = a, .vars = arena_alloc(a, (APP_CONFIG_COUNT_MAX + 1) * sizeof(*env.vars))};

    if (config_each(v, app, config_env_row, &env, &version, e) != 0) {
        return -1;
    }
    env.vars[env.count] = NULL;
    *ret = env.vars;
    return 0;
}

#define CONFIG_VALUES_MAX (APP_CONFIG_COUNT_MAX + APP_CONFIG_FORMER_MAX)

struct config_values {
    struct str *values; /* owned copies */
    size_t count;
};

static void config_collect(void *ctx, const struct app_config_row *row, struct str value)
{
    struct config_values *all = ctx;

    if (row->sensitive && all->count < CONFIG_VALUES_MAX) {
        all->values[all->count++] = str_n(mem_dup(value.ptr, value.len), value.len);
    }
}

static void config_collect_former(void *ctx, const struct app_config_row *row, struct str value)
{
    struct app_config_row sensitive = *row;

    sensitive.sensitive = true; /* no other is kept */
    config_collect(ctx, &sensitive, value);
}

static int config_collect_all(struct vault *v, const struct ulid *app, struct config_values *all,
                              struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(CONFIG_ARENA_BYTES);
    struct app_config_rows former;
    int64_t version = 0;

    if (config_each(v, app, config_collect, all, &version, e) != 0 ||
        app_config_list_former(v->db, app, a, &former, e) != 0) {
        return -1;
    }
    return config_open_each(v, app, &former, config_collect_former, all, e);
}

int vault_config_mask(struct vault *v, const struct ulid *app, struct mask **ret, struct err *e)
{
    struct str *values AUTOFREE = mem_calloc(CONFIG_VALUES_MAX, sizeof(*values));
    struct config_values all = {.values = values};
    int rc = config_collect_all(v, app, &all, e);

    *ret = rc == 0 ? mask_new(all.values, all.count) : NULL;
    for (size_t i = 0; i < all.count; i++) {
        char *copy = (char *)(uintptr_t)all.values[i].ptr;

        mem_wipe(copy, all.values[i].len);
        free(copy);
    }
    return rc;
}

uint64_t vault_config_changes(const struct vault *v)
{
    return atomic_load(&v->config_changes);
}

/*
 * What an app is given: secrets and settings as environment variables. Sensitive values go in here
 * and never come out. Worker threads.
 */
#include "control/vault/app_config.h"

#include "control/api/api.h"

/* Said in every answer, because nobody reads a manual before storing a password. */
static const char app_config_note[] =
    "care, not a wall: the app's processes and the agents that work on it run side by side under "
    "one account, and an agent writes the program that gets these values; scope and sensitive keep "
    "a value out of its way, not out of its reach. Sensitive values are never returned and are "
    "taken out of logs and events as they stand (not when encoded, nor below 6 bytes: see masked)";

/* What is in force in the app's sandbox. */
struct app_config_force {
    bool runs;       /* processes run with something */
    int64_t version; /* of it */
};

static struct app_config_force app_config_force_of(const struct api *api,
                                                   const struct ulid *sandbox)
{
    struct sandbox_view view;
    struct err e;
    if (sandbox_look(api->sandboxes, sandbox, &view, &e) != 0 || !view.connected ||
        (view.status != SANDBOX_RUNNING && view.status != SANDBOX_STARTING)) {
        return (struct app_config_force){0};
    }
    /* One of an older version has nothing of it. */
    return (struct app_config_force){.runs = !view.takes_config || view.config_version >= 0,
                                     .version = view.takes_config ? view.config_version : 0};
}

static struct app_config_force app_config_force_of_app(struct api *api, struct http_request *r,
                                                       const struct ulid *app)
{
    struct sandbox_row row;
    struct err e;
    return sandboxes_of_app(api->db, app, r->arena, &row, &e) == 0
               ? app_config_force_of(api, &row.id)
               : (struct app_config_force){0};
}

/* Not only above: a database of yesterday's backup has smaller numbers than what runs. */
static bool app_config_differs(const struct app_config_force *force, int64_t version)
{
    return force->runs && version != force->version;
}

bool api_config_changed(const struct api *api, const struct ulid *app, const struct ulid *sandbox)
{
    struct app_config_force force = app_config_force_of(api, sandbox);
    int64_t version = 0;
    struct err e;
    return force.runs && app_config_version(api->db, app, &version, &e) == 0 &&
           app_config_differs(&force, version);
}

/* ---- answers ---- */

static void app_config_members(struct json_writer *w, const struct app_config_item *item,
                               const struct app_config_force *force)
{
    json_text(w, "key", item->key);
    json_text(w, "value", item->value);
    json_bool(w, "set", true);
    json_text(w, "scope", app_config_scope_name(item->scope));
    json_bool(w, "sensitive", item->sensitive);
    json_bool(w, "masked", item->is_masked);
    json_bool(w, "changed_since_start", force->runs && item->version > force->version);
    json_time(w, "created_at", item->created_at);
    json_time(w, "updated_at", item->updated_at);
}

/* False fills p. */
static bool app_config_load(struct api *api, struct http_request *r, struct http_response *p,
                            struct ulid *ret_app, struct app_config *ret)
{
    struct err e;
    if (!api_id(r, 0, "app", ret_app, p)) {
        return false;
    }
    if (vault_config_list(api->vault, ret_app, r->arena, ret, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    return true;
}

void api_app_config_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct ulid app;
    struct app_config config;
    struct json_writer w;
    if (!app_config_load(api, r, p, &app, &config)) {
        return;
    }
    struct app_config_force force = app_config_force_of_app(api, r, &app);
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_bool(&w, "changed_since_start", app_config_differs(&force, config.version));
    json_text(&w, "note", app_config_note);
    json_array(&w, "config");
    for (size_t i = 0; i < config.count; i++) {
        json_object(&w, NULL);
        app_config_members(&w, &config.items[i], &force);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

static void app_config_answer(struct api *api, struct http_request *r, struct http_response *p,
                              int status)
{
    struct ulid app;
    struct app_config config;
    struct json_writer w;
    if (!app_config_load(api, r, p, &app, &config)) {
        return;
    }
    struct app_config_force force = app_config_force_of_app(api, r, &app);
    for (size_t i = 0; i < config.count; i++) {
        if (str_is(r->params[1], config.items[i].key)) {
            json_begin(&w, &p->body);
            json_object(&w, NULL);
            app_config_members(&w, &config.items[i], &force);
            json_text(&w, "note", app_config_note);
            json_object_end(&w);
            api_json(p, status);
            return;
        }
    }
    struct str shown = str_cut(r->params[1], 0, 64);
    http_error(p, "not_found", "%.*s is not set", STR_FMT(shown));
}

void api_app_config_get(struct http_request *r, struct http_response *p, void *ctx)
{
    app_config_answer(ctx, r, p, 200);
}

/* ---- changes ---- */

static bool app_config_scope(const struct json_value *body, struct app_config_change *ret,
                             struct http_response *p)
{
    const struct json_value *v = json_get(body, "scope");
    ret->set_scope = v != NULL;
    if (v && !app_config_scope_parse(json_as_str(v), &ret->scope)) {
        http_error(p, "invalid_request",
                   "scope must be \"runtime\" (the app's processes), \"agent\" (the agents that "
                   "work on it) or \"both\"");
        return false;
    }
    return true;
}

static bool app_config_body(const struct json_value *body, struct app_config_change *ret,
                            struct http_response *p)
{
    const struct json_value *value = json_get(body, "value");
    ret->set_sensitive = json_get(body, "sensitive") != NULL;
    if (value && !json_is_string(value)) {
        http_error(p, "invalid_request", "value must be a string");
        return false;
    }
    if (value) {
        ret->value = json_as_str(value);
    }
    return app_config_scope(body, ret, p) && api_opt_bool(body, "sensitive", &ret->sensitive, p);
}

static void app_config_event(struct api *api, const struct http_request *r, const struct ulid *app,
                             const char *kind, const char *payload)
{
    events_add(api->db,
               &(struct event_row){
                   .kind = kind, .actor = r->actor, .app_id = app->text, .payload = payload});
}

/* The key as a string of ours: letters, digits and _ only, so that it may stand in JSON. */
static const char *app_config_key(struct http_request *r, struct http_response *p)
{
    struct err e;
    if (app_config_check_key(r->params[1], APP_CONFIG_RUNTIME, &e) != 0) {
        http_error_from(p, &e);
        return NULL;
    }
    return arena_str(r->arena, r->params[1]);
}

void api_app_config_put(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"value", "scope", "sensitive", NULL};
    struct api *api = ctx;
    struct app_config_change change = {0};
    struct ulid app;
    struct err e;
    bool created = false;
    bool changed = false;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    if (!doc || !api_id(r, 0, "app", &app, p) || !(change.key = app_config_key(r, p)) ||
        !app_config_body(json_root(doc), &change, p)) {
        return;
    }
    change.is_running = app_config_force_of_app(api, r, &app).runs;
    if (vault_config_set(api->vault, &app, &change, &created, &changed, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    if (changed) {
        app_config_event(api, r, &app, "config.set",
                         arena_printf(r->arena, "{\"key\":\"%s\",\"created\":%s}", change.key,
                                      created ? "true" : "false"));
        sandbox_config_changed(api->sandboxes, &app);
    }
    app_config_answer(api, r, p, created ? 201 : 200);
}

void api_app_config_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct ulid app;
    struct err e;
    if (!api_id(r, 0, "app", &app, p)) {
        return;
    }
    bool is_running = app_config_force_of_app(api, r, &app).runs;
    if (vault_config_remove(api->vault, &app, r->params[1], is_running, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    app_config_event(api, r, &app, "config.deleted",
                     arena_printf(r->arena, "{\"key\":\"%.*s\"}", STR_FMT(r->params[1])));
    sandbox_config_changed(api->sandboxes, &app);
    p->status = 204;
}

void api_sandboxes_apply_config(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    struct ulid id;
    struct err e;
    int64_t version = 0;
    if (!api_id(r, 0, "sandbox", &id, p)) {
        return;
    }
    if (sandboxes_get(api->db, &id, r->arena, &row, &e) != 0 ||
        sandbox_apply_config(api->sandboxes, &id, &version, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    app_config_event(api, r, &row.app_id, "config.applied", "{}");
    api_wait(api, r, p, API_WAIT_APPLY, &id, version);
}

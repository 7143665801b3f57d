/*
 * Apps: create, list, look, change, end; their sandbox, tasks and events. Worker threads.
 */
#include <stdio.h>

#include "control/api/api.h"
#include "control/store/access.h"
#include "lib/clock.h"

#define APP_NAME_BYTES_MAX        128
#define APP_DESCRIPTION_BYTES_MAX 2048
#define APP_MEMORY_BYTES_MIN      (64LL << 20)
#define APP_MEMORY_BYTES_MAX      (1LL << 40)

/* "public" or "private"; NULL when the body does not say. False fills p. */
static bool apps_access(const struct json_value *body, struct http_request *r,
                        struct http_response *p, const char **ret)
{
    *ret = NULL;
    if (!api_opt_text(body, "preview_access", 16, false, r->arena, ret, p)) {
        return false;
    }
    if (*ret && strcmp(*ret, "public") != 0 && strcmp(*ret, "private") != 0) {
        http_error(p, "invalid_request",
                   "preview_access must be \"public\" (whoever has the address) or \"private\" "
                   "(you, signed in to the console)");
        return false;
    }
    return true;
}

static bool apps_load(struct api *api, struct http_request *r, struct http_response *p,
                      struct app_row *ret)
{
    struct ulid id;
    struct err e;
    if (!api_id(r, 0, "app", &id, p)) {
        return false;
    }
    if (apps_get(api->db, &id, r->arena, ret, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    return true;
}

static void apps_answer(struct api *api, struct http_request *r, struct http_response *p,
                        const struct app_row *app, int status)
{
    struct sandbox_row sandbox;
    struct err e;
    struct json_writer w;
    bool has = sandboxes_of_app(api->db, &app->id, r->arena, &sandbox, &e) == 0;
    json_begin(&w, &p->body);
    render_app(&w, api, r, app, has ? &sandbox : NULL);
    api_json(p, status);
}

void api_apps_create(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {
        "name",           "description", "runtime_preset",   "memory_bytes",
        "preview_access", "idle_policy", "idle_threshold_s", NULL};
    struct api *api = ctx;
    struct err e;
    struct app_row app = {.name = "", .description = "", .runtime_preset = "react-vite"};
    struct app_change idle = {0};
    const char *access = NULL;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    const struct json_value *body = doc ? json_root(doc) : NULL;
    if (!body || !apps_access(body, r, p, &access) ||
        !api_opt_text(body, "name", APP_NAME_BYTES_MAX, false, r->arena, &app.name, p) ||
        !api_opt_text(body, "description", APP_DESCRIPTION_BYTES_MAX, true, r->arena,
                      &app.description, p) ||
        !api_opt_text(body, "runtime_preset", 64, false, r->arena, &app.runtime_preset, p) ||
        !api_opt_int(body, "memory_bytes", APP_MEMORY_BYTES_MIN, APP_MEMORY_BYTES_MAX,
                     &app.memory_bytes, p) ||
        !api_opt_idle(body, &idle, p)) {
        return;
    }
    app.always_on = idle.idle_policy && strcmp(idle.idle_policy, "always_on") == 0;
    app.idle_threshold_s = idle.idle_threshold_s;
    if (str_trim(str_of(app.name)).len == 0) {
        http_error(p, "invalid_request", "name is missing: give the app a name");
        return;
    }
    if (!sandbox_preset_find(api->sandboxes, str_of(app.runtime_preset))) {
        http_error(p, "invalid_request",
                   "runtime_preset \"%.64s\" is not known; GET /v1/presets lists them",
                   app.runtime_preset);
        return;
    }
    app.id = ulid_new();
    app.is_private = access ? strcmp(access, "private") == 0 : api->config->preview_private;
    app.created_at = clock_unix_ms();
    app.updated_at = app.created_at;
    if (apps_insert(api->db, &app, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_add(api->db, &(struct event_row){
                            .kind = "app.created", .actor = r->actor, .app_id = app.id.text});
    apps_answer(api, r, p, &app, 201);
}

static const struct sandbox_row *apps_sandbox_of(const struct sandbox_row *list, size_t count,
                                                 size_t *at, const struct ulid *app_id)
{
    /* Both lists fall by app id: one walk over both. */
    while (*at < count && strcmp(list[*at].app_id.text, app_id->text) > 0) {
        (*at)++;
    }
    return *at < count && ulid_eq(&list[*at].app_id, app_id) ? &list[*at] : NULL;
}

void api_apps_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e;
    struct app_row *apps = NULL;
    struct sandbox_row *sandboxes = NULL;
    size_t count = 0;
    size_t sandbox_count = 0;
    size_t at = 0;
    int limit = 0;
    struct str cursor;
    struct ulid before;
    struct json_writer w;
    if (!api_page(r, &limit, &cursor, p)) {
        return;
    }
    if (cursor.len > 0 && !ulid_parse(cursor, &before)) {
        http_error(p, "invalid_request", "cursor is not one of ours");
        return;
    }
    if (apps_list(api->db, cursor.len ? before.text : "", limit, r->arena, &apps, &count, &e) !=
            0 ||
        (count > 0 && sandboxes_of_page(api->db, &apps[count - 1].id, &apps[0].id, count, r->arena,
                                        &sandboxes, &sandbox_count, &e) != 0)) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "apps");
    for (size_t i = 0; i < count; i++) {
        render_app(&w, api, r, &apps[i],
                   apps_sandbox_of(sandboxes, sandbox_count, &at, &apps[i].id));
    }
    json_array_end(&w);
    json_text(&w, "next_cursor", count == (size_t)limit ? apps[count - 1].id.text : NULL);
    json_object_end(&w);
    api_json(p, 200);
}

void api_apps_get(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct app_row app;
    if (apps_load(api, r, p, &app)) {
        apps_answer(api, r, p, &app, 200);
    }
}

/* Ends what was open before the answer goes out. */
static int apps_set_access(struct api *api, const struct http_request *r, const struct ulid *id,
                           const char *access, struct err *e)
{
    bool changed = false;
    if (!access) {
        return 0;
    }
    if (access_set(api->db, id, strcmp(access, "private") == 0, &changed, e) != 0) {
        return -1;
    }
    if (changed) {
        sandbox_access_changed(api->sandboxes, id);
        events_add(api->db,
                   &(struct event_row){.kind = "app.preview_access_changed",
                                       .actor = r->actor,
                                       .app_id = id->text,
                                       .payload = strcmp(access, "private") == 0
                                                      ? "{\"preview_access\":\"private\"}"
                                                      : "{\"preview_access\":\"public\"}"});
    }
    return 0;
}

void api_apps_patch(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"name",        "description",      "preview_access",
                                          "idle_policy", "idle_threshold_s", "memory_bytes",
                                          NULL};
    struct api *api = ctx;
    struct err e;
    struct app_row app;
    struct app_change change = {0};
    const char *access = NULL;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    const struct json_value *body = doc ? json_root(doc) : NULL;
    if (!body || !apps_access(body, r, p, &access) ||
        !api_opt_text(body, "name", APP_NAME_BYTES_MAX, false, r->arena, &change.name, p) ||
        !api_opt_text(body, "description", APP_DESCRIPTION_BYTES_MAX, true, r->arena,
                      &change.description, p) ||
        !api_opt_int(body, "memory_bytes", APP_MEMORY_BYTES_MIN, APP_MEMORY_BYTES_MAX,
                     &change.memory_bytes, p) ||
        !api_opt_idle(body, &change, p)) {
        return;
    }
    if (change.name && str_trim(str_of(change.name)).len == 0) {
        http_error(p, "invalid_request", "name may not be empty");
        return;
    }
    if (!apps_load(api, r, p, &app)) {
        return;
    }
    if (apps_update(api->db, &app.id, &change, &e) != 0 ||
        sandbox_policy_changed(api->sandboxes, &app.id, &e) != 0 ||
        apps_set_access(api, r, &app.id, access, &e) != 0 ||
        apps_get(api->db, &app.id, r->arena, &app, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_add(api->db, &(struct event_row){
                            .kind = "app.updated", .actor = r->actor, .app_id = app.id.text});
    apps_answer(api, r, p, &app, 200);
}

void api_apps_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e;
    struct app_row app;
    struct sandbox_row sandbox;
    if (!apps_load(api, r, p, &app)) {
        return;
    }
    if (sandboxes_of_app(api->db, &app.id, r->arena, &sandbox, &e) == 0) {
        task_cancel_all(api->tasks, &sandbox.id);
    }
    if (app_delete(api->sandboxes, &app.id, r->actor, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_wait(api, r, p, API_WAIT_APP_DELETE, &app.id, 0);
}

/* ---- its sandbox ---- */

static bool apps_ports(const struct json_value *body, struct sandbox_create *order,
                       struct http_response *p)
{
    const struct json_value *list = json_get(body, "ports");
    if (!list) {
        order->ports[0] = order->preset->port;
        order->port_count = 1;
        return true;
    }
    size_t count = json_is_array(list) ? json_count(list) : 0;
    if (count < 1 || count > SANDBOX_PORTS_MAX) {
        http_error(p, "invalid_request", "ports must be a list of 1 to %d port numbers",
                   SANDBOX_PORTS_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t port = 0;
        if (!json_as_int(json_at(list, i), &port) || port < 1 || port > 65535) {
            http_error(p, "invalid_request", "ports must be whole numbers from 1 to 65535");
            return false;
        }
        for (size_t k = 0; k < order->port_count; k++) {
            if (order->ports[k] == port) {
                http_error(p, "invalid_request", "the port %lld stands in ports twice",
                           (long long)port);
                return false;
            }
        }
        order->ports[order->port_count++] = (uint16_t)port;
    }
    return true;
}

void api_apps_sandbox(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"ports", "memory_bytes", NULL};
    struct api *api = ctx;
    struct err e = {0};
    struct app_row app;
    struct ulid id;
    int64_t ticket = 0;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    if (!doc || !apps_load(api, r, p, &app)) {
        return;
    }
    struct sandbox_create order = {
        .app_id = app.id,
        .app_name = app.name,
        .actor = r->actor,
        .memory_bytes = app.memory_bytes,
        .preset = sandbox_preset_find(api->sandboxes, str_of(app.runtime_preset))};
    if (!order.preset) {
        http_error(p, "conflict", "the preset %s of this app is not installed any more",
                   app.runtime_preset);
        return;
    }
    if (app.deleting) {
        http_error(p, "conflict", "the app is being deleted");
        return;
    }
    if (!apps_ports(json_root(doc), &order, p) ||
        !api_opt_int(json_root(doc), "memory_bytes", APP_MEMORY_BYTES_MIN, APP_MEMORY_BYTES_MAX,
                     &order.memory_bytes, p)) {
        return;
    }
    if (sandbox_create_begin(api->sandboxes, &order, &id, &ticket, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_wait(api, r, p, API_WAIT_CREATE, &id, ticket);
}

void api_apps_tasks(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct app_row app;
    if (apps_load(api, r, p, &app)) {
        api_tasks_page(api, r, p, NULL, &app.id);
    }
}

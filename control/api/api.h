/*
 * HTTP handlers: parse, call, render; no rules. Worker threads; private to control/api/ but for
 * api_start.
 */
#pragma once

#include "control/config.h"
#include "control/http/http.h"
#include "control/sandbox/sandbox.h"
#include "control/store/apps.h"
#include "control/store/events.h"
#include "control/store/tasks.h"
#include "control/task/task.h"
#include "control/vault/vault.h"
#include "lib/json_read.h"
#include "lib/json_write.h"

struct api {
    const struct config *config;
    struct db *db;
    struct sandbox_service *sandboxes;
    struct task_service *tasks;
    struct vault *vault;
};

/* All routes; static. */
const struct http_route *api_routes(size_t *ret_count);
/* Hosts, origins, tokens, sessions. */
bool api_authorize(struct http_request *r, struct http_response *p, const struct http_route *route,
                   void *ctx);
/* Loads the console's files; a missing directory serves a sentence instead. */
void api_console_load(const struct config *config);

/* ---- shared by the handlers ---- */

/* The body as an object whose keys are all in allowed (ended by NULL); no body is an empty object.
 * Fills p on failure. Caller frees the document. */
struct json_doc *api_body(struct http_request *r, struct http_response *p,
                          const char *const *allowed);
/* Optional members; false fills p: "name must be a string" and the like. Absent leaves *ret. */
bool api_opt_text(const struct json_value *body, const char *key, size_t max_bytes, bool lines,
                  struct arena *a, const char **ret, struct http_response *p);
bool api_opt_int(const struct json_value *body, const char *key, int64_t min, int64_t max,
                 int64_t *ret, struct http_response *p);
/* idle_policy and idle_threshold_s (null: the installation's). False fills p. */
bool api_opt_idle(const struct json_value *body, struct app_change *ret, struct http_response *p);
bool api_opt_bool(const struct json_value *body, const char *key, bool *ret,
                  struct http_response *p);
/* The parameter as an id; false fills p with 404 naming what. Ids are lower case, strict. */
bool api_id(const struct http_request *r, size_t param, const char *what, struct ulid *ret,
            struct http_response *p);
/* ?limit= and ?cursor= ; false fills p. */
bool api_page(const struct http_request *r, int *ret_limit, struct str *ret_cursor,
              struct http_response *p);
void api_json(struct http_response *p, int status);

/* Address of a preview, with the person's own port when the request came through the edge. */
const char *api_preview_url(const struct api *api, const struct http_request *r,
                            const struct ulid *id, uint16_t port);

void render_app(struct json_writer *w, const struct api *api, const struct http_request *r,
                const struct app_row *app, const struct sandbox_row *sandbox);
/* r gives host and arena. */
void render_sandbox(struct json_writer *w, const struct api *api, const struct http_request *r,
                    const struct sandbox_row *row);
/* "idle": when it sleeps, and what keeps it awake. */
void render_idle(struct json_writer *w, const struct api *api, const struct ulid *id);
void render_task(struct json_writer *w, const struct task_row *task);

/* A page of tasks of one sandbox or one app (exactly one is not NULL) as the whole answer. */
void api_tasks_page(struct api *api, struct http_request *r, struct http_response *p,
                    const struct ulid *sandbox_id, const struct ulid *app_id);

/* A request that goes on after its handler: what rendering needs of it, copied. */
struct api_later {
    struct api *api;
    struct arena *arena;         /* owned */
    struct http_request request; /* host, from_console, request_id and arena only */
};

void api_later_init(struct api_later *later, struct api *api, const struct http_request *r);

/* Waits (as a stream) until the attempt is over, then answers; 202 after 60 s. */
enum api_wait_kind {
    API_WAIT_CREATE,
    API_WAIT_START,
    API_WAIT_STOP,
    API_WAIT_APPLY, /* the ticket is a version of the app's config */
    API_WAIT_DELETE,
    API_WAIT_APP_DELETE
};

void api_wait(struct api *api, struct http_request *r, struct http_response *p,
              enum api_wait_kind kind, const struct ulid *id, int64_t ticket);

/* ---- keys, for agents and providers alike (providers.c) ---- */

/* connected, keyless, reconnect, not_connected. */
const char *api_credential_status(const struct vault_credential *c, bool keyless);
/* NULL for none. */
const char *api_credential_method(const struct vault_credential *c);
/* Body {"api_key", "check"}; false fills p. */
bool api_store_key(struct api *api, struct http_request *r, struct http_response *p,
                   const char *provider);
bool api_drop_key(struct api *api, struct http_request *r, struct http_response *p,
                  const char *provider);
void api_provider_error(struct http_response *p, struct err *e);
void api_provider_event(struct api *api, const struct http_request *r, const char *kind,
                        const char *provider);

/* ---- what one file renders in the answer of another ---- */

/* Appends what was spent, as counters (usage.c). */
void api_metrics_usage(struct api *api, struct arena *a, struct buf *out);
/* Do the processes of that sandbox run with something else than what is stored?
 * (app_config.c) */
bool api_config_changed(const struct api *api, const struct ulid *app, const struct ulid *sandbox);

/* ---- handlers, by file ---- */

void api_apps_list(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_create(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_get(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_patch(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_sandbox(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_tasks(struct http_request *r, struct http_response *p, void *ctx);
void api_apps_events(struct http_request *r, struct http_response *p, void *ctx);
void api_events(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_get(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_start(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_stop(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_ticket(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_watching(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_keep_alive(struct http_request *r, struct http_response *p, void *ctx);
void api_tasks_create(struct http_request *r, struct http_response *p, void *ctx);
void api_tasks_list(struct http_request *r, struct http_response *p, void *ctx);
void api_tasks_get(struct http_request *r, struct http_response *p, void *ctx);
void api_tasks_events(struct http_request *r, struct http_response *p, void *ctx);
void api_tasks_cancel(struct http_request *r, struct http_response *p, void *ctx);
void api_presets_list(struct http_request *r, struct http_response *p, void *ctx);
void api_presets_image(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_list(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_key(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_disconnect(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_import(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_login_start(struct http_request *r, struct http_response *p, void *ctx);
void api_agents_login_finish(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_list(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_put(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_key(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_check(struct http_request *r, struct http_response *p, void *ctx);
void api_providers_disconnect(struct http_request *r, struct http_response *p, void *ctx);
void api_usage(struct http_request *r, struct http_response *p, void *ctx);
void api_budgets_list(struct http_request *r, struct http_response *p, void *ctx);
void api_budgets_put(struct http_request *r, struct http_response *p, void *ctx);
void api_budgets_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_app_budget_get(struct http_request *r, struct http_response *p, void *ctx);
void api_app_budget_put(struct http_request *r, struct http_response *p, void *ctx);
void api_app_budget_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_prices_list(struct http_request *r, struct http_response *p, void *ctx);
void api_prices_put(struct http_request *r, struct http_response *p, void *ctx);
void api_prices_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_app_config_list(struct http_request *r, struct http_response *p, void *ctx);
void api_app_config_get(struct http_request *r, struct http_response *p, void *ctx);
void api_app_config_put(struct http_request *r, struct http_response *p, void *ctx);
void api_app_config_delete(struct http_request *r, struct http_response *p, void *ctx);
void api_sandboxes_apply_config(struct http_request *r, struct http_response *p, void *ctx);
void api_healthz(struct http_request *r, struct http_response *p, void *ctx);
void api_readyz(struct http_request *r, struct http_response *p, void *ctx);
void api_metrics(struct http_request *r, struct http_response *p, void *ctx);
void api_status(struct http_request *r, struct http_response *p, void *ctx);
void api_openapi(struct http_request *r, struct http_response *p, void *ctx);
void api_session_get(struct http_request *r, struct http_response *p, void *ctx);
void api_session_setup(struct http_request *r, struct http_response *p, void *ctx);
void api_session_open(struct http_request *r, struct http_response *p, void *ctx);
void api_session_close(struct http_request *r, struct http_response *p, void *ctx);
void api_console_file(struct http_request *r, struct http_response *p, void *ctx);

/* Session of the request's cookie, by any of that name. */
bool api_session_valid(struct api *api, const struct http_request *r);
/* Its name; "" when there is none. */
const char *api_session_name(struct api *api, const struct http_request *r);

/*
 * Sandboxes: look, start, stop, end. Worker threads.
 */
#include "control/api/api.h"

/* False fills p. Deleted ones are found too: their DELETE and their tasks still answer. */
static bool sandboxes_load(struct api *api, struct http_request *r, struct http_response *p,
                           struct sandbox_row *ret)
{
    struct ulid id;
    struct err e;
    if (!api_id(r, 0, "sandbox", &id, p)) {
        return false;
    }
    if (sandboxes_get(api->db, &id, r->arena, ret, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    return true;
}

static bool sandboxes_load_live(struct api *api, struct http_request *r, struct http_response *p,
                                struct sandbox_row *ret)
{
    if (!sandboxes_load(api, r, p, ret)) {
        return false;
    }
    if (ret->status == SANDBOX_DELETED) {
        http_error(p, "not_found", "the sandbox %s was deleted", ret->id.text);
        return false;
    }
    return true;
}

void api_sandboxes_get(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    struct json_writer w;
    if (!sandboxes_load_live(api, r, p, &row)) {
        return;
    }
    json_begin(&w, &p->body);
    render_sandbox(&w, api, r, &row);
    api_json(p, 200);
}

/* A console says so as long as its preview pane is visible. */
void api_sandboxes_watching(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    if (sandboxes_load_live(api, r, p, &row)) {
        sandbox_watching(api->sandboxes, &row.id);
        p->status = 204;
    }
}

void api_sandboxes_start(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    struct err e = {0};
    int64_t ticket = 0;
    if (!sandboxes_load_live(api, r, p, &row)) {
        return;
    }
    if (sandbox_start(api->sandboxes, &row.id, "api", &ticket, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_wait(api, r, p, API_WAIT_START, &row.id, ticket);
}

void api_sandboxes_stop(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    struct ulid task;
    struct str text;
    struct err e = {0};
    bool force = false;
    int64_t ticket = 0;
    if (http_query(r, "force", &text) && !str_to_bool(text, &force)) {
        http_error(p, "invalid_request", "force must be true or false");
        return;
    }
    if (!sandboxes_load_live(api, r, p, &row)) {
        return;
    }
    if (task_busy(api->tasks, &row.id, &task)) {
        if (!force) {
            http_error(p, "task_in_progress",
                       "the task %s is at work; wait for it, cancel it, or stop with ?force=true",
                       task.text);
            return;
        }
        task_cancel_all(api->tasks, &row.id);
    }
    if (sandbox_stop(api->sandboxes, &row.id, "api", &ticket, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_wait(api, r, p, API_WAIT_STOP, &row.id, ticket);
}

void api_sandboxes_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_row row;
    struct err e = {0};
    int64_t ticket = 0;
    if (!sandboxes_load(api, r, p, &row)) {
        return;
    }
    if (row.status == SANDBOX_DELETED) {
        p->status = 204;
        return;
    }
    task_cancel_all(api->tasks, &row.id);
    if (sandbox_delete(api->sandboxes, &row.id, r->actor, &ticket, &e) != 0) {
        if (e.code == ERR_NOT_FOUND) {
            p->status = 204; /* it ended while we looked */
            return;
        }
        http_error_from(p, &e);
        return;
    }
    api_wait(api, r, p, API_WAIT_DELETE, &row.id, ticket);
}

/*
 * Calls that wait for a job: the connection goes to the event thread, the answer comes when the
 * attempt is over, or 202 after a minute. The pump runs on the event thread: one read of the table
 * and at most one of the store.
 */
#include <stdio.h>

#include "control/api/api.h"
#include "lib/clock.h"

#define API_WAIT_MS           60000
#define API_LATER_ARENA_BYTES (4UL * 1024 * 1024)

struct api_waiting {
    struct api_later later;
    enum api_wait_kind kind;
    struct ulid id;
    int64_t ticket;
};

void api_later_init(struct api_later *later, struct api *api, const struct http_request *r)
{
    later->api = api;
    later->arena = arena_new(API_LATER_ARENA_BYTES);
    later->request = (struct http_request){.from_console = r->from_console,
                                           .host = str_of(arena_str(later->arena, r->host)),
                                           .request_id = arena_strdup(later->arena, r->request_id),
                                           .arena = later->arena};
}

static void api_waiting_closed(void *ctx)
{
    struct api_waiting *w = ctx;
    arena_free(w->later.arena);
    free(w);
}

/* The sandbox as it is now, with the status of the answer. */
static void api_answer_sandbox(struct api_waiting *w, struct http_response *p, int status)
{
    struct sandbox_row row;
    struct err e;
    struct json_writer json;
    if (sandboxes_get(w->later.api->db, &w->id, w->later.arena, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&json, &p->body);
    render_sandbox(&json, w->later.api, &w->later.request, &row);
    api_json(p, status);
    if (status != 200) {
        char location[64];
        (void)snprintf(location, sizeof(location), "/v1/sandboxes/%s", w->id.text);
        http_add_header(p, "Location", location);
    }
}

static void api_answer_done(struct api_waiting *w, struct http_response *p)
{
    switch (w->kind) {
    case API_WAIT_CREATE: api_answer_sandbox(w, p, 201); return;
    case API_WAIT_START:
    case API_WAIT_APPLY:
    case API_WAIT_STOP: api_answer_sandbox(w, p, 200); return;
    case API_WAIT_DELETE:
    case API_WAIT_APP_DELETE: p->status = 204; return;
    }
}

static void api_answer_late(struct api_waiting *w, struct http_response *p)
{
    if (w->kind == API_WAIT_DELETE || w->kind == API_WAIT_APP_DELETE) {
        p->status = 202;
        return;
    }
    api_answer_sandbox(w, p, 202);
}

static bool api_app_gone(struct api_waiting *w)
{
    struct app_row app;
    struct err e;
    return apps_get(w->later.api->db, &w->id, w->later.arena, &app, &e) != 0 &&
           e.code == ERR_NOT_FOUND;
}

static enum sandbox_outcome api_waiting_outcome(struct api_waiting *w, struct err *e)
{
    if (w->kind == API_WAIT_APP_DELETE) {
        return api_app_gone(w) ? SANDBOX_DONE : SANDBOX_PENDING;
    }
    if (w->kind == API_WAIT_APPLY) {
        return sandbox_config_outcome(w->later.api->sandboxes, &w->id, w->ticket);
    }
    return sandbox_outcome(w->later.api->sandboxes, &w->id, w->ticket, e);
}

static enum http_pump api_waiting_pump(void *ctx, struct buf *out, bool expired)
{
    struct api_waiting *w = ctx;
    struct err e;
    struct http_response p;
    enum sandbox_outcome outcome = api_waiting_outcome(w, &e);
    if (outcome == SANDBOX_PENDING && !expired) {
        return HTTP_PUMP_WAIT;
    }
    http_response_init(&p);
    if (outcome == SANDBOX_PENDING) {
        api_answer_late(w, &p);
    } else if (outcome == SANDBOX_FAILED) {
        http_error_from(&p, &e);
    } else {
        api_answer_done(w, &p);
    }
    http_render(&p, w->later.request.request_id, out);
    http_response_done(&p);
    return HTTP_PUMP_END;
}

void api_wait(struct api *api, struct http_request *r, struct http_response *p,
              enum api_wait_kind kind, const struct ulid *id, int64_t ticket)
{
    struct api_waiting *w = mem_alloc(sizeof(*w));
    char key[SANDBOX_KEY_BYTES];
    api_later_init(&w->later, api, r);
    w->kind = kind;
    w->id = *id;
    w->ticket = ticket;
    if (kind == API_WAIT_APP_DELETE) {
        app_key(id, key);
    } else {
        sandbox_key(id, key);
    }
    http_stream_start(r, p,
                      &(struct http_stream_options){.key = key,
                                                    .pump = api_waiting_pump,
                                                    .closed = api_waiting_closed,
                                                    .take_ctx = w,
                                                    .deadline_ms = clock_mono_ms() + API_WAIT_MS});
}

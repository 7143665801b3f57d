/*
 * Tasks: create, list, look, follow, cancel. Worker threads; the event stream is pumped on the
 * event thread.
 */
#include "control/api/api.h"

#define TASK_STREAM_BATCH 100
/* What is written at once; one more event may follow it, far below what a stream may queue. */
#define TASK_STREAM_BYTES       (1024UL * 1024)
#define TASK_STREAM_ARENA_BYTES (128UL * 1024 * 1024)

/* Task of the path, which must belong to the sandbox of the path. */
static bool tasks_load(struct api *api, struct http_request *r, struct http_response *p,
                       struct task_row *ret)
{
    struct ulid sandbox;
    struct ulid id;
    struct err e;
    if (!api_id(r, 0, "sandbox", &sandbox, p) || !api_id(r, 1, "task", &id, p)) {
        return false;
    }
    if (tasks_get(api->db, &id, r->arena, ret, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    if (!ulid_eq(&ret->sandbox_id, &sandbox)) {
        http_error(p, "not_found", "the sandbox %s has no task %s", sandbox.text, id.text);
        return false;
    }
    return true;
}

static void tasks_answer(struct api *api, struct http_request *r, struct http_response *p,
                         const struct ulid *id, int status)
{
    struct task_row row;
    struct err e;
    struct json_writer w;
    if (tasks_get(api->db, id, r->arena, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    render_task(&w, &row);
    api_json(p, status);
}

/* An empty word is a mistake of the caller's, an absent one asks for the default. */
static bool tasks_word_given(const struct json_value *body, const char *key, const char *value,
                             struct http_response *p)
{
    if (json_get(body, key) && !value[0]) {
        http_error(p, "invalid_request", "%s may not be empty; leave it out for the default", key);
        return false;
    }
    return true;
}

/* A budget of the task's own: {"limit_microusd", "limit_tokens"}. */
static bool tasks_budget(const struct json_value *body, struct task_order *order,
                         struct http_response *p)
{
    const struct json_value *budget = json_get(body, "budget");
    size_t pos = 0;
    struct str key;
    const struct json_value *value = NULL;
    if (!budget) {
        return true;
    }
    if (!json_is_object(budget)) {
        http_error(p, "invalid_request", "budget must be an object");
        return false;
    }
    while (json_each(budget, &pos, &key, &value)) {
        if (!str_is(key, "limit_microusd") && !str_is(key, "limit_tokens")) {
            struct str shown = str_cut(key, 0, 64);
            http_error(p, "unknown_field", "the field \"budget.%.*s\" is not known here",
                       STR_FMT(shown));
            return false;
        }
    }
    return api_opt_int(budget, "limit_microusd", 1, BUDGET_LIMIT_MAX, &order->budget_microusd, p) &&
           api_opt_int(budget, "limit_tokens", 1, BUDGET_LIMIT_MAX, &order->budget_tokens, p);
}

void api_tasks_create(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"prompt", "agent", "model", "timeout_s", "budget", NULL};
    struct api *api = ctx;
    struct err e = {0};
    struct ulid sandbox;
    struct ulid id;
    struct sandbox_row row;
    struct task_order order = {.prompt = "", .agent = "", .model = "", .actor = r->actor};
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (!api_id(r, 0, "sandbox", &sandbox, p) || !(doc = api_body(r, p, allowed))) {
        return;
    }
    const struct json_value *body = json_root(doc);
    if (!api_opt_text(body, "prompt", TASK_PROMPT_BYTES_MAX, true, r->arena, &order.prompt, p) ||
        !api_opt_text(body, "agent", 64, false, r->arena, &order.agent, p) ||
        !api_opt_text(body, "model", 200, false, r->arena, &order.model, p) ||
        !api_opt_int(body, "timeout_s", 1, TASK_TIMEOUT_S_MAX, &order.timeout_s, p)) {
        return;
    }
    if (!tasks_budget(body, &order, p)) {
        return;
    }
    if (!tasks_word_given(body, "agent", order.agent, p) ||
        !tasks_word_given(body, "model", order.model, p)) {
        return;
    }
    if (str_trim(str_of(order.prompt)).len == 0) {
        http_error(p, "invalid_request", "prompt is missing: say what the agent shall do");
        return;
    }
    if (sandboxes_get(api->db, &sandbox, r->arena, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    if (row.status == SANDBOX_DELETED || row.status == SANDBOX_DELETING) {
        http_error(p, "not_found", "the sandbox %s was deleted", sandbox.text);
        return;
    }
    order.app_id = row.app_id;
    order.sandbox_id = sandbox;
    if (task_submit(api->tasks, &order, &id, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    tasks_answer(api, r, p, &id, 202);
}

void api_tasks_page(struct api *api, struct http_request *r, struct http_response *p,
                    const struct ulid *sandbox_id, const struct ulid *app_id)
{
    struct err e;
    struct task_row *tasks = NULL;
    size_t count = 0;
    int limit = 0;
    struct str cursor;
    struct json_writer w;
    if (!api_page(r, &limit, &cursor, p)) {
        return;
    }
    if (tasks_list(api->db, sandbox_id, app_id, arena_str(r->arena, cursor), limit, r->arena,
                   &tasks, &count, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "tasks");
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        render_task(&w, &tasks[i]);
        bytes += tasks_row_bytes(&tasks[i]);
    }
    json_array_end(&w);
    bool more = count == (size_t)limit || bytes >= TASKS_PAGE_BYTES;
    json_text(&w, "next_cursor", more ? tasks[count - 1].id.text : NULL);
    json_object_end(&w);
    api_json(p, 200);
}

void api_tasks_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e;
    struct ulid sandbox;
    struct sandbox_row row;
    if (!api_id(r, 0, "sandbox", &sandbox, p)) {
        return;
    }
    if (sandboxes_get(api->db, &sandbox, r->arena, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_tasks_page(api, r, p, &sandbox, NULL);
}

void api_tasks_get(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct task_row row;
    if (tasks_load(api, r, p, &row)) {
        tasks_answer(api, r, p, &row.id, 200);
    }
}

void api_tasks_cancel(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct task_row row;
    struct err e = {0};
    if (!tasks_load(api, r, p, &row)) {
        return;
    }
    if (task_cancel(api->tasks, &row.id, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    tasks_answer(api, r, p, &row.id, 202);
}

/* ---- events as they come ---- */

struct tasks_stream {
    struct api *api;
    struct ulid id;
    int64_t sent_seq;
    bool head_sent;
    char request_id[ULID_LEN + 1];
};

static void tasks_stream_closed(void *ctx)
{
    free(ctx);
}

static enum http_pump tasks_stream_pump(void *ctx, struct buf *out, bool expired)
{
    struct tasks_stream *s = ctx;
    struct arena *a AUTO(arena) = arena_new(TASK_STREAM_ARENA_BYTES);
    struct task_event_row *events = NULL;
    size_t count = 0;
    struct err e;
    bool done = false;
    (void)expired;
    if (!s->head_sent) {
        http_render_sse_head(s->request_id, out);
        s->head_sent = true;
    }
    if (tasks_events(s->api->db, &s->id, s->sent_seq, TASK_STREAM_BATCH, a, &events, &count, &e) !=
        0) {
        return HTTP_PUMP_END;
    }
    size_t sent = 0;
    for (; sent < count && out->len < TASK_STREAM_BYTES; sent++) {
        const struct task_event_row *event = &events[sent];
        buf_printf(out, "id: %lld\nevent: %s\ndata: %s\n\n", (long long)event->seq, event->type,
                   event->data);
        s->sent_seq = event->seq;
        done = str_is(str_of(event->type), "done");
    }
    if (done) {
        return HTTP_PUMP_END;
    }
    return sent < count || count == TASK_STREAM_BATCH ? HTTP_PUMP_MORE : HTTP_PUMP_WAIT;
}

/* Where the client wants to go on: Last-Event-ID of a reconnecting EventSource, or ?since=. */
static bool tasks_stream_from(const struct http_request *r, int64_t *ret, struct http_response *p)
{
    struct str text = http_header(r, "last-event-id");
    if (!text.ptr && !http_query(r, "since", &text)) {
        *ret = 0;
        return true;
    }
    if (!str_to_i64(text, 0, INT64_MAX, ret)) {
        http_error(p, "invalid_request", "Last-Event-ID and since are numbers of events");
        return false;
    }
    return true;
}

void api_tasks_events(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct task_row row;
    int64_t since = 0;
    char key[TASK_KEY_BYTES];
    if (!tasks_stream_from(r, &since, p) || !tasks_load(api, r, p, &row)) {
        return;
    }
    struct tasks_stream *s = mem_alloc(sizeof(*s));
    s->api = api;
    s->id = row.id;
    s->sent_seq = since;
    memcpy(s->request_id, r->request_id, ULID_LEN);
    task_key(&row.id, key);
    http_stream_start(r, p,
                      &(struct http_stream_options){.key = key,
                                                    .pump = tasks_stream_pump,
                                                    .closed = tasks_stream_closed,
                                                    .take_ctx = s,
                                                    .heartbeat = true});
}

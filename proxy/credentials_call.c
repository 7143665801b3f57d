/*
 * From an agent to its provider and back.
 *
 * Must never send a key anywhere but to its own provider's base URL, log one, end an answer in
 * order that the provider did not end, or read one side faster than the other takes it. Main
 * thread.
 */
#include "proxy/credentials_call.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/credentials_grant.h"
#include "proxy/credentials_head.h"
#include "proxy/credentials_path.h"
#include "proxy/credentials_usage.h"
#include "proxy/fetch_loop.h"
#include "proxy/limits.h"
#include "proxy/sse_finish.h"

/* A kept connection may turn out dead after the request was written; so much of a body can be sent
 * once more. */
#define REWIND_BYTES_MAX (256 * 1024)
#define MODEL_BYTES_MAX  JSON_SCAN_VALUE_MAX

struct call {
    struct exchange *x;
    struct call *next, *prev;
    struct grant_user user;
    struct fetch_stream *stream;
    struct credentials_target target; /* slices of the request */
    const struct grant_provider *provider;
    struct buf sent;   /* beginning of the body, for a second try on another connection */
    size_t sent_again; /* how much of it the second try has taken */
    bool can_rewind, is_rewound;
    int64_t body_bytes;
    struct buf fields; /* of the answer */
    uint64_t length;
    unsigned status;
    struct sse_finish finish;
    struct json_scan scan;
    char model[MODEL_BYTES_MAX + 1];
    struct loop_deadline idle;
    struct loop_later later;
    bool has_length, is_sse, body_paused, data_paused, is_late, is_too_large, over;
};

static struct {
    struct call *first;
    unsigned count;
} calls;

static const struct fetch_stream_events call_stream;

/* ---- answers of our own ---- */

static void answer_error(struct exchange *x, unsigned status, const char *type, const char *message)
{
    BUF_AUTO(body, 4096);
    BUF_AUTO(fields, 512);

    buf_puts(&fields, "Content-Type: application/json\r\nCache-Control: no-store\r\n");
    credentials_answer_advice(&fields, status);
    if (status == 503) {
        buf_puts(&fields, "Retry-After: 5\r\n");
    }
    buf_puts(&body, "{\"error\":{\"type\":");
    json_escape(&body, str_of(type));
    buf_puts(&body, ",\"message\":");
    json_escape(&body, str_of(message));
    buf_puts(&body, "}}\n");
    front_answer(x, status, buf_str(&fields), buf_str(&body));
}

/* ---- life ---- */

static void call_freed(void *p)
{
    struct call *c = p;

    mem_wipe(c->sent.ptr, c->sent.len);
    buf_done(&c->sent);
    buf_done(&c->fields);
    free(c);
}

static void call_over(struct call *c)
{
    if (c->over) {
        return;
    }
    c->over = true;
    loop_deadline_clear(&c->idle);
    grant_user_done(&c->user);
    if (c->stream) {
        fetch_stream_cancel(c->stream);
        c->stream = NULL;
    }
    c->x->role_data = NULL;
    *(c->prev ? &c->prev->next : &calls.first) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    calls.count--;
    loop_later(&c->later, call_freed, c);
}

static struct call *call_new(struct exchange *x)
{
    struct call *c = mem_alloc(sizeof(*c));

    c->x = x;
    x->role_data = c;
    buf_init(&c->sent, REWIND_BYTES_MAX);
    buf_init(&c->fields, LIMIT_HEAD_BYTES);
    c->can_rewind = true;
    c->next = calls.first;
    if (c->next) {
        c->next->prev = c;
    }
    calls.first = c;
    calls.count++;
    return c;
}

unsigned calls_count(void)
{
    return calls.count;
}

void calls_cut(void)
{
    while (calls.first) {
        struct exchange *x = calls.first->x;

        call_over(calls.first);
        front_break(x);
    }
}

static void call_fail(struct call *c, unsigned status, const char *type, const char *message)
{
    struct exchange *x = c->x;

    call_over(c);
    if (x->head_written) {
        front_break(x);
    } else {
        answer_error(x, status, type, message);
    }
}

static void call_tell(const struct call *c)
{
    const struct usage u = {
        .task_id = c->user.grant ? grant_task_id(c->user.grant) : "",
        .provider = c->provider->name,
        .model = c->model,
        .status = c->status,
    };

    if (c->user.grant && c->status > 0) {
        usage_tell(&u);
    }
}

/* ---- nothing moves ---- */

static void on_idle(void *ctx)
{
    struct call *c = ctx;

    log_warn("a provider said nothing for too long", "provider", c->provider->name);
    call_fail(c, 504, "upstream_timeout", "the provider did not answer in time");
}

static void idle_again(struct call *c)
{
    loop_deadline_set(&c->idle, LIMIT_CREDENTIALS_IDLE_MS, on_idle, c);
}

/* ---- the request's body ---- */

static void on_request_value(void *ctx, unsigned depth, struct str key, struct str value)
{
    struct call *c = ctx;

    if (depth == 1 && value.ptr && c->model[0] == '\0' && str_is(key, "model") &&
        str_is_text(value, false)) {
        (void)snprintf(c->model, sizeof c->model, "%.*s", STR_FMT(value));
    }
}

/* What goes out is remembered while it is little, so that it can go out again. */
static void body_remember(struct call *c, struct str bytes)
{
    if (!c->can_rewind) {
        return;
    }
    buf_add_str(&c->sent, bytes);
    if (!buf_ok(&c->sent)) {
        c->can_rewind = false;
        mem_wipe(c->sent.ptr, c->sent.len);
        buf_done(&c->sent);
    }
}

static bool body_again(struct call *c, char *room, size_t size, size_t *ret_len)
{
    size_t left = c->sent.len - c->sent_again;

    if (!c->is_rewound || left == 0) {
        return false;
    }
    *ret_len = left < size ? left : size;
    memcpy(room, c->sent.ptr + c->sent_again, *ret_len);
    c->sent_again += *ret_len;
    return true;
}

static enum fetch_flow on_body(void *ctx, char *room, size_t size, size_t *ret_len)
{
    struct call *c = ctx;
    struct exchange *x = c->x;
    struct str part = str_cut(buf_str(&x->body), 0, size);

    *ret_len = 0;
    if (body_again(c, room, size, ret_len)) {
        return FETCH_GO;
    }
    if (part.len == 0) {
        c->body_paused = !x->request_whole;
        front_want_body(x, true);
        return x->request_whole ? FETCH_GO : FETCH_PAUSE;
    }
    idle_again(c);
    c->body_bytes += (int64_t)part.len;
    if (c->body_bytes > LIMIT_CREDENTIALS_BODY_BYTES) {
        c->is_too_large = true;
        return FETCH_ABORT;
    }
    memcpy(room, part.ptr, part.len);
    *ret_len = part.len;
    json_scan_feed(&c->scan, part, on_request_value, c);
    body_remember(c, part);
    c->sent_again = c->sent.len;
    buf_consume(&x->body, part.len);
    if (x->body.len == 0) {
        front_want_body(x, true);
    }
    return FETCH_GO;
}

static bool on_rewind(void *ctx)
{
    struct call *c = ctx;

    if (!c->can_rewind) {
        return false;
    }
    c->is_rewound = true;
    c->sent_again = 0;
    return true;
}

/* ---- the answer ---- */

static void on_field(void *ctx, struct str name, struct str value)
{
    struct call *c = ctx;

    if (str_eq_nocase(name, STR("content-length"))) {
        c->has_length = str_to_u64(value, INT64_MAX, &c->length);
    }
    if (str_eq_nocase(name, STR("content-type"))) {
        const struct str sse = STR("text/event-stream");

        c->is_sse = value.len >= sse.len && str_eq_nocase(str_cut(value, 0, sse.len), sse);
    }
    credentials_answer_field(&c->fields, name, value);
}

static void on_head(void *ctx, unsigned status)
{
    struct call *c = ctx;
    enum http_framing framing = c->has_length ? HTTP_LENGTH : HTTP_UNTIL_CLOSE;

    idle_again(c);
    c->status = status;
    if (status == 204 || status == 304) {
        framing = HTTP_NO_BODY;
    }
    credentials_answer_advice(&c->fields, status);
    if (!buf_ok(&c->fields)) {
        log_warn("a provider's answer has too large a head", "provider", c->provider->name);
        call_fail(c, 502, "upstream_error", "the provider's answer has too large a head");
        return;
    }
    if (c->is_sse && status == 200) {
        c->finish.kind = sse_kind_of(c->target.path);
    }
    front_head(c->x, status, front_reason(status), buf_str(&c->fields), framing, c->length);
    (void)front_flush(c->x);
}

/* A client that does not take what it got stops the provider with the next piece. */
static enum fetch_flow on_data(void *ctx, struct str bytes)
{
    struct call *c = ctx;

    if (c->data_paused) {
        loop_deadline_clear(&c->idle);
        return FETCH_PAUSE;
    }
    idle_again(c);
    sse_finish_feed(&c->finish, bytes);
    front_body(c->x, bytes);
    c->data_paused = !front_flush(c->x);
    return FETCH_GO;
}

static void fail_upstream(struct call *c, const struct err *e)
{
    char message[640];

    if (c->is_too_large) {
        call_fail(c, 413, "request_too_large", "a request of more than 32 MiB");
        return;
    }
    log_warn("a request to a provider failed", "provider", c->provider->name, "why", e->msg);
    (void)snprintf(message, sizeof message, "the provider could not be reached: %.500s", e->msg);
    if (e->code == ERR_TIMEOUT) {
        call_fail(c, 504, "upstream_timeout", message);
    } else {
        call_fail(c, 502, "upstream_error", message);
    }
}

static void on_done(void *ctx, const struct err *e)
{
    struct call *c = ctx;
    struct exchange *x = c->x;
    bool is_whole = sse_finish_is_whole(&c->finish);

    c->stream = NULL;
    call_tell(c);
    if (e) {
        fail_upstream(c, e);
        return;
    }
    if (!is_whole) {
        log_warn("a model's stream ended without its end", "provider", c->provider->name);
    }
    call_over(c);
    if (is_whole && x->head_written) {
        front_end(x, STR(""));
    } else {
        front_break(x);
    }
}

static const struct fetch_stream_events call_stream = {.field = on_field,
                                                       .head = on_head,
                                                       .data = on_data,
                                                       .body = on_body,
                                                       .rewind = on_rewind,
                                                       .done = on_done};

/* ---- sending it ---- */

/* Lines of the request, one after the other, each terminated, in one block that is wiped. */
static unsigned build_lines(struct call *c, struct buf *block, size_t at[LIMIT_HEAD_FIELDS + 4])
{
    const struct head *h = &c->x->request;
    const struct grant_provider *p = c->provider;
    unsigned count = 0;

    for (unsigned i = 0; i < h->count && i < h->trailers_from; i++) {
        struct str name = head_name(h, i);
        struct str value = head_value(h, i);

        if (credentials_drops_request_field(h, name)) {
            continue;
        }
        at[count++] = block->len;
        /* libcurl takes "Name;" for a field without a value. */
        buf_printf(block, value.len > 0 ? "%.*s: %.*s" : "%.*s;%.*s", STR_FMT(name),
                   STR_FMT(value));
        buf_putc(block, '\0');
    }
    if (!head_get(h, "accept").ptr) {
        at[count++] = block->len;
        buf_puts(block, "Accept:");
        buf_putc(block, '\0');
    }
    if (p->header[0] != '\0') {
        at[count++] = block->len;
        buf_printf(block, "%s: %s%s", p->header, p->prefix, p->key);
        buf_putc(block, '\0');
    }
    return count;
}

static void build_url(const struct call *c, struct buf *url)
{
    struct str base = str_of(c->provider->base_url);

    while (base.len > 0 && base.ptr[base.len - 1] == '/') {
        base.len--;
    }
    buf_add_str(url, base);
    buf_add_str(url, c->target.path);
    buf_add_str(url, c->target.query);
}

static void call_send(struct call *c)
{
    const char *headers[LIMIT_HEAD_FIELDS + 5] = {NULL};
    size_t at[LIMIT_HEAD_FIELDS + 4];
    char method[32];
    struct exchange *x = c->x;
    struct err e = {0};

    BUF_AUTO(block, 2 * LIMIT_HEAD_BYTES);
    BUF_AUTO(url, 2 * LIMIT_HEAD_BYTES);

    unsigned count = build_lines(c, &block, at);

    for (unsigned i = 0; i < count; i++) {
        headers[i] = block.ptr + at[i];
    }
    build_url(c, &url);
    (void)snprintf(method, sizeof method, "%.*s", STR_FMT(head_method(&x->request)));

    const struct fetch_stream_request request = {
        .method = method,
        .url = url.ptr,
        .headers = headers,
        .has_body = x->framing != HTTP_NO_BODY,
        .body_bytes = x->framing == HTTP_LENGTH ? (int64_t)x->length : -1,
        .connect_timeout_ms = LIMIT_CREDENTIALS_CONNECT_MS,
    };
    int result = fetch_stream_start(fetch_loop_get(), &request, &call_stream, c, &c->stream, &e);

    mem_wipe(block.ptr, block.len);
    if (result != 0) {
        log_error("a request to a provider cannot be made", "provider", c->provider->name, "why",
                  e.msg);
        call_fail(c, 502, "upstream_error", "the request cannot be sent to the provider");
        return;
    }
    idle_again(c);
}

/* ---- may it ---- */

static bool is_path_allowed(const struct call *c)
{
    for (unsigned i = 0; i < c->provider->path_count; i++) {
        if (credentials_path_matches(str_of(c->provider->paths[i]), head_method(&c->x->request),
                                     c->target.path)) {
            return true;
        }
    }
    return false;
}

static void call_granted(struct call *c)
{
    struct exchange *x = c->x;

    c->provider = grant_find_provider(c->user.grant, c->target.provider);
    if (!c->provider) {
        call_fail(c, 403, "provider_not_allowed", "this task may not use that provider");
        return;
    }
    if (!is_path_allowed(c)) {
        call_fail(c, 403, "path_not_allowed", "this task may not use that path of the provider");
        return;
    }
    if (x->framing == HTTP_LENGTH && x->length > (uint64_t)LIMIT_CREDENTIALS_BODY_BYTES) {
        call_fail(c, 413, "request_too_large", "a request of more than 32 MiB");
        return;
    }
    if (head_has_token(&x->request, "expect", "100-continue") && !x->request_whole) {
        front_interim(x, 100, STR("Continue"), STR(""));
        (void)front_flush(x);
    }
    call_send(c);
}

static void on_answered(void *ctx, enum grant_result result)
{
    struct call *c = ctx;

    switch (result) {
    case GRANT_OK: call_granted(c); break;
    case GRANT_UNKNOWN:
        call_fail(c, 401, "unknown_token",
                  "this token belongs to no task that is running in this sandbox");
        break;
    case GRANT_UNAVAILABLE:
        call_fail(c, 503, "broker_unavailable", "the service that knows this task's keys is away");
        break;
    }
}

static void on_revoked(void *ctx)
{
    call_fail(ctx, 401, "unknown_token", "the task of this token has ended");
}

/* ---- events of the front ---- */

static void ask(struct exchange *x, const struct credentials_target *target, struct str token)
{
    struct call *c = call_new(x);
    bool is_busy;

    c->target = *target;
    c->user.answered = on_answered;
    c->user.revoked = on_revoked;
    c->user.ctx = c;
    if (grant_ask(&c->user, &x->sandbox, token, &is_busy)) {
        call_granted(c);
    } else if (is_busy) {
        call_fail(c, 503, "broker_unavailable", "too many unknown tokens were asked about");
    }
}

static void begin(struct exchange *x)
{
    struct credentials_target target;
    struct str token = credentials_token(&x->request);

    /* Agents ask this once to see whether anybody is there. */
    if (x->is_head) {
        front_answer(x, 200, STR("Cache-Control: no-store\r\n"), STR(""));
        return;
    }
    if (!credentials_target_parse(head_target(&x->request), &target)) {
        answer_error(x, 404, "unknown_provider",
                     "the path must be /<provider>/<path>, plain and as the provider has it");
        return;
    }
    if (!token.ptr || token.len > LIMIT_TOKEN_BYTES) {
        answer_error(x, 401, "unknown_token",
                     "no task token in authorization, x-api-key or x-goog-api-key");
        return;
    }
    ask(x, &target, token);
}

static void body(struct exchange *x)
{
    struct call *c = x->role_data;

    if (!c) {
        return;
    }
    if (!x->request_whole) {
        front_want_body(x, false);
    }
    if (c->stream && c->body_paused) {
        c->body_paused = false;
        fetch_stream_resume(c->stream);
    }
}

static void drained(struct exchange *x)
{
    struct call *c = x->role_data;

    if (c && c->data_paused) {
        c->data_paused = false;
        if (c->stream) {
            idle_again(c);
            fetch_stream_resume(c->stream);
        }
    }
}

static void gone(struct exchange *x)
{
    struct call *c = x->role_data;

    if (c) {
        call_over(c);
    }
}

static void raw(struct exchange *x, struct str bytes)
{
    (void)x;
    (void)bytes;
}

static void raw_ended(struct exchange *x)
{
    (void)x;
}

const struct front_role credentials_role = {.begin = begin,
                                            .body = body,
                                            .drained = drained,
                                            .gone = gone,
                                            .raw = raw,
                                            .raw_ended = raw_ended};

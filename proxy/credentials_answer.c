/*
 * A provider's answer on its way to the agent.
 *
 * Must never end an answer in order that the provider did not end, read faster than the agent
 * takes, or pass on a key that the provider repeats. Main thread.
 */
#include <stdio.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/credentials_call_private.h"
#include "proxy/credentials_head.h"

/* Of our own estimate, where a provider does not say. */
#define BYTES_PER_TOKEN 3
/* More than a piece of a body and the longest key. */
#define COVERED_BYTES_MAX (1UL << 20)

/* One piece of one body without the key; kept, because pieces are many. */
static struct buf covered = {.ptr = buf_empty_, .max = COVERED_BYTES_MAX};

void answer_init(struct call *c)
{
    buf_init(&c->answer.fields, LIMIT_HEAD_BYTES);
    buf_init(&c->answer.error, LIMIT_CREDENTIALS_ERROR_BYTES + 1);
    mask_stream_init(&c->answer.cover);
    c->answer.cover.keeps_length = true; /* the head has told it already */
}

void answer_done(struct call *c)
{
    buf_done(&c->answer.fields);
    buf_done(&c->answer.error);
    mask_stream_done(&c->answer.cover);
}

/* ---- the spend ---- */

/* An answer that was cut, or whose provider says nothing, is counted by what went and came. */
static void estimate(const struct call *c, struct usage *u)
{
    if (!u->spend.has_input) {
        u->spend.input = (uint64_t)c->body.bytes / BYTES_PER_TOKEN + 1;
    }
    if (!u->spend.has_output || !c->answer.model.is_finished) {
        uint64_t seen = c->answer.model.text_bytes / BYTES_PER_TOKEN;

        u->spend.output = seen > u->spend.output ? seen : u->spend.output;
    }
    u->is_estimated = true;
    u->spend.has_input = u->spend.has_output = true;
}

void answer_usage(const struct call *c, struct usage *ret)
{
    const struct call_answer *a = &c->answer;

    *ret = (struct usage){.status = a->status, .message = a->verdict.message};
    if (a->status < 200 || a->status > 299) {
        return;
    }
    ret->has_spend = true;
    ret->spend = model_answer_spend(&a->model);
    if (!ret->spend.has_input || !ret->spend.has_output ||
        (a->model.is_sse && !a->model.is_finished)) {
        estimate(c, ret);
    }
}

/* ---- the head ---- */

static void on_field(void *ctx, struct str name, struct str value)
{
    struct call *c = ctx;
    struct call_answer *a = &c->answer;
    struct str key = str_of(c->provider->key);

    if (key.len > 0 && str_contains(value, key)) {
        return;
    }
    if (str_eq_nocase(name, STR("x-should-retry"))) {
        (void)snprintf(a->should_retry, sizeof a->should_retry, "%.*s", STR_FMT(value));
        return;
    }
    if (str_eq_nocase(name, STR("content-length"))) {
        a->has_length = str_to_u64(value, INT64_MAX, &a->length);
    }
    if (str_eq_nocase(name, STR("content-type"))) {
        const struct str sse = STR("text/event-stream");

        a->is_sse = value.len >= sse.len && str_eq_nocase(str_cut(value, 0, sse.len), sse);
    }
    credentials_answer_field(&a->fields, name, value);
}

static void head_write(struct call *c, enum http_framing framing, uint64_t length)
{
    struct call_answer *a = &c->answer;
    unsigned status = a->verdict.status > 0 ? a->verdict.status : a->status;

    if (a->verdict.is_permanent) {
        credentials_answer_last_word(&a->fields);
    } else if (a->should_retry[0] != '\0') {
        buf_printf(&a->fields, "x-should-retry: %s\r\n", a->should_retry);
    }
    front_head(c->x, status, front_reason(status), buf_str(&a->fields), framing, length);
    buf_done(&a->fields);
}

static void redirect_refuse(struct call *c)
{
    const struct refusal r = {
        .status = 400,
        .type = "upstream_redirect",
        .message = STR("the provider answered with a redirect, which is not followed with a key: "
                       "its base URL has to be corrected"),
    };

    log_warn("a provider answered with a redirect", "provider", c->provider->name);
    call_refuse(c, &r);
}

static void on_head(void *ctx, unsigned status)
{
    struct call *c = ctx;
    struct call_answer *a = &c->answer;
    bool has_no_body = status == 204 || status == 304;

    call_idle_set(c, LIMIT_CREDENTIALS_IDLE_MS);
    a->status = status;
    body_forget(c);
    if (!buf_ok(&a->fields)) {
        log_warn("a provider's answer has too large a head", "provider", c->provider->name);
        call_fail(c, 502, "upstream_error", "the provider's answer has too large a head");
        return;
    }
    if (status >= 300 && status < 400 && status != 304) {
        redirect_refuse(c);
        return;
    }
    if (status >= 400) {
        a->is_error_held = true;
        return;
    }
    a->model.format = status == 200 ? c->format : MODEL_NONE;
    a->model.is_sse = a->is_sse;
    a->model.cost = c->path->cost;
    head_write(c,
               has_no_body     ? HTTP_NO_BODY
               : a->has_length ? HTTP_LENGTH
                               : HTTP_UNTIL_CLOSE,
               a->length);
    (void)front_flush(c->x);
}

/* ---- errors ---- */

static void error_read(struct call *c)
{
    struct call_answer *a = &c->answer;

    provider_error_read(&a->verdict, c->format, a->status, buf_str(&a->error));
    a->is_error_held = false;
}

/* More of it comes than is looked at: the rest streams. */
static void error_release(struct call *c)
{
    struct call_answer *a = &c->answer;

    error_read(c);
    head_write(c, a->has_length ? HTTP_LENGTH : HTTP_UNTIL_CLOSE, a->length);
    front_body(c->x, buf_str(&a->error));
    buf_done(&a->error);
}

/* All of it has come. */
static void error_answer(struct call *c)
{
    struct call_answer *a = &c->answer;
    struct exchange *x = c->x;
    struct buf text = a->error;

    error_read(c);
    head_write(c, HTTP_LENGTH, text.len);
    front_body(x, buf_str(&text));
    call_over(c);
    front_end(x, STR(""));
}

/* ---- the body ---- */

/* Bytes without the key, on their way to the agent; an error's beginning waits to be looked at. */
static void body_pass(struct call *c, struct str bytes)
{
    struct call_answer *a = &c->answer;

    if (a->is_error_held && bytes.len <= LIMIT_CREDENTIALS_ERROR_BYTES - a->error.len) {
        buf_add_str(&a->error, bytes);
        return;
    }
    if (a->is_error_held) {
        error_release(c);
    }
    front_body(c->x, bytes);
    a->is_paused = !front_flush(c->x);
}

/* A client that does not take what it got stops the provider with the next piece. */
static enum fetch_flow on_data(void *ctx, struct str bytes)
{
    struct call *c = ctx;
    struct call_answer *a = &c->answer;

    if (a->is_paused) {
        loop_deadline_clear(&c->idle);
        return FETCH_PAUSE;
    }
    call_idle_set(c, LIMIT_CREDENTIALS_IDLE_MS);
    model_answer_feed(&a->model, bytes);
    buf_reset(&covered);
    mask_stream_feed(&a->cover, c->provider->mask, bytes, &covered);
    body_pass(c, buf_str(&covered));
    return FETCH_GO;
}

/* What might have been the key's beginning is not. */
static void body_pass_rest(struct call *c)
{
    struct call_answer *a = &c->answer;

    buf_reset(&covered);
    mask_stream_end(&a->cover, &covered);
    if (covered.len > 0) {
        body_pass(c, buf_str(&covered));
    }
}

/* ---- the end ---- */

static void fail_upstream(struct call *c, const struct err *e)
{
    char message[640];

    if (c->body.is_too_large) {
        call_fail(c, 413, "request_too_large", "a request of more than 32 MiB");
        return;
    }
    if (c->body.request.problem) {
        call_fail(c, 400, "ambiguous_request", c->body.request.problem);
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
    bool is_whole = model_answer_is_whole(&c->answer.model);

    c->stream = NULL;
    if (e) {
        fail_upstream(c, e);
        return;
    }
    body_pass_rest(c);
    if (c->answer.is_error_held) {
        error_answer(c);
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

const struct fetch_stream_events call_stream_events = {.field = on_field,
                                                       .head = on_head,
                                                       .data = on_data,
                                                       .body = body_next,
                                                       .rewind = body_rewind,
                                                       .done = on_done};

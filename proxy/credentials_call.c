/*
 * A request of an agent: may it, and where does it stand.
 *
 * Must never send anything upstream before grant, path, rate and admission let it, nor log a key.
 * Main thread.
 */
#include "proxy/credentials_call.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/credentials_call_private.h"
#include "proxy/credentials_clients.h"
#include "proxy/credentials_head.h"

static struct {
    struct call *first;
    unsigned count;
} calls;

/* ---- life ---- */

static void call_freed(void *p)
{
    struct call *c = p;

    body_done(c);
    answer_done(c);
    grant_keys_drop(c->keys);
    free(c);
}

void call_over(struct call *c)
{
    struct usage u;

    if (c->over) {
        return;
    }
    c->over = true;
    loop_deadline_clear(&c->idle);
    answer_usage(c, &u);
    admission_end(&c->admission, &u);
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
    body_init(c);
    answer_init(c);
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

void call_refuse(struct call *c, const struct refusal *r)
{
    struct exchange *x = c->x;
    enum model_format format = c->format;

    call_over(c);
    if (x->head_written) {
        front_break(x);
    } else {
        credentials_refuse(x, format, r);
    }
}

void call_fail(struct call *c, unsigned status, const char *type, const char *message)
{
    const struct refusal r = {.status = status,
                              .type = type,
                              .message = str_of(message),
                              .retry_after_s = status == 503 ? 5 : 0};

    call_refuse(c, &r);
}

/* ---- nothing moves ---- */

static void on_idle(void *ctx)
{
    struct call *c = ctx;

    if (c->is_reading) {
        call_fail(c, 408, "request_timeout", "the request's body did not come in time");
        return;
    }
    log_warn("a provider said nothing for too long", "provider", c->provider->name);
    call_fail(c, 504, "upstream_timeout", "the provider did not answer in time");
}

void call_idle_set(struct call *c, int64_t delay_ms)
{
    loop_deadline_set(&c->idle, delay_ms, on_idle, c);
}

/* A stream begins sooner than an answer that is given whole. */
void call_idle_wait(struct call *c)
{
    bool is_whole = c->path->is_metered && !c->body.request.is_stream;

    if (!c->x->head_written) {
        call_idle_set(c, is_whole ? LIMIT_CREDENTIALS_WHOLE_MS : LIMIT_CREDENTIALS_STREAM_MS);
    }
}

/* ---- admission ---- */

static void refused(struct call *c, const struct admit_verdict *v)
{
    struct refusal r = {.status = 403, .type = "budget_reached", .message = v->message};

    if (str_is(v->code, "rate_limited")) {
        r.status = 429;
        r.type = "rate_limited";
        r.retry_after_s = v->retry_after_s > 0 ? v->retry_after_s : 1;
    } else if (str_is(v->code, "price_unknown")) {
        r.type = "price_unknown";
    } else if (str_is(v->code, "unknown_task")) {
        r.status = 401;
        r.type = "unknown_token";
    } else if (!str_is(v->code, "budget_reached")) {
        r.type = "not_admitted";
    }
    call_refuse(c, &r);
}

static void admitted(struct call *c)
{
    if (!c->stream) {
        call_send(c);
    } else if (c->body.is_paused) {
        c->body.is_paused = false;
        fetch_stream_resume(c->stream);
    }
}

static void on_verdict(void *ctx, const struct admit_verdict *v)
{
    struct call *c = ctx;

    switch (v->result) {
    case ADMIT_YES: admitted(c); break;
    case ADMIT_NO: refused(c, v); break;
    case ADMIT_AWAY:
        call_fail(c, 503, "broker_unavailable",
                  "the service that counts this task's spend is away");
        break;
    }
}

bool call_admit(struct call *c)
{
    const struct spend_request r = body_request(c);

    c->admission.answered = on_verdict;
    c->admission.ctx = c;
    return admission_ask(&c->admission, grant_task_id(c->user.grant), grant_spend(c->user.grant),
                         &r);
}

/* Nobody can say what it costs: too far behind, or others hold all the room there is. */
static void unnamed(struct call *c)
{
    if (c->body.held.len >= LIMIT_CREDENTIALS_HOLD_BYTES) {
        call_fail(c, 400, "ambiguous_request",
                  "the body does not name its model within its first 2 MiB");
    } else {
        call_fail(c, 503, "busy", "too many long requests are being read");
    }
}

/* The beginning of the body has come, or a piece of it. */
static void read_ahead(struct call *c)
{
    if (!body_read_ahead(c)) {
        return;
    }
    c->is_reading = false;
    loop_deadline_clear(&c->idle);
    if (c->body.is_too_large) {
        call_fail(c, 413, "request_too_large", "a request of more than 32 MiB");
    } else if (c->body.request.problem) {
        call_fail(c, 400, "ambiguous_request", c->body.request.problem);
    } else if (c->body.request.model[0] == '\0' && !c->x->request_whole) {
        unnamed(c);
    } else if (call_admit(c)) {
        call_send(c);
    }
}

/* ---- may it ---- */

static bool is_encoded(const struct head *h)
{
    struct str coding = head_get(h, "content-encoding");

    return coding.len > 0 && !str_eq_nocase(coding, STR("identity"));
}

/* Everything that can be said without sandboxd. False: it was refused. */
static bool check(struct call *c)
{
    struct exchange *x = c->x;
    struct refusal r = {.status = 403};
    int64_t wait_ms;

    c->provider = grant_keys_find(c->keys, c->target.provider);
    c->path = c->provider
                  ? grant_provider_path(c->provider, head_method(&x->request), c->target.path)
                  : NULL;
    c->format = model_format_of(c->target.path);
    if (c->path && c->path->is_metered) {
        c->format = c->path->format;
    }
    if (!c->provider) {
        r.type = "provider_not_allowed";
        r.message = STR("this task may not use that provider");
    } else if (!c->path) {
        r.type = "path_not_allowed";
        r.message = STR("this task may not use that path of the provider");
    } else if (c->provider->must_reconnect) {
        r.type = "reconnect";
        r.message = str_of(c->provider->message);
    } else if (x->framing == HTTP_LENGTH && x->length > (uint64_t)LIMIT_CREDENTIALS_BODY_BYTES) {
        r.status = 413;
        r.type = "request_too_large";
        r.message = STR("a request of more than 32 MiB");
    } else if (c->path->is_metered && is_encoded(&x->request)) {
        r.status = 415;
        r.type = "encoded_request";
        r.message = STR("a body with a Content-Encoding cannot be read for its budget");
    } else if ((wait_ms = grant_rate_wait_ms(c->user.grant)) > 0) {
        r.status = 429;
        r.type = "rate_limited";
        r.message = STR("more requests in a minute than this task may make");
        r.retry_after_s = (uint64_t)(wait_ms + 999) / 1000;
    } else {
        return true;
    }
    call_refuse(c, &r);
    return false;
}

static void call_granted(struct call *c)
{
    struct exchange *x = c->x;

    c->keys = grant_keys_keep(grant_keys_of(c->user.grant));
    if (!check(c)) {
        return;
    }
    if (head_has_token(&x->request, "expect", "100-continue") && !x->request_whole) {
        front_interim(x, 100, STR("Continue"), STR(""));
        (void)front_flush(x);
    }
    model_request_begin(&c->body.request, c->format, c->target.path);
    if (!c->path->is_metered) {
        call_send(c);
        return;
    }
    c->is_reading = true;
    call_idle_set(c, LIMIT_CREDENTIALS_BODY_MS);
    read_ahead(c);
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
    c->format = model_format_of(target->path);
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
    struct refusal r = {.status = 404,
                        .type = "unknown_provider",
                        .message = STR("the path must be /<provider>/<path>, plain and as the "
                                       "provider has it")};

    /* Agents ask this once to see whether anybody is there. */
    if (x->is_head) {
        front_answer(x, 200, STR("Cache-Control: no-store\r\n"), STR(""));
        return;
    }
    if (!credentials_target_parse(head_target(&x->request), &target)) {
        credentials_refuse(x, MODEL_NONE, &r);
        return;
    }
    if (!token.ptr || token.len > LIMIT_TOKEN_BYTES) {
        r.status = 401;
        r.type = "unknown_token";
        r.message = STR("no task token in authorization, x-api-key or x-goog-api-key");
        credentials_refuse(x, model_format_of(target.path), &r);
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
    if (c->is_reading) {
        read_ahead(c);
    } else if (c->stream && c->body.is_paused && c->admission.state != ADMISSION_WAITING) {
        c->body.is_paused = false;
        fetch_stream_resume(c->stream);
    }
}

static void drained(struct exchange *x)
{
    struct call *c = x->role_data;

    if (c && c->answer.is_paused) {
        c->answer.is_paused = false;
        if (c->stream) {
            call_idle_set(c, LIMIT_CREDENTIALS_IDLE_MS);
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
                                            .raw_ended = raw_ended,
                                            .closed = clients_leave};

/*
 * Serving connections: parse, hand over, answer, keep alive, close.
 *
 * Must never read a body that nobody asked for, answer twice, or end an answer in order that was
 * not complete. Main thread.
 *
 * Life: the front owns its wire and at most one exchange. An exchange is over when its answer was
 * given or the client left; its memory goes at the end of the loop's turn, because a callback of
 * the parser may still be on the stack.
 */
#include "proxy/front.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/limits.h"

struct front {
    struct wire *wire;
    const struct front_role *role;
    struct ulid sandbox;
    struct exchange *x;       /* owned; NULL between requests */
    struct exchange *filling; /* owned; its head is being read */
    struct http_parser parser;
    struct buf early; /* read, not yet parsed: a pipelined request */
    struct loop_deadline deadline;
    struct loop_later later, next_later;
    bool next_queued, is_feeding, is_closing, is_lingering, is_stalled, peer_ended;
};

static unsigned fronts;
static bool draining;

unsigned front_count(void)
{
    return fronts;
}

void front_drain_all(void)
{
    draining = true;
}

/* ---- life and death ---- */

static void exchange_freed(void *p)
{
    struct exchange *x = p;

    head_done(&x->request);
    buf_done(&x->body);
    buf_done(&x->out);
    free(x);
}

static void exchange_over(struct exchange *x)
{
    if (!x->over) {
        x->over = true;
        loop_later(&x->later, exchange_freed, x);
    }
}

static void front_freed(void *p)
{
    struct front *f = p;

    buf_done(&f->early);
    free(f);
    fronts--;
}

/* The client is gone or the connection has served: everything of it ends now. */
static void front_close(struct front *f, bool hard)
{
    if (f->is_closing) {
        return;
    }
    f->is_closing = true;
    http_parser_stop(&f->parser);
    loop_deadline_clear(&f->deadline);
    if (hard) {
        wire_destroy(f->wire);
    } else {
        wire_close(f->wire);
    }
    if (f->x) {
        exchange_over(f->x);
    }
    if (f->filling) {
        exchange_over(f->filling);
    }
    f->x = f->filling = NULL;
    if (f->role->closed) {
        f->role->closed(&f->sandbox);
    }
    loop_later(&f->later, front_freed, f);
}

static void front_lost(struct front *f)
{
    struct exchange *x = f->x;

    if (x && !x->over) {
        f->role->gone(x);
    }
    front_close(f, true);
}

static void on_deadline(void *ctx)
{
    front_lost(ctx);
}

static void deadline_set(struct front *f, int64_t delay_ms)
{
    loop_deadline_set(&f->deadline, delay_ms, on_deadline, f);
}

/* Closes our side and reads away what still comes, so that a reset does not eat the answer. */
static void front_linger(struct front *f)
{
    f->is_lingering = true;
    http_parser_stop(&f->parser);
    wire_shutdown(f->wire);
    wire_read(f->wire, true);
    if (f->peer_ended && wire_queued(f->wire) == 0) {
        front_close(f, false);
        return;
    }
    deadline_set(f, wire_queued(f->wire) > 0 ? LIMIT_CLIENT_STALL_MS : LIMIT_CLIENT_LINGER_MS);
}

/* ---- reading ---- */

static struct exchange *exchange_new(struct front *f)
{
    struct exchange *x = mem_alloc(sizeof(*x));

    x->front = f;
    x->sandbox = f->sandbox;
    head_init(&x->request);
    /* One read decodes to at most its own size. */
    buf_init(&x->body, 2 * LIMIT_READ_BYTES);
    buf_init(&x->out, 4 * LIMIT_READ_BYTES + LIMIT_HEAD_BYTES);
    return x;
}

static bool on_head(void *ctx)
{
    struct front *f = ctx;
    struct exchange *x = f->filling;

    x->framing = f->parser.framing;
    x->length = f->parser.length;
    x->is_upgrade = f->parser.is_upgrade;
    x->is_head = str_is(head_method(&x->request), "HEAD");
    x->began_ms = loop_now_ms();
    x->must_close = !http_parser_keeps_alive(&f->parser);
    return false;
}

static void on_body(void *ctx, struct str bytes)
{
    struct front *f = ctx;
    struct exchange *x = f->x ? f->x : f->filling;

    buf_add_str(&x->body, bytes);
}

static void on_end(void *ctx)
{
    struct front *f = ctx;
    struct exchange *x = f->x ? f->x : f->filling;

    x->request_whole = true;
}

static const struct http_events parse_events = {.head = on_head, .body = on_body, .end = on_end};

static unsigned status_of(enum http_problem problem)
{
    switch (problem) {
    case HTTP_TOO_LARGE: return 431;
    case HTTP_BAD_VERSION: return 505;
    case HTTP_BAD_CODING: return 501;
    case HTTP_BAD:
    case HTTP_FINE: break;
    }
    return 400;
}

/* A request that does not parse: answered when nothing of an answer went out, then closed. */
static void front_refuse(struct front *f)
{
    struct exchange *x = f->x ? f->x : f->filling;

    if (f->x) {
        f->role->gone(x);
    }
    if (f->is_closing) {
        return;
    }
    if (!x || x->over || x->head_written || x->switched) {
        front_close(f, true);
        return;
    }
    f->x = x;
    f->filling = NULL;
    x->must_close = true;
    x->request_whole = false;

    BUF_AUTO(body, 1024);
    buf_printf(
        &body,
        "{\"error\":{\"code\":\"invalid_request\",\"message\":\"%s\",\"retryable\":false}}\n",
        http_problem_text(&f->parser));
    front_answer(x, status_of(f->parser.problem), STR("content-type: application/json\r\n"),
                 buf_str(&body));
}

/* What the bytes just parsed amount to. */
static void front_parsed(struct front *f)
{
    struct exchange *x;

    if (f->parser.problem != HTTP_FINE) {
        front_refuse(f);
        return;
    }
    if (f->filling && f->parser.head_whole) {
        x = f->x = f->filling;
        f->filling = NULL;
        loop_deadline_clear(&f->deadline);
        wire_read(f->wire, x->request_whole);
        f->role->begin(x);
        return;
    }
    x = f->x;
    if (x && !x->over && (x->body.len > 0 || x->request_whole)) {
        f->role->body(x);
    }
}

static void front_feed(struct front *f, struct str bytes)
{
    size_t taken;

    if (!f->x && !f->filling) {
        f->filling = exchange_new(f);
        http_parser_next(&f->parser, &f->filling->request);
        deadline_set(f, LIMIT_CLIENT_HEAD_MS);
    }
    f->is_feeding = true;
    taken = http_parser_feed(&f->parser, bytes);
    if (taken < bytes.len && f->parser.problem == HTTP_FINE && !f->is_closing) {
        buf_add_str(&f->early, str_cut(bytes, taken, bytes.len));
    }
    front_parsed(f);
    f->is_feeding = false;
}

static bool front_is_free(const struct front *f)
{
    return !f->is_closing && !f->is_lingering && !f->x && !f->filling;
}

/* Between two requests: those that were sent ahead, one by one, then the wait for another. */
static void front_next(struct front *f)
{
    while (front_is_free(f) && f->early.len > 0) {
        struct buf ahead = f->early;

        buf_init(&f->early, ahead.max);
        front_feed(f, buf_str(&ahead));
        buf_done(&ahead);
    }
    if (front_is_free(f)) {
        deadline_set(f, LIMIT_CLIENT_IDLE_MS);
        wire_read(f->wire, true);
    } else if (f->filling && !f->is_closing) {
        wire_read(f->wire, true); /* what came ahead was only the beginning of a head */
    }
}

static void next_now(void *p)
{
    struct front *f = p;

    f->next_queued = false;
    front_next(f);
}

static void front_data(void *ctx, struct str bytes)
{
    struct front *f = ctx;
    struct exchange *x = f->x;

    if (f->is_lingering) {
        return;
    }
    if (x && x->switched) {
        f->role->raw(x, bytes);
        return;
    }
    if ((x && x->request_whole) || f->next_queued) {
        /* The next request came before this one was answered: keep it, read no more. */
        buf_add_str(&f->early, bytes);
        wire_read(f->wire, false);
        return;
    }
    front_feed(f, bytes);
    front_next(f);
}

static void front_ended(void *ctx, int status)
{
    struct front *f = ctx;

    f->peer_ended = true;
    if (f->x && f->x->switched && status == 0) {
        f->role->raw_ended(f->x);
        return;
    }
    if (f->is_lingering && status == 0 && wire_queued(f->wire) > 0) {
        return;
    }
    if (f->is_lingering || (!f->x && !f->filling)) {
        front_close(f, status != 0);
        return;
    }
    front_lost(f);
}

static void front_drained(void *ctx)
{
    struct front *f = ctx;

    if (f->is_lingering) {
        if (f->peer_ended) {
            front_close(f, false);
        } else {
            deadline_set(f, LIMIT_CLIENT_LINGER_MS);
        }
        return;
    }
    if (f->is_stalled && f->x) {
        f->is_stalled = false;
        loop_deadline_clear(&f->deadline);
        f->role->drained(f->x);
    }
}

static const struct wire_events wire_events = {
    .data = front_data, .ended = front_ended, .drained = front_drained};

void front_open(struct wire *take_wire, const struct front_role *role, const struct ulid *sandbox,
                struct str early)
{
    struct front *f = mem_alloc(sizeof(*f));

    fronts++;
    f->wire = take_wire;
    f->role = role;
    if (sandbox) {
        f->sandbox = *sandbox;
    }
    buf_init(&f->early, 4 * LIMIT_READ_BYTES);
    http_parser_init(&f->parser, true, &parse_events, f);
    wire_attach(f->wire, &wire_events, f);
    buf_add_str(&f->early, early);
    front_next(f);
}

void front_want_body(struct exchange *x, bool wanted)
{
    struct front *f = x->front;

    if (x->over || x->request_whole || f->is_closing) {
        return;
    }
    wire_read(f->wire, wanted);
}

bool front_client_gone(const struct exchange *x)
{
    return x->over || wire_peer_gone(x->front->wire);
}

/* ---- writing ---- */

static void status_line(struct exchange *x, unsigned status, struct str reason)
{
    (void)buf_reserve(&x->out, LIMIT_HEAD_USUAL_BYTES);
    buf_printf(&x->out, "HTTP/1.1 %u %.*s\r\n", status, STR_FMT(reason));
}

void front_interim(struct exchange *x, unsigned status, struct str reason, struct str fields)
{
    /* RFC 9110 section 15.2: never to an HTTP/1.0 client. */
    if (x->over || x->head_written || x->request.minor == 0) {
        return;
    }
    status_line(x, status, reason);
    buf_add_str(&x->out, fields);
    buf_add(&x->out, "\r\n", 2);
}

static void framing_write(struct exchange *x, enum http_framing framing, uint64_t length)
{
    x->has_body = framing != HTTP_NO_BODY && !x->is_head;
    if (framing == HTTP_LENGTH) {
        buf_printf(&x->out, "Content-Length: %llu\r\n", (unsigned long long)length);
        return;
    }
    if (framing == HTTP_NO_BODY) {
        return;
    }
    if (x->request.minor >= 1) {
        x->is_chunked = x->has_body;
        buf_puts(&x->out, "Transfer-Encoding: chunked\r\n");
    } else {
        x->must_close = true;
    }
}

void front_head(struct exchange *x, unsigned status, struct str reason, struct str fields,
                enum http_framing framing, uint64_t length)
{
    if (x->over || x->head_written) {
        return;
    }
    x->head_written = true;
    status_line(x, status, reason);
    buf_add_str(&x->out, fields);
    framing_write(x, framing, length);
    x->must_close = x->must_close || draining;
    if (x->must_close) {
        buf_puts(&x->out, "Connection: close\r\n");
    } else if (x->request.minor == 0) {
        buf_puts(&x->out, "Connection: keep-alive\r\n");
    }
    buf_add(&x->out, "\r\n", 2);
}

void front_body(struct exchange *x, struct str bytes)
{
    if (x->over || !x->has_body || bytes.len == 0) {
        return;
    }
    if (x->is_chunked) {
        buf_printf(&x->out, "%zx\r\n", bytes.len);
    }
    buf_add_str(&x->out, bytes);
    if (x->is_chunked) {
        buf_add(&x->out, "\r\n", 2);
    }
}

bool front_flush(struct exchange *x)
{
    struct front *f = x->front;
    struct str out = buf_str(&x->out);

    if (x->over || f->is_closing) {
        return true;
    }
    if (out.len > 0) {
        wire_write(f->wire, &out, 1);
        buf_reset(&x->out);
    }
    if (wire_queued(f->wire) == 0) {
        return true;
    }
    if (!f->is_stalled) {
        f->is_stalled = true;
        deadline_set(f, LIMIT_CLIENT_STALL_MS);
    }
    return false;
}

static void exchange_done(struct exchange *x)
{
    struct front *f = x->front;
    bool keep = !x->must_close && x->request_whole && !f->peer_ended;

    f->is_stalled = false;
    f->x = NULL;
    exchange_over(x);
    if (!keep) {
        front_linger(f);
        return;
    }
    /* Later, not here: answers that are given at once would nest as deep as requests were sent
     * ahead. */
    if (!f->is_feeding && !f->next_queued) {
        f->next_queued = true;
        loop_later(&f->next_later, next_now, f);
    }
}

void front_end(struct exchange *x, struct str trailers)
{
    if (x->over) {
        return;
    }
    if (x->is_chunked) {
        buf_puts(&x->out, "0\r\n");
        buf_add_str(&x->out, trailers);
        buf_add(&x->out, "\r\n", 2);
    }
    (void)front_flush(x);
    exchange_done(x);
}

void front_break(struct exchange *x)
{
    if (!x->over) {
        (void)front_flush(x);
        front_close(x->front, true);
    }
}

void front_answer(struct exchange *x, unsigned status, struct str fields, struct str body)
{
    front_head(x, status, front_reason(status), fields, HTTP_LENGTH, body.len);
    front_body(x, body);
    front_end(x, STR(""));
}

/* ---- after a switch of protocol ---- */

void front_switch(struct exchange *x, struct str reason, struct str fields)
{
    struct front *f = x->front;

    if (x->over) {
        return;
    }
    x->head_written = x->switched = x->must_close = true;
    status_line(x, 101, reason);
    buf_add_str(&x->out, fields);
    buf_add(&x->out, "\r\n", 2);
    (void)front_flush(x);
    wire_read(f->wire, true);
}

struct str front_raw_early(const struct exchange *x)
{
    return buf_str(&x->front->early);
}

bool front_raw(struct exchange *x, struct str bytes)
{
    struct front *f = x->front;

    if (x->over || f->is_closing) {
        return true;
    }
    wire_write(f->wire, &bytes, 1);
    return front_flush(x);
}

void front_raw_read(struct exchange *x, bool on)
{
    if (!x->over) {
        wire_read(x->front->wire, on);
    }
}

void front_raw_shutdown(struct exchange *x)
{
    if (!x->over) {
        wire_shutdown(x->front->wire);
    }
}

void front_raw_end(struct exchange *x)
{
    if (!x->over) {
        exchange_done(x);
    }
}

struct str front_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {
        {101, "Switching Protocols"},
        {200, "OK"},
        {204, "No Content"},
        {303, "See Other"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {508, "Loop Detected"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (reasons[i].status == status) {
            return str_of(reasons[i].text);
        }
    }
    return STR("");
}

/*
 * A request on a stream to its app, and the answer back.
 *
 * Must never send a request a second time once a byte of it may have reached the app, end an answer
 * in order that broke off, or read one side faster than the other takes it. Main thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/mem.h"
#include "proxy/limits.h"
#include "proxy/preview_activity.h"
#include "proxy/preview_pages.h"
#include "proxy/preview_request.h"
#include "proxy/preview_secrets.h"
#include "proxy/preview_stopping.h"
#include "proxy/preview_visit.h"

/* A request that must not be lost is not written to a stream that the app may be about to close. */
#define REUSE_UNSAFE_IDLE_MS 1000

static const struct stream_events relay_stream;
static const struct http_events relay_answer;

static void count_byte(struct visit *v)
{
    if (v->is_counted) {
        activity_byte(v->route);
    }
}

/* ---- what the app is sent ---- */

/* Head (or nothing) and what is there of the body, in one write. */
static void send_parts(struct visit *v, struct str head)
{
    struct exchange *x = v->x;
    struct str parts[5] = {head};
    unsigned count = 1;
    char size[24];

    BUF_AUTO(last, LIMIT_HEAD_BYTES + 16);

    if (x->body.len > 0) {
        if (x->framing == HTTP_CHUNKED) {
            int len = snprintf(size, sizeof size, "%zx\r\n", x->body.len);

            parts[count++] = str_n(size, (size_t)len);
        }
        parts[count++] = buf_str(&x->body);
    }
    if (x->framing == HTTP_CHUNKED) {
        if (x->body.len > 0) {
            buf_puts(&last, "\r\n");
        }
        if (x->request_whole) {
            buf_puts(&last, "0\r\n");
            head_copy_trailers(&x->request, &last);
            buf_puts(&last, "\r\n");
        }
        parts[count++] = buf_str(&last);
    }
    stream_write(v->stream, parts, count);
    buf_reset(&x->body);
    v->request_sent = x->request_whole;
    count_byte(v);
    front_want_body(x, stream_queued(v->stream) == 0);
}

static void answer_late(void *ctx)
{
    struct visit *v = ctx;
    struct exchange *x = v->x;
    bool is_page = v->wants_page;

    visit_over(v);
    pages_refuse(x, 504, "timeout", "The app did not answer in time.", 0, is_page);
}

static void relay_start(struct visit *v)
{
    BUF_AUTO(head, 2 * LIMIT_HEAD_BYTES);

    v->state = VISIT_RELAYING;
    http_parser_init(&v->parser, false, &relay_answer, v);
    http_parser_next(&v->parser, &v->answer);
    (void)buf_reserve(&head, LIMIT_HEAD_USUAL_BYTES);
    request_build_head(v, &head);
    loop_deadline_set(&v->deadline, LIMIT_UPSTREAM_HEAD_MS, answer_late, v);
    send_parts(v, buf_str(&head));
}

void relay_body(struct visit *v)
{
    if (v->state == VISIT_RELAYING && !v->request_sent && !v->stream_over) {
        send_parts(v, STR(""));
    }
}

/* ---- getting a stream ---- */

static bool is_harmless(const struct exchange *x)
{
    struct str method = head_method(&x->request);

    return x->framing == HTTP_NO_BODY &&
           (str_is(method, "GET") || x->is_head || str_is(method, "OPTIONS"));
}

void relay_open(struct visit *v)
{
    const struct route *r = v->route;
    const struct ulid *id = &r->entry.id;
    int64_t idle_ms = is_harmless(v->x) ? LIMIT_POOL_IDLE_MAX_MS : REUSE_UNSAFE_IDLE_MS;

    v->stream = gate_reuse(id, r->generation, v->host.port, idle_ms, &relay_stream, v);
    if (v->stream) {
        relay_start(v);
        return;
    }
    v->stream = gate_open(id, r->generation, v->host.port, &relay_stream, v);
    if (v->stream) {
        v->state = VISIT_OPENING;
        return;
    }
    if (!gate_is_standing(id)) {
        wake_hold(v, false);
        return;
    }
    struct exchange *x = v->x;
    bool is_page = v->wants_page;

    visit_over(v);
    pages_refuse(x, 503, "busy", "The app has as many open connections as it may have.", 2,
                 is_page);
}

static void on_opened(void *ctx, enum stream_result result)
{
    struct visit *v = ctx;

    if (result != STREAM_OK) {
        v->stream = NULL;
        wake_hold(v, result != STREAM_LOST);
        return;
    }
    if (front_client_gone(v->x)) {
        struct exchange *x = v->x;

        visit_over(v);
        front_break(x);
        return;
    }
    if (v->route) {
        wake_port_answers(v->route, v->host.port);
    }
    relay_start(v);
}

/* ---- the answer ---- */

/* An app must not set or clear a cookie of ours. */
static bool is_not_passed(struct str name, struct str value, const void *ctx)
{
    (void)ctx;
    return str_eq_nocase(name, STR("content-length")) ||
           (str_eq_nocase(name, STR("set-cookie")) && secrets_has_cookie(value));
}

static void answer_bad(struct visit *v, const char *message)
{
    struct exchange *x = v->x;
    bool is_page = v->wants_page;

    visit_over(v);
    if (x->head_written) {
        front_break(x);
    } else {
        pages_refuse(x, 502, "bad_gateway", message, 0, is_page);
    }
}

static void add_timing(const struct visit *v, struct buf *fields)
{
    if (v->was_held) {
        buf_printf(fields, "Server-Timing: wake;dur=%lld\r\n",
                   (long long)(loop_now_ms() - v->x->began_ms));
    }
}

static void pass_final_head(struct visit *v, struct buf *fields)
{
    const struct head *h = &v->answer;
    enum http_framing framing = v->parser.framing;

    loop_deadline_clear(&v->deadline);
    add_timing(v, fields);
    access_add_fields(v, fields);
    if (v->parser.has_no_body && (h->status == 204 || framing != HTTP_LENGTH)) {
        framing = HTTP_NO_BODY;
    }
    front_head(v->x, h->status, head_target(h), buf_str(fields), framing, v->parser.length);
}

static bool on_head(void *ctx)
{
    struct visit *v = ctx;
    const struct head *h = &v->answer;

    BUF_AUTO(fields, 2 * LIMIT_HEAD_BYTES);

    if (h->status == 101) {
        return true;
    }
    head_copy(h, &fields, is_not_passed, NULL);
    if (h->status >= 200) {
        pass_final_head(v, &fields);
        return v->x->is_head;
    }
    front_interim(v->x, h->status, head_target(h), buf_str(&fields));
    return true;
}

static void on_body(void *ctx, struct str bytes)
{
    struct visit *v = ctx;

    front_body(v->x, bytes);
}

static void on_end(void *ctx)
{
    struct visit *v = ctx;

    v->answer_whole = v->answer.status >= 200 || v->answer.status == 101;
}

static const struct http_events relay_answer = {.head = on_head, .body = on_body, .end = on_end};

/* How long this app keeps an idle connection, one second less; zero: not at all. */
static int64_t idle_ms_of(const struct head *h)
{
    struct str list = head_get(h, "keep-alive");
    struct str part;
    uint64_t seconds;

    while (list.ptr && str_split(&list, ',', &part)) {
        part = str_trim(part);
        if (str_starts(part, STR("timeout=")) &&
            str_to_u64(str_cut(part, 8, part.len), 3600, &seconds)) {
            int64_t ms = (int64_t)seconds * 1000 - 1000;

            return ms < LIMIT_POOL_IDLE_MAX_MS ? ms : LIMIT_POOL_IDLE_MAX_MS;
        }
    }
    return LIMIT_POOL_IDLE_MS;
}

static void relay_done(struct visit *v, bool is_reusable)
{
    BUF_AUTO(trailers, LIMIT_HEAD_BYTES);
    struct exchange *x = v->x;
    struct stream *s = v->stream;

    head_copy_trailers(&v->answer, &trailers);
    if (is_reusable && v->request_sent && !v->stream_over && http_parser_keeps_alive(&v->parser)) {
        v->stream = NULL;
        stream_keep(s, idle_ms_of(&v->answer));
    }
    visit_over(v);
    front_end(x, buf_str(&trailers));
}

static void relay_switch(struct visit *v, struct str rest)
{
    BUF_AUTO(fields, 2 * LIMIT_HEAD_BYTES);
    const struct head *h = &v->answer;
    struct str upgrade = head_get(h, "upgrade");

    if (!request_wants_upgrade(v) || !upgrade.ptr) {
        answer_bad(v, "The app changed to a protocol that nobody asked for.");
        return;
    }
    loop_deadline_clear(&v->deadline);
    head_copy(h, &fields, is_not_passed, NULL);
    add_timing(v, &fields);
    buf_printf(&fields, "Connection: Upgrade\r\nUpgrade: %.*s\r\n", STR_FMT(upgrade));
    v->state = VISIT_SWITCHED;
    if (v->route) {
        stopping_visit_left(v->route);
    }
    front_switch(v->x, head_target(h), buf_str(&fields));

    struct str early = front_raw_early(v->x);

    if (early.len > 0) {
        stream_write(v->stream, &early, 1);
    }
    if (rest.len > 0) {
        ws_frames_feed(&v->frames, rest);
        stream_read(v->stream, front_raw(v->x, rest));
    }
}

/* One message after the other: interim answers come before the final one. */
static void relay_feed(struct visit *v, struct str bytes)
{
    while (v->state == VISIT_RELAYING) {
        size_t taken = http_parser_feed(&v->parser, bytes);

        bytes = str_cut(bytes, taken, bytes.len);
        if (v->parser.problem != HTTP_FINE) {
            answer_bad(v, "The app's answer is not well-formed HTTP.");
            return;
        }
        if (!v->parser.message_whole) {
            break;
        }
        if (v->answer.status == 101) {
            relay_switch(v, bytes);
            return;
        }
        if (v->answer_whole) {
            relay_done(v, bytes.len == 0);
            return;
        }
        head_done(&v->answer);
        head_init(&v->answer);
        http_parser_next(&v->parser, &v->answer);
        if (bytes.len == 0) {
            break;
        }
    }
    if (v->state == VISIT_RELAYING && !front_flush(v->x)) {
        stream_read(v->stream, false);
    }
}

static void on_data(void *ctx, struct str bytes)
{
    struct visit *v = ctx;

    count_byte(v);
    if (v->state == VISIT_RELAYING) {
        relay_feed(v, bytes);
    } else if (v->state == VISIT_SWITCHED) {
        ws_frames_feed(&v->frames, bytes);
        if (!front_raw(v->x, bytes)) {
            stream_read(v->stream, false);
        }
    }
}

/* ---- ends ---- */

static void switched_over(struct visit *v, bool in_order)
{
    struct exchange *x = v->x;

    visit_over(v);
    if (in_order) {
        front_raw_end(x);
    } else {
        front_break(x);
    }
}

static void on_ended(void *ctx, bool in_order)
{
    struct visit *v = ctx;

    v->stream_over = true;
    if (v->state == VISIT_SWITCHED) {
        switched_over(v, in_order);
        return;
    }
    if (in_order && http_parser_finish(&v->parser)) {
        relay_done(v, false);
        return;
    }
    answer_bad(v, "The app closed the connection without a whole answer.");
}

static void on_drained(void *ctx)
{
    struct visit *v = ctx;

    if (v->state == VISIT_SWITCHED) {
        front_raw_read(v->x, true);
    } else {
        front_want_body(v->x, true);
    }
}

static const struct stream_events relay_stream = {
    .opened = on_opened, .data = on_data, .ended = on_ended, .drained = on_drained};

void relay_client_drained(struct visit *v)
{
    if (v->stream && !v->stream_over &&
        (v->state == VISIT_RELAYING || v->state == VISIT_SWITCHED)) {
        stream_read(v->stream, true);
    }
}

void relay_raw(struct visit *v, struct str bytes)
{
    if (v->state != VISIT_SWITCHED) {
        return;
    }
    count_byte(v);
    stream_write(v->stream, &bytes, 1);
    if (stream_queued(v->stream) > 0) {
        front_raw_read(v->x, false);
    }
}

void relay_raw_ended(struct visit *v)
{
    if (v->state == VISIT_SWITCHED) {
        stream_shutdown(v->stream);
    }
}

/* A close frame from a server is not masked (RFC 6455 section 7.4). */
static void close_switched(struct visit *v, const char close_frame[4])
{
    struct exchange *x = v->x;
    bool can_say =
        head_has_token(&x->request, "upgrade", "websocket") && ws_frames_at_boundary(&v->frames);

    visit_over(v);
    if (can_say) {
        (void)front_raw(x, str_n(close_frame, 4));
    }
    front_raw_end(x);
}

void relay_restart(struct visit *v)
{
    close_switched(v, "\x88\x02\x03\xf4"); /* 1012, service restart */
}

void relay_revoke(struct visit *v)
{
    close_switched(v, "\x88\x02\x03\xf0"); /* 1008, policy violation */
}

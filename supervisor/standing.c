/*
 * The standing connection. It must never block on the proxy, nor hold more for it than
 * STANDING_OUT_BYTES_MAX. One thread, the relay's.
 */
#include "supervisor/standing.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/record.h"
#include "supervisor/dial.h"
#include "supervisor/relay.h"

#define STANDING_PAUSE_FIRST_MS 5
#define STANDING_PAUSE_MAX_MS   500
#define STANDING_GREETING_MS    5000
#define STANDING_IN_BYTES_MAX   (RECORD_FRAME_MAX + 4)
#define STANDING_OUT_BYTES_MAX  65536 /* a proxy that far behind has lost track: dial anew */

static void standing_on_event(void *ctx, uint32_t events);

void standing_init(struct standing *s, struct loop *loop, const char *boot_id,
                   standing_open_fn on_open, void *ctx)
{
    *s = (struct standing){.loop = loop,
                           .boot_id = boot_id,
                           .watch = {.fd = -1, .on_event = standing_on_event, .ctx = s},
                           .pause_ms = STANDING_PAUSE_FIRST_MS,
                           .on_open = on_open,
                           .ctx = ctx};
    buf_init(&s->in, STANDING_IN_BYTES_MAX);
    buf_init(&s->out, STANDING_OUT_BYTES_MAX);
}

static void standing_drop(struct standing *s)
{
    loop_close(s->loop, &s->watch);
    buf_reset(&s->in);
    buf_reset(&s->out);
    s->greeted = false;
    s->next_dial_ms = clock_mono_ms() + s->pause_ms;
    s->pause_ms = s->pause_ms * 2 < STANDING_PAUSE_MAX_MS ? s->pause_ms * 2 : STANDING_PAUSE_MAX_MS;
}

void standing_flush(struct standing *s)
{
    while (s->watch.fd >= 0 && s->out.len > 0) {
        ssize_t len = send(s->watch.fd, s->out.ptr, s->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EAGAIN) {
            loop_change(s->loop, &s->watch, EPOLLIN | EPOLLOUT);
            return;
        }
        if (len < 0 && errno != EINTR) {
            standing_drop(s);
            return;
        }
        buf_consume(&s->out, len > 0 ? (size_t)len : 0);
    }
    loop_change(s->loop, &s->watch, EPOLLIN);
}

void standing_say(struct standing *s, const char *kind, uint64_t n)
{
    if (s->watch.fd < 0) {
        return;
    }
    struct record_writer w = record_begin(&s->out, kind);
    record_addn(&w, "n", (int64_t)n);
    if (!record_end(&w)) {
        log_warn("the preview proxy does not read; dialling it anew");
        standing_drop(s);
    }
}

static int on_hello(struct standing *s, const struct record *r)
{
    uint64_t protocol = 0;

    if (!record_get_u64(r, "protocol", 1000, &protocol) || protocol != RECORD_PROTOCOL) {
        return -1;
    }
    s->greeted = true;
    s->pause_ms = STANDING_PAUSE_FIRST_MS;
    return 0;
}

static int on_open(struct standing *s, const struct record *r)
{
    uint64_t n = 0;
    uint64_t port = 0;

    if (!s->greeted || !record_get_u64(r, "n", INT64_MAX, &n) ||
        !record_get_u64(r, "port", 65535, &port)) {
        return -1;
    }
    s->on_open(s->ctx, n, (uint16_t)port);
    return 0;
}

static int standing_handle(struct standing *s, const struct record *r)
{
    struct err said = {0};

    if (record_is(r, "open")) {
        return on_open(s, r);
    }
    if (record_is(r, "hello")) {
        return on_hello(s, r);
    }
    if (record_is(r, "error")) {
        (void)record_to_err(r, &said);
        log_warn("the preview proxy refused the door", "error", said.msg);
    }
    return -1;
}

/* False when the connection is to be closed. */
static bool standing_take_frames(struct standing *s)
{
    struct str frame;
    struct record r;
    int whole = 0;

    while ((whole = record_next(&s->in, &frame, NULL)) == 1) {
        if (record_parse(frame, &r, NULL) != 0 || standing_handle(s, &r) != 0) {
            return false;
        }
        if (s->watch.fd < 0) {
            return true; /* dropped meanwhile: the buffer is empty */
        }
        record_skip(&s->in, frame);
    }
    return whole == 0;
}

static void standing_on_event(void *ctx, uint32_t events)
{
    struct standing *s = ctx;

    (void)events;
    if (!buf_reserve(&s->in, STANDING_IN_BYTES_MAX - s->in.len)) {
        standing_drop(s);
        return;
    }
    ssize_t len =
        recv(s->watch.fd, s->in.ptr + s->in.len, STANDING_IN_BYTES_MAX - s->in.len, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (len <= 0) {
        standing_drop(s);
        return;
    }
    buf_grew(&s->in, (size_t)len);
    if (!standing_take_frames(s)) {
        standing_drop(s);
    }
}

static void standing_dial(struct standing *s, int64_t now_ms)
{
    struct err e = {0};
    int fd = -1;

    if (dial_unix(RELAY_IN_SOCKET, &fd, &e) != 0) {
        standing_drop(s);
        return;
    }
    if (loop_add(s->loop, &s->watch, fd, EPOLLIN, &e) != 0) {
        (void)close(fd);
        standing_drop(s);
        return;
    }
    s->greeting_end_ms = now_ms + STANDING_GREETING_MS;
    struct record_writer w = record_begin(&s->out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "role", "standing");
    record_adds(&w, "boot_id", s->boot_id);
    (void)record_end(&w);
}

int64_t standing_tick(struct standing *s, int64_t now_ms)
{
    if (s->watch.fd < 0 && now_ms >= s->next_dial_ms) {
        standing_dial(s, now_ms);
    }
    if (s->watch.fd < 0) {
        return s->next_dial_ms;
    }
    if (!s->greeted && now_ms >= s->greeting_end_ms) {
        standing_drop(s);
        return s->next_dial_ms;
    }
    return s->greeted ? INT64_MAX : s->greeting_end_ms;
}

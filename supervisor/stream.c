/*
 * Streams of the relay. It must never drop a byte, read further than the other side takes, nor spin
 * on a peer that hung up. One thread, the relay's.
 */
#include "supervisor/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/mem.h"

#define STREAM_BUFFER_BYTES   65536
#define STREAM_READS_PER_TURN 4 /* then others have their turn */

static void stream_on_event(void *ctx, uint32_t events);

static void side_init(struct stream_side *side, struct stream *s, loop_event_fn on_event)
{
    *side =
        (struct stream_side){.stream = s, .watch = {.fd = -1, .on_event = on_event, .ctx = side}};
}

void stream_init(struct stream *s, struct loop *loop, const struct stream_hooks *hooks,
                 loop_event_fn on_event)
{
    s->hooks = hooks;
    s->loop = loop;
    s->open = false;
    side_init(&s->app, s, on_event);
    side_init(&s->door, s, on_event);
}

static void side_close(struct stream_side *side)
{
    loop_close(side->stream->loop, &side->watch);
    free(side->pending);
    side->pending = NULL;
}

void stream_close(struct stream *s)
{
    s->open = false;
    side_close(&s->app);
    side_close(&s->door);
}

static struct stream_side *side_other(struct stream_side *side)
{
    struct stream *s = side->stream;

    return side == &s->app ? &s->door : &s->app;
}

/* Reads while the other side has nothing waiting, writes while this one has. */
static void side_watch(struct stream_side *side)
{
    uint32_t events = 0;

    if (!side->read_over && !side_other(side)->pending) {
        events |= EPOLLIN;
    }
    if (side->pending) {
        events |= EPOLLOUT;
    }
    loop_change(side->stream->loop, &side->watch, events);
}

static void stream_finish(struct stream *s, enum stream_end end)
{
    s->open = false;
    s->hooks->on_end(s->hooks->ctx, s, end);
}

/* A socket failed. What the proxy's side lost is nobody's news; what the app broke is. */
static void stream_break(struct stream_side *side)
{
    struct stream *s = side->stream;

    stream_finish(s, side == &s->app ? STREAM_APP_BROKE : STREAM_CLOSED);
}

/* Nothing more comes for this side and all that came went out: tell its peer. */
static void side_half_close(struct stream_side *side)
{
    struct stream *s = side->stream;

    side->write_over = true;
    (void)shutdown(side->watch.fd, SHUT_WR);
    if (side == &s->door) {
        s->hooks->on_end(s->hooks->ctx, s, STREAM_ENDED);
    }
    if (s->app.write_over && s->door.write_over) {
        stream_finish(s, STREAM_CLOSED);
    }
}

/* Keeps what the socket did not take. False without memory for it. */
static bool side_keep(struct stream_side *side, const char *bytes, size_t len)
{
    side->pending = malloc(len);
    if (!side->pending) {
        return false;
    }
    memcpy(side->pending, bytes, len);
    side->pending_at = 0;
    side->pending_len = len;
    return true;
}

/* Writes or keeps everything; false when the socket is broken. */
static bool side_write(struct stream_side *side, const char *bytes, size_t len)
{
    ssize_t sent = send(side->watch.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return false;
        }
        sent = 0;
    }
    return (size_t)sent == len || side_keep(side, bytes + sent, len - (size_t)sent);
}

/* Writes what was kept; false when the socket is broken. */
static bool side_flush(struct stream_side *side)
{
    ssize_t sent = send(side->watch.fd, side->pending + side->pending_at,
                        side->pending_len - side->pending_at, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    side->pending_at += (size_t)sent;
    if (side->pending_at == side->pending_len) {
        free(side->pending);
        side->pending = NULL;
    }
    return true;
}

static void side_on_writable(struct stream_side *side)
{
    if (!side->pending) {
        return;
    }
    if (!side_flush(side)) {
        stream_break(side);
        return;
    }
    if (side->pending) {
        return;
    }
    side_watch(side);
    side_watch(side_other(side));
    if (side_other(side)->read_over && !side->write_over) {
        side_half_close(side);
    }
}

static void side_on_eof(struct stream_side *side)
{
    struct stream_side *to = side_other(side);

    side->read_over = true;
    side_watch(side);
    if (!to->pending && !to->write_over) {
        side_half_close(to);
    }
}

/* One read and its write; false when this side's turn is over. */
static bool side_pass(struct stream_side *side)
{
    static char bytes[STREAM_BUFFER_BYTES];
    struct stream_side *to = side_other(side);
    ssize_t len = recv(side->watch.fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (len < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            stream_break(side);
        }
        return false;
    }
    if (len == 0) {
        side_on_eof(side);
        return false;
    }
    if (!side_write(to, bytes, (size_t)len)) {
        stream_break(to);
        return false;
    }
    if (to->pending) {
        side_watch(side);
        side_watch(to);
        return false;
    }
    return len == (ssize_t)sizeof(bytes);
}

/*
 * A peer that is gone altogether. The proxy's: nobody wants an answer any more, so the app's
 * connection ends too. The app's: what it sent is still read; only when nothing is read from it any
 * more this is the news.
 */
static void side_on_hangup(struct stream_side *side, uint32_t events)
{
    struct stream *s = side->stream;

    if (side == &s->door && (side->read_over || !(events & EPOLLIN))) {
        stream_finish(s, STREAM_CLOSED);
    } else if (side == &s->app && side->read_over && (events & EPOLLERR)) {
        stream_finish(s, s->door.write_over ? STREAM_CLOSED : STREAM_APP_BROKE);
    }
}

static void stream_on_event(void *ctx, uint32_t events)
{
    struct stream_side *side = ctx;
    struct stream *s = side->stream;

    if (s->open && (events & EPOLLOUT)) {
        side_on_writable(side);
    }
    if (s->open && (events & EPOLLIN)) {
        for (int i = 0; i < STREAM_READS_PER_TURN && s->open; i++) {
            if (side->read_over || side_other(side)->pending || !side_pass(side)) {
                break;
            }
        }
    }
    if (s->open && (events & (EPOLLHUP | EPOLLERR))) {
        side_on_hangup(side, events);
    }
}

void stream_open(struct stream *s)
{
    s->open = true;
    s->app.watch.on_event = stream_on_event;
    s->door.watch.on_event = stream_on_event;
    side_watch(&s->app);
    side_watch(&s->door);
}

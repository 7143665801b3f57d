/*
 * Channel. It must never block on the control plane, and never believe that it is there. One
 * thread: PID 1's.
 */
#include "supervisor/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/record.h"
#include "supervisor/dial.h"
#include "supervisor/spawn.h"

#define CHANNEL_PAUSE_FIRST_MS 5
#define CHANNEL_PAUSE_MAX_MS   500
#define CHANNEL_GREETING_MS    15000 /* the engine is asked who we are before we get an answer */
#define CHANNEL_IN_BYTES_MAX   (2 * (RECORD_FRAME_MAX + 4))
#define CHANNEL_OUT_UNTIL      65536 /* more is not gathered before it is written */
#define CHANNEL_OUT_BYTES_MAX  (CHANNEL_OUT_UNTIL + 2 * (RECORD_FRAME_MAX + 4))
#define CHANNEL_READS_PER_TURN 32

static void channel_on_event(void *ctx, uint32_t events);

void channel_init(struct channel *c, struct loop *loop, struct app *app, struct tasks *tasks,
                  const char *boot_id)
{
    *c = (struct channel){.loop = loop,
                          .app = app,
                          .tasks = tasks,
                          .boot_id = boot_id,
                          .watch = {.fd = -1, .on_event = channel_on_event, .ctx = c},
                          .pause_ms = CHANNEL_PAUSE_FIRST_MS};
    buf_init(&c->in, CHANNEL_IN_BYTES_MAX);
    buf_init(&c->out, CHANNEL_OUT_BYTES_MAX);
}

static void channel_drop(struct channel *c)
{
    if (c->state == CHANNEL_UP) {
        log_info("the control plane is gone; dialling again");
    }
    loop_close(c->loop, &c->watch);
    buf_reset(&c->in);
    buf_reset(&c->out);
    c->out_at = 0;
    c->state = CHANNEL_DOWN;
    c->next_dial_ms = clock_mono_ms() + c->pause_ms;
    c->pause_ms = c->pause_ms * 2 < CHANNEL_PAUSE_MAX_MS ? c->pause_ms * 2 : CHANNEL_PAUSE_MAX_MS;
}

/* Writes what was gathered; false when the connection broke. */
static bool channel_write(struct channel *c)
{
    while (c->out_at < c->out.len) {
        ssize_t len = send(c->watch.fd, c->out.ptr + c->out_at, c->out.len - c->out_at,
                           MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0 && errno == EAGAIN) {
            loop_change(c->loop, &c->watch, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (len < 0) {
            return false;
        }
        c->out_at += (size_t)len;
    }
    buf_reset(&c->out);
    c->out_at = 0;
    loop_change(c->loop, &c->watch, EPOLLIN);
    return true;
}

/* Gathers records while nothing waits to be written; true when there is something to write. */
static bool channel_gather(struct channel *c)
{
    if (c->state == CHANNEL_UP && c->out_at == 0 && c->out.len < CHANNEL_OUT_UNTIL) {
        app_emit(c->app, &c->out, CHANNEL_OUT_UNTIL);
        tasks_emit(c->tasks, &c->out, CHANNEL_OUT_UNTIL);
    }
    return c->out.len > 0;
}

void channel_flush(struct channel *c)
{
    while (c->state != CHANNEL_DOWN && channel_gather(c)) {
        if (!channel_write(c)) {
            channel_drop(c);
            return;
        }
        if (c->out.len > 0) {
            return; /* the socket is full */
        }
    }
}

/* ---- records in ---- */

static int on_hello(struct channel *c, const struct record *r)
{
    uint64_t protocol = 0;

    if (!record_get_u64(r, "protocol", 1000, &protocol) || protocol != RECORD_PROTOCOL) {
        log_error("the control plane speaks another protocol; it must make this container anew");
        return -1;
    }
    if (c->state == CHANNEL_GREETING) {
        c->state = CHANNEL_UP;
        c->pause_ms = CHANNEL_PAUSE_FIRST_MS;
        app_tell_all(c->app);
        tasks_rewind(c->tasks);
    }
    return 0;
}

static int on_configure(struct channel *c, const struct record *r, struct err *e)
{
    return app_configure(c->app, r, e);
}

static int on_start(struct channel *c, const struct record *r, struct err *e)
{
    return tasks_start(c->tasks, r, e);
}

static int on_stdin(struct channel *c, const struct record *r, struct err *e)
{
    return tasks_stdin(c->tasks, r, e);
}

static int on_cancel(struct channel *c, const struct record *r, struct err *e)
{
    return tasks_cancel(c->tasks, r, e);
}

static int on_finish(struct channel *c, const struct record *r, struct err *e)
{
    return tasks_finish(c->tasks, r, e);
}

static int on_ack(struct channel *c, const struct record *r, struct err *e)
{
    return tasks_ack(c->tasks, r, e);
}

static int on_restart(struct channel *c, const struct record *r, struct err *e)
{
    struct str name = record_get(r, "name");

    return app_restart(c->app, name)
               ? 0
               : err_set(e, ERR_NOT_FOUND, 0, "restart: nothing called %.*s runs here",
                         (int)(name.len < 64 ? name.len : 64), name.ptr ? name.ptr : "");
}

static int on_ping(struct channel *c, const struct record *r, struct err *e)
{
    struct record_writer w = record_begin(&c->out, "pong");

    (void)e;
    record_add(&w, "n", str_cut(record_get(r, "n"), 0, 20));
    (void)record_end(&w); /* a peer that does not read its answers does not get them */
    return 0;
}

static int on_error(struct channel *c, const struct record *r, struct err *e)
{
    struct err said = {0};

    (void)c;
    (void)e;
    (void)record_to_err(r, &said);
    log_error("the control plane refused something", "error", said.msg);
    return 0;
}

static const struct {
    const char *kind;
    int (*handle)(struct channel *c, const struct record *r, struct err *e);
} channel_kinds[] = {
    {"configure", on_configure}, {"start", on_start},   {"stdin", on_stdin},
    {"cancel", on_cancel},       {"finish", on_finish}, {"ack", on_ack},
    {"restart", on_restart},     {"ping", on_ping},     {"error", on_error},
};

/* Says what was wrong; the connection goes on. */
static void channel_complain(struct channel *c, const struct err *e)
{
    log_warn("a record of the control plane was refused", "error", e->msg);
    record_add_error(&c->out, e);
}

static int channel_unknown(struct channel *c, const struct record *r)
{
    struct err e = {0};

    (void)err_set(&e, ERR_PROTOCOL, 0, "a record of unknown kind %.*s",
                  (int)(r->kind.len < 64 ? r->kind.len : 64), r->kind.ptr);
    channel_complain(c, &e);
    (void)channel_write(c);
    return -1;
}

int channel_handle(struct channel *c, const struct record *r)
{
    struct err e = {0};

    if (record_is(r, "hello")) {
        return on_hello(c, r);
    }
    for (size_t i = 0; i < sizeof(channel_kinds) / sizeof(channel_kinds[0]); i++) {
        if (!record_is(r, channel_kinds[i].kind)) {
            continue;
        }
        if (c->state != CHANNEL_UP && channel_kinds[i].handle != on_error) {
            return -1; /* not before its hello */
        }
        if (channel_kinds[i].handle(c, r, &e) != 0) {
            channel_complain(c, &e);
        }
        return 0;
    }
    return channel_unknown(c, r);
}

/* Handles the whole frames that are there; -1 when the connection is to be closed. */
static int channel_take_frames(struct channel *c)
{
    struct str frame;
    struct record r;
    struct err e = {0};
    size_t taken = 0;
    int whole = 0;
    /* A view that moves over the frames, so that many small ones do not move the rest each time. */
    struct buf view = c->in;

    while ((whole = record_next(&view, &frame, &e)) == 1) {
        if (record_parse(frame, &r, &e) != 0 || channel_handle(c, &r) != 0) {
            whole = -1;
            break;
        }
        taken += frame.len + 4;
        view.ptr = c->in.ptr + taken;
        view.len = c->in.len - taken;
    }
    if (e.msg[0] != '\0') {
        log_warn("the control plane sent a broken record", "error", e.msg);
    }
    buf_consume(&c->in, taken);
    return whole < 0 ? -1 : 0;
}

/* 1: more may be there, 0: nothing more for now, -1: the connection is over. */
static int channel_read(struct channel *c)
{
    if (!buf_reserve(&c->in, CHANNEL_IN_BYTES_MAX - c->in.len)) {
        return -1;
    }
    size_t room = CHANNEL_IN_BYTES_MAX - c->in.len;
    ssize_t len = recv(c->watch.fd, c->in.ptr + c->in.len, room, MSG_DONTWAIT);
    if (len < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    if (len == 0) {
        return -1;
    }
    buf_grew(&c->in, (size_t)len);
    if (channel_take_frames(c) != 0) {
        return -1;
    }
    return (size_t)len == room;
}

static void channel_on_event(void *ctx, uint32_t events)
{
    struct channel *c = ctx;
    int more = 1;

    (void)events; /* what is to be written goes out at the end of the turn */
    for (int i = 0; i < CHANNEL_READS_PER_TURN && more > 0; i++) {
        more = channel_read(c);
    }
    if (more < 0) {
        channel_drop(c);
    }
}

/* ---- dialling ---- */

static void channel_greet(struct channel *c)
{
    struct record_writer w = record_begin(&c->out, "hello");

    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "boot_id", c->boot_id);
    record_adds(&w, "version", SUPERVISOR_VERSION);
    record_addb(&w, "config", true); /* it knows what to do with one */
    app_add_config_version(c->app, &w);
    tasks_add_known(c->tasks, &w);
    (void)record_end(&w);
}

static void channel_dial(struct channel *c, int64_t now_ms)
{
    struct err e = {0};
    int fd = -1;

    if (dial_unix(CHANNEL_SOCKET, &fd, &e) != 0) {
        channel_drop(c);
        return;
    }
    if (loop_add(c->loop, &c->watch, fd, EPOLLIN, &e) != 0) {
        (void)close(fd);
        channel_drop(c);
        return;
    }
    c->state = CHANNEL_GREETING;
    c->greeting_end_ms = now_ms + CHANNEL_GREETING_MS;
    channel_greet(c);
}

int64_t channel_tick(struct channel *c, int64_t now_ms)
{
    if (c->state == CHANNEL_DOWN && now_ms >= c->next_dial_ms) {
        channel_dial(c, now_ms);
    }
    if (c->state == CHANNEL_GREETING && now_ms >= c->greeting_end_ms) {
        channel_drop(c);
    }
    if (c->state == CHANNEL_DOWN) {
        return c->next_dial_ms;
    }
    return c->state == CHANNEL_GREETING ? c->greeting_end_ms : INT64_MAX;
}

/*
 * Client of run/broker/<role>/broker.sock.
 *
 * Must never block, and never give up: it dials again after 5, 10, 20 … 500 ms for ever. Main
 * thread.
 */
#include "proxy/broker.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/ulid.h"
#include "proxy/limits.h"
#include "proxy/wire.h"

/* After so long without sandboxd a line in the log says so. */
#define BROKER_SAY_MS 3000

struct broker {
    char path[PATHS_MAX];
    const char *role;
    struct ulid boot_id;
    const struct broker_events *events;
    void *ctx;
    struct wire *wire; /* owned; NULL while down */
    struct buf in;
    uv_timer_t retry;
    int64_t retry_ms, down_since_ms;
    bool greeted, said;
};

static void broker_dial(uv_timer_t *timer);

static void broker_again(struct broker *b)
{
    int64_t delay = b->retry_ms;

    b->retry_ms = delay * 2 < LIMIT_BROKER_RETRY_MAX_MS ? delay * 2 : LIMIT_BROKER_RETRY_MAX_MS;
    (void)uv_timer_start(&b->retry, broker_dial, (uint64_t)delay, 0);
}

static void broker_lost(struct broker *b, const char *why)
{
    bool was_up = b->greeted;

    wire_close(b->wire);
    b->wire = NULL;
    b->greeted = false;
    buf_reset(&b->in);
    if (was_up) {
        b->down_since_ms = loop_now_ms();
        b->said = false;
        log_info("connection to sandboxd lost, dialling again", "why", why);
        b->events->down(b->ctx);
    }
    broker_again(b);
}

/* False: the connection is gone. */
static bool broker_hello(struct broker *b, const struct record *r)
{
    uint64_t protocol = 0;

    if (!record_is(r, "hello") || !record_get_u64(r, "protocol", UINT32_MAX, &protocol) ||
        protocol != RECORD_PROTOCOL) {
        struct err e;

        (void)record_to_err(r, &e);
        log_error("sandboxd does not speak our protocol", "role", b->role, "message",
                  record_is(r, "error") ? e.msg : "no hello");
        broker_lost(b, "protocol");
        return false;
    }
    b->greeted = true;
    b->retry_ms = LIMIT_BROKER_RETRY_MIN_MS;
    log_info("connected to sandboxd", "role", b->role);
    b->events->up(b->ctx);
    return b->wire != NULL;
}

static bool broker_frame(struct broker *b, struct str frame)
{
    struct record r;
    struct err e;

    if (record_parse(frame, &r, &e) != 0) {
        broker_lost(b, e.msg);
        return false;
    }
    if (!b->greeted) {
        return broker_hello(b, &r);
    }
    if (record_is(&r, "error")) {
        (void)record_to_err(&r, &e);
        log_error("sandboxd refused what we sent", "message", e.msg);
        return true;
    }
    b->events->record(b->ctx, &r);
    return b->wire != NULL;
}

static void broker_data(void *ctx, struct str bytes)
{
    struct broker *b = ctx;
    struct str frame;
    struct err e;
    int whole;

    buf_add_str(&b->in, bytes);
    while ((whole = record_next(&b->in, &frame, &e)) == 1) {
        if (!broker_frame(b, frame)) {
            return;
        }
        record_skip(&b->in, frame);
    }
    if (whole < 0 || !buf_ok(&b->in)) {
        broker_lost(b, whole < 0 ? e.msg : "more records than can be read");
    }
}

static void broker_ended(void *ctx, int status)
{
    broker_lost(ctx, status == 0 ? "closed" : uv_err_name(status));
}

static const struct wire_events broker_wire = {.data = broker_data, .ended = broker_ended};

static void broker_dial(uv_timer_t *timer)
{
    struct broker *b = timer->data;

    BUF_AUTO(hello, 256);

    b->wire = wire_connect_unix(b->path);
    if (!b->wire) {
        if (!b->said && loop_now_ms() - b->down_since_ms > BROKER_SAY_MS) {
            b->said = true;
            log_warn("waiting for sandboxd: nobody listens yet", "socket", b->path);
        }
        broker_again(b);
        return;
    }
    wire_attach(b->wire, &broker_wire, b);
    wire_read(b->wire, true);

    struct record_writer w = record_begin(&hello, "hello");

    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "role", b->role);
    record_adds(&w, "boot_id", b->boot_id.text);
    (void)record_end(&w);
    struct str bytes = buf_str(&hello);

    wire_write(b->wire, &bytes, 1);
}

struct broker *broker_open(const char *data_dir, const char *role,
                           const struct broker_events *events, void *ctx)
{
    struct broker *b = mem_alloc(sizeof(*b));

    (void)paths_broker_socket(b->path, data_dir, role);
    b->role = role;
    b->boot_id = ulid_new();
    b->events = events;
    b->ctx = ctx;
    b->retry_ms = LIMIT_BROKER_RETRY_MIN_MS;
    b->down_since_ms = loop_now_ms();
    buf_init(&b->in, LIMIT_BROKER_IN_BYTES);
    (void)uv_timer_init(loop_get(), &b->retry);
    b->retry.data = b;
    broker_dial(&b->retry);
    return b;
}

bool broker_is_up(const struct broker *b)
{
    return b->wire && b->greeted;
}

bool broker_send(struct broker *b, const struct buf *frames)
{
    struct str bytes = buf_str(frames);

    if (!broker_is_up(b)) {
        return false;
    }
    if (wire_queued(b->wire) > LIMIT_BROKER_OUT_BYTES) {
        log_warn("sandboxd does not read what we send");
        return false;
    }
    wire_write(b->wire, &bytes, 1);
    return true;
}

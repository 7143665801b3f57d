/*
 * Streams into sandboxes.
 *
 * Must never hand a stream of one sandbox, or of an earlier run of its container, to a request for
 * another: a stream belongs to the gate it came through and carries the generation it was opened
 * for. Main thread.
 */
#include "proxy/preview_gate.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/door.h"
#include "proxy/limits.h"

#define GATE_BUCKETS 64

enum stream_state {
    STREAM_OPENING,
    STREAM_BUSY,
    STREAM_IDLE,
    STREAM_CLOSED
};

struct stream {
    struct gate *gate; /* NULL once its sandbox is gone */
    uint64_t n, generation;
    struct wire *wire; /* owned; NULL while opening */
    const struct stream_events *events;
    void *ctx;
    int64_t idle_since_ms, idle_max_ms;
    struct stream *next; /* in its bucket */
    struct stream *idle_prev, *idle_next;
    struct loop_deadline deadline; /* opening, idle or waiting for the verdict */
    struct loop_later later;
    uint16_t port;
    enum stream_state state;
    bool eof, in_order, is_reset;
};

/* One sandbox's streams. */
struct gate {
    struct door *door;
    struct wire *standing; /* owned; NULL when none */
    struct buf in;
    uint64_t next_n;
    unsigned stream_count, idle_count;
    struct stream *buckets[GATE_BUCKETS];
    struct stream idle; /* ring, the most recently used first */
};

static void (*gate_standing_fn)(const struct ulid *id);

/* ---- streams ---- */

static struct stream *stream_find(struct gate *g, uint64_t n)
{
    struct stream *s = g->buckets[n % GATE_BUCKETS];

    while (s && s->n != n) {
        s = s->next;
    }
    return s;
}

static void stream_unlink(struct stream *s)
{
    struct stream **at;

    if (!s->gate) {
        return;
    }
    at = &s->gate->buckets[s->n % GATE_BUCKETS];
    while (*at && *at != s) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = s->next;
        s->gate->stream_count--;
    }
    s->gate = NULL;
}

static void idle_unlink(struct stream *s)
{
    if (s->idle_prev) {
        s->idle_prev->idle_next = s->idle_next;
        s->idle_next->idle_prev = s->idle_prev;
        s->idle_prev = s->idle_next = NULL;
        if (s->gate) {
            s->gate->idle_count--;
        }
    }
}

static void stream_freed(void *p)
{
    free(p);
}

void stream_close(struct stream *s)
{
    if (!s || s->state == STREAM_CLOSED) {
        return;
    }
    s->state = STREAM_CLOSED;
    loop_deadline_clear(&s->deadline);
    idle_unlink(s);
    stream_unlink(s);
    wire_close(s->wire);
    s->wire = NULL;
    loop_later(&s->later, stream_freed, s);
}

/* Opening failed: told once, closed. */
static void stream_failed(struct stream *s, enum stream_result result)
{
    const struct stream_events *events = s->events;
    void *ctx = s->ctx;

    stream_close(s);
    events->opened(ctx, result);
}

static void stream_verdict(struct stream *s)
{
    if (s->state == STREAM_IDLE) {
        stream_close(s);
        return;
    }
    loop_deadline_clear(&s->deadline);
    s->events->ended(s->ctx, s->in_order && !s->is_reset);
}

static void stream_late(void *ctx)
{
    struct stream *s = ctx;

    if (s->state == STREAM_OPENING) {
        stream_failed(s, STREAM_TIMEOUT);
        return;
    }
    stream_verdict(s);
}

static void stream_data(void *ctx, struct str bytes)
{
    struct stream *s = ctx;

    if (s->state == STREAM_IDLE) {
        /* Nobody asked: whatever it is, the next request must not see it. */
        stream_close(s);
        return;
    }
    s->events->data(s->ctx, bytes);
}

static void stream_ended(void *ctx, int status)
{
    struct stream *s = ctx;

    s->eof = true;
    if (status != 0) {
        s->is_reset = true;
    }
    /* The verdict comes by the standing connection, a moment earlier or later. */
    if (s->state == STREAM_IDLE || s->in_order || s->is_reset || !s->gate || !s->gate->standing) {
        stream_verdict(s);
        return;
    }
    loop_deadline_set(&s->deadline, LIMIT_UPSTREAM_END_MS, stream_late, s);
}

static void stream_drained(void *ctx)
{
    struct stream *s = ctx;

    if (s->state == STREAM_BUSY) {
        s->events->drained(s->ctx);
    }
}

static const struct wire_events stream_wire = {
    .data = stream_data, .ended = stream_ended, .drained = stream_drained};

void stream_write(struct stream *s, const struct str *parts, unsigned count)
{
    wire_write(s->wire, parts, count);
}

size_t stream_queued(const struct stream *s)
{
    return wire_queued(s->wire);
}

void stream_read(struct stream *s, bool on)
{
    wire_read(s->wire, on);
}

void stream_shutdown(struct stream *s)
{
    wire_shutdown(s->wire);
}

/* ---- the pool ---- */

void stream_keep(struct stream *s, int64_t idle_ms)
{
    struct gate *g = s->gate;

    if (!g || s->eof || s->in_order || s->is_reset || g->idle_count >= LIMIT_POOL_STREAMS ||
        idle_ms <= 0 || wire_queued(s->wire) > 0) {
        stream_close(s);
        return;
    }
    s->state = STREAM_IDLE;
    s->events = NULL;
    s->idle_since_ms = loop_now_ms();
    s->idle_max_ms = idle_ms;
    s->idle_next = g->idle.idle_next;
    s->idle_prev = &g->idle;
    g->idle.idle_next->idle_prev = s;
    g->idle.idle_next = s;
    g->idle_count++;
    wire_read(s->wire, true);
    loop_deadline_set(&s->deadline, idle_ms, stream_late, s);
}

static struct gate *gate_of(const struct ulid *id)
{
    struct door *door = door_find(id);

    return door ? door_data(door) : NULL;
}

struct stream *gate_reuse(const struct ulid *id, uint64_t generation, uint16_t port,
                          int64_t idle_max_ms, const struct stream_events *events, void *ctx)
{
    struct gate *g = gate_of(id);
    int64_t now_ms = loop_now_ms();

    if (!g) {
        return NULL;
    }
    for (struct stream *s = g->idle.idle_next; s != &g->idle; s = s->idle_next) {
        if (s->port != port || s->generation != generation ||
            now_ms - s->idle_since_ms > idle_max_ms || now_ms - s->idle_since_ms > s->idle_max_ms) {
            continue;
        }
        idle_unlink(s);
        loop_deadline_clear(&s->deadline);
        s->state = STREAM_BUSY;
        s->events = events;
        s->ctx = ctx;
        return s;
    }
    return NULL;
}

void gate_forget_idle(const struct ulid *id, uint64_t generation)
{
    struct gate *g = gate_of(id);

    if (!g) {
        return;
    }
    for (struct stream *s = g->idle.idle_next, *next; s != &g->idle; s = next) {
        next = s->idle_next;
        if (s->generation != generation) {
            stream_close(s);
        }
    }
}

/* ---- the standing connection ---- */

bool gate_is_standing(const struct ulid *id)
{
    const struct gate *g = gate_of(id);

    return g && g->standing;
}

struct stream *gate_open(const struct ulid *id, uint64_t generation, uint16_t port,
                         const struct stream_events *events, void *ctx)
{
    struct gate *g = gate_of(id);

    BUF_AUTO(out, 256);

    if (!g || !g->standing || g->stream_count >= LIMIT_DOOR_STREAMS ||
        wire_queued(g->standing) > LIMIT_DOOR_OUT_BYTES) {
        return NULL;
    }
    struct stream *s = mem_alloc(sizeof(*s));

    s->gate = g;
    s->n = g->next_n++;
    s->generation = generation;
    s->port = port;
    s->events = events;
    s->ctx = ctx;
    s->next = g->buckets[s->n % GATE_BUCKETS];
    g->buckets[s->n % GATE_BUCKETS] = s;
    g->stream_count++;
    loop_deadline_set(&s->deadline, LIMIT_DOOR_OPEN_MS, stream_late, s);

    struct record_writer w = record_begin(&out, "open");

    record_addn(&w, "n", (int64_t)s->n);
    record_addn(&w, "port", port);
    (void)record_end(&w);
    struct str bytes = buf_str(&out);

    wire_write(g->standing, &bytes, 1);
    return s;
}

/* Streams that are opening will not come any more; open ones live on by themselves. */
static void standing_lost(struct gate *g, const char *why)
{
    log_debug("relay of a sandbox went away", "sandbox", door_id(g->door)->text, "why", why);
    wire_close(g->standing);
    g->standing = NULL;
    buf_reset(&g->in);
    for (unsigned i = 0; i < GATE_BUCKETS; i++) {
        for (struct stream *s = g->buckets[i], *next; s; s = next) {
            next = s->next;
            if (s->state == STREAM_OPENING) {
                /* Told at the end of this turn: the owner may open another one, in this very
                 * bucket. */
                loop_deadline_clear(&s->deadline);
                s->is_reset = true;
            }
        }
    }
}

static void opening_fail_all(struct gate *g)
{
    struct stream *failed = NULL;

    for (unsigned i = 0; i < GATE_BUCKETS; i++) {
        for (struct stream *s = g->buckets[i]; s; s = s->next) {
            if (s->state == STREAM_OPENING && s->is_reset) {
                s->idle_next = failed;
                failed = s;
            }
        }
    }
    while (failed) {
        struct stream *s = failed;

        failed = s->idle_next;
        s->idle_next = NULL;
        if (s->state == STREAM_OPENING) {
            stream_failed(s, STREAM_LOST);
        }
    }
}

static void standing_verdict(struct gate *g, const struct record *r)
{
    uint64_t n;
    struct stream *s;

    if (!record_get_u64(r, "n", INT64_MAX, &n) || !(s = stream_find(g, n))) {
        return; /* we closed it first */
    }
    if (record_is(r, "end")) {
        s->in_order = true;
    } else {
        s->is_reset = true;
    }
    if (s->state == STREAM_IDLE) {
        stream_close(s);
    } else if (s->eof) {
        stream_verdict(s);
    } else if (s->state == STREAM_BUSY && s->is_reset && s->wire) {
        loop_deadline_set(&s->deadline, LIMIT_UPSTREAM_END_MS, stream_late, s);
    }
}

static bool standing_frame(struct gate *g, struct str frame)
{
    struct record r;
    struct err e;

    if (record_parse(frame, &r, &e) != 0) {
        standing_lost(g, e.msg);
        return false;
    }
    if (!record_is(&r, "end") && !record_is(&r, "reset")) {
        standing_lost(g, "unknown record");
        return false;
    }
    standing_verdict(g, &r);
    return g->standing != NULL;
}

static void standing_data(void *ctx, struct str bytes)
{
    struct gate *g = ctx;
    struct str frame;
    struct err e;
    int whole;

    buf_add_str(&g->in, bytes);
    while ((whole = record_next(&g->in, &frame, &e)) == 1) {
        if (!standing_frame(g, frame)) {
            opening_fail_all(g);
            return;
        }
        record_skip(&g->in, frame);
    }
    if (whole < 0 || !buf_ok(&g->in) || (g->in.len > LIMIT_DOOR_RECORD_BYTES && whole == 0)) {
        standing_lost(g, "not a record");
        opening_fail_all(g);
    }
}

static void standing_ended(void *ctx, int status)
{
    (void)status;
    standing_lost(ctx, "closed");
    opening_fail_all(ctx);
}

static const struct wire_events standing_wire = {.data = standing_data, .ended = standing_ended};

static struct gate *gate_new(struct door *door)
{
    struct gate *g = mem_alloc(sizeof(*g));

    g->door = door;
    g->next_n = 1;
    g->idle.idle_next = g->idle.idle_prev = &g->idle;
    buf_init(&g->in, LIMIT_DOOR_RECORD_BYTES + LIMIT_READ_BYTES);
    door_set_data(door, g);
    return g;
}

static void standing_accept(struct gate *g, struct wire *take_wire, struct str rest)
{
    BUF_AUTO(out, 256);

    if (g->standing) {
        wire_close(take_wire);
        return;
    }
    g->standing = take_wire;
    door_hello(&out);
    struct str hello = buf_str(&out);

    wire_attach(g->standing, &standing_wire, g);
    wire_write(g->standing, &hello, 1);
    wire_read(g->standing, true);
    log_debug("relay of a sandbox is here", "sandbox", door_id(g->door)->text);
    if (rest.len > 0) {
        standing_data(g, rest);
    }
    if (g->standing) {
        gate_standing_fn(door_id(g->door));
    }
}

/* ---- what comes through the door ---- */

static enum stream_result result_of(const struct record *hello)
{
    struct str result = record_get(hello, "result");

    if (str_is(result, "ok")) {
        return STREAM_OK;
    }
    if (str_is(result, "refused")) {
        return STREAM_REFUSED;
    }
    return str_is(result, "timeout") ? STREAM_TIMEOUT : STREAM_UNREACHABLE;
}

static void stream_accept(struct gate *g, const struct record *hello, struct wire *take_wire,
                          struct str rest)
{
    enum stream_result result = result_of(hello);
    struct stream *s = NULL;
    uint64_t n;

    if (record_get_u64(hello, "n", INT64_MAX, &n)) {
        s = stream_find(g, n);
    }
    if (!s || s->state != STREAM_OPENING || result != STREAM_OK) {
        wire_close(take_wire);
        if (s && s->state == STREAM_OPENING) {
            stream_failed(s, result);
        }
        return;
    }
    loop_deadline_clear(&s->deadline);
    s->wire = take_wire;
    s->state = STREAM_BUSY;
    wire_attach(s->wire, &stream_wire, s);
    wire_read(s->wire, true);
    s->events->opened(s->ctx, STREAM_OK);
    if (rest.len > 0 && s->state == STREAM_BUSY) {
        s->events->data(s->ctx, rest);
    }
}

static void gate_connected(struct door *door, const struct record *hello, struct wire *take_wire,
                           struct str rest)
{
    struct gate *g = door_data(door);
    struct str role = record_get(hello, "role");

    if (!g) {
        g = gate_new(door);
    }
    if (str_is(role, "standing")) {
        standing_accept(g, take_wire, rest);
    } else if (str_is(role, "stream")) {
        stream_accept(g, hello, take_wire, rest);
    } else {
        wire_close(take_wire);
    }
}

static void gate_gone(struct door *door)
{
    struct gate *g = door_data(door);

    if (!g) {
        return;
    }
    door_set_data(door, NULL);
    if (g->standing) {
        standing_lost(g, "the sandbox is gone");
        opening_fail_all(g);
    }
    while (g->idle.idle_next != &g->idle) {
        stream_close(g->idle.idle_next);
    }
    /* What still runs ends with the container; it has no gate any more. */
    for (unsigned i = 0; i < GATE_BUCKETS; i++) {
        while (g->buckets[i]) {
            stream_unlink(g->buckets[i]);
        }
    }
    buf_done(&g->in);
    free(g);
}

static const struct door_events gate_door = {.connected = gate_connected, .gone = gate_gone};

void gate_start(const char *data_dir, void (*standing)(const struct ulid *id))
{
    gate_standing_fn = standing;
    door_watch(data_dir, "in", &gate_door);
}

/*
 * Port watch. It must never cost a sleeping app measurable CPU. One thread: PID 1's.
 */
#include "supervisor/portwatch.h"

#include "lib/record.h"

#define PORTWATCH_HURRY_MS      2
#define PORTWATCH_HURRY_DEAR_MS 25 /* where a look is dear, see sockets.h */
#define PORTWATCH_HURRY_LONG_MS 60000
#define PORTWATCH_SLOW_MS       100 /* something has been starting for longer than that */
#define PORTWATCH_IDLE_MS       500

void portwatch_init(struct portwatch *pw, void (*changed)(void *ctx), void *ctx)
{
    *pw = (struct portwatch){.changed = changed, .ctx = ctx};
    sockets_init(&pw->sockets);
}

void portwatch_done(struct portwatch *pw)
{
    sockets_done(&pw->sockets);
}

static struct portwatch_port *port_find(struct portwatch_port *ports, size_t count, uint16_t port)
{
    for (size_t i = 0; i < count; i++) {
        if (ports[i].port == port) {
            return &ports[i];
        }
    }
    return NULL;
}

static void declare_one(struct portwatch *pw, const struct portwatch *before, uint16_t port)
{
    struct portwatch_port now = {.port = port, .dirty = true};

    if (port == 0 || pw->declared_count == PORTWATCH_DECLARED_MAX ||
        port_find(pw->declared, pw->declared_count, port)) {
        return;
    }
    for (size_t i = 0; i < before->declared_count; i++) {
        if (before->declared[i].port == port) {
            now = before->declared[i];
        }
    }
    pw->declared[pw->declared_count++] = now;
}

void portwatch_declare(struct portwatch *pw, const uint16_t *ports, size_t count, uint16_t web_port)
{
    struct portwatch before = *pw;

    pw->declared_count = 0;
    declare_one(pw, &before, web_port);
    for (size_t i = 0; i < count; i++) {
        declare_one(pw, &before, ports[i]);
    }
    pw->other_count = 0;
    pw->next_ms = 0;
}

bool portwatch_is_open(const struct portwatch *pw, uint16_t port)
{
    for (size_t i = 0; i < pw->declared_count; i++) {
        if (pw->declared[i].port == port) {
            return pw->declared[i].open;
        }
    }
    return false;
}

uint16_t portwatch_other(const struct portwatch *pw)
{
    return pw->other_count > 0 ? pw->others[pw->other_count - 1].port : 0;
}

void portwatch_hurry(struct portwatch *pw, bool hurry, int64_t now_ms)
{
    if (hurry && !pw->hurry) {
        pw->hurry_end_ms = now_ms + PORTWATCH_HURRY_LONG_MS;
        pw->next_ms = now_ms;
    }
    pw->hurry = hurry;
}

void portwatch_expire(struct portwatch *pw)
{
    pw->next_ms = 0;
}

static int64_t portwatch_pause(const struct portwatch *pw, int64_t now_ms)
{
    if (!pw->hurry) {
        return PORTWATCH_IDLE_MS;
    }
    if (now_ms > pw->hurry_end_ms) {
        return PORTWATCH_SLOW_MS;
    }
    return sockets_is_cheap(&pw->sockets) ? PORTWATCH_HURRY_MS : PORTWATCH_HURRY_DEAR_MS;
}

static bool list_has(const struct sockets_list *list, uint16_t port)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].port == port && sockets_is_app(&list->items[i])) {
            return true;
        }
    }
    return false;
}

static bool apply_declared(struct portwatch *pw, const struct sockets_list *list)
{
    bool changed = false;

    for (size_t i = 0; i < pw->declared_count; i++) {
        struct portwatch_port *p = &pw->declared[i];
        bool open = list_has(list, p->port);

        if (open != p->open) {
            p->open = open;
            p->dirty = true;
            changed = true;
        }
    }
    return changed;
}

static bool apply_other(struct portwatch *pw, const struct sockets_listener *listener)
{
    if (listener->port == PORTWATCH_RELAY_PORT || !sockets_is_app(listener) ||
        pw->other_count == PORTWATCH_OTHERS_MAX ||
        port_find(pw->declared, pw->declared_count, listener->port) ||
        port_find(pw->others, pw->other_count, listener->port)) {
        return false;
    }
    pw->others[pw->other_count++] =
        (struct portwatch_port){.port = listener->port, .open = true, .dirty = true};
    return true;
}

/* Forgets others that listen no longer, so that they are told again when they come back. */
static void drop_others(struct portwatch *pw, const struct sockets_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < pw->other_count; i++) {
        if (list_has(list, pw->others[i].port)) {
            pw->others[kept++] = pw->others[i];
        }
    }
    pw->other_count = kept;
}

void portwatch_apply(struct portwatch *pw, const struct sockets_list *list)
{
    bool changed = apply_declared(pw, list);

    drop_others(pw, list);
    for (size_t i = 0; i < list->count; i++) {
        changed |= apply_other(pw, &list->items[i]);
    }
    if (changed) {
        pw->changed(pw->ctx);
    }
}

int64_t portwatch_tick(struct portwatch *pw, int64_t now_ms)
{
    static struct sockets_list list;

    if (now_ms >= pw->next_ms) {
        /* First, so that a change which makes somebody hurry may bring it forward. */
        pw->next_ms = now_ms + portwatch_pause(pw, now_ms);
        if (sockets_read(&pw->sockets, &list)) {
            portwatch_apply(pw, &list);
        }
    }
    return pw->next_ms;
}

void portwatch_tell_all(struct portwatch *pw)
{
    for (size_t i = 0; i < pw->declared_count; i++) {
        pw->declared[i].dirty = true;
    }
    for (size_t i = 0; i < pw->other_count; i++) {
        pw->others[i].dirty = true;
    }
}

static bool emit_declared(const struct portwatch_port *p, struct buf *out)
{
    struct record_writer w = record_begin(out, "port");

    record_addn(&w, "port", p->port);
    record_addb(&w, "open", p->open);
    return record_end(&w);
}

static bool emit_other(const struct portwatch_port *p, struct buf *out)
{
    struct record_writer w = record_begin(out, "other_port");

    record_addn(&w, "port", p->port);
    return record_end(&w);
}

static void emit_list(struct portwatch_port *ports, size_t count, struct buf *out, size_t until,
                      bool (*emit)(const struct portwatch_port *p, struct buf *out))
{
    for (size_t i = 0; i < count; i++) {
        if (ports[i].dirty && out->len < until && emit(&ports[i], out)) {
            ports[i].dirty = false;
        }
    }
}

void portwatch_emit(struct portwatch *pw, struct buf *out, size_t until)
{
    emit_list(pw->declared, pw->declared_count, out, until, emit_declared);
    emit_list(pw->others, pw->other_count, out, until, emit_other);
}

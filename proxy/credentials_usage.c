/*
 * The queue of usage records. Must never grow without bound: the oldest is dropped, and the log
 * says so. Main thread.
 */
#include "proxy/credentials_usage.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/limits.h"

struct usage_record {
    struct usage_record *next;
    uint64_t n;
    struct buf frame;
};

static struct {
    struct broker *broker;
    struct usage_record *first, *last;
    unsigned count;
} usages;

void usage_init(struct broker *broker)
{
    usages.broker = broker;
}

static void drop_first(void)
{
    struct usage_record *u = usages.first;

    usages.first = u->next;
    if (!usages.first) {
        usages.last = NULL;
    }
    usages.count--;
    buf_done(&u->frame);
    free(u);
}

/* Everything below is noted: sandboxd need not remember it any longer. */
static uint64_t settled_below(const struct usage *u)
{
    uint64_t lowest = u->n < u->running ? u->n : u->running;

    for (const struct usage_record *rec = usages.first; rec; rec = rec->next) {
        lowest = rec->n < lowest ? rec->n : lowest;
    }
    return lowest;
}

static void add_figures(struct record_writer *w, const struct usage *u)
{
    if (!u->has_spend) {
        return;
    }
    if (u->spend.has_input) {
        record_addn(w, "input", (int64_t)u->spend.input);
    }
    if (u->spend.has_output) {
        record_addn(w, "output", (int64_t)u->spend.output);
    }
    record_addn(w, "cached_read", (int64_t)u->spend.cached_read);
    record_addn(w, "cached_write", (int64_t)u->spend.cached_write);
    if (u->spend.has_cost) {
        record_addn(w, "cost_microusd", (int64_t)u->spend.cost_microusd);
    }
    record_addb(w, "estimated", u->is_estimated);
}

void usage_tell(const struct usage *u)
{
    struct usage_record *rec = mem_alloc(sizeof(*rec));

    if (usages.count >= LIMIT_USAGE_QUEUE) {
        log_warn("usage of a task is lost: sandboxd has been away for too long");
        drop_first();
    }
    rec->n = u->n;
    buf_init(&rec->frame, 4096);

    struct record_writer w = record_begin(&rec->frame, "usage");

    record_addn(&w, "n", (int64_t)rec->n);
    record_addn(&w, "settled_below", (int64_t)settled_below(u));
    record_adds(&w, "task_id", u->task_id);
    record_adds(&w, "provider", u->provider);
    record_adds(&w, "model", u->model);
    record_addn(&w, "status", u->status);
    if (u->message[0] != '\0') {
        record_adds(&w, "message", u->message);
    }
    add_figures(&w, u);
    (void)record_end(&w);
    *(usages.last ? &usages.last->next : &usages.first) = rec;
    usages.last = rec;
    usages.count++;
    (void)broker_send(usages.broker, &rec->frame);
}

void usage_broker_up(void)
{
    for (const struct usage_record *u = usages.first; u; u = u->next) {
        (void)broker_send(usages.broker, &u->frame);
    }
}

bool usage_take(const struct record *r)
{
    struct usage_record **at = &usages.first;
    struct usage_record *before = NULL;
    uint64_t n;

    if (!record_is(r, "noted")) {
        return false;
    }
    if (!record_get_u64(r, "n", INT64_MAX, &n)) {
        return true;
    }
    while (*at && (*at)->n != n) {
        before = *at;
        at = &before->next;
    }
    if (*at) {
        struct usage_record *u = *at;

        *at = u->next;
        if (usages.last == u) {
            usages.last = before;
        }
        usages.count--;
        buf_done(&u->frame);
        free(u);
    }
    return true;
}

/*
 * The answer to the question before a stop. A route that is asked about is not served: what comes
 * waits (preview_wake.c), and its wake is what withdraws an idle stop.
 *
 * Must never tell less than what is at work: sandboxd sends TERM on this word. Main thread.
 */
#include "proxy/preview_stopping.h"

static struct broker *stopping_broker;

void stopping_init(struct broker *broker)
{
    stopping_broker = broker;
}

/* Something of it may have reached the app, and its end is near. A switched connection ends with
 * the container, and so may the hot-reload channel of a page that somebody left open. */
static bool is_at_work(const struct visit *v)
{
    return (v->state == VISIT_OPENING || v->state == VISIT_RELAYING) &&
           v->passive != PASSIVE_HOT_RELOAD;
}

static unsigned count_at_work(const struct route *r)
{
    unsigned count = 0;

    for (const struct visit *v = r->wake.visits; v; v = v->next) {
        count += is_at_work(v) ? 1 : 0;
    }
    return count;
}

static void answer(struct route *r)
{
    BUF_AUTO(out, 256);
    unsigned busy = count_at_work(r);

    struct record_writer w = record_begin(&out, "stopping");

    record_addn(&w, "n", (int64_t)r->ask);
    record_adds(&w, "id", r->entry.id.text);
    record_addn(&w, "open", r->activity.open);
    record_addn(&w, "busy", busy);
    if (r->activity.last_byte_ms > 0) {
        record_addn(&w, "age_ms", loop_now_ms() - r->activity.last_byte_ms);
    }
    (void)record_end(&w);
    r->is_busy_told = broker_send(stopping_broker, &out) && busy > 0;
    r->answered = r->ask;
}

void stopping_route_changed(struct route *r)
{
    if (r->ask != 0 && r->answered != r->ask) {
        answer(r);
    }
}

void stopping_visit_left(struct route *r)
{
    if (r->ask != 0 && r->is_busy_told && count_at_work(r) == 0) {
        answer(r);
    }
}

void stopping_broker_down(void)
{
    routes_forget_asks();
}

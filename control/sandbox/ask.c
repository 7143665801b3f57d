/*
 * The question before a stop. The route of a sandbox that is to stop says `stopping` with a number;
 * every preview proxy then holds what comes next and answers what is still at work in the app. Only
 * after all answered, or their time is up, the container gets its TERM: so a request is never
 * answered by a container that is going away, and an idle stop cuts none.
 *
 * Must never wait: the job that asked does (stop.c). The broker's thread; under the service's lock.
 */
#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/thread.h"

/* A proxy that lost its connection dials again within half a second and tells what is open. */
#define ASK_PROXY_BACK_MS 5000
/* Nobody can be connected through a proxy that is away for so long. */
#define ASK_PROXY_AWAY_MS 60000

static unsigned ask_bit(size_t proxy)
{
    return 1U << proxy;
}

bool ask_is_known(const struct sandbox_service *s, int64_t now_ms)
{
    return now_ms - s->proxy_left_ms >= (s->proxies ? ASK_PROXY_BACK_MS : ASK_PROXY_AWAY_MS);
}

void ask_begin(struct sandbox_service *s, struct sandbox *b)
{
    b->ask = (struct ask){.n = ++s->next_ask, .silent = s->proxies};
    table_changed(s, b);
}

void ask_end(struct sandbox_service *s, struct sandbox *b)
{
    b->ask = (struct ask){0};
    table_changed(s, b);
}

static void ask_set_open(struct sandbox *b, size_t proxy, int64_t open)
{
    b->open_connections += open - b->idle.open_of[proxy];
    b->idle.open_of[proxy] = open;
}

static void ask_used(struct sandbox *b, int64_t age_ms)
{
    int64_t at_ms = clock_mono_ms() - age_ms;
    b->last_active_ms = at_ms > b->last_active_ms ? at_ms : b->last_active_ms;
}

void ask_forget_open(struct sandbox *b)
{
    for (size_t i = 0; i < IDLE_PROXIES_MAX; i++) {
        b->idle.open_of[i] = 0;
    }
    b->open_connections = 0;
}

/* ---- what the proxies say ---- */

void ask_proxy_came(struct sandbox_service *s, size_t proxy)
{
    LOCK_GUARD(&s->lock);
    s->proxies |= ask_bit(proxy);
}

void ask_proxy_left(struct sandbox_service *s, size_t proxy)
{
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    if (!(s->proxies & ask_bit(proxy))) {
        return;
    }
    s->proxies &= ~ask_bit(proxy);
    s->proxy_left_ms = clock_mono_ms();
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        ask_set_open(b, proxy, 0);
        b->ask.silent &= ~ask_bit(proxy);
        b->ask.busy &= ~ask_bit(proxy);
    }
    (void)pthread_cond_broadcast(&s->work);
}

void ask_take_activity(struct sandbox_service *s, size_t proxy, const struct ulid *id, int64_t open,
                       int64_t age_ms)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        ask_set_open(b, proxy, open);
        ask_used(b, age_ms);
    }
}

void ask_take_answer(struct sandbox_service *s, size_t proxy, const struct ulid *id,
                     const struct ask_answer *answer)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (!b || b->ask.n == 0 || b->ask.n != answer->n) {
        return;
    }
    ask_set_open(b, proxy, answer->open);
    if (answer->age_ms >= 0) {
        ask_used(b, answer->age_ms);
    }
    b->ask.silent &= ~ask_bit(proxy);
    b->ask.busy = answer->busy > 0 ? b->ask.busy | ask_bit(proxy) : b->ask.busy & ~ask_bit(proxy);
    (void)pthread_cond_broadcast(&s->work);
}

/*
 * The event loop, the list of what is to be freed, and a timer wheel.
 *
 * Must never call into a role by itself but through the functions it was given. Main thread.
 *
 * The wheel has slots of 50 ms; a deadline further away than one turn of the wheel is looked at
 * once per turn and stays. It ticks only while something is set.
 */
#include "proxy/loop.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"

#define SLOT_MS 50
#define SLOTS   512

static struct {
    uv_loop_t *uv;
    uv_check_t check;
    uv_idle_t spin; /* active only while something waits to be freed, so that the loop does not
                       sleep over it */
    uv_timer_t tick;
    struct loop_later *later, *later_last;
    struct loop_deadline slots[SLOTS]; /* heads of rings */
    unsigned deadlines;
    int64_t next_slot; /* the first one not yet looked at, counted from the loop's start of time */
} state;

static void later_run(uv_check_t *check)
{
    (void)check;
    while (state.later) {
        struct loop_later *first = state.later;

        state.later = first->next;
        if (!state.later) {
            state.later_last = NULL;
        }
        /* The slot dies with what is freed. */
        first->next = NULL;
        first->fn(first->p);
    }
    (void)uv_idle_stop(&state.spin);
}

static void spin_once(uv_idle_t *idle)
{
    (void)idle;
}

void loop_init(void)
{
    state.uv = uv_default_loop();
    if (!state.uv) {
        log_die("cannot make an event loop: no descriptors left");
    }
    (void)uv_check_init(state.uv, &state.check);
    (void)uv_check_start(&state.check, later_run);
    (void)uv_idle_init(state.uv, &state.spin);
    (void)uv_timer_init(state.uv, &state.tick);
    for (unsigned i = 0; i < SLOTS; i++) {
        state.slots[i].prev = state.slots[i].next = &state.slots[i];
    }
}

uv_loop_t *loop_get(void)
{
    return state.uv;
}

void loop_run(void)
{
    (void)uv_run(state.uv, UV_RUN_DEFAULT);
}

void loop_stop(void)
{
    uv_stop(state.uv);
}

int64_t loop_now_ms(void)
{
    return (int64_t)uv_now(state.uv);
}

void loop_later(struct loop_later *slot, void (*fn)(void *p), void *p)
{
    *slot = (struct loop_later){.fn = fn, .p = p};
    if (state.later_last) {
        state.later_last->next = slot;
    } else {
        state.later = slot;
        (void)uv_idle_start(&state.spin, spin_once);
    }
    state.later_last = slot;
}

/* ---- deadlines ---- */

static void deadline_unlink(struct loop_deadline *d)
{
    d->prev->next = d->next;
    d->next->prev = d->prev;
    d->prev = d->next = NULL;
    state.deadlines--;
}

static void slot_fire(struct loop_deadline *head, int64_t now_ms)
{
    struct loop_deadline due = {.prev = &due, .next = &due};

    /* First aside, then called: a callback may set or clear any other deadline. */
    for (struct loop_deadline *d = head->next, *next; d != head; d = next) {
        next = d->next;
        if (d->at_ms <= now_ms) {
            d->prev->next = d->next;
            d->next->prev = d->prev;
            d->prev = due.prev;
            d->next = &due;
            due.prev->next = d;
            due.prev = d;
        }
    }
    while (due.next != &due) {
        struct loop_deadline *d = due.next;

        deadline_unlink(d);
        d->fn(d->ctx);
    }
}

static void tick_run(uv_timer_t *timer)
{
    int64_t now_ms = loop_now_ms();
    int64_t last = now_ms / SLOT_MS;

    if (last - state.next_slot >= SLOTS) {
        state.next_slot = last - SLOTS + 1;
    }
    for (; state.next_slot <= last; state.next_slot++) {
        slot_fire(&state.slots[state.next_slot % SLOTS], now_ms);
    }
    /* A slot is looked at for the whole of its 50 ms. */
    state.next_slot = last;
    if (state.deadlines == 0) {
        (void)uv_timer_stop(timer);
    }
}

void loop_deadline_set(struct loop_deadline *d, int64_t delay_ms, void (*fn)(void *), void *ctx)
{
    struct loop_deadline *head;

    loop_deadline_clear(d);
    d->at_ms = loop_now_ms() + (delay_ms > 0 ? delay_ms : 0);
    d->fn = fn;
    d->ctx = ctx;
    /* The slot after, so that the whole of the delay has passed when it is looked at. */
    head = &state.slots[(d->at_ms / SLOT_MS + 1) % SLOTS];
    d->prev = head->prev;
    d->next = head;
    head->prev->next = d;
    head->prev = d;
    if (state.deadlines++ == 0) {
        state.next_slot = loop_now_ms() / SLOT_MS;
        (void)uv_timer_start(&state.tick, tick_run, SLOT_MS, SLOT_MS);
    }
}

void loop_deadline_clear(struct loop_deadline *d)
{
    if (loop_deadline_is_set(d)) {
        deadline_unlink(d);
    }
}

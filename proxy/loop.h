/*
 * The one event loop of the process, freeing after the current callbacks, and coarse deadlines.
 *
 * Everything in proxy/ runs on the main thread; the loop is the only place that blocks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

/* Prepares the loop; once, at start. Aborts when the system has no descriptors left. */
void loop_init(void);
/* Borrowed, lives as long as the process. */
uv_loop_t *loop_get(void);
/* Runs until loop_stop. */
void loop_run(void);
void loop_stop(void);
/* Milliseconds of the loop's clock, taken once per turn. */
int64_t loop_now_ms(void);

/* Calls fn(p) once nothing of this turn refers to p any more. Takes p. */
struct loop_later {
    struct loop_later *next;
    void (*fn)(void *p);
    void *p;
};

/* `slot` lives inside the object that is to be freed or called; it must not be queued already. */
void loop_later(struct loop_later *slot, void (*fn)(void *p), void *p);

/* A deadline inside its owner, good to about 50 ms. Zeroed is unset. Never blocks, costs no system
 * call. */
struct loop_deadline {
    struct loop_deadline *prev, *next;
    int64_t at_ms;
    void (*fn)(void *ctx);
    void *ctx;
};

/* Sets or moves it: fn(ctx) runs once, not before delay_ms. */
void loop_deadline_set(struct loop_deadline *d, int64_t delay_ms, void (*fn)(void *), void *ctx);
void loop_deadline_clear(struct loop_deadline *d);

static inline bool loop_deadline_is_set(const struct loop_deadline *d)
{
    return d->prev != 0;
}

/*
 * Keeps always_on sandboxes up: starts them when the machine starts, one per core at a time, and
 * again when they ended, after pauses that grow. The reaper's thread.
 *
 * Must never start what a person stopped, nor storm: one that ends again and again by its own fault
 * is given up, with the reason.
 */
#include <stdio.h>
#include <unistd.h>

#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/thread.h"

#define KEEPER_TRIES_MAX    8
#define KEEPER_PAUSE_MS     1000
#define KEEPER_PAUSE_MAX_MS 300000
/* Up for so long, it did not end at once: the count begins anew. */
#define KEEPER_STABLE_MS 600000
/* Its port may never open; the next one is not kept waiting for it. */
#define KEEPER_STARTING_MS 20000
#define KEEPER_BATCH_MAX   64

static int64_t keeper_pause_ms(int tries)
{
    int64_t pause_ms = KEEPER_PAUSE_MS;
    for (int i = 1; i < tries && pause_ms < KEEPER_PAUSE_MAX_MS; i++) {
        pause_ms *= 2;
    }
    return pause_ms < KEEPER_PAUSE_MAX_MS ? pause_ms : KEEPER_PAUSE_MAX_MS;
}

/* What the app does to itself. A machine without memory, engine or image gets better by itself. */
static bool keeper_is_own_fault(const struct err *outcome)
{
    static const char *const tags[] = {"ended", "killed", "removed", "out_of_memory",
                                       "start_failed"};
    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        if (strcmp(outcome->tag, tags[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool keeper_is_down(const struct sandbox *b)
{
    return b->idle.always_on && !b->gone && !b->working && b->want == WANT_NOTHING &&
           (b->status == SANDBOX_STOPPED || b->status == SANDBOX_ERROR);
}

static enum keeper_step keeper_look_down(struct sandbox *b, int64_t now_ms)
{
    struct keeper *k = &b->keeper;
    if (b->idle.stays_stopped) {
        *k = (struct keeper){0};
        return KEEPER_WAIT;
    }
    if (k->up_since_ms > 0 || k->asked) {
        *k = (struct keeper){.tries = k->tries + 1,
                             .next_ms = now_ms + keeper_pause_ms(k->tries + 1)};
        if (k->tries >= KEEPER_TRIES_MAX && keeper_is_own_fault(&b->outcome)) {
            k->gave_up = true;
            return KEEPER_GIVE_UP;
        }
    }
    return !k->gave_up && now_ms >= k->next_ms ? KEEPER_START : KEEPER_WAIT;
}

enum keeper_step keeper_look(struct sandbox *b, int64_t now_ms)
{
    struct keeper *k = &b->keeper;
    if (keeper_is_down(b)) {
        return keeper_look_down(b, now_ms);
    }
    if (b->idle.always_on && !b->gone && b->status == SANDBOX_RUNNING) {
        k->up_since_ms = k->up_since_ms > 0 ? k->up_since_ms : now_ms;
        k->gave_up = false;
        k->tries = now_ms - k->up_since_ms >= KEEPER_STABLE_MS ? 0 : k->tries;
    }
    return KEEPER_WAIT;
}

/* A start of ours that still takes its core: until the app listens. */
static bool keeper_is_starting(const struct sandbox *b, int64_t now_ms)
{
    if (!b->keeper.asked || b->gone || !b->idle.always_on) {
        return false;
    }
    if (b->want == WANT_RUN || b->working || b->keeper.up_since_ms == 0) {
        return true;
    }
    return b->open_count == 0 && now_ms - b->keeper.up_since_ms < KEEPER_STARTING_MS;
}

static int64_t keeper_slots(struct sandbox_service *s, int64_t now_ms)
{
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t bucket = 0;
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        cores -= keeper_is_starting(b, now_ms) ? 1 : 0;
    }
    return cores;
}

/* ---- giving up ---- */

struct keeper_end {
    struct ulid id;
    struct ulid app_id;
    int tries;
    struct err last;
};

static void keeper_give_up(struct sandbox_service *s, const struct keeper_end *end)
{
    char message[1024];
    struct err e;
    (void)snprintf(message, sizeof(message),
                   "this always_on app ended %d times in a row soon after its start and is not "
                   "started again by itself; the last time: %.700s. Fix it, then start it",
                   end->tries, end->last.msg);
    if (sandboxes_set_status(s->db, &end->id, SANDBOX_STOPPED, "always_on_gave_up", message, &e) !=
        0) {
        log_error("the end of an always_on app was not stored", "sandbox_id", end->id.text, "error",
                  e.msg);
    }
    BUF_AUTO(payload, 4096);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "code", end->last.tag);
    json_text(&w, "message", message);
    json_int(&w, "ends", end->tries);
    json_object_end(&w);
    sandbox_event(s, "sandbox.always_on_gave_up", "error", "", &end->app_id, &end->id, payload.ptr);
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, &end->id);
        if (b) {
            b->working = false;
            (void)pthread_cond_broadcast(&s->work);
        }
    }
    table_announce(s, &end->id);
}

/* ---- a turn ---- */

struct keeper_turn {
    struct ulid starts[KEEPER_BATCH_MAX];
    size_t start_count;
    struct keeper_end ends[KEEPER_BATCH_MAX];
    size_t end_count;
};

static void keeper_collect(struct sandbox_service *s, struct keeper_turn *turn)
{
    int64_t now_ms = clock_mono_ms();
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    int64_t slots = keeper_slots(s, now_ms);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (turn->start_count == KEEPER_BATCH_MAX || turn->end_count == KEEPER_BATCH_MAX) {
            return;
        }
        enum keeper_step step = keeper_look(b, now_ms);
        if (step == KEEPER_GIVE_UP) {
            b->working = true; /* its row is ours until it says why */
            turn->ends[turn->end_count++] = (struct keeper_end){
                .id = b->id, .app_id = b->app_id, .tries = b->keeper.tries, .last = b->outcome};
        } else if (step == KEEPER_START && slots > 0) {
            slots--;
            b->keeper.asked = true;
            turn->starts[turn->start_count++] = b->id;
        }
    }
}

void always_on_tick(struct sandbox_service *s)
{
    struct keeper_turn *turn AUTOFREE = mem_alloc(sizeof(*turn));
    struct err e;
    int64_t ticket = 0;
    keeper_collect(s, turn);
    for (size_t i = 0; i < turn->start_count; i++) {
        /* One that was deleted meanwhile needs none. */
        if (sandbox_start(s, &turn->starts[i], START_ALWAYS_ON, &ticket, &e) != 0) {
            log_debug("an always_on sandbox is not started", "sandbox_id", turn->starts[i].text,
                      "why", e.msg);
        }
    }
    for (size_t i = 0; i < turn->end_count; i++) {
        keeper_give_up(s, &turn->ends[i]);
    }
}

void always_on_hurry(struct sandbox_service *s)
{
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        b->keeper.next_ms = 0;
    }
}

/*
 * The reaper: puts idle sandboxes to sleep, keeps their last activity on disk, measures workspaces.
 * One thread.
 */
#include <malloc.h>
#include <stdio.h>

#include "control/sandbox/table.h"
#include "control/workspace/tree.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define REAPER_TICK_MS           1000
#define REAPER_REST_MS           10000 /* while nobody runs and nobody should */
#define REAPER_QUIET_MS          60000 /* from one look at all that sleep to the next */
#define REAPER_TRIM_MS           30000
#define REAPER_NOTE_MS           60000
#define REAPER_MEASURE_MS        60000
#define REAPER_MEASURE_BUDGET_MS 2000

/* One idle sandbox at a time: the stop is a job, the next tick finds the next one. */
static bool reaper_find_idle(struct sandbox_service *s, struct ulid *ret)
{
    int64_t now = clock_mono_ms();
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!b->gone && !b->working && b->want == WANT_NOTHING && idle_is_due(s, b, now)) {
            *ret = b->id;
            return true;
        }
    }
    return false;
}

static void reaper_stop_idle(struct sandbox_service *s)
{
    struct ulid id;
    struct err e;
    int64_t ticket = 0;
    while (reaper_find_idle(s, &id)) {
        if (sandbox_stop(s, &id, STOP_IDLE, &ticket, &e) != 0) {
            log_warn("an idle sandbox was not stopped", "sandbox_id", id.text, "error", e.msg);
            return;
        }
    }
}

/* A sandbox whose activity is newer than its row by a minute. */
static bool reaper_find_unnoted(struct sandbox_service *s, struct ulid *ret,
                                int64_t *ret_active_unix)
{
    int64_t now = clock_mono_ms();
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!b->gone && b->status == SANDBOX_RUNNING &&
            b->last_active_ms - b->noted_active_ms > REAPER_NOTE_MS) {
            b->noted_active_ms = b->last_active_ms;
            *ret = b->id;
            *ret_active_unix = clock_unix_ms() - (now - b->last_active_ms);
            return true;
        }
    }
    return false;
}

static void reaper_note(struct sandbox_service *s)
{
    struct ulid id;
    struct err e;
    int64_t active = 0;
    while (reaper_find_unnoted(s, &id, &active)) {
        if (sandboxes_note(s->db, &id, -1, -1, active, &e) != 0) {
            log_warn("activity was not stored", "sandbox_id", id.text, "error", e.msg);
            return;
        }
    }
}

/* The one whose measure is oldest, when that is due. Stopped ones were measured after their stop.
 */
static bool reaper_find_unmeasured(struct sandbox_service *s, struct ulid *ret)
{
    struct sandbox *oldest = NULL;
    int64_t now = clock_mono_ms();
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        bool due = b->measured_ms == 0 || now - b->measured_ms > REAPER_MEASURE_MS;
        bool worth =
            b->status == SANDBOX_RUNNING || (b->measured_ms == 0 && b->status == SANDBOX_STOPPED);
        if (!b->gone && !b->working && due && worth &&
            (!oldest || b->measured_ms < oldest->measured_ms)) {
            oldest = b;
        }
    }
    if (oldest) {
        oldest->measured_ms = now;
        *ret = oldest->id;
    }
    return oldest != NULL;
}

/* While the disk is low the figure from before stays what growth is counted from. */
static void reaper_keep_measure(struct sandbox_service *s, const struct ulid *id, int64_t bytes)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b && (!s->disk.is_low || b->disk_bytes < 0)) {
        b->disk_bytes = bytes;
        b->disk_ms = clock_mono_ms();
    }
}

static void reaper_measure(struct sandbox_service *s)
{
    char path[PATHS_MAX];
    struct ulid id;
    struct err e;
    int64_t bytes = 0;
    bool complete = false;
    if (!reaper_find_unmeasured(s, &id)) {
        return;
    }
    (void)paths_workspace(path, s->config->data_dir, &id);
    /* An incomplete figure is too small and says nothing: the last one stays. */
    if (tree_measure(path, REAPER_MEASURE_BUDGET_MS, &bytes, &complete, &e) != 0 || !complete) {
        return;
    }
    reaper_keep_measure(s, &id, bytes);
    if (sandboxes_set_disk(s->db, &id, bytes, &e) != 0) {
        log_warn("disk use was not stored", "sandbox_id", id.text, "error", e.msg);
    }
}

/* What the reaper remembers of its last look at the table. */
struct reaper_quiet {
    int64_t change;   /* number of the newest change then */
    int64_t until_ms; /* 0: there was something to watch */
};

static bool reaper_has_work(const struct sandbox *b)
{
    return !b->gone && (b->status != SANDBOX_STOPPED || b->want != WANT_NOTHING ||
                        b->idle.always_on || b->measured_ms == 0);
}

/* Nobody runs, nobody should, everything is measured: only a change can make work. */
static void reaper_note_quiet(struct sandbox_service *s, struct reaper_quiet *q)
{
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    q->change = s->next_change;
    q->until_ms = clock_mono_ms() + REAPER_QUIET_MS;
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (reaper_has_work(b)) {
            q->until_ms = 0;
            return;
        }
    }
}

/* Going through a thousand sandboxes that sleep costs more than all else that is done at rest. */
static bool reaper_may_skip(struct sandbox_service *s, const struct reaper_quiet *q)
{
    LOCK_GUARD(&s->lock);
    return !s->reconciled || (q->change == s->next_change && clock_until(q->until_ms) > 0);
}

/* Until the next look; while all is quiet until something changes. */
static void reaper_pause(struct sandbox_service *s, const struct reaper_quiet *q)
{
    LOCK_GUARD(&s->lock);
    int64_t end_ms = clock_mono_ms() + (q->until_ms > 0 ? REAPER_REST_MS : REAPER_TICK_MS);
    while (!atomic_load(&s->stopping) && (q->until_ms == 0 || q->change == s->next_change) &&
           thread_cond_wait_until(&s->changed, &s->lock, end_ms)) {
    }
}

void *reaper_run(void *service)
{
    struct sandbox_service *s = service;
    struct reaper_quiet quiet = {0};
    int64_t trim_ms = clock_mono_ms() + REAPER_TRIM_MS;
    while (!atomic_load(&s->stopping)) {
        if (!reaper_may_skip(s, &quiet)) {
            always_on_tick(s);
            reaper_stop_idle(s);
            reaper_note(s);
            reaper_measure(s);
            reaper_note_quiet(s, &quiet);
        }
        db_maintain(s->db);
        if (clock_mono_ms() >= trim_ms) {
            /* What start and bursts of requests left free goes back to the machine. */
            (void)malloc_trim(0);
            trim_ms = clock_mono_ms() + REAPER_TRIM_MS;
        }
        reaper_pause(s, &quiet);
    }
    return NULL;
}

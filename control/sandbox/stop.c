/*
 * A stop: asks the preview proxies, then TERM, then KILL, then the row. A `stop` thread of jobs.c.
 *
 * Must never send a TERM before the proxies hold what comes, or to somebody who was wanted again
 * while we asked.
 */
#include <stdio.h>

#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/thread.h"

#define STOP_GRACE_S 10
/* Of one that takes what runs out meanwhile. */
#define STOP_URGENT_GRACE_S 1
/* A proxy answers within a turn of its loop; one that does not is stuck or gone. */
#define STOP_ANSWER_MS 2000
/* What is at work in the app when a person stops it may be finished: as long as at a restart. */
#define STOP_FINISH_MS 3000
/* Where memory or disk run out. */
#define STOP_URGENT_MS 100
/* An idle stop that somebody's coming ended, and one that a proxy did not answer. */
#define STOP_IDLE_AGAIN_MS   2000
#define STOP_SILENT_AGAIN_MS 30000

static bool stop_is(const struct sandbox *job, const char *reason)
{
    return strcmp(job->reason, reason) == 0;
}

static bool stop_is_urgent(const struct sandbox *job)
{
    return stop_is(job, STOP_MEMORY) || stop_is(job, STOP_DISK);
}

/* ---- asking ---- */

/* Somebody wants it after all. Under the lock. */
static bool stop_is_withdrawn(const struct sandbox_service *s, const struct sandbox *job,
                              const struct sandbox *b)
{
    return stop_is(job, STOP_IDLE) &&
           (b->want != WANT_STOP || b->ask.busy != 0 || !idle_is_due(s, b, clock_mono_ms()));
}

static int64_t stop_wait_ms(const struct sandbox *job, const struct sandbox *b)
{
    if (stop_is_urgent(job)) {
        return STOP_URGENT_MS;
    }
    return b->ask.silent != 0 ? STOP_ANSWER_MS : STOP_FINISH_MS;
}

/* Waits for the answers and for what is at work. Under the lock, which it leaves while it waits. */
static void stop_wait(struct sandbox_service *s, const struct sandbox *job, const struct sandbox *b)
{
    int64_t began_ms = clock_mono_ms();
    while (!atomic_load(&s->stopping) && (b->ask.silent | b->ask.busy) != 0 &&
           !stop_is_withdrawn(s, job, b)) {
        int64_t until_ms = began_ms + stop_wait_ms(job, b);
        if (clock_mono_ms() >= until_ms) {
            return;
        }
        (void)thread_cond_wait_until(&s->work, &s->lock, until_ms);
    }
}

/* An idle one needs every word; a person's goes on when the time is up. Under the lock. */
static bool stop_may_go(const struct sandbox_service *s, const struct sandbox *job,
                        const struct sandbox *b)
{
    if (atomic_load(&s->stopping)) {
        return false;
    }
    return !stop_is(job, STOP_IDLE) || (b->ask.silent == 0 && !stop_is_withdrawn(s, job, b));
}

/* True: the status is stopping, nothing new reaches it. */
static bool stop_begin(struct sandbox_service *s, const struct sandbox *job)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, &job->id);
    if (!b) {
        return false;
    }
    if (b->status == SANDBOX_RUNNING) {
        if (stop_is_withdrawn(s, job, b)) {
            return false;
        }
        ask_begin(s, b);
        stop_wait(s, job, b);
        bool go = stop_may_go(s, job, b);
        b->idle.not_before_ms =
            clock_mono_ms() + (b->ask.silent ? STOP_SILENT_AGAIN_MS : STOP_IDLE_AGAIN_MS);
        ask_end(s, b);
        if (!go) {
            return false;
        }
    }
    b->status = SANDBOX_STOPPING;
    table_changed(s, b);
    return true;
}

/* ---- the person's word ---- */

static int stop_set_person(struct sandbox_service *s, const struct ulid *id, bool stays,
                           struct err *e)
{
    /* Against a change of the policy, which reads the row too. */
    LOCK_GUARD(&s->policy_lock);
    if (sandboxes_set_stays_stopped(s->db, id, stays, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->idle.stays_stopped = stays;
    }
    return 0;
}

int stop_forget_person(struct sandbox_service *s, const struct ulid *id, struct err *e)
{
    return stop_set_person(s, id, false, e);
}

/* ---- the stop ---- */

/* Whether it stopped all the same is for the next reconcile to say: it looks at running ones. */
static void stop_failed(struct sandbox_service *s, const struct sandbox *job)
{
    struct err e;
    if (sandboxes_set_status(s->db, &job->id, SANDBOX_RUNNING, "", "", &e) != 0) {
        log_error("a failed stop was not stored", "sandbox_id", job->id.text, "error", e.msg);
    }
    jobs_set(s, &job->id, SANDBOX_RUNNING);
}

static enum job_result stop_withdrawn(struct sandbox_service *s, const struct sandbox *job,
                                      struct err *e)
{
    if (atomic_load(&s->stopping)) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "sandboxd is being stopped; ask again in a moment");
        return JOB_FAILED;
    }
    log_debug("a stop was withdrawn: somebody uses the app", "sandbox_id", job->id.text);
    return JOB_WITHDRAWN;
}

static void stop_is_down(struct sandbox_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->is_down = true;
    }
}

/* One that fills the disk is ended before anything is written about it: the write may wait for the
 * room that it takes. */
static int stop_end(struct sandbox_service *s, const struct sandbox *job,
                    struct engine_container *ret_left, struct err *e)
{
    int grace_s = stop_is_urgent(job) ? STOP_URGENT_GRACE_S : STOP_GRACE_S;
    const struct err *why = job->stop_why;
    /* With the reason: whoever asks is told it, also after a crash of ours in between. */
    if (!stop_is(job, STOP_DISK) &&
        sandboxes_set_status(s->db, &job->id, SANDBOX_STOPPING, why ? why->tag : "",
                             why ? why->msg : "", e) != 0) {
        return -1;
    }
    if (engine_stop(s, &job->id, grace_s, ret_left, e) != 0) {
        return -1;
    }
    stop_is_down(s, &job->id);
    return 0;
}

enum job_result stop_run(struct sandbox_service *s, const struct sandbox *job, struct err *e)
{
    struct engine_container left;
    bool by_person = stop_is(job, STOP_PERSON);
    /* A person's word stands although nothing is left to stop. */
    if (job->status == SANDBOX_STOPPED || job->status == SANDBOX_ERROR) {
        return by_person && stop_set_person(s, &job->id, true, e) != 0 ? JOB_FAILED : JOB_DONE;
    }
    if (!stop_begin(s, job)) {
        return stop_withdrawn(s, job, e);
    }
    table_announce(s, &job->id);
    if ((by_person && stop_set_person(s, &job->id, true, e) != 0) ||
        stop_end(s, job, &left, e) != 0) {
        stop_failed(s, job);
        return JOB_FAILED;
    }
    s->hooks.close(s->hooks.ctx, &job->id);
    const struct err none = {0};
    const struct err *why = job->stop_why ? job->stop_why : &none;
    jobs_note_end(s, &job->id, why);
    if (sandboxes_set_status(s->db, &job->id, SANDBOX_STOPPED, why->tag, why->msg, e) != 0) {
        return JOB_FAILED;
    }
    jobs_set(s, &job->id, SANDBOX_STOPPED);
    char payload[96];
    (void)snprintf(payload, sizeof(payload), "{\"exit_code\":%lld}", (long long)left.exit_code);
    sandbox_event(s, "sandbox.stopped", "info", job->reason, &job->app_id, &job->id, payload);
    return JOB_DONE;
}

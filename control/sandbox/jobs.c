/*
 * Jobs: starts on one thread per core, stops and ends on two more. One sandbox, one change at a
 * time: `working` is its lock. The engine is called without the service's lock.
 */
#include <stdio.h>

#include "control/sandbox/dirs.h"
#include "control/sandbox/marks.h"
#include "control/sandbox/table.h"
#include "control/workspace/tree.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define JOBS_IMAGE_RETRY_MS  500
#define JOBS_DELETE_RETRY_MS 5000
/* Whoever gives work wakes these threads; this bounds what a word that was missed would cost. */
#define JOBS_IDLE_MS 60000
/* A port may never open; the next start is not kept waiting for it. */
#define JOBS_COMING_UP_MS   3000
#define JOBS_SLOT_LOOK_MS   100
#define JOBS_TELLING_RUN_MS 15000

static void jobs_phase(struct sandbox_service *s, const struct ulid *id, const char *phase,
                       const char *detail)
{
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b || (strcmp(b->phase, phase) == 0 && strcmp(b->detail, detail) == 0)) {
            return;
        }
        (void)snprintf(b->phase, sizeof(b->phase), "%s", phase);
        (void)snprintf(b->detail, sizeof(b->detail), "%s", detail);
        table_changed(s, b);
    }
    table_announce(s, id);
}

void jobs_set(struct sandbox_service *s, const struct ulid *id, enum sandbox_status status)
{
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        b->status = status;
        if (status == SANDBOX_STOPPED || status == SANDBOX_ERROR) {
            table_clear_reports(b);
            ask_forget_open(b);
            b->reserved_bytes = 0;
        }
        if (status == SANDBOX_RUNNING) {
            b->last_active_ms = clock_mono_ms();
        }
        table_changed(s, b);
    }
    table_announce(s, id);
}

/* ---- start ---- */

static enum job_result jobs_wait_image(struct sandbox_service *s, const struct sandbox *b,
                                       struct err *e)
{
    struct sandbox_image image;
    char detail[320];
    if (sandbox_image(s, b->image, true, &image, e) != 0) {
        (void)err_tag(e, "engine_unavailable");
        return JOB_FAILED;
    }
    if (str_is(str_of(image.state), "present")) {
        return JOB_DONE;
    }
    if (str_is(str_of(image.state), "failed")) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "the image %s failed to build: %.300s", b->image,
                      image.error);
        (void)err_tag(e, "image_building");
        return JOB_FAILED;
    }
    (void)snprintf(detail, sizeof(detail), "%lld %% %s", (long long)image.percent, image.step);
    jobs_phase(s, &b->id, "image", detail);
    return JOB_LATER;
}

static int jobs_prepare(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    const struct config *c = s->config;
    int made = b->creating ? dirs_make_workspace(c->data_dir, &b->id, b->uid, e)
                           : marks_check(c->data_dir, &b->id, b->uid, e);
    if (made != 0 || dirs_make_doors(c, &b->id, b->uid, e) != 0) {
        return -1;
    }
    return s->hooks.listen(s->hooks.ctx, &b->id, e);
}

static void jobs_begin_generation(struct sandbox_service *s, const struct ulid *id,
                                  int64_t generation)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->generation = generation;
        table_clear_reports(b);
        b->oom_kills = 0;
        b->kill_ms = 0;
        b->trouble = (struct err){0};
        (void)snprintf(b->phase, sizeof(b->phase), "starting");
        b->started_ms = clock_mono_ms();
        table_changed(s, b);
    }
}

static enum job_result jobs_admit(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    char detail[128];
    switch (admit_start(s, &b->id, detail, sizeof(detail), e)) {
    case ADMIT_YES: return JOB_DONE;
    case ADMIT_WAIT: jobs_phase(s, &b->id, "queued", detail); return JOB_QUEUED;
    case ADMIT_NO: break;
    }
    return JOB_FAILED;
}

static enum job_result jobs_start(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    int64_t generation = 0;
    if (b->status == SANDBOX_RUNNING) {
        return JOB_DONE; /* the stop that this start was to follow did not come to pass */
    }
    if (b->idle.stays_stopped && stop_forget_person(s, &b->id, e) != 0) {
        return JOB_FAILED;
    }
    enum job_result ready = jobs_wait_image(s, b, e);
    ready = ready == JOB_DONE ? jobs_admit(s, b, e) : ready;
    if (ready != JOB_DONE) {
        return ready;
    }
    enum sandbox_status status = b->creating ? SANDBOX_CREATING : SANDBOX_STARTING;
    if (disk_check_start(s, b, e) != 0 || jobs_prepare(s, b, e) != 0 ||
        sandboxes_next_generation(s->db, &b->id, status, &generation, e) != 0) {
        return JOB_FAILED;
    }
    jobs_set(s, &b->id, status);
    jobs_begin_generation(s, &b->id, generation);
    if (engine_create(s, b, e) != 0 || engine_start(s, &b->id, e) != 0) {
        if (!e->tag[0]) {
            (void)err_tag(e, e->code == ERR_UNAVAILABLE ? "engine_unavailable" : "start_failed");
        }
        return JOB_FAILED;
    }
    if (sandboxes_set_status(s->db, &b->id, SANDBOX_RUNNING, "", "", e) != 0) {
        return JOB_FAILED;
    }
    jobs_set(s, &b->id, SANDBOX_RUNNING);
    sandbox_event(s, b->creating ? "sandbox.created" : "sandbox.started", "info", b->reason,
                  &b->app_id, &b->id, "{}");
    return JOB_DONE;
}

/* Removes every trace on host and engine. ERR_IO: what is left is tried again. */
static int jobs_erase(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    char path[PATHS_MAX];
    /* On a disk that is not there a workspace only seems to be gone: it waits until it is back. */
    if (engine_remove(s, &b->id, e) != 0 || marks_check_disk(s->config->data_dir, e) != 0) {
        return -1;
    }
    s->hooks.close(s->hooks.ctx, &b->id);
    if (tree_remove(paths_workspace(path, s->config->data_dir, &b->id), e) != 0) {
        return -1;
    }
    dirs_remove_doors(s->config->data_dir, &b->id);
    return 0;
}

static void jobs_report_failure(struct sandbox_service *s, const struct sandbox *b,
                                const struct err *e)
{
    BUF_AUTO(payload, 2048);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "code", e->tag[0] ? e->tag : err_code_name(e->code));
    json_text(&w, "message", e->msg);
    json_object_end(&w);
    sandbox_event(s, "sandbox.start_failed", "error", b->reason, &b->app_id, &b->id, payload.ptr);
}

/* A failed create keeps nothing; a failed start leaves a stopped sandbox that says why. */
static void jobs_start_failed(struct sandbox_service *s, const struct sandbox *b,
                              const struct err *why)
{
    struct err e;
    jobs_report_failure(s, b, why);
    if (b->creating) {
        LOCK_GUARD(&s->lock);
        struct sandbox *live = table_live(s, &b->id);
        if (live && live->want != WANT_DELETE) {
            live->want = WANT_FORGET;
            live->retry_ms = 0;
        }
        return;
    }
    const char *code = why->tag[0] ? why->tag : "start_failed";
    if (sandboxes_set_status(s->db, &b->id, SANDBOX_STOPPED, code, why->msg, &e) != 0) {
        log_error("a failed start was not stored", "sandbox_id", b->id.text, "error", e.msg);
    }
    jobs_set(s, &b->id, SANDBOX_STOPPED);
}

/* ---- end ---- */

void jobs_note_end(struct sandbox_service *s, const struct ulid *id, const struct err *why)
{
    int64_t peak = 0;

    struct err e;
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        /* A run that was over before the app had come up says little. */
        bool told =
            clock_mono_ms() - b->started_ms >= JOBS_TELLING_RUN_MS || b->peak_bytes > admit_need(b);
        peak = told ? b->peak_bytes : 0;
        b->last_peak_bytes = peak > 0 ? peak : b->last_peak_bytes;
        b->reserved_bytes = 0;
        b->trouble = *why;
        (void)snprintf(b->last_end, sizeof(b->last_end), "%s", why->tag);
    }

    if (peak > 0 && sandboxes_note(s->db, id, -1, peak, 0, &e) != 0) {
        log_warn("a sandbox's peak of memory was not stored", "sandbox_id", id->text, "error",
                 e.msg);
    }
}

static enum job_result jobs_delete(struct sandbox_service *s, const struct sandbox *b,
                                   struct err *e)
{
    jobs_set(s, &b->id, SANDBOX_DELETING);
    if (jobs_erase(s, b, e) != 0) {
        return JOB_LATER;
    }
    int stored = b->want == WANT_FORGET ? sandboxes_forget(s->db, &b->id, e)
                                        : sandboxes_finish_delete(s->db, &b->id, e);
    if (stored != 0) {
        return JOB_LATER;
    }
    if (b->want == WANT_DELETE) {
        sandbox_event(s, "sandbox.deleted", "info", b->reason, &b->app_id, &b->id, "{}");
    }
    return JOB_DONE;
}

/* ---- threads ---- */

static bool jobs_is_mine(const struct sandbox *b, bool starts)
{
    return !b->gone && !b->working && b->want != WANT_NOTHING && (b->want == WANT_RUN) == starts;
}

/* A start takes its core until the app listens, not until its container runs. */
static bool jobs_is_coming_up(const struct sandbox *b, int64_t now)
{
    if (b->gone) {
        return false;
    }
    if (b->working && b->want == WANT_RUN) {
        return true;
    }
    bool hopeless =
        str_is(str_of(b->phase), "failed") || str_is(str_of(b->phase), "idle") || b->other_port;
    return b->status == SANDBOX_RUNNING && b->want == WANT_NOTHING && b->open_count == 0 &&
           !hopeless && b->started_ms > 0 && now - b->started_ms < JOBS_COMING_UP_MS;
}

static bool jobs_has_core(struct sandbox_service *s, int64_t now)
{
    size_t bucket = 0;
    size_t coming = 0;
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        coming += jobs_is_coming_up(b, now) ? 1 : 0;
    }
    return coming < s->start_slots;
}

/* The one that has waited longest and may go now; *ret_next_ms is when to look again. Under the
 * lock. */
static struct sandbox *jobs_pick(struct sandbox_service *s, bool starts, int64_t *ret_next_ms)
{
    struct sandbox *best = NULL;
    size_t bucket = 0;
    int64_t now = clock_mono_ms();
    *ret_next_ms = now + JOBS_IDLE_MS;
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!jobs_is_mine(b, starts)) {
            continue;
        }
        if (b->retry_ms > now) {
            *ret_next_ms = b->retry_ms < *ret_next_ms ? b->retry_ms : *ret_next_ms;
        } else if (!best || b->order < best->order) {
            best = b;
        }
    }
    if (best && starts && !jobs_has_core(s, now)) {
        *ret_next_ms = now + JOBS_SLOT_LOOK_MS;
        return NULL;
    }
    return best;
}

static enum job_result jobs_work(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    switch (b->want) {
    case WANT_RUN: return jobs_start(s, b, e);
    case WANT_STOP: return stop_run(s, b, e);
    case WANT_DELETE:
    case WANT_FORGET: return jobs_delete(s, b, e);
    case WANT_NOTHING: break;
    }
    return JOB_DONE;
}

/* Writes down what came of it. Under the lock. */
static void jobs_settle(struct sandbox_service *s, struct sandbox *b, const struct sandbox *job,
                        enum job_result result, const struct err *e)
{
    b->working = false;
    if (result == JOB_QUEUED) {
        b->retry_ms = clock_mono_ms() + ADMIT_AGAIN_MS;
        return;
    }
    b->is_down = false;
    free(TAKE(b->stop_why));
    if (result == JOB_DONE && job->want == WANT_RUN) {
        b->filled_bytes = 0;
    }
    if (result == JOB_LATER) {
        bool image = job->want == WANT_RUN;
        b->retry_ms = clock_mono_ms() + (image ? JOBS_IMAGE_RETRY_MS : JOBS_DELETE_RETRY_MS);
        return;
    }
    /* Whoever withdrew a stop was told a later ticket. */
    if (job->want != WANT_FORGET && job->ticket > b->done_ticket) {
        b->done_ticket = job->ticket;
        b->outcome = result == JOB_FAILED ? *e : (struct err){0};
    }
    b->failed_ms = job->want == WANT_RUN && result == JOB_FAILED ? clock_mono_ms() : 0;
    b->creating = b->creating && result != JOB_DONE;
    b->measured_ms = job->want == WANT_STOP && result == JOB_DONE ? 0 : b->measured_ms;
    if (b->want == job->want && b->ticket == job->ticket) {
        b->want = WANT_NOTHING;
    }
    if (result == JOB_DONE && (job->want == WANT_DELETE || job->want == WANT_FORGET)) {
        table_bury(s, b);
        return;
    }
    table_changed(s, b);
}

static void jobs_run_one(struct sandbox_service *s, struct sandbox *b)
{
    struct err e = {0};
    /* A copy for the time without the lock; nothing of it is written back. Its processes stay the
     * table's. */
    struct sandbox job = *b;
    job.processes = NULL;
    b->working = true;
    (void)pthread_mutex_unlock(&s->lock);
    enum job_result result = jobs_work(s, &job, &e);
    if (result == JOB_FAILED) {
        log_warn("a job failed", "sandbox_id", job.id.text, "error", e.msg);
    }
    if (result == JOB_LATER && job.want != WANT_RUN) {
        log_warn("a sandbox could not be removed yet", "sandbox_id", job.id.text, "error", e.msg);
    }
    (void)pthread_mutex_lock(&s->lock);
    jobs_settle(s, b, &job, result, &e);
    (void)pthread_mutex_unlock(&s->lock);
    if (result == JOB_FAILED && job.want == WANT_RUN) {
        jobs_start_failed(s, &job, &e);
    }
    if (result == JOB_DONE && job.want == WANT_DELETE) {
        app_finish_delete(s, &job.app_id);
    }
    table_announce(s, &job.id);
    (void)pthread_mutex_lock(&s->lock);
    (void)pthread_cond_broadcast(&s->work);
}

static void *jobs_run(struct sandbox_service *s, bool starts)
{
    (void)pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->stopping)) {
        int64_t next_ms = 0;
        struct sandbox *b = jobs_pick(s, starts, &next_ms);
        if (b) {
            jobs_run_one(s, b);
        } else {
            (void)thread_cond_wait_until(&s->work, &s->lock, next_ms);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

void *jobs_run_starts(void *service)
{
    return jobs_run(service, true);
}

void *jobs_run_others(void *service)
{
    return jobs_run(service, false);
}

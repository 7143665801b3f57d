/*
 * Keeping the table true to Docker: the engine's event stream, and a reconcile when it comes up and
 * every half minute. One thread of its own.
 */
#include <stdio.h>
#include <unistd.h>

#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define FOLLOW_RETRY_MS     500
#define FOLLOW_RECONCILE_MS 30000
#define FOLLOW_SEND_MS      1000

/* Takes a sandbox for a change that is not a job. False when somebody works on it. */
static bool follow_take(struct sandbox_service *s, const struct ulid *id, struct sandbox *ret_copy)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (!b || b->working) {
        return false;
    }
    b->working = true;
    *ret_copy = *b;
    ret_copy->processes = NULL;
    return true;
}

static void follow_release(struct sandbox_service *s, const struct ulid *id,
                           enum sandbox_status status, const struct err *why)
{
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        b->working = false;
        if (b->status != status) {
            b->status = status;
            b->last_active_ms = clock_mono_ms();
            if (status == SANDBOX_STOPPED) {
                table_clear_reports(b);
                ask_forget_open(b);
                b->measured_ms = 0;
            }
            b->outcome = why ? *why : (struct err){0};
            table_changed(s, b);
        }
        (void)pthread_cond_broadcast(&s->work);
    }
    table_announce(s, id);
}

/* A container is gone or down while its row says running. */
static void follow_died(struct sandbox_service *s, const struct ulid *id, struct str killed_by)
{
    struct sandbox copy;
    struct engine_container c = {0};
    struct err e;
    struct err why = {0};
    if (!follow_take(s, id, &copy)) {
        return; /* a job works on it and sees for itself */
    }
    enum sandbox_status status = copy.status;
    bool looked = engine_inspect(s, id, &c, &e) == 0;
    bool up = str_is(str_of(c.state), "running") || str_is(str_of(c.state), "paused");
    if (looked && !up && (status == SANDBOX_RUNNING || status == SANDBOX_FROZEN)) {
        kills_death(&copy, &c, killed_by, &why);
        jobs_note_end(s, id, &why);
        status = SANDBOX_STOPPED;
        s->hooks.close(s->hooks.ctx, id);
        if (sandboxes_set_status(s->db, id, status, why.tag, why.msg, &e) != 0) {
            log_error("a dead sandbox was not stored", "sandbox_id", id->text, "error", e.msg);
        }
        BUF_AUTO(payload, 1024);
        struct json_writer w;
        json_begin(&w, &payload);
        json_object(&w, NULL);
        json_text(&w, "code", why.tag);
        json_text(&w, "message", why.msg);
        json_int(&w, "exit_code", c.exit_code);
        json_object_end(&w);
        sandbox_event(s, "sandbox.died", "warning", "", &copy.app_id, id, payload.ptr);
    }
    follow_release(s, id, status, why.code ? &why : NULL);
}

/* The word that it runs may be older than a stop. */
static bool follow_still_runs(struct sandbox_service *s, const struct ulid *id)
{
    struct engine_container c = {0};
    struct err e;
    return engine_inspect(s, id, &c, &e) == 0 &&
           (str_is(str_of(c.state), "running") || str_is(str_of(c.state), "paused"));
}

/* A container runs while its row says it does not (started from outside, or by a start that was cut
 * off and came true later). */
static void follow_found_running(struct sandbox_service *s, const struct ulid *id)
{
    struct sandbox copy;
    struct err e;
    int64_t generation = 0;
    if (!follow_take(s, id, &copy)) {
        return;
    }
    enum sandbox_status status = copy.status;
    bool free_to_run =
        copy.want == WANT_NOTHING &&
        (status == SANDBOX_STOPPED || status == SANDBOX_STARTING || status == SANDBOX_ERROR);
    if (free_to_run && follow_still_runs(s, id) && s->hooks.listen(s->hooks.ctx, id, &e) == 0 &&
        sandboxes_next_generation(s->db, id, SANDBOX_RUNNING, &generation, &e) == 0) {
        status = SANDBOX_RUNNING;
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (b) {
            b->generation = generation;
        }
    }
    follow_release(s, id, status, NULL);
}

/* ---- reconcile ---- */

struct follow_seen {
    struct ulid *ids; /* those that run, sorted as they came */
    size_t count;
    size_t cap;
    struct ulid *strays; /* containers of ours without a row */
    size_t stray_count;
    struct sandbox_service *service;
};

static void follow_push(struct ulid **list, size_t *count, const struct ulid *id)
{
    *list = mem_resize(*list, *count + 1, sizeof(**list));
    (*list)[(*count)++] = *id;
}

static void follow_on_container(void *ctx, const struct ulid *id, struct str state)
{
    struct follow_seen *seen = ctx;
    bool known = false;
    {
        LOCK_GUARD(&seen->service->lock);
        known = table_find(seen->service, id) != NULL;
    }
    if (!known) {
        follow_push(&seen->strays, &seen->stray_count, id);
    } else if (str_is(state, "running") || str_is(state, "paused")) {
        follow_push(&seen->ids, &seen->count, id);
    }
}

static bool follow_runs(const struct follow_seen *seen, const struct ulid *id)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (ulid_eq(&seen->ids[i], id)) {
            return true;
        }
    }
    return false;
}

/* Rows that say running without a container. Collected under the lock, handled without it. */
static void follow_check_rows(struct sandbox_service *s, const struct follow_seen *seen)
{
    struct ulid *dead = NULL;
    size_t count = 0;
    size_t bucket = 0;
    {
        LOCK_GUARD(&s->lock);
        for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
            bool says = b->status == SANDBOX_RUNNING || b->status == SANDBOX_FROZEN;
            if (!b->gone && says && !b->working && !follow_runs(seen, &b->id)) {
                follow_push(&dead, &count, &b->id);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        follow_died(s, &dead[i], str_of(""));
    }
    free(dead);
}

static void follow_reconcile(struct sandbox_service *s)
{
    struct follow_seen seen = {.service = s};
    struct err e;
    if (engine_list(s, follow_on_container, &seen, &e) != 0) {
        log_warn("reconcile: the engine does not list its containers", "error", e.msg);
    } else {
        follow_check_rows(s, &seen);
        for (size_t i = 0; i < seen.count; i++) {
            follow_found_running(s, &seen.ids[i]);
        }
        for (size_t i = 0; i < seen.stray_count; i++) {
            log_warn("a container without a row is removed", "sandbox_id", seen.strays[i].text);
            if (engine_remove(s, &seen.strays[i], &e) != 0) {
                log_warn("it could not be removed", "error", e.msg);
            }
        }
        LOCK_GUARD(&s->lock);
        s->reconciled = true;
        table_sweep(s);
    }
    free(seen.ids);
    free(seen.strays);
}

/* ---- the stream ---- */

/* What the engine said last holds no longer: it is asked anew. */
static void follow_forget_status(struct sandbox_service *s)
{
    LOCK_GUARD(&s->lock);
    s->engine_status_ms = 0;
}

static void follow_docker(struct sandbox_service *s, const struct record *r)
{
    bool up = str_is(record_get(r, "state"), "up");
    struct str error = record_get(r, "error");
    char why[512];
    (void)snprintf(why, sizeof(why), "%.*s", STR_FMT(error));
    follow_forget_status(s);
    if (up) {
        log_info("the engine is up");
        always_on_hurry(s);
        follow_reconcile(s);
    } else {
        log_warn("the engine is down", "error", why);
    }
}

static void follow_event(struct sandbox_service *s, const struct record *r)
{
    struct ulid id;
    struct str action = record_get(r, "action");
    if (!ulid_parse(record_get(r, "id"), &id)) {
        return;
    }
    if (str_is(action, "die") || str_is(action, "destroy")) {
        follow_died(s, &id, record_get(r, "killed_by"));
    } else if (str_is(action, "start")) {
        follow_found_running(s, &id);
    }
}

/* Reads the stream until it breaks. */
static void follow_stream(struct sandbox_service *s, int fd)
{
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct err e;
    int64_t reconcile_ms = clock_mono_ms() + FOLLOW_RECONCILE_MS;
    while (!atomic_load(&s->stopping)) {
        if (record_recv(fd, &in, &r, reconcile_ms, &e) == 0) {
            if (record_is(&r, "docker")) {
                follow_docker(s, &r);
            } else if (record_is(&r, "event")) {
                follow_event(s, &r);
            }
        } else if (e.code != ERR_TIMEOUT) {
            follow_forget_status(s);
            log_warn("the engine's event stream broke", "error", e.msg);
            return;
        }
        if (clock_until(reconcile_ms) == 0) {
            follow_reconcile(s);
            reconcile_ms = clock_mono_ms() + FOLLOW_RECONCILE_MS;
        }
    }
}

static void follow_once(struct sandbox_service *s)
{
    BUF_AUTO(out, 256);
    struct err e;
    int fd AUTOCLOSE = -1;
    struct record_writer w = record_begin(&out, "follow");
    (void)record_end(&w);
    if (engine_dial(s->engine, &fd, &e) == 0 &&
        record_send(fd, &out, clock_mono_ms() + FOLLOW_SEND_MS, &e) == 0) {
        service_stream(s, SERVICE_FOLLOW, fd);
        follow_stream(s, fd);
        service_stream(s, SERVICE_FOLLOW, -1);
    }
}

void *follow_run(void *service)
{
    struct sandbox_service *s = service;
    while (!atomic_load(&s->stopping)) {
        follow_once(s);
        if (!atomic_load(&s->stopping)) {
            clock_sleep_ms(FOLLOW_RETRY_MS);
        }
    }
    return NULL;
}

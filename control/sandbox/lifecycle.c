/*
 * Asking for starts, stops and ends, and what became of them. Any thread; nothing here waits for a
 * job.
 */
#include <stdio.h>

#include "control/sandbox/marks.h"
#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/thread.h"

#define LIFECYCLE_STATUS_FRESH_MS 1000
/* Visitors of an app that just failed to start share that outcome instead of starting it once each.
 */
#define LIFECYCLE_FAILURE_FRESH_MS 2000

int sandbox_engine_status(struct sandbox_service *s, struct sandbox_engine_status *ret,
                          struct err *e)
{
    (void)pthread_mutex_lock(&s->lock);
    bool fresh = s->engine_status_ms > 0 &&
                 clock_mono_ms() - s->engine_status_ms < LIFECYCLE_STATUS_FRESH_MS;
    *ret = s->engine_status;
    (void)pthread_mutex_unlock(&s->lock);
    if (fresh) {
        return 0;
    }
    if (engine_fetch_status(s, ret, e) != 0) {
        (void)err_tag(e, "engine_unavailable");
        return -1;
    }
    LOCK_GUARD(&s->lock);
    s->engine_status = *ret;
    s->engine_status_ms = clock_mono_ms();
    return 0;
}

/* Names a new attempt. Under the lock. */
static int64_t lifecycle_want(struct sandbox_service *s, struct sandbox *b, enum sandbox_want want,
                              const char *reason)
{
    if (b->want != want) {
        b->want = want;
        b->order = ++s->next_order;
        b->retry_ms = 0;
        b->ticket++;
        (void)snprintf(b->reason, sizeof(b->reason), "%s", reason);
    }
    (void)pthread_cond_broadcast(&s->work);
    return b->ticket;
}

/* An attempt that is over already. Under the lock. */
static int64_t lifecycle_done(struct sandbox *b)
{
    b->ticket++;
    b->done_ticket = b->ticket;
    b->outcome = (struct err){0};
    return b->ticket;
}

static bool lifecycle_just_failed(const struct sandbox *b)
{
    return b->failed_ms > 0 && clock_mono_ms() - b->failed_ms < LIFECYCLE_FAILURE_FRESH_MS;
}

static int lifecycle_missing(const struct ulid *id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
}

/* A sandbox that may still be started and stopped, or NULL and why not. Under the lock. */
static struct sandbox *lifecycle_usable(struct sandbox_service *s, const struct ulid *id,
                                        struct err *e)
{
    struct sandbox *b = table_live(s, id);
    if (!b) {
        (void)lifecycle_missing(id, e);
        return NULL;
    }
    if (b->want == WANT_DELETE || b->want == WANT_FORGET || b->status == SANDBOX_DELETING) {
        (void)err_set(e, ERR_CONFLICT, 0, "the sandbox is being deleted");
        return NULL;
    }
    return b;
}

/* A stop whose container is still whole: queued, or an idle one that asks the proxies. The last
 * word counts. Under the lock. */
static bool lifecycle_withdraw_stop(struct sandbox_service *s, struct sandbox *b)
{
    bool whole = b->status == SANDBOX_RUNNING && b->want == WANT_STOP;
    if (!whole || (b->working && !(b->ask.n > 0 && strcmp(b->reason, STOP_IDLE) == 0))) {
        return false;
    }
    b->want = WANT_NOTHING;
    (void)pthread_cond_broadcast(&s->work);
    return true;
}

int sandbox_start(struct sandbox_service *s, const struct ulid *id, const char *reason,
                  int64_t *ret_ticket, struct err *e)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = lifecycle_usable(s, id, e);
    if (!b) {
        return -1;
    }
    if (strcmp(reason, START_ALWAYS_ON) == 0 && (!keeper_is_down(b) || b->idle.stays_stopped)) {
        return err_set(e, ERR_CONFLICT, 0, "somebody else was quicker");
    }
    b->last_active_ms = clock_mono_ms();
    if (strcmp(reason, START_ALWAYS_ON) != 0 && strcmp(reason, "preview") != 0) {
        b->keeper = (struct keeper){0}; /* somebody who means it: its ends count anew */
    }
    if ((b->status == SANDBOX_RUNNING && !b->working && b->want == WANT_NOTHING) ||
        lifecycle_withdraw_stop(s, b)) {
        *ret_ticket = lifecycle_done(b);
        return 0;
    }
    if (b->want == WANT_NOTHING && lifecycle_just_failed(b) && strcmp(reason, "preview") == 0) {
        *ret_ticket = b->done_ticket;
        return 0;
    }
    *ret_ticket = lifecycle_want(s, b, WANT_RUN, reason);
    return 0;
}

int sandbox_stop(struct sandbox_service *s, const struct ulid *id, const char *reason,
                 int64_t *ret_ticket, struct err *e)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = lifecycle_usable(s, id, e);
    if (!b) {
        return -1;
    }
    bool down = b->status == SANDBOX_STOPPED || b->status == SANDBOX_ERROR;
    /* A person's first word is noted although nothing is left to stop. */
    bool noted = b->idle.stays_stopped || strcmp(reason, STOP_PERSON) != 0;
    if (down && noted && !b->working && b->want == WANT_NOTHING) {
        *ret_ticket = lifecycle_done(b);
        return 0;
    }
    if (b->want == WANT_STOP && strcmp(b->reason, STOP_IDLE) == 0 &&
        strcmp(reason, STOP_IDLE) != 0) {
        b->want = WANT_NOTHING; /* an attempt of its own: the idle one may be withdrawn */
    }
    *ret_ticket = lifecycle_want(s, b, WANT_STOP, reason);
    return 0;
}

int sandbox_delete(struct sandbox_service *s, const struct ulid *id, const char *actor,
                   int64_t *ret_ticket, struct err *e)
{
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return lifecycle_missing(id, e);
        }
    }
    /* On disk first: whatever happens now, the next start finishes it. */
    if (sandboxes_set_status(s->db, id, SANDBOX_DELETING, "", "", e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (!b) {
        return lifecycle_missing(id, e);
    }
    if (!b->working) {
        b->status = SANDBOX_DELETING;
        table_changed(s, b);
    }
    *ret_ticket = lifecycle_want(s, b, WANT_DELETE, actor ? actor : "");
    return 0;
}

enum sandbox_outcome sandbox_outcome(struct sandbox_service *s, const struct ulid *id,
                                     int64_t ticket, struct err *e)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_find(s, id);
    if (!b) {
        return SANDBOX_DONE;
    }
    if (b->done_ticket < ticket) {
        return SANDBOX_PENDING;
    }
    if (b->done_ticket == ticket && b->outcome.code != ERR_NONE) {
        *e = b->outcome;
        return SANDBOX_FAILED;
    }
    return SANDBOX_DONE;
}

/* ---- create ---- */

static int lifecycle_check_engine(struct sandbox_service *s, struct err *e)
{
    struct sandbox_engine_status status;
    if (sandbox_engine_status(s, &status, e) != 0) {
        return -1;
    }
    if (!status.docker_up) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "Docker does not answer: %s", status.docker_error);
        return err_tag(e, "engine_unavailable");
    }
    if (str_is(str_of(status.walls), "failed")) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "no sandbox starts without its walls: %s",
                      status.walls_error);
        return err_tag(e, "walls_down");
    }
    if (status.runtime_error[0]) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "%s", status.runtime_error);
        return err_tag(e, "engine_unavailable");
    }
    return 0;
}

/* The image is there, or its build has begun and the error says how far it is. */
static int lifecycle_check_image(struct sandbox_service *s, const char *name, struct err *e)
{
    struct sandbox_image image;
    if (sandbox_image(s, name, false, &image, e) != 0) {
        return err_tag(e, "engine_unavailable");
    }
    if (str_is(str_of(image.state), "present")) {
        return 0;
    }
    bool failed = str_is(str_of(image.state), "failed");
    char why[512];
    (void)snprintf(why, sizeof(why), "%s", image.error);
    if (sandbox_image(s, name, true, &image, e) != 0) {
        return err_tag(e, "engine_unavailable");
    }
    if (failed) {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "the image %s failed to build: %.300s; it is tried again", name, why);
    } else {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "the image %s is being built: %lld %%, %s", name,
                      (long long)image.percent, image.step[0] ? image.step : "starting");
    }
    return err_tag(e, "image_building");
}

static void lifecycle_fill_row(const struct sandbox_create *order, struct sandbox_row *row)
{
    *row = (struct sandbox_row){.id = ulid_new(),
                                .app_id = order->app_id,
                                .status = SANDBOX_CREATING,
                                .image = order->preset->image,
                                .port_count = order->port_count,
                                .web_port = order->ports[0],
                                .memory_bytes = order->memory_bytes,
                                .error_code = "",
                                .error_message = "",
                                .created_at = clock_unix_ms()};
    memcpy(row->ports, order->ports, sizeof(row->ports));
}

static int64_t lifecycle_add(struct sandbox_service *s, const struct sandbox_row *row,
                             const struct sandbox_create *order)
{
    /* Nobody's until its app's access is read. */
    const struct app_row app = {.id = order->app_id, .name = order->app_name, .is_private = true};
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_add(s, row, &app, order->preset);
    b->started_ms = clock_mono_ms();
    table_changed(s, b);
    return lifecycle_want(s, b, WANT_RUN, "create");
}

int sandbox_create_begin(struct sandbox_service *s, const struct sandbox_create *order,
                         struct ulid *ret_id, int64_t *ret_ticket, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(65536);
    struct sandbox_row row;
    int64_t need = order->preset->memory_bytes;
    if (order->memory_bytes > 0 && order->memory_bytes < need) {
        need = order->memory_bytes;
    }
    /* One that exists is said first: it does not depend on the engine's mood. */
    if (sandboxes_of_app(s->db, &order->app_id, a, &row, e) == 0) {
        (void)err_set(e, ERR_CONFLICT, 0,
                      "this app has the sandbox %s already; an app has one at a time", row.id.text);
        return err_tag(e, "sandbox_exists");
    }
    if (e->code != ERR_NOT_FOUND || marks_check_disk(s->config->data_dir, e) != 0 ||
        lifecycle_check_engine(s, e) != 0 ||
        lifecycle_check_image(s, order->preset->image, e) != 0 || admit_check(s, need, e) != 0) {
        return -1;
    }
    lifecycle_fill_row(order, &row);
    if (sandboxes_insert(s->db, &row, e) != 0) {
        return -1;
    }
    *ret_id = row.id;
    *ret_ticket = lifecycle_add(s, &row, order);
    /* Only now is it in the table, where a change of the app's access finds it. */
    sandbox_access_changed(s, &order->app_id);
    struct err ignored;
    if (sandbox_policy_changed(s, &order->app_id, &ignored) != 0) {
        log_warn("the idle policy of a new sandbox was not read", "sandbox_id", row.id.text,
                 "error", ignored.msg);
    }
    return 0;
}

/*
 * Memory pressure: follows the engine's figures and stops what is worth least when the host runs
 * short. One thread; must never wait for a job, and acts on fresh figures only.
 */
#include "control/sandbox/pressure.h"

#include <stdio.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define PRESSURE_RETRY_MS  500
#define PRESSURE_QUIET_MS  60000
#define PRESSURE_PAUSE_MS  75 /* from one action to the next look that may act */
#define PRESSURE_SEND_MS   5000
#define PRESSURE_SETTLE_MS 3000

struct pressure {
    struct sandbox_service *service;
    struct pressure_watch watch;
    int64_t acted_ms;
};

static int64_t pressure_number(const struct record *r, const char *key)
{
    int64_t value = 0;
    return record_get_i64(r, key, &value) ? value : 0;
}

/* ---- figures ---- */

static void pressure_on_usage(struct sandbox_service *s, const struct record *r)
{
    struct ulid id;
    int64_t kills = pressure_number(r, "oom_kills");
    bool is_new = false;
    if (!ulid_parse(record_get(r, "id"), &id)) {
        return;
    }
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, &id);
        if (!b || b->status != SANDBOX_RUNNING) {
            return; /* a reading of a run that is over, or not begun */
        }
        b->resident_bytes = pressure_number(r, "memory");
        b->limit_bytes = pressure_number(r, "memory_limit");
        b->peak_bytes = b->resident_bytes > b->peak_bytes ? b->resident_bytes : b->peak_bytes;
        is_new = kills > b->oom_kills && b->want != WANT_STOP;
    }
    if (is_new) {
        kills_note(s, &id, kills, record_get(r, "killed_by"));
    }
}

static struct memory_figures pressure_on_memory(struct sandbox_service *s, const struct record *r)
{
    struct memory_figures f = {.total_bytes = pressure_number(r, "total"),
                               .available_bytes = pressure_number(r, "available"),
                               .stalled = record_get_bool(r, "stalled", false),
                               .at_ms = clock_mono_ms()};
    f.low_bytes = f.total_bytes / 100 * s->config->memory_low_percent;
    f.critical_bytes = f.total_bytes / 100 * s->config->memory_critical_percent;
    LOCK_GUARD(&s->lock);
    s->memory = f;
    return f;
}

/* ---- acting ---- */

static bool pressure_is_leaving(const struct sandbox *b)
{
    return b->want == WANT_STOP || b->status == SANDBOX_STOPPING;
}

/* Those whose end would give memory back. One that is on its way up or down for another reason is
 * left alone. Under the lock. */
static size_t pressure_collect(struct sandbox_service *s, struct pressure_candidate **ret)
{
    size_t count = 0;
    size_t bucket = 0;
    *ret = mem_calloc(s->count + 1, sizeof(**ret));
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        bool up = b->status == SANDBOX_RUNNING && !b->working && b->want == WANT_NOTHING;
        if (!b->gone && (up || pressure_is_leaving(b))) {
            (*ret)[count++] = (struct pressure_candidate){.id = b->id,
                                                          .class = pressure_class_of(s, b),
                                                          .resident_bytes = b->resident_bytes,
                                                          .leaving = pressure_is_leaving(b)};
        }
    }
    return count;
}

void pressure_stop(struct sandbox_service *s, struct sandbox *b, bool for_start)
{
    b->want = WANT_STOP;
    b->order = ++s->next_order;
    b->retry_ms = 0;
    b->ticket++;
    (void)snprintf(b->reason, sizeof(b->reason), STOP_MEMORY);
    free(TAKE(b->stop_why));
    b->stop_why = mem_alloc(sizeof(*b->stop_why));
    (void)err_set(b->stop_why, ERR_UNAVAILABLE, 0, "%s",
                  for_start ? "the app was idle and was stopped for memory, so that another one "
                              "could start; the next request starts it"
                            : "the app was stopped because the machine ran out of memory; stop "
                              "other apps or use a bigger machine; the next request starts it");
    (void)err_tag(b->stop_why, STOP_MEMORY);
    table_changed(s, b);
    (void)pthread_cond_broadcast(&s->work);
}

void pressure_tell(struct sandbox_service *s, const struct pressure_candidate *c,
                   const struct ulid *app_id, const struct memory_figures *f, const char *level)
{
    BUF_AUTO(payload, 1024);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "level", level);
    json_text(&w, "class", pressure_class_name(c->class));
    json_int(&w, "memory_bytes", c->resident_bytes);
    json_int(&w, "available_bytes", f->available_bytes);
    json_int(&w, "total_bytes", f->total_bytes);
    json_int(&w, "low_bytes", f->low_bytes);
    json_int(&w, "critical_bytes", f->critical_bytes);
    json_bool(&w, "stalled", f->stalled);
    json_object_end(&w);
    log_warn("a sandbox is stopped: the machine runs out of memory", "sandbox_id", c->id.text,
             "figures", payload.ptr);
    sandbox_event(s, "sandbox.memory_stop", "warning", STOP_MEMORY, app_id, &c->id, payload.ptr);
}

static const char *pressure_level_name(enum pressure_level level)
{
    static const char *const names[] = {[PRESSURE_NONE] = "none",
                                        [PRESSURE_STALLED] = "stalled",
                                        [PRESSURE_LOW] = "low",
                                        [PRESSURE_CRITICAL] = "critical"};
    return names[level];
}

static void pressure_act(struct pressure *p, enum pressure_level level,
                         const struct memory_figures *f)
{
    struct sandbox_service *s = p->service;
    struct pressure_candidate *list AUTOFREE = NULL;
    struct ulid app_id;
    ptrdiff_t chosen = -1;
    {
        LOCK_GUARD(&s->lock);
        if (!s->reconciled) {
            return; /* what runs is not known yet, nor what for */
        }
        size_t count = pressure_collect(s, &list);
        chosen = pressure_choose(list, count, level, f);
        if (chosen < 0) {
            return;
        }
        struct sandbox *b = table_live(s, &list[chosen].id);
        app_id = b->app_id;
        pressure_stop(s, b, false);
    }
    p->acted_ms = clock_mono_ms();
    pressure_tell(s, &list[chosen], &app_id, f, pressure_level_name(level));
    table_announce(s, &list[chosen].id);
}

static void pressure_look(struct pressure *p, const struct memory_figures *f)
{
    int64_t now = clock_mono_ms();
    enum pressure_level level = pressure_judge(&p->watch, f, now);
    if (level != PRESSURE_NONE && now - p->acted_ms >= PRESSURE_PAUSE_MS) {
        pressure_act(p, level, f);
    }
}

/* ---- the stream ---- */

static void pressure_stream(struct pressure *p, int fd)
{
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct err e;
    while (!atomic_load(&p->service->stopping)) {
        if (record_recv(fd, &in, &r, clock_mono_ms() + PRESSURE_QUIET_MS, &e) != 0) {
            if (e.code == ERR_TIMEOUT) {
                continue;
            }
            log_warn("the engine's stream of figures broke", "error", e.msg);
            return;
        }
        if (record_is(&r, "usage")) {
            pressure_on_usage(p->service, &r);
        } else if (record_is(&r, "memory")) {
            struct memory_figures f = pressure_on_memory(p->service, &r);
            pressure_look(p, &f);
        } else if (record_is(&r, "error")) {
            (void)record_to_err(&r, &e);
            log_warn("the engine gives no figures of memory", "error", e.msg);
            return;
        }
    }
}

/* The mark from which on the engine looks often: twice the low one, where stalls begin to count. */
static void pressure_once(struct pressure *p)
{
    BUF_AUTO(out, 256);
    struct err e;
    int fd AUTOCLOSE = -1;
    int64_t percent = p->service->config->memory_low_percent * 2;
    struct record_writer w = record_begin(&out, "watch");
    record_addn(&w, "mark_percent", percent > 100 ? 100 : percent);
    (void)record_end(&w);
    p->watch = (struct pressure_watch){0};
    if (engine_dial(p->service->engine, &fd, &e) == 0 &&
        record_send(fd, &out, clock_mono_ms() + PRESSURE_SEND_MS, &e) == 0) {
        service_stream(p->service, SERVICE_PRESSURE, fd);
        pressure_stream(p, fd);
        service_stream(p->service, SERVICE_PRESSURE, -1);
    }
}

void *pressure_run(void *service)
{
    /* Tasks and open connections of before a restart are made known again first. */
    struct pressure p = {.service = service, .acted_ms = clock_mono_ms() + PRESSURE_SETTLE_MS};
    while (!atomic_load(&p.service->stopping)) {
        pressure_once(&p);
        if (!atomic_load(&p.service->stopping)) {
            clock_sleep_ms(PRESSURE_RETRY_MS);
        }
    }
    return NULL;
}

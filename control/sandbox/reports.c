/*
 * What supervisors say, and looking at it. The channel's thread reports; any thread looks.
 */
#include <stdio.h>

#include "control/sandbox/table.h"
#include "control/store/app_config.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/record.h"
#include "lib/thread.h"

static void reports_copy(struct str value, char *out, size_t size)
{
    (void)snprintf(out, size, "%.*s", STR_FMT(value));
}

/* Vite answers to loopback names only, unless its configuration or this says otherwise. */
static void reports_configure_vite(struct record_writer *w, const char *preview_domain)
{
    char pair[512];

    if (!str_is(str_of(preview_domain), "localhost")) {
        (void)snprintf(pair, sizeof(pair), "__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS=.preview.%s",
                       preview_domain);
        record_adds(w, "env", pair);
    }
}

void reports_configure(const struct sandbox_service *s, const struct sandbox *b,
                       struct record_writer *w)
{
    record_adds(w, "template", b->preset ? b->preset->template_name : "");
    record_addn(w, "web_port", b->web_port);
    for (size_t i = 0; i < b->port_count; i++) {
        record_addn(w, "port", b->ports[i]);
    }
    reports_configure_vite(w, s->config->preview_domain);
}

static int64_t reports_config_version(const struct record *r)
{
    int64_t version = -1;
    return record_get_i64(r, "config_version", &version) && version >= 0 ? version : -1;
}

/* The app, and what of its config that supervisor must get. */
static int reports_target(struct sandbox_service *s, const struct ulid *id,
                          const struct record *hello, struct config_target *ret, struct err *e)
{
    struct str boot_id = record_get(hello, "boot_id");
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (!b) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
    }
    if (boot_id.len == 0 || boot_id.len >= sizeof(b->boot_id) || !str_is_text(boot_id, false)) {
        return err_set(e, ERR_PROTOCOL, 0, "a hello without a boot id");
    }
    *ret = (struct config_target){.app = b->app_id,
                                  .takes_config = record_get_bool(hello, "config", false),
                                  .in_force = reports_config_version(hello),
                                  .wanted = b->config_wanted};
    return 0;
}

/* What was taken away before that version is with no process any more. */
static void reports_forget(struct sandbox_service *s, const struct ulid *app, int64_t in_force)
{
    struct err e;
    if (in_force >= 0 && app_config_forget(s->db, app, in_force, &e) != 0) {
        log_warn("a value that nobody runs with was not forgotten", "app_id", app->text, "error",
                 e.msg);
    }
}

int sandbox_connected(struct sandbox_service *s, const struct ulid *id, const struct record *hello,
                      struct buf *ret_configure, struct err *e)
{
    struct config_target target;
    struct record_writer w = record_begin(ret_configure, "configure");
    int64_t sent = -1;
    /* Without its config no process may start: the supervisor dials again. */
    if (reports_target(s, id, hello, &target, e) != 0 ||
        config_add(s, &target, &w, &sent, e) != 0) {
        return -1;
    }
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
        }
        b->connected = true;
        b->takes_config = target.takes_config;
        b->config_version = target.in_force;
        b->config_wanted = sent >= 0 ? sent : b->config_wanted;
        reports_copy(record_get(hello, "boot_id"), b->boot_id, sizeof(b->boot_id));
        reports_configure(s, b, &w);
        table_changed(s, b);
    }
    reports_forget(s, &target.app, target.in_force);
    if (!record_end(&w)) {
        return err_set(e, ERR_INTERNAL, 0, "the config of an app is too large for its sandbox");
    }
    table_announce(s, id);
    return 0;
}

void sandbox_disconnected(struct sandbox_service *s, const struct ulid *id)
{
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        b->connected = false;
        table_changed(s, b);
    }
    table_announce(s, id);
}

static void reports_phase(struct sandbox *b, const struct record *r)
{
    reports_copy(record_get(r, "phase"), b->phase, sizeof(b->phase));
    reports_copy(record_get(r, "detail"), b->detail, sizeof(b->detail));
}

/* True when its processes run with another config than it said before. */
static bool reports_config(struct sandbox *b, const struct record *r)
{
    int64_t version = reports_config_version(r);
    bool is_new = version >= 0 && version != b->config_version;
    b->config_version = version >= 0 ? version : b->config_version;
    return is_new;
}

static int64_t reports_number(const struct record *r, const char *key)
{
    int64_t value = 0;
    return record_get_i64(r, key, &value) ? value : 0;
}

static struct sandbox_process *reports_process_slot(struct sandbox *b, struct str name)
{
    if (!b->processes) {
        b->processes = mem_calloc(SANDBOX_PROCESSES_MAX, sizeof(*b->processes));
    }
    for (size_t i = 0; i < b->process_count; i++) {
        if (str_is(name, b->processes[i].name)) {
            return &b->processes[i];
        }
    }
    return b->process_count < SANDBOX_PROCESSES_MAX ? &b->processes[b->process_count++] : NULL;
}

/* True when it ended because Node's own heap was full. */
static bool reports_process(struct sandbox *b, const struct record *r)
{
    struct str name = record_get(r, "name");
    struct sandbox_process *p =
        name.len > 0 && name.len <= 64 ? reports_process_slot(b, name) : NULL;
    if (!p) {
        return false;
    }
    reports_copy(name, p->name, sizeof(p->name));
    reports_copy(record_get(r, "type"), p->type, sizeof(p->type));
    reports_copy(record_get(r, "state"), p->state, sizeof(p->state));
    p->pid = reports_number(r, "pid");
    p->restarts = reports_number(r, "restarts");
    p->exit_code = reports_number(r, "exit_code");
    p->signal = reports_number(r, "signal");
    struct str lines = record_get(r, "lines");
    size_t from = lines.len > SANDBOX_LINES_BYTES ? lines.len - SANDBOX_LINES_BYTES : 0;
    reports_copy(str_cut(lines, from, lines.len), p->lines, sizeof(p->lines));
    bool ended = str_is(str_of(p->state), "backoff") || str_is(str_of(p->state), "failed");
    p->ended_ms = ended ? clock_mono_ms() : p->ended_ms;
    return ended && kills_is_node_heap(p->exit_code, p->signal, str_of(p->lines));
}

static bool reports_declared(const struct sandbox *b, uint64_t port)
{
    bool declared = port == b->web_port;
    for (size_t i = 0; i < b->port_count; i++) {
        declared = declared || b->ports[i] == port;
    }
    return declared;
}

/* True when the web port has just been opened for the first time of this start. */
static bool reports_port(struct sandbox *b, const struct record *r)
{
    uint64_t port = 0;
    bool open = record_get_bool(r, "open", false);
    if (!record_get_u64(r, "port", 65535, &port) || !reports_declared(b, port)) {
        return false;
    }
    size_t at = 0;
    while (at < b->open_count && b->open[at] != port) {
        at++;
    }
    if (open && at == b->open_count && b->open_count < ARRAY_LEN(b->open)) {
        b->open[b->open_count++] = (uint16_t)port;
        return port == b->web_port;
    }
    if (!open && at < b->open_count) {
        b->open[at] = b->open[--b->open_count];
    }
    return false;
}

void sandbox_report(struct sandbox_service *s, const struct ulid *id, const struct record *r)
{
    int64_t usual_ms = -1;
    uint64_t port = 0;
    bool heap_full = false;
    int64_t config = -1;

    struct ulid app = {0};
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        if (record_is(r, "phase")) {
            reports_phase(b, r);
            config = reports_config(b, r) ? b->config_version : -1;
            app = b->app_id;
        } else if (record_is(r, "process")) {
            heap_full = reports_process(b, r);
        } else if (record_is(r, "port")) {
            bool first = reports_port(b, r) && b->usual_start_ms >= 0;
            usual_ms = first ? clock_mono_ms() - b->started_ms : -1;
            b->usual_start_ms = first ? usual_ms : b->usual_start_ms;
        } else if (record_is(r, "other_port") && record_get_u64(r, "port", 65535, &port)) {
            b->other_port = (uint16_t)port;
        }
        (void)pthread_cond_broadcast(&s->work); /* another start may have its core */
        table_changed(s, b);
    }
    struct err e;
    reports_forget(s, &app, config);
    if (heap_full) {
        kills_note_heap(s, id);
    }
    if (usual_ms >= 0 && sandboxes_note(s->db, id, usual_ms, -1, 0, &e) != 0) {
        log_warn("a start's duration was not stored", "sandbox_id", id->text, "error", e.msg);
    }
    table_announce(s, id);
}

/* ---- looking ---- */

int sandbox_look(struct sandbox_service *s, const struct ulid *id, struct sandbox_view *ret,
                 struct err *e)
{
    LOCK_GUARD(&s->lock);
    const struct sandbox *b = table_live(s, id);
    if (!b) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
    }
    *ret = (struct sandbox_view){.id = b->id,
                                 .app_id = b->app_id,
                                 .status = b->status,
                                 .connected = b->connected,
                                 .takes_config = b->takes_config,
                                 .config_version = b->config_version,
                                 .is_private = b->is_private,
                                 .web_port = b->web_port,
                                 .port_count = b->port_count,
                                 .open_count = b->open_count,
                                 .uid = b->uid,
                                 .generation = b->generation};
    (void)snprintf(ret->end_code, sizeof(ret->end_code), "%s",
                   b->stop_why ? b->stop_why->tag : b->last_end);
    ret->kill_ms = b->kill_ms;
    ret->kill = b->kill_ms > 0 ? b->trouble : (struct err){0};
    memcpy(ret->boot_id, b->boot_id, sizeof(ret->boot_id));
    memcpy(ret->phase, b->phase, sizeof(ret->phase));
    memcpy(ret->detail, b->detail, sizeof(ret->detail));
    memcpy(ret->image, b->image, sizeof(ret->image));
    memcpy(ret->ports, b->ports, sizeof(ret->ports));
    memcpy(ret->open, b->open, sizeof(ret->open));
    return 0;
}

size_t sandbox_processes(struct sandbox_service *s, const struct ulid *id, struct arena *a,
                         struct sandbox_process **ret)
{
    LOCK_GUARD(&s->lock);
    const struct sandbox *b = table_live(s, id);
    size_t count = b ? b->process_count : 0;
    *ret = arena_alloc(a, sizeof(**ret) * (count + 1));
    if (count > 0) {
        memcpy(*ret, b->processes, sizeof(**ret) * count);
    }
    return count;
}

void sandbox_counts(struct sandbox_service *s, size_t *ret_running, size_t *ret_total)
{
    size_t bucket = 0;
    *ret_running = 0;
    *ret_total = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        *ret_running += !b->gone && b->status == SANDBOX_RUNNING ? 1 : 0;
        *ret_total += b->gone ? 0 : 1;
    }
}

void sandbox_hold(struct sandbox_service *s, const struct ulid *id, int delta)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->holds += delta;
        b->last_active_ms = clock_mono_ms();
    }
}

void sandbox_hold_task(struct sandbox_service *s, const struct ulid *id, int delta)
{
    sandbox_hold(s, id, delta);
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->task_holds += delta;
    }
}

void sandbox_watching(struct sandbox_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->watched_until_ms = clock_mono_ms() + SANDBOX_WATCH_S * 1000;
    }
}

bool sandbox_is_node_heap(int64_t exit_code, int64_t signal, struct str lines, struct err *e)
{
    bool is = kills_is_node_heap(exit_code, signal, lines);
    if (is) {
        kills_node_heap(e);
    }
    return is;
}

void sandbox_touch(struct sandbox_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->last_active_ms = clock_mono_ms();
    }
}

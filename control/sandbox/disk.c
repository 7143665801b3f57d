/*
 * Watches the free space that the workspaces share. Below the floor the running ones are measured,
 * and the one that fills the disk is stopped, alone. One thread.
 *
 * Must never write to the database before a stop was asked for: on a disk that is full already a
 * write may wait, and the filler goes on meanwhile.
 */
#include "control/sandbox/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "control/sandbox/table.h"
#include "control/store/events.h"
#include "control/workspace/tree.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define DISK_TICK_MS    2000
#define DISK_WALK_MS    2000  /* of one workspace */
#define DISK_ROUND_MS   20000 /* of all of them */
#define DISK_AGAIN_MS   10000 /* the next round when nobody was found */
#define DISK_STEP_MS    50
#define DISK_NONE_BYTES (8LL << 20) /* nothing is left: the reserve is needed */

struct disk_candidate {
    struct ulid id;
    struct disk_measure measure;
};

static int disk_look(struct sandbox_service *s, struct sandbox_disk *ret)
{
    char path[PATHS_MAX];
    struct statvfs fs;
    if (statvfs(paths_join(path, s->config->data_dir, "workspaces"), &fs) != 0) {
        return -1;
    }
    ret->total_bytes = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    ret->free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    ret->floor_bytes = disk_floor(ret->total_bytes, s->config->disk_floor_mb);
    return 0;
}

/* Those that run, who was used last first. Caller frees. */
static struct disk_candidate *disk_collect(struct sandbox_service *s, size_t *ret_count)
{
    size_t bucket = 0;
    size_t count = 0;
    LOCK_GUARD(&s->lock);
    struct disk_candidate *list = mem_calloc(s->count + 1, sizeof(*list));
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!b->gone && b->status == SANDBOX_RUNNING && !b->working && !b->stop_why) {
            list[count++] = (struct disk_candidate){
                .id = b->id,
                .measure = {.base_bytes = b->disk_bytes,
                            .base_ms = b->disk_bytes < 0 ? b->started_ms : b->disk_ms}};
        }
    }
    *ret_count = count;
    return list;
}

/* Walks as many as there is time for; returns how many that were. */
static size_t disk_measure_all(struct sandbox_service *s, struct disk_candidate *list, size_t count)
{
    int64_t deadline_ms = clock_mono_ms() + DISK_ROUND_MS;
    size_t i = 0;
    for (; i < count && clock_until(deadline_ms) > 0 && !atomic_load(&s->stopping); i++) {
        char path[PATHS_MAX];
        struct err e;
        struct disk_measure *m = &list[i].measure;
        (void)paths_workspace(path, s->config->data_dir, &list[i].id);
        if (tree_measure(path, DISK_WALK_MS, &m->bytes, &m->is_complete, &e) != 0) {
            m->bytes = 0;
        }
        m->at_ms = clock_mono_ms();
    }
    return i;
}

static long long disk_mib(int64_t bytes)
{
    return (long long)(bytes >> 20);
}

static void disk_explain(struct sandbox_service *s, const struct disk_candidate *c,
                         const struct sandbox_disk *disk, struct err *ret)
{
    char path[PATHS_MAX];
    const struct disk_measure *m = &c->measure;
    (void)err_set(
        ret, ERR_UNAVAILABLE, 0,
        "stopped because the disk is full: this app's files grew by %lld MiB to %s%lld MiB "
        "in %lld s, and %lld MiB of the disk are free where %lld MiB must be. Delete files "
        "in %s on the server, or give the disk more room; then start it",
        disk_mib(disk_growth(m)), m->is_complete ? "" : "at least ", disk_mib(m->bytes),
        (long long)((m->at_ms - m->base_ms) / 1000), disk_mib(disk->free_bytes),
        disk_mib(disk->floor_bytes), paths_workspace(path, s->config->data_dir, &c->id));
    (void)err_tag(ret, "disk_full");
}

/* Asks for the stop, with its reason beside it. False when it runs no more or somebody works on it.
 */
static bool disk_stop(struct sandbox_service *s, const struct disk_candidate *c,
                      const struct sandbox_disk *disk, struct ulid *ret_app_id)
{
    struct err why;
    struct err e;
    int64_t ticket = 0;
    disk_explain(s, c, disk, &why);
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, &c->id);
        if (!b || b->status != SANDBOX_RUNNING || b->working || b->stop_why) {
            return false;
        }
        b->stop_why = mem_alloc(sizeof(*b->stop_why));
        *b->stop_why = why;
        b->filled_bytes = c->measure.bytes;
        b->filled_growth = disk_growth(&c->measure);
        *ret_app_id = b->app_id;
    }
    log_error("a sandbox fills the disk and is stopped", "sandbox_id", c->id.text, "why", why.msg);
    if (sandbox_stop(s, &c->id, STOP_DISK, &ticket, &e) != 0) {
        log_warn("it could not be stopped", "sandbox_id", c->id.text, "error", e.msg);
        return false;
    }
    return true;
}

static void disk_write_figures(struct json_writer *w, const struct sandbox_disk *disk)
{
    json_int(w, "free_bytes", disk->free_bytes);
    json_int(w, "floor_bytes", disk->floor_bytes);
    json_int(w, "total_bytes", disk->total_bytes);
}

static void disk_event_full(struct sandbox_service *s, const struct disk_candidate *c,
                            const struct sandbox_disk *disk, const struct ulid *app_id)
{
    const struct disk_measure *m = &c->measure;
    BUF_AUTO(payload, 1024);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_int(&w, "bytes", m->bytes);
    json_bool(&w, "bytes_are_all", m->is_complete);
    json_int(&w, "growth_bytes", disk_growth(m));
    json_int(&w, "growth_ms", m->at_ms - m->base_ms);
    disk_write_figures(&w, disk);
    json_object_end(&w);
    sandbox_event(s, "sandbox.disk_full", "error", "", app_id, &c->id, payload.ptr);
}

/* Waits for a stop that was asked for; what it writes down then finds the reserve given back. */
static void disk_await_stop(struct sandbox_service *s, const struct ulid *id)
{
    int64_t deadline_ms = clock_mono_ms() + DISK_ROUND_MS;
    bool runs = true;
    while (runs && clock_until(deadline_ms) > 0 && !atomic_load(&s->stopping)) {
        clock_sleep_ms(DISK_STEP_MS);
        LOCK_GUARD(&s->lock);
        const struct sandbox *b = table_live(s, id);
        runs = b && b->stop_why && !b->is_down;
    }
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b && b->stop_why && !b->working && b->want != WANT_STOP) {
        free(TAKE(b->stop_why)); /* somebody's start came first: it is looked at again */
    }
}

/* One look at everybody who runs. True when one was stopped. */
static bool disk_round(struct sandbox_service *s, const struct sandbox_disk *disk, bool is_falling)
{
    size_t count = 0;
    struct ulid app_id;
    struct disk_candidate *list AUTOFREE = disk_collect(s, &count);
    count = disk_measure_all(s, list, count);
    struct disk_measure *measures AUTOFREE = mem_calloc(count + 1, sizeof(*measures));
    for (size_t i = 0; i < count; i++) {
        measures[i] = list[i].measure;
    }
    int at = disk_pick(measures, count, disk->floor_bytes, is_falling);
    if (at < 0 || !disk_stop(s, &list[at], disk, &app_id)) {
        return false;
    }
    disk_await_stop(s, &list[at].id);
    if (db_room(s->db) < DISK_NONE_BYTES) {
        db_release_reserve(s->db);
    }
    disk_event_full(s, &list[at], disk, &app_id);
    return true;
}

/* Tells that it begins or ends to be low. */
static void disk_say(struct sandbox_service *s, const struct sandbox_disk *disk)
{
    BUF_AUTO(payload, 512);
    struct json_writer w;
    char free_mib[24];
    (void)snprintf(free_mib, sizeof(free_mib), "%lld", disk_mib(disk->free_bytes));
    json_begin(&w, &payload);
    json_object(&w, NULL);
    disk_write_figures(&w, disk);
    json_object_end(&w);
    if (disk->is_low) {
        log_warn("the disk is nearly full", "free_mib", free_mib);
    } else {
        log_info("the disk has room again", "free_mib", free_mib);
    }
    events_add(s->db, &(struct event_row){.kind = disk->is_low ? "disk.low" : "disk.ok",
                                          .severity = disk->is_low ? "warning" : "info",
                                          .actor = "",
                                          .payload = payload.ptr});
}

/* What the thread remembers between two looks. */
struct disk_watch {
    int64_t next_round_ms;
    int64_t round_free_bytes; /* at the last round */
};

static void disk_rounds(struct sandbox_service *s, struct disk_watch *w,
                        const struct sandbox_disk *now, bool was_low)
{
    bool is_falling =
        was_low && w->round_free_bytes - now->free_bytes >= disk_matters(now->floor_bytes);
    if (was_low && !is_falling && clock_until(w->next_round_ms) > 0) {
        return;
    }
    bool found = disk_round(s, now, is_falling);
    w->round_free_bytes = now->free_bytes;
    w->next_round_ms = clock_mono_ms() + (found ? 0 : DISK_AGAIN_MS);
}

static void disk_tick(struct sandbox_service *s, struct disk_watch *w)
{
    struct sandbox_disk now = {0};
    bool was_low = false;
    if (disk_look(s, &now) != 0) {
        return; /* a figure that cannot be read stops nothing */
    }
    {
        LOCK_GUARD(&s->lock);
        was_low = s->disk.is_low;
        now.is_low = disk_is_low(was_low, now.free_bytes, now.floor_bytes);
        s->disk = now;
    }
    if (now.is_low) {
        disk_rounds(s, w, &now, was_low);
    }
    if (now.is_low && db_room(s->db) < DISK_NONE_BYTES) {
        db_release_reserve(s->db);
    }
    if (now.is_low != was_low) {
        disk_say(s, &now);
    }
}

void *disk_run(void *service)
{
    struct sandbox_service *s = service;
    struct disk_watch watch = {0};
    while (!atomic_load(&s->stopping)) {
        disk_tick(s, &watch);
        service_pause(s, DISK_TICK_MS);
    }
    return NULL;
}

/* ---- starts ---- */

int disk_check_start(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    char path[PATHS_MAX];
    struct sandbox_disk disk = {0};
    int64_t bytes = 0;
    bool complete = false;
    bool filled = str_is(str_of(b->outcome.tag), "disk_full") || b->filled_bytes > 0;
    if (!filled || disk_look(s, &disk) != 0 || disk.free_bytes >= disk.floor_bytes) {
        return 0;
    }
    (void)paths_workspace(path, s->config->data_dir, &b->id);
    /* Whoever made room again may go on, whatever else fills the disk. */
    if (b->filled_bytes > 0 && tree_measure(path, DISK_WALK_MS, &bytes, &complete, e) == 0 &&
        complete && bytes <= b->filled_bytes - b->filled_growth / 2) {
        return 0;
    }
    (void)err_set(e, ERR_UNAVAILABLE, 0,
                  "this app filled the disk, and %lld MiB are free where %lld MiB must be: delete "
                  "files in %s on the server, or give the disk more room; other apps start",
                  disk_mib(disk.free_bytes), disk_mib(disk.floor_bytes), path);
    return err_tag(e, "disk_full");
}

void sandbox_disk_look(struct sandbox_service *s, struct sandbox_disk *ret)
{
    LOCK_GUARD(&s->lock);
    *ret = s->disk;
}

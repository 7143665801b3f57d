/*
 * The table of sandboxes. Under the service's lock unless a function says otherwise.
 */
#include "control/sandbox/table.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/http/http.h"
#include "control/store/apps.h"
#include "control/store/events.h"
#include "lib/clock.h"
#include "lib/mem.h"

void sandbox_key(const struct ulid *id, char key[SANDBOX_KEY_BYTES])
{
    (void)snprintf(key, SANDBOX_KEY_BYTES, "sandbox:%s", id->text);
}

static size_t table_bucket(const struct ulid *id)
{
    size_t hash = 1469598103934665603ULL;
    for (int i = 0; i < ULID_LEN; i++) {
        hash = (hash ^ (unsigned char)id->text[i]) * 1099511628211ULL;
    }
    return hash % TABLE_BUCKETS;
}

struct sandbox *table_find(struct sandbox_service *s, const struct ulid *id)
{
    struct sandbox *b = s->buckets[table_bucket(id)];
    while (b && !ulid_eq(&b->id, id)) {
        b = b->next;
    }
    return b;
}

struct sandbox *table_live(struct sandbox_service *s, const struct ulid *id)
{
    struct sandbox *b = table_find(s, id);
    return b && !b->gone ? b : NULL;
}

void table_put(struct sandbox_service *s, struct sandbox *b)
{
    size_t bucket = table_bucket(&b->id);
    b->next = s->buckets[bucket];
    s->buckets[bucket] = b;
}

struct sandbox *table_add(struct sandbox_service *s, const struct sandbox_row *row,
                          const struct app_row *app, const struct sandbox_preset *preset)
{
    struct sandbox *b = mem_alloc(sizeof(*b));
    b->id = row->id;
    b->app_id = row->app_id;
    (void)snprintf(b->app_name, sizeof(b->app_name), "%.128s", app->name);
    b->is_private = app->is_private;
    b->access_epoch = app->access_epoch;
    (void)snprintf(b->image, sizeof(b->image), "%s", row->image);
    b->preset = preset;
    memcpy(b->ports, row->ports, sizeof(b->ports));
    b->port_count = row->port_count;
    b->web_port = row->web_port;
    b->uid = s->config->uid_base + row->uid_number;
    b->memory_bytes = row->memory_bytes;
    b->generation = row->generation;
    b->usual_start_ms = row->usual_start_ms;
    b->status = row->status;
    b->creating = row->status == SANDBOX_CREATING;
    if (row->error_code[0]) {
        (void)err_set(&b->outcome, ERR_UNAVAILABLE, 0, "%s", row->error_message);
        (void)err_tag(&b->outcome, row->error_code);
        b->trouble = b->outcome;
        (void)snprintf(b->last_end, sizeof(b->last_end), "%.31s", row->error_code);
    }
    table_set_policy(b, app, row);
    b->last_peak_bytes = row->peak_memory_bytes;
    b->oom_kills = row->oom_kills;
    b->last_active_ms = clock_mono_ms();
    /* Measured before: due again when it runs, not now for all at once. */
    b->measured_ms = row->disk_at > 0 ? b->last_active_ms : 0;
    b->disk_bytes = row->disk_at > 0 ? row->disk_bytes : -1;
    b->disk_ms = b->last_active_ms;
    table_put(s, b);
    s->count++;
    return b;
}

void table_set_policy(struct sandbox *b, const struct app_row *app, const struct sandbox_row *row)
{
    int64_t left_ms = row->keep_alive_until - clock_unix_ms();
    b->memory_bytes = row->memory_bytes;
    b->idle.always_on = app->always_on;
    b->keeper = app->always_on ? b->keeper : (struct keeper){0};
    b->idle.threshold_s = app->idle_threshold_s;
    b->idle.stays_stopped = row->stays_stopped;
    b->idle.keep_alive_until = row->keep_alive_until;
    b->idle.keep_alive_ms = left_ms > 0 ? clock_mono_ms() + left_ms : 0;
}

void table_clear_reports(struct sandbox *b)
{
    b->peak_bytes = 0;
    b->resident_bytes = 0;
    b->connected = false;
    b->takes_config = false;
    b->config_version = -1;
    b->config_wanted = 0;
    b->boot_id[0] = '\0';
    b->phase[0] = '\0';
    b->detail[0] = '\0';
    b->open_count = 0;
    b->other_port = 0;
    free(TAKE(b->processes));
    b->process_count = 0;
}

void table_bury(struct sandbox_service *s, struct sandbox *b)
{
    table_clear_reports(b);
    free(TAKE(b->stop_why));
    b->gone = true;
    b->gone_ms = clock_mono_ms();
    b->want = WANT_NOTHING;
    table_changed(s, b);
}

void table_sweep(struct sandbox_service *s)
{
    int64_t now = clock_mono_ms();
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        struct sandbox **at = &s->buckets[i];
        while (*at) {
            struct sandbox *b = *at;
            if (b->gone && !b->working && now - b->gone_ms > TABLE_TOMBSTONE_MS) {
                *at = b->next;
                s->count--;
                free(b);
                continue;
            }
            at = &b->next;
        }
    }
}

struct sandbox *table_each(struct sandbox_service *s, size_t *bucket, struct sandbox *after)
{
    struct sandbox *b = after ? after->next : s->buckets[ *bucket = 0];
    while (!b && ++*bucket < TABLE_BUCKETS) {
        b = s->buckets[*bucket];
    }
    return b;
}

void table_changed(struct sandbox_service *s, struct sandbox *b)
{
    b->change = ++s->next_change;
    (void)pthread_cond_broadcast(&s->changed);
    broker_wake(s);
}

void table_announce(struct sandbox_service *s, const struct ulid *id)
{
    char key[SANDBOX_KEY_BYTES];
    sandbox_key(id, key);
    http_kick(key);
    if (s->hooks.changed) {
        s->hooks.changed(s->hooks.ctx, id);
    }
}

void sandbox_event(struct sandbox_service *s, const char *kind, const char *severity,
                   const char *actor, const struct ulid *app_id, const struct ulid *id,
                   const char *payload)
{
    events_add(s->db, &(struct event_row){.kind = kind,
                                          .severity = severity,
                                          .actor = actor,
                                          .app_id = app_id->text,
                                          .sandbox_id = id->text,
                                          .payload = payload});
}

/*
 * Who may sleep and when. Any thread; the rules under the service's lock, nothing here waits for
 * the engine.
 */
#include "control/sandbox/idle.h"

#include "control/sandbox/table.h"
#include "control/store/apps.h"
#include "lib/clock.h"
#include "lib/thread.h"

int64_t idle_threshold_ms(const struct idle *idle, int64_t installation_s)
{
    if (idle->always_on) {
        return 0;
    }
    return (idle->threshold_s > 0 ? idle->threshold_s : installation_s) * 1000;
}

bool idle_is_used(const struct sandbox *b)
{
    return b->holds > 0 || b->open_connections > 0;
}

int64_t idle_sleeps_at_ms(const struct sandbox *b, int64_t installation_s)
{
    int64_t threshold_ms = idle_threshold_ms(&b->idle, installation_s);
    if (threshold_ms == 0 || b->status != SANDBOX_RUNNING || idle_is_used(b)) {
        return 0;
    }
    int64_t at_ms = b->last_active_ms + threshold_ms;
    return at_ms > b->idle.keep_alive_ms ? at_ms : b->idle.keep_alive_ms;
}

bool idle_is_due(const struct sandbox_service *s, const struct sandbox *b, int64_t now_ms)
{
    int64_t at_ms = idle_sleeps_at_ms(b, s->config->idle_threshold_s);
    return at_ms > 0 && now_ms >= at_ms && now_ms >= b->idle.not_before_ms &&
           ask_is_known(s, now_ms);
}

/* ---- what the owner says ---- */

/* One after the other from the row to the table, so that the table ends as the row is. */
static int idle_reload(struct sandbox_service *s, const struct ulid *app_id, struct arena *a,
                       struct err *e)
{
    struct app_row app;
    struct sandbox_row row;
    LOCK_GUARD(&s->policy_lock);
    if (apps_get(s->db, app_id, a, &app, e) != 0) {
        return -1;
    }
    if (sandboxes_of_app(s->db, app_id, a, &row, e) != 0) {
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    }
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, &row.id);
    if (b) {
        table_set_policy(b, &app, &row);
    }
    return 0;
}

int sandbox_policy_changed(struct sandbox_service *s, const struct ulid *app_id, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(1024UL * 1024);
    return idle_reload(s, app_id, a, e);
}

int sandbox_keep_alive(struct sandbox_service *s, const struct ulid *id, int64_t seconds,
                       struct err *e)
{
    int64_t until = seconds > 0 ? clock_unix_ms() + seconds * 1000 : 0;
    LOCK_GUARD(&s->policy_lock);
    {
        LOCK_GUARD(&s->lock);
        if (!table_live(s, id)) {
            return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
        }
    }
    /* On disk first: what the answer says is true after a crash too. */
    if (sandboxes_set_keep_alive(s->db, id, until, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    struct sandbox *b = table_live(s, id);
    if (b) {
        b->idle.keep_alive_until = until;
        b->idle.keep_alive_ms = seconds > 0 ? clock_mono_ms() + seconds * 1000 : 0;
    }
    return 0;
}

/* ---- what people see ---- */

/* 0 stays 0: not. */
static int64_t idle_to_unix(int64_t mono_ms, int64_t now_ms, int64_t now_unix_ms)
{
    return mono_ms > 0 ? now_unix_ms + (mono_ms - now_ms) : 0;
}

static int64_t idle_starts_at_ms(const struct sandbox *b, int64_t now_ms)
{
    if (!keeper_is_down(b) || b->idle.stays_stopped || b->keeper.gave_up) {
        return 0;
    }
    return b->keeper.next_ms > now_ms ? b->keeper.next_ms : now_ms;
}

int sandbox_idle_look(struct sandbox_service *s, const struct ulid *id, struct sandbox_idle *ret,
                      struct err *e)
{
    int64_t now_ms = clock_mono_ms();
    int64_t now_unix_ms = clock_unix_ms();
    LOCK_GUARD(&s->lock);
    const struct sandbox *b = table_live(s, id);
    if (!b) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
    }
    *ret = (struct sandbox_idle){
        .always_on = b->idle.always_on,
        .threshold_s = idle_threshold_ms(&b->idle, s->config->idle_threshold_s) / 1000,
        .in_use = b->status == SANDBOX_RUNNING && idle_is_used(b),
        .sleeps_at =
            idle_to_unix(idle_sleeps_at_ms(b, s->config->idle_threshold_s), now_ms, now_unix_ms),
        .keep_alive_until = b->idle.keep_alive_ms > now_ms ? b->idle.keep_alive_until : 0,
        .stays_stopped = b->idle.stays_stopped,
        .starts_at = idle_to_unix(idle_starts_at_ms(b, now_ms), now_ms, now_unix_ms)};
    return 0;
}

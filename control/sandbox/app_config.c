/*
 * What the owner gave an app, on its way to its sandbox: at each boot before any process starts,
 * and when a person applies a change. It must never be read or sent under the table's lock. Any
 * thread.
 */
#include "control/vault/app_config.h"

#include "control/sandbox/table.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/record.h"
#include "lib/thread.h"

#define CONFIG_FRAME_BYTES (RECORD_FRAME_MAX + 64)

int config_add(struct sandbox_service *s, const struct config_target *t, struct record_writer *w,
               int64_t *ret_sent, struct err *e)
{
    bool all = t->in_force < 0 || (t->wanted > 0 && t->wanted != t->in_force);

    *ret_sent = -1;
    if (!t->takes_config) {
        return 0; /* a supervisor of an older version: its container is made anew at its next start
                   */
    }
    return all ? vault_config_add(s->vault, &t->app, w, ret_sent, e)
               : vault_config_add_masks(s->vault, &t->app, t->in_force, w, e);
}

/* One `configure` to a supervisor that is there. */
static int config_send(struct sandbox_service *s, const struct ulid *id,
                       const struct config_target *t, struct err *e)
{
    BUF_WIPED(frames, CONFIG_FRAME_BYTES);
    struct record_writer w = record_begin(&frames, "configure");
    int64_t sent = -1;

    if (config_add(s, t, &w, &sent, e) != 0) {
        return -1;
    }
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b || !b->connected) {
            return 0; /* its next hello brings it */
        }
        b->config_wanted = sent >= 0 ? sent : b->config_wanted;
        reports_configure(s, b, &w);
    }
    if (!record_end(&w)) {
        return err_set(e, ERR_INTERNAL, 0, "the config of an app is too large for its sandbox");
    }
    s->hooks.tell(s->hooks.ctx, id, &frames);
    return 0;
}

/* Sandboxes of an app: there is one at a time, but for moments. */
static size_t config_targets(struct sandbox_service *s, const struct ulid *app, struct ulid *ids,
                             struct config_target *targets, size_t max)
{
    size_t count = 0;
    size_t bucket = 0;

    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!b->gone && b->connected && b->takes_config && b->config_version >= 0 &&
            ulid_eq(&b->app_id, app) && count < max) {
            ids[count] = b->id;
            targets[count++] = (struct config_target){.app = *app,
                                                      .takes_config = true,
                                                      .in_force = b->config_version,
                                                      .wanted = b->config_wanted};
        }
    }
    return count;
}

void sandbox_config_changed(struct sandbox_service *s, const struct ulid *app)
{
    struct ulid ids[4];
    struct config_target targets[ARRAY_LEN(ids)];
    size_t count = config_targets(s, app, ids, targets, ARRAY_LEN(ids));
    struct err e;

    for (size_t i = 0; i < count; i++) {
        if (config_send(s, &ids[i], &targets[i], &e) != 0) {
            log_warn("a sandbox was not told what its output may not show", "sandbox_id",
                     ids[i].text, "error", e.msg);
        }
        table_announce(s, &ids[i]);
    }
}

int sandbox_apply_config(struct sandbox_service *s, const struct ulid *id, int64_t *ret_version,
                         struct err *e)
{
    struct config_target t = {0};
    bool is_old = false;

    {
        LOCK_GUARD(&s->lock);
        const struct sandbox *b = table_live(s, id);
        if (!b) {
            return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
        }
        t.app = b->app_id;
        is_old = b->connected && !b->takes_config;
    }
    if (app_config_version(s->db, &t.app, ret_version, e) != 0) {
        return -1;
    }
    if (is_old) {
        return err_set(e, ERR_CONFLICT, 0,
                       "this sandbox was started by an older version, which hands no config to "
                       "processes; stop and start it");
    }
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b || (b->connected && b->config_version == *ret_version)) {
            return 0;
        }
        b->config_wanted = *ret_version;
        if (!b->connected) {
            return 0; /* its next hello brings it */
        }
        t.takes_config = true;
        t.in_force = b->config_version;
        t.wanted = b->config_wanted;
    }
    return config_send(s, id, &t, e);
}

enum sandbox_outcome sandbox_config_outcome(struct sandbox_service *s, const struct ulid *id,
                                            int64_t version)
{
    LOCK_GUARD(&s->lock);
    const struct sandbox *b = table_live(s, id);
    if (!b || (b->status != SANDBOX_RUNNING && b->status != SANDBOX_STARTING)) {
        return SANDBOX_DONE; /* its next start brings it */
    }
    /* One above it counts only when it was asked for since: a database of yesterday's backup has
     * smaller numbers than what runs. */
    bool in_force =
        b->config_version == version || (b->config_version > version && b->config_wanted > version);
    bool starts = strcmp(b->phase, "starting") == 0 || strcmp(b->phase, "seeding") == 0;
    return b->connected && in_force && !starts ? SANDBOX_DONE : SANDBOX_PENDING;
}

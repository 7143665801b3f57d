/*
 * The end of an app: its sandbox first, then its rows. Begun on disk, finished by whoever comes
 * last, even after a crash.
 */
#include <stdio.h>

#include "control/http/http.h"
#include "control/sandbox/table.h"
#include "control/store/apps.h"
#include "control/store/events.h"
#include "lib/log.h"
#include "lib/mem.h"

void app_key(const struct ulid *id, char key[SANDBOX_KEY_BYTES])
{
    (void)snprintf(key, SANDBOX_KEY_BYTES, "app:%s", id->text);
}

void app_finish_delete(struct sandbox_service *s, const struct ulid *app_id)
{
    struct arena *a AUTO(arena) = arena_new(1024UL * 1024);
    struct app_row app;
    struct sandbox_row sandbox;
    struct err e;
    char key[SANDBOX_KEY_BYTES];
    if (apps_get(s->db, app_id, a, &app, &e) != 0 || !app.deleting ||
        sandboxes_of_app(s->db, app_id, a, &sandbox, &e) == 0) {
        return;
    }
    if (apps_delete(s->db, app_id, &e) != 0) {
        log_error("an app could not be removed", "app_id", app_id->text, "error", e.msg);
        return;
    }
    events_add(s->db, &(struct event_row){.kind = "app.deleted", .app_id = app_id->text});
    app_key(app_id, key);
    http_kick(key);
}

int app_delete(struct sandbox_service *s, const struct ulid *app_id, const char *actor,
               struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(1024UL * 1024);
    struct sandbox_row sandbox;
    int64_t ticket = 0;
    if (apps_mark_deleting(s->db, app_id, e) != 0) {
        return -1;
    }
    if (sandboxes_of_app(s->db, app_id, a, &sandbox, e) == 0) {
        return sandbox_delete(s, &sandbox.id, actor, &ticket, e);
    }
    if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    app_finish_delete(s, app_id);
    return 0;
}

int app_resume_deletes(struct sandbox_service *s, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(1024UL * 1024);
    struct ulid *ids = NULL;
    size_t count = 0;
    if (apps_list_deleting(s->db, a, &ids, &count, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (app_delete(s, &ids[i], "", e) != 0 && e->code != ERR_NOT_FOUND) {
            return -1;
        }
    }
    return 0;
}

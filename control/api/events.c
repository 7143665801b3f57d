/*
 * Events of the installation and of one app, newest first. Worker threads.
 */
#include <stdio.h>

#include "control/api/api.h"

static void events_or_null(struct json_writer *w, const char *key, const char *value)
{
    json_text(w, key, value[0] ? value : NULL);
}

static void events_answer(struct api *api, struct http_request *r, struct http_response *p,
                          const char *app_id)
{
    struct err e;
    struct event_row *events = NULL;
    size_t count = 0;
    int limit = 0;
    struct str cursor;
    uint64_t before = 0;
    struct json_writer w;
    char next[24];
    if (!api_page(r, &limit, &cursor, p)) {
        return;
    }
    if (cursor.len > 0 && !str_to_u64(cursor, INT64_MAX, &before)) {
        http_error(p, "invalid_request", "cursor is not one of ours");
        return;
    }
    if (events_list(api->db, app_id, (int64_t)before, limit, r->arena, &events, &count, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "events");
    for (size_t i = 0; i < count; i++) {
        json_object(&w, NULL);
        json_time(&w, "at", events[i].at);
        json_text(&w, "kind", events[i].kind);
        json_text(&w, "severity", events[i].severity);
        events_or_null(&w, "actor", events[i].actor);
        events_or_null(&w, "app_id", events[i].app_id);
        events_or_null(&w, "sandbox_id", events[i].sandbox_id);
        events_or_null(&w, "task_id", events[i].task_id);
        json_raw(&w, "payload", str_of(events[i].payload));
        (void)snprintf(next, sizeof(next), "%lld", (long long)events[i].id);
        json_text(&w, "id", next);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_text(&w, "next_cursor", count == (size_t)limit ? next : NULL);
    json_object_end(&w);
    api_json(p, 200);
}

void api_events(struct http_request *r, struct http_response *p, void *ctx)
{
    events_answer(ctx, r, p, "");
}

void api_apps_events(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct ulid id;
    struct app_row app;
    struct err e;
    if (!api_id(r, 0, "app", &id, p)) {
        return;
    }
    if (apps_get(api->db, &id, r->arena, &app, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_answer(api, r, p, id.text);
}

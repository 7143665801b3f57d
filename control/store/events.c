/*
 * Events table. Any thread.
 */
#include "control/store/events.h"

#include "lib/clock.h"
#include "lib/log.h"

static const char *events_or(const char *text, const char *fallback)
{
    return text ? text : fallback;
}

static void events_log(const struct event_row *event)
{
    const char *severity = events_or(event->severity, "info");
    log_write(severity[0] == 'i' ? LOG_INFO : LOG_WARN, "event", "kind", event->kind, "app_id",
              event->app_id, "sandbox_id", event->sandbox_id, "task_id", event->task_id, "actor",
              event->actor, "payload", event->payload, (char *)0);
}

int events_put(struct db_conn *conn, const struct event_row *event, struct err *e)
{
    events_log(event);
    return db_exec(conn, e,
                   "INSERT INTO event(at,kind,severity,actor,app_id,sandbox_id,task_id,payload)"
                   " VALUES(?,?,?,?,?,?,?,?)",
                   "isssssss", clock_unix_ms(), event->kind, events_or(event->severity, "info"),
                   events_or(event->actor, ""), events_or(event->app_id, ""),
                   events_or(event->sandbox_id, ""), events_or(event->task_id, ""),
                   events_or(event->payload, "{}"));
}

void events_add(struct db *db, const struct event_row *event)
{
    struct db_conn *conn = NULL;
    struct err e;
    if (db_write_begin(db, &conn, &e) != 0 ||
        db_write_end(db, conn, events_put(conn, event, &e), &e) != 0) {
        log_error("an event was not stored", "kind", event->kind, "app_id", event->app_id,
                  "sandbox_id", event->sandbox_id, "payload", event->payload, "error", e.msg);
    }
}

static void events_read(struct db_rows *rows, struct arena *a, struct event_row *ret)
{
    *ret = (struct event_row){
        .id = db_int(rows, 0),
        .at = db_int(rows, 1),
        .kind = db_text(rows, 2, a),
        .severity = db_text(rows, 3, a),
        .actor = db_text(rows, 4, a),
        .app_id = db_text(rows, 5, a),
        .sandbox_id = db_text(rows, 6, a),
        .task_id = db_text(rows, 7, a),
        .payload = db_text(rows, 8, a),
    };
}

int events_list(struct db *db, const char *app_id, int64_t before, int limit, struct arena *a,
                struct event_row **ret, size_t *ret_count, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT id,at,kind,severity,actor,app_id,sandbox_id,task_id,payload FROM event"
                 " WHERE (?1='' OR app_id=?1) AND (?2=0 OR id<?2) ORDER BY id DESC LIMIT ?3",
                 "sii", app_id, before, (int64_t)limit);
    struct event_row *list = arena_alloc(a, sizeof(*list) * (size_t)(limit > 0 ? limit : 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < (size_t)limit && (rc = db_next(rows, e)) > 0) {
        events_read(rows, a, &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

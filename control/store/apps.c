/*
 * Apps table. Any thread.
 */
#include "control/store/apps.h"

#include "lib/clock.h"

#define APP_COLUMNS                                                                   \
    "id,name,description,runtime_preset,memory_bytes,deleting,created_at,updated_at," \
    "preview_access,access_epoch,idle_policy,idle_threshold_s"

const char *app_idle_policy_name(bool always_on)
{
    return always_on ? "always_on" : "sleep";
}

static void apps_read(struct db_rows *rows, struct arena *a, struct app_row *ret)
{
    *ret = (struct app_row){
        .name = db_text(rows, 1, a),
        .description = db_text(rows, 2, a),
        .runtime_preset = db_text(rows, 3, a),
        .memory_bytes = db_int(rows, 4),
        .deleting = db_int(rows, 5) != 0,
        .created_at = db_int(rows, 6),
        .updated_at = db_int(rows, 7),
        .is_private = db_text_is(rows, 8, "private"),
        .access_epoch = db_int(rows, 9),
        .always_on = db_text_is(rows, 10, "always_on"),
        .idle_threshold_s = db_is_null(rows, 11) ? 0 : db_int(rows, 11),
    };
    (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->id);
}

int apps_insert(struct db *db, const struct app_row *row, struct err *e)
{
    return db_write(
        db, NULL, e, "INSERT INTO app(" APP_COLUMNS ") VALUES(?,?,?,?,?,0,?,?,?,1,?,nullif(?,0))",
        "ssssiiissi", row->id.text, row->name, row->description, row->runtime_preset,
        row->memory_bytes, row->created_at, row->updated_at, row->is_private ? "private" : "public",
        app_idle_policy_name(row->always_on), row->idle_threshold_s);
}

int apps_get(struct db *db, const struct ulid *id, struct arena *a, struct app_row *ret,
             struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, "SELECT " APP_COLUMNS " FROM app WHERE id=?", "s", id->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        apps_read(rows, a, ret);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    if (rc == 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", id->text);
    }
    return rc > 0 ? 0 : -1;
}

static int apps_change(struct db_conn *conn, const struct ulid *id, const struct app_change *c,
                       struct err *e)
{
    int64_t now = clock_unix_ms();
    /* Judged by the policy before: an owner who chooses always_on wants it up, one who stopped an
     * always_on app and then renames it does not. */
    if (c->idle_policy && strcmp(c->idle_policy, "always_on") == 0 &&
        db_exec(conn, e,
                "UPDATE sandbox SET stays_stopped=0 WHERE app_id=?1 AND EXISTS (SELECT 1 FROM app"
                " WHERE id=?1 AND idle_policy<>'always_on')",
                "s", id->text) != 0) {
        return -1;
    }
    if (c->memory_bytes > 0 &&
        db_exec(conn, e, "UPDATE sandbox SET memory_bytes=?1 WHERE app_id=?2 AND status<>'deleted'",
                "is", c->memory_bytes, id->text) != 0) {
        return -1;
    }
    return db_exec(conn, e,
                   "UPDATE app SET name=coalesce(?1,name), description=coalesce(?2,description),"
                   " idle_policy=coalesce(?3,idle_policy),"
                   " idle_threshold_s=CASE WHEN ?4 THEN nullif(?5,0) ELSE idle_threshold_s END,"
                   " memory_bytes=CASE WHEN ?6>0 THEN ?6 ELSE memory_bytes END,"
                   " updated_at=?7 WHERE id=?8",
                   "sssiiiis", c->name, c->description, c->idle_policy,
                   (int64_t)c->set_idle_threshold, c->idle_threshold_s, c->memory_bytes, now,
                   id->text);
}

int apps_update(struct db *db, const struct ulid *id, const struct app_change *change,
                struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = apps_change(conn, id, change, e);
    if (rc == 0 && db_changes(conn) == 0) {
        rc = err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", id->text);
    }
    return db_write_end(db, conn, rc, e);
}

int apps_list(struct db *db, const char *before, int limit, struct arena *a, struct app_row **ret,
              size_t *ret_count, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT " APP_COLUMNS " FROM app WHERE deleting=0 AND (?1='' OR id<?1)"
                 " ORDER BY id DESC LIMIT ?2",
                 "si", before, (int64_t)limit);
    struct app_row *list = arena_alloc(a, sizeof(*list) * (size_t)(limit > 0 ? limit : 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < (size_t)limit && (rc = db_next(rows, e)) > 0) {
        apps_read(rows, a, &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int apps_mark_deleting(struct db *db, const struct ulid *id, struct err *e)
{
    return db_write(db, NULL, e, "UPDATE app SET deleting=1, updated_at=? WHERE id=?", "is",
                    clock_unix_ms(), id->text);
}

int apps_delete(struct db *db, const struct ulid *id, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = db_exec(conn, e, "DELETE FROM event WHERE app_id=?", "s", id->text);
    rc = rc == 0 ? db_exec(conn, e, "DELETE FROM app WHERE id=?", "s", id->text) : rc;
    return db_write_end(db, conn, rc, e);
}

int apps_list_deleting(struct db *db, struct arena *a, struct ulid **ret, size_t *ret_count,
                       struct err *e)
{
    enum {
        APPS_DELETING_MAX = 1000
    };
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e, "SELECT id FROM app WHERE deleting=1 LIMIT 1000", "");
    struct ulid *list = arena_alloc(a, sizeof(*list) * APPS_DELETING_MAX);
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < APPS_DELETING_MAX && (rc = db_next(rows, e)) > 0) {
        (void)ulid_parse(str_of(db_text(rows, 0, a)), &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

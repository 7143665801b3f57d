/*
 * Access to previews. Any thread.
 */
#include "control/store/access.h"

#include "lib/clock.h"

#define ACCESS_APPS_MAX 100000

static int access_count_change(struct db_conn *conn, struct err *e)
{
    return db_exec(conn, e,
                   "INSERT INTO setting(key,value) VALUES('access_changes','1')"
                   " ON CONFLICT(key) DO UPDATE SET value=CAST(value AS INTEGER)+1",
                   "");
}

static int access_set_in(struct db_conn *conn, const struct ulid *app_id, const char *access,
                         bool *ret_changed, struct err *e)
{
    if (db_exec(conn, e,
                "UPDATE app SET preview_access=?1, access_epoch=access_epoch+1, updated_at=?2"
                " WHERE id=?3 AND preview_access<>?1",
                "sis", access, clock_unix_ms(), app_id->text) != 0) {
        return -1;
    }
    *ret_changed = db_changes(conn) > 0;
    if (!*ret_changed) {
        return 0;
    }
    return db_exec(conn, e, "DELETE FROM preview_entry WHERE app_id=?", "s", app_id->text) != 0
               ? -1
               : access_count_change(conn, e);
}

int access_set(struct db *db, const struct ulid *app_id, bool is_private, bool *ret_changed,
               struct err *e)
{
    struct access_row row;
    struct db_conn *conn = NULL;
    *ret_changed = false;
    if (access_get(db, app_id, &row, e) != 0 || db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = access_set_in(conn, app_id, is_private ? "private" : "public", ret_changed, e);
    return db_write_end(db, conn, rc, e);
}

/* The first two columns of the first row; ERR_NOT_FOUND. */
static int access_pair(struct db_rows *rows, int64_t *ret_first, struct err *e)
{
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        *ret_first = db_int(rows, 0);
    }
    db_rows_end(rows);
    return rc > 0 ? 0 : rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "no such row") : -1;
}

static int access_session(struct db_conn *conn, const char *session, const struct ulid *app_id,
                          int64_t *ret_expires_ms, struct err *e)
{
    int64_t now = clock_unix_ms();
    if (access_pair(db_query(conn, e,
                             "SELECT expires_at FROM session WHERE name=? AND expires_at>?", "si",
                             session, now),
                    ret_expires_ms, e) != 0) {
        return e->code == ERR_NOT_FOUND ? err_set(e, ERR_UNAUTHORIZED, 0, "the session has ended")
                                        : -1;
    }
    return db_exec(conn, e, "DELETE FROM preview_entry WHERE expires_at<?", "i", now) != 0
               ? -1
               : db_exec(conn, e,
                         "INSERT INTO preview_entry(session,app_id,expires_at) VALUES(?,?,?)"
                         " ON CONFLICT DO UPDATE SET expires_at=excluded.expires_at",
                         "ssi", session, app_id->text, *ret_expires_ms);
}

int access_enter(struct db *db, const char *session, const struct ulid *app_id,
                 int64_t *ret_expires_ms, int64_t *ret_epoch, struct err *e)
{
    struct db_conn *conn = NULL;
    *ret_expires_ms = INT64_MAX;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = access_pair(db_query(conn, e, "SELECT access_epoch FROM app WHERE id=? AND deleting=0",
                                  "s", app_id->text),
                         ret_epoch, e);
    if (rc == 0 && session[0]) {
        rc = access_session(conn, session, app_id, ret_expires_ms, e);
    }
    return db_write_end(db, conn, rc, e);
}

int64_t access_changes(struct db *db)
{
    struct err e;
    int64_t changes = 0;
    struct db_conn *conn = db_read_begin(db);
    int rc = access_pair(
        db_query(conn, &e, "SELECT CAST(value AS INTEGER) FROM setting WHERE key='access_changes'",
                 ""),
        &changes, &e);
    db_read_end(db, conn);
    return rc == 0 ? changes : 0;
}

#define ACCESS_COLUMNS "id,preview_access='private',access_epoch"

static void access_read(struct db_rows *rows, struct arena *a, struct access_row *ret)
{
    (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->app_id);
    ret->is_private = db_int(rows, 1) != 0;
    ret->epoch = db_int(rows, 2);
}

int access_get(struct db *db, const struct ulid *app_id, struct access_row *ret, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(4096);
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, "SELECT " ACCESS_COLUMNS " FROM app WHERE id=?", "s", app_id->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        access_read(rows, a, ret);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc > 0    ? 0
           : rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", app_id->text)
                     : -1;
}

int access_list(struct db *db, struct arena *a, struct access_row **ret, size_t *ret_count,
                struct err *e)
{
    int64_t total = 0;
    size_t count = 0;
    struct db_conn *conn = db_read_begin(db);
    int rc = access_pair(db_query(conn, e, "SELECT count(*) FROM app", ""), &total, e);
    total = total < ACCESS_APPS_MAX ? total : ACCESS_APPS_MAX;
    struct access_row *list = arena_alloc(a, sizeof(*list) * (size_t)(total + 1));
    struct db_rows *rows =
        rc == 0 ? db_query(conn, e, "SELECT " ACCESS_COLUMNS " FROM app LIMIT ?", "i", total)
                : NULL;
    rc = rows ? 1 : -1;
    while (rc > 0 && count < (size_t)total && (rc = db_next(rows, e)) > 0) {
        access_read(rows, a, &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int access_end_session(struct db_conn *conn, const char *session, struct err *e)
{
    if (db_exec(conn, e,
                "UPDATE app SET access_epoch=access_epoch+1 WHERE id IN"
                " (SELECT app_id FROM preview_entry WHERE ?1 IS NULL OR session=?1)",
                "s", session) != 0) {
        return -1;
    }
    return db_exec(conn, e, "DELETE FROM preview_entry WHERE ?1 IS NULL OR session=?1", "s",
                   session) != 0
               ? -1
               : access_count_change(conn, e);
}

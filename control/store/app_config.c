/*
 * The table app_config. It must never let an app have more than a record can carry. Any thread.
 */
#include "control/store/app_config.h"

int app_config_list(struct db *db, const struct ulid *app, struct arena *a,
                    struct app_config_rows *ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT a.config_version,c.key,c.scope,c.sensitive,c.box,c.bytes,c.version,"
                 "c.created_at,c.updated_at FROM app a LEFT JOIN app_config c ON c.app_id=a.id"
                 " WHERE a.id=? ORDER BY c.key",
                 "s", app->text);
    *ret = (struct app_config_rows){.items =
                                        arena_alloc(a, sizeof(*ret->items) * APP_CONFIG_COUNT_MAX)};
    bool found = false;
    int rc = rows ? 1 : -1;
    while (rc > 0 && ret->count < APP_CONFIG_COUNT_MAX && (rc = db_next(rows, e)) > 0) {
        found = true;
        ret->version = db_int(rows, 0);
        if (db_is_null(rows, 1)) {
            break;
        }
        ret->items[ret->count++] = (struct app_config_row){.key = db_text(rows, 1, a),
                                                           .scope = db_text(rows, 2, a),
                                                           .sensitive = db_int(rows, 3) != 0,
                                                           .box = db_text(rows, 4, a),
                                                           .bytes = db_int(rows, 5),
                                                           .version = db_int(rows, 6),
                                                           .created_at = db_int(rows, 7),
                                                           .updated_at = db_int(rows, 8)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    if (rc >= 0 && !found) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", app->text);
    }
    return rc < 0 ? -1 : 0;
}

int app_config_version(struct db *db, const struct ulid *app, int64_t *ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, "SELECT config_version FROM app WHERE id=?", "s", app->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        *ret = db_int(rows, 0);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    if (rc == 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", app->text);
    }
    return rc > 0 ? 0 : -1;
}

/* Inside the transaction: would it be too much with the others? */
static int config_check_room(struct db_conn *conn, const struct ulid *app,
                             const struct app_config_row *row, struct err *e)
{
    struct db_rows *rows = db_query(
        conn, e, "SELECT count(*),coalesce(sum(bytes),0) FROM app_config WHERE app_id=? AND key<>?",
        "ss", app->text, row->key);
    int rc = rows ? db_next(rows, e) : -1;
    int64_t count = rc > 0 ? db_int(rows, 0) : 0;
    int64_t bytes = rc > 0 ? db_int(rows, 1) : 0;
    db_rows_end(rows);
    if (rc <= 0) {
        return -1;
    }
    if (count >= APP_CONFIG_COUNT_MAX) {
        return err_set(e, ERR_LIMIT, 0, "an app may have %d keys; delete one first",
                       APP_CONFIG_COUNT_MAX);
    }
    if (bytes + row->bytes > APP_CONFIG_BYTES_MAX) {
        return err_set(e, ERR_LIMIT, 0,
                       "keys and values of an app may have %ld bytes together; without this one "
                       "they have %lld: put what is large into a file of the app",
                       APP_CONFIG_BYTES_MAX, (long long)bytes);
    }
    return 0;
}

static int config_keep_former(struct db_conn *conn, const struct ulid *app, const char *key,
                              const struct app_config_effect *effect, struct err *e)
{
    if (!effect->is_seen || !effect->former) {
        return 0;
    }
    if (db_exec(conn, e,
                "INSERT INTO app_config_former(app_id,version,key,box)"
                " VALUES(?1,(SELECT config_version FROM app WHERE id=?1),?2,?3)",
                "sss", app->text, key, effect->former) != 0) {
        return -1;
    }
    return db_exec(
        conn, e,
        "DELETE FROM app_config_former WHERE app_id=?1 AND version NOT IN (SELECT"
        " version FROM app_config_former WHERE app_id=?1 ORDER BY version DESC LIMIT ?2)",
        "si", app->text, (int64_t)APP_CONFIG_FORMER_MAX);
}

/* The number of a change that processes can see. */
static int config_count_change(struct db_conn *conn, const struct ulid *app, bool is_seen,
                               struct err *e)
{
    if (db_exec(conn, e,
                "UPDATE app SET config_version=config_version+?1 WHERE id=?2 AND deleting=0", "is",
                (int64_t)is_seen, app->text) != 0) {
        return -1;
    }
    return db_changes(conn) > 0 ? 0 : err_set(e, ERR_NOT_FOUND, 0, "there is no app %s", app->text);
}

static int config_put(struct db_conn *conn, const struct ulid *app,
                      const struct app_config_row *row, const struct app_config_effect *effect,
                      struct err *e)
{
    if (config_count_change(conn, app, effect->is_seen, e) != 0 ||
        config_check_room(conn, app, row, e) != 0 ||
        config_keep_former(conn, app, row->key, effect, e) != 0) {
        return -1;
    }
    return db_exec(
        conn, e,
        "INSERT INTO app_config(app_id,key,scope,sensitive,box,bytes,version,created_at,updated_at)"
        " VALUES(?1,?2,?3,?4,?5,?6,CASE WHEN ?7 THEN (SELECT config_version FROM app WHERE id=?1)"
        " ELSE 0 END,?8,?9) ON CONFLICT(app_id,key) DO UPDATE SET scope=excluded.scope,"
        " sensitive=excluded.sensitive, box=excluded.box, bytes=excluded.bytes,"
        " version=CASE WHEN ?7 THEN excluded.version ELSE version END,"
        " updated_at=excluded.updated_at",
        "sssisiiii", app->text, row->key, row->scope, (int64_t)row->sensitive, row->box, row->bytes,
        (int64_t)effect->is_seen, row->created_at, row->updated_at);
}

int app_config_put(struct db *db, const struct ulid *app, const struct app_config_row *row,
                   const struct app_config_effect *effect, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    return db_write_end(db, conn, config_put(conn, app, row, effect, e), e);
}

static int config_remove(struct db_conn *conn, const struct ulid *app, const char *key,
                         const struct app_config_effect *effect, struct err *e)
{
    if (db_exec(conn, e, "DELETE FROM app_config WHERE app_id=? AND key=?", "ss", app->text, key) !=
        0) {
        return -1;
    }
    if (db_changes(conn) == 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "%s is not set", key);
    }
    return config_count_change(conn, app, effect->is_seen, e) != 0
               ? -1
               : config_keep_former(conn, app, key, effect, e);
}

int app_config_remove(struct db *db, const struct ulid *app, const char *key,
                      const struct app_config_effect *effect, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    return db_write_end(db, conn, config_remove(conn, app, key, effect, e), e);
}

int app_config_list_former(struct db *db, const struct ulid *app, struct arena *a,
                           struct app_config_rows *ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e,
                                    "SELECT key,box FROM app_config_former WHERE app_id=?"
                                    " ORDER BY version DESC LIMIT ?",
                                    "si", app->text, (int64_t)APP_CONFIG_FORMER_MAX);
    *ret = (struct app_config_rows){
        .items = arena_alloc(a, sizeof(*ret->items) * APP_CONFIG_FORMER_MAX)};
    int rc = rows ? 1 : -1;
    while (rc > 0 && ret->count < APP_CONFIG_FORMER_MAX && (rc = db_next(rows, e)) > 0) {
        ret->items[ret->count++] =
            (struct app_config_row){.key = db_text(rows, 0, a), .box = db_text(rows, 1, a)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc < 0 ? -1 : 0;
}

int app_config_forget(struct db *db, const struct ulid *app, int64_t version, struct err *e)
{
    return db_write(db, NULL, e, "DELETE FROM app_config_former WHERE app_id=? AND version<=?",
                    "si", app->text, version);
}

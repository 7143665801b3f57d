/*
 * Settings and sessions tables. Any thread.
 */
#include "control/store/settings.h"

#include <stdio.h>

#include "control/store/access.h"
#include "lib/clock.h"

int settings_get(struct db *db, const char *key, struct arena *a, const char **ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e, "SELECT value FROM setting WHERE key=?", "s", key);
    int rc = rows ? db_next(rows, e) : -1;
    *ret = rc > 0 ? db_text(rows, 0, a) : "";
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc < 0 ? -1 : 0;
}

int settings_set(struct db *db, const char *key, const char *value, struct err *e)
{
    if (!value) {
        return db_write(db, NULL, e, "DELETE FROM setting WHERE key=?", "s", key);
    }
    return db_write(db, NULL, e,
                    "INSERT INTO setting(key,value) VALUES(?,?)"
                    " ON CONFLICT(key) DO UPDATE SET value=excluded.value",
                    "ss", key, value);
}

int settings_take(struct db *db, const char *key, const char *value, bool *ret_taken, struct err *e)
{
    int64_t changes = 0;
    if (db_write(db, &changes, e, "DELETE FROM setting WHERE key=? AND value=?", "ss", key,
                 value) != 0) {
        return -1;
    }
    *ret_taken = changes > 0;
    return 0;
}

int sessions_add(struct db *db, const char *hash, int64_t expires_at, struct err *e)
{
    int64_t now = clock_unix_ms();
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = db_exec(conn, e, "DELETE FROM session WHERE expires_at<?", "i", now);
    rc = rc == 0 ? db_exec(conn, e,
                           "INSERT INTO session(hash,created_at,used_at,expires_at,name)"
                           " VALUES(?,?,?,?,lower(hex(randomblob(16))))",
                           "siii", hash, now, now, expires_at)
                 : rc;
    return db_write_end(db, conn, rc, e);
}

bool sessions_find(struct db *db, const char *hash, char ret_name[ACCESS_SESSION_BYTES])
{
    struct arena *a AUTO(arena) = arena_new(4096);
    struct db_conn *conn = db_read_begin(db);
    struct err e;
    struct db_rows *rows =
        db_query(conn, &e, "SELECT name FROM session WHERE hash=? AND expires_at>?", "si", hash,
                 clock_unix_ms());
    bool found = rows && db_next(rows, &e) > 0;
    (void)snprintf(ret_name, ACCESS_SESSION_BYTES, "%s", found ? db_text(rows, 0, a) : "");
    db_rows_end(rows);
    db_read_end(db, conn);
    return found;
}

bool sessions_valid(struct db *db, const char *hash)
{
    char name[ACCESS_SESSION_BYTES];
    return sessions_find(db, hash, name);
}

/* What it opened ends with it, in one step. */
static int sessions_end(struct db *db, const char *hash, const char *name, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = db_exec(conn, e, "DELETE FROM session WHERE ?1 IS NULL OR hash=?1", "s", hash);
    rc = rc == 0 ? access_end_session(conn, name, e) : rc;
    return db_write_end(db, conn, rc, e);
}

int sessions_remove(struct db *db, const char *hash, struct err *e)
{
    char name[ACCESS_SESSION_BYTES];
    return sessions_find(db, hash, name) ? sessions_end(db, hash, name, e) : 0;
}

int sessions_remove_all(struct db *db, struct err *e)
{
    return sessions_end(db, NULL, NULL, e);
}

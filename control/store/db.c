/*
 * SQLite connections and statements. The writer is guarded by a mutex; a read connection belongs to
 * whoever borrowed it.
 */
#include "control/store/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "control/store/reserve.h"
#include "control/store/schema.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define DB_READERS             8
#define DB_STATEMENTS          64
#define DB_BUSY_MS             5000
#define DB_CHECKPOINT_AFTER_MS 5000
#define DB_BACKUP_EVERY_MS     (3600LL * 1000)
#define DB_BACKUP_FIRST_MS     60000
#define DB_BACKUP_PAGES        256
#define DB_APPLICATION_ID      0x53625864 /* "SbXd" */

struct db_rows {
    const char *sql; /* static text: its address is the key */
    sqlite3_stmt *stmt;
    struct db_conn *conn;
    bool in_use;
};

struct db_conn {
    sqlite3 *handle; /* owned; NULL until first used */
    struct db_rows cache[DB_STATEMENTS];
    int cached;
    bool busy;
};

struct db {
    char path[PATHS_MAX];
    char backup[PATHS_MAX];
    struct reserve reserve;
    pthread_mutex_t write_lock;
    struct db_conn writer;
    pthread_mutex_t read_lock; /* the busy flags below */
    pthread_cond_t read_free;
    struct db_conn readers[DB_READERS];
    int64_t last_write_ms;  /* monotonic; under write_lock */
    int64_t last_backup_ms; /* monotonic; under write_lock */
    bool wal_dirty;
    bool backup_due;
};

static int db_error(struct db_conn *c, struct err *e, const char *what)
{
    int rc = sqlite3_extended_errcode(c->handle);
    bool constraint = (rc & 0xFF) == SQLITE_CONSTRAINT;
    if ((rc & 0xFF) == SQLITE_FULL) {
        /* The transaction is rolled back, and the reserve given back for the next one. */
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "the disk of the data directory is full: nothing of this was stored; make "
                       "room on it and try again");
    }
    return err_set(e, constraint ? ERR_CONFLICT : ERR_IO, 0, "database: %s: %s", what,
                   sqlite3_errmsg(c->handle));
}

static int db_run(struct db_conn *c, const char *sql, struct err *e)
{
    return sqlite3_exec(c->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                       : db_error(c, e, "execute");
}

static int db_conn_open(struct db_conn *c, const char *path, bool writer, struct err *e)
{
    int flags = writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(path, &c->handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK) {
        return err_set(e, ERR_IO, 0, "open the database %s: %s", path,
                       c->handle ? sqlite3_errmsg(c->handle) : "no memory");
    }
    (void)sqlite3_busy_timeout(c->handle, DB_BUSY_MS);
    (void)sqlite3_db_config(c->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (db_run(c,
               "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
               "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; PRAGMA recursive_triggers=OFF",
               e) != 0) {
        return -1;
    }
    if (!writer) {
        return db_run(c, "PRAGMA cache_size=-256", e);
    }
    return db_run(c,
                  "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-1024;"
                  "PRAGMA journal_size_limit=67108864",
                  e);
}

static void db_conn_close(struct db_conn *c)
{
    for (int i = 0; i < c->cached; i++) {
        (void)sqlite3_finalize(c->cache[i].stmt);
    }
    if (c->handle && sqlite3_close(c->handle) != SQLITE_OK) {
        log_error("a statement was left open", "error", sqlite3_errmsg(c->handle));
    }
    c->handle = NULL;
    c->cached = 0;
}

static int db_backup(struct db *db, struct err *e)
{
    char temporary[PATHS_MAX + 8];
    sqlite3 *copy = NULL;
    (void)snprintf(temporary, sizeof(temporary), "%s.tmp", db->backup);
    (void)unlink(temporary);
    int rc = sqlite3_open_v2(temporary, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    sqlite3_backup *b =
        rc == SQLITE_OK ? sqlite3_backup_init(copy, "main", db->writer.handle, "main") : NULL;
    while (b && (rc = sqlite3_backup_step(b, DB_BACKUP_PAGES)) == SQLITE_OK) {
    }
    if (b) {
        (void)sqlite3_backup_finish(b);
    }
    (void)sqlite3_close(copy);
    if (rc != SQLITE_DONE || rename(temporary, db->backup) != 0) {
        (void)unlink(temporary);
        return err_set(e, ERR_IO, rc == SQLITE_DONE ? errno : 0, "back up the database to %s",
                       db->backup);
    }
    return 0;
}

static int db_pragma_int(struct db_conn *c, const char *sql, int *ret, struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->handle, sql, -1, &stmt, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int(stmt, 0);
    }
    int result = rc == SQLITE_ROW ? 0 : db_error(c, e, sql);
    (void)sqlite3_finalize(stmt);
    return result;
}

static int db_migrate_one(struct db_conn *c, int number, struct err *e)
{
    char version[96];
    (void)snprintf(version, sizeof(version), "PRAGMA user_version=%d; PRAGMA application_id=%d",
                   number, DB_APPLICATION_ID);
    if (db_run(c, "BEGIN IMMEDIATE", e) != 0) {
        return -1;
    }
    if (db_run(c, schema_migrations[number - 1], e) != 0 || db_run(c, version, e) != 0) {
        (void)db_run(c, "ROLLBACK", NULL);
        return err_wrap(e, "migrate the database to schema %d", number);
    }
    return db_run(c, "COMMIT", e);
}

static int db_migrate(struct db *db, struct err *e)
{
    int version = 0;
    if (db_pragma_int(&db->writer, "PRAGMA user_version", &version, e) != 0) {
        return -1;
    }
    if (version > schema_version) {
        return err_set(
            e, ERR_CONFLICT, 0,
            "%s has schema %d and was made by a newer sandboxd; this one knows schema %d. "
            "Install the newer version again, or restore %s",
            db->path, version, schema_version, db->backup);
    }
    if (version > 0 && version < schema_version && db_backup(db, e) != 0) {
        return -1;
    }
    for (int next = version + 1; next <= schema_version; next++) {
        if (db_migrate_one(&db->writer, next, e) != 0) {
            return -1;
        }
    }
    return 0;
}

int db_open(const char *data_dir, struct db **ret, struct err *e)
{
    struct db *db = mem_alloc(sizeof(*db));
    (void)paths_join(db->path, data_dir, "state/sandboxd.db");
    (void)paths_join(db->backup, data_dir, "state/backup/sandboxd.db");
    (void)pthread_mutex_init(&db->write_lock, NULL);
    (void)pthread_mutex_init(&db->read_lock, NULL);
    thread_cond_init(&db->read_free);
    /* The first one soon after a start: a young installation is worth a backup too. */
    db->last_backup_ms = clock_mono_ms() - DB_BACKUP_EVERY_MS + DB_BACKUP_FIRST_MS;
    /* A plain copy of the data directory may lack the -wal file; it restores from the backup. */
    if (access(db->path, F_OK) != 0 && access(db->backup, F_OK) == 0 &&
        rename(db->backup, db->path) == 0) {
        log_warn("the database was restored from its backup", "path", db->path);
    }
    if (db_conn_open(&db->writer, db->path, true, e) != 0 || db_migrate(db, e) != 0) {
        db_close(db);
        return -1;
    }
    reserve_init(&db->reserve, data_dir);
    *ret = db;
    return 0;
}

void db_close(struct db *take_db)
{
    for (int i = 0; i < DB_READERS; i++) {
        db_conn_close(&take_db->readers[i]);
    }
    struct err e;
    if (take_db->writer.handle) {
        if (take_db->backup_due && db_backup(take_db, &e) != 0) {
            log_warn("no backup was made at the stop", "error", e.msg);
        }
        (void)sqlite3_wal_checkpoint_v2(take_db->writer.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE,
                                        NULL, NULL);
    }
    db_conn_close(&take_db->writer);
    free(take_db);
}

static struct db_conn *db_free_reader(struct db *db)
{
    for (int i = 0; i < DB_READERS; i++) {
        if (!db->readers[i].busy) {
            return &db->readers[i];
        }
    }
    return NULL;
}

struct db_conn *db_read_begin(struct db *db)
{
    struct db_conn *c = NULL;
    struct err e;
    (void)pthread_mutex_lock(&db->read_lock);
    while (!(c = db_free_reader(db))) {
        (void)pthread_cond_wait(&db->read_free, &db->read_lock);
    }
    c->busy = true;
    (void)pthread_mutex_unlock(&db->read_lock);
    if (!c->handle && db_conn_open(c, db->path, false, &e) != 0) {
        /* The writer has it open: only a machine in ruins gets here. */
        log_error("a read connection failed", "error", e.msg);
        abort();
    }
    return c;
}

void db_read_end(struct db *db, struct db_conn *conn)
{
    (void)pthread_mutex_lock(&db->read_lock);
    conn->busy = false;
    (void)pthread_cond_signal(&db->read_free);
    (void)pthread_mutex_unlock(&db->read_lock);
}

int db_write_begin(struct db *db, struct db_conn **ret, struct err *e)
{
    (void)pthread_mutex_lock(&db->write_lock);
    reserve_await(&db->reserve);
    if (db_run(&db->writer, "BEGIN IMMEDIATE", e) != 0) {
        (void)pthread_mutex_unlock(&db->write_lock);
        return -1;
    }
    *ret = &db->writer;
    return 0;
}

static bool db_is_full(struct db_conn *c)
{
    return (sqlite3_errcode(c->handle) & 0xFF) == SQLITE_FULL;
}

int db_write_end(struct db *db, struct db_conn *conn, int result, struct err *e)
{
    if (result == 0) {
        result = db_run(conn, "COMMIT", e);
    }
    if (result != 0) {
        if (db_is_full(conn)) {
            /* Full between the look and the write: the next one finds room. */
            (void)reserve_release(&db->reserve);
        }
        (void)db_run(conn, "ROLLBACK", NULL);
    }
    db->last_write_ms = clock_mono_ms();
    db->wal_dirty = true;
    db->backup_due = true;
    (void)pthread_mutex_unlock(&db->write_lock);
    return result;
}

/* The cached statement of a text, or one more. NULL and e on failure. */
static struct db_rows *db_statement(struct db_conn *c, const char *sql, struct err *e)
{
    for (int i = 0; i < c->cached; i++) {
        if (c->cache[i].sql == sql && !c->cache[i].in_use) {
            return &c->cache[i];
        }
    }
    if (c->cached == DB_STATEMENTS) {
        (void)err_set(e, ERR_INTERNAL, 0, "database: more than %d statements", DB_STATEMENTS);
        return NULL;
    }
    struct db_rows *rows = &c->cache[c->cached];
    if (sqlite3_prepare_v3(c->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &rows->stmt, NULL) !=
        SQLITE_OK) {
        (void)db_error(c, e, sql);
        return NULL;
    }
    rows->sql = sql;
    rows->conn = c;
    c->cached++;
    return rows;
}

static void db_bind(sqlite3_stmt *stmt, const char *types, va_list args)
{
    for (int i = 0; types[i]; i++) {
        if (types[i] == 'i') {
            (void)sqlite3_bind_int64(stmt, i + 1, va_arg(args, int64_t));
        } else if (types[i] == 't') {
            struct str s = va_arg(args, struct str);
            (void)sqlite3_bind_text64(stmt, i + 1, s.ptr ? s.ptr : "", s.len, SQLITE_TRANSIENT,
                                      SQLITE_UTF8);
        } else {
            const char *s = va_arg(args, const char *);
            (void)sqlite3_bind_text(stmt, i + 1, s, -1, SQLITE_TRANSIENT);
        }
    }
}

static struct db_rows *db_vquery(struct db_conn *conn, struct err *e, const char *sql,
                                 const char *types, va_list args)
{
    struct db_rows *rows = db_statement(conn, sql, e);
    if (rows) {
        rows->in_use = true;
        db_bind(rows->stmt, types, args);
    }
    return rows;
}

struct db_rows *db_query(struct db_conn *conn, struct err *e, const char *sql, const char *types,
                         ...)
{
    va_list args;
    va_start(args, types);
    struct db_rows *rows = db_vquery(conn, e, sql, types, args);
    va_end(args);
    return rows;
}

int db_next(struct db_rows *rows, struct err *e)
{
    int rc = sqlite3_step(rows->stmt);
    if (rc == SQLITE_ROW) {
        return 1;
    }
    return rc == SQLITE_DONE ? 0 : db_error(rows->conn, e, "step");
}

const char *db_text(struct db_rows *rows, int column, struct arena *a)
{
    const unsigned char *text = sqlite3_column_text(rows->stmt, column);
    int len = sqlite3_column_bytes(rows->stmt, column);
    return arena_str(a, str_n(text, text ? (size_t)len : 0));
}

int64_t db_int(struct db_rows *rows, int column)
{
    return sqlite3_column_int64(rows->stmt, column);
}

bool db_text_is(struct db_rows *rows, int column, const char *text)
{
    const unsigned char *found = sqlite3_column_text(rows->stmt, column);
    return found && str_is(str_n(found, (size_t)sqlite3_column_bytes(rows->stmt, column)), text);
}

bool db_is_null(struct db_rows *rows, int column)
{
    return sqlite3_column_type(rows->stmt, column) == SQLITE_NULL;
}

void db_rows_end(struct db_rows *rows)
{
    if (rows) {
        (void)sqlite3_reset(rows->stmt);
        (void)sqlite3_clear_bindings(rows->stmt);
        rows->in_use = false;
    }
}

static int db_vexec(struct db_conn *conn, struct err *e, const char *sql, const char *types,
                    va_list args)
{
    struct db_rows *rows = db_vquery(conn, e, sql, types, args);
    if (!rows) {
        return -1;
    }
    int rc = 0;
    while ((rc = db_next(rows, e)) > 0) {
    }
    db_rows_end(rows);
    return rc;
}

int db_exec(struct db_conn *conn, struct err *e, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    int rc = db_vexec(conn, e, sql, types, args);
    va_end(args);
    return rc;
}

int64_t db_changes(const struct db_conn *conn)
{
    return sqlite3_changes64(conn->handle);
}

static int db_vwrite(struct db *db, int64_t *ret_changes, struct err *e, const char *sql,
                     const char *types, va_list args)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = db_vexec(conn, e, sql, types, args);
    *ret_changes = rc == 0 ? db_changes(conn) : 0;
    return db_write_end(db, conn, rc, e);
}

int db_write(struct db *db, int64_t *ret_changes, struct err *e, const char *sql, const char *types,
             ...)
{
    int64_t changes = 0;
    int rc = -1;
    bool had_reserve = true;
    /* A disk that filled up under it gave the reserve back: once more. */
    for (int i = 0; i < 2 && rc != 0 && had_reserve; i++) {
        va_list args;
        va_start(args, types);
        had_reserve = atomic_load(&db->reserve.is_held);
        rc = db_vwrite(db, &changes, e, sql, types, args);
        had_reserve = had_reserve && !atomic_load(&db->reserve.is_held);
        va_end(args);
    }
    if (rc == 0 && ret_changes) {
        *ret_changes = changes;
    }
    return rc;
}

void db_release_reserve(struct db *db)
{
    (void)reserve_release(&db->reserve);
}

int64_t db_room(const struct db *db)
{
    return reserve_room(&db->reserve);
}

void db_maintain(struct db *db)
{
    struct err e;
    LOCK_GUARD(&db->write_lock);
    int64_t now = clock_mono_ms();
    reserve_restore(&db->reserve);
    if (db->wal_dirty && now - db->last_write_ms > DB_CHECKPOINT_AFTER_MS) {
        (void)sqlite3_wal_checkpoint_v2(db->writer.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                        NULL);
        (void)sqlite3_db_release_memory(db->writer.handle);
        db->wal_dirty = false;
    }
    if (db->backup_due && now - db->last_backup_ms > DB_BACKUP_EVERY_MS) {
        if (db_backup(db, &e) != 0) {
            log_error("the hourly backup failed", "error", e.msg);
        }
        db->last_backup_ms = now;
        db->backup_due = false;
    }
}

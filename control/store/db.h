/*
 * SQLite: the only code that knows it. One writer behind a mutex, a few read connections, each used
 * by one thread at a time.
 *
 * No I/O, no call into another program inside a transaction. Blocks for a query's time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena.h"
#include "lib/err.h"
#include "lib/str.h"

struct db;
struct db_conn;
struct db_rows;

/* Opens and migrates; makes state/backup/ before a migration. ERR_CONFLICT: made by a newer version
 * (named). */
int db_open(const char *data_dir, struct db **ret, struct err *e) MUST_CHECK;
/* Checkpoints and closes. */
void db_close(struct db *take_db);

/* Borrows a read connection; every begin needs its end. */
struct db_conn *db_read_begin(struct db *db);
void db_read_end(struct db *db, struct db_conn *conn);

/* BEGIN IMMEDIATE under the writer's mutex. ERR_IO. */
int db_write_begin(struct db *db, struct db_conn **ret, struct err *e) MUST_CHECK;
/* Commits when result is 0, else rolls back; returns result, or -1 when the commit failed. */
int db_write_end(struct db *db, struct db_conn *conn, int result, struct err *e);

/* Runs one statement. types: s const char * (NULL is null), t struct str, i int64_t; one argument
 * per letter. ERR_CONFLICT for a violated constraint, ERR_IO. */
int db_exec(struct db_conn *conn, struct err *e, const char *sql, const char *types, ...)
    MUST_CHECK;
/* Rows changed by the last db_exec. */
int64_t db_changes(const struct db_conn *conn);
/* One statement as a transaction of its own. ret_changes may be NULL. */
int db_write(struct db *db, int64_t *ret_changes, struct err *e, const char *sql, const char *types,
             ...) MUST_CHECK;

/* Starts a query; NULL and e on failure. End with db_rows_end; one at a time per SQL text and
 * connection. */
struct db_rows *db_query(struct db_conn *conn, struct err *e, const char *sql, const char *types,
                         ...);
/* 1 a row, 0 no more, -1 failed. */
int db_next(struct db_rows *rows, struct err *e);
/* Columns of the current row. Text is copied into the arena; "" for null. */
const char *db_text(struct db_rows *rows, int column, struct arena *a);
int64_t db_int(struct db_rows *rows, int column);
/* Whether a text column is exactly that: no copy. */
bool db_text_is(struct db_rows *rows, int column, const char *text);
bool db_is_null(struct db_rows *rows, int column);
void db_rows_end(struct db_rows *rows);

/* Every few seconds: checkpoint after 5 s without writes, a backup each hour when something
 * changed. */
void db_maintain(struct db *db);

/* On a full disk: gives the reserve file (reserve.h) back, so that the next write finds room. Once
 * whoever fills the disk was stopped. db_maintain makes it again. */
void db_release_reserve(struct db *db);
/* Bytes that can still be written beside the database, -1 unknown. */
int64_t db_room(const struct db *db);

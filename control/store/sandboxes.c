/*
 * Sandboxes table. Any thread.
 */
#include "control/store/sandboxes.h"

#include <stdio.h>

#include "lib/clock.h"
#include "lib/paths.h"

#define SANDBOX_LIST_MAX 100000
#define SANDBOX_COLUMNS                                                                            \
    "id,app_id,status,uid_number,image,ports,web_port,memory_bytes,generation,error_code,"         \
    "error_message,usual_start_ms,peak_memory_bytes,disk_bytes,disk_at,last_active_at,started_at," \
    "stopped_at,created_at,updated_at,keep_alive_until,stays_stopped,oom_kills"

static const char *const sandbox_status_names[] = {
    [SANDBOX_CREATING] = "creating", [SANDBOX_STARTING] = "starting", [SANDBOX_RUNNING] = "running",
    [SANDBOX_FROZEN] = "frozen",     [SANDBOX_STOPPING] = "stopping", [SANDBOX_STOPPED] = "stopped",
    [SANDBOX_ERROR] = "error",       [SANDBOX_DELETING] = "deleting", [SANDBOX_DELETED] = "deleted",
};

const char *sandbox_status_name(enum sandbox_status status)
{
    return sandbox_status_names[status];
}

static enum sandbox_status sandboxes_status_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(sandbox_status_names); i++) {
        if (strcmp(sandbox_status_names[i], name) == 0) {
            return (enum sandbox_status)i;
        }
    }
    return SANDBOX_ERROR;
}

static void sandboxes_read_ports(struct str text, struct sandbox_row *ret)
{
    struct str part;
    uint64_t port = 0;
    while (ret->port_count < SANDBOX_PORTS_MAX && str_split(&text, ',', &part)) {
        if (str_to_u64(part, 65535, &port)) {
            ret->ports[ret->port_count++] = (uint16_t)port;
        }
    }
}

static void sandboxes_read(struct db_rows *rows, struct arena *a, struct sandbox_row *ret)
{
    *ret = (struct sandbox_row){
        .status = sandboxes_status_of(db_text(rows, 2, a)),
        .uid_number = (uint32_t)db_int(rows, 3),
        .image = db_text(rows, 4, a),
        .web_port = (uint16_t)db_int(rows, 6),
        .memory_bytes = db_int(rows, 7),
        .generation = db_int(rows, 8),
        .error_code = db_text(rows, 9, a),
        .error_message = db_text(rows, 10, a),
        .usual_start_ms = db_int(rows, 11),
        .peak_memory_bytes = db_int(rows, 12),
        .disk_bytes = db_is_null(rows, 13) ? -1 : db_int(rows, 13),
        .disk_at = db_int(rows, 14),
        .last_active_at = db_int(rows, 15),
        .started_at = db_int(rows, 16),
        .stopped_at = db_int(rows, 17),
        .created_at = db_int(rows, 18),
        .updated_at = db_int(rows, 19),
        .keep_alive_until = db_int(rows, 20),
        .stays_stopped = db_int(rows, 21) != 0,
        .oom_kills = db_int(rows, 22),
    };
    (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->id);
    (void)ulid_parse(str_of(db_text(rows, 1, a)), &ret->app_id);
    sandboxes_read_ports(str_of(db_text(rows, 5, a)), ret);
}

static void sandboxes_write_ports(const struct sandbox_row *row, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < row->port_count && used < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%u", i ? "," : "", row->ports[i]);
    }
}

/* The smallest number nobody has: 1, or one above a number whose successor is free. */
static int sandboxes_free_number(struct db_conn *conn, uint32_t *ret, struct err *e)
{
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT min(n) FROM (SELECT 1 AS n WHERE NOT EXISTS (SELECT 1 FROM sandbox WHERE"
                 " uid_number=1) UNION ALL SELECT s.uid_number+1 FROM sandbox s WHERE s.uid_number"
                 " IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sandbox t WHERE"
                 " t.uid_number=s.uid_number+1))",
                 "");
    int rc = rows ? db_next(rows, e) : -1;
    int64_t number = rc > 0 ? db_int(rows, 0) : 0;
    db_rows_end(rows);
    if (rc < 0) {
        return -1;
    }
    if (number < 1 || number > PATHS_UID_COUNT) {
        return err_set(e, ERR_LIMIT, 0, "all %u sandbox user ids are taken; delete some apps",
                       PATHS_UID_COUNT);
    }
    *ret = (uint32_t)number;
    return 0;
}

static int sandboxes_check_alone(struct db_conn *conn, const struct ulid *app_id, struct err *e)
{
    char id[ULID_LEN + 1] = "";
    struct db_rows *rows = db_query(
        conn, e, "SELECT id FROM sandbox WHERE app_id=? AND status<>'deleted'", "s", app_id->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        struct arena *a AUTO(arena) = arena_new(65536);
        (void)snprintf(id, sizeof(id), "%s", db_text(rows, 0, a));
    }
    db_rows_end(rows);
    if (rc > 0) {
        (void)err_set(e, ERR_CONFLICT, 0,
                      "this app has the sandbox %s already; an app has one at a time", id);
        return err_tag(e, "sandbox_exists");
    }
    return rc;
}

static int sandboxes_insert_row(struct db_conn *conn, const struct sandbox_row *row, struct err *e)
{
    char ports[SANDBOX_PORTS_MAX * 6 + 1];
    sandboxes_write_ports(row, ports, sizeof(ports));
    return db_exec(conn, e,
                   "INSERT INTO sandbox(id,app_id,status,uid_number,image,ports,web_port,"
                   "memory_bytes,last_active_at,created_at,updated_at)"
                   " VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                   "sssissiiiii", row->id.text, row->app_id.text, sandbox_status_name(row->status),
                   (int64_t)row->uid_number, row->image, ports, (int64_t)row->web_port,
                   row->memory_bytes, row->created_at, row->created_at, row->created_at);
}

int sandboxes_insert(struct db *db, struct sandbox_row *row, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = sandboxes_check_alone(conn, &row->app_id, e);
    rc = rc == 0 ? sandboxes_free_number(conn, &row->uid_number, e) : rc;
    rc = rc == 0 ? sandboxes_insert_row(conn, row, e) : rc;
    return db_write_end(db, conn, rc, e);
}

static int sandboxes_one(struct db *db, const char *sql, const struct ulid *key, struct arena *a,
                         struct sandbox_row *ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e, sql, "s", key->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        sandboxes_read(rows, a, ret);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc;
}

int sandboxes_get(struct db *db, const struct ulid *id, struct arena *a, struct sandbox_row *ret,
                  struct err *e)
{
    int rc = sandboxes_one(db, "SELECT " SANDBOX_COLUMNS " FROM sandbox WHERE id=?", id, a, ret, e);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text)
                   : (rc > 0 ? 0 : -1);
}

int sandboxes_of_app(struct db *db, const struct ulid *app_id, struct arena *a,
                     struct sandbox_row *ret, struct err *e)
{
    int rc = sandboxes_one(
        db, "SELECT " SANDBOX_COLUMNS " FROM sandbox WHERE app_id=? AND status<>'deleted'", app_id,
        a, ret, e);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "the app %s has no sandbox", app_id->text)
                   : (rc > 0 ? 0 : -1);
}

static int sandboxes_count(struct db_conn *conn, int64_t *ret, struct err *e)
{
    struct db_rows *rows =
        db_query(conn, e, "SELECT count(*) FROM sandbox WHERE status<>'deleted'", "");
    int rc = rows ? db_next(rows, e) : -1;
    *ret = rc > 0 ? db_int(rows, 0) : 0;
    db_rows_end(rows);
    return rc < 0 ? -1 : 0;
}

int sandboxes_list(struct db *db, struct arena *a, struct sandbox_row **ret, size_t *ret_count,
                   struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    int64_t total = 0;
    size_t count = 0;
    int rc = sandboxes_count(conn, &total, e);
    total = total > SANDBOX_LIST_MAX ? SANDBOX_LIST_MAX : total;
    struct sandbox_row *list = arena_alloc(a, sizeof(*list) * (size_t)(total + 1));
    struct db_rows *rows =
        rc == 0 ? db_query(conn, e,
                           "SELECT " SANDBOX_COLUMNS
                           " FROM sandbox WHERE status<>'deleted' ORDER BY id LIMIT ?",
                           "i", total)
                : NULL;
    rc = rows ? 1 : -1;
    while (rc > 0 && (rc = db_next(rows, e)) > 0) {
        sandboxes_read(rows, a, &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

#define SANDBOXES_SET_STATUS                                                       \
    "UPDATE sandbox SET"                                                           \
    " started_at=CASE WHEN ?1='running' AND status<>'running' THEN ?4 ELSE"        \
    " started_at END,"                                                             \
    " stopped_at=CASE WHEN ?1='running' THEN 0 WHEN ?1 IN ('stopped','error') AND" \
    " stopped_at=0 THEN ?4 ELSE stopped_at END,"                                   \
    " last_active_at=CASE WHEN ?1='running' AND status<>'running' THEN ?4 ELSE"    \
    " last_active_at END,"                                                         \
    " status=?1, error_code=?2, error_message=?3, updated_at=?4"
#define SANDBOXES_STILL_THERE " WHERE id=?5 AND status<>'deleted'"

int sandboxes_set_status(struct db *db, const struct ulid *id, enum sandbox_status status,
                         const char *error_code, const char *error_message, struct err *e)
{
    return db_write(db, NULL, e, SANDBOXES_SET_STATUS SANDBOXES_STILL_THERE, "sssis",
                    sandbox_status_name(status), error_code, error_message, clock_unix_ms(),
                    id->text);
}

int sandboxes_set_kill(struct db *db, const struct ulid *id, int64_t oom_kills,
                       const char *error_code, const char *error_message, struct err *e)
{
    return db_write(
        db, NULL, e,
        "UPDATE sandbox SET oom_kills=?1, error_code=?2, error_message=?3, updated_at=?4"
        " WHERE id=?5 AND status='running'",
        "issis", oom_kills, error_code, error_message, clock_unix_ms(), id->text);
}

int sandboxes_next_generation(struct db *db, const struct ulid *id, enum sandbox_status status,
                              int64_t *ret_generation, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    struct db_rows *rows =
        db_query(conn, e,
                 SANDBOXES_SET_STATUS ", generation=generation+1, oom_kills=0" SANDBOXES_STILL_THERE
                                      " RETURNING generation",
                 "sssis", sandbox_status_name(status), "", "", clock_unix_ms(), id->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        *ret_generation = db_int(rows, 0);
        rc = db_next(rows, e);
    } else if (rc == 0) {
        rc = err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
    }
    db_rows_end(rows);
    return db_write_end(db, conn, rc, e);
}

int sandboxes_note(struct db *db, const struct ulid *id, int64_t usual_start_ms,
                   int64_t peak_memory_bytes, int64_t last_active_at, struct err *e)
{
    return db_write(db, NULL, e,
                    "UPDATE sandbox SET"
                    " usual_start_ms=CASE WHEN ?1<0 THEN usual_start_ms ELSE ?1 END,"
                    " peak_memory_bytes=CASE WHEN ?2<0 THEN peak_memory_bytes ELSE ?2 END,"
                    " last_active_at=max(last_active_at, ?3) WHERE id=?4",
                    "iiis", usual_start_ms, peak_memory_bytes, last_active_at, id->text);
}

int sandboxes_set_keep_alive(struct db *db, const struct ulid *id, int64_t until, struct err *e)
{
    return db_write(db, NULL, e, "UPDATE sandbox SET keep_alive_until=? WHERE id=?", "is", until,
                    id->text);
}

int sandboxes_set_stays_stopped(struct db *db, const struct ulid *id, bool stays, struct err *e)
{
    return db_write(db, NULL, e,
                    "UPDATE sandbox SET stays_stopped=?1 WHERE id=?2 AND stays_stopped<>?1", "is",
                    (int64_t)stays, id->text);
}

int sandboxes_set_disk(struct db *db, const struct ulid *id, int64_t bytes, struct err *e)
{
    return db_write(db, NULL, e, "UPDATE sandbox SET disk_bytes=?, disk_at=? WHERE id=?", "iis",
                    bytes, clock_unix_ms(), id->text);
}

int sandboxes_finish_delete(struct db *db, const struct ulid *id, struct err *e)
{
    return db_write(db, NULL, e,
                    "UPDATE sandbox SET status='deleted', uid_number=NULL, updated_at=? WHERE id=?",
                    "is", clock_unix_ms(), id->text);
}

int sandboxes_forget(struct db *db, const struct ulid *id, struct err *e)
{
    return db_write(db, NULL, e, "DELETE FROM sandbox WHERE id=?", "s", id->text);
}

/* What a list shows: less than half of the columns, and a list is asked for often. */
static void sandboxes_read_short(struct db_rows *rows, struct arena *a, struct sandbox_row *ret)
{
    *ret = (struct sandbox_row){
        .status = sandboxes_status_of(db_text(rows, 2, a)),
        .image = db_text(rows, 3, a),
        .web_port = (uint16_t)db_int(rows, 5),
        .error_code = "",
        .error_message = "",
        .disk_bytes = db_is_null(rows, 6) ? -1 : db_int(rows, 6),
        .disk_at = db_int(rows, 7),
    };
    (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->id);
    (void)ulid_parse(str_of(db_text(rows, 1, a)), &ret->app_id);
    sandboxes_read_ports(str_of(db_text(rows, 4, a)), ret);
}

int sandboxes_of_page(struct db *db, const struct ulid *first_app, const struct ulid *last_app,
                      size_t max, struct arena *a, struct sandbox_row **ret, size_t *ret_count,
                      struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT id,app_id,status,image,ports,web_port,disk_bytes,disk_at FROM sandbox"
                 " WHERE app_id BETWEEN ? AND ? AND status<>'deleted' ORDER BY app_id DESC LIMIT ?",
                 "ssi", first_app->text, last_app->text, (int64_t)max);
    struct sandbox_row *list = arena_alloc(a, sizeof(*list) * (max + 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < max && (rc = db_next(rows, e)) > 0) {
        sandboxes_read_short(rows, a, &list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

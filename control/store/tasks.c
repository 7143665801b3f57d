/*
 * Tasks and their events. Any thread.
 */
#include "control/store/tasks.h"

#include "lib/buf.h"
#include "lib/clock.h"
#include "lib/json_write.h"

#define TASK_OPEN_MAX        10000
#define TASK_EVENT_BYTES_MAX (1024UL * 1024)
#define TASK_COLUMNS                                                                             \
    "id,app_id,sandbox_id,agent,model,prompt,status,failure_reason,error_message,agent_message," \
    "timeout_s,boot_id,line_seq,session,token_box,tokens_input,tokens_output,tokens_cached,"     \
    "cost_microusd,created_at,started_at,finished_at,requests,unpriced,budget_microusd,"         \
    "budget_tokens"

static const char *const task_status_names[] = {
    [TASK_QUEUED] = "queued",
    [TASK_RUNNING] = "running",
    [TASK_SUCCEEDED] = "succeeded",
    [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
    [TASK_TIMED_OUT] = "timed_out",
    [TASK_BUDGET_REACHED] = "budget_reached",
    [TASK_INTERRUPTED] = "interrupted",
};

const char *task_status_name(enum task_status status)
{
    return task_status_names[status];
}

static enum task_status tasks_status_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(task_status_names); i++) {
        if (strcmp(task_status_names[i], name) == 0) {
            return (enum task_status)i;
        }
    }
    return TASK_FAILED;
}

static int64_t tasks_figure(struct db_rows *rows, int column)
{
    return db_is_null(rows, column) ? -1 : db_int(rows, column);
}

static void tasks_read(struct db_rows *rows, struct arena *a, struct task_row *ret)
{
    *ret = (struct task_row){
        .agent = db_text(rows, 3, a),
        .model = db_text(rows, 4, a),
        .prompt = db_text(rows, 5, a),
        .status = tasks_status_of(db_text(rows, 6, a)),
        .failure_reason = db_text(rows, 7, a),
        .error_message = db_text(rows, 8, a),
        .agent_message = db_text(rows, 9, a),
        .timeout_s = db_int(rows, 10),
        .boot_id = db_text(rows, 11, a),
        .line_seq = db_int(rows, 12),
        .session = db_text(rows, 13, a),
        .token_box = db_text(rows, 14, a),
        .tokens_input = tasks_figure(rows, 15),
        .tokens_output = tasks_figure(rows, 16),
        .tokens_cached = tasks_figure(rows, 17),
        .cost_microusd = tasks_figure(rows, 18),
        .created_at = db_int(rows, 19),
        .started_at = db_int(rows, 20),
        .finished_at = db_int(rows, 21),
        .requests = db_int(rows, 22),
        .unpriced = db_int(rows, 23),
        .budget_microusd = tasks_figure(rows, 24),
        .budget_tokens = tasks_figure(rows, 25),
    };
    (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->id);
    (void)ulid_parse(str_of(db_text(rows, 1, a)), &ret->app_id);
    (void)ulid_parse(str_of(db_text(rows, 2, a)), &ret->sandbox_id);
}

int tasks_insert(struct db *db, const struct task_row *row, struct err *e)
{
    return db_write(db, NULL, e,
                    "INSERT INTO task(id,app_id,sandbox_id,agent,model,prompt,status,timeout_s,"
                    "created_at,budget_microusd,budget_tokens)"
                    " VALUES(?,?,?,?,?,?,'queued',?,?,nullif(max(?,0),0),nullif(max(?,0),0))",
                    "ssssssiiii", row->id.text, row->app_id.text, row->sandbox_id.text, row->agent,
                    row->model, row->prompt, row->timeout_s, row->created_at, row->budget_microusd,
                    row->budget_tokens);
}

static int tasks_one(struct db *db, const char *sql, const struct ulid *key, struct arena *a,
                     struct task_row *ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e, sql, "s", key->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        tasks_read(rows, a, ret);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc;
}

int tasks_get(struct db *db, const struct ulid *id, struct arena *a, struct task_row *ret,
              struct err *e)
{
    int rc = tasks_one(db, "SELECT " TASK_COLUMNS " FROM task WHERE id=?", id, a, ret, e);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "there is no task %s", id->text)
                   : (rc > 0 ? 0 : -1);
}

int tasks_next_queued(struct db *db, const struct ulid *sandbox_id, struct arena *a,
                      struct task_row *ret, struct err *e)
{
    int rc = tasks_one(db,
                       "SELECT " TASK_COLUMNS
                       " FROM task WHERE sandbox_id=? AND status='queued' ORDER BY id LIMIT 1",
                       sandbox_id, a, ret, e);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "no task waits for %s", sandbox_id->text)
                   : (rc > 0 ? 0 : -1);
}

size_t tasks_row_bytes(const struct task_row *row)
{
    return strlen(row->prompt) + strlen(row->agent_message) + strlen(row->error_message);
}

static int tasks_collect(struct db *db, struct db_conn *conn, struct db_rows *rows, size_t max,
                         struct arena *a, struct task_row **ret, size_t *ret_count, struct err *e)
{
    struct task_row *list = arena_alloc(a, sizeof(*list) * (max > 0 ? max : 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    size_t bytes = 0;
    while (rc > 0 && count < max && bytes < TASKS_PAGE_BYTES && (rc = db_next(rows, e)) > 0) {
        tasks_read(rows, a, &list[count]);
        bytes += tasks_row_bytes(&list[count++]);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int tasks_list(struct db *db, const struct ulid *sandbox_id, const struct ulid *app_id,
               const char *before, int limit, struct arena *a, struct task_row **ret,
               size_t *ret_count, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        sandbox_id
            ? db_query(conn, e,
                       "SELECT " TASK_COLUMNS " FROM task WHERE sandbox_id=?1 AND (?2='' OR id<?2)"
                       " ORDER BY id DESC LIMIT ?3",
                       "ssi", sandbox_id->text, before, (int64_t)limit)
            : db_query(conn, e,
                       "SELECT " TASK_COLUMNS " FROM task WHERE app_id=?1 AND (?2='' OR id<?2)"
                       " ORDER BY id DESC LIMIT ?3",
                       "ssi", app_id->text, before, (int64_t)limit);
    return tasks_collect(db, conn, rows, (size_t)limit, a, ret, ret_count, e);
}

int tasks_list_open(struct db *db, struct arena *a, struct task_open **ret, size_t *ret_count,
                    struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct task_open *list = arena_alloc(a, sizeof(*list) * TASK_OPEN_MAX);
    size_t count = 0;
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT id,app_id,sandbox_id,status='running',agent,token_box"
                 " FROM task WHERE status IN ('queued','running') ORDER BY id LIMIT ?",
                 "i", (int64_t)TASK_OPEN_MAX);
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < TASK_OPEN_MAX && (rc = db_next(rows, e)) > 0) {
        struct task_open *open = &list[count++];
        (void)ulid_parse(str_of(db_text(rows, 0, a)), &open->id);
        (void)ulid_parse(str_of(db_text(rows, 1, a)), &open->app_id);
        (void)ulid_parse(str_of(db_text(rows, 2, a)), &open->sandbox_id);
        open->running = db_int(rows, 3) != 0;
        open->agent = db_text(rows, 4, a);
        open->token_box = db_text(rows, 5, a);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int tasks_mark_running(struct db *db, const struct ulid *id, const char *boot_id,
                       const char *token_box, struct err *e)
{
    int64_t changes = 0;
    if (db_write(db, &changes, e,
                 "UPDATE task SET status='running', boot_id=?, token_box=?, started_at=?"
                 " WHERE id=? AND status='queued'",
                 "ssis", boot_id, token_box, clock_unix_ms(), id->text) != 0) {
        return -1;
    }
    return changes ? 0 : err_set(e, ERR_CONFLICT, 0, "the task %s is not queued", id->text);
}

int tasks_set_model(struct db *db, const struct ulid *id, const char *model, struct err *e)
{
    return db_write(db, NULL, e, "UPDATE task SET model=? WHERE id=?", "ss", model, id->text);
}

int tasks_set_session(struct db *db, const struct ulid *id, const char *session, struct err *e)
{
    return db_write(db, NULL, e, "UPDATE task SET session=? WHERE id=?", "ss", session, id->text);
}

int tasks_facts(struct db *db, const struct ulid *id, struct arena *a, const char **ret,
                struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e, "SELECT facts FROM task WHERE id=?", "s", id->text);
    int rc = rows ? db_next(rows, e) : -1;
    *ret = rc > 0 ? db_text(rows, 0, a) : "";
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc < 0 ? -1 : 0;
}

int tasks_last_session(struct db *db, const struct ulid *sandbox_id, const char *agent,
                       struct arena *a, const char **ret, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT session FROM task WHERE sandbox_id=? AND agent=? AND session<>''"
                 " AND status NOT IN ('queued','running') ORDER BY id DESC LIMIT 1",
                 "ss", sandbox_id->text, agent);
    int rc = rows ? db_next(rows, e) : -1;
    *ret = rc > 0 ? db_text(rows, 0, a) : "";
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc < 0 ? -1 : 0;
}

/* Last event number of the task, or -1 when the task is over or unknown. */
static int tasks_open_seq(struct db_conn *conn, const struct ulid *id, int64_t *ret_seq,
                          struct err *e)
{
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT coalesce((SELECT max(seq) FROM task_event WHERE task_id=?1),0) FROM task"
                 " WHERE id=?1 AND status IN ('queued','running')",
                 "s", id->text);
    int rc = rows ? db_next(rows, e) : -1;
    *ret_seq = rc > 0 ? db_int(rows, 0) : -1;
    db_rows_end(rows);
    return rc < 0 ? -1 : 0;
}

static int tasks_put_event(struct db_conn *conn, const struct ulid *id, int64_t seq,
                           const char *type, struct str fields, struct err *e)
{
    BUF_AUTO(data, TASK_EVENT_BYTES_MAX);
    struct json_writer w;
    int64_t now = clock_unix_ms();
    json_begin(&w, &data);
    json_object(&w, NULL);
    json_int(&w, "seq", seq);
    json_time(&w, "at", now);
    json_text(&w, "type", type);
    if (fields.len > 0) {
        buf_putc(&data, ',');
        buf_add_str(&data, fields);
    }
    json_object_end(&w);
    if (!buf_ok(&data)) {
        return err_set(e, ERR_LIMIT, 0, "a task event of more than %zu bytes", data.max);
    }
    return db_exec(conn, e, "INSERT INTO task_event(task_id,seq,at,type,data) VALUES(?,?,?,?,?)",
                   "siist", id->text, seq, now, type, buf_str(&data));
}

int tasks_add_lines(struct db *db, const struct ulid *id, const struct task_event_new *events,
                    size_t count, int64_t line_seq, const char *facts, struct err *e)
{
    struct db_conn *conn = NULL;
    int64_t seq = -1;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = tasks_open_seq(conn, id, &seq, e);
    for (size_t i = 0; rc == 0 && seq >= 0 && i < count; i++) {
        rc = tasks_put_event(conn, id, seq + 1 + (int64_t)i, events[i].type, events[i].fields, e);
    }
    if (rc == 0 && line_seq >= 0) {
        rc = db_exec(conn, e,
                     "UPDATE task SET line_seq=max(line_seq,?), facts=coalesce(?,facts) WHERE id=?",
                     "iss", line_seq, facts, id->text);
    }
    return db_write_end(db, conn, rc, e);
}

int tasks_add_events(struct db *db, const struct ulid *id, const struct task_event_new *events,
                     size_t count, int64_t line_seq, struct err *e)
{
    return tasks_add_lines(db, id, events, count, line_seq, NULL, e);
}

static int tasks_put_end(struct db_conn *conn, const struct task_row *row, struct err *e)
{
    return db_exec(conn, e,
                   "UPDATE task SET status=?, failure_reason=?, error_message=?, agent_message=?,"
                   " token_box='', facts='',"
                   /* What was counted on the way wins over what the agent says of itself. */
                   " tokens_input=iif(requests>0,tokens_input,nullif(?,-1)),"
                   " tokens_output=iif(requests>0,tokens_output,nullif(?,-1)),"
                   " tokens_cached=iif(requests>0,tokens_cached,nullif(?,-1)),"
                   " cost_microusd=iif(requests>0,cost_microusd,nullif(?,-1)), finished_at=?"
                   " WHERE id=?",
                   "ssssiiiiis", task_status_name(row->status), row->failure_reason,
                   row->error_message, row->agent_message, row->tokens_input, row->tokens_output,
                   row->tokens_cached, row->cost_microusd, clock_unix_ms(), row->id.text);
}

int tasks_finish(struct db *db, const struct task_row *row, struct str done_fields,
                 bool *ret_changed, struct err *e)
{
    struct db_conn *conn = NULL;
    int64_t seq = -1;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = tasks_open_seq(conn, &row->id, &seq, e);
    if (rc == 0 && seq >= 0) {
        rc = tasks_put_event(conn, &row->id, seq + 1, "done", done_fields, e);
        rc = rc == 0 ? tasks_put_end(conn, row, e) : rc;
    }
    if (db_write_end(db, conn, rc, e) != 0) {
        return -1;
    }
    *ret_changed = seq >= 0;
    return 0;
}

int tasks_events(struct db *db, const struct ulid *id, int64_t after_seq, int limit,
                 struct arena *a, struct task_event_row **ret, size_t *ret_count, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e,
                                    "SELECT seq,at,type,data FROM task_event WHERE task_id=? AND"
                                    " seq>? ORDER BY seq LIMIT ?",
                                    "sii", id->text, after_seq, (int64_t)limit);
    struct task_event_row *list = arena_alloc(a, sizeof(*list) * (size_t)(limit > 0 ? limit : 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < (size_t)limit && (rc = db_next(rows, e)) > 0) {
        list[count++] = (struct task_event_row){.seq = db_int(rows, 0),
                                                .at = db_int(rows, 1),
                                                .type = db_text(rows, 2, a),
                                                .data = db_text(rows, 3, a)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

/*
 * Usage tables. Any thread.
 */
#include "control/store/usage.h"

#include "lib/clock.h"

#define USAGE_SUMS                                                                 \
    "coalesce(sum(requests),0),coalesce(sum(failed),0),coalesce(sum(unpriced),0)," \
    "coalesce(sum(input),0),coalesce(sum(output),0),coalesce(sum(cached_read),0)," \
    "coalesce(sum(cached_write),0),coalesce(sum(cost_microusd),0)"
#define USAGE_WHERE                                                                            \
    " FROM usage WHERE day>=?1 AND day<=?2 AND (?3='' OR app_id=?3) AND (?4='' OR task_id=?4)" \
    " AND (?5='' OR provider=?5)"

static int usage_add_seen(struct db_conn *conn, const struct usage_row *row, bool *ret_new,
                          struct err *e)
{
    int rc = db_exec(conn, e, "INSERT OR IGNORE INTO usage_seen(boot_id,n) VALUES(?,?)", "si",
                     row->boot_id, row->n);
    *ret_new = rc == 0 && db_changes(conn) > 0;
    return rc;
}

static int usage_add_sums(struct db_conn *conn, const struct usage_row *row, struct err *e)
{
    int64_t cost = row->cost_microusd > 0 ? row->cost_microusd : 0;
    int64_t unpriced = row->cost_microusd < 0;
    return db_exec(conn, e,
                   "INSERT INTO usage(day,task_id,provider,model,key_id,app_id,agent,requests,"
                   "failed,unpriced,input,output,cached_read,cached_write,cost_microusd)"
                   " VALUES(?,?,?,?,?,?,?,1,?,?,?,?,?,?,?)"
                   " ON CONFLICT(day,task_id,provider,model,key_id) DO UPDATE SET"
                   " requests=requests+1, failed=failed+excluded.failed,"
                   " unpriced=unpriced+excluded.unpriced, input=input+excluded.input,"
                   " output=output+excluded.output, cached_read=cached_read+excluded.cached_read,"
                   " cached_write=cached_write+excluded.cached_write,"
                   " cost_microusd=cost_microusd+excluded.cost_microusd",
                   "issssssiiiiiii", row->day, row->task_id, row->provider, row->model, row->key_id,
                   row->app_id, row->agent, (int64_t)row->failed, unpriced, row->input, row->output,
                   row->cached_read, row->cached_write, cost);
}

/* What the agent said about itself before counts no longer: the first request starts from nothing.
 */
static int usage_add_task(struct db_conn *conn, const struct usage_row *row, struct err *e)
{
    int64_t cost = row->cost_microusd > 0 ? row->cost_microusd : 0;
    int64_t unpriced = row->cost_microusd < 0;
    return db_exec(conn, e,
                   "UPDATE task SET"
                   " tokens_input=iif(requests>0,coalesce(tokens_input,0),0)+?1,"
                   " tokens_output=iif(requests>0,coalesce(tokens_output,0),0)+?2,"
                   " tokens_cached=iif(requests>0,coalesce(tokens_cached,0),0)+?3,"
                   " cost_microusd=iif(requests>0,coalesce(cost_microusd,0),0)+?4,"
                   " unpriced=unpriced+?5, requests=requests+1 WHERE id=?6",
                   "iiiiis", row->input + row->cached_write, row->output, row->cached_read, cost,
                   unpriced, row->task_id);
}

static int usage_forget_settled(struct db_conn *conn, const struct usage_row *row, struct err *e)
{
    return db_exec(conn, e, "DELETE FROM usage_seen WHERE boot_id=? AND n<?", "si", row->boot_id,
                   row->settled_below);
}

static int usage_add_one(struct db_conn *conn, const struct usage_row *row, struct err *e)
{
    bool is_new = false;
    if (usage_add_seen(conn, row, &is_new, e) != 0) {
        return -1;
    }
    if (!is_new) {
        return 0;
    }
    if (usage_add_sums(conn, row, e) != 0 || usage_add_task(conn, row, e) != 0 ||
        usage_forget_settled(conn, row, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < row->event_count; i++) {
        if (events_put(conn, &row->events[i], e) != 0) {
            return -1;
        }
    }
    return 0;
}

int usage_add(struct db *db, const struct usage_row *rows, size_t count, struct err *e)
{
    struct db_conn *conn = NULL;
    if (db_write_begin(db, &conn, e) != 0) {
        return -1;
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = usage_add_one(conn, &rows[i], e);
    }
    return db_write_end(db, conn, rc, e);
}

int usage_forget_others(struct db *db, const char *boot_id, struct err *e)
{
    return db_write(db, NULL, e, "DELETE FROM usage_seen WHERE boot_id<>?", "s", boot_id);
}

bool usage_is_known(struct db *db, const char *boot_id, int64_t n)
{
    struct db_conn *conn = db_read_begin(db);
    struct err e;
    struct db_rows *rows =
        db_query(conn, &e, "SELECT 1 FROM usage_seen WHERE boot_id=? AND n=?", "si", boot_id, n);
    bool known = rows && db_next(rows, &e) > 0;
    db_rows_end(rows);
    db_read_end(db, conn);
    return known;
}

static struct usage_sums usage_read(struct db_rows *rows, int at)
{
    return (struct usage_sums){.requests = db_int(rows, at),
                               .failed = db_int(rows, at + 1),
                               .unpriced = db_int(rows, at + 2),
                               .input = db_int(rows, at + 3),
                               .output = db_int(rows, at + 4),
                               .cached_read = db_int(rows, at + 5),
                               .cached_write = db_int(rows, at + 6),
                               .cost_microusd = db_int(rows, at + 7)};
}

/* A task is one app's: the others' is of no use. */
#define USAGE_APP ",max(app_id)"

/* One statement per group: SQL is static text. */
#define USAGE_GROUPED(column)                                                           \
    "SELECT " column "," USAGE_SUMS USAGE_APP USAGE_WHERE " AND (?6='' OR CAST(" column \
    " AS TEXT)>?6) GROUP BY " column " ORDER BY CAST(" column " AS TEXT) LIMIT ?7"

static const char *const usage_sql[] = {
    [USAGE_BY_NOTHING] =
        "SELECT ''," USAGE_SUMS USAGE_APP USAGE_WHERE " AND ?6='' HAVING sum(requests)>0"
        " LIMIT ?7",
    [USAGE_BY_DAY] = USAGE_GROUPED("day"),
    [USAGE_BY_APP] = USAGE_GROUPED("app_id"),
    [USAGE_BY_TASK] = USAGE_GROUPED("task_id"),
    [USAGE_BY_AGENT] = USAGE_GROUPED("agent"),
    [USAGE_BY_PROVIDER] = USAGE_GROUPED("provider"),
    [USAGE_BY_MODEL] = USAGE_GROUPED("model"),
    [USAGE_BY_KEY] = USAGE_GROUPED("key_id"),
};

int usage_list(struct db *db, const struct usage_filter *filter, enum usage_group group,
               const char *after, int limit, struct arena *a, struct usage_line **ret,
               size_t *ret_count, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, usage_sql[group], "iissssi", filter->from_day, filter->to_day,
                 filter->app_id, filter->task_id, filter->provider, after, (int64_t)limit);
    struct usage_line *list = arena_alloc(a, sizeof(*list) * (size_t)(limit > 0 ? limit : 1));
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < (size_t)limit && (rc = db_next(rows, e)) > 0) {
        list[count++] = (struct usage_line){.group = db_text(rows, 0, a),
                                            .sums = usage_read(rows, 1),
                                            .app_id = db_text(rows, 9, a)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int usage_sum(struct db *db, const struct usage_filter *filter, struct usage_sums *ret,
              struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, "SELECT " USAGE_SUMS USAGE_WHERE, "iisss", filter->from_day,
                 filter->to_day, filter->app_id, filter->task_id, filter->provider);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        *ret = usage_read(rows, 0);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc > 0 ? 0 : -1;
}

/*
 * Budgets and prices tables. Any thread.
 */
#include "control/store/budgets.h"

#include "lib/clock.h"

#define BUDGETS_MAX 4096
#define PRICES_MAX  4096

static const char *const budget_scope_names[] = {
    [BUDGET_TASK] = "task",
    [BUDGET_APP] = "app",
    [BUDGET_DAY] = "day",
    [BUDGET_INSTALLATION] = "installation",
};

const char *budget_scope_name(enum budget_scope scope)
{
    return budget_scope_names[scope];
}

static enum budget_scope budgets_scope_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(budget_scope_names); i++) {
        if (strcmp(budget_scope_names[i], name) == 0) {
            return (enum budget_scope)i;
        }
    }
    return BUDGET_INSTALLATION;
}

static int64_t budgets_limit(struct db_rows *rows, int column)
{
    return db_is_null(rows, column) ? -1 : db_int(rows, column);
}

int budgets_list(struct db *db, struct arena *a, struct budget_row **ret, size_t *ret_count,
                 struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT scope,app_id,limit_microusd,limit_tokens,allow_unknown_price,"
                 "base_microusd,base_tokens,since_at FROM budget ORDER BY scope,app_id LIMIT ?",
                 "i", (int64_t)BUDGETS_MAX);
    struct budget_row *list = arena_alloc(a, sizeof(*list) * BUDGETS_MAX);
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < BUDGETS_MAX && (rc = db_next(rows, e)) > 0) {
        list[count++] = (struct budget_row){.scope = budgets_scope_of(db_text(rows, 0, a)),
                                            .app_id = db_text(rows, 1, a),
                                            .limit_microusd = budgets_limit(rows, 2),
                                            .limit_tokens = budgets_limit(rows, 3),
                                            .allow_unknown_price = db_int(rows, 4) != 0,
                                            .base_microusd = db_int(rows, 5),
                                            .base_tokens = db_int(rows, 6),
                                            .since_at = db_int(rows, 7)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int budgets_put(struct db *db, const struct budget_row *row, struct err *e)
{
    return db_write(db, NULL, e,
                    "INSERT INTO budget(scope,app_id,limit_microusd,limit_tokens,"
                    "allow_unknown_price,base_microusd,base_tokens,since_at)"
                    " VALUES(?,?,nullif(?,-1),nullif(?,-1),?,?,?,?)"
                    " ON CONFLICT(scope,app_id) DO UPDATE SET"
                    " limit_microusd=excluded.limit_microusd, limit_tokens=excluded.limit_tokens,"
                    " allow_unknown_price=excluded.allow_unknown_price,"
                    " base_microusd=excluded.base_microusd, base_tokens=excluded.base_tokens,"
                    " since_at=excluded.since_at",
                    "ssiiiiii", budget_scope_name(row->scope), row->app_id, row->limit_microusd,
                    row->limit_tokens, (int64_t)row->allow_unknown_price, row->base_microusd,
                    row->base_tokens, row->since_at);
}

int budgets_remove(struct db *db, enum budget_scope scope, const char *app_id, struct err *e)
{
    return db_write(db, NULL, e, "DELETE FROM budget WHERE scope=? AND app_id=?", "ss",
                    budget_scope_name(scope), app_id);
}

/* ---- prices ---- */

int prices_list(struct db *db, struct arena *a, struct price_row **ret, size_t *ret_count,
                struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e,
                                    "SELECT provider,model,input,output,cached_read,cached_write"
                                    " FROM price ORDER BY provider,model LIMIT ?",
                                    "i", (int64_t)PRICES_MAX);
    struct price_row *list = arena_alloc(a, sizeof(*list) * PRICES_MAX);
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < PRICES_MAX && (rc = db_next(rows, e)) > 0) {
        list[count++] = (struct price_row){.provider = db_text(rows, 0, a),
                                           .model = db_text(rows, 1, a),
                                           .input = db_int(rows, 2),
                                           .output = db_int(rows, 3),
                                           .cached_read = db_int(rows, 4),
                                           .cached_write = db_int(rows, 5)};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int prices_put(struct db *db, const struct price_row *row, struct err *e)
{
    return db_write(db, NULL, e,
                    "INSERT INTO price(provider,model,input,output,cached_read,cached_write)"
                    " VALUES(?,?,?,?,?,?) ON CONFLICT(provider,model) DO UPDATE SET"
                    " input=excluded.input, output=excluded.output,"
                    " cached_read=excluded.cached_read, cached_write=excluded.cached_write",
                    "ssiiii", row->provider, row->model, row->input, row->output, row->cached_read,
                    row->cached_write);
}

int prices_remove(struct db *db, const char *provider, const char *model, struct err *e)
{
    int64_t changes = 0;
    if (db_write(db, &changes, e, "DELETE FROM price WHERE provider=? AND model=?", "ss", provider,
                 model) != 0) {
        return -1;
    }
    return changes > 0 ? 0
                       : err_set(e, ERR_NOT_FOUND, 0, "there is no price of your own for %s of %s",
                                 model, provider);
}

/* ---- a task's spend ---- */

int task_spend_get(struct db *db, const struct ulid *task, struct task_spend *ret, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(65536);
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e,
                 "SELECT app_id,budget_microusd,budget_tokens,"
                 "(SELECT coalesce(sum(cost_microusd),0) FROM usage WHERE task_id=?1),"
                 "(SELECT coalesce(sum(input+output+cached_read+cached_write),0) FROM usage"
                 " WHERE task_id=?1) FROM task WHERE id=?1",
                 "s", task->text);
    int rc = rows ? db_next(rows, e) : -1;
    if (rc > 0) {
        *ret = (struct task_spend){.budget_microusd = budgets_limit(rows, 1),
                                   .budget_tokens = budgets_limit(rows, 2),
                                   .microusd = db_int(rows, 3),
                                   .tokens = db_int(rows, 4)};
        (void)ulid_parse(str_of(db_text(rows, 0, a)), &ret->app_id);
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, 0, "there is no task %s", task->text)
                   : (rc > 0 ? 0 : -1);
}

int task_refusal_put(struct db *db, const struct ulid *task, const char *code, const char *message,
                     struct err *e)
{
    return db_write(db, NULL, e,
                    "UPDATE task SET refusal_code=?, refusal=? WHERE id=? AND refusal_code=''",
                    "sss", code, message, task->text);
}

int task_refusal_get(struct db *db, const struct ulid *task, struct arena *a, const char **ret_code,
                     const char **ret_message, struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows =
        db_query(conn, e, "SELECT refusal_code,refusal FROM task WHERE id=?", "s", task->text);
    int rc = rows ? db_next(rows, e) : -1;
    *ret_code = rc > 0 ? db_text(rows, 0, a) : "";
    *ret_message = rc > 0 ? db_text(rows, 1, a) : "";
    db_rows_end(rows);
    db_read_end(db, conn);
    return rc < 0 ? -1 : 0;
}

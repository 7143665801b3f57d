/*
 * Providers table. Any thread.
 */
#include "control/store/providers.h"

#define PROVIDERS_MAX 64

int providers_list(struct db *db, struct arena *a, struct provider_row **ret, size_t *ret_count,
                   struct err *e)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, e,
                                    "SELECT id,kind,label,base_url,default_model,keyless"
                                    " FROM provider ORDER BY id LIMIT ?",
                                    "i", (int64_t)PROVIDERS_MAX);
    struct provider_row *list = arena_alloc(a, sizeof(*list) * PROVIDERS_MAX);
    size_t count = 0;
    int rc = rows ? 1 : -1;
    while (rc > 0 && count < PROVIDERS_MAX && (rc = db_next(rows, e)) > 0) {
        list[count++] = (struct provider_row){.id = db_text(rows, 0, a),
                                              .kind = db_text(rows, 1, a),
                                              .label = db_text(rows, 2, a),
                                              .base_url = db_text(rows, 3, a),
                                              .default_model = db_text(rows, 4, a),
                                              .keyless = db_int(rows, 5) != 0};
    }
    db_rows_end(rows);
    db_read_end(db, conn);
    *ret = list;
    *ret_count = count;
    return rc < 0 ? -1 : 0;
}

int providers_put(struct db *db, const struct provider_row *row, struct err *e)
{
    return db_write(db, NULL, e,
                    "INSERT INTO provider(id,kind,label,base_url,default_model,keyless)"
                    " VALUES(?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET kind=excluded.kind,"
                    " label=excluded.label, base_url=excluded.base_url,"
                    " default_model=excluded.default_model, keyless=excluded.keyless",
                    "sssssi", row->id, row->kind, row->label, row->base_url, row->default_model,
                    (int64_t)row->keyless);
}

int providers_remove(struct db *db, const char *id, struct err *e)
{
    return db_write(db, NULL, e, "DELETE FROM provider WHERE id=?", "s", id);
}

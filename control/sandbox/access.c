/*
 * Who may load a preview, as far as the table of sandboxes and the proxy must know. Any thread.
 */
#include "control/store/access.h"

#include "control/sandbox/table.h"
#include "lib/log.h"
#include "lib/thread.h"

#define ACCESS_ARENA_BYTES (64UL * 1024 * 1024)

/* Epochs only rise: what was read earlier and comes later changes nothing. Under the lock. */
static void access_apply(struct sandbox_service *s, struct sandbox *b, const struct access_row *row)
{
    if (!b->gone && ulid_eq(&b->app_id, &row->app_id) && row->epoch > b->access_epoch) {
        b->is_private = row->is_private;
        b->access_epoch = row->epoch;
        table_changed(s, b);
    }
}

void sandbox_access_changed(struct sandbox_service *s, const struct ulid *app_id)
{
    struct access_row row;
    struct err e;
    size_t bucket = 0;
    if (access_get(s->db, app_id, &row, &e) != 0) {
        if (e.code != ERR_NOT_FOUND) {
            log_error("cannot read who may load a preview", "app_id", app_id->text, "error", e.msg);
        }
        return;
    }
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        access_apply(s, b, &row);
    }
}

static int access_order(const void *a, const void *b)
{
    const struct access_row *left = a;
    const struct access_row *right = b;
    return strcmp(left->app_id.text, right->app_id.text);
}

static void access_apply_all(struct sandbox_service *s, const struct access_row *rows, size_t count)
{
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        const struct access_row key = {.app_id = b->app_id};
        const struct access_row *row = bsearch(&key, rows, count, sizeof(*rows), access_order);
        if (row) {
            access_apply(s, b, row);
        }
    }
}

void sandbox_access_sweep(struct sandbox_service *s)
{
    int64_t changes = access_changes(s->db);
    {
        LOCK_GUARD(&s->lock);
        if (changes == s->access_changes) {
            return;
        }
    }
    struct arena *a AUTO(arena) = arena_new(ACCESS_ARENA_BYTES);
    struct access_row *rows = NULL;
    size_t count = 0;
    struct err e;
    if (access_list(s->db, a, &rows, &count, &e) != 0) {
        log_error("cannot read who may load previews", "error", e.msg);
        return;
    }
    qsort(rows, count, sizeof(*rows), access_order);
    access_apply_all(s, rows, count);
    LOCK_GUARD(&s->lock);
    s->access_changes = changes;
}

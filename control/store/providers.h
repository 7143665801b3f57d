/*
 * Providers of the owner's own. Any thread.
 */
#pragma once

#include "control/store/db.h"

struct provider_row {
    const char *id;
    const char *kind;
    const char *label;
    const char *base_url;
    const char *default_model;
    bool keyless;
};

int providers_list(struct db *db, struct arena *a, struct provider_row **ret, size_t *ret_count,
                   struct err *e) MUST_CHECK;
int providers_put(struct db *db, const struct provider_row *row, struct err *e) MUST_CHECK;
int providers_remove(struct db *db, const char *id, struct err *e) MUST_CHECK;

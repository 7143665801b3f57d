/*
 * What was spent: sums per day, task, provider, model and key. Money is micro-USD. Any thread.
 */
#pragma once

#include "control/store/db.h"
#include "control/store/events.h"
#include "lib/ulid.h"

#define USAGE_DAY_MS 86400000

/* One request that is over. Strings are borrowed. */
struct usage_row {
    const char *boot_id; /* with n: counted once */
    int64_t n;
    int64_t settled_below; /* what was counted below need not be remembered any longer */
    int64_t day;           /* days since the epoch, UTC */
    const char *task_id;
    const char *app_id;
    const char *agent;
    const char *provider;
    const char *model;
    const char *key_id;
    bool failed;
    int64_t input;
    int64_t output;
    int64_t cached_read;
    int64_t cached_write;
    int64_t cost_microusd;          /* -1: unknown */
    const struct event_row *events; /* that it gave rise to; stored with it */
    size_t event_count;
};

/* Adds all of them in one transaction, to the sums and to their tasks' rows; what was counted
 * before is passed over. */
int usage_add(struct db *db, const struct usage_row *rows, size_t count, struct err *e) MUST_CHECK;
/* Forgets what was counted of other lives of the proxy than this one. */
int usage_forget_others(struct db *db, const char *boot_id, struct err *e) MUST_CHECK;
/* Was it counted already? */
bool usage_is_known(struct db *db, const char *boot_id, int64_t n);

struct usage_sums {
    int64_t requests;
    int64_t failed;
    int64_t unpriced; /* requests whose cost is unknown; the others make cost_microusd */
    int64_t input;
    int64_t output;
    int64_t cached_read;
    int64_t cached_write;
    int64_t cost_microusd;
};

static inline int64_t usage_tokens(const struct usage_sums *s)
{
    return s->input + s->output + s->cached_read + s->cached_write;
}

enum usage_group {
    USAGE_BY_NOTHING,
    USAGE_BY_DAY,
    USAGE_BY_APP,
    USAGE_BY_TASK,
    USAGE_BY_AGENT,
    USAGE_BY_PROVIDER,
    USAGE_BY_MODEL,
    USAGE_BY_KEY,
};

struct usage_filter {
    int64_t from_day; /* both included */
    int64_t to_day;
    const char *app_id; /* "" for all; so are the next two */
    const char *task_id;
    const char *provider;
};

struct usage_line {
    const char *group; /* a day's number as text, an id, a name */
    struct usage_sums sums;
    const char *app_id; /* whose a task is; of no meaning to other groups */
};

/* Sums by group, in the group's order, at most limit, groups above after ("" for all). */
int usage_list(struct db *db, const struct usage_filter *filter, enum usage_group group,
               const char *after, int limit, struct arena *a, struct usage_line **ret,
               size_t *ret_count, struct err *e) MUST_CHECK;
/* The sum of everything the filter lets through. */
int usage_sum(struct db *db, const struct usage_filter *filter, struct usage_sums *ret,
              struct err *e) MUST_CHECK;

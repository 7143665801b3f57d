/*
 * Budgets, prices of the owner's own, and what a task's row says about its spend. Any thread.
 */
#pragma once

#include "control/store/db.h"
#include "lib/ulid.h"

enum budget_scope {
    BUDGET_TASK, /* what a task gets that names no budget of its own */
    BUDGET_APP,
    BUDGET_DAY,
    BUDGET_INSTALLATION,
    BUDGET_SCOPES
};

const char *budget_scope_name(enum budget_scope scope);

/* A million USD in micro-USD, or so many tokens. */
#define BUDGET_LIMIT_MAX INT64_C(1000000000000)

struct budget_row {
    enum budget_scope scope;
    const char *app_id;     /* "" but for BUDGET_APP */
    int64_t limit_microusd; /* -1: no limit */
    int64_t limit_tokens;   /* -1: no limit */
    bool allow_unknown_price;
    int64_t base_microusd; /* what had been spent when counting began */
    int64_t base_tokens;
    int64_t since_at;
};

int budgets_list(struct db *db, struct arena *a, struct budget_row **ret, size_t *ret_count,
                 struct err *e) MUST_CHECK;
int budgets_put(struct db *db, const struct budget_row *row, struct err *e) MUST_CHECK;
int budgets_remove(struct db *db, enum budget_scope scope, const char *app_id, struct err *e)
    MUST_CHECK;

/* Micro-USD for a million tokens. */
struct price_row {
    const char *provider;
    const char *model;
    int64_t input;
    int64_t output;
    int64_t cached_read;
    int64_t cached_write;
};

int prices_list(struct db *db, struct arena *a, struct price_row **ret, size_t *ret_count,
                struct err *e) MUST_CHECK;
int prices_put(struct db *db, const struct price_row *row, struct err *e) MUST_CHECK;
int prices_remove(struct db *db, const char *provider, const char *model, struct err *e) MUST_CHECK;

struct task_spend {
    struct ulid app_id;
    int64_t budget_microusd; /* -1: none */
    int64_t budget_tokens;   /* -1: none */
    int64_t microusd;        /* spent so far */
    int64_t tokens;
};

/* ERR_NOT_FOUND. */
int task_spend_get(struct db *db, const struct ulid *task, struct task_spend *ret, struct err *e)
    MUST_CHECK;
/* The first refusal of a task stays: why it may ask no model any more. */
int task_refusal_put(struct db *db, const struct ulid *task, const char *code, const char *message,
                     struct err *e) MUST_CHECK;
/* Both "" when nothing was refused. */
int task_refusal_get(struct db *db, const struct ulid *task, struct arena *a, const char **ret_code,
                     const char **ret_message, struct err *e) MUST_CHECK;

/*
 * Inside of spend; private to control/vault/spend*.c.
 */
#pragma once

#include <pthread.h>

#include "control/store/usage.h"
#include "control/vault/spend.h"
#include "control/vault/vault_private.h"
#include "lib/clock.h"

#define SPEND_HOLDS_MAX    8192
#define SPEND_QUEUE_MAX    8192
#define SPEND_BOOT_MAX     64
#define SPEND_MODEL_MAX    200
#define SPEND_TEXT_MAX     512
#define SPEND_EVENTS_MAX   4 /* one for each budget that counts a request */
#define SPEND_BUDGETS_MAX  4096
#define SPEND_WARN_PERCENT 80

/* One budget and what was spent of it. */
struct spend_meter {
    struct spend_meter *next;
    enum budget_scope scope;
    struct ulid app;        /* of BUDGET_APP */
    int64_t limit_microusd; /* -1: none */
    int64_t limit_tokens;   /* -1: none */
    bool allow_unknown_price;
    bool refused; /* the last request that it judged */
    int64_t base_microusd;
    int64_t base_tokens;
    int64_t since_at;
    int64_t used_microusd;
    int64_t used_tokens;
    int64_t day; /* that used_* belongs to; of BUDGET_DAY */
    bool warned;
};

struct spend_task {
    struct spend_task *next;
    struct ulid id;
    struct ulid app;
    const char *agent; /* of the registry */
    struct spend_meter meter;
    bool refused;
    int64_t ended_ms;  /* 0: it runs */
    int64_t window_ms; /* start of the current minute, monotonic */
    int64_t window_count;
    int windows_full; /* minutes in which it asked too often */
};

struct spend_hold {
    struct spend_hold *next;
    int64_t n;
    struct ulid task;
    struct ulid app;
    int64_t microusd;
    int64_t tokens;
    int64_t until_ms;
};

/* A request that is over, on its way into the store. */
struct spend_entry {
    struct spend_entry *next;
    uint64_t connection;
    char boot_id[SPEND_BOOT_MAX + 1];
    char provider[64];
    char model[SPEND_MODEL_MAX + 1];
    char key_id[ULID_LEN + 1];
    const char *agent; /* of the registry, or "" */
    struct ulid task;
    struct ulid app; /* text "" when the task is not known any more */
    struct usage_row row;
    struct event_row events[SPEND_EVENTS_MAX];
    char payloads[SPEND_EVENTS_MAX][SPEND_TEXT_MAX];
};

struct spend_noted {
    struct spend_noted *next;
    uint64_t connection;
    int64_t n;
};

struct vault_spend {
    pthread_mutex_t store_lock; /* before the other: from a commit to what it changes in memory */
    pthread_mutex_t lock;       /* everything below */
    pthread_cond_t work;
    struct spend_meter *meters;
    size_t meter_count;
    struct spend_task *tasks;
    struct spend_hold *holds;
    size_t hold_count;
    char boot_id[SPEND_BOOT_MAX + 1];
    int64_t settled_below; /* of that life */
    struct spend_entry *first;
    struct spend_entry *last;
    size_t queued;
    struct spend_noted *noted;
    bool stopping;
    bool has_thread;
    pthread_t thread;
};

static inline int64_t spend_today(void)
{
    return clock_unix_ms() / USAGE_DAY_MS;
}

/* Does that budget count what this app spends? Not the one of tasks: each has its own. */
bool spend_counts(const struct spend_meter *m, const struct ulid *app);
/* A new day begins at nothing. */
void spend_turn_day(struct spend_meter *m);
struct spend_task *spend_find_task(struct vault_spend *s, const struct ulid *id);
/* Adds to a budget; true when it passed the mark at which its owner is warned. */
bool spend_meter_add(struct spend_meter *m, int64_t microusd, int64_t tokens);
bool spend_meter_is_high(const struct spend_meter *m);
/* "0.5000 USD", "1000 tokens": what is limited. */
void spend_limit_text(const struct spend_meter *m, char *out, size_t size);
const char *spend_scope_text(enum budget_scope scope);

/* spend_holds.c; what a request may take at most */
struct spend_need {
    int64_t microusd; /* 0 when the price is unknown */
    int64_t tokens;
    bool price_known;
};

/* Those whose hour is over; now 0: all. */
void spend_drop_holds(struct vault_spend *s, int64_t now);
/* Owned by the caller; NULL: there is none. */
struct spend_hold *spend_take_hold(struct vault_spend *s, int64_t n);
bool spend_is_held(const struct vault_spend *s, int64_t n);
/* In place of what the same request held before. */
void spend_hold(struct vault_spend *s, const struct spend_task *t, const struct spend_request *r,
                const struct spend_need *need);
/* What runs holds of a budget, but for the request itself, which may have been judged before. */
void spend_held(const struct vault_spend *s, const struct spend_meter *m,
                const struct spend_request *r, struct spend_need *ret);

/* spend_settle.c: that request is stored, to be told to that connection. The lock is held. */
void spend_note(struct vault_spend *s, uint64_t connection, int64_t n);
/* spend_budgets.c */
int spend_load_budgets(struct vault *v, struct err *e) MUST_CHECK;
/* spend_store.c */
void *spend_store_run(void *vault);

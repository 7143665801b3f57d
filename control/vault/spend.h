/*
 * Spend: what may be asked of a model, what is held for requests that run, what was spent. Private
 * to control/vault/.
 *
 * All of it under one lock, so that requests side by side cannot overshoot together; what is spent
 * is stored by a thread of its own. Any thread.
 */
#pragma once

#include "control/vault/prices.h"
#include "lib/ulid.h"

struct vault_agent;

enum spend_verdict {
    SPEND_ADMITTED,
    SPEND_BUDGET_REACHED,
    SPEND_PRICE_UNKNOWN,
    SPEND_RATE_LIMITED,
    SPEND_UNKNOWN_TASK,
};

/* The machine word of a refusal; "" for admitted. */
const char *spend_verdict_name(enum spend_verdict verdict);

struct spend_request {
    int64_t n;
    struct ulid task;
    struct str provider;
    struct str model;
    int64_t input_bytes;
    int64_t max_tokens; /* 0: it names none */
    bool running;       /* admitted before a reconnect: held again, not judged */
};

struct spend_answer {
    enum spend_verdict verdict;
    bool first; /* of this task's refusals that are for good */
    char message[400];
    int64_t retry_after_s;
    int64_t left_microusd; /* -1: no such budget */
    int64_t left_tokens;
    int64_t input_price; /* -1: unknown */
    int64_t output_price;
    struct ulid app;
    const char *scope; /* of the budget that refused; "" for none */
};

struct spend_done {
    int64_t n;
    int64_t settled_below; /* all that came before it is noted, and may come again only late */
    struct ulid task;
    struct str provider;
    struct str model;
    int64_t status;
    struct prices_tokens tokens; /* -1: not told */
    int64_t cost_microusd;       /* as the provider says; -1: it does not */
};

/* Loads budgets, starts the thread that stores. */
int spend_start(struct vault *v, struct err *e) MUST_CHECK;
/* Stores what is left and ends the thread. */
void spend_stop(struct vault *v);

/* From a task's first grant on its requests are judged. */
int spend_task_add(struct vault *v, const struct ulid *task, const struct vault_agent *agent,
                   struct err *e) MUST_CHECK;
/* Its requests that run may still be settled. */
void spend_task_end(struct vault *v, const struct ulid *task);

/* A proxy said hello: holds of another one's life end. */
void spend_boot(struct vault *v, struct str boot_id);
void spend_admit(struct vault *v, const struct spend_request *r, struct spend_answer *ret);
/* Settles at once and stores soon; false: the queue is full, say it again later. noted is what the
 * broker is told of when it is stored. */
bool spend_settle(struct vault *v, struct str boot_id, const struct spend_done *d,
                  uint64_t connection);
/* The next request number that was stored, to be told to that connection; false: none. */
bool spend_next_noted(struct vault *v, uint64_t *ret_connection, int64_t *ret_n);

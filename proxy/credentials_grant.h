/*
 * Grants: which task a token belongs to and which keys it may use, asked of sandboxd once and kept
 * until revoked.
 *
 * Main thread. A grant is borrowed by its users until their `revoked` ran or grant_user_done.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"
#include "lib/ulid.h"
#include "proxy/broker.h"
#include "proxy/credentials_keys.h"
#include "proxy/credentials_spend.h"
#include "proxy/limits.h"
#include "proxy/loop.h"

struct grant;

enum grant_result {
    GRANT_OK,
    GRANT_UNKNOWN,
    GRANT_UNAVAILABLE
};

/* One request's interest in a grant; lives in the request. */
struct grant_user {
    struct grant *grant;
    struct grant_user *next, *prev;
    struct loop_deadline deadline;
    /* The question was answered; once, never inside grant_ask. */
    void (*answered)(void *ctx, enum grant_result result);
    /* The task ended: stop at once. The user is detached already. */
    void (*revoked)(void *ctx);
    void *ctx;
    bool is_waiting;
};

void grants_init(struct broker *broker);
/* True: u->grant may be used now. False: `answered` follows, or, when there are too many questions,
 * *ret_busy is set. */
bool grant_ask(struct grant_user *u, const struct ulid *sandbox, struct str token, bool *ret_busy);
void grant_user_done(struct grant_user *u);
/* What it is good for now; NULL before it was answered. Borrowed: keep it for longer use. */
struct grant_keys *grant_keys_of(const struct grant *g);
const char *grant_task_id(const struct grant *g);
/* What is left to spend, as far as it was told. Borrowed. */
struct spend *grant_spend(struct grant *g);
/* Counts one request against the task's requests per minute: 0, or how long it has to wait. */
int64_t grant_rate_wait_ms(struct grant *g);

void grants_broker_up(void);
void grants_broker_down(void);
/* grant, revoke and changed; false for a record of another kind. */
bool grants_take(const struct record *r);

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
#include "proxy/limits.h"
#include "proxy/loop.h"

struct grant_provider {
    char *name, *base_url, *header, *prefix; /* owned; header "" : no key is sent */
    char *key;                               /* owned, wiped */
    char *paths[LIMIT_GRANT_PATHS];          /* owned, "METHOD /pattern" */
    unsigned path_count;
};

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
/* NULL when the task may not use it. Borrowed. */
const struct grant_provider *grant_find_provider(const struct grant *g, struct str name);
const char *grant_task_id(const struct grant *g);

void grants_broker_up(void);
void grants_broker_down(void);
/* grant and revoke; false for a record of another kind. */
bool grants_take(const struct record *r);

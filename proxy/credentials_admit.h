/*
 * Admission: no request that costs something goes upstream before sandboxd has set its price aside.
 * Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/record.h"
#include "proxy/broker.h"
#include "proxy/credentials_spend.h"
#include "proxy/credentials_usage.h"
#include "proxy/loop.h"

#define ADMISSION_TASK_MAX 64

enum admit_result {
    ADMIT_YES,
    ADMIT_NO,  /* code, message, retry_after_s say why */
    ADMIT_AWAY /* nobody could be asked, and what was told before does not cover it */
};

/* Borrowed for the call. */
struct admit_verdict {
    enum admit_result result;
    struct str code, message;
    uint64_t retry_after_s;
};

enum admission_state {
    ADMISSION_NONE,
    ADMISSION_WAITING,
    ADMISSION_GIVEN,
    ADMISSION_REFUSED
};

/* One request's; lives in the request. Zeroed but for answered and ctx is the start. */
struct admission {
    struct admission *next, *prev;
    enum admission_state state;
    bool is_linked, was_given;
    bool is_owed; /* sandboxd may hold a reservation: a usage must end it */
    uint64_t n;
    char task_id[ADMISSION_TASK_MAX + 1];
    char provider[SPEND_PROVIDER_MAX + 1], model[SPEND_MODEL_MAX + 1];
    uint64_t input_bytes, max_tokens;
    struct spend *spend; /* borrowed from the grant, which outlives it */
    struct loop_deadline deadline;
    /* The question was answered; never inside admission_ask. */
    void (*answered)(void *ctx, const struct admit_verdict *verdict);
    void *ctx;
};

void admissions_init(struct broker *broker);
/* Asks, or asks again with what is known by now. True: it is given already (only while sandboxd is
 * away). False: `answered` follows. */
bool admission_ask(struct admission *a, const char *task_id, struct spend *spend,
                   const struct spend_request *r);
/* Whether it was given for exactly this. */
bool admission_covers(const struct admission *a, const struct spend_request *r);
/* The request is over. Tells its usage when a reservation may be held: n and texts are filled in.
 */
void admission_end(struct admission *a, struct usage *u);

void admissions_broker_up(void);
void admissions_broker_down(void);
/* admitted and refused; false for a record of another kind. */
bool admissions_take(const struct record *r);

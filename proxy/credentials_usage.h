/*
 * What was spent at providers, told to sandboxd once: kept until it is noted. Main thread.
 */
#pragma once

#include "proxy/broker.h"
#include "proxy/model_answer.h"

/* Texts are borrowed; "" when unknown. */
struct usage {
    uint64_t n;       /* of the admission that it settles */
    uint64_t running; /* the lowest n of those that are not settled yet, or of the next one */
    const char *task_id, *provider, *model;
    unsigned status;     /* of the provider's answer; 0: there was none */
    const char *message; /* the provider's words of an error */
    bool has_spend;      /* else the figures are left out */
    bool is_estimated;   /* the provider did not say: our own count of bytes */
    struct model_spend spend;
};

void usage_init(struct broker *broker);
void usage_tell(const struct usage *u);
/* Everything not noted is sent again. */
void usage_broker_up(void);
/* noted; false for a record of another kind. */
bool usage_take(const struct record *r);

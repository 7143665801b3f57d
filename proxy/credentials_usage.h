/*
 * What was asked of providers, told to sandboxd once: kept until it is noted. Main thread.
 */
#pragma once

#include "proxy/broker.h"

struct usage {
    const char *task_id, *provider, *model; /* borrowed; model "" when unknown */
    unsigned status;
};

void usage_init(struct broker *broker);
void usage_tell(const struct usage *u);
/* Everything not noted is sent again. */
void usage_broker_up(void);
/* noted; false for a record of another kind. */
bool usage_take(const struct record *r);

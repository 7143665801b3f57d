/*
 * Why a sandbox does not answer, in one plain sentence for anybody and with lines for its owner.
 */
#pragma once

#include "control/sandbox/table.h"

struct why {
    const char *state;                   /* asleep, starting, waiting, failed: static */
    char message[256];                   /* for anyone: no words of engine or app */
    char lines[SANDBOX_LINES_BYTES + 1]; /* for localhost names and the API */
};

/* A running or starting sandbox and one of its ports. Under the service's lock. */
void why_port(const struct sandbox *b, uint16_t port, struct why *ret);
/* A start that failed; last_end: tag of what ended the run before. */
void why_failed_start(const struct err *e, const char *last_end, struct why *ret);

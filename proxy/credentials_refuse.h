/*
 * Answers of our own, in the form in which agents take them. Main thread.
 */
#pragma once

#include "proxy/front.h"
#include "proxy/model_answer.h"

struct refusal {
    unsigned status;
    const char *type;
    struct str message;
    uint64_t retry_after_s; /* with 429 and 503; 0: none */
};

/* Ends the exchange. format MODEL_NONE when it is not known. */
void credentials_refuse(struct exchange *x, enum model_format format, const struct refusal *r);

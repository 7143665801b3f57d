/*
 * Errors of providers: which ones are for ever, and in what form an agent stops asking. Pure.
 */
#pragma once

#include <stdbool.h>

#include "lib/str.h"
#include "proxy/model_answer.h"

#define PROVIDER_WORDS_MAX 500

struct provider_error {
    unsigned status; /* as it goes to the agent */
    bool is_permanent;
    char message[PROVIDER_WORDS_MAX + 1]; /* the provider's words, one line; "" when it has none */
};

/* body: the beginning of what the provider sent. */
void provider_error_read(struct provider_error *ret, enum model_format format, unsigned status,
                         struct str body);
/* The status in which a client of that format takes a permanent refusal for the last word. */
unsigned permanent_status(enum model_format format, unsigned status);

/*
 * What a task may still spend while sandboxd cannot be asked: the last words it said. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/record.h"

#define SPEND_PRICES       8
#define SPEND_PROVIDER_MAX 64
#define SPEND_MODEL_MAX    128

/* Micro-USD for a million tokens. */
struct spend_price {
    char provider[SPEND_PROVIDER_MAX + 1], model[SPEND_MODEL_MAX + 1];
    uint64_t input, output;
    bool is_known;
};

/* Zeroed: nothing was told yet, and nothing may be spent. */
struct spend {
    bool is_told, has_microusd,
        has_tokens; /* without the second and third there is no such budget */
    int64_t left_microusd, left_tokens;
    struct spend_price prices[SPEND_PRICES];
    unsigned next_price;
};

struct spend_request {
    const char *provider, *model;
    uint64_t input_bytes, max_tokens;
};

/* From an "admitted" record. */
void spend_take(struct spend *s, const struct spend_request *of, const struct record *admitted);
/* Whether what is left covers it; takes it off. */
bool spend_reserve(struct spend *s, const struct spend_request *r);

/*
 * Prices of models: what the data files say and what the owner says instead. Private to
 * control/vault/. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/store/budgets.h"
#include "lib/err.h"
#include "lib/str.h"

struct vault;
struct vault_prices;

#define PRICES_OUTPUT_TOKENS 32000 /* largest answer of a model that nobody describes */

/* Micro-USD for a million tokens. */
struct prices_rates {
    int64_t input;
    int64_t output;
    int64_t cached_read;
    int64_t cached_write;
};

struct prices_found {
    bool known;
    struct prices_rates rates;
    int64_t long_above; /* prompts of more tokens than this cost long_rates; 0: none do */
    struct prices_rates long_rates;
    int64_t max_output;
};

struct prices_tokens {
    int64_t input;
    int64_t output;
    int64_t cached_read;
    int64_t cached_write;
};

/* Reads presets/prices and the owner's own. ERR_INVALID names the file. */
int prices_load(struct vault *v, struct err *e) MUST_CHECK;
void prices_free(struct vault *v);
/* The owner's word, else the file's; a dated name ("-20260102") stands for the one without. */
struct prices_found prices_find(struct vault *v, struct str provider, struct str model);
/* Micro-USD, rounded up; -1 when the price is unknown. */
int64_t prices_cost(const struct prices_found *price, const struct prices_tokens *tokens);
/* The rates for a prompt of that many tokens. */
const struct prices_rates *prices_rates_for(const struct prices_found *price, int64_t prompt);

/*
 * Reservations without sandboxd, computed as it does.
 *
 * Must never let a request through whose price is unknown while a budget of money counts. Pure
 * functions.
 */
#include "proxy/credentials_spend.h"

#include <stdio.h>

#include "lib/mem.h"

#define BYTES_PER_TOKEN 3
#define OUTPUT_TOKENS   32000ULL /* when neither request nor model name a limit */
#define PRICE_MAX       1000000000ULL
#define TOKENS_MAX      1000000000ULL

static struct spend_price *price_of(struct spend *s, const char *provider, const char *model)
{
    for (size_t i = 0; i < ARRAY_LEN(s->prices); i++) {
        struct spend_price *p = &s->prices[i];

        if (p->provider[0] != '\0' && strcmp(p->provider, provider) == 0 &&
            strcmp(p->model, model) == 0) {
            return p;
        }
    }
    return NULL;
}

static void price_take(struct spend *s, const struct spend_request *of, const struct record *r)
{
    struct spend_price *p = price_of(s, of->provider, of->model);

    if (!p) {
        p = &s->prices[s->next_price++ % SPEND_PRICES];
        (void)snprintf(p->provider, sizeof p->provider, "%s", of->provider);
        (void)snprintf(p->model, sizeof p->model, "%s", of->model);
    }
    p->is_known = record_get_u64(r, "input_price", PRICE_MAX, &p->input) &&
                  record_get_u64(r, "output_price", PRICE_MAX, &p->output);
}

void spend_take(struct spend *s, const struct spend_request *of, const struct record *admitted)
{
    s->is_told = true;
    s->has_microusd = record_get_i64(admitted, "left_microusd", &s->left_microusd);
    s->has_tokens = record_get_i64(admitted, "left_tokens", &s->left_tokens);
    price_take(s, of, admitted);
}

static uint64_t at_most(uint64_t value, uint64_t max)
{
    return value < max ? value : max;
}

/* Rounded up. Both factors are at most 10^9. */
static int64_t priced(const struct spend_price *p, uint64_t input, uint64_t output)
{
    return (int64_t)((input * p->input + output * p->output + 999999) / 1000000);
}

bool spend_reserve(struct spend *s, const struct spend_request *r)
{
    uint64_t input = at_most(r->input_bytes / BYTES_PER_TOKEN + 1, TOKENS_MAX);
    uint64_t output = at_most(r->max_tokens > 0 ? r->max_tokens : OUTPUT_TOKENS, TOKENS_MAX);
    const struct spend_price *p = price_of(s, r->provider, r->model);
    int64_t micro = 0;

    if (!s->is_told) {
        return false;
    }
    if (s->has_microusd) {
        if (!p || !p->is_known) {
            return false;
        }
        micro = priced(p, input, output);
        if (micro > s->left_microusd) {
            return false;
        }
    }
    if (s->has_tokens && (int64_t)(input + output) > s->left_tokens) {
        return false;
    }
    s->left_microusd -= micro;
    s->left_tokens -= s->has_tokens ? (int64_t)(input + output) : 0;
    return true;
}

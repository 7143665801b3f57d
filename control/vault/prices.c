/*
 * The price table. It must never guess: a model without a price is unknown. Any thread.
 */
#include "control/vault/prices.h"

#include "control/vault/vault_private.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define PRICES_ENTRIES_MAX 8192
#define PRICES_RATE_MAX    INT64_C(1000000000) /* 1,000 USD for a million tokens */
#define PRICES_TOKENS_MAX  INT64_C(1000000000)
#define PRICES_MILLION     1000000
#define PRICES_OWN_MAX     512

struct prices_entry {
    char *provider;
    char *model; /* "*": every model of that provider */
    struct prices_found price;
    bool own;
};

struct vault_prices {
    pthread_mutex_t own_lock; /* one change of the owner's own at a time; before the other */
    pthread_mutex_t lock;
    struct prices_entry *entries;
    size_t count;
};

/* ---- data files ---- */

static bool prices_usd(const struct json_value *v, const char *key, int64_t *ret)
{
    double usd = 0;
    if (!json_as_double(json_get(v, key), &usd) || !(usd >= 0 && usd <= 1000)) {
        return false;
    }
    *ret = (int64_t)(usd * PRICES_MILLION + 0.5);
    return true;
}

static bool prices_read_rates(const struct json_value *v, struct prices_rates *ret)
{
    return prices_usd(v, "input", &ret->input) && prices_usd(v, "output", &ret->output) &&
           prices_usd(v, "cached_read", &ret->cached_read) &&
           prices_usd(v, "cached_write", &ret->cached_write);
}

static struct prices_entry *prices_add(struct vault_prices *t, struct str provider,
                                       struct str model)
{
    t->entries = mem_resize(t->entries, t->count + 1, sizeof(*t->entries));
    struct prices_entry *entry = &t->entries[t->count++];
    *entry = (struct prices_entry){.provider = mem_dup(provider.ptr, provider.len),
                                   .model = mem_dup(model.ptr, model.len)};
    return entry;
}

static int prices_read_model(struct vault_prices *t, struct str provider,
                             const struct json_value *v, struct err *e)
{
    struct str model = json_get_str(v, "model");
    const struct json_value *longer = json_get(v, "long");
    struct prices_found p = {.known = true};
    bool good = model.len > 0 && str_is_text(model, false) && prices_read_rates(v, &p.rates);
    if (longer) {
        good = good && json_get_int(longer, "above", &p.long_above) && p.long_above > 0 &&
               prices_read_rates(longer, &p.long_rates);
    }
    (void)json_get_int(v, "max_output", &p.max_output);
    if (!good || p.max_output < 0 || t->count >= PRICES_ENTRIES_MAX) {
        return err_set(e, ERR_INVALID, 0,
                       "the price of \"%.*s\" is malformed; wanted are input, output, cached_read "
                       "and cached_write in USD for a million tokens",
                       STR_FMT(model));
    }
    prices_add(t, provider, model)->price = p;
    return 0;
}

static int prices_read_file(struct vault *v, const struct json_value *json, struct err *e)
{
    struct str provider = json_get_str(json, "provider");
    const struct json_value *models = json_get(json, "models");
    if (str_empty(provider) || !json_is_array(models)) {
        return err_set(e, ERR_INVALID, 0, "provider or models are missing");
    }
    for (size_t i = 0; i < json_count(models); i++) {
        if (prices_read_model(v->prices, provider, json_at(models, i), e) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the owner's own ---- */

static void prices_entry_done(struct prices_entry *entry)
{
    free(entry->provider);
    free(entry->model);
}

static void prices_drop_own(struct vault_prices *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->entries[i].own) {
            prices_entry_done(&t->entries[i]);
        } else {
            t->entries[kept++] = t->entries[i];
        }
    }
    t->count = kept;
}

/* The size of a model's answers is no matter of taste: it stays the file's. */
static int64_t prices_file_output(const struct vault_prices *t, const struct price_row *row)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct prices_entry *entry = &t->entries[i];
        if (!entry->own && strcmp(entry->provider, row->provider) == 0 &&
            strcmp(entry->model, row->model) == 0) {
            return entry->price.max_output;
        }
    }
    return 0;
}

static int prices_load_own(struct vault *v, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(8UL * 1024 * 1024);
    struct price_row *rows = NULL;
    size_t count = 0;
    if (prices_list(v->db, a, &rows, &count, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&v->prices->lock);
    prices_drop_own(v->prices);
    for (size_t i = 0; i < count; i++) {
        const struct price_row *row = &rows[i];
        int64_t max_output = prices_file_output(v->prices, row);
        struct prices_entry *entry =
            prices_add(v->prices, str_of(row->provider), str_of(row->model));
        entry->own = true;
        entry->price = (struct prices_found){
            .known = true,
            .rates = {row->input, row->output, row->cached_read, row->cached_write},
            .max_output = max_output};
    }
    return 0;
}

int prices_load(struct vault *v, struct err *e)
{
    v->prices = mem_alloc(sizeof(*v->prices));
    (void)pthread_mutex_init(&v->prices->lock, NULL);
    (void)pthread_mutex_init(&v->prices->own_lock, NULL);
    if (registry_folder(v, "prices", prices_read_file, e) != 0) {
        return -1;
    }
    return prices_load_own(v, e);
}

void prices_free(struct vault *v)
{
    if (!v->prices) {
        return;
    }
    for (size_t i = 0; i < v->prices->count; i++) {
        prices_entry_done(&v->prices->entries[i]);
    }
    free(v->prices->entries);
    (void)pthread_mutex_destroy(&v->prices->lock);
    (void)pthread_mutex_destroy(&v->prices->own_lock);
    free(v->prices);
    v->prices = NULL;
}

static bool prices_row_good(const struct price_row *row)
{
    const int64_t rates[] = {row->input, row->output, row->cached_read, row->cached_write};
    for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
        if (rates[i] < 0 || rates[i] > PRICES_RATE_MAX) {
            return false;
        }
    }
    return row->model[0] != '\0';
}

/* How many prices are the owner's, but for the one that row replaces. */
static size_t prices_count_own(struct vault_prices *t, const struct price_row *row)
{
    size_t count = 0;
    LOCK_GUARD(&t->lock);
    for (size_t i = 0; i < t->count; i++) {
        const struct prices_entry *entry = &t->entries[i];
        count += entry->own && (strcmp(entry->provider, row->provider) != 0 ||
                                strcmp(entry->model, row->model) != 0);
    }
    return count;
}

int vault_price_set(struct vault *v, const struct price_row *row, struct err *e)
{
    if (!vault_provider_find(v, str_of(row->provider))) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", row->provider);
    }
    if (!prices_row_good(row)) {
        return err_set(e, ERR_INVALID, 0,
                       "a price names a model and has rates of 0 to %lld micro-USD",
                       (long long)PRICES_RATE_MAX);
    }
    LOCK_GUARD(&v->prices->own_lock);
    if (prices_count_own(v->prices, row) >= PRICES_OWN_MAX) {
        return err_set(e, ERR_LIMIT, 0, "%d prices of your own are set already", PRICES_OWN_MAX);
    }
    return prices_put(v->db, row, e) != 0 ? -1 : prices_load_own(v, e);
}

int vault_price_remove(struct vault *v, const char *provider, const char *model, struct err *e)
{
    LOCK_GUARD(&v->prices->own_lock);
    return prices_remove(v->db, provider, model, e) != 0 ? -1 : prices_load_own(v, e);
}

size_t vault_price_list(struct vault *v, const char *provider, struct arena *a,
                        struct vault_price **ret)
{
    size_t count = 0;
    LOCK_GUARD(&v->prices->lock);
    struct vault_price *list = arena_alloc(a, sizeof(*list) * (v->prices->count + 1));
    for (size_t i = 0; i < v->prices->count; i++) {
        const struct prices_entry *entry = &v->prices->entries[i];
        const struct prices_rates *rates = &entry->price.rates;
        if (provider[0] && strcmp(provider, entry->provider) != 0) {
            continue;
        }
        list[count++] = (struct vault_price){.row = {.provider = arena_strdup(a, entry->provider),
                                                     .model = arena_strdup(a, entry->model),
                                                     .input = rates->input,
                                                     .output = rates->output,
                                                     .cached_read = rates->cached_read,
                                                     .cached_write = rates->cached_write},
                                             .own = entry->own};
    }
    *ret = list;
    return count;
}

/* ---- looking up ---- */

static const struct prices_entry *prices_exact(const struct vault_prices *t, struct str provider,
                                               struct str model, bool own)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct prices_entry *entry = &t->entries[i];
        if (entry->own == own && str_is(provider, entry->provider) && str_is(model, entry->model)) {
            return entry;
        }
    }
    return NULL;
}

/* Without "-20260102" or "-2026-01-02" at its end. */
static struct str prices_undated(struct str model)
{
    size_t end = model.len;
    size_t digits = 0;
    while (end > 0 && digits < 8 &&
           ((model.ptr[end - 1] >= '0' && model.ptr[end - 1] <= '9') ||
            (model.ptr[end - 1] == '-' && (digits == 2 || digits == 4)))) {
        digits += model.ptr[end - 1] != '-';
        end--;
    }
    bool dated = digits == 8 && end > 1 && model.ptr[end - 1] == '-' && model.ptr[end] == '2';
    return dated ? str_cut(model, 0, end - 1) : model;
}

struct prices_found prices_find(struct vault *v, struct str provider, struct str model)
{
    struct str undated = prices_undated(model);
    LOCK_GUARD(&v->prices->lock);
    /* "*" is for models that have no price otherwise, the file's included. */
    const struct str names[] = {model, undated, STR("*")};
    const struct prices_entry *entry = NULL;
    for (size_t i = 0; i < ARRAY_LEN(names) && !entry; i++) {
        entry = prices_exact(v->prices, provider, names[i], true);
        entry = entry ? entry : prices_exact(v->prices, provider, names[i], false);
    }
    return entry ? entry->price : (struct prices_found){.known = false};
}

const struct prices_rates *prices_rates_for(const struct prices_found *price, int64_t prompt)
{
    bool is_long = price->long_above > 0 && prompt > price->long_above;
    return is_long ? &price->long_rates : &price->rates;
}

/* In millionths of a micro-USD; bounded, so that four of them fit. */
static int64_t prices_part(int64_t tokens, int64_t rate)
{
    tokens = tokens < 0 ? 0 : tokens;
    return (tokens < PRICES_TOKENS_MAX ? tokens : PRICES_TOKENS_MAX) * rate;
}

int64_t prices_cost(const struct prices_found *price, const struct prices_tokens *t)
{
    if (!price->known) {
        return -1;
    }
    const struct prices_rates *rates =
        prices_rates_for(price, t->input + t->cached_read + t->cached_write);
    int64_t sum = prices_part(t->input, rates->input) + prices_part(t->output, rates->output) +
                  prices_part(t->cached_read, rates->cached_read) +
                  prices_part(t->cached_write, rates->cached_write);
    return sum / PRICES_MILLION + (sum % PRICES_MILLION != 0);
}

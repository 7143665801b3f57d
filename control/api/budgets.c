/*
 * Budgets and prices. Worker threads.
 */
#include "control/api/api.h"

#define PRICE_RATE_MAX        INT64_C(1000000000)
#define PRICE_TEXT_MAX        200
#define PRICE_EVENT_BYTES_MAX 4096 /* both texts escaped in full */

/* ---- budgets ---- */

static void budgets_limit(struct json_writer *w, const char *key, int64_t value)
{
    if (value < 0) {
        json_null(w, key);
    } else {
        json_int(w, key, value);
    }
}

static void budgets_render(struct json_writer *w, const struct vault_budget *b)
{
    bool counts = b->scope != BUDGET_TASK;
    json_object(w, NULL);
    json_text(w, "scope", budget_scope_name(b->scope));
    json_text(w, "app_id", b->scope == BUDGET_APP ? b->app.text : NULL);
    budgets_limit(w, "limit_microusd", b->limit_microusd);
    budgets_limit(w, "limit_tokens", b->limit_tokens);
    json_bool(w, "allow_unknown_price", b->allow_unknown_price);
    budgets_limit(w, "used_microusd", counts ? b->used_microusd : -1);
    budgets_limit(w, "used_tokens", counts ? b->used_tokens : -1);
    budgets_limit(w, "held_microusd", counts ? b->held_microusd : -1);
    budgets_limit(w, "held_tokens", counts ? b->held_tokens : -1);
    json_text(w, "status", b->is_reached ? "reached" : b->is_high ? "warning" : "ok");
    json_time(w, "since", b->since_at);
    json_object_end(w);
}

void api_budgets_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct vault_budget *list = NULL;
    size_t count = vault_budget_list(api->vault, r->arena, &list);
    struct json_writer w;
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "budgets");
    for (size_t i = 0; i < count; i++) {
        budgets_render(&w, &list[i]);
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

static bool budgets_scope(const struct http_request *r, enum budget_scope *ret,
                          struct http_response *p)
{
    for (int i = 0; i < BUDGET_SCOPES; i++) {
        if (i != BUDGET_APP && str_is(r->params[0], budget_scope_name((enum budget_scope)i))) {
            *ret = (enum budget_scope)i;
            return true;
        }
    }
    http_error(p, "not_found",
               "there are the budgets task, day and installation; an app's is "
               "/v1/apps/{id}/budget");
    return false;
}

/* An app that is there. */
static bool budgets_app(struct api *api, struct http_request *r, struct ulid *ret,
                        struct http_response *p)
{
    struct app_row app;
    struct err e;
    if (!api_id(r, 0, "app", ret, p)) {
        return false;
    }
    if (apps_get(api->db, ret, r->arena, &app, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    return true;
}

static void budgets_answer(struct api *api, struct http_response *p, enum budget_scope scope,
                           const struct ulid *app)
{
    struct vault_budget budget;
    struct json_writer w;
    if (!vault_budget_get(api->vault, scope, app, &budget)) {
        http_error(p, "not_found", "no such budget is set");
        return;
    }
    json_begin(&w, &p->body);
    budgets_render(&w, &budget);
    api_json(p, 200);
}

/* null and absent are no limit. */
static bool budgets_read_limit(const struct json_value *body, const char *key, int64_t max,
                               int64_t *ret, struct http_response *p)
{
    *ret = -1;
    return json_is_null(json_get(body, key)) || api_opt_int(body, key, 0, max, ret, p);
}

static void budgets_set(struct api *api, struct http_request *r, struct http_response *p,
                        struct vault_budget *budget)
{
    static const char *const allowed[] = {"limit_microusd", "limit_tokens", "allow_unknown_price",
                                          "reset", NULL};
    struct err e = {0};
    bool reset = false;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    const struct json_value *body = doc ? json_root(doc) : NULL;
    if (!doc ||
        !budgets_read_limit(body, "limit_microusd", BUDGET_LIMIT_MAX, &budget->limit_microusd, p) ||
        !budgets_read_limit(body, "limit_tokens", BUDGET_LIMIT_MAX, &budget->limit_tokens, p) ||
        !api_opt_bool(body, "allow_unknown_price", &budget->allow_unknown_price, p) ||
        !api_opt_bool(body, "reset", &reset, p)) {
        return;
    }
    if (budget->limit_microusd < 0 && budget->limit_tokens < 0) {
        http_error(p, "invalid_request",
                   "limit_microusd or limit_tokens is wanted; DELETE removes a budget");
        return;
    }
    if (vault_budget_set(api->vault, budget, reset, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_add(api->db, &(struct event_row){
                            .kind = "budget.changed",
                            .actor = r->actor,
                            .app_id = budget->scope == BUDGET_APP ? budget->app.text : "",
                            .payload = arena_printf(r->arena,
                                                    "{\"budget\":\"%s\",\"limit_microusd\":%lld,"
                                                    "\"limit_tokens\":%lld}",
                                                    budget_scope_name(budget->scope),
                                                    (long long)budget->limit_microusd,
                                                    (long long)budget->limit_tokens)});
    budgets_answer(api, p, budget->scope, &budget->app);
}

static void budgets_drop(struct api *api, struct http_request *r, struct http_response *p,
                         enum budget_scope scope, const struct ulid *app)
{
    struct err e = {0};
    if (vault_budget_remove(api->vault, scope, app, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_add(api->db, &(struct event_row){.kind = "budget.removed",
                                            .actor = r->actor,
                                            .app_id = scope == BUDGET_APP ? app->text : "",
                                            .payload = arena_printf(r->arena, "{\"budget\":\"%s\"}",
                                                                    budget_scope_name(scope))});
    p->status = 204;
}

void api_budgets_put(struct http_request *r, struct http_response *p, void *ctx)
{
    struct vault_budget budget = {0};
    if (budgets_scope(r, &budget.scope, p)) {
        budgets_set(ctx, r, p, &budget);
    }
}

void api_budgets_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    static const struct ulid none;
    enum budget_scope scope;
    if (budgets_scope(r, &scope, p)) {
        budgets_drop(ctx, r, p, scope, &none);
    }
}

void api_app_budget_get(struct http_request *r, struct http_response *p, void *ctx)
{
    struct ulid app;
    if (budgets_app(ctx, r, &app, p)) {
        budgets_answer(ctx, p, BUDGET_APP, &app);
    }
}

void api_app_budget_put(struct http_request *r, struct http_response *p, void *ctx)
{
    struct vault_budget budget = {.scope = BUDGET_APP};
    if (budgets_app(ctx, r, &budget.app, p)) {
        budgets_set(ctx, r, p, &budget);
    }
}

void api_app_budget_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct ulid app;
    if (budgets_app(ctx, r, &app, p)) {
        budgets_drop(ctx, r, p, BUDGET_APP, &app);
    }
}

/* ---- prices ---- */

static void prices_render(struct json_writer *w, const struct price_row *row, bool own)
{
    json_object(w, NULL);
    json_text(w, "provider", row->provider);
    json_text(w, "model", row->model);
    json_int(w, "input", row->input);
    json_int(w, "output", row->output);
    json_int(w, "cached_read", row->cached_read);
    json_int(w, "cached_write", row->cached_write);
    json_bool(w, "is_own", own);
    json_object_end(w);
}

void api_prices_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct str provider = {"", 0};
    struct vault_price *list = NULL;
    struct json_writer w;
    (void)http_query(r, "provider", &provider);
    size_t count = vault_price_list(api->vault, arena_str(r->arena, provider), r->arena, &list);
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_text(&w, "unit", "microusd_per_million_tokens");
    json_array(&w, "prices");
    for (size_t i = 0; i < count; i++) {
        prices_render(&w, &list[i].row, list[i].own);
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

static bool prices_rate(const struct json_value *body, const char *key, int64_t *ret,
                        struct http_response *p)
{
    return api_opt_int(body, key, 0, PRICE_RATE_MAX, ret, p);
}

/* Who changes a price changes what a budget in money lets through. Provider and model may hold
 * quotes. */
static void prices_event(struct api *api, struct http_request *r, const char *kind,
                         const char *provider, const char *model)
{
    BUF_AUTO(payload, PRICE_EVENT_BYTES_MAX);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "provider", provider);
    json_text(&w, "model", model);
    json_object_end(&w);
    events_add(api->db,
               &(struct event_row){.kind = kind, .actor = r->actor, .payload = payload.ptr});
}

void api_prices_put(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"provider",    "model",        "input", "output",
                                          "cached_read", "cached_write", NULL};
    struct api *api = ctx;
    struct err e = {0};
    struct json_writer w;
    struct price_row row = {.provider = "", .model = "", .input = -1, .output = -1};
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    const struct json_value *body = doc ? json_root(doc) : NULL;
    if (!doc ||
        !api_opt_text(body, "provider", PRICE_TEXT_MAX, false, r->arena, &row.provider, p) ||
        !api_opt_text(body, "model", PRICE_TEXT_MAX, false, r->arena, &row.model, p) ||
        !prices_rate(body, "input", &row.input, p) ||
        !prices_rate(body, "output", &row.output, p)) {
        return;
    }
    if (row.input < 0 || row.output < 0) {
        http_error(p, "invalid_request",
                   "input and output are wanted, in micro-USD for a million "
                   "tokens");
        return;
    }
    row.cached_read = row.input;
    row.cached_write = row.input;
    if (!prices_rate(body, "cached_read", &row.cached_read, p) ||
        !prices_rate(body, "cached_write", &row.cached_write, p)) {
        return;
    }
    if (vault_price_set(api->vault, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    prices_event(api, r, "price.changed", row.provider, row.model);
    json_begin(&w, &p->body);
    prices_render(&w, &row, true);
    api_json(p, 200);
}

void api_prices_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    struct str asked = {"", 0};
    (void)http_query(r, "provider", &asked);
    const char *provider = arena_str(r->arena, asked);
    asked = STR("");
    (void)http_query(r, "model", &asked);
    const char *model = arena_str(r->arena, asked);
    if (vault_price_remove(api->vault, provider, model, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    prices_event(api, r, "price.removed", provider, model);
    p->status = 204;
}

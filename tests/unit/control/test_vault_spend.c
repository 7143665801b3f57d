/*
 * Spend: prices, budgets of every scope, requests side by side, what a crash leaves, what is
 * counted once. The store is real; the proxy is played by calls.
 */
#include "control/store/tasks.h"
#include "control/store/usage.h"
#include "control/vault/spend_private.h"
#include "lib/paths.h"
#include "lib/thread.h"
#include "tests/unit/control/store.h"

#define MODEL   STR("claude-sonnet-5") /* 2 and 10 USD for a million tokens */
#define CLAUDE  STR("anthropic")
#define BOOT    STR("boot-1")
#define THREADS 8

static struct config config;
static struct vault *vault;
static struct app_row app;
static struct ulid task;

static int setup(void **state)
{
    static const char *const dirs[] = {"agent-auth", "run", "run/broker", "run/broker/credentials"};
    if (store_setup(state) != 0) {
        return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(store_path(dirs[i]), 0700) != 0) {
            return -1;
        }
    }
    config = (struct config){.data_dir = store_dir,
                             .secrets_key = "",
                             .default_agent = "opencode",
                             .presets_dir = "presets",
                             .uid_base = geteuid() + 998U};
    return vault_start(&config, db, &vault, &e);
}

static int teardown(void **state)
{
    static const char *const files[] = {"secrets.key", "run/broker/credentials/broker.sock"};
    static const char *const dirs[] = {"agent-auth", "run/broker/credentials", "run/broker", "run"};
    vault_stop(vault);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void)unlink(store_path(files[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        (void)rmdir(store_path(dirs[i]));
    }
    return store_teardown(state);
}

static struct ulid make_task(const struct ulid *app_id, int64_t microusd, int64_t tokens)
{
    struct task_row row = {.id = ulid_new(),
                           .app_id = *app_id,
                           .sandbox_id = ulid_new(),
                           .agent = "claude-code",
                           .model = "",
                           .prompt = "p",
                           .timeout_s = 60,
                           .created_at = clock_unix_ms(),
                           .budget_microusd = microusd,
                           .budget_tokens = tokens};
    OK(tasks_insert(db, &row, &e));
    OK(spend_task_add(vault, &row.id, vault_agent_find(vault, STR("claude-code")), &e));
    return row.id;
}

/* What the proxy says of what it may still tell. */
static int64_t settled_below;

static void begin(int64_t microusd, int64_t tokens)
{
    settled_below = 0;
    app = store_app("app");
    task = make_task(&app.id, microusd, tokens);
    spend_boot(vault, BOOT);
}

/* 300 bytes are 101 tokens; with 899 of output a request is 1,000 tokens. */
static struct spend_answer admit_as(const struct ulid *of, int64_t n, struct str model)
{
    struct spend_answer answer;
    struct spend_request r = {.n = n,
                              .task = *of,
                              .provider = CLAUDE,
                              .model = model,
                              .input_bytes = 300,
                              .max_tokens = 899};
    spend_admit(vault, &r, &answer);
    return answer;
}

static enum spend_verdict admit(int64_t n)
{
    return admit_as(&task, n, MODEL).verdict;
}

static void settle_as(const struct ulid *of, struct str boot, int64_t n, int64_t in, int64_t out)
{
    struct spend_done d = {.n = n,
                           .settled_below = settled_below,
                           .task = *of,
                           .provider = CLAUDE,
                           .model = MODEL,
                           .status = 200,
                           .tokens = {in, out, -1, -1},
                           .cost_microusd = -1};
    assert_true(spend_settle(vault, boot, &d, 1));
}

static void settle(int64_t n, int64_t in, int64_t out)
{
    settle_as(&task, BOOT, n, in, out);
}

/* Until the thread that stores has nothing left. */
static void stored(void)
{
    for (int i = 0; i < 1000; i++) {
        {
            LOCK_GUARD(&vault->spend->lock);
            if (!vault->spend->first) {
                return;
            }
        }
        clock_sleep_ms(10);
    }
    fail_msg("what was spent is not stored after 10 s");
}

static struct usage_sums sums(void)
{
    struct usage_filter all = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_sums s = {0};
    stored();
    OK(usage_sum(db, &all, &s, &e));
    return s;
}

static void budget(enum budget_scope scope, int64_t microusd, int64_t tokens)
{
    struct vault_budget b = {
        .scope = scope, .app = app.id, .limit_microusd = microusd, .limit_tokens = tokens};
    OK(vault_budget_set(vault, &b, false, &e));
}

/* ---- prices ---- */

static void prices_are_exact_dated_or_unknown(void **state)
{
    (void)state;
    struct prices_found p = prices_find(vault, CLAUDE, MODEL);
    struct prices_tokens t = {.input = 1000, .output = 100, .cached_read = 10000};
    assert_true(p.known);
    /* 1,000 at 2, 100 at 10, 10,000 at 0.2 USD for a million. */
    assert_int_equal(prices_cost(&p, &t), 2000 + 1000 + 2000);
    assert_true(prices_find(vault, CLAUDE, STR("claude-sonnet-5-20260131")).known);
    assert_true(prices_find(vault, CLAUDE, STR("claude-sonnet-5-2026-01-31")).known);
    assert_false(prices_find(vault, CLAUDE, STR("claude-sonnet-5-large")).known);
    assert_false(prices_find(vault, CLAUDE, STR("")).known);
    assert_false(prices_find(vault, STR("nobody"), MODEL).known);
    p = prices_find(vault, CLAUDE, STR("nothing"));
    assert_int_equal(prices_cost(&p, &t), -1);
}

static void a_fraction_is_rounded_up_and_hostile_figures_are_bounded(void **state)
{
    (void)state;
    struct prices_found p = prices_find(vault, CLAUDE, MODEL);
    struct prices_tokens one = {.cached_read = 1};
    struct prices_tokens most = {INT64_MAX / 8, INT64_MAX / 8, INT64_MAX / 8, INT64_MAX / 8};
    assert_int_equal(prices_cost(&p, &one), 1);
    assert_true(prices_cost(&p, &most) > 0);
}

static void a_long_prompt_costs_more_where_the_provider_says_so(void **state)
{
    (void)state;
    struct prices_found p = prices_find(vault, STR("openai"), STR("gpt-5.5"));
    struct prices_tokens usual = {.input = 272000};
    struct prices_tokens longer = {.input = 272001};
    assert_int_equal(prices_cost(&p, &usual), 272000 * 5);
    assert_int_equal(prices_cost(&p, &longer), 272001 * 10);
}

static void the_owners_price_wins_and_can_be_taken_back(void **state)
{
    struct price_row own = {.provider = "anthropic",
                            .model = "claude-sonnet-5",
                            .input = 7,
                            .output = 8,
                            .cached_read = 9,
                            .cached_write = 10};
    struct price_row any = {.provider = "openai", .model = "*"};
    (void)state;
    OK(vault_price_set(vault, &own, &e));
    assert_int_equal(prices_find(vault, CLAUDE, MODEL).rates.input, 7);
    OK(vault_price_remove(vault, "anthropic", "claude-sonnet-5", &e));
    assert_int_equal(prices_find(vault, CLAUDE, MODEL).rates.input, 2000000);
    REFUSED(vault_price_remove(vault, "anthropic", "claude-sonnet-5", &e), ERR_NOT_FOUND);
    assert_false(prices_find(vault, STR("openai"), STR("home-made")).known);
    OK(vault_price_set(vault, &any, &e));
    assert_true(prices_find(vault, STR("openai"), STR("home-made")).known);
    any.provider = "anthropic";
    OK(vault_price_set(vault, &any, &e));
    assert_int_equal(prices_find(vault, CLAUDE, MODEL).rates.input, 2000000);
    own.provider = "nobody";
    REFUSED(vault_price_set(vault, &own, &e), ERR_NOT_FOUND);
    own.provider = "openai";
    own.input = -1;
    REFUSED(vault_price_set(vault, &own, &e), ERR_INVALID);
}

/* The last of them can still be changed. */
static void prices_of_ones_own_are_counted(void **state)
{
    char model[32];
    struct price_row own = {.provider = "openai", .model = model};
    (void)state;
    for (int i = 0; i < 512; i++) {
        (void)snprintf(model, sizeof(model), "m-%d", i);
        OK(i < 511 ? prices_put(db, &own, &e) : vault_price_set(vault, &own, &e));
    }
    own.input = 3;
    OK(vault_price_set(vault, &own, &e));
    assert_int_equal(prices_find(vault, STR("openai"), str_of(model)).rates.input, 3);
    own.model = "one-more";
    REFUSED(vault_price_set(vault, &own, &e), ERR_LIMIT);
}

/* ---- budgets ---- */

static void without_a_budget_everything_is_admitted(void **state)
{
    (void)state;
    begin(0, 0);
    struct spend_answer a = admit_as(&task, 1, STR("no-such-model"));
    assert_int_equal(a.verdict, SPEND_ADMITTED);
    assert_int_equal(a.left_microusd, -1);
    assert_int_equal(a.left_tokens, -1);
    assert_int_equal(a.input_price, -1);
}

static void a_task_stops_at_its_tokens(void **state)
{
    (void)state;
    begin(0, 2500);
    struct spend_answer a = admit_as(&task, 1, MODEL);
    assert_int_equal(a.left_tokens, 1500);
    settle(1, 100, 900);
    assert_int_equal(admit(2), SPEND_ADMITTED);
    settle(2, 100, 900);
    a = admit_as(&task, 3, MODEL);
    assert_int_equal(a.verdict, SPEND_BUDGET_REACHED);
    assert_true(a.first);
    assert_string_equal(a.scope, "task");
    assert_non_null(strstr(a.message, "the budget of this task (2500 tokens)"));
    assert_false(admit_as(&task, 4, MODEL).first);
}

static void a_task_stops_at_its_money(void **state)
{
    (void)state;
    /* A request holds 101 tokens at 2.5 (written to the cache) and 899 at 10: 9,243 micro-USD. */
    begin(20000, 0);
    assert_int_equal(admit_as(&task, 1, MODEL).left_microusd, 20000 - 9243);
    settle(1, 1000, 899);
    assert_int_equal(admit(2), SPEND_BUDGET_REACHED);
}

static void an_unknown_price_is_refused_under_money_only(void **state)
{
    (void)state;
    begin(1000000, 0);
    struct spend_answer a = admit_as(&task, 1, STR("no-such-model"));
    assert_int_equal(a.verdict, SPEND_PRICE_UNKNOWN);
    assert_non_null(strstr(a.message, "no-such-model"));
    struct ulid other = make_task(&app.id, 0, 100000);
    assert_int_equal(admit_as(&other, 2, STR("no-such-model")).verdict, SPEND_ADMITTED);
    struct vault_budget day = {.scope = BUDGET_DAY, .limit_microusd = 5, .limit_tokens = -1};
    day.allow_unknown_price = true;
    OK(vault_budget_set(vault, &day, false, &e));
    assert_int_equal(admit_as(&other, 3, STR("no-such-model")).verdict, SPEND_ADMITTED);
}

static void every_scope_counts_what_it_names(void **state)
{
    (void)state;

    static const enum budget_scope scopes[] = {BUDGET_APP, BUDGET_DAY, BUDGET_INSTALLATION};

    begin(0, 0);
    struct app_row other_app = store_app("other");
    struct ulid other = make_task(&other_app.id, 0, 0);
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        int64_t n = 10 * (int64_t)(i + 1);
        budget(scopes[i], -1, 1999 + (scopes[i] == BUDGET_DAY ? 1000 * (int64_t)i : 0));
        assert_int_equal(admit(n), SPEND_ADMITTED);
        settle(n, 100, 900);
        struct spend_answer a = admit_as(&task, n + 1, MODEL);
        assert_int_equal(a.verdict, SPEND_BUDGET_REACHED);
        assert_string_equal(a.scope, budget_scope_name(scopes[i]));
        bool others_too = scopes[i] != BUDGET_APP;
        assert_int_equal(admit_as(&other, n + 2, MODEL).verdict,
                         others_too ? SPEND_BUDGET_REACHED : SPEND_ADMITTED);
        OK(vault_budget_remove(vault, scopes[i], &app.id, &e));
        spend_boot(vault, i % 2 ? BOOT : STR("boot-2"));
    }
}

static void a_budget_begun_anew_counts_from_then_on(void **state)
{
    struct vault_budget b = {0};
    (void)state;
    begin(0, 0);
    budget(BUDGET_INSTALLATION, -1, 5000);
    settle(1, 100, 900);
    assert_true(vault_budget_get(vault, BUDGET_INSTALLATION, NULL, &b));
    assert_int_equal(b.used_tokens, 1000);
    b.limit_tokens = 1500;
    OK(vault_budget_set(vault, &b, false, &e));
    assert_int_equal(admit(2), SPEND_BUDGET_REACHED);
    OK(vault_budget_set(vault, &b, true, &e));
    assert_true(vault_budget_get(vault, BUDGET_INSTALLATION, NULL, &b));
    assert_int_equal(b.used_tokens, 0);
    assert_int_equal(admit(3), SPEND_ADMITTED);
}

struct side {
    atomic_int *admitted;
    int64_t first;
};

static void *side_by_side(void *arg)
{
    struct side *s = arg;
    for (int64_t i = 0; i < 50; i++) {
        if (admit(s->first + i) == SPEND_ADMITTED) {
            atomic_fetch_add(s->admitted, 1);
        }
    }
    return NULL;
}

static void requests_side_by_side_do_not_overshoot_together(void **state)
{
    atomic_int admitted = 0;
    pthread_t threads[THREADS];
    struct side sides[THREADS];
    (void)state;
    begin(0, 0);
    budget(BUDGET_INSTALLATION, -1, 37500);
    for (size_t i = 0; i < THREADS; i++) {
        sides[i] = (struct side){.admitted = &admitted, .first = 1000 * (int64_t)(i + 1)};
        threads[i] = thread_start("side", side_by_side, &sides[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(admitted, 37);
    /* The rest is held, not spent: it is worth asking again. */
    struct spend_answer a = admit_as(&task, 1, MODEL);
    assert_int_equal(a.verdict, SPEND_RATE_LIMITED);
    assert_true(a.retry_after_s > 0);
}

static void the_holds_of_a_dead_proxy_end(void **state)
{
    (void)state;
    begin(0, 1500);
    assert_int_equal(admit(1), SPEND_ADMITTED);
    assert_int_equal(admit(2), SPEND_RATE_LIMITED);
    spend_boot(vault, STR("boot-2"));
    assert_int_equal(admit(1), SPEND_ADMITTED);
    /* Held again after a reconnect of the same life: once. */
    struct spend_request r = {.n = 1,
                              .task = task,
                              .provider = CLAUDE,
                              .model = MODEL,
                              .input_bytes = 300,
                              .max_tokens = 899,
                              .running = true};
    struct spend_answer a;
    spend_admit(vault, &r, &a);
    assert_int_equal(a.verdict, SPEND_ADMITTED);
    assert_int_equal(vault->spend->hold_count, 1);
}

static void a_task_that_is_over_asks_nothing(void **state)
{
    (void)state;
    begin(0, 0);
    struct ulid nobody = ulid_new();
    assert_int_equal(admit_as(&nobody, 1, MODEL).verdict, SPEND_UNKNOWN_TASK);
    assert_int_equal(admit(2), SPEND_ADMITTED);
    spend_task_end(vault, &task);
    assert_int_equal(admit(3), SPEND_UNKNOWN_TASK);
    settle(2, 10, 20);
    assert_int_equal(sums().requests, 1);
}

static void figures_that_come_late_take_the_place_of_the_first(void **state)
{
    struct spend_request late = {
        .n = 1, .provider = CLAUDE, .model = MODEL, .input_bytes = 600, .max_tokens = 899};
    struct spend_answer a;
    (void)state;
    begin(0, 1500);
    config.requests_per_minute = 1;
    late.task = task;
    assert_int_equal(admit(1), SPEND_ADMITTED);
    /* Neither what it held before nor its own first question stands in its way. */
    spend_admit(vault, &late, &a);
    assert_int_equal(a.verdict, SPEND_ADMITTED);
    assert_int_equal(a.left_tokens, 1500 - 201 - 899);
    late.max_tokens = 2000;
    spend_admit(vault, &late, &a);
    assert_int_equal(a.verdict, SPEND_BUDGET_REACHED);
    late.n = 2;
    spend_admit(vault, &late, &a);
    assert_int_equal(a.verdict, SPEND_BUDGET_REACHED);
    config.requests_per_minute = 0;
}

static void a_loop_is_slowed_and_then_stopped(void **state)
{
    (void)state;
    begin(0, 0);
    config.requests_per_minute = 5;
    for (int minute = 0; minute < 3; minute++) {
        for (int64_t n = 0; n < 5; n++) {
            assert_int_equal(admit(100 * minute + n), SPEND_ADMITTED);
        }
        struct spend_answer a = admit_as(&task, 100 * minute + 50, MODEL);
        assert_int_equal(a.verdict, minute < 2 ? SPEND_RATE_LIMITED : SPEND_BUDGET_REACHED);
        assert_non_null(strstr(a.message, "5 times in a minute"));
        LOCK_GUARD(&vault->spend->lock);
        spend_find_task(vault->spend, &task)->window_ms -= 61000;
    }
}

/* ---- counting ---- */

static void what_is_told_again_counts_once(void **state)
{
    struct vault_budget b;
    (void)state;
    begin(0, 0);
    budget(BUDGET_INSTALLATION, -1, 100000);
    for (int i = 0; i < 3; i++) {
        settle(7, 100, 900);
    }
    assert_int_equal(sums().requests, 1);
    settle(7, 100, 900);
    assert_int_equal(sums().requests, 1);
    assert_true(vault_budget_get(vault, BUDGET_INSTALLATION, NULL, &b));
    assert_int_equal(b.used_tokens, 1000);
    /* The same number of another life is another request. */
    spend_boot(vault, STR("boot-2"));
    settle_as(&task, STR("boot-2"), 7, 100, 900);
    assert_int_equal(sums().requests, 2);
}

static int64_t remembered(void)
{
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, &e, "SELECT count(*) FROM usage_seen", "");
    assert_true(db_next(rows, &e) > 0);
    int64_t count = db_int(rows, 0);
    db_rows_end(rows);
    db_read_end(db, conn);
    return count;
}

static void what_the_proxy_tells_no_more_is_forgotten(void **state)
{
    (void)state;
    begin(0, 0);
    for (int64_t n = 1; n <= 300; n++) {
        settled_below = n > 3 ? n - 3 : 1;
        settle(n, 1, 1);
    }
    assert_int_equal(sums().requests, 300);
    assert_int_equal(remembered(), 4);
    /* An earlier connection may still hold what was noted on the next one. */
    settled_below = 1;
    settle(5, 1, 1);
    settle(299, 1, 1);
    assert_int_equal(sums().requests, 300);
    /* Another life of the proxy begins at the front again. */
    spend_boot(vault, STR("boot-2"));
    settle_as(&task, STR("boot-2"), 1, 1, 1);
    assert_int_equal(sums().requests, 301);
    settled_below = 0;
}

static void a_budget_too_small_for_the_next_request_is_reached(void **state)
{
    struct vault_budget b;
    (void)state;
    begin(0, 0);
    budget(BUDGET_APP, -1, 900);
    assert_true(vault_budget_get(vault, BUDGET_APP, &app.id, &b));
    assert_false(b.is_reached);
    assert_int_equal(admit(1), SPEND_BUDGET_REACHED);
    assert_true(vault_budget_get(vault, BUDGET_APP, &app.id, &b));
    assert_true(b.is_reached);
    assert_int_equal(b.used_tokens, 0);
    budget(BUDGET_APP, -1, 5000);
    assert_true(vault_budget_get(vault, BUDGET_APP, &app.id, &b));
    assert_false(b.is_reached);
}

static void budgets_remember_over_a_restart(void **state)
{
    (void)state;
    begin(0, 1500);
    budget(BUDGET_DAY, -1, 1600);
    settle(1, 100, 900);
    stored();
    vault_stop(vault);
    vault = NULL;
    OK(vault_start(&config, db, &vault, &e));
    OK(spend_task_add(vault, &task, vault_agent_find(vault, STR("claude-code")), &e));
    spend_boot(vault, BOOT);
    assert_string_equal(admit_as(&task, 2, MODEL).scope, "task");
    struct ulid other = make_task(&app.id, 0, 0);
    assert_string_equal(admit_as(&other, 3, MODEL).scope, "day");
    settle(1, 100, 900);
    assert_int_equal(sums().requests, 1);
}

static void a_task_row_says_what_was_metered(void **state)
{
    struct task_row row;
    bool changed = false;
    (void)state;
    begin(0, 0);
    settle(1, 100, 900);
    struct spend_done d = {.n = 2,
                           .task = task,
                           .provider = CLAUDE,
                           .model = STR("no-such-model"),
                           .status = 200,
                           .tokens = {10, 20, 30, 40},
                           .cost_microusd = -1};
    assert_true(spend_settle(vault, BOOT, &d, 1));
    stored();
    /* What the agent says of itself does not replace it. */
    struct task_row end = {.id = task,
                           .status = TASK_SUCCEEDED,
                           .failure_reason = "",
                           .error_message = "",
                           .agent_message = "",
                           .tokens_input = 1,
                           .tokens_output = 2,
                           .tokens_cached = 3,
                           .cost_microusd = 4};
    OK(tasks_finish(db, &end, STR("\"status\":\"succeeded\""), &changed, &e));
    OK(tasks_get(db, &task, arena, &row, &e));
    assert_int_equal(row.requests, 2);
    assert_int_equal(row.unpriced, 1);
    assert_int_equal(row.tokens_input, 100 + 10 + 40);
    assert_int_equal(row.tokens_output, 920);
    assert_int_equal(row.tokens_cached, 30);
    assert_int_equal(row.cost_microusd, 200 + 9000);
}

static void the_providers_own_figure_wins(void **state)
{
    (void)state;
    begin(0, 0);
    struct spend_done d = {.n = 1,
                           .task = task,
                           .provider = STR("openrouter"),
                           .model = STR("no-such-model"),
                           .status = 200,
                           .tokens = {10, 20, -1, -1},
                           .cost_microusd = 12345};
    assert_true(spend_settle(vault, BOOT, &d, 1));
    assert_int_equal(sums().cost_microusd, 12345);
    assert_int_equal(sums().unpriced, 0);
}

static void eighty_percent_is_an_event_once(void **state)
{
    struct event_row *events = NULL;
    size_t count = 0;
    (void)state;
    begin(0, 10000);
    settle(1, 1000, 6000);
    settle(2, 0, 1000);
    settle(3, 0, 500);
    stored();
    OK(events_list(db, app.id.text, 0, 10, arena, &events, &count, &e));
    assert_int_equal(count, 1);
    assert_string_equal(events[0].kind, "budget.warning");
    assert_string_equal(events[0].task_id, task.text);
    assert_non_null(strstr(events[0].payload, "\"budget\":\"task\""));
}

static void the_smallest_budget_warns_too(void **state)
{
    struct event_row *events = NULL;
    size_t count = 0;
    (void)state;
    begin(0, 1);
    settle(1, 1, 0);
    stored();
    OK(events_list(db, app.id.text, 0, 10, arena, &events, &count, &e));
    assert_int_equal(count, 1);
    assert_string_equal(events[0].kind, "budget.warning");
}

static void hostile_names_are_kept_out(void **state)
{
    struct usage_filter all = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_line *lines = NULL;
    size_t count = 0;
    (void)state;
    begin(0, 0);
    struct spend_done d = {.n = 1,
                           .task = task,
                           .provider = CLAUDE,
                           .model = STR("\xff\xfe\n'; DROP TABLE usage; --"),
                           .status = 200,
                           .tokens = {-1, -1, -1, -1},
                           .cost_microusd = -1};
    assert_true(spend_settle(vault, BOOT, &d, 1));
    stored();
    OK(usage_list(db, &all, USAGE_BY_MODEL, "", 10, arena, &lines, &count, &e));
    assert_int_equal(count, 1);
    assert_string_equal(lines[0].group, "(unreadable)");
}

static void sums_are_grouped_and_paged(void **state)
{
    struct usage_filter all = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_line *lines = NULL;
    size_t count = 0;
    (void)state;
    begin(0, 0);
    struct ulid other = make_task(&app.id, 0, 0);
    settle(1, 1, 2);
    settle_as(&other, BOOT, 2, 3, 4);
    settle_as(&other, BOOT, 3, 5, 6);
    stored();
    OK(usage_list(db, &all, USAGE_BY_TASK, "", 1, arena, &lines, &count, &e));
    assert_int_equal(count, 1);
    assert_string_equal(lines[0].group, task.text);
    OK(usage_list(db, &all, USAGE_BY_TASK, lines[0].group, 10, arena, &lines, &count, &e));
    assert_int_equal(count, 1);
    assert_int_equal(lines[0].sums.requests, 2);
    assert_int_equal(lines[0].sums.input, 8);
    OK(usage_list(db, &all, USAGE_BY_DAY, "", 10, arena, &lines, &count, &e));
    assert_int_equal(count, 1);
    assert_int_equal(lines[0].sums.requests, 3);
    OK(usage_list(db, &all, USAGE_BY_NOTHING, "", 10, arena, &lines, &count, &e));
    assert_int_equal(count, 1);
    all.app_id = "nobody";
    OK(usage_list(db, &all, USAGE_BY_NOTHING, "", 10, arena, &lines, &count, &e));
    assert_int_equal(count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(prices_are_exact_dated_or_unknown),
        TEST(a_fraction_is_rounded_up_and_hostile_figures_are_bounded),
        TEST(a_long_prompt_costs_more_where_the_provider_says_so),
        TEST(the_owners_price_wins_and_can_be_taken_back),
        TEST(prices_of_ones_own_are_counted),
        TEST(without_a_budget_everything_is_admitted),
        TEST(a_task_stops_at_its_tokens),
        TEST(a_task_stops_at_its_money),
        TEST(an_unknown_price_is_refused_under_money_only),
        TEST(every_scope_counts_what_it_names),
        TEST(a_budget_begun_anew_counts_from_then_on),
        TEST(requests_side_by_side_do_not_overshoot_together),
        TEST(the_holds_of_a_dead_proxy_end),
        TEST(a_task_that_is_over_asks_nothing),
        TEST(figures_that_come_late_take_the_place_of_the_first),
        TEST(a_loop_is_slowed_and_then_stopped),
        TEST(what_is_told_again_counts_once),
        TEST(what_the_proxy_tells_no_more_is_forgotten),
        TEST(a_budget_too_small_for_the_next_request_is_reached),
        TEST(budgets_remember_over_a_restart),
        TEST(a_task_row_says_what_was_metered),
        TEST(the_providers_own_figure_wins),
        TEST(eighty_percent_is_an_event_once),
        TEST(the_smallest_budget_warns_too),
        TEST(hostile_names_are_kept_out),
        TEST(sums_are_grouped_and_paged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

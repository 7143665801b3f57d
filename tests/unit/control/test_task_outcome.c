/*
 * What the end of an agent's process means, which model is next, and the ids of attempts. Pure
 * pieces of the scheduler.
 */
#include "control/task/outcome.c"
#include "tests/unit/control/test.h"

static const struct vault_agent agent = {.id = "opencode", .label = "OpenCode"};
static struct config config = {.free_models = "one, two,,two words,three"};
static struct task_service service = {.config = &config};
static struct run run;
static struct buf text;

static int setup(void **state)
{
    (void)state;
    run = (struct run){.agent = &agent, .timeout_ms = 60000, .model_index = -1};
    agent_state_init(&run.state);
    buf_init(&run.err_tail, TASK_ERR_TAIL_BYTES);
    buf_init(&text, OUTCOME_TEXT_BYTES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_state_done(&run.state);
    buf_done(&run.err_tail);
    buf_done(&text);
    return 0;
}

static void decides(const char *cause, int64_t code, enum task_status status, const char *reason)
{
    struct run_exit x = {.seq = 9, .code = code};
    (void)snprintf(x.cause, sizeof(x.cause), "%s", cause);
    struct outcome o = outcome_decide(&service, &run, &x, &text);
    assert_int_equal(o.status, status);
    assert_string_equal(o.reason, reason);
}

static void fails_with(const char *reason, const char *words)
{
    run.state.failed = true;
    (void)snprintf(run.state.reason, sizeof(run.state.reason), "%s", reason);
    buf_puts(&run.state.error, words);
}

static void the_terminal_event_stands_whatever_follows(void **state)
{
    (void)state;
    run.state.terminal = true;
    decides("exit", 0, TASK_SUCCEEDED, "");
    decides("exit", 1, TASK_SUCCEEDED, "");
    decides("ended", 0, TASK_SUCCEEDED, "");
    decides("timeout", 0, TASK_SUCCEEDED, "");
    run.cancel_asked = true;
    decides("cancelled", 0, TASK_SUCCEEDED, "");
}

static void refuse(const char *code)
{
    (void)snprintf(run.refusal_code, sizeof(run.refusal_code), "%s", code);
    (void)snprintf(run.refusal, sizeof(run.refusal), "%s", "the budget of this task is reached");
}

/* However the agent ends after it was refused for good, the budget is why; unless it did its work,
 * or a person ended it. */
static void a_refusal_for_good_is_why(void **state)
{
    (void)state;
    refuse("budget_reached");
    assert_false(outcome_may_try_again(&run));
    decides("exit", 1, TASK_BUDGET_REACHED, "budget_reached");
    assert_non_null(strstr(text.ptr, "the budget of this task"));
    decides("cancelled", 0, TASK_BUDGET_REACHED, "budget_reached");
    fails_with("provider_error", "HTTP 403");
    decides("exit", 1, TASK_BUDGET_REACHED, "budget_reached");
    refuse("price_unknown");
    decides("exit", 1, TASK_FAILED, "price_unknown");
    run.cancel_asked = true;
    decides("cancelled", 0, TASK_CANCELLED, "");
    run.cancel_asked = false;
    run.state.failed = false;
    run.state.terminal = true;
    decides("exit", 0, TASK_SUCCEEDED, "");
}

static void an_exit_without_it_is_no_result(void **state)
{
    (void)state;
    decides("exit", 0, TASK_FAILED, "no_result");
    assert_true(text.len > 0);
}

static void a_bad_exit_says_what_stderr_said(void **state)
{
    (void)state;
    buf_puts(&run.err_tail, "cannot open the thing\n");
    decides("exit", 3, TASK_FAILED, "agent_error");
    assert_string_equal(text.ptr, "OpenCode exited with 3: cannot open the thing");
}

static void what_the_kernel_killed_is_the_reason(void **state)
{
    (void)state;
    (void)err_set(&run.kill, ERR_UNAVAILABLE, 0, "killed at the limit of 256 MiB");
    (void)err_tag(&run.kill, "out_of_memory");
    decides("exit", 137, TASK_FAILED, "out_of_memory");
    assert_string_equal(text.ptr, "OpenCode exited with 137; killed at the limit of 256 MiB");
    buf_reset(&text);
    (void)err_tag(&run.kill, "host_out_of_memory");
    decides("exit", 1, TASK_FAILED, "host_out_of_memory");
    buf_reset(&text);
    fails_with("agent_error", "the build failed");
    decides("exit", 1, TASK_FAILED, "host_out_of_memory");
    buf_reset(&text);
    /* What has a reason of its own keeps it. */
    fails_with("budget", "");
    decides("exit", 1, TASK_FAILED, "budget");
    run.state.terminal = true;
    run.state.failed = false;
    decides("exit", 137, TASK_SUCCEEDED, "");
}

static void a_full_heap_of_node_is_told_apart(void **state)
{
    (void)state;
    buf_puts(&run.err_tail, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap "
                            "out of memory\n");
    decides("exit", 134, TASK_FAILED, "node_heap_limit");
    assert_true(str_contains(buf_str(&text), STR("NODE_OPTIONS=--max-old-space-size")));
    buf_reset(&text);
    buf_reset(&run.err_tail);
    decides("exit", 134, TASK_FAILED, "agent_error");
}

static void a_sandbox_that_left_says_why(void **state)
{
    (void)state;
    struct sandbox_view view = {.end_code = "memory"};
    char reason[32];
    const char *message = NULL;
    outcome_sandbox_end(&view, reason, &message);
    assert_string_equal(reason, "memory");
    assert_true(str_starts(str_of(message), STR("stopped for memory")));
    (void)snprintf(view.end_code, sizeof(view.end_code), "host_out_of_memory");
    outcome_sandbox_end(&view, reason, &message);
    assert_string_equal(reason, "host_out_of_memory");
    (void)snprintf(view.end_code, sizeof(view.end_code), "killed");
    outcome_sandbox_end(&view, reason, &message);
    assert_string_equal(reason, "sandbox_stopped");
}

static void what_settled_counts_when_it_left_well(void **state)
{
    (void)state;
    run.state.settled = true;
    decides("exit", 0, TASK_SUCCEEDED, "");
    decides("exit", 1, TASK_FAILED, "agent_error");
}

static void the_providers_words_are_the_error(void **state)
{
    (void)state;
    fails_with("provider_error", "no credit");
    decides("exit", 1, TASK_FAILED, "provider_error");
    assert_string_equal(text.ptr, "no credit");
}

static void who_ended_it_decides(void **state)
{
    (void)state;
    decides("timeout", 0, TASK_TIMED_OUT, "timeout");
    decides("cancelled", 0, TASK_INTERRUPTED, "sandbox_stopped");
    run.timed_out = true;
    decides("cancelled", 0, TASK_TIMED_OUT, "timeout");
    run.timed_out = false;
    run.cancel_asked = true;
    decides("cancelled", 0, TASK_CANCELLED, "");
    fails_with("agent_error", "interrupted");
    decides("exit", 1, TASK_CANCELLED, "");
}

static void the_free_models_are_a_list_in_order(void **state)
{
    (void)state;
    test_str(models_free(config.free_models, 0), "one");
    test_str(models_free(config.free_models, 1), "two");
    test_str(models_free(config.free_models, 2), "three");
    assert_null(models_free(config.free_models, 3).ptr);
    assert_null(models_free("", 0).ptr);
}

static void a_dropped_model_is_passed_over(void **state)
{
    (void)state;
    run.model_index = 0;
    (void)snprintf(run.model, sizeof(run.model), "one");
    fails_with("provider_error", "Model one is not supported");
    run.state.model_unknown = true;
    assert_true(outcome_prepare_again(&service, &run, &text));
    assert_string_equal(run.model, "two");
    assert_true(str_contains(buf_str(&text), STR("Model one is not supported")));
    run.model_index = 2;
    assert_false(outcome_prepare_again(&service, &run, &text));
    buf_reset(&text);
    decides("exit", 1, TASK_FAILED, "provider_error");
    assert_true(str_contains(buf_str(&text), STR("SANDBOXD_OPENCODE_FREE_MODEL")));
}

static void a_model_that_acted_or_was_given_is_not_passed_over(void **state)
{
    (void)state;
    run.model_index = 0;
    run.state.model_unknown = true;
    run.given = true;
    assert_false(outcome_prepare_again(&service, &run, &text));
    run.given = false;
    run.state.acted = true;
    assert_false(outcome_prepare_again(&service, &run, &text));
    run.state.acted = false;
    run.cancel_asked = true;
    assert_false(outcome_prepare_again(&service, &run, &text));
    run.cancel_asked = false;
    run.attempt = TASK_ATTEMPTS_MAX - 1;
    assert_false(outcome_prepare_again(&service, &run, &text));
}

static void a_lost_conversation_begins_anew_once(void **state)
{
    (void)state;
    run.state.session_lost = true;
    assert_false(outcome_prepare_again(&service, &run, &text));
    run.resumes = true;
    assert_true(outcome_prepare_again(&service, &run, &text));
    assert_true(run.new_session);
    assert_false(outcome_prepare_again(&service, &run, &text));
}

static void attempts_have_ids_of_their_own(void **state)
{
    struct ulid parsed;
    (void)state;
    run.id = ulid_new();
    assert_int_equal(run.id.text[0], '0');
    for (run.attempt = 0; run.attempt < TASK_ATTEMPTS_MAX; run.attempt++) {
        struct ulid id = run_id(&run);
        assert_true(ulid_parse(str_of(id.text), &parsed));
        assert_int_equal(ulid_eq(&id, &run.id), run.attempt == 0);
    }
}

static void models_that_cannot_be_arguments_are_refused(void **state)
{
    static const char *const bad[] = {"", "-m", "a b", "a\n", "\xc3\xa4"};
    char longest[TASK_MODEL_BYTES_MAX + 2];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(models_valid(str_of(bad[i])));
    }
    memset(longest, 'x', sizeof(longest));
    assert_true(models_valid(str_n(longest, TASK_MODEL_BYTES_MAX)));
    assert_false(models_valid(str_n(longest, TASK_MODEL_BYTES_MAX + 1)));
    assert_true(models_valid(STR("anthropic/claude-sonnet-5")));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_kernel_killed_is_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_heap_of_node_is_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sandbox_that_left_says_why, setup, teardown),
        TEST(the_terminal_event_stands_whatever_follows),
        TEST(a_refusal_for_good_is_why),
        TEST(an_exit_without_it_is_no_result),
        TEST(a_bad_exit_says_what_stderr_said),
        TEST(what_settled_counts_when_it_left_well),
        TEST(the_providers_words_are_the_error),
        TEST(who_ended_it_decides),
        TEST(the_free_models_are_a_list_in_order),
        TEST(a_dropped_model_is_passed_over),
        TEST(a_model_that_acted_or_was_given_is_not_passed_over),
        TEST(a_lost_conversation_begins_anew_once),
        TEST(attempts_have_ids_of_their_own),
        TEST(models_that_cannot_be_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

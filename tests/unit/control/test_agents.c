/*
 * Agent adapters: what recorded and hostile lines of the real CLIs mean, and how the CLIs are
 * started.
 */
#include "control/task/agent_common.h"
#include "control/task/agents.h"
#include "control/vault/vault.h"
#include "lib/json_read.h"
#include "tests/unit/control/lines_claude.h"
#include "tests/unit/control/lines_opencode.h"
#include "tests/unit/control/test.h"

static struct agent_state state;
static struct buf told; /* "type{fields}\n" for each event */
static struct err e;

static int setup(void **unused)
{
    (void)unused;
    agent_state_init(&state);
    buf_init(&told, 8UL << 20);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    agent_state_done(&state);
    buf_done(&told);
    return 0;
}

static void note(void *ctx, const char *type, struct str fields)
{
    struct json_doc *doc = NULL;
    BUF_AUTO(object, 4UL << 20);
    (void)ctx;
    /* Whatever the line was, what is stored is sound JSON. */
    buf_printf(&object, "{%.*s}", STR_FMT(fields));
    OK(json_parse(buf_str(&object), &doc, &e));
    json_doc_free(doc);
    buf_printf(&told, "%s{%.*s}\n", type, STR_FMT(fields));
}

static void feed(const struct agent_adapter *agent, const char *const *lines)
{
    for (size_t i = 0; lines[i]; i++) {
        agent->line(&state, str_of(lines[i]), note, NULL);
    }
}

/* Lines in one text, each with its newline. */
static void feed_text(const struct agent_adapter *agent, const char *lines)
{
    struct str rest = str_of(lines);
    struct str line;
    while (rest.len > 0 && str_split(&rest, '\n', &line)) {
        agent->line(&state, line, note, NULL);
    }
}

static bool has(const char *text)
{
    return str_contains(buf_str(&told), str_of(text));
}

/* ---- OpenCode ---- */

static void opencode_succeeds(void **unused)
{
    (void)unused;
    feed(&agent_opencode, opencode_shell);
    assert_true(state.terminal);
    assert_false(state.failed);
    assert_true(state.acted);
    assert_string_equal(state.message.ptr, "The command answered: hi\n");
    assert_string_equal(state.session, "ses_dd72e889bffeykcA3W5SVkK5L5");
    assert_int_equal(state.tokens_input, 1000);
    assert_int_equal(state.tokens_output, 70);
    assert_int_equal(state.tokens_cached, 2000);
    assert_true(has("message{\"role\":\"assistant\",\"text\":\"Running the command.\"}"));
    assert_true(has("tool{\"name\":\"bash\",\"title\":\"echo hi\",\"status\":\"completed\","
                    "\"path\":\"\",\"output\":\"hi\\n\"}"));
}

static void opencode_is_not_done_before_its_last_step(void **unused)
{
    (void)unused;
    for (size_t i = 0; opencode_shell[i + 1]; i++) {
        agent_opencode.line(&state, str_of(opencode_shell[i]), note, NULL);
    }
    assert_false(state.terminal);
    assert_true(state.acted);
}

static void opencode_is_refused(void **unused)
{
    (void)unused;
    feed(&agent_opencode, opencode_refused);
    assert_true(state.failed);
    assert_false(state.terminal);
    assert_false(state.model_unknown);
    assert_string_equal(state.reason, "provider_error");
    assert_string_equal(state.error.ptr, "stub says 401: the key is not valid");
    assert_true(has("error{\"message\":\"stub says 401: the key is not valid\"}"));
}

static void opencode_names_an_unknown_model(void **unused)
{
    (void)unused;
    feed(&agent_opencode, opencode_unknown_model);
    assert_true(state.failed);
    assert_true(state.model_unknown);
}

static void opencode_passes_no_model_over_that_acted(void **unused)
{
    (void)unused;
    feed(&agent_opencode, opencode_shell);
    feed(&agent_opencode, opencode_unknown_model);
    assert_true(state.failed);
    assert_false(state.model_unknown);
}

static void opencode_loses_a_conversation(void **unused)
{
    (void)unused;
    agent_opencode.err_line(&state, str_of(opencode_lost[0]));
    assert_true(state.session_lost);
}

/* Some providers say stop in a step that called a tool: the agent goes on, and we must not end it.
 */
static void opencode_stop_with_a_tool_is_not_terminal(void **unused)
{
    (void)unused;
    feed_text(&agent_opencode, "{\"type\":\"step_start\",\"part\":{}}\n"
                               "{\"type\":\"tool_use\",\"part\":{\"tool\":\"bash\",\"state\":{"
                               "\"status\":\"completed\",\"output\":\"x\"}}}\n"
                               "{\"type\":\"step_finish\",\"part\":{\"reason\":\"stop\"}}\n");
    assert_false(state.terminal);
    assert_true(state.settled);
    feed_text(&agent_opencode, "{\"type\":\"step_start\",\"part\":{}}\n");
    assert_false(state.settled);
}

static void opencode_stopped_early_is_a_failure(void **unused)
{
    (void)unused;
    feed_text(&agent_opencode, "{\"type\":\"step_finish\",\"part\":{\"reason\":\"length\"}}\n");
    assert_true(state.terminal);
    assert_true(state.failed);
    assert_true(str_contains(buf_str(&state.error), STR("length")));
}

/* ---- Claude Code ---- */

static void claude_succeeds(void **unused)
{
    (void)unused;
    feed(&agent_claude, claude_shell);
    assert_true(state.terminal);
    assert_false(state.failed);
    assert_string_equal(state.message.ptr, "The command answered: hi");
    assert_string_equal(state.session, "2e3b94b8-ee0f-4126-8999-b38f0e782050");
    assert_int_equal(state.tokens_input, 1000);
    assert_int_equal(state.tokens_output, 70);
    assert_int_equal(state.tokens_cached, 2000);
    assert_true(has("tool{\"name\":\"Bash\",\"title\":\"echo hi\",\"status\":\"running\""));
    assert_true(has("tool{\"name\":\"Bash\",\"title\":\"echo hi\",\"status\":\"completed\","
                    "\"path\":\"\",\"output\":\"hi\"}"));
}

static void claude_is_refused(void **unused)
{
    (void)unused;
    feed(&agent_claude, claude_refused);
    assert_true(state.terminal);
    assert_true(state.failed);
    assert_false(state.acted);
    assert_string_equal(state.reason, "provider_error");
    assert_true(str_contains(buf_str(&state.error), STR("stub says 401")));
    assert_true(has("notice{\"text\":\"the provider answered 401"));
    assert_false(has("message{"));
}

static void claude_loses_a_conversation(void **unused)
{
    (void)unused;
    feed(&agent_claude, claude_lost);
    assert_true(state.session_lost);
    assert_string_equal(state.session, "");
}

/* Several calls at once: each answer finds its own. */
static void claude_keeps_calls_apart(void **unused)
{
    (void)unused;
    feed_text(
        &agent_claude,
        "{\"type\":\"assistant\",\"message\":{\"content\":["
        "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"Read\",\"input\":{\"file_path\":\"/x\"}},"
        "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"Bash\",\"input\":{\"command\":\"ls\"}}]}}\n"
        "{\"type\":\"user\",\"message\":{\"content\":["
        "{\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":\"two\"},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"is_error\":true,\"content\":[{"
        "\"type\":\"text\",\"text\":\"one\"}]}]}}\n");
    assert_true(
        has("tool{\"name\":\"Bash\",\"title\":\"ls\",\"status\":\"completed\",\"path\":\"\","
            "\"output\":\"two\"}"));
    assert_true(has("tool{\"name\":\"Read\",\"title\":\"/x\",\"status\":\"failed\",\"path\":\"/x\","
                    "\"output\":\"one\"}"));
}

/* ---- hostile ---- */

static const struct agent_adapter *const both[] = {&agent_opencode, &agent_claude};

static void hostile_lines_change_nothing(void **unused)
{
    static const char *const lines[] = {
        "",
        "not json",
        "{",
        "[]",
        "null",
        "{\"type\":7}",
        "{\"type\":\"text\"}",
        "{\"type\":\"text\",\"part\":[]}",
        "{\"type\":\"text\",\"part\":{\"text\":{}}}",
        "{\"type\":\"assistant\",\"message\":{\"content\":{}}}",
        "{\"type\":\"assistant\",\"message\":{\"content\":[1,null,{\"type\":\"text\"}]}}",
        "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result_\"}]}}",
        "{\"type\":\"step_finish\",\"part\":{\"reason\":\"tool-calls\",\"tokens\":{\"input\":-5,"
        "\"output\":1e9,\"cache\":7}}}",
        "{\"type\":\"x\",\"type\":\"text\",\"part\":{\"text\":\"twice\"}}",
        "{\"type\":\"text\",\"sessionID\":\"--help\",\"session_id\":\"-x y\"}",
    };
    (void)unused;
    for (size_t a = 0; a < ARRAY_LEN(both); a++) {
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
            both[a]->line(&state, str_of(lines[i]), note, NULL);
        }
    }
    assert_false(state.terminal);
    assert_false(state.failed);
    assert_false(state.acted);
    assert_string_equal(state.session, "");
    assert_int_equal(state.tokens_input, -1);
    assert_int_equal(told.len, 0);
}

static void deep_lines_are_refused(void **unused)
{
    BUF_AUTO(line, 1UL << 20);
    (void)unused;
    buf_puts(&line, "{\"type\":\"text\",\"part\":{\"text\":\"x\",\"deep\":");
    for (int i = 0; i < 100000; i++) {
        buf_putc(&line, '[');
    }
    for (size_t a = 0; a < ARRAY_LEN(both); a++) {
        both[a]->line(&state, buf_str(&line), note, NULL);
    }
    assert_false(state.acted);
}

static void huge_texts_are_cut(void **unused)
{
    BUF_AUTO(line, 4UL << 20);
    (void)unused;
    buf_puts(&line, "{\"type\":\"text\",\"part\":{\"text\":\"");
    for (int i = 0; i < 1000000; i++) {
        buf_puts(&line, "\xc3\xa4");
    }
    buf_puts(&line, "\"}}");
    agent_opencode.line(&state, buf_str(&line), note, NULL);
    assert_true(state.acted);
    assert_true(told.len > 1000);
    assert_true(told.len < 1UL << 20);
    assert_true(str_is_utf8(buf_str(&state.message)));
}

/* ---- starting ---- */

static struct agent_run prepare(const struct agent_adapter *agent, struct arena *a,
                                const char *session)
{
    static const struct vault_agent known = {.base_url_env = "ANTHROPIC_BASE_URL",
                                             .base_url_strip = "/v1",
                                             .key_env = "ANTHROPIC_API_KEY"};
    bool claude = agent == &agent_claude;
    struct agent_run run = {.agent = &known,
                            .provider = claude ? "anthropic" : "zen",
                            .provider_name = claude ? "" : "opencode",
                            .base_path = claude ? "/v1" : "",
                            .speaks_anthropic = claude,
                            .model = "big-pickle",
                            .session = session,
                            .token = "sbt_token",
                            .prompt = "-- make \"it\"\nso",
                            .arena = a};
    OK(agent->prepare(&run, &e));
    return run;
}

static const char *env_of(const struct agent_run *run, const char *name)
{
    for (size_t i = 0; run->env[i]; i++) {
        if (strncmp(run->env[i], name, strlen(name)) == 0 && run->env[i][strlen(name)] == '=') {
            return run->env[i] + strlen(name) + 1;
        }
    }
    return NULL;
}

static bool arg_of(const struct agent_run *run, const char *arg)
{
    for (size_t i = 0; run->argv[i]; i++) {
        if (strcmp(run->argv[i], arg) == 0) {
            return true;
        }
    }
    return false;
}

static void opencode_is_pointed_at_the_door(void **unused)
{
    struct arena *a AUTO(arena) = arena_new(1UL << 20);
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct agent_run run = prepare(&agent_opencode, a, "");
    (void)unused;
    OK(json_parse(str_of(env_of(&run, "OPENCODE_CONFIG_CONTENT")), &doc, &e));
    const struct json_value *c = json_root(doc);
    const struct json_value *options = json_path(c, "provider", "opencode", "options", NULL);
    test_str(json_get_str(c, "model"), "opencode/big-pickle");
    test_str(json_get_str(options, "baseURL"), "http://127.0.0.1:9100/zen");
    test_str(json_get_str(options, "apiKey"), "sbt_token");
    assert_false(arg_of(&run, "--session"));
    assert_string_equal(run.stdin_text, "-- make \"it\"\nso");
    for (size_t i = 0; run.argv[i]; i++) {
        assert_null(strstr(run.argv[i], "sbt_token"));
    }
    run = prepare(&agent_opencode, a, "ses_1");
    assert_true(arg_of(&run, "ses_1"));
}

/* One of the owner's own is in no catalogue: the language decides which of its parts speaks. */
static void opencode_speaks_with_a_provider_it_does_not_know(void **unused)
{
    static const char *const parts[] = {"@ai-sdk/openai-compatible", "@ai-sdk/anthropic"};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct arena *a AUTO(arena) = arena_new(1UL << 20);
        struct json_doc *doc AUTO(json_doc) = NULL;
        struct agent_run run = {.provider = "ollama",
                                .provider_name = "",
                                .base_path = i == 1 ? "/v1" : "",
                                .speaks_anthropic = i == 1,
                                .model = "m",
                                .session = "",
                                .token = "sbt_token",
                                .prompt = "p",
                                .arena = a};
        OK(agent_opencode.prepare(&run, &e));
        OK(json_parse(str_of(env_of(&run, "OPENCODE_CONFIG_CONTENT")), &doc, &e));
        const struct json_value *provider = json_path(json_root(doc), "provider", "ollama", NULL);
        test_str(json_get_str(provider, "npm"), parts[i]);
        test_str(json_get_str(json_get(provider, "options"), "baseURL"),
                 i == 1 ? "http://127.0.0.1:9100/ollama/v1" : "http://127.0.0.1:9100/ollama");
        test_str(json_get_str(json_root(doc), "model"), "ollama/m");
    }
}

static void claude_is_pointed_at_the_door(void **unused)
{
    struct arena *a AUTO(arena) = arena_new(1UL << 20);
    struct agent_run run = prepare(&agent_claude, a, "");
    (void)unused;
    assert_string_equal(env_of(&run, "ANTHROPIC_BASE_URL"), "http://127.0.0.1:9100/anthropic");
    assert_string_equal(env_of(&run, "ANTHROPIC_API_KEY"), "sbt_token");
    assert_true(arg_of(&run, "--setting-sources"));
    assert_true(arg_of(&run, "--strict-mcp-config"));
    assert_false(arg_of(&run, "--resume"));
    for (size_t i = 0; run.argv[i]; i++) {
        assert_null(strstr(run.argv[i], "sbt_token"));
    }
    run = prepare(&agent_claude, a, "11111111-2222-3333-4444-555555555555");
    assert_true(arg_of(&run, "--resume"));
}

static void models_name_their_provider(void **unused)
{
    static const char *const providers[] = {"zen", "anthropic", NULL};
    static const char *const cases[][3] = {
        {"big-pickle", "zen", "big-pickle"},
        {"opencode/big-pickle", "zen", "big-pickle"},
        {"zen/big-pickle", "zen", "big-pickle"},
        {"anthropic/claude-sonnet-5", "anthropic", "claude-sonnet-5"},
        {"vendor/model", "zen", "vendor/model"},
        {"anthropic/", "zen", "anthropic/"},
    };
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str provider;
        const char *model = NULL;
        agent_split_model(providers, "zen", cases[i][0], &provider, &model);
        test_str(provider, cases[i][1]);
        assert_string_equal(model, cases[i][2]);
    }
}

static void only_a_refusal_about_the_model_is_one(void **unused)
{
    (void)unused;
    assert_true(agent_says_model_unknown(401, STR("Model big-pickle is not supported")));
    assert_true(agent_says_model_unknown(404, STR("the MODEL does not exist")));
    assert_false(agent_says_model_unknown(401, STR("the key is not valid")));
    assert_false(agent_says_model_unknown(500, STR("Model x is not supported")));
    assert_false(agent_says_model_unknown(400, STR("the model refused this request")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opencode_succeeds, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_is_not_done_before_its_last_step, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_names_an_unknown_model, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_passes_no_model_over_that_acted, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_loses_a_conversation, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_stop_with_a_tool_is_not_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(opencode_stopped_early_is_a_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(claude_succeeds, setup, teardown),
        cmocka_unit_test_setup_teardown(claude_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(claude_loses_a_conversation, setup, teardown),
        cmocka_unit_test_setup_teardown(claude_keeps_calls_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_lines_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(deep_lines_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(huge_texts_are_cut, setup, teardown),
        cmocka_unit_test(opencode_is_pointed_at_the_door),
        cmocka_unit_test(opencode_speaks_with_a_provider_it_does_not_know),
        cmocka_unit_test(claude_is_pointed_at_the_door),
        cmocka_unit_test(models_name_their_provider),
        cmocka_unit_test(only_a_refusal_about_the_model_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

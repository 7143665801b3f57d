/*
 * Claude Code: `claude -p --output-format stream-json`. Its lines are hostile. Pure; the
 * scheduler's thread.
 */
#include <stdio.h>

#include "control/task/agent_common.h"
#include "control/task/agents.h"
#include "control/vault/vault.h"
#include "lib/mem.h"

#define CLAUDE_DIR        AGENT_HOME_DIR "/.agents/claude-code"
#define CLAUDE_BLOCKS_MAX 64

static void claude_environment(struct agent_run *run)
{
    static const char *const own[][2] = {
        {"CLAUDE_CONFIG_DIR", CLAUDE_DIR},
        {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
        {"DISABLE_AUTOUPDATER", "1"},
        {"DISABLE_TELEMETRY", "1"},
        {"DISABLE_ERROR_REPORTING", "1"},
        {"CLAUDE_CODE_MAX_RETRIES", "3"},
        {"CLAUDE_CODE_DISABLE_1M_CONTEXT", "1"},
        {"API_TIMEOUT_MS", "300000"},
    };
    agent_env_common(run);
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        agent_env(run, own[i][0], own[i][1]);
    }
    /* It puts the version behind the base URL itself. */
    struct str path = str_of(run->base_path);
    struct str strip = str_of(run->agent->base_url_strip);
    path = str_ends(path, strip) ? str_cut(path, 0, path.len - strip.len) : path;
    agent_env(run, run->agent->base_url_env,
              arena_printf(run->arena, "%s%s%.*s", AGENT_DOOR, run->provider, STR_FMT(path)));
    agent_env(run, run->agent->key_env, run->token);
}

static int claude_prepare(struct agent_run *run, struct err *e)
{
    /* Conversations; everything else in its directory could be an order to itself. */
    static const char *const keep[] = {"projects", NULL};
    /* Settings of the project are not read: they could send the prompt elsewhere and run hooks. */
    static const char *const fixed[] = {
        "/usr/local/bin/claude", "-p",        "--output-format",
        "stream-json",           "--verbose", "--dangerously-skip-permissions",
        "--setting-sources",     "user",      "--strict-mcp-config"};
    (void)e;
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        agent_arg(run, fixed[i]);
    }
    agent_arg(run, "--append-system-prompt");
    agent_arg(run, agent_house_rules);
    agent_arg(run, "--model");
    agent_arg(run, run->model);
    agent_arg(run, "--disallowedTools");
    agent_arg(run, "WebFetch");
    agent_arg(run, "WebSearch");
    if (run->session[0]) {
        agent_arg(run, "--resume");
        agent_arg(run, run->session);
    }
    claude_environment(run);
    run->home = ".agents/claude-code";
    run->keep = keep;
    agent_file(run, ".agents/claude-code/settings.json", "{}\n");
    run->stdin_text = run->prompt;
    return 0;
}

/* ---- lines ---- */

static struct str claude_path(const struct json_value *input)
{
    struct str path = json_get_str(input, "file_path");
    return path.ptr ? path : json_get_str(input, "path");
}

static struct str claude_title(const struct json_value *input)
{
    struct str title = json_get_str(input, "command");
    title = title.ptr ? title : claude_path(input);
    return title.ptr ? title : json_get_str(input, "description");
}

static void claude_copy(char *out, size_t size, struct str text)
{
    text = agent_clip(text, size - 1);
    (void)snprintf(out, size, "%.*s", STR_FMT(text));
}

static void claude_tool_use(struct agent_state *state, const struct json_value *block,
                            agent_emit emit, void *ctx)
{
    const struct json_value *input = json_get(block, "input");
    struct agent_tool tool = {.name = json_get_str(block, "name"),
                              .title = claude_title(input),
                              .status = "running",
                              .path = claude_path(input)};
    /* The answer names its call only by an id. */
    struct agent_call *call = &state->calls[state->call_count++ % AGENT_CALLS_MAX];
    claude_copy(call->id, sizeof(call->id), json_get_str(block, "id"));
    claude_copy(call->name, sizeof(call->name), tool.name);
    claude_copy(call->title, sizeof(call->title), tool.title);
    claude_copy(call->path, sizeof(call->path), tool.path);
    agent_emit_tool(state, &tool, emit, ctx);
}

static const struct agent_call *claude_call(const struct agent_state *state, struct str id)
{
    static const struct agent_call unknown = {.name = "tool"};
    for (size_t i = 0; i < AGENT_CALLS_MAX; i++) {
        if (id.len > 0 && str_is(id, state->calls[i].id)) {
            return &state->calls[i];
        }
    }
    return &unknown;
}

static void claude_assistant(struct agent_state *state, const struct json_value *event,
                             agent_emit emit, void *ctx)
{
    const struct json_value *message = json_get(event, "message");
    const struct json_value *content = json_get(message, "content");
    if (!json_is_array(content) || str_is(json_get_str(message, "model"), "<synthetic>")) {
        return; /* its own words about an error: the result says them again */
    }
    for (size_t i = 0; i < json_count(content) && i < CLAUDE_BLOCKS_MAX; i++) {
        const struct json_value *block = json_at(content, i);
        struct str type = json_get_str(block, "type");
        if (str_is(type, "text")) {
            agent_say(state, json_get_str(block, "text"), emit, ctx);
        } else if (str_is(type, "tool_use")) {
            claude_tool_use(state, block, emit, ctx);
        }
    }
}

/* Text of a tool's answer: a string, or a list of blocks of which the first text counts. */
static struct str claude_output(const struct json_value *content)
{
    if (!json_is_array(content)) {
        return json_as_str(content);
    }
    for (size_t i = 0; i < json_count(content) && i < CLAUDE_BLOCKS_MAX; i++) {
        struct str text = json_get_str(json_at(content, i), "text");
        if (text.ptr) {
            return text;
        }
    }
    return (struct str){NULL, 0};
}

static void claude_user(struct agent_state *state, const struct json_value *event, agent_emit emit,
                        void *ctx)
{
    const struct json_value *content = json_path(event, "message", "content", NULL);
    for (size_t i = 0; json_is_array(content) && i < json_count(content) && i < CLAUDE_BLOCKS_MAX;
         i++) {
        const struct json_value *block = json_at(content, i);
        bool failed = false;
        if (!str_is(json_get_str(block, "type"), "tool_result")) {
            continue;
        }
        (void)json_get_bool(block, "is_error", &failed);
        const struct agent_call *call = claude_call(state, json_get_str(block, "tool_use_id"));
        struct agent_tool tool = {.name = str_of(call->name),
                                  .title = str_of(call->title),
                                  .status = failed ? "failed" : "completed",
                                  .path = str_of(call->path),
                                  .output = claude_output(json_get(block, "content"))};
        agent_emit_tool(state, &tool, emit, ctx);
    }
}

static void claude_retry(const struct json_value *event, agent_emit emit, void *ctx)
{
    BUF_AUTO(object, 4096);
    struct json_writer w;
    char text[256];
    int64_t attempt = 0;
    int64_t max = 0;
    int64_t status = 0;
    (void)json_get_int(event, "attempt", &attempt);
    (void)json_get_int(event, "max_retries", &max);
    (void)json_get_int(event, "error_status", &status);
    (void)snprintf(text, sizeof(text),
                   "the provider answered %lld (%.*s); try %lld of %lld follows", (long long)status,
                   STR_FMT(agent_clip(json_get_str(event, "error"), 64)), (long long)attempt,
                   (long long)max);
    json_begin(&w, &object);
    json_object(&w, NULL);
    json_text(&w, "text", text);
    json_object_end(&w);
    if (buf_ok(&object)) {
        emit(ctx, "notice", str_cut(buf_str(&object), 1, object.len - 1));
    }
}

static void claude_usage(struct agent_state *state, const struct json_value *usage)
{
    /* The result's figures are those of the whole run. */
    state->tokens_input = -1;
    state->tokens_output = -1;
    state->tokens_cached = -1;
    agent_count(&state->tokens_input, usage, "input_tokens");
    agent_count(&state->tokens_input, usage, "cache_creation_input_tokens");
    agent_count(&state->tokens_output, usage, "output_tokens");
    agent_count(&state->tokens_cached, usage, "cache_read_input_tokens");
}

static void claude_failure(struct agent_state *state, const struct json_value *event,
                           agent_emit emit, void *ctx)
{
    struct str text = json_get_str(event, "result");
    struct str subtype = json_get_str(event, "subtype");
    int64_t status = 0;
    bool provider = json_get_int(event, "api_error_status", &status) && status > 0;
    if (str_empty(text)) {
        text = json_as_str(json_at(json_get(event, "errors"), 0));
    }
    if (str_empty(text)) {
        text = str_empty(subtype) ? STR("claude reported a failure without words") : subtype;
    }
    if (!state->acted && str_contains(text, STR("No conversation found"))) {
        state->session_lost = true;
    }
    state->model_unknown = !state->acted && agent_says_model_unknown(status, text);
    agent_fail(state, provider ? "provider_error" : "agent_error", text, emit, ctx);
}

static void claude_result(struct agent_state *state, const struct json_value *event,
                          agent_emit emit, void *ctx)
{
    bool failed = true;
    (void)json_get_bool(event, "is_error", &failed);
    claude_usage(state, json_get(event, "usage"));
    state->terminal = true;
    if (failed) {
        claude_failure(state, event, emit, ctx);
        return;
    }
    state->failed = false;
    struct str text = json_get_str(event, "result");
    if (!str_empty(str_trim(text))) {
        agent_set(&state->message, text, AGENT_TEXT_MAX / 2);
    }
}

static void claude_line(struct agent_state *state, struct str line, agent_emit emit, void *ctx)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err e;
    if (json_parse(line, &doc, &e) != 0 || !json_is_object(json_root(doc))) {
        return; /* not of its protocol */
    }
    const struct json_value *event = json_root(doc);
    struct str type = json_get_str(event, "type");
    bool nested = json_get_str(event, "parent_tool_use_id").ptr != NULL;
    if (str_is(type, "assistant") && !nested) {
        claude_assistant(state, event, emit, ctx);
    } else if (str_is(type, "user") && !nested) {
        claude_user(state, event, emit, ctx);
    } else if (str_is(type, "result")) {
        claude_result(state, event, emit, ctx);
    } else if (str_is(json_get_str(event, "subtype"), "api_retry")) {
        claude_retry(event, emit, ctx);
    }
    if (!state->session_lost) {
        agent_set_session(state, json_get_str(event, "session_id"));
    }
}

static void claude_err_line(struct agent_state *state, struct str line)
{
    if (!state->acted && str_contains(line, STR("No conversation found"))) {
        state->session_lost = true;
    }
}

const struct agent_adapter agent_claude = {
    .id = "claude-code",
    .prepare = claude_prepare,
    .line = claude_line,
    .err_line = claude_err_line,
};

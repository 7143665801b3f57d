/*
 * OpenCode: `opencode run --format json`. Its lines are hostile. Pure; the scheduler's thread.
 */
#include <stdio.h>

#include "control/task/agent_common.h"
#include "control/task/agents.h"
#include "lib/mem.h"

#define OPENCODE_DIR        AGENT_HOME_DIR "/.agents/opencode"
#define OPENCODE_CONFIG_MAX 32768
/* A model that thinks may be silent for long; the proxy has limits of its own. */
#define OPENCODE_SILENCE_MS 300000

/* Its own name of a provider of ours; one that its catalogue does not have keeps our name. */
static const char *opencode_provider(const struct agent_run *run)
{
    return run->provider_name[0] ? run->provider_name : run->provider;
}

static const char *opencode_base_url(struct agent_run *run)
{
    return arena_printf(run->arena, "%s%s%s", AGENT_DOOR, run->provider, run->base_path);
}

/* Named here, a model that is younger than the CLI's catalogue is asked for all the same, and one
 * that the catalogue calls deprecated is not taken out of it: the provider decides. */
static void opencode_write_models(struct json_writer *w, const struct agent_run *run)
{
    json_object(w, "models");
    json_object(w, run->model);
    json_text(w, "status", "active");
    json_object_end(w);
    /* A conversation in which another model spoke cannot be gone on with when that one is missing.
     */
    for (size_t i = 0; run->other_models && run->other_models[i]; i++) {
        json_object(w, run->other_models[i]);
        json_text(w, "status", "active");
        json_object_end(w);
    }
    json_object_end(w);
}

static void opencode_write_provider(struct json_writer *w, struct agent_run *run)
{
    json_object(w, "provider");
    json_object(w, opencode_provider(run));
    if (!run->provider_name[0]) {
        /* Both are part of the program; nothing is fetched. */
        json_text(w, "npm",
                  run->speaks_anthropic ? "@ai-sdk/anthropic" : "@ai-sdk/openai-compatible");
        json_text(w, "name", run->provider);
    }
    json_object(w, "options");
    json_text(w, "baseURL", opencode_base_url(run));
    json_text(w, "apiKey", run->token);
    json_int(w, "headerTimeout", OPENCODE_SILENCE_MS);
    json_int(w, "chunkTimeout", OPENCODE_SILENCE_MS);
    json_object_end(w);
    opencode_write_models(w, run);
    json_object_end(w);
    json_object_end(w);
}

static void opencode_write_permissions(struct json_writer *w)
{
    /* The container is the wall; what needs a person, the network or a second agent is off. */
    static const char *const denied[] = {"webfetch", "websearch", "skill",
                                         "task",     "question",  "doom_loop"};
    json_object(w, "permission");
    json_text(w, "*", "allow");
    json_text(w, "external_directory", "allow");
    for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
        json_text(w, denied[i], "deny");
    }
    json_object_end(w);
}

static const char *opencode_config(struct agent_run *run)
{
    BUF_AUTO(out, OPENCODE_CONFIG_MAX);
    struct json_writer w;
    const char *provider = opencode_provider(run);
    const char *model = arena_printf(run->arena, "%s/%s", provider, run->model);
    json_begin(&w, &out);
    json_object(&w, NULL);
    json_text(&w, "$schema", "https://opencode.ai/config.json");
    json_text(&w, "model", model);
    json_text(&w, "small_model", model);
    json_array(&w, "enabled_providers");
    json_text(&w, NULL, provider);
    json_array_end(&w);
    json_bool(&w, "autoupdate", false);
    json_text(&w, "share", "disabled");
    json_bool(&w, "snapshot", false);
    json_bool(&w, "lsp", false);
    json_bool(&w, "formatter", false);
    json_array(&w, "instructions");
    json_text(&w, NULL, OPENCODE_DIR "/rules.md");
    json_text(&w, NULL, AGENT_APP_DIR "/AGENTS.md");
    json_array_end(&w);
    opencode_write_provider(&w, run);
    opencode_write_permissions(&w);
    json_object_end(&w);
    return buf_ok(&out) ? arena_str(run->arena, buf_str(&out)) : NULL;
}

static void opencode_environment(struct agent_run *run)
{
    static const char *const own[][2] = {
        {"XDG_CONFIG_HOME", OPENCODE_DIR "/config"},
        {"XDG_DATA_HOME", OPENCODE_DIR "/data"},
        {"XDG_STATE_HOME", OPENCODE_DIR "/state"},
        {"XDG_CACHE_HOME", OPENCODE_DIR "/cache"},
        {"OPENCODE_DISABLE_MODELS_FETCH", "1"},
        {"OPENCODE_DISABLE_AUTOUPDATE", "1"},
        {"OPENCODE_DISABLE_LSP_DOWNLOAD", "1"},
        {"OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"},
        {"OPENCODE_DISABLE_SHARE", "1"},
        {"OPENCODE_DISABLE_PROJECT_CONFIG", "1"},
        {"OPENCODE_DISABLE_CLAUDE_CODE", "1"},
        {"OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"},
        {"OPENCODE_DISABLE_FFF", "1"},
    };
    agent_env_common(run);
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        agent_env(run, own[i][0], own[i][1]);
    }
}

static int opencode_prepare(struct agent_run *run, struct err *e)
{
    /* Its data directory holds the conversations. */
    static const char *const keep[] = {"data", NULL};
    const char *config = opencode_config(run);
    if (!config) {
        return err_set(e, ERR_LIMIT, 0, "the configuration of opencode is too long");
    }
    agent_arg(run, "/usr/local/bin/opencode");
    agent_arg(run, "run");
    agent_arg(run, "--format");
    agent_arg(run, "json");
    /* Without a title it would ask the model for one. */
    agent_arg(run, "--title");
    agent_arg(run, "task");
    /* A conversation remembers the model of its last turn, and would ask that one again. */
    agent_arg(run, "-m");
    agent_arg(run, arena_printf(run->arena, "%s/%s", opencode_provider(run), run->model));
    if (run->session[0]) {
        agent_arg(run, "--session");
        agent_arg(run, run->session);
    }
    opencode_environment(run);
    agent_env(run, "OPENCODE_CONFIG_CONTENT", config);
    run->home = ".agents/opencode";
    run->keep = keep;
    agent_file(run, ".agents/opencode/rules.md", agent_house_rules);
    /* The ignore file must exist; with these two it does not fetch its plugin package. */
    agent_file(run, ".agents/opencode/config/opencode/.gitignore", "*\n");
    agent_file(run, ".agents/opencode/config/opencode/node_modules/.keep", "");
    agent_file(run, ".agents/opencode/config/opencode/package-lock.json",
               "{\"lockfileVersion\":3,\"packages\":{\"\":{\"dependencies\":"
               "{\"@opencode-ai/plugin\":\"*\"}}}}\n");
    run->stdin_text = run->prompt;
    return 0;
}

/* ---- lines ---- */

static struct str opencode_tool_path(const struct json_value *input)
{
    struct str path = json_get_str(input, "filePath");
    return path.ptr ? path : json_get_str(input, "path");
}

static void opencode_tool(struct agent_state *state, const struct json_value *part, agent_emit emit,
                          void *ctx)
{
    const struct json_value *call = json_get(part, "state");
    bool failed = str_is(json_get_str(call, "status"), "error");
    struct agent_tool tool = {.name = json_get_str(part, "tool"),
                              .title = json_get_str(call, "title"),
                              .status = failed ? "failed" : "completed",
                              .path = opencode_tool_path(json_get(call, "input")),
                              .output = json_get_str(call, failed ? "error" : "output")};
    if (str_empty(tool.title)) {
        tool.title = json_get_str(json_get(call, "input"), "description");
    }
    state->in_tool = true;
    agent_emit_tool(state, &tool, emit, ctx);
}

static void opencode_step_finish(struct agent_state *state, const struct json_value *part,
                                 agent_emit emit, void *ctx)
{
    const struct json_value *tokens = json_get(part, "tokens");
    struct str reason = json_get_str(part, "reason");
    agent_count(&state->tokens_input, tokens, "input");
    agent_count(&state->tokens_input, json_get(tokens, "cache"), "write");
    agent_count(&state->tokens_output, tokens, "output");
    agent_count(&state->tokens_output, tokens, "reasoning");
    agent_count(&state->tokens_cached, json_get(tokens, "cache"), "read");
    if (str_is(reason, "stop")) {
        /* Some providers say stop and call a tool all the same: then another step follows. */
        state->terminal = !state->in_tool;
        state->settled = true;
    } else if (str_is(reason, "length") || str_is(reason, "content-filter")) {
        char text[96];
        (void)snprintf(text, sizeof(text), "the model stopped before it was done: %.*s",
                       STR_FMT(str_cut(reason, 0, 32)));
        agent_fail(state, "agent_error", str_of(text), emit, ctx);
        state->terminal = true;
    }
}

static void opencode_error(struct agent_state *state, const struct json_value *error,
                           agent_emit emit, void *ctx)
{
    const struct json_value *data = json_get(error, "data");
    struct str name = json_get_str(error, "name");
    struct str message = json_get_str(data, "message");
    int64_t status = 0;
    (void)json_get_int(data, "statusCode", &status);
    if (str_empty(message)) {
        message = str_empty(name) ? STR("opencode reported an error without words") : name;
    }
    bool unknown = agent_says_model_unknown(status, message) ||
                   agent_says_model_unknown(status, json_get_str(data, "responseBody")) ||
                   str_is(name, "ProviderModelNotFoundError");
    state->model_unknown = unknown && !state->acted;
    /* Its word for a conversation that it cannot go on with: one whose model is gone, for example.
     */
    state->session_lost = state->session_lost || (!state->acted && str_is(name, "UnknownError"));
    agent_fail(state, status > 0 || unknown ? "provider_error" : "agent_error", message, emit, ctx);
}

static void opencode_line(struct agent_state *state, struct str line, agent_emit emit, void *ctx)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err e;
    if (json_parse(line, &doc, &e) != 0 || !json_is_object(json_root(doc))) {
        return; /* not of its protocol */
    }
    const struct json_value *event = json_root(doc);
    const struct json_value *part = json_get(event, "part");
    struct str type = json_get_str(event, "type");
    agent_set_session(state, json_get_str(event, "sessionID"));
    if (str_is(type, "step_start")) {
        state->terminal = false;
        state->settled = false;
        state->failed = false;
        state->in_tool = false;
    } else if (str_is(type, "text")) {
        agent_say(state, json_get_str(part, "text"), emit, ctx);
    } else if (str_is(type, "tool_use")) {
        opencode_tool(state, part, emit, ctx);
    } else if (str_is(type, "step_finish")) {
        opencode_step_finish(state, part, emit, ctx);
    } else if (str_is(type, "error")) {
        opencode_error(state, json_get(event, "error"), emit, ctx);
    }
}

static void opencode_err_line(struct agent_state *state, struct str line)
{
    if (!state->acted && str_contains(line, STR("Session not found"))) {
        state->session_lost = true;
    }
}

const struct agent_adapter agent_opencode = {
    .id = "opencode",
    .prepare = opencode_prepare,
    .line = opencode_line,
    .err_line = opencode_err_line,
};

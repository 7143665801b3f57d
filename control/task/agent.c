/*
 * Agents: the table of adapters and what they share. Pure; any thread.
 */
#include "control/task/agent.h"

#include <assert.h>
#include <stdio.h>

#include "control/task/agent_common.h"
#include "control/task/agents.h"
#include "lib/mem.h"

const char agent_house_rules[] =
    "You are working in a sandbox on one web app. Its source is in " AGENT_APP_DIR ".\n"
    "- Its processes are declared in sandbox.yaml and already running: a development server with "
    "hot reload serves the app on its port, so a saved file is live at once. Do not start another "
    "server and do not stop this one.\n"
    "- Read AGENTS.md in the app's directory first: it is the owner's word about this project.\n"
    "- Bind servers to the port the project names; do not change ports.\n"
    "- Finish the work yourself, nobody can answer questions. End with a short summary of what "
    "changed, in plain words.\n";

static const struct agent_adapter *const agents[] = {&agent_opencode, &agent_claude};

const struct agent_adapter *agent_find(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
        if (strcmp(agents[i]->id, id) == 0) {
            return agents[i];
        }
    }
    return NULL;
}

void agent_split_model(const char *const *providers, const char *native, const char *model,
                       struct str *ret_provider, const char **ret_model)
{
    const char *slash = strchr(model, '/');
    *ret_provider = str_of(native);
    *ret_model = model;
    if (!slash || slash[1] == '\0') {
        return;
    }
    struct str prefix = {model, (size_t)(slash - model)};
    /* OpenCode's own name of its provider, as its documentation writes it. */
    if (str_is(prefix, "opencode") && strcmp(native, "zen") == 0) {
        *ret_model = slash + 1;
        return;
    }
    for (size_t i = 0; providers[i]; i++) {
        if (str_is(prefix, providers[i])) {
            *ret_provider = prefix;
            *ret_model = slash + 1;
        }
    }
}

void agent_state_init(struct agent_state *state)
{
    *state = (struct agent_state){.tokens_input = -1, .tokens_output = -1, .tokens_cached = -1};
    buf_init(&state->error, AGENT_ERROR_MAX);
    buf_init(&state->message, AGENT_TEXT_MAX);
}

void agent_state_done(struct agent_state *state)
{
    buf_done(&state->error);
    buf_done(&state->message);
}

/* ---- building a run ---- */

void agent_env(struct agent_run *run, const char *name, const char *value)
{
    size_t count = 0;
    while (run->env[count]) {
        count++;
    }
    assert(count < AGENT_ENV_MAX);
    run->env[count] = arena_printf(run->arena, "%s=%s", name, value);
}

void agent_env_common(struct agent_run *run)
{
    static const char *const common[][2] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", AGENT_HOME_DIR},
        {"TMPDIR", AGENT_HOME_DIR "/.tmp"},
        {"USER", "sandbox"},
        {"LOGNAME", "sandbox"},
        {"SHELL", "/bin/bash"},
        {"LANG", "C.UTF-8"},
        {"TERM", "dumb"},
        /* Tools bring trust stores of their own; people sit behind inspecting proxies. */
        {"NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt"},
        {"SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"},
        {"GIT_TERMINAL_PROMPT", "0"},
        {"NPM_CONFIG_UPDATE_NOTIFIER", "false"},
    };
    for (size_t i = 0; i < ARRAY_LEN(common); i++) {
        agent_env(run, common[i][0], common[i][1]);
    }
}

void agent_arg(struct agent_run *run, const char *arg)
{
    size_t count = 0;
    while (run->argv[count]) {
        count++;
    }
    assert(count < AGENT_ARGV_MAX);
    run->argv[count] = arg;
}

void agent_file(struct agent_run *run, const char *path, const char *content)
{
    assert(run->file_count < AGENT_FILES_MAX);
    run->files[run->file_count].path = path;
    run->files[run->file_count].content = content;
    run->file_count++;
}

/* ---- reading lines ---- */

struct str agent_clip(struct str text, size_t max)
{
    if (text.len <= max) {
        return text;
    }
    size_t end = max;
    while (end > 0 && ((unsigned char)text.ptr[end] & 0xC0) == 0x80) {
        end--;
    }
    return str_cut(text, 0, end);
}

void agent_set(struct buf *out, struct str text, size_t max)
{
    buf_reset(out);
    buf_add_str(out, agent_clip(text, max));
}

/* Hands out a buffer that holds one JSON object as its members. */
static void agent_emit_object(const struct buf *object, const char *type, agent_emit emit,
                              void *ctx)
{
    if (buf_ok(object) && object->len >= 2) {
        emit(ctx, type, str_cut(buf_str(object), 1, object->len - 1));
    }
}

void agent_fail(struct agent_state *state, const char *reason, struct str message, agent_emit emit,
                void *ctx)
{
    BUF_AUTO(object, 6 * AGENT_ERROR_MAX + 256);
    struct json_writer w;
    state->failed = true;
    state->settled = false;
    (void)snprintf(state->reason, sizeof(state->reason), "%s", reason);
    agent_set(&state->error, message, AGENT_ERROR_MAX - 1);
    json_begin(&w, &object);
    json_object(&w, NULL);
    json_str(&w, "message", buf_str(&state->error));
    json_object_end(&w);
    agent_emit_object(&object, "error", emit, ctx);
}

void agent_say(struct agent_state *state, struct str text, agent_emit emit, void *ctx)
{
    BUF_AUTO(object, 1000UL * 1024);
    struct json_writer w;
    text = agent_clip(text, AGENT_TEXT_MAX / 2);
    if (str_empty(str_trim(text))) {
        return;
    }
    state->acted = true;
    agent_set(&state->message, text, AGENT_TEXT_MAX);
    json_begin(&w, &object);
    json_object(&w, NULL);
    json_text(&w, "role", "assistant");
    json_str(&w, "text", text);
    json_object_end(&w);
    agent_emit_object(&object, "message", emit, ctx);
}

void agent_emit_tool(struct agent_state *state, const struct agent_tool *tool, agent_emit emit,
                     void *ctx)
{
    BUF_AUTO(object, 8 * AGENT_OUTPUT_MAX);
    struct json_writer w;
    state->acted = true;
    json_begin(&w, &object);
    json_object(&w, NULL);
    json_str(&w, "name", agent_clip(tool->name, AGENT_TITLE_MAX));
    json_str(&w, "title", agent_clip(tool->title, AGENT_TITLE_MAX));
    json_text(&w, "status", tool->status);
    json_str(&w, "path", agent_clip(tool->path, AGENT_TITLE_MAX));
    json_str(&w, "output", agent_clip(tool->output, AGENT_OUTPUT_MAX));
    json_object_end(&w);
    agent_emit_object(&object, "tool", emit, ctx);
}

void agent_set_session(struct agent_state *state, struct str session)
{
    bool plain = session.len > 0 && session.len < sizeof(state->session);
    for (size_t i = 0; plain && i < session.len; i++) {
        char c = session.ptr[i];
        plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                ((c == '-' || c == '_') && i > 0);
    }
    /* It becomes an argument of the next run: nothing that could be taken for a flag. */
    if (plain) {
        (void)snprintf(state->session, sizeof(state->session), "%.*s", STR_FMT(session));
    }
}

void agent_count(int64_t *figure, const struct json_value *object, const char *key)
{
    int64_t value = 0;
    if (json_get_int(object, key, &value) && value >= 0 && value < INT64_C(1) << 40) {
        *figure = (*figure < 0 ? 0 : *figure) + value;
    }
}

static bool agent_mentions(struct str text, const char *const *words)
{
    for (size_t i = 0; words[i]; i++) {
        struct str word = str_of(words[i]);
        for (size_t at = 0; at + word.len <= text.len; at++) {
            if (str_eq_nocase(str_cut(text, at, at + word.len), word)) {
                return true;
            }
        }
    }
    return false;
}

bool agent_says_model_unknown(int64_t http_status, struct str message)
{
    static const char *const model[] = {"model", NULL};
    static const char *const unknown[] = {
        "not supported", "not found", "does not exist", "unknown model", "no longer",
        "not available", "disabled",  "deprecated",     "ModelError",    NULL};
    bool refused = http_status == 400 || http_status == 401 || http_status == 403 ||
                   http_status == 404 || http_status == 410;
    message = agent_clip(message, AGENT_ERROR_MAX);
    return refused && agent_mentions(message, model) && agent_mentions(message, unknown);
}

/*
 * What the adapters share: places, the common environment, house rules, making events. Private to
 * control/task/.
 */
#pragma once

#include "control/task/agent.h"
#include "lib/json_read.h"
#include "lib/json_write.h"

#define AGENT_HOME_DIR   "/home/sandbox"
#define AGENT_APP_DIR    AGENT_HOME_DIR "/workspace/app"
#define AGENT_DOOR       "http://127.0.0.1:9100/"
#define AGENT_TEXT_MAX   (256UL * 1024)
#define AGENT_OUTPUT_MAX (16UL * 1024)
#define AGENT_TITLE_MAX  300
#define AGENT_ERROR_MAX  4000

/* The house rules every agent is told; static. */
extern const char agent_house_rules[];

/* Appends to the environment; asserts that there is room. Strings live in the run's arena. */
void agent_env(struct agent_run *run, const char *name, const char *value);
/* PATH, HOME, TMPDIR and whatever else is the same for all. */
void agent_env_common(struct agent_run *run);
void agent_arg(struct agent_run *run, const char *arg);
void agent_file(struct agent_run *run, const char *path, const char *content);

/* The value as text: a string as it is, nothing for anything else. Cut to max bytes at a
 * character's start. */
struct str agent_clip(struct str text, size_t max);
void agent_set(struct buf *out, struct str text, size_t max);
/* Records an error of the run and emits it. reason: static text. */
void agent_fail(struct agent_state *state, const char *reason, struct str message, agent_emit emit,
                void *ctx);
/* Emits message{role, text} of the agent and keeps it as the last one. Empty text is nothing. */
void agent_say(struct agent_state *state, struct str text, agent_emit emit, void *ctx);

struct agent_tool {
    struct str name;
    struct str title;
    const char *status; /* running, completed, failed */
    struct str path;
    struct str output;
};

void agent_emit_tool(struct agent_state *state, const struct agent_tool *tool, agent_emit emit,
                     void *ctx);
void agent_set_session(struct agent_state *state, struct str session);
/* Adds to a figure that may be unknown (-1) yet. */
void agent_count(int64_t *figure, const struct json_value *object, const char *key);
/* A provider's refusal that means: there is no such model here. */
bool agent_says_model_unknown(int64_t http_status, struct str message);

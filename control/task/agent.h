/*
 * Agent adapters: how each CLI is started and what its lines mean. The supervisor knows nothing of
 * it.
 *
 * Pure but for the files they name; the channel's thread and the scheduler call them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define AGENT_ARGV_MAX  32
#define AGENT_ENV_MAX   48
#define AGENT_FILES_MAX 8

struct vault_agent;

struct agent_run {
    /* in */
    const struct vault_agent *agent;
    const char *provider;      /* whose model it is: an id of presets/providers, or an own one */
    const char *provider_name; /* the agent's own name of it; "" when it knows none */
    const char *base_path;     /* behind the door and the provider: "/v1" */
    bool speaks_anthropic;     /* Messages; else Chat Completions or Responses */
    const char *model;         /* as that provider names it; never empty */
    const char *const *other_models; /* that earlier runs may have used, ended by NULL; or NULL */
    const char *session;             /* conversation to go on with, "" for a new one */
    const char *token;               /* task token, the only credential the container ever sees */
    const char *const *config;       /* what the owner gave agents, KEY=value, ended by NULL */
    const char *prompt;
    struct arena *arena;
    /* out */
    const char *argv[AGENT_ARGV_MAX + 1];
    const char *env[AGENT_ENV_MAX + 1]; /* exactly this environment */

    struct {
        const char *path; /* below the workspace, "/" separated; directories are made */
        const char *content;
    } files[AGENT_FILES_MAX];

    size_t file_count;
    const char *home; /* the agent's own directory below the workspace */
    const char *const
        *keep;              /* names in it that outlive a run, ended by NULL; the rest is removed */
    const char *stdin_text; /* the prompt as the CLI wants it */
};

#define AGENT_CALLS_MAX 8

struct agent_call {
    char id[64];
    char name[64];
    char title[304];
    char path[304];
};

/* What a task's lines added up to so far; belongs to the channel's thread; strings are bounded
 * buffers. */
struct agent_state {
    bool terminal; /* the protocol's last event was seen */
    bool settled;  /* the model said it is done, but the agent may go on: counts when it leaves with
                      0 */
    bool in_tool;  /* a tool was called in the current step */
    bool failed;   /* … and it says failure */
    char reason[32]; /* agent_error, provider_error, … */
    struct buf error;
    struct buf message; /* last text of the agent */
    char session[128];
    struct agent_call calls[AGENT_CALLS_MAX]; /* the last ones, for answers that name only an id */
    size_t call_count;
    int64_t tokens_input; /* -1 unknown */
    int64_t tokens_output;
    int64_t tokens_cached;
    bool acted;         /* a tool ran or text came: a model cannot be passed over any more */
    bool model_unknown; /* the provider does not know the model */
    bool session_lost;  /* the conversation to go on with is not there any more */
};

/* Collects the events of one line: type and JSON members without braces. */
typedef void (*agent_emit)(void *ctx, const char *type, struct str fields);

struct agent_adapter {
    const char *id;
    int (*prepare)(struct agent_run *run, struct err *e);
    /* One line of stdout. Hostile: anything may come. */
    void (*line)(struct agent_state *state, struct str line, agent_emit emit, void *ctx);
    /* One line of stderr: only what changes the state; it becomes a notice whatever this says. */
    void (*err_line)(struct agent_state *state, struct str line);
};

const struct agent_adapter *agent_find(const char *id);
/* Splits what a person wrote into provider and model: "anthropic/x" names one of the agent's
 * providers, anything else is a model of its native one. Borrowed from model. */
void agent_split_model(const char *const *providers, const char *native, const char *model,
                       struct str *ret_provider, const char **ret_model);

void agent_state_init(struct agent_state *state);
void agent_state_done(struct agent_state *state);

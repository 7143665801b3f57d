/*
 * Which model an agent is run with. Pure but for the question whether a provider has a key.
 */
#include <stdio.h>

#include "control/task/service.h"
#include "lib/mem.h"

bool models_valid(struct str model)
{
    for (size_t i = 0; i < model.len; i++) {
        if (model.ptr[i] <= ' ' || model.ptr[i] >= 0x7f) {
            return false;
        }
    }
    /* It becomes an argument: nothing that could be taken for a flag. */
    return model.len > 0 && model.len <= TASK_MODEL_BYTES_MAX && model.ptr[0] != '-';
}

struct str models_free(const char *list, int index)
{
    struct str rest = str_of(list);
    struct str part;
    while (rest.ptr && str_split(&rest, ',', &part)) {
        part = str_trim(part);
        if (models_valid(part) && index-- == 0) {
            return part;
        }
    }
    return (struct str){NULL, 0};
}

bool models_keyless(struct task_service *s, const struct vault_agent *agent)
{
    return agent->keyless && !vault_has_key(s->vault, agent->native_provider);
}

static int models_not_connected(const struct vault_agent *agent, struct str provider, struct err *e)
{
    if (str_is(provider, agent->native_provider)) {
        (void)err_set(e, ERR_INVALID, 0,
                      "%s has no key: Settings → AI Agents, or POST /v1/agents/%s/api-key",
                      agent->id, agent->id);
    } else {
        (void)err_set(e, ERR_INVALID, 0,
                      "%s cannot use a model of %.*s: that provider has no key; see Settings → AI "
                      "Agents",
                      agent->id, STR_FMT(provider));
    }
    return err_tag(e, "agent_not_connected");
}

int models_check(struct task_service *s, const struct vault_agent *agent, const char *model,
                 struct err *e)
{
    struct str provider;
    const char *name = NULL;
    char id[64];
    agent_split_model(agent->providers, agent->native_provider, model, &provider, &name);
    (void)snprintf(id, sizeof(id), "%.*s", STR_FMT(provider));
    bool native = strcmp(id, agent->native_provider) == 0;
    return vault_has_key(s->vault, id) || (native && agent->keyless)
               ? 0
               : models_not_connected(agent, provider, e);
}

int models_choose(struct task_service *s, struct run *run, struct err *e)
{
    if (run->given) {
        run->model_index = -1;
        return models_check(s, run->agent, run->model, e);
    }
    if (models_check(s, run->agent, "", e) != 0) {
        return -1;
    }
    if (!models_keyless(s, run->agent)) {
        run->model_index = -1;
        (void)snprintf(run->model, sizeof(run->model), "%s", run->agent->default_model);
    } else {
        run->model_index = run->model_index < 0 ? 0 : run->model_index;
        struct str model = models_free(s->config->free_models, run->model_index);
        (void)snprintf(run->model, sizeof(run->model), "%.*s", STR_FMT(model));
    }
    return run->model[0] ? 0
                         : err_set(e, ERR_INVALID, 0,
                                   "%s has no default model here; name one with the task, or in "
                                   "SANDBOXD_OPENCODE_FREE_MODEL",
                                   run->agent->id);
}

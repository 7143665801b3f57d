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

static int models_not_connected(struct task_service *s, const struct vault_agent *agent,
                                struct str provider, struct err *e)
{
    char id[64];
    (void)snprintf(id, sizeof(id), "%.*s", STR_FMT(provider));
    struct vault_credential c = vault_credential_get(s->vault, id);
    if (c.reconnect) {
        (void)err_set(e, ERR_INVALID, 0, "%s cannot use %s: %s", agent->id, id, c.message);
        return err_tag(e, "agent_not_connected");
    }
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

void models_split(struct task_service *s, const struct vault_agent *agent, const char *model,
                  struct str *ret_provider, const char **ret_model)
{
    const char *providers[VAULT_PROVIDERS_MAX + 1];
    vault_agent_providers(s->vault, agent, providers);
    agent_split_model(providers, agent->native_provider, model, ret_provider, ret_model);
}

/* Another provider with a key and a model for an agent whose own has none; "" for none. */
static const char *models_other_provider(struct task_service *s, const struct vault_agent *agent)
{
    const char *providers[VAULT_PROVIDERS_MAX + 1];
    vault_agent_providers(s->vault, agent, providers);
    for (size_t i = 0; providers[i]; i++) {
        if (vault_has_key(s->vault, providers[i]) &&
            vault_agent_model(s->vault, agent, providers[i])[0]) {
            return providers[i];
        }
    }
    return "";
}

static bool models_native_is_usable(struct task_service *s, const struct vault_agent *agent)
{
    return agent->keyless || vault_has_key(s->vault, agent->native_provider);
}

int models_check(struct task_service *s, const struct vault_agent *agent, const char *model,
                 struct err *e)
{
    struct str provider;
    const char *name = NULL;
    char id[64];
    models_split(s, agent, model, &provider, &name);
    (void)snprintf(id, sizeof(id), "%.*s", STR_FMT(provider));
    bool native = strcmp(id, agent->native_provider) == 0;
    bool usable = vault_has_key(s->vault, id) || (native && agent->keyless) ||
                  (!model[0] && models_other_provider(s, agent)[0]);
    return usable ? 0 : models_not_connected(s, agent, provider, e);
}

/* Without a word of the person's, and not without a key. */
static void models_choose_default(struct task_service *s, struct run *run)
{
    const char *other =
        models_native_is_usable(s, run->agent) ? "" : models_other_provider(s, run->agent);
    run->model_index = -1;
    if (other[0]) {
        (void)snprintf(run->model, sizeof(run->model), "%s/%s", other,
                       vault_agent_model(s->vault, run->agent, other));
    } else {
        (void)snprintf(run->model, sizeof(run->model), "%s", run->agent->default_model);
    }
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
        models_choose_default(s, run);
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

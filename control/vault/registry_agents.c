/*
 * Agents' data files, and which provider an agent may use. Read at start; constant afterwards. Any
 * thread.
 */
#include "control/vault/vault_private.h"
#include "lib/mem.h"
#include "lib/thread.h"

/* A member of an object for each provider, beside them. */
static const char *const *agents_beside(const struct json_value *object,
                                        const char *const *providers)
{
    const char **list = mem_calloc(VAULT_LIST_MAX + 1, sizeof(*list));
    for (size_t i = 0; providers[i]; i++) {
        list[i] = registry_text_or(object, providers[i], "");
    }
    return list;
}

static int agents_check(const struct vault *v, const struct vault_agent *a, struct err *e)
{
    if (!registry_is_id(str_of(a->id)) || !a->label[0] || !a->native_provider[0]) {
        return err_set(e, ERR_INVALID, 0, "id, label or native_provider are missing");
    }
    if (!a->dialects[VAULT_ANTHROPIC] && !a->dialects[VAULT_OPENAI]) {
        return err_set(e, ERR_INVALID, 0, "dialects names neither anthropic nor openai");
    }
    for (size_t i = 0; a->providers[i]; i++) {
        if (!vault_provider_find(v, str_of(a->providers[i]))) {
            return err_set(e, ERR_INVALID, 0, "the provider %s is unknown", a->providers[i]);
        }
    }
    return vault_provider_find(v, str_of(a->native_provider))
               ? 0
               : err_set(e, ERR_INVALID, 0, "the provider %s is unknown", a->native_provider);
}

static void agents_read_dialects(const struct json_value *list, struct vault_agent *a)
{
    for (size_t i = 0; json_is_array(list) && i < json_count(list); i++) {
        for (int d = 0; d < VAULT_DIALECTS; d++) {
            const char *name = vault_dialect_name((enum vault_dialect)d);
            a->dialects[d] = a->dialects[d] || str_is(json_as_str(json_at(list, i)), name);
        }
    }
}

int registry_agent(struct vault *v, const struct json_value *json, struct err *e)
{
    if (v->agent_count == VAULT_AGENTS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "more than %d agents", VAULT_AGENTS_MAX);
    }
    struct vault_agent *a = &v->agents[v->agent_count++];
    const struct json_value *models = json_get(json, "default_models");
    const struct json_value *base_url = json_get(json, "base_url");
    a->id = registry_text_or(json, "id", "");
    a->label = registry_text_or(json, "label", "");
    a->version = registry_text_or(json, "version", "");
    a->native_provider = registry_text_or(json, "native_provider", "");
    a->providers = registry_list(json, "providers");
    a->names = agents_beside(json_get(json, "names"), a->providers);
    a->models = agents_beside(models, a->providers);
    a->default_model = registry_text_or(models, a->native_provider, "");
    a->base_url_env = registry_text_or(base_url, "env", "");
    a->base_url_strip = registry_text_or(base_url, "strip", "");
    a->key_env = registry_text_or(json, "key_env", "");
    a->keyless = a->native_provider[0] &&
                 str_is(json_get_str(json_get(json, "keyless"), "provider"), a->native_provider);
    agents_read_dialects(json_get(json, "dialects"), a);
    return agents_check(v, a, e);
}

void registry_agent_done(struct vault_agent *a)
{
    const char *const texts[] = {
        a->id,           a->label,          a->version, a->native_provider, a->default_model,
        a->base_url_env, a->base_url_strip, a->key_env};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        registry_free_text(texts[i]);
    }
    registry_free_list(a->providers);
    registry_free_list(a->names);
    registry_free_list(a->models);
}

const struct vault_agent *vault_agents(const struct vault *v, size_t *ret_count)
{
    *ret_count = v->agent_count;
    return v->agents;
}

const struct vault_agent *vault_agent_find(const struct vault *v, struct str id)
{
    for (size_t i = 0; i < v->agent_count; i++) {
        if (str_is(id, v->agents[i].id)) {
            return &v->agents[i];
        }
    }
    return NULL;
}

bool vault_agent_dialect(const struct vault_agent *agent, const struct vault_provider *p,
                         enum vault_dialect *ret)
{
    enum vault_dialect other = p->preferred == VAULT_OPENAI ? VAULT_ANTHROPIC : VAULT_OPENAI;

    const enum vault_dialect order[] = {p->preferred, other};

    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        if (agent->dialects[order[i]] && p->dialects[order[i]]) {
            *ret = order[i];
            return true;
        }
    }
    return false;
}

void vault_agent_providers(const struct vault *v, const struct vault_agent *agent,
                           const char *ret[VAULT_PROVIDERS_MAX + 1])
{
    const struct vault_provider *all[VAULT_PROVIDERS_MAX];
    size_t all_count = vault_provider_list(v, all);
    size_t count = 0;
    enum vault_dialect ignored;
    while (agent->providers[count] && count < VAULT_LIST_MAX) {
        ret[count] = agent->providers[count];
        count++;
    }
    for (size_t i = 0; i < all_count && count < VAULT_PROVIDERS_MAX; i++) {
        if (all[i]->kind[0] && vault_agent_dialect(agent, all[i], &ignored)) {
            ret[count++] = all[i]->id;
        }
    }
    ret[count] = NULL;
}

static const char *agents_find_beside(const struct vault_agent *agent, const char *const *list,
                                      const char *provider)
{
    for (size_t i = 0; agent->providers[i]; i++) {
        if (strcmp(agent->providers[i], provider) == 0) {
            return list[i];
        }
    }
    return "";
}

const char *vault_agent_name(const struct vault_agent *agent, const char *provider)
{
    return agents_find_beside(agent, agent->names, provider);
}

const char *vault_agent_model(const struct vault *v, const struct vault_agent *agent,
                              const char *provider)
{
    const char *model = agents_find_beside(agent, agent->models, provider);
    const struct vault_provider *p = vault_provider_find(v, str_of(provider));
    return model[0] || !p ? model : p->default_model;
}

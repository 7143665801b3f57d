/*
 * Agents, and the keys and logins of their own providers; all of it write-only. Worker threads.
 */
#include "control/api/api.h"

#define AGENT_CODE_BYTES_MAX   4096
#define AGENT_IMPORT_BYTES_MAX 49152
#define AGENT_URL_MAX          4096

static void agents_render_providers(struct json_writer *w, struct api *api,
                                    const struct vault_agent *agent, bool *ret_ready)
{
    const char *ids[VAULT_PROVIDERS_MAX + 1];
    vault_agent_providers(api->vault, agent, ids);
    json_array(w, "providers");
    for (size_t i = 0; ids[i]; i++) {
        const char *model = vault_agent_model(api->vault, agent, ids[i]);
        bool native = strcmp(ids[i], agent->native_provider) == 0;
        bool usable = vault_has_key(api->vault, ids[i]) || (native && agent->keyless);
        *ret_ready = *ret_ready || (usable && (model[0] || native));
        json_object(w, NULL);
        json_text(w, "provider", ids[i]);
        json_bool(w, "usable", usable);
        json_text(w, "default_model", model[0] ? model : NULL);
        json_object_end(w);
    }
    json_array_end(w);
}

static void agents_render(struct json_writer *w, struct api *api, const struct vault_agent *agent)
{
    struct vault_credential c = vault_credential_get(api->vault, agent->native_provider);
    const struct vault_provider *native =
        vault_provider_find(api->vault, str_of(agent->native_provider));
    bool ready = false;
    json_object(w, NULL);
    json_text(w, "label", agent->label);
    json_text(w, "version", agent->version[0] ? agent->version : NULL);
    json_text(w, "status", api_credential_status(&c, agent->keyless));
    json_text(w, "method", api_credential_method(&c));
    json_text(w, "message", c.message[0] ? c.message : NULL);
    json_text(w, "provider", agent->native_provider);
    json_text(w, "default_model", agent->default_model[0] ? agent->default_model : NULL);
    agents_render_providers(w, api, agent, &ready);
    json_bool(w, "ready", ready);
    json_bool(w, "can_login", native && native->oauth);
    json_bool(w, "is_default", str_is(str_of(agent->id), api->config->default_agent));
    json_text(w, "id", agent->id);
    json_object_end(w);
}

void api_agents_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    size_t count = 0;
    const struct vault_agent *list = vault_agents(api->vault, &count);
    struct json_writer w;
    (void)r;
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "agents");
    for (size_t i = 0; i < count; i++) {
        agents_render(&w, api, &list[i]);
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

static const struct vault_agent *agents_find(struct api *api, const struct http_request *r,
                                             struct http_response *p)
{
    const struct vault_agent *agent = vault_agent_find(api->vault, r->params[0]);
    if (!agent) {
        http_error(p, "not_found", "there is no such agent; GET /v1/agents lists them");
    }
    return agent;
}

static void agents_answer(struct api *api, struct http_response *p, const struct vault_agent *agent)
{
    struct json_writer w;
    json_begin(&w, &p->body);
    agents_render(&w, api, agent);
    api_json(p, 200);
}

void api_agents_key(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct vault_agent *agent = agents_find(api, r, p);
    if (agent && api_store_key(api, r, p, agent->native_provider)) {
        agents_answer(api, p, agent);
    }
}

void api_agents_disconnect(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct vault_agent *agent = agents_find(api, r, p);
    if (agent && api_drop_key(api, r, p, agent->native_provider)) {
        agents_answer(api, p, agent);
    }
}

/* The one text member of a body; NULL fills p. */
static const char *agents_body_text(struct http_request *r, struct http_response *p,
                                    const char *key, size_t max, bool lines)
{
    const char *const allowed[] = {key, NULL};
    const char *text = "";
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    if (!doc || !api_opt_text(json_root(doc), key, max, lines, r->arena, &text, p)) {
        return NULL;
    }
    if (str_trim(str_of(text)).len == 0) {
        http_error(p, "invalid_request", "%s is missing", key);
        return NULL;
    }
    return text;
}

void api_agents_import(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    BUF_AUTO(providers, 1024);
    const struct vault_agent *agent = agents_find(api, r, p);
    const char *text =
        agent ? agents_body_text(r, p, "credentials", AGENT_IMPORT_BYTES_MAX, true) : NULL;
    if (!text) {
        return;
    }
    if (vault_import(api->vault, agent, str_of(text), &providers, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    struct str rest = buf_str(&providers);
    struct str id;
    while (str_split(&rest, ',', &id)) {
        api_provider_event(api, r, "provider.connected", arena_str(r->arena, id));
    }
    agents_answer(api, p, agent);
}

void api_agents_login_start(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    struct json_writer w;
    BUF_AUTO(url, AGENT_URL_MAX);
    const struct vault_agent *agent = agents_find(api, r, p);
    if (!agent) {
        return;
    }
    if (vault_login_start(api->vault, agent->native_provider, &url, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_str(&w, "authorize_url", buf_str(&url));
    json_int(&w, "expires_in_s", VAULT_LOGIN_S);
    json_text(&w, "note", "not tried with the real one");
    json_object_end(&w);
    api_json(p, 200);
}

void api_agents_login_finish(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    const struct vault_agent *agent = agents_find(api, r, p);
    const char *code = agent ? agents_body_text(r, p, "code", AGENT_CODE_BYTES_MAX, false) : NULL;
    if (!code) {
        return;
    }
    if (vault_login_finish(api->vault, agent->native_provider, str_of(code), &e) != 0) {
        api_provider_error(p, &e);
        return;
    }
    api_provider_event(api, r, "provider.connected", agent->native_provider);
    agents_answer(api, p, agent);
}

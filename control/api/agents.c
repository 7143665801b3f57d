/*
 * Agents and the keys of their providers; keys are write-only. Worker threads.
 */
#include "control/api/api.h"

#define AGENT_KEY_BYTES_MAX 8192

static void agents_render(struct json_writer *w, struct api *api, const struct vault_agent *agent)
{
    bool has_key = vault_has_key(api->vault, agent->native_provider);
    json_object(w, NULL);
    json_text(w, "label", agent->label);
    json_text(w, "status", has_key ? "connected" : agent->keyless ? "keyless" : "not_connected");
    json_text(w, "method", has_key ? "api_key" : NULL);
    json_text(w, "provider", agent->native_provider);
    json_text(w, "default_model", agent->default_model[0] ? agent->default_model : NULL);
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
    static const char *const allowed[] = {"api_key", NULL};
    struct api *api = ctx;
    struct err e = {0};
    const char *key = "";
    const struct vault_agent *agent = agents_find(api, r, p);
    struct json_doc *doc AUTO(json_doc) = agent ? api_body(r, p, allowed) : NULL;
    if (!doc ||
        !api_opt_text(json_root(doc), "api_key", AGENT_KEY_BYTES_MAX, false, r->arena, &key, p)) {
        return;
    }
    struct str trimmed = str_trim(str_of(key));
    if (trimmed.len == 0) {
        http_error(p, "invalid_request", "api_key is missing");
        return;
    }
    if (vault_set_key(api->vault, agent->native_provider, trimmed, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    events_add(api->db, &(struct event_row){.kind = "agent.connected", .actor = r->actor});
    agents_answer(api, p, agent);
}

void api_agents_disconnect(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    bool removed = false;
    const struct vault_agent *agent = agents_find(api, r, p);
    if (!agent) {
        return;
    }
    if (vault_remove_key(api->vault, agent->native_provider, &removed, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    if (removed) {
        events_add(api->db, &(struct event_row){.kind = "agent.disconnected", .actor = r->actor});
    }
    agents_answer(api, p, agent);
}

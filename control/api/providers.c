/*
 * Model providers: those of the files and the owner's own, their keys and logins. Keys are
 * write-only: answers say that one is set, never what it is. Worker threads.
 */
#include "control/api/api.h"

#define PROVIDER_KEY_BYTES_MAX 8192
#define PROVIDER_TEXT_MAX      200
#define PROVIDER_URL_MAX       512

const char *api_credential_status(const struct vault_credential *c, bool keyless)
{
    if (c->method != VAULT_NO_KEY) {
        return c->reconnect ? "reconnect" : "connected";
    }
    return keyless ? "keyless" : "not_connected";
}

const char *api_credential_method(const struct vault_credential *c)
{
    static const char *const names[] = {
        [VAULT_NO_KEY] = NULL, [VAULT_API_KEY] = "api_key", [VAULT_LOGIN] = "login"};
    return c->method == VAULT_LOGIN && c->imported ? "imported_login" : names[c->method];
}

static void providers_dialects(struct json_writer *w, const struct vault_provider *p)
{
    json_array(w, "dialects");
    for (int d = 0; d < VAULT_DIALECTS; d++) {
        if (p->dialects[d]) {
            json_text(w, NULL, vault_dialect_name((enum vault_dialect)d));
        }
    }
    json_array_end(w);
}

static void providers_render(struct json_writer *w, struct api *api, const struct vault_provider *p)
{
    struct vault_credential c = vault_credential_get(api->vault, p->id);
    json_object(w, NULL);
    json_text(w, "label", p->label);
    json_text(w, "status", api_credential_status(&c, p->keyless));
    json_text(w, "method", api_credential_method(&c));
    json_text(w, "key", c.method != VAULT_NO_KEY ? "set" : NULL);
    json_text(w, "key_id", c.key_id[0] ? c.key_id : NULL);
    json_text(w, "message", c.message[0] ? c.message : NULL);
    json_time(w, "connected_at", c.connected_at);
    json_time(w, "expires_at", c.expires_at);
    json_text(w, "base_url", p->base_url);
    providers_dialects(w, p);
    json_array(w, "requests");
    for (size_t i = 0; p->paths[i]; i++) {
        json_text(w, NULL, p->paths[i]);
    }
    json_array_end(w);
    json_text(w, "kind", p->kind[0] ? p->kind : NULL);
    json_text(w, "default_model", p->default_model[0] ? p->default_model : NULL);
    json_bool(w, "keyless", p->keyless);
    json_bool(w, "can_check", p->check[0] != '\0');
    json_bool(w, "can_login", p->oauth != NULL);
    json_text(w, "id", p->id);
    json_object_end(w);
}

static void providers_render_kind(struct json_writer *w, const struct vault_provider *p)
{
    json_object(w, NULL);
    json_text(w, "label", p->label);
    providers_dialects(w, p);
    json_text(w, "id", p->id);
    json_object_end(w);
}

void api_providers_list(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct vault_provider *all[VAULT_PROVIDERS_MAX];
    size_t count = vault_provider_list(api->vault, all);
    struct json_writer w;
    (void)r;
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_array(&w, "providers");
    for (size_t i = 0; i < count; i++) {
        if (!all[i]->is_kind) {
            providers_render(&w, api, all[i]);
        }
    }
    json_array_end(&w);
    json_array(&w, "kinds");
    for (size_t i = 0; i < count; i++) {
        if (all[i]->is_kind) {
            providers_render_kind(&w, all[i]);
        }
    }
    json_array_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

static const struct vault_provider *providers_find(struct api *api, const struct http_request *r,
                                                   struct http_response *p)
{
    const struct vault_provider *found = vault_provider_find(api->vault, r->params[0]);
    if (!found) {
        http_error(p, "not_found", "there is no such provider; GET /v1/providers lists them");
    }
    return found;
}

static void providers_answer(struct api *api, struct http_response *p, const char *id)
{
    struct json_writer w;
    const struct vault_provider *found = vault_provider_find(api->vault, str_of(id));
    if (!found) {
        http_error(p, "not_found", "the provider was removed meanwhile");
        return;
    }
    json_begin(&w, &p->body);
    providers_render(&w, api, found);
    api_json(p, 200);
}

void api_provider_event(struct api *api, const struct http_request *r, const char *kind,
                        const char *provider)
{
    events_add(api->db, &(struct event_row){
                            .kind = kind,
                            .actor = r->actor,
                            .payload = arena_printf(r->arena, "{\"provider\":\"%s\"}", provider)});
}

/* ---- the owner's own ---- */

void api_providers_put(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"kind",          "label",   "base_url",
                                          "default_model", "keyless", NULL};
    struct api *api = ctx;
    struct err e = {0};
    const char *id = arena_str(r->arena, r->params[0]);
    struct vault_own_provider own = {
        .id = id, .kind = "", .label = id, .base_url = "", .default_model = ""};
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    const struct json_value *body = doc ? json_root(doc) : NULL;
    if (!doc || !api_opt_text(body, "kind", PROVIDER_TEXT_MAX, false, r->arena, &own.kind, p) ||
        !api_opt_text(body, "label", PROVIDER_TEXT_MAX, false, r->arena, &own.label, p) ||
        !api_opt_text(body, "base_url", PROVIDER_URL_MAX, false, r->arena, &own.base_url, p) ||
        !api_opt_text(body, "default_model", PROVIDER_TEXT_MAX, false, r->arena, &own.default_model,
                      p) ||
        !api_opt_bool(body, "keyless", &own.keyless, p)) {
        return;
    }
    if (vault_provider_set(api->vault, &own, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_provider_event(api, r, "provider.changed", id);
    providers_answer(api, p, id);
}

void api_providers_delete(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    const char *id = arena_str(r->arena, r->params[0]);
    if (vault_provider_remove(api->vault, id, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    api_provider_event(api, r, "provider.removed", id);
    p->status = 204;
}

/* ---- keys ---- */

bool api_store_key(struct api *api, struct http_request *r, struct http_response *p,
                   const char *provider)
{
    static const char *const allowed[] = {"api_key", "check", NULL};
    struct err e = {0};
    const char *key = "";
    bool check = false;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    if (!doc ||
        !api_opt_text(json_root(doc), "api_key", PROVIDER_KEY_BYTES_MAX, false, r->arena, &key,
                      p) ||
        !api_opt_bool(json_root(doc), "check", &check, p)) {
        return false;
    }
    struct str trimmed = str_trim(str_of(key));
    if (trimmed.len == 0) {
        http_error(p, "invalid_request", "api_key is missing");
        return false;
    }
    /* Checked before it is stored: a key that is refused replaces none that works. */
    if ((check && vault_check_key(api->vault, provider, trimmed, &e) != 0) ||
        vault_set_key(api->vault, provider, trimmed, &e) != 0) {
        api_provider_error(p, &e);
        return false;
    }
    api_provider_event(api, r, "provider.connected", provider);
    return true;
}

void api_provider_error(struct http_response *p, struct err *e)
{
    /* It is the provider that refuses, not we: 403 would be read as a wrong token of ours. */
    if (e->code == ERR_FORBIDDEN) {
        http_error(p, "key_refused", "%s", e->msg);
    } else if (e->code == ERR_PROTOCOL) {
        http_error(p, "unavailable", "%s", e->msg);
    } else {
        http_error_from(p, e);
    }
}

void api_providers_key(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct vault_provider *found = providers_find(api, r, p);
    if (found && api_store_key(api, r, p, found->id)) {
        providers_answer(api, p, found->id);
    }
}

void api_providers_check(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e = {0};
    const struct vault_provider *found = providers_find(api, r, p);
    if (!found) {
        return;
    }
    if (vault_check_key(api->vault, found->id, STR(""), &e) != 0) {
        api_provider_error(p, &e);
        return;
    }
    providers_answer(api, p, found->id);
}

bool api_drop_key(struct api *api, struct http_request *r, struct http_response *p,
                  const char *provider)
{
    struct err e = {0};
    bool removed = false;
    if (vault_remove_key(api->vault, provider, &removed, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    if (removed) {
        api_provider_event(api, r, "provider.disconnected", provider);
    }
    return true;
}

void api_providers_disconnect(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const struct vault_provider *found = providers_find(api, r, p);
    if (found && api_drop_key(api, r, p, found->id)) {
        providers_answer(api, p, found->id);
    }
}

/*
 * Registry of agents and model providers: data files below SANDBOXD_PRESETS_DIR. The main thread at
 * start; constant afterwards.
 */
#include <dirent.h>
#include <stdio.h>

#include "control/vault/vault_private.h"
#include "lib/env.h"
#include "lib/fd.h"
#include "lib/mem.h"

#define REGISTRY_FILE_BYTES_MAX 65536
#define REGISTRY_URL_MAX        512
#define REGISTRY_ID_MAX         32
#define REGISTRY_PATH_MAX       768

bool registry_is_id(struct str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && i > 0))) {
            return false;
        }
    }
    return id.len > 0 && id.len <= REGISTRY_ID_MAX;
}

char *registry_text(const struct json_value *v, const char *key)
{
    struct str text = json_get_str(v, key);
    return text.ptr && str_is_text(text, false) ? mem_dup(text.ptr, text.len) : NULL;
}

char *registry_text_or(const struct json_value *v, const char *key, const char *fallback)
{
    char *text = registry_text(v, key);
    return text ? text : mem_strdup(fallback);
}

const char *const *registry_list(const struct json_value *v, const char *key)
{
    const struct json_value *array = json_get(v, key);
    const char **list = mem_calloc(VAULT_LIST_MAX + 1, sizeof(*list));
    size_t count = 0;
    for (size_t i = 0; json_is_array(array) && i < json_count(array) && count < VAULT_LIST_MAX;
         i++) {
        struct str text = json_as_str(json_at(array, i));
        if (text.ptr && str_is_text(text, false)) {
            list[count++] = mem_dup(text.ptr, text.len);
        }
    }
    return list;
}

static bool registry_is_host(struct str host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '-' || c == ':' || c == '[' || c == ']' || c == '_';
        if (!good) {
            return false;
        }
    }
    return host.len > 0 && host.ptr[0] != ':';
}

int vault_check_base_url(struct str url, struct buf *ret, struct err *e)
{
    struct str rest = url;
    struct str http = STR("http://");
    struct str https = STR("https://");
    bool good = url.len <= REGISTRY_URL_MAX && str_is_text(url, false) &&
                (str_starts(url, http) || str_starts(url, https));
    rest = str_cut(url, str_starts(url, https) ? https.len : http.len, url.len);
    struct str path = rest;
    struct str host = {NULL, 0};
    good = good && str_split(&path, '/', &host) && registry_is_host(host);
    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];
        good = good && c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '\\' && c != '"';
    }
    if (!good) {
        return err_set(
            e, ERR_INVALID, 0,
            "\"%.100s\" is no base URL; wanted is http:// or https://, a host, and a path "
            "if there is one, without user, query or fragment",
            url.len < REGISTRY_URL_MAX ? url.ptr : "…");
    }
    while (url.len > 0 && url.ptr[url.len - 1] == '/') {
        url.len--;
    }
    buf_add_str(ret, url);
    return 0;
}

/* The setting that a file names for a member, else the member. Owned. */
static char *registry_setting(const struct json_value *v, const char *key)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s_setting", key);
    char *setting AUTOFREE = registry_text(v, name);
    char *fallback AUTOFREE = registry_text_or(v, key, "");
    return mem_strdup(setting ? env_text(setting, fallback) : fallback);
}

static int registry_base_url(const struct json_value *v, const char **ret, struct err *e)
{
    BUF_AUTO(checked, REGISTRY_URL_MAX + 1);
    char *setting AUTOFREE = registry_text_or(v, "base_url_setting", "base_url");
    char *url AUTOFREE = registry_setting(v, "base_url");
    if (vault_check_base_url(str_of(url), &checked, e) != 0) {
        return err_wrap(e, "%s", setting);
    }
    *ret = buf_take(&checked);
    return 0;
}

/* What an object says of each path; "" for those that it does not name. */
static const char *const *registry_by_path(const struct json_value *said, const char *const *paths)
{
    const char **list = mem_calloc(VAULT_LIST_MAX + 1, sizeof(*list));
    for (size_t i = 0; paths[i]; i++) {
        list[i] = registry_text_or(said, paths[i], "");
    }
    return list;
}

const char *vault_dialect_name(enum vault_dialect dialect)
{
    static const char *const names[] = {[VAULT_ANTHROPIC] = "anthropic", [VAULT_OPENAI] = "openai"};
    return names[dialect];
}

/* Members in the order of preference. */
static bool registry_dialects(const struct json_value *v, struct vault_provider *p)
{
    size_t pos = 0;
    size_t count = 0;
    struct str key;
    const struct json_value *value = NULL;
    while (json_is_object(v) && json_each(v, &pos, &key, &value)) {
        for (int d = 0; d < VAULT_DIALECTS; d++) {
            struct str path = json_as_str(value);
            if (str_is(key, vault_dialect_name((enum vault_dialect)d)) && path.ptr) {
                p->dialects[d] = mem_dup(path.ptr, path.len);
                p->preferred = count++ == 0 ? (enum vault_dialect)d : p->preferred;
            }
        }
    }
    return count > 0;
}

static int registry_oauth(const struct json_value *v, const struct vault_oauth **ret, struct err *e)
{
    BUF_AUTO(ignored, REGISTRY_URL_MAX + 1);
    if (!json_is_object(v)) {
        return 0;
    }
    struct vault_oauth *o = mem_alloc(sizeof(*o));
    *ret = o;
    *o = (struct vault_oauth){.header = registry_text_or(v, "header", ""),
                              .prefix = registry_text_or(v, "prefix", ""),
                              .extra = registry_text_or(v, "extra", ""),
                              .client_id = registry_setting(v, "client_id"),
                              .authorize_url = registry_setting(v, "authorize_url"),
                              .token_url = registry_setting(v, "token_url"),
                              .redirect_uri = registry_setting(v, "redirect_uri"),
                              .scopes = registry_setting(v, "scopes")};
    const char *const urls[] = {o->authorize_url, o->token_url, o->redirect_uri};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        if (vault_check_base_url(str_of(urls[i]), &ignored, e) != 0) {
            return err_wrap(e, "oauth");
        }
    }
    return 0;
}

static int registry_fill(struct vault_provider *p, const struct json_value *json, struct err *e)
{
    (void)json_get_bool(json, "kind", &p->is_kind);
    p->id = registry_text_or(json, "id", "");
    p->label = registry_text_or(json, "label", p->id);
    p->header = registry_text_or(json, "header", "");
    p->prefix = registry_text_or(json, "prefix", "");
    p->check = registry_text_or(json, "check", "");
    p->default_model = mem_strdup("");
    p->kind = mem_strdup("");
    p->paths = registry_list(json, "paths");
    p->usages = registry_by_path(json_get(json, "usage"), p->paths);
    p->costs = registry_by_path(json_get(json, "cost"), p->paths);
    if (!registry_is_id(str_of(p->id)) || !p->header[0] || !p->paths[0] ||
        !registry_dialects(json_get(json, "dialects"), p)) {
        return err_set(e, ERR_INVALID, 0, "id, header, dialects or paths are missing");
    }
    if (registry_oauth(json_get(json, "oauth"), &p->oauth, e) != 0) {
        return -1;
    }
    if (p->is_kind) {
        p->base_url = mem_strdup("");
        return 0;
    }
    return registry_base_url(json, &p->base_url, e);
}

static int registry_provider(struct vault *v, const struct json_value *json, struct err *e)
{
    struct vault_provider *p = mem_alloc(sizeof(*p));
    if (registry_fill(p, json, e) != 0 || vault_publish(v, p, e) != 0) {
        registry_provider_free(p);
        return -1;
    }
    return 0;
}

static int registry_file(struct vault *v, const char *path, registry_read read, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (fd_read_file(path, REGISTRY_FILE_BYTES_MAX, &text, &len, e) != 0 ||
        json_parse(str_n(text, len), &doc, e) != 0 || read(v, json_root(doc), e) != 0) {
        return err_wrap(e, "%s", path);
    }
    return 0;
}

static int registry_is_json(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && str_ends(str_of(entry->d_name), STR(".json"));
}

int registry_folder(struct vault *v, const char *name, registry_read read, struct err *e)
{
    char folder[REGISTRY_PATH_MAX];
    char path[REGISTRY_PATH_MAX + 300];
    struct dirent **entries = NULL;
    (void)snprintf(folder, sizeof(folder), "%s/%s", v->config->presets_dir, name);
    int count = scandir(folder, &entries, registry_is_json, alphasort);
    if (count <= 0) {
        free(entries);
        return err_set(
            e, ERR_INVALID, 0,
            "SANDBOXD_PRESETS_DIR: %s holds no data file; is it the presets folder of this "
            "version?",
            folder);
    }
    int rc = 0;
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        rc = rc == 0 ? registry_file(v, path, read, e) : rc;
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int vault_load_registry(struct vault *v, struct err *e)
{
    if (registry_folder(v, "providers", registry_provider, e) != 0 ||
        registry_folder(v, "agents", registry_agent, e) != 0 ||
        vault_load_own_providers(v, e) != 0) {
        return -1;
    }
    if (!vault_agent_find(v, str_of(v->config->default_agent))) {
        return err_set(e, ERR_INVALID, 0,
                       "SANDBOXD_DEFAULT_AGENT is \"%.64s\"; there is no such agent (opencode and "
                       "claude-code are)",
                       v->config->default_agent);
    }
    return 0;
}

void registry_free_text(const char *text)
{
    free((char *)(uintptr_t)text);
}

void registry_free_list(const char *const *list)
{
    for (size_t i = 0; list && list[i]; i++) {
        registry_free_text(list[i]);
    }
    free((void *)(uintptr_t)list);
}

static void registry_oauth_free(const struct vault_oauth *o)
{
    if (!o) {
        return;
    }
    const char *const texts[] = {o->header,        o->prefix,    o->extra,        o->client_id,
                                 o->authorize_url, o->token_url, o->redirect_uri, o->scopes};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        registry_free_text(texts[i]);
    }
    free((void *)(uintptr_t)o);
}

void registry_provider_free(struct vault_provider *p)
{
    if (!p) {
        return;
    }
    const char *const texts[] = {p->id,     p->label, p->base_url,      p->header,
                                 p->prefix, p->check, p->default_model, p->kind};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        registry_free_text(texts[i]);
    }
    for (size_t i = 0; i < VAULT_DIALECTS; i++) {
        registry_free_text(p->dialects[i]);
    }
    registry_free_list(p->paths);
    registry_free_list(p->usages);
    registry_free_list(p->costs);
    registry_oauth_free(p->oauth);
    free(p);
}

void vault_free_registry(struct vault *v)
{
    for (size_t i = 0; i < VAULT_PROVIDERS_MAX; i++) {
        registry_provider_free((struct vault_provider *)(uintptr_t)v->slots[i].provider);
    }
    for (size_t i = 0; i < v->retired_count; i++) {
        registry_provider_free(v->retired[i]);
    }
    free(v->retired);
    for (size_t i = 0; i < v->agent_count; i++) {
        registry_agent_done(&v->agents[i]);
    }
}

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

static bool registry_is_id(struct str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && i > 0))) {
            return false;
        }
    }
    return id.len > 0 && id.len <= REGISTRY_ID_MAX;
}

/* Owned copy of a member, or NULL. */
static char *registry_text(const struct json_value *v, const char *key)
{
    struct str text = json_get_str(v, key);
    return text.ptr && str_is_text(text, false) ? mem_dup(text.ptr, text.len) : NULL;
}

/* Owned list of strings, ended by NULL. */
static const char *const *registry_list(const struct json_value *v, const char *key)
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

static int registry_base_url(const struct json_value *v, const char **ret, struct err *e)
{
    BUF_AUTO(checked, REGISTRY_URL_MAX + 1);
    char *setting AUTOFREE = registry_text(v, "base_url_setting");
    char *fallback AUTOFREE = registry_text(v, "base_url");
    const char *url = setting ? env_text(setting, fallback ? fallback : "") : fallback;
    if (vault_check_base_url(str_of(url), &checked, e) != 0) {
        return err_wrap(e, "%s", setting ? setting : "base_url");
    }
    *ret = buf_take(&checked);
    return 0;
}

static int registry_provider(struct vault *v, const struct json_value *json, struct err *e)
{
    struct vault_provider *p = &v->providers[v->provider_count];
    if (v->provider_count == VAULT_PROVIDERS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "more than %d providers", VAULT_PROVIDERS_MAX);
    }
    v->provider_count++;
    p->id = registry_text(json, "id");
    p->header = registry_text(json, "header");
    p->prefix = registry_text(json, "prefix");
    p->paths = registry_list(json, "paths");
    if (!p->id || !registry_is_id(str_of(p->id)) || !p->header || !p->prefix || !p->paths[0]) {
        return err_set(e, ERR_INVALID, 0, "id, header, prefix or paths are missing");
    }
    return registry_base_url(json, &p->base_url, e);
}

static int registry_agent(struct vault *v, const struct json_value *json, struct err *e)
{
    struct vault_agent *a = &v->agents[v->agent_count];
    if (v->agent_count == VAULT_AGENTS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "more than %d agents", VAULT_AGENTS_MAX);
    }
    v->agent_count++;
    a->id = registry_text(json, "id");
    a->label = registry_text(json, "label");
    a->native_provider = registry_text(json, "native_provider");
    a->providers = registry_list(json, "providers");
    const struct json_value *models = json_get(json, "default_models");
    a->default_model = a->native_provider ? registry_text(models, a->native_provider) : NULL;
    a->default_model = a->default_model ? a->default_model : mem_strdup("");
    struct str keyless = json_get_str(json_get(json, "keyless"), "provider");
    a->keyless = a->native_provider && str_is(keyless, a->native_provider);
    if (!a->id || !registry_is_id(str_of(a->id)) || !a->label || !a->native_provider) {
        return err_set(e, ERR_INVALID, 0, "id, label or native_provider are missing");
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

typedef int (*registry_read)(struct vault *v, const struct json_value *json, struct err *e);

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

static int registry_folder(struct vault *v, const char *name, registry_read read, struct err *e)
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
        registry_folder(v, "agents", registry_agent, e) != 0) {
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

static void registry_free_list(const char *const *list)
{
    for (size_t i = 0; list && list[i]; i++) {
        free((char *)(uintptr_t)list[i]);
    }
    free((void *)(uintptr_t)list);
}

static void registry_free_text(const char *text)
{
    free((char *)(uintptr_t)text);
}

void vault_free_registry(struct vault *v)
{
    for (size_t i = 0; i < v->provider_count; i++) {
        registry_free_text(v->providers[i].id);
        registry_free_text(v->providers[i].base_url);
        registry_free_text(v->providers[i].header);
        registry_free_text(v->providers[i].prefix);
        registry_free_list(v->providers[i].paths);
    }
    for (size_t i = 0; i < v->agent_count; i++) {
        registry_free_text(v->agents[i].id);
        registry_free_text(v->agents[i].label);
        registry_free_text(v->agents[i].native_provider);
        registry_free_text(v->agents[i].default_model);
        registry_free_list(v->agents[i].providers);
    }
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

const struct vault_provider *vault_provider_find(const struct vault *v, struct str id)
{
    for (size_t i = 0; i < v->provider_count; i++) {
        if (str_is(id, v->providers[i].id)) {
            return &v->providers[i];
        }
    }
    return NULL;
}

/*
 * What comes in: bodies, ids, pages. Worker threads.
 */
#include "control/api/api.h"

static struct json_doc *api_empty_body(void)
{
    struct json_doc *doc = NULL;
    struct err e;
    return json_parse(STR("{}"), &doc, &e) == 0 ? doc : NULL;
}

static bool api_allowed(struct str key, const char *const *allowed)
{
    for (size_t i = 0; allowed[i]; i++) {
        if (str_is(key, allowed[i])) {
            return true;
        }
    }
    return false;
}

struct json_doc *api_body(struct http_request *r, struct http_response *p,
                          const char *const *allowed)
{
    struct err e;
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (str_trim(r->body).len == 0) {
        return api_empty_body();
    }
    if (json_parse(r->body, &doc, &e) != 0) {
        http_error(p, "invalid_request", "%s", e.msg);
        return NULL;
    }
    if (!json_is_object(json_root(doc))) {
        http_error(p, "invalid_request", "the body must be a JSON object");
        return NULL;
    }
    size_t pos = 0;
    struct str key;
    const struct json_value *value = NULL;
    while (json_each(json_root(doc), &pos, &key, &value)) {
        if (!api_allowed(key, allowed)) {
            struct str shown = str_cut(key, 0, 64);
            http_error(p, "unknown_field", "the field \"%.*s\" is not known here", STR_FMT(shown));
            return NULL;
        }
    }
    return TAKE(doc);
}

bool api_opt_text(const struct json_value *body, const char *key, size_t max_bytes, bool lines,
                  struct arena *a, const char **ret, struct http_response *p)
{
    const struct json_value *v = json_get(body, key);
    if (!v) {
        return true;
    }
    if (!json_is_string(v)) {
        http_error(p, "invalid_request", "%s must be a string", key);
        return false;
    }
    struct str text = json_as_str(v);
    if (text.len > max_bytes) {
        http_error(p, "invalid_request", "%s may have at most %zu bytes", key, max_bytes);
        return false;
    }
    if (!str_is_text(text, lines)) {
        http_error(p, "invalid_request", "%s holds a control character", key);
        return false;
    }
    *ret = arena_str(a, text);
    return true;
}

bool api_opt_int(const struct json_value *body, const char *key, int64_t min, int64_t max,
                 int64_t *ret, struct http_response *p)
{
    const struct json_value *v = json_get(body, key);
    int64_t value = 0;
    if (!v) {
        return true;
    }
    if (!json_as_int(v, &value) || value < min || value > max) {
        http_error(p, "invalid_request", "%s must be a whole number from %lld to %lld", key,
                   (long long)min, (long long)max);
        return false;
    }
    *ret = value;
    return true;
}

bool api_opt_bool(const struct json_value *body, const char *key, bool *ret,
                  struct http_response *p)
{
    const struct json_value *v = json_get(body, key);
    if (v && !json_as_bool(v, ret)) {
        http_error(p, "invalid_request", "%s must be true or false", key);
        return false;
    }
    return true;
}

bool api_id(const struct http_request *r, size_t param, const char *what, struct ulid *ret,
            struct http_response *p)
{
    if (ulid_parse(r->params[param], ret)) {
        return true;
    }
    http_error(p, "not_found", "there is no such %s; ids have 26 characters in lower case", what);
    return false;
}

bool api_page(const struct http_request *r, int *ret_limit, struct str *ret_cursor,
              struct http_response *p)
{
    struct str text;
    uint64_t limit = 50;
    if (http_query(r, "limit", &text) && (!str_to_u64(text, 200, &limit) || limit == 0)) {
        http_error(p, "invalid_request", "limit must be a whole number from 1 to 200");
        return false;
    }
    *ret_limit = (int)limit;
    *ret_cursor = (struct str){"", 0};
    if (http_query(r, "cursor", ret_cursor) && !ret_cursor->ptr) {
        http_error(p, "invalid_request", "cursor is not one of ours");
        return false;
    }
    return true;
}

void api_json(struct http_response *p, int status)
{
    p->status = status;
    p->content_type = "application/json";
}

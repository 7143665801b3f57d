/*
 * JSON reader over yyjson: strict, bounded depth, no duplicate keys. Not shared between threads.
 */
#include "lib/json_read.h"

#include <stdarg.h>

#include <yyjson.h>

struct json_doc {
    yyjson_doc *doc; /* owned */
};

/* yyjson values are used as they are; the header only hides their type. */
static yyjson_val *json_raw_value(const struct json_value *v)
{
    union {
        const struct json_value *ours;
        yyjson_val *theirs;
    } view = {.ours = v};

    return view.theirs;
}

static const struct json_value *json_wrap(const yyjson_val *v)
{
    return (const struct json_value *)v;
}

/* Depth is counted on the text: yyjson itself does not recurse, but its readers might. */
static bool json_too_deep(struct str text)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string) {
            i += c == '\\' ? 1 : 0;
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= c == '}' || c == ']' ? 1 : 0;
        if (depth > JSON_DEPTH_MAX) {
            return true;
        }
    }
    return false;
}

/* Objects of people have a handful of keys: comparing each pair is cheaper than sorting. */
#define JSON_KEYS_BY_PAIR_MAX 64

static int json_compare_keys(const void *a, const void *b)
{
    const struct str *one = a;
    const struct str *other = b;
    if (one->len != other->len) {
        return one->len < other->len ? -1 : 1;
    }
    return one->len ? memcmp(one->ptr, other->ptr, one->len) : 0;
}

/* A peer may send a hundred thousand keys: sorted, so that they cost it more than us. */
static bool json_big_object_repeats(yyjson_val *object)
{
    size_t count = yyjson_obj_size(object);
    struct str *keys AUTOFREE = mem_calloc(count, sizeof(*keys));
    size_t i = 0;
    size_t max = 0;
    yyjson_val *key = NULL;
    yyjson_val *value = NULL;
    yyjson_obj_foreach(object, i, max, key, value)
    {
        keys[i] = (struct str){yyjson_get_str(key), yyjson_get_len(key)};
    }
    qsort(keys, count, sizeof(*keys), json_compare_keys);
    for (i = 1; i < count; i++) {
        if (str_eq(keys[i - 1], keys[i])) {
            return true;
        }
    }
    return false;
}

static bool json_object_repeats(yyjson_val *object)
{
    if (yyjson_obj_size(object) > JSON_KEYS_BY_PAIR_MAX) {
        return json_big_object_repeats(object);
    }
    size_t i = 0;
    size_t max = 0;
    yyjson_val *key = NULL;
    yyjson_val *value = NULL;
    yyjson_obj_foreach(object, i, max, key, value)
    {
        if (yyjson_obj_getn(object, yyjson_get_str(key), yyjson_get_len(key)) != value) {
            return true;
        }
    }
    return false;
}

/* Values stand in one array in document order: no recursion is needed to see each object. */
static bool json_repeats(yyjson_doc *doc)
{
    yyjson_val *v = yyjson_doc_get_root(doc);
    size_t count = yyjson_doc_get_val_count(doc);
    for (size_t i = 0; i < count; i++) {
        if (yyjson_is_obj(v + i) && json_object_repeats(v + i)) {
            return true;
        }
    }
    return false;
}

int json_parse(struct str text, struct json_doc **ret_doc, struct err *e)
{
    if (json_too_deep(text)) {
        return err_set(e, ERR_INVALID, 0, "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
    }
    yyjson_read_err why;

    union {
        const char *ours;
        char *theirs;
    } bytes = {.ours = text.ptr};

    /* Without YYJSON_READ_INSITU the text is only read. */
    yyjson_doc *doc = yyjson_read_opts(bytes.theirs, text.len, YYJSON_READ_NOFLAG, NULL, &why);
    if (!doc) {
        return err_set(e, ERR_INVALID, 0, "not JSON: %s at byte %zu",
                       text.len ? why.msg : "nothing there", why.pos);
    }
    if (json_repeats(doc)) {
        yyjson_doc_free(doc);
        return err_set(e, ERR_INVALID, 0, "JSON with the same key twice in one object");
    }
    struct json_doc *ours = mem_alloc(sizeof(*ours));
    ours->doc = doc;
    *ret_doc = ours;
    return 0;
}

void json_doc_free(struct json_doc *doc)
{
    if (doc) {
        yyjson_doc_free(doc->doc);
        free(doc);
    }
}

const struct json_value *json_root(const struct json_doc *doc)
{
    return json_wrap(yyjson_doc_get_root(doc->doc));
}

bool json_is_object(const struct json_value *v)
{
    return yyjson_is_obj(json_raw_value(v));
}

bool json_is_array(const struct json_value *v)
{
    return yyjson_is_arr(json_raw_value(v));
}

bool json_is_string(const struct json_value *v)
{
    return yyjson_is_str(json_raw_value(v));
}

bool json_is_int(const struct json_value *v)
{
    return yyjson_is_int(json_raw_value(v));
}

bool json_is_bool(const struct json_value *v)
{
    return yyjson_is_bool(json_raw_value(v));
}

bool json_is_null(const struct json_value *v)
{
    return yyjson_is_null(json_raw_value(v));
}

const struct json_value *json_get(const struct json_value *object, const char *key)
{
    return json_wrap(yyjson_obj_get(json_raw_value(object), key));
}

const struct json_value *json_path(const struct json_value *object, ...)
{
    va_list args;
    va_start(args, object);
    const char *key = NULL;
    while (object && (key = va_arg(args, const char *)) != NULL) {
        object = json_get(object, key);
    }
    va_end(args);
    return object;
}

struct str json_as_str(const struct json_value *v)
{
    yyjson_val *raw = json_raw_value(v);
    if (!yyjson_is_str(raw)) {
        return (struct str){NULL, 0};
    }
    return (struct str){yyjson_get_str(raw), yyjson_get_len(raw)};
}

struct str json_get_str(const struct json_value *object, const char *key)
{
    return json_as_str(json_get(object, key));
}

bool json_as_int(const struct json_value *v, int64_t *ret_value)
{
    yyjson_val *raw = json_raw_value(v);
    if (!yyjson_is_int(raw) || (yyjson_is_uint(raw) && yyjson_get_uint(raw) > INT64_MAX)) {
        return false;
    }
    *ret_value = yyjson_get_sint(raw);
    return true;
}

bool json_as_double(const struct json_value *v, double *ret_value)
{
    yyjson_val *raw = json_raw_value(v);
    if (!yyjson_is_num(raw)) {
        return false;
    }
    *ret_value = yyjson_get_num(raw);
    return true;
}

bool json_as_bool(const struct json_value *v, bool *ret_value)
{
    yyjson_val *raw = json_raw_value(v);
    if (!yyjson_is_bool(raw)) {
        return false;
    }
    *ret_value = yyjson_get_bool(raw);
    return true;
}

bool json_get_int(const struct json_value *object, const char *key, int64_t *ret_value)
{
    return json_as_int(json_get(object, key), ret_value);
}

bool json_get_bool(const struct json_value *object, const char *key, bool *ret_value)
{
    return json_as_bool(json_get(object, key), ret_value);
}

size_t json_count(const struct json_value *array_or_object)
{
    yyjson_val *raw = json_raw_value(array_or_object);
    return yyjson_is_arr(raw) ? yyjson_arr_size(raw) : yyjson_obj_size(raw);
}

const struct json_value *json_at(const struct json_value *array, size_t index)
{
    return json_wrap(yyjson_arr_get(json_raw_value(array), index));
}

bool json_each(const struct json_value *object, size_t *pos, struct str *ret_key,
               const struct json_value **ret_value)
{
    yyjson_val *raw = json_raw_value(object);
    if (yyjson_obj_size(raw) == 0) {
        return false;
    }
    /* pos counts values in document order, so that each step costs the same. */
    yyjson_val *first = unsafe_yyjson_get_first(raw);
    yyjson_val *key = first + *pos;
    if (key >= unsafe_yyjson_get_next(raw)) {
        return false;
    }
    yyjson_val *value = key + 1;
    *pos = (size_t)(unsafe_yyjson_get_next(value) - first);
    *ret_key = (struct str){yyjson_get_str(key), yyjson_get_len(key)};
    *ret_value = json_wrap(value);
    return true;
}

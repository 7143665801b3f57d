/*
 * The strings of a JSON text. Must never be taken in by a key that stands inside a string: quotes
 * there are escaped, and a string with an escape is passed over. Pure functions.
 */
#include "proxy/json_scan.h"

static void string_byte(struct json_scan *s, char c)
{
    if (s->is_escaped) {
        s->is_escaped = false;
    } else if (c == '\\') {
        s->is_escaped = s->is_odd = true;
    } else if (c == '"') {
        s->in_string = false;
        s->has_string = !s->is_odd;
    } else if (s->value_len < JSON_SCAN_VALUE_MAX) {
        s->value[s->value_len++] = c;
    } else {
        s->is_odd = true;
    }
}

static void key_take(struct json_scan *s)
{
    s->has_key = s->has_string && s->value_len <= JSON_SCAN_KEY_MAX;
    s->key_len = s->has_key ? s->value_len : 0;
    memcpy(s->key, s->value, s->key_len);
    s->has_string = false;
}

static void value_tell(struct json_scan *s, bool is_object, json_scan_fn fn, void *ctx)
{
    if (s->has_key && (is_object || s->has_string)) {
        fn(ctx, s->depth, str_n(s->key, s->key_len),
           is_object ? (struct str){NULL, 0} : str_n(s->value, s->value_len));
    }
    s->has_key = s->has_string = false;
}

static void plain_byte(struct json_scan *s, char c, json_scan_fn fn, void *ctx)
{
    switch (c) {
    case '"':
        s->in_string = true;
        s->is_odd = s->has_string = false;
        s->value_len = 0;
        break;
    case ':': key_take(s); break;
    case '{':
        value_tell(s, true, fn, ctx);
        s->depth++;
        break;
    case '[':
        s->has_key = s->has_string = false;
        s->depth++;
        break;
    case '}':
    case ']':
        value_tell(s, false, fn, ctx);
        s->depth -= s->depth > 0;
        break;
    case ',': value_tell(s, false, fn, ctx); break;
    default: break;
    }
}

void json_scan_feed(struct json_scan *s, struct str bytes, json_scan_fn fn, void *ctx)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (s->in_string) {
            string_byte(s, bytes.ptr[i]);
        } else {
            plain_byte(s, bytes.ptr[i], fn, ctx);
        }
    }
}

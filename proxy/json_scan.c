/*
 * Members of a JSON text. Must never be taken in by a key that stands inside a string, or tell a
 * path that another spelling of the same keys would hide: a key with an escape is told as odd. Pure
 * functions.
 */
#include "proxy/json_scan.h"

#include "lib/mem.h"

_Static_assert(JSON_SCAN_PATH_MAX <= UINT8_MAX && JSON_SCAN_VALUE_MAX <= UINT8_MAX, "lengths");
_Static_assert(JSON_SCAN_DEPTH_MAX <= 32, "one bit of arrays for each depth");

static bool in_array(const struct json_scan *s)
{
    return s->depth > 0 && s->depth <= JSON_SCAN_DEPTH_MAX && (s->arrays >> (s->depth - 1) & 1U);
}

static bool is_told(const struct json_scan *s)
{
    return s->has_member && s->depth > 0 && s->depth <= JSON_SCAN_DEPTH_MAX && s->lost_depth == 0;
}

/* ---- the path ---- */

static void path_put(struct json_scan *s, struct str name)
{
    size_t at = s->marks[s->depth - 1];
    size_t dot = at > 0;

    if (at + dot + name.len > sizeof s->path) {
        s->lost_depth = s->depth;
        return;
    }
    if (dot) {
        s->path[at] = '.';
    }
    memcpy(s->path + at + dot, name.ptr, name.len);
    s->path_len = (uint8_t)(at + dot + name.len);
}

/* The next value is a member of that name. */
static void member_begin(struct json_scan *s, struct str name)
{
    s->has_member = true;
    if (s->depth == 0 || s->depth > JSON_SCAN_DEPTH_MAX) {
        return;
    }
    if (s->lost_depth == s->depth) {
        s->lost_depth = 0;
    }
    if (s->lost_depth == 0) {
        path_put(s, name);
    }
}

static void key_take(struct json_scan *s)
{
    struct str name = str_n(s->value, s->value_len);

    if (s->has_escape) {
        name = STR("?");
    } else if (s->is_long || name.len > JSON_SCAN_KEY_MAX) {
        name = STR("~");
    }
    if (s->has_string) {
        member_begin(s, name);
    }
    s->has_string = false;
}

static void element_begin(struct json_scan *s)
{
    if (in_array(s)) {
        member_begin(s, STR("[]"));
    }
}

/* ---- values ---- */

static void value_tell(struct json_scan *s, enum json_scan_kind kind, json_scan_fn fn, void *ctx)
{
    bool has_text = kind == JSON_SCAN_STRING || kind == JSON_SCAN_PLAIN;
    const struct json_scan_value value = {
        .path = str_n(s->path, s->path_len),
        .kind = kind,
        .text = str_n(s->value, has_text ? s->value_len : 0),
        .string_bytes = has_text || kind == JSON_SCAN_ODD ? s->string_bytes : 0,
    };

    if (is_told(s)) {
        fn(ctx, &value);
    }
}

/* A string or a plain value that has not been told yet ends here. */
static void value_end(struct json_scan *s, json_scan_fn fn, void *ctx)
{
    if (s->has_string) {
        value_tell(s, s->has_escape || s->is_long ? JSON_SCAN_ODD : JSON_SCAN_STRING, fn, ctx);
    } else if (s->in_plain && !s->is_long) {
        value_tell(s, JSON_SCAN_PLAIN, fn, ctx);
    }
    s->has_string = s->in_plain = s->has_member = false;
}

static void value_start(struct json_scan *s)
{
    s->value_len = 0;
    s->string_bytes = 0;
    s->has_escape = s->is_long = false;
}

static void value_add(struct json_scan *s, struct str bytes)
{
    size_t room = sizeof s->value - s->value_len;
    size_t take = bytes.len < room ? bytes.len : room;

    memcpy(s->value + s->value_len, bytes.ptr, take);
    s->value_len = (uint8_t)(s->value_len + take);
    s->is_long = s->is_long || take < bytes.len;
    s->string_bytes += bytes.len;
}

static void container_begin(struct json_scan *s, bool is_array, json_scan_fn fn, void *ctx)
{
    element_begin(s);
    value_tell(s, is_array ? JSON_SCAN_ARRAY : JSON_SCAN_OBJECT, fn, ctx);
    s->has_string = s->in_plain = false;
    /* Inside of what has no member of its own nothing is told; outermost values are the exception.
     */
    if (s->depth < UINT32_MAX) {
        s->depth++;
    }
    if (s->depth <= JSON_SCAN_DEPTH_MAX) {
        s->marks[s->depth - 1] = s->depth == 1 ? 0 : s->path_len;
        s->arrays &= ~(1U << (s->depth - 1));
        s->arrays |= (uint32_t)is_array << (s->depth - 1);
    }
    s->has_member = false;
}

static void container_end(struct json_scan *s, json_scan_fn fn, void *ctx)
{
    value_end(s, fn, ctx);
    if (s->depth > 0) {
        s->depth--;
    }
    if (s->lost_depth > s->depth) {
        s->lost_depth = 0;
    }
    if (s->depth > 0 && s->depth <= JSON_SCAN_DEPTH_MAX) {
        s->path_len = s->marks[s->depth - 1];
    }
}

/* ---- bytes ---- */

/* As much of a string as is at hand. */
static size_t string_feed(struct json_scan *s, struct str bytes)
{
    const char *quote;
    const char *slash;
    size_t len;

    if (s->is_escaped) {
        s->is_escaped = false;
        s->string_bytes++;
        return 1;
    }
    quote = memchr(bytes.ptr, '"', bytes.len);
    len = quote ? (size_t)(quote - bytes.ptr) : bytes.len;
    slash = memchr(bytes.ptr, '\\', len);
    if (slash) {
        len = (size_t)(slash - bytes.ptr);
        s->is_escaped = s->has_escape = true;
    }
    value_add(s, str_cut(bytes, 0, len));
    if (slash || !quote) {
        return len + (slash != NULL);
    }
    s->in_string = false;
    s->has_string = true;
    return len + 1;
}

static void plain_byte(struct json_scan *s, char c)
{
    if (!s->in_plain) {
        value_start(s);
        element_begin(s);
        s->in_plain = true;
        s->has_string = false;
    }
    value_add(s, str_n(&c, 1));
}

static void structure_byte(struct json_scan *s, char c, json_scan_fn fn, void *ctx)
{
    switch (c) {
    case '"':
        value_start(s);
        element_begin(s);
        s->in_string = true;
        s->has_string = s->in_plain = false;
        break;
    case ':': key_take(s); break;
    case '{': container_begin(s, false, fn, ctx); break;
    case '[': container_begin(s, true, fn, ctx); break;
    case '}':
    case ']': container_end(s, fn, ctx); break;
    case ',':
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        /* A blank may stand between a key and its colon. */
        if (c == ',' || s->in_plain) {
            value_end(s, fn, ctx);
        }
        break;
    default: plain_byte(s, c); break;
    }
}

void json_scan_feed(struct json_scan *s, struct str bytes, json_scan_fn fn, void *ctx)
{
    size_t at = 0;

    while (at < bytes.len) {
        if (s->in_string) {
            at += string_feed(s, str_cut(bytes, at, bytes.len));
        } else {
            structure_byte(s, bytes.ptr[at], fn, ctx);
            at++;
        }
    }
}

/*
 * JSON writer. No thread of its own.
 */
#include "lib/json_write.h"

#include "lib/clock.h"

void json_begin(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

/* What stands in a string as it is. */
static bool json_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

/* Eight bytes at once: a high bit is left over for a byte that is not plain, and only then. */
static bool json_are_plain(const char *bytes)
{
    const uint64_t each = 0x0101010101010101;
    uint64_t w = 0;
    memcpy(&w, bytes, sizeof(w));
    uint64_t odd =
        w | (w - each * 0x20) | ((w ^ each * '"') - each) | ((w ^ each * '\\') - each) | (w + each);
    return (odd & (each * 0x80)) == 0;
}

static size_t json_plain_run(struct str s, size_t from)
{
    size_t i = from;
    while (s.len - i >= sizeof(uint64_t) && json_are_plain(s.ptr + i)) {
        i += sizeof(uint64_t);
    }
    while (i < s.len && json_is_plain((unsigned char)s.ptr[i])) {
        i++;
    }
    return i - from;
}

/* Escapes one byte or one UTF-8 sequence at i; returns its length. */
static size_t json_escape_one(struct buf *out, struct str s, size_t i)
{
    unsigned char c = (unsigned char)s.ptr[i];
    static const char shorts[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *at = c ? strchr(shorts, c) : NULL;
    if (at) {
        buf_putc(out, '\\');
        buf_putc(out, letters[at - shorts]);
        return 1;
    }
    if (c < 0x20 || c == 0x7F) {
        buf_printf(out, "\\u%04x", c);
        return 1;
    }
    for (size_t len = 2; len <= 4; len++) {
        if (c >= 0x80 && i + len <= s.len && str_is_utf8(str_cut(s, i, i + len))) {
            buf_add(out, s.ptr + i, len);
            return len;
        }
    }
    buf_puts(out, "\\ufffd");
    return 1;
}

/* Nearly every string needs no escape: one copy. False: nothing was written. */
static bool json_quote_plain(struct buf *out, struct str value)
{
    if (json_plain_run(value, 0) < value.len || value.len > out->max ||
        !buf_reserve(out, value.len + 2)) {
        return false;
    }
    char *at = out->ptr + out->len;
    at[0] = '"';
    if (value.len > 0) {
        memcpy(at + 1, value.ptr, value.len);
    }
    at[value.len + 1] = '"';
    buf_grew(out, value.len + 2);
    return true;
}

void json_escape(struct buf *out, struct str value)
{
    if (json_quote_plain(out, value)) {
        return;
    }
    buf_putc(out, '"');
    for (size_t i = 0; i < value.len;) {
        size_t run = json_plain_run(value, i);
        if (run > 0) {
            buf_add(out, value.ptr + i, run);
            i += run;
            continue;
        }
        i += json_escape_one(out, value, i);
    }
    buf_putc(out, '"');
}

/* Comma, key and colon in one go: half of what an answer is made of. False: nothing was written. */
static bool json_prefix_plain(struct buf *out, bool comma, struct str key)
{
    if (json_plain_run(key, 0) < key.len || key.len > out->max || !buf_reserve(out, key.len + 4)) {
        return false;
    }
    char *at = out->ptr + out->len;
    if (comma) {
        *at++ = ',';
    }
    *at++ = '"';
    memcpy(at, key.ptr, key.len);
    at[key.len] = '"';
    at[key.len + 1] = ':';
    buf_grew(out, key.len + 3 + (comma ? 1 : 0));
    return true;
}

static void json_prefix(struct json_writer *w, const char *key)
{
    bool comma = w->need_comma[w->depth];
    w->need_comma[w->depth] = true;
    if (key && json_prefix_plain(w->out, comma, str_of(key))) {
        return;
    }
    if (comma) {
        buf_putc(w->out, ',');
    }
    if (key) {
        json_escape(w->out, str_of(key));
        buf_putc(w->out, ':');
    }
}

static void json_open(struct json_writer *w, const char *key, char bracket)
{
    json_prefix(w, key);
    buf_putc(w->out, bracket);
    if (w->depth + 1 < JSON_WRITE_DEPTH_MAX) {
        w->depth++;
    } else {
        w->out->failed = true;
    }
    w->need_comma[w->depth] = false;
}

static void json_close(struct json_writer *w, char bracket)
{
    buf_putc(w->out, bracket);
    w->depth -= w->depth > 0 ? 1 : 0;
}

void json_object(struct json_writer *w, const char *key)
{
    json_open(w, key, '{');
}

void json_object_end(struct json_writer *w)
{
    json_close(w, '}');
}

void json_array(struct json_writer *w, const char *key)
{
    json_open(w, key, '[');
}

void json_array_end(struct json_writer *w)
{
    json_close(w, ']');
}

void json_str(struct json_writer *w, const char *key, struct str value)
{
    json_prefix(w, key);
    json_escape(w->out, value);
}

void json_text(struct json_writer *w, const char *key, const char *value)
{
    if (!value) {
        json_null(w, key);
        return;
    }
    json_str(w, key, str_of(value));
}

void json_int(struct json_writer *w, const char *key, int64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    json_prefix(w, key);
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0) {
        buf_putc(w->out, '-');
    }
    buf_add(w->out, digits + at, sizeof(digits) - at);
}

void json_bool(struct json_writer *w, const char *key, bool value)
{
    json_prefix(w, key);
    buf_puts(w->out, value ? "true" : "false");
}

void json_null(struct json_writer *w, const char *key)
{
    json_prefix(w, key);
    buf_puts(w->out, "null");
}

void json_time(struct json_writer *w, const char *key, int64_t unix_ms)
{
    char text[CLOCK_TEXT_BYTES];
    if (unix_ms <= 0) {
        json_null(w, key);
        return;
    }
    json_text(w, key, clock_format(unix_ms, text));
}

void json_raw(struct json_writer *w, const char *key, struct str json)
{
    json_prefix(w, key);
    buf_add_str(w->out, json);
}

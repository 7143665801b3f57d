/*
 * Records: building and parsing. Bounded, no allocation beyond the caller's buffers. No thread of
 * its own.
 */
#include "lib/record.h"

#include <inttypes.h>
#include <stdio.h>

static void record_put_u32(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (char)(value >> (24 - 8 * i));
    }
}

static uint32_t record_get_u32(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value << 8 | (uint8_t)at[i];
    }
    return value;
}

struct record_writer record_begin(struct buf *out, const char *kind)
{
    struct record_writer w = {.out = out, .start = out->len, .failed_before = out->failed};
    buf_add(out, "\0\0\0\0", 4);
    record_adds(&w, "kind", kind);
    return w;
}

void record_add(struct record_writer *w, const char *key, struct str value)
{
    size_t key_len = strlen(key);
    char head[1] = {(char)key_len};
    char size[4];
    if (key_len == 0 || key_len > RECORD_KEY_MAX || value.len > RECORD_FRAME_MAX) {
        w->out->failed = true;
        return;
    }
    record_put_u32(size, (uint32_t)value.len);
    buf_add(w->out, head, sizeof(head));
    buf_add(w->out, key, key_len);
    buf_add(w->out, size, sizeof(size));
    buf_add_str(w->out, value);
}

void record_adds(struct record_writer *w, const char *key, const char *value)
{
    if (value) {
        record_add(w, key, str_of(value));
    }
}

void record_addn(struct record_writer *w, const char *key, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    record_adds(w, key, text);
}

void record_addb(struct record_writer *w, const char *key, bool value)
{
    record_adds(w, key, value ? "yes" : "no");
}

bool record_end(struct record_writer *w)
{
    size_t len = w->out->len - w->start;
    if (w->out->failed || len < 5 || len - 4 > RECORD_FRAME_MAX) {
        w->out->len = w->start;
        w->out->failed = w->failed_before;
        if (w->out->cap > 0) {
            w->out->ptr[w->start] = '\0';
        }
        return false;
    }
    record_put_u32(w->out->ptr + w->start, (uint32_t)(len - 4));
    return true;
}

static bool record_key_ok(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) {
            return false;
        }
    }
    return key.len > 0 && key.len <= RECORD_KEY_MAX;
}

/* One field at *pos; false at the end or when it does not parse (then *pos is SIZE_MAX). */
static bool record_field(struct str fields, size_t *pos, struct str *ret_key, struct str *ret_value)
{
    size_t at = *pos;
    if (at >= fields.len) {
        return false;
    }
    *pos = SIZE_MAX;
    size_t key_len = (uint8_t)fields.ptr[at];
    if (fields.len - at < 1 + key_len + 4) {
        return false;
    }
    struct str key = str_cut(fields, at + 1, at + 1 + key_len);
    at += 1 + key_len;
    size_t value_len = record_get_u32(fields.ptr + at);
    at += 4;
    if (!record_key_ok(key) || value_len > fields.len - at) {
        return false;
    }
    *ret_key = key;
    *ret_value = (struct str){fields.ptr + at, value_len};
    *pos = at + value_len;
    return true;
}

int record_parse(struct str frame, struct record *ret, struct err *e)
{
    size_t pos = 0;
    struct str key;
    struct str kind;
    if (!record_field(frame, &pos, &key, &kind) || !str_is(key, "kind") || kind.len == 0 ||
        kind.len > RECORD_KEY_MAX) {
        return err_set(e, ERR_PROTOCOL, 0, "a record that does not begin with its kind");
    }
    size_t fields_at = pos;
    struct str value;
    while (record_field(frame, &pos, &key, &value)) {
    }
    if (pos == SIZE_MAX) {
        return err_set(e, ERR_PROTOCOL, 0, "a record with a broken field");
    }
    *ret = (struct record){.kind = kind, .fields = str_cut(frame, fields_at, frame.len)};
    return 0;
}

int record_next(const struct buf *in, struct str *ret_frame, struct err *e)
{
    if (in->len < 4) {
        return 0;
    }
    uint32_t len = record_get_u32(in->ptr);
    if (len == 0 || len > RECORD_FRAME_MAX) {
        return err_set(e, ERR_PROTOCOL, 0, "a record of %" PRIu32 " bytes", len);
    }
    if (in->len - 4 < len) {
        return 0;
    }
    *ret_frame = (struct str){in->ptr + 4, len};
    return 1;
}

void record_skip(struct buf *in, struct str frame)
{
    buf_consume(in, frame.len + 4);
}

bool record_is(const struct record *r, const char *kind)
{
    return str_is(r->kind, kind);
}

bool record_each(const struct record *r, size_t *pos, struct str *ret_key, struct str *ret_value)
{
    return record_field(r->fields, pos, ret_key, ret_value);
}

bool record_each_of(const struct record *r, size_t *pos, const char *key, struct str *ret_value)
{
    struct str found;
    while (record_field(r->fields, pos, &found, ret_value)) {
        if (str_is(found, key)) {
            return true;
        }
    }
    return false;
}

struct str record_get(const struct record *r, const char *key)
{
    size_t pos = 0;
    struct str value;
    if (record_each_of(r, &pos, key, &value)) {
        return value;
    }
    return (struct str){NULL, 0};
}

bool record_get_u64(const struct record *r, const char *key, uint64_t max, uint64_t *ret_value)
{
    return str_to_u64(record_get(r, key), max, ret_value);
}

bool record_get_i64(const struct record *r, const char *key, int64_t *ret_value)
{
    return str_to_i64(record_get(r, key), INT64_MIN, INT64_MAX, ret_value);
}

bool record_get_bool(const struct record *r, const char *key, bool fallback)
{
    struct str value = record_get(r, key);
    return str_is(value, "yes") || (fallback && !str_is(value, "no"));
}

int record_to_err(const struct record *r, struct err *e)
{
    char code[32] = "";
    struct str name = record_get(r, "code");
    if (name.len < sizeof(code)) {
        memcpy(code, name.ptr ? name.ptr : "", name.len);
    }
    struct str message = record_get(r, "message");
    struct str tag = record_get(r, "tag");
    (void)err_set(e, err_code_from_name(code), 0, "%.*s", STR_FMT(message));
    if (e && tag.len < sizeof(e->tag) && str_is_text(tag, false)) {
        (void)snprintf(e->tag, sizeof(e->tag), "%.*s", STR_FMT(tag));
    }
    return -1;
}

void record_add_error(struct buf *out, const struct err *e)
{
    struct record_writer w = record_begin(out, "error");
    record_adds(&w, "code", err_code_name(e->code));
    record_adds(&w, "message", e->msg);
    if (e->tag[0]) {
        record_adds(&w, "tag", e->tag);
    }
    (void)record_end(&w);
}

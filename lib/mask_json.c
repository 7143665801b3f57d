/*
 * Masking in JSON: values are looked for in what strings mean, escapes taken back, and a string
 * that holds one is written anew. It must never make text that is JSON into text that is not. Any
 * thread.
 */
#include "lib/json_write.h"
#include "lib/mask.h"

#define MASK_STRING_BYTES_MAX (16UL << 20)

static int json_hex(struct str s, size_t at)
{
    int value = 0;

    for (size_t i = at; i < at + 4; i++) {
        char c = i < s.len ? s.ptr[i] : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static void json_put_utf8(struct buf *out, uint32_t code)
{
    if (code < 0x80) {
        buf_putc(out, (char)code);
    } else if (code < 0x800) {
        buf_putc(out, (char)(0xC0 | (code >> 6)));
        buf_putc(out, (char)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        buf_putc(out, (char)(0xE0 | (code >> 12)));
        buf_putc(out, (char)(0x80 | ((code >> 6) & 0x3F)));
        buf_putc(out, (char)(0x80 | (code & 0x3F)));
    } else {
        buf_putc(out, (char)(0xF0 | (code >> 18)));
        buf_putc(out, (char)(0x80 | ((code >> 12) & 0x3F)));
        buf_putc(out, (char)(0x80 | ((code >> 6) & 0x3F)));
        buf_putc(out, (char)(0x80 | (code & 0x3F)));
    }
}

/* The \u escape at `at`, with its second half where it has one; returns its length. */
static size_t json_take_code(struct str s, size_t at, struct buf *out)
{
    int first = json_hex(s, at + 2);
    int second = -1;

    if (first < 0) {
        buf_putc(out, s.ptr[at]);
        return 1;
    }
    if (first >= 0xD800 && first < 0xDC00 && at + 7 < s.len && s.ptr[at + 6] == '\\' &&
        s.ptr[at + 7] == 'u') {
        second = json_hex(s, at + 8);
    }
    if (second >= 0xDC00 && second < 0xE000) {
        json_put_utf8(out,
                      0x10000 + (((uint32_t)first - 0xD800) << 10) + (uint32_t)second - 0xDC00);
        return 12;
    }
    json_put_utf8(out, first >= 0xD800 && first < 0xE000 ? 0xFFFD : (uint32_t)first);
    return 6;
}

static size_t json_take_escape(struct str s, size_t at, struct buf *out)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = at + 1 < s.len && s.ptr[at + 1] ? strchr(letters, s.ptr[at + 1]) : NULL;

    if (found) {
        buf_putc(out, meanings[found - letters]);
        return 2;
    }
    if (at + 1 < s.len && s.ptr[at + 1] == 'u') {
        return json_take_code(s, at, out);
    }
    buf_putc(out, s.ptr[at]);
    return 1;
}

/* What a string between its quotes means. */
static void json_unescape(struct str raw, struct buf *out)
{
    for (size_t i = 0; i < raw.len;) {
        if (raw.ptr[i] == '\\') {
            i += json_take_escape(raw, i, out);
        } else {
            buf_putc(out, raw.ptr[i++]);
        }
    }
}

static void json_mask_string(const struct mask *m, struct str raw, struct buf *out)
{
    BUF_AUTO(plain, MASK_STRING_BYTES_MAX);
    BUF_AUTO(masked, MASK_STRING_BYTES_MAX);

    json_unescape(raw, &plain);
    mask_text(m, buf_str(&plain), &masked);
    if (!buf_ok(&plain) || !buf_ok(&masked)) {
        json_escape(out, STR(MASK_TEXT)); /* too long to look at */
    } else if (str_eq(buf_str(&plain), buf_str(&masked))) {
        buf_putc(out, '"');
        buf_add_str(out, raw);
        buf_putc(out, '"');
    } else {
        json_escape(out, buf_str(&masked));
    }
    mem_wipe(plain.ptr, plain.cap);
}

static bool json_is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static size_t json_number_len(struct str text)
{
    size_t len = 0;

    while (len < text.len && json_is_of_number(text.ptr[len])) {
        len++;
    }
    return len;
}

/* A number that holds a value becomes a string. */
static void json_mask_number(const struct mask *m, struct str number, struct buf *out)
{
    BUF_AUTO(masked, MASK_STRING_BYTES_MAX);

    mask_text(m, number, &masked);
    if (!buf_ok(&masked)) {
        json_escape(out, STR(MASK_TEXT)); /* too long to look at */
    } else if (str_eq(number, buf_str(&masked))) {
        buf_add_str(out, number);
    } else {
        json_escape(out, buf_str(&masked));
    }
}

/* What stands between strings. */
static void json_mask_between(const struct mask *m, struct str text, struct buf *out)
{
    while (text.len > 0) {
        size_t len = json_number_len(text);

        if (len >= MASK_MIN_BYTES) {
            json_mask_number(m, str_cut(text, 0, len), out);
        } else {
            len = len > 0 ? len : 1;
            buf_add(out, text.ptr, len);
        }
        text = str_cut(text, len, text.len);
    }
}

/* Length of the string whose opening quote was taken, without its closing one. */
static size_t json_string_len(struct str rest)
{
    size_t len = 0;

    while (len < rest.len && rest.ptr[len] != '"') {
        len += rest.ptr[len] == '\\' && len + 1 < rest.len ? 2 : 1;
    }
    return len;
}

void mask_json(const struct mask *m, struct str json, struct buf *out)
{
    if (!m) {
        buf_add_str(out, json);
        return;
    }
    while (json.len > 0) {
        ptrdiff_t quote = str_find(json, '"');
        size_t before = quote < 0 ? json.len : (size_t)quote;

        json_mask_between(m, str_cut(json, 0, before), out);
        json = str_cut(json, before, json.len);
        if (json.len == 0) {
            return;
        }
        json = str_cut(json, 1, json.len);
        size_t len = json_string_len(json);
        if (len >= json.len) {
            /* No JSON after all: it may be anything. */
            buf_putc(out, '"');
            mask_text(m, json, out);
            return;
        }
        json_mask_string(m, str_cut(json, 0, len), out);
        json = str_cut(json, len + 1, json.len);
    }
}

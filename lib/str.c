/*
 * Slices and number parsers. Pure, any thread.
 */
#include "lib/str.h"

bool str_eq(struct str a, struct str b)
{
    if (a.len != b.len || a.len == 0) {
        return a.len == b.len;
    }
    return a.ptr && b.ptr && memcmp(a.ptr, b.ptr, a.len) == 0;
}

bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_of(b));
}

static char str_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_eq_nocase_bytes(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (str_lower(a[i]) != str_lower(b[i])) {
            return false;
        }
    }
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq(str_cut(s, 0, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_cut(s, s.len - suffix.len, s.len), suffix);
}

ptrdiff_t str_find(struct str s, char c)
{
    const char *p = s.len ? memchr(s.ptr, c, s.len) : NULL;
    return p ? p - s.ptr : -1;
}

bool str_contains(struct str s, struct str needle)
{
    return needle.len > 0 && s.len >= needle.len &&
           memmem(s.ptr, s.len, needle.ptr, needle.len) != NULL;
}

static bool str_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && str_is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && str_is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

struct str str_cut(struct str s, size_t from, size_t to)
{
    to = to < s.len ? to : s.len;
    from = from < to ? from : to;
    return (struct str){s.ptr ? s.ptr + from : s.ptr, to - from};
}

bool str_split(struct str *rest, char sep, struct str *ret_part)
{
    if (!rest->ptr) {
        return false;
    }
    ptrdiff_t at = str_find(*rest, sep);
    if (at < 0) {
        *ret_part = *rest;
        *rest = (struct str){NULL, 0};
        return true;
    }
    *ret_part = str_cut(*rest, 0, (size_t)at);
    *rest = str_cut(*rest, (size_t)at + 1, rest->len);
    return true;
}

bool str_to_u64(struct str s, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (s.len == 0 || s.len > 20 || (s.len > 1 && s.ptr[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value)) {
            return false;
        }
    }
    if (value > max) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret_value)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t magnitude = 0;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    if (!str_to_u64(negative ? str_cut(s, 1, s.len) : s, limit, &magnitude)) {
        return false;
    }
    int64_t value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (value < min || value > max) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool str_to_bool(struct str s, bool *ret_value)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true},   {"1", true},  {"yes", true}, {"on", true},
                 {"false", false}, {"0", false}, {"no", false}, {"off", false}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_eq_nocase(s, str_of(words[i].word))) {
            *ret_value = words[i].value;
            return true;
        }
    }
    return false;
}

/* Length of the well-formed UTF-8 sequence at s, 0 when there is none (overlong, surrogate, above
 * U+10FFFF, cut). */
static size_t str_utf8_len(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80) {
        return 1;
    }
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || left < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || beyond ? 0 : len;
}

bool str_is_utf8(struct str s)
{
    for (size_t i = 0; i < s.len;) {
        size_t len = str_utf8_len((const unsigned char *)s.ptr + i, s.len - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

bool str_is_text(struct str s, bool allow_lines)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool line = c == '\n' || c == '\t' || c == '\r';
        if ((c < 0x20 && !(line && allow_lines)) || c == 0x7F) {
            return false;
        }
    }
    return str_is_utf8(s);
}

bool str_eq_secret(struct str a, struct str b)
{
    if (a.len != b.len) {
        return false;
    }
    volatile unsigned char diff = 0;
    for (size_t i = 0; i < a.len; i++) {
        diff = (unsigned char)(diff | (unsigned char)(a.ptr[i] ^ b.ptr[i]));
    }
    return diff == 0;
}

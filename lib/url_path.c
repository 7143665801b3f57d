/*
 * Paths inside queries. Must never let one lead to another host. Pure functions.
 */
#include "lib/url_path.h"

bool url_path_is_local(struct str path)
{
    if (path.len == 0 || path.ptr[0] != '/' || str_starts(path, STR("//")) ||
        str_starts(path, STR("/.sandboxd/"))) {
        return false;
    }
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];

        if (c <= ' ' || c >= 0x7f || c == '\\' || c == '#') {
            return false;
        }
    }
    return true;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool url_path_unescape(struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '%') {
            buf_putc(out, text.ptr[i]);
            continue;
        }
        int high = i + 2 < text.len ? digit_of(text.ptr[i + 1]) : -1;
        int low = i + 2 < text.len ? digit_of(text.ptr[i + 2]) : -1;

        if (high < 0 || low < 0) {
            return false;
        }
        buf_putc(out, (char)(high * 16 + low));
        i += 2;
    }
    return buf_ok(out);
}

void url_path_escape(struct str text, struct buf *out)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

    for (size_t i = 0; i < text.len; i++) {
        if (str_find(str_of(plain), text.ptr[i]) >= 0) {
            buf_putc(out, text.ptr[i]);
        } else {
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)text.ptr[i]);
        }
    }
}

bool url_path_parameter(struct str query, struct str name, struct str *ret_value)
{
    struct str part;
    unsigned count = 0;

    while (query.ptr && str_split(&query, '&', &part)) {
        if (str_starts(part, name) && part.len > name.len && part.ptr[name.len] == '=') {
            *ret_value = str_cut(part, name.len + 1, part.len);
            count++;
        }
    }
    return count == 1;
}

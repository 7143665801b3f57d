/*
 * Request targets of the credentials role. Must never normalise: what is not plain is refused. Pure
 * functions.
 */
#include "proxy/credentials_path.h"

#define PROVIDER_BYTES_MAX 32

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* An escape must be whole and must not stand for what separates or climbs. */
static bool is_plain_escape(struct str text, size_t at)
{
    int high;
    int low;
    int c;

    if (at + 2 >= text.len) {
        return false;
    }
    high = hex_of(text.ptr[at + 1]);
    low = hex_of(text.ptr[at + 2]);
    if (high < 0 || low < 0) {
        return false;
    }
    c = high * 16 + low;
    return c > 0x20 && c != 0x7f && c != '/' && c != '\\' && c != '.' && c != '%';
}

static bool is_plain_path(struct str path)
{
    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];

        if (c <= 0x20 || c >= 0x7f || c == '\\' || c == '#' || c == '?') {
            return false;
        }
        if (c == '%' && !is_plain_escape(path, i)) {
            return false;
        }
    }
    return true;
}

static bool is_plain_query(struct str query)
{
    for (size_t i = 0; i < query.len; i++) {
        if (query.ptr[i] <= 0x20 || query.ptr[i] >= 0x7f || query.ptr[i] == '#') {
            return false;
        }
    }
    return true;
}

/* No empty segment but the last, none of dots only. */
static bool are_plain_segments(struct str path)
{
    struct str rest = str_cut(path, 1, path.len);
    struct str part;

    while (str_split(&rest, '/', &part)) {
        if ((part.len == 0 && rest.ptr) || str_is(part, ".") || str_is(part, "..")) {
            return false;
        }
    }
    return true;
}

static bool is_provider(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')) {
            return false;
        }
    }
    return name.len > 0 && name.len <= PROVIDER_BYTES_MAX;
}

bool credentials_target_parse(struct str target, struct credentials_target *ret)
{
    ptrdiff_t question = str_find(target, '?');
    struct str path = question < 0 ? target : str_cut(target, 0, (size_t)question);
    struct str query = question < 0 ? STR("") : str_cut(target, (size_t)question, target.len);
    ptrdiff_t slash;

    if (path.len < 2 || path.ptr[0] != '/' || !is_plain_path(path) || !is_plain_query(query) ||
        !are_plain_segments(path)) {
        return false;
    }
    slash = str_find(str_cut(path, 1, path.len), '/');
    if (slash <= 0 || !is_provider(str_cut(path, 1, 1 + (size_t)slash))) {
        return false;
    }
    *ret = (struct credentials_target){
        .provider = str_cut(path, 1, 1 + (size_t)slash),
        .path = str_cut(path, 1 + (size_t)slash, path.len),
        .query = query,
    };
    return ret->path.len > 1;
}

/* One star at a time, the shortest stretch first; patterns come from our own data, so a short loop
 * is enough. */
static bool glob(struct str pattern, struct str text)
{
    size_t p = 0;
    size_t t = 0;
    size_t star = SIZE_MAX;
    size_t mark = 0;

    while (t < text.len) {
        if (p < pattern.len && pattern.ptr[p] == '*' && text.ptr[t] != '/') {
            star = p++;
            mark = ++t;
        } else if (p < pattern.len && pattern.ptr[p] != '*' && pattern.ptr[p] == text.ptr[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX && mark < text.len && text.ptr[mark] != '/') {
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    return p == pattern.len;
}

bool credentials_path_matches(struct str line, struct str method, struct str path)
{
    ptrdiff_t blank = str_find(line, ' ');

    return blank > 0 && str_eq(str_cut(line, 0, (size_t)blank), method) &&
           glob(str_cut(line, (size_t)blank + 1, line.len), path);
}

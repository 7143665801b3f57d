/*
 * Slices of bytes, and the only parsers of numbers.
 *
 * A struct str is borrowed, never owned and not terminated. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *ptr;
    size_t len;
};

#define STR(lit) ((struct str){"" lit, sizeof(lit) - 1})
/* For "%.*s". */
#define STR_FMT(s) (int)(s).len, (s).ptr

/* Slice of a terminated string; NULL gives an empty one. */
static inline struct str str_of(const char *text)
{
    return (struct str){text ? text : "", text ? strlen(text) : 0};
}

static inline struct str str_n(const void *bytes, size_t len)
{
    return (struct str){(const char *)bytes, len};
}

static inline bool str_empty(struct str s)
{
    return s.len == 0;
}

bool str_eq(struct str a, struct str b);
/* Compares with a terminated string. */
bool str_is(struct str a, const char *b);
/* ASCII letters only. Most comparisons of names end with their lengths: those make no call. */
bool str_eq_nocase_bytes(const char *a, const char *b, size_t len);

static inline bool str_eq_nocase(struct str a, struct str b)
{
    return a.len == b.len && str_eq_nocase_bytes(a.ptr, b.ptr, a.len);
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Index of the first c, or -1. */
ptrdiff_t str_find(struct str s, char c);
/* True when needle (not empty) stands somewhere in s. */
bool str_contains(struct str s, struct str needle);
/* Without blanks (space, tab, CR, LF) at both ends. */
struct str str_trim(struct str s);
/* s[from..to), clipped to s. */
struct str str_cut(struct str s, size_t from, size_t to);
/* Takes the part before sep off the front of *rest; false when *rest is used up (ptr NULL). An
 * empty part is a part. */
bool str_split(struct str *rest, char sep, struct str *ret_part);

/* Unsigned decimal without sign, blanks or leading zeros beyond "0"; false on anything else or
 * above max. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *ret_value);
/* The same with an optional leading '-'. */
bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret_value);
/* true/1/yes/on, false/0/no/off, any case; false for anything else. */
bool str_to_bool(struct str s, bool *ret_value);

/* Well-formed UTF-8 without NUL; control characters only \t \n \r when allow_lines, else none. */
bool str_is_text(struct str s, bool allow_lines);
/* Well-formed UTF-8 (NUL and controls allowed). */
bool str_is_utf8(struct str s);
/* Constant time over equal lengths; false at once for different ones. */
bool str_eq_secret(struct str a, struct str b);

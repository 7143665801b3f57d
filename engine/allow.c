/*
 * Address lists. Pure functions; must never resolve a name.
 */
#include "engine/allow.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define ALLOW_WANTED "address, address/length, address:port or [ipv6]/length:port"

static bool allow_parse_address(struct str text, struct allow_prefix *ret)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (strlen(copy) != text.len) {
        return false;
    }
    ret->is_v6 = str_find(text, ':') >= 0;
    ret->bits = ret->is_v6 ? 128 : 32;
    return inet_pton(ret->is_v6 ? AF_INET6 : AF_INET, copy, ret->bytes) == 1;
}

bool allow_parse_prefix(struct str text, struct allow_prefix *ret)
{
    struct allow_prefix p = {0};
    uint64_t bits = 0;
    ptrdiff_t slash = str_find(text, '/');
    size_t end = slash < 0 ? text.len : (size_t)slash;
    if (!allow_parse_address(str_cut(text, 0, end), &p)) {
        return false;
    }
    if (slash >= 0) {
        if (!str_to_u64(str_cut(text, end + 1, text.len), p.bits, &bits)) {
            return false;
        }
        p.bits = (uint8_t)bits;
    }
    *ret = p;
    return true;
}

static uint8_t prefix_byte_mask(const struct allow_prefix *p, size_t index)
{
    size_t first = index * 8;
    if (p->bits >= first + 8) {
        return 0xff;
    }
    return (uint8_t)(p->bits <= first ? 0 : 0xff00U >> (p->bits - first));
}

bool allow_prefix_is_base(const struct allow_prefix *p)
{
    for (size_t i = 0; i < (p->is_v6 ? 16U : 4U); i++) {
        if (p->bytes[i] & (uint8_t)~prefix_byte_mask(p, i)) {
            return false;
        }
    }
    return true;
}

bool allow_prefix_is_address(const struct allow_prefix *p)
{
    return p->bits == (p->is_v6 ? 128 : 32);
}

bool allow_prefix_is_loopback(const struct allow_prefix *p)
{
    static const uint8_t loopback6[16] = {[15] = 1};
    return p->is_v6 ? memcmp(p->bytes, loopback6, sizeof(loopback6)) == 0 : p->bytes[0] == 127;
}

char *allow_prefix_text(const struct allow_prefix *p, char text[ALLOW_TEXT_BYTES])
{
    uint8_t bytes[16];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = p->bytes[i] & prefix_byte_mask(p, i);
    }
    if (!inet_ntop(p->is_v6 ? AF_INET6 : AF_INET, bytes, text, ALLOW_TEXT_BYTES - 4)) {
        text[0] = '\0';
    }
    if (!allow_prefix_is_address(p)) {
        size_t len = strlen(text);
        (void)snprintf(text + len, ALLOW_TEXT_BYTES - len, "/%u", p->bits);
    }
    return text;
}

bool allow_prefix_overlaps(const struct allow_prefix *a, const struct allow_prefix *b)
{
    if (a->is_v6 != b->is_v6) {
        return false;
    }
    const struct allow_prefix *shorter = a->bits < b->bits ? a : b;
    for (size_t i = 0; i < (a->is_v6 ? 16U : 4U); i++) {
        if ((a->bytes[i] ^ b->bytes[i]) & prefix_byte_mask(shorter, i)) {
            return false;
        }
    }
    return true;
}

/* "[v6]/len:port" → "v6/len" into joined and the rest behind it; false when the brackets do not
 * fit. */
static bool entry_open_brackets(struct str text, char joined[ALLOW_TEXT_BYTES],
                                struct str *ret_prefix, struct str *ret_port)
{
    ptrdiff_t close = str_find(text, ']');
    if (close < 0) {
        return false;
    }
    struct str inside = str_cut(text, 1, (size_t)close);
    struct str behind = str_cut(text, (size_t)close + 1, text.len);
    ptrdiff_t colon = str_find(behind, ':');
    struct str length = colon < 0 ? behind : str_cut(behind, 0, (size_t)colon);
    if (str_find(inside, ':') < 0 || inside.len + length.len >= ALLOW_TEXT_BYTES ||
        (!str_empty(length) && length.ptr[0] != '/')) {
        return false;
    }
    memcpy(joined, inside.ptr, inside.len);
    memcpy(joined + inside.len, length.ptr, length.len);
    *ret_prefix = str_n(joined, inside.len + length.len);
    *ret_port = colon < 0 ? STR("") : str_cut(behind, (size_t)colon, behind.len);
    return true;
}

static bool allow_parse_entry(struct str text, struct allow_entry *ret)
{
    char joined[ALLOW_TEXT_BYTES];
    struct str prefix = text;
    struct str port = STR("");
    uint64_t number = 0;
    if (str_starts(text, STR("["))) {
        if (!entry_open_brackets(text, joined, &prefix, &port)) {
            return false;
        }
    } else {
        ptrdiff_t colon = str_find(text, ':');
        bool is_v6 = colon >= 0 && str_find(str_cut(text, (size_t)colon + 1, text.len), ':') >= 0;
        if (colon >= 0 && !is_v6) {
            prefix = str_cut(text, 0, (size_t)colon);
            port = str_cut(text, (size_t)colon, text.len);
        }
    }
    if (!str_empty(port) &&
        (!str_to_u64(str_cut(port, 1, port.len), UINT16_MAX, &number) || number == 0)) {
        return false;
    }
    ret->port = (uint16_t)number;
    return allow_parse_prefix(prefix, &ret->prefix);
}

int allow_parse(struct str text, struct allow_list *ret, struct err *e)
{
    struct str rest = str_trim(text);
    struct str part;
    *ret = (struct allow_list){0};
    if (str_empty(rest)) {
        return 0;
    }
    while (str_split(&rest, ',', &part)) {
        part = str_trim(part);
        if (ret->count == ALLOW_ENTRIES_MAX) {
            return err_set(e, ERR_INVALID, 0, "more than %d entries", ALLOW_ENTRIES_MAX);
        }
        if (!allow_parse_entry(part, &ret->entries[ret->count])) {
            return err_set(e, ERR_INVALID, 0, "has \"%.*s\": an entry is " ALLOW_WANTED,
                           STR_FMT(part));
        }
        ret->count++;
    }
    return 0;
}

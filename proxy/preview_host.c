/*
 * Host names of previews.
 *
 * Must never guess: what is not exactly a preview's name is nobody's. Pure functions.
 */
#include "proxy/preview_host.h"

/* RFC 1035: a name has at most 253 characters; with a port. */
#define HOST_BYTES_MAX 260

#define LOCALHOST STR("localhost")

static bool is_fold(struct str host, char fold[HOST_BYTES_MAX])
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];

        if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
              c == ':')) {
            return false;
        }
        fold[i] = c;
    }
    return true;
}

/* Cuts ":port" off; false when what stands there is no port. */
static bool cut_port(struct str *name)
{
    ptrdiff_t colon = str_find(*name, ':');
    uint64_t port;

    if (colon < 0) {
        return true;
    }
    if (!str_to_u64(str_cut(*name, (size_t)colon + 1, name->len), UINT16_MAX, &port) || port == 0) {
        return false;
    }
    name->len = (size_t)colon;
    return true;
}

/* Cuts ".preview.<domain>" off. */
static bool cut_domain(struct str *name, struct str domain)
{
    const struct str infix = STR(".preview.");

    if (domain.len == 0 || name->len <= infix.len + domain.len || !str_ends(*name, domain)) {
        return false;
    }
    struct str rest = str_cut(*name, 0, name->len - domain.len);

    if (!str_ends(rest, infix)) {
        return false;
    }
    *name = str_cut(rest, 0, rest.len - infix.len);
    return true;
}

static bool parse_label(struct str label, struct preview_host *ret)
{
    uint64_t port;

    if (label.len < 2 + ULID_LEN + 2 || !str_starts(label, STR("s-")) ||
        label.ptr[2 + ULID_LEN] != '-') {
        return false;
    }
    if (!ulid_parse(str_cut(label, 2, 2 + ULID_LEN), &ret->id) ||
        !str_to_u64(str_cut(label, 2 + ULID_LEN + 1, label.len), UINT16_MAX, &port) || port == 0) {
        return false;
    }
    ret->port = (uint16_t)port;
    return true;
}

bool preview_host_parse(struct str host, struct str domain, struct preview_host *ret_host)
{
    char fold[HOST_BYTES_MAX];
    struct preview_host parsed = {0};

    if (host.len == 0 || host.len > sizeof fold || !is_fold(host, fold)) {
        return false;
    }
    struct str name = str_n(fold, host.len);

    if (!cut_port(&name)) {
        return false;
    }
    parsed.is_localhost =
        str_eq(str_cut(name, name.len - (name.len < 9 ? name.len : 9), name.len), LOCALHOST);
    if (!cut_domain(&name, domain) && !cut_domain(&name, LOCALHOST)) {
        return false;
    }
    if (!parse_label(name, &parsed)) {
        return false;
    }
    *ret_host = parsed;
    return true;
}

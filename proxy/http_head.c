/*
 * Heads of messages.
 *
 * Must never change a byte of a field that it passes on. Pure functions, main thread.
 */
#include "proxy/http_head.h"

#include <stddef.h>

#include "lib/mem.h"

void head_init(struct head *h)
{
    buf_init(&h->text, LIMIT_HEAD_BYTES);
    h->count = 0;
    h->trailers_from = LIMIT_HEAD_FIELDS;
    h->method_at = h->method_len = h->target_at = h->target_len = 0;
    h->status = h->major = h->minor = 0;
}

void head_done(struct head *h)
{
    buf_done(&h->text);
}

static struct str slice(const struct head *h, uint32_t at, uint32_t len)
{
    return str_n(h->text.ptr + at, len);
}

struct str head_method(const struct head *h)
{
    return slice(h, h->method_at, h->method_len);
}

struct str head_target(const struct head *h)
{
    return slice(h, h->target_at, h->target_len);
}

struct str head_name(const struct head *h, unsigned i)
{
    return slice(h, h->fields[i].name_at, h->fields[i].name_len);
}

struct str head_value(const struct head *h, unsigned i)
{
    return slice(h, h->fields[i].value_at, h->fields[i].value_len);
}

static unsigned before_body(const struct head *h)
{
    return h->count < h->trailers_from ? h->count : h->trailers_from;
}

struct str head_get(const struct head *h, const char *name)
{
    struct str wanted = str_of(name);

    for (unsigned i = 0; i < before_body(h); i++) {
        if (str_eq_nocase(head_name(h, i), wanted)) {
            return head_value(h, i);
        }
    }
    return (struct str){NULL, 0};
}

unsigned head_count(const struct head *h, const char *name)
{
    struct str wanted = str_of(name);
    unsigned count = 0;

    for (unsigned i = 0; i < before_body(h); i++) {
        count += str_eq_nocase(head_name(h, i), wanted);
    }
    return count;
}

static unsigned count_token(struct str list, struct str token)
{
    struct str part;
    unsigned count = 0;

    while (str_split(&list, ',', &part)) {
        count += str_eq_nocase(str_trim(part), token);
    }
    return count;
}

unsigned head_count_token(const struct head *h, const char *name, const char *token)
{
    struct str wanted = str_of(name);
    unsigned count = 0;

    for (unsigned i = 0; i < before_body(h); i++) {
        if (str_eq_nocase(head_name(h, i), wanted)) {
            count += count_token(head_value(h, i), str_of(token));
        }
    }
    return count;
}

bool head_has_token(const struct head *h, const char *name, const char *token)
{
    return head_count_token(h, name, token) > 0;
}

/* Its length is there already: these lists are gone through for each field of each message. */
#define NAME(text) {text, sizeof(text) - 1}

static bool is_one_of(struct str name, const struct str *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_hop_by_name(struct str name)
{
    static const struct str hop[] = {
        NAME("connection"),          NAME("keep-alive"),       NAME("proxy-authenticate"),
        NAME("proxy-authorization"), NAME("proxy-connection"), NAME("te"),
        NAME("transfer-encoding"),   NAME("trailer"),          NAME("upgrade"),
    };

    return is_one_of(name, hop, ARRAY_LEN(hop));
}

static bool is_named_by_connection(const struct head *h, struct str name)
{
    for (unsigned i = 0; i < before_body(h); i++) {
        if (str_eq_nocase(head_name(h, i), STR("connection")) &&
            count_token(head_value(h, i), name) > 0) {
            return true;
        }
    }
    return false;
}

bool head_is_hop(const struct head *h, struct str name)
{
    return is_hop_by_name(name) || is_named_by_connection(h, name);
}

static void copy_field(const struct head *h, unsigned i, struct buf *out)
{
    buf_add_str(out, head_name(h, i));
    buf_add(out, ": ", 2);
    buf_add_str(out, head_value(h, i));
    buf_add(out, "\r\n", 2);
}

void head_copy(const struct head *h, struct buf *out, head_drop_fn drop, const void *ctx)
{
    bool has_connection = head_get(h, "connection").ptr != NULL;

    for (unsigned i = 0; i < before_body(h); i++) {
        struct str name = head_name(h, i);

        if (!is_hop_by_name(name) && !(has_connection && is_named_by_connection(h, name)) &&
            !(drop && drop(name, head_value(h, i), ctx))) {
            copy_field(h, i, out);
        }
    }
}

void head_copy_trailers(const struct head *h, struct buf *out)
{
    static const struct str never[] = {
        NAME("content-length"), NAME("content-encoding"),
        NAME("content-type"),   NAME("content-range"),
        NAME("host"),           NAME("authorization"),
        NAME("cookie"),         NAME("set-cookie"),
        NAME("cache-control"),  NAME("expect"),
        NAME("location"),       NAME("retry-after"),
        NAME("vary"),           NAME("max-forwards"),
    };

    for (unsigned i = h->trailers_from; i < h->count; i++) {
        struct str name = head_name(h, i);

        if (!head_is_hop(h, name) && !is_one_of(name, never, ARRAY_LEN(never))) {
            copy_field(h, i, out);
        }
    }
}

/*
 * A request as the provider gets it.
 *
 * Must never send a key header of the client, or a key anywhere but below its own provider's base
 * URL. Main thread.
 */
#include <stdio.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/credentials_call_private.h"
#include "proxy/credentials_head.h"
#include "proxy/fetch_loop.h"

#define LINES_MAX (LIMIT_HEAD_FIELDS + LIMIT_GRANT_EXTRAS + 3)

/* Lines of the request, one after the other, each terminated, in one block that is wiped. */
struct lines {
    struct buf *block;
    size_t at[LINES_MAX];
    unsigned count;
};

static void line_begin(struct lines *l)
{
    l->at[l->count++] = l->block->len;
}

static void line_end(struct lines *l)
{
    buf_putc(l->block, '\0');
}

static void lines_of_client(const struct call *c, struct lines *l)
{
    const struct head *h = &c->x->request;
    const struct grant_provider *p = c->provider;

    for (unsigned i = 0; i < h->count && i < h->trailers_from; i++) {
        struct str name = head_name(h, i);
        struct str value = head_value(h, i);

        if (credentials_drops_request_field(h, name) || str_eq_nocase(name, str_of(p->header)) ||
            credentials_is_extra((const char *const *)p->extras, p->extra_count, name)) {
            continue;
        }
        line_begin(l);
        /* libcurl takes "Name;" for a field without a value. */
        buf_printf(l->block, value.len > 0 ? "%.*s: %.*s" : "%.*s;%.*s", STR_FMT(name),
                   STR_FMT(value));
        line_end(l);
    }
    if (!head_get(h, "accept").ptr) {
        line_begin(l);
        buf_puts(l->block, "Accept:");
        line_end(l);
    }
}

static void lines_of_provider(const struct call *c, struct lines *l)
{
    const struct grant_provider *p = c->provider;

    for (unsigned i = 0; i < p->extra_count; i++) {
        line_begin(l);
        credentials_extra_field(l->block, &c->x->request, str_of(p->extras[i]));
        line_end(l);
    }
    if (p->header[0] != '\0') {
        line_begin(l);
        buf_printf(l->block, "%s: %s%s", p->header, p->prefix, p->key);
        line_end(l);
    }
}

static void build_url(const struct call *c, struct buf *url)
{
    struct str base = str_of(c->provider->base_url);

    while (base.len > 0 && base.ptr[base.len - 1] == '/') {
        base.len--;
    }
    buf_add_str(url, base);
    buf_add_str(url, c->target.path);
    buf_add_str(url, c->target.query);
}

static int send_lines(struct call *c, const struct lines *l, struct err *e)
{
    const char *headers[LINES_MAX + 1] = {NULL};
    char method[32];
    const struct exchange *x = c->x;

    BUF_AUTO(url, 2 * LIMIT_HEAD_BYTES);

    for (unsigned i = 0; i < l->count; i++) {
        headers[i] = l->block->ptr + l->at[i];
    }
    build_url(c, &url);
    (void)snprintf(method, sizeof method, "%.*s", STR_FMT(head_method(&x->request)));

    const struct fetch_stream_request request = {
        .method = method,
        .url = url.ptr,
        .headers = headers,
        .has_body = x->framing != HTTP_NO_BODY,
        .body_bytes = x->framing == HTTP_LENGTH ? (int64_t)x->length : -1,
        .connect_timeout_ms = LIMIT_CREDENTIALS_CONNECT_MS,
    };

    if (!buf_ok(&url) || !buf_ok(l->block)) {
        return err_set(e, ERR_LIMIT, 0, "a head that is too large");
    }
    return fetch_stream_start(fetch_loop_get(), &request, &call_stream_events, c, &c->stream, e);
}

void call_send(struct call *c)
{
    struct err e = {0};

    BUF_AUTO(block, 3 * LIMIT_HEAD_BYTES);
    struct lines lines = {.block = &block};

    lines_of_client(c, &lines);
    lines_of_provider(c, &lines);

    int result = send_lines(c, &lines, &e);

    mem_wipe(block.ptr, block.len);
    if (result != 0) {
        log_error("a request to a provider cannot be made", "provider", c->provider->name, "why",
                  e.msg);
        call_fail(c, 502, "upstream_error", "the request cannot be sent to the provider");
        return;
    }
    call_idle_wait(c);
}

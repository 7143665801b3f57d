/*
 * llhttp in strict mode, plus the refusals that a relay needs.
 *
 * Must never let a message pass whose length two parsers could see differently: any transfer coding
 * but a single "chunked", one in HTTP/1.0, a length beside it, two lengths, a version other
 * than 1.0 and 1.1. Main thread.
 */
#include "proxy/http_parse.h"

#include "lib/mem.h"

static int span_add(struct http_parser *p, uint32_t *at, uint32_t *len, struct str bytes)
{
    if (*len == 0) {
        *at = (uint32_t)p->head->text.len;
    }
    if (p->head->text.cap == 0) {
        (void)buf_reserve(&p->head->text, LIMIT_HEAD_USUAL_BYTES);
    }
    buf_add_str(&p->head->text, bytes);
    *len += (uint32_t)bytes.len;
    if (!buf_ok(&p->head->text)) {
        p->problem = HTTP_TOO_LARGE;
        return HPE_USER;
    }
    return 0;
}

static int on_method(llhttp_t *ll, const char *at, size_t len)
{
    struct http_parser *p = ll->data;

    return span_add(p, &p->head->method_at, &p->head->method_len, str_n(at, len));
}

static int on_target(llhttp_t *ll, const char *at, size_t len)
{
    struct http_parser *p = ll->data;

    return span_add(p, &p->head->target_at, &p->head->target_len, str_n(at, len));
}

/* A field begins with the first byte of its name; the one before it has had its value by then. */
static int on_field(llhttp_t *ll, const char *at, size_t len)
{
    struct http_parser *p = ll->data;
    struct head *h = p->head;

    if (h->count >= LIMIT_HEAD_FIELDS) {
        p->problem = HTTP_TOO_LARGE;
        return HPE_USER;
    }
    return span_add(p, &h->fields[h->count].name_at, &h->fields[h->count].name_len, str_n(at, len));
}

static int on_value(llhttp_t *ll, const char *at, size_t len)
{
    struct http_parser *p = ll->data;
    struct head *h = p->head;

    return span_add(p, &h->fields[h->count].value_at, &h->fields[h->count].value_len,
                    str_n(at, len));
}

static int on_value_complete(llhttp_t *ll)
{
    struct http_parser *p = ll->data;
    struct head *h = p->head;

    struct head_field *f = &h->fields[h->count];

    /* Blanks behind a value are not part of it; llhttp takes off only those in front. */
    f->value_len = (uint32_t)str_trim(str_n(h->text.ptr + f->value_at, f->value_len)).len;
    if (++h->count < LIMIT_HEAD_FIELDS) {
        h->fields[h->count] = (struct head_field){0};
    }
    return 0;
}

static int refuse(struct http_parser *p, enum http_problem problem)
{
    p->problem = problem;
    return HPE_USER;
}

static bool has_no_body_by_status(const struct http_parser *p)
{
    unsigned status = p->head->status;

    return p->ll.type == HTTP_RESPONSE && (status < 200 || status == 204 || status == 304);
}

/* The body's framing by RFC 9112 section 6.3; -1 with the problem set. */
static int framing_decide(struct http_parser *p)
{
    const struct head *h = p->head;
    struct str length = head_get(h, "content-length");
    unsigned codings = head_count(h, "transfer-encoding");

    if (codings > 0) {
        if (length.ptr || h->minor == 0 || codings > 1) {
            return refuse(p, HTTP_BAD);
        }
        if (!str_eq_nocase(head_get(h, "transfer-encoding"), STR("chunked"))) {
            return refuse(p, HTTP_BAD_CODING);
        }
        p->framing = HTTP_CHUNKED;
    } else if (length.ptr) {
        if (head_count(h, "content-length") > 1 || !str_to_u64(length, INT64_MAX, &p->length)) {
            return refuse(p, HTTP_BAD);
        }
        p->framing = HTTP_LENGTH;
    } else {
        p->framing = p->ll.type == HTTP_REQUEST ? HTTP_NO_BODY : HTTP_UNTIL_CLOSE;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *ll)
{
    struct http_parser *p = ll->data;
    struct head *h = p->head;

    h->major = ll->http_major;
    h->minor = ll->http_minor;
    h->status = ll->status_code;
    h->trailers_from = h->count;
    if (h->major != 1 || h->minor > 1) {
        return refuse(p, HTTP_BAD_VERSION);
    }
    if (framing_decide(p) != 0) {
        return HPE_USER;
    }
    p->in_head = false;
    p->head_whole = true;
    p->is_upgrade = ll->upgrade != 0;
    /* A request that asks for another protocol is an ordinary one until the app agrees. */
    if (ll->type == HTTP_REQUEST) {
        ll->upgrade = 0;
    }
    p->has_no_body = has_no_body_by_status(p);
    if (p->events->head(p->ctx)) {
        p->has_no_body = true;
    }
    return p->has_no_body ? 1 : 0;
}

static int on_body(llhttp_t *ll, const char *at, size_t len)
{
    struct http_parser *p = ll->data;

    if (!p->stopped) {
        p->events->body(p->ctx, str_n(at, len));
    }
    return p->stopped ? HPE_USER : 0;
}

static int on_message_complete(llhttp_t *ll)
{
    struct http_parser *p = ll->data;

    if (p->stopped) {
        return HPE_USER;
    }
    p->message_whole = true;
    p->events->end(p->ctx);
    return HPE_PAUSED;
}

static const llhttp_settings_t *settings(void)
{
    static llhttp_settings_t s;

    if (!s.on_method) {
        llhttp_settings_init(&s);
        s.on_url = on_target;
        s.on_status = on_target;
        s.on_header_field = on_field;
        s.on_header_value = on_value;
        s.on_header_value_complete = on_value_complete;
        s.on_headers_complete = on_headers_complete;
        s.on_body = on_body;
        s.on_message_complete = on_message_complete;
        s.on_method = on_method;
    }
    return &s;
}

void http_parser_init(struct http_parser *p, bool is_request, const struct http_events *events,
                      void *ctx)
{
    *p = (struct http_parser){.events = events, .ctx = ctx};
    llhttp_init(&p->ll, is_request ? HTTP_REQUEST : HTTP_RESPONSE, settings());
    p->ll.data = p;
}

void http_parser_next(struct http_parser *p, struct head *head)
{
    if (p->message_whole) {
        if (p->ll.error == HPE_PAUSED_UPGRADE) {
            llhttp_resume_after_upgrade(&p->ll);
        } else {
            llhttp_resume(&p->ll);
        }
    }
    p->head = head;
    p->head_bytes = 0;
    p->framing = HTTP_NO_BODY;
    p->length = 0;
    p->in_head = true;
    p->head_whole = p->message_whole = p->is_upgrade = p->has_no_body = false;
    head->fields[0] = (struct head_field){0};
}

size_t http_parser_feed(struct http_parser *p, struct str bytes)
{
    llhttp_errno_t result;
    bool was_in_head = p->in_head;

    if (p->problem != HTTP_FINE || p->message_whole || p->stopped) {
        return 0;
    }
    result = llhttp_execute(&p->ll, bytes.ptr, bytes.len);
    if (result == HPE_OK) {
        /* Blanks and line ends that make no span count too. */
        p->head_bytes += p->in_head && was_in_head ? bytes.len : 0;
        if (p->head_bytes > LIMIT_HEAD_BYTES) {
            p->problem = HTTP_TOO_LARGE;
        }
        return bytes.len;
    }
    if (!p->message_whole && p->problem == HTTP_FINE && !p->stopped) {
        p->problem = result == HPE_INVALID_VERSION ? HTTP_BAD_VERSION : HTTP_BAD;
    }
    return (size_t)(llhttp_get_error_pos(&p->ll) - bytes.ptr);
}

bool http_parser_finish(struct http_parser *p)
{
    if (p->problem != HTTP_FINE || p->message_whole || !p->head_whole ||
        p->framing != HTTP_UNTIL_CLOSE) {
        return false;
    }
    /* It reports the pause that the end of a message asks for. */
    (void)llhttp_finish(&p->ll);
    return p->message_whole;
}

void http_parser_stop(struct http_parser *p)
{
    p->stopped = true;
}

bool http_parser_keeps_alive(const struct http_parser *p)
{
    const struct head *h = p->head;

    if ((p->framing == HTTP_UNTIL_CLOSE && !p->has_no_body) ||
        head_has_token(h, "connection", "close")) {
        return false;
    }
    return h->minor == 1 || head_has_token(h, "connection", "keep-alive");
}

const char *http_problem_text(const struct http_parser *p)
{
    switch (p->problem) {
    case HTTP_TOO_LARGE: return "the head is larger than 64 KiB or has more than 100 fields";
    case HTTP_BAD_VERSION: return "only HTTP/1.1 and HTTP/1.0 are spoken here";
    case HTTP_BAD_CODING: return "the only transfer coding taken is chunked";
    case HTTP_BAD:
    case HTTP_FINE: break;
    }
    const char *reason = llhttp_get_error_reason(&p->ll);

    return reason && *reason ? reason : "not a well-formed message";
}

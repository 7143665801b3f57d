/*
 * Responses as bytes: one head, one body, one write. Any thread.
 */
#include <assert.h>

#include "control/http/http.h"

#define HTTP_HEADERS_BYTES_MAX 8192

static const struct {
    int status;
    const char *reason;
} http_reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

static const char *http_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(http_reasons); i++) {
        if (http_reasons[i].status == status) {
            return http_reasons[i].reason;
        }
    }
    return "Unknown";
}

void http_response_init(struct http_response *p)
{
    *p = (struct http_response){.status = 200};
    buf_init(&p->headers, HTTP_HEADERS_BYTES_MAX);
    buf_init(&p->body, HTTP_ANSWER_BYTES_MAX);
}

void http_response_done(struct http_response *p)
{
    buf_done(&p->headers);
    buf_done(&p->body);
}

void http_add_header(struct http_response *p, const char *name, const char *value)
{
    assert(str_find(str_of(value), '\n') < 0 && str_find(str_of(value), '\r') < 0);
    buf_printf(&p->headers, "%s: %s\r\n", name, value);
}

void http_render(const struct http_response *p, const char *request_id, struct buf *out)
{
    bool bodyless = p->status == 204 || p->status == 304;
    buf_printf(out, "HTTP/1.1 %d %s\r\n", p->status, http_reason(p->status));
    if (p->content_type && !bodyless) {
        buf_printf(out, "Content-Type: %s\r\n", p->content_type);
    }
    if (!bodyless) {
        buf_printf(out, "Content-Length: %zu\r\n", p->body.len);
    }
    if (!str_contains(buf_str(&p->headers), STR("Cache-Control:"))) {
        buf_puts(out, "Cache-Control: no-store\r\n");
    }
    buf_printf(out, "X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\nConnection: close\r\n",
               request_id);
    buf_add_str(out, buf_str(&p->headers));
    buf_puts(out, "\r\n");
    if (!bodyless) {
        buf_add_str(out, buf_str(&p->body));
    }
}

void http_render_sse_head(const char *request_id, struct buf *out)
{
    buf_printf(out,
               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
               "X-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\nX-Request-Id: %s\r\n"
               "Connection: close\r\n\r\n",
               request_id);
}

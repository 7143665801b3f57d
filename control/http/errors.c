/*
 * The one table from error code to status, and the one error shape. Any thread.
 */
#include <stdarg.h>
#include <stdio.h>

#include "control/http/http.h"
#include "lib/json_write.h"

static const struct {
    const char *code;
    int status;
    bool retryable;
} http_codes[] = {
    {"invalid_request", 400, false},
    {"unknown_field", 400, false},
    {"unauthorized", 401, false},
    {"forbidden", 403, false},
    {"not_found", 404, false},
    {"method_not_allowed", 405, false},
    {"timeout_request", 408, true},
    {"conflict", 409, false},
    {"task_in_progress", 409, true},
    {"sandbox_exists", 409, false},
    {"too_large", 413, false},
    {"unsupported_media_type", 415, false},
    {"agent_not_connected", 422, false},
    {"key_refused", 422, false},
    {"too_many_requests", 429, true},
    {"headers_too_large", 431, false},
    {"internal", 500, false},
    {"engine_unavailable", 503, true},
    {"image_building", 503, true},
    {"no_memory", 503, true},
    {"walls_down", 503, true},
    {"disk_full", 503, true},
    {"workspace_missing", 503, true},
    {"unavailable", 503, true},
    {"start_failed", 503, true},
    {"timeout", 504, true},
};

static size_t http_code_index(const char *code)
{
    size_t i = 0;
    while (i < ARRAY_LEN(http_codes) && strcmp(http_codes[i].code, code) != 0) {
        i++;
    }
    return i;
}

int http_status_of(const char *code)
{
    size_t i = http_code_index(code);
    return i < ARRAY_LEN(http_codes) ? http_codes[i].status : 500;
}

void http_error(struct http_response *p, const char *code, const char *fmt, ...)
{
    char message[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    size_t i = http_code_index(code);
    struct json_writer w;
    buf_reset(&p->body);
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_object(&w, "error");
    json_text(&w, "code", code);
    json_text(&w, "message", message);
    json_bool(&w, "retryable", i < ARRAY_LEN(http_codes) && http_codes[i].retryable);
    json_object_end(&w);
    json_object_end(&w);
    p->status = http_status_of(code);
    p->content_type = "application/json";
}

static const char *http_code_of(const struct err *e)
{
    switch (e->code) {
    case ERR_INVALID: return "invalid_request";
    case ERR_UNAUTHORIZED: return "unauthorized";
    case ERR_FORBIDDEN: return "forbidden";
    case ERR_NOT_FOUND: return "not_found";
    case ERR_CONFLICT: return "conflict";
    case ERR_LIMIT: return "too_large";
    case ERR_BUSY: return "too_many_requests";
    case ERR_TIMEOUT: return "timeout";
    case ERR_CANCELLED:
    case ERR_UNAVAILABLE: return "unavailable";
    case ERR_NONE:
    case ERR_PROTOCOL:
    case ERR_IO:
    case ERR_INTERNAL: break;
    }
    return "internal";
}

void http_error_from(struct http_response *p, const struct err *e)
{
    /* A machine word that is no code of the API (why a container ended) decides no status. */
    bool is_code = http_code_index(e->tag) < ARRAY_LEN(http_codes);
    http_error(p, is_code ? e->tag : http_code_of(e), "%s", e->msg);
    if (p->status == 503) {
        http_retry_after(p, 5);
    }
}

void http_retry_after(struct http_response *p, int seconds)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", seconds);
    http_add_header(p, "Retry-After", text);
}

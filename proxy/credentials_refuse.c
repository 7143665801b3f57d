/*
 * Refusals.
 *
 * Must never let an agent ask again what cannot work. Main thread.
 */
#include "proxy/credentials_refuse.h"

#include "lib/json_write.h"
#include "proxy/credentials_error.h"
#include "proxy/credentials_head.h"
#include "proxy/limits.h"

#define MESSAGE_BYTES_MAX 1024

static bool is_permanent(unsigned status)
{
    return status >= 400 && status < 500 && status != 408 && status != 429;
}

void credentials_refuse(struct exchange *x, enum model_format format, const struct refusal *r)
{
    bool is_last = is_permanent(r->status);
    unsigned status = is_last ? permanent_status(format, r->status) : r->status;

    BUF_AUTO(body, 8192);
    BUF_AUTO(fields, 512);

    buf_puts(&fields, "Content-Type: application/json\r\nCache-Control: no-store\r\n");
    if (is_last) {
        credentials_answer_last_word(&fields);
    }
    if (r->retry_after_s > 0) {
        buf_printf(&fields, "Retry-After: %llu\r\n",
                   (unsigned long long)(r->retry_after_s < LIMIT_RETRY_AFTER_S
                                            ? r->retry_after_s
                                            : LIMIT_RETRY_AFTER_S));
    }
    /* The outer "type" is Anthropic's; everybody else passes over it. */
    buf_puts(&body, "{\"type\":\"error\",\"error\":{\"type\":");
    json_escape(&body, str_of(r->type));
    buf_puts(&body, ",\"code\":");
    json_escape(&body, str_of(r->type));
    buf_puts(&body, ",\"message\":");
    json_escape(&body, str_cut(r->message, 0, MESSAGE_BYTES_MAX));
    buf_puts(&body, "}}\n");
    front_answer(x, status, buf_str(&fields), buf_str(&body));
}

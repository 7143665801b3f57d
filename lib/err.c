/*
 * Errors on the caller's stack. Pure but for errno texts; any thread.
 */
#include "lib/err.h"

#include <stdio.h>
#include <string.h>

static const char *const err_names[] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid",
    [ERR_UNAUTHORIZED] = "unauthorized",
    [ERR_FORBIDDEN] = "refused",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_CONFLICT] = "conflict",
    [ERR_LIMIT] = "limit",
    [ERR_BUSY] = "busy",
    [ERR_TIMEOUT] = "timeout",
    [ERR_CANCELLED] = "cancelled",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_PROTOCOL] = "protocol",
    [ERR_IO] = "engine",
    [ERR_INTERNAL] = "internal",
};

int err_set(struct err *e, enum err_code code, int errno_value, const char *fmt, ...)
{
    if (!e) {
        return -1;
    }
    e->code = code;
    e->cause = errno_value;
    e->tag[0] = '\0';
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(e->msg, sizeof(e->msg), fmt, args);
    va_end(args);
    size_t used = len < 0 ? 0 : (size_t)len;
    if (errno_value != 0 && used + 3 < sizeof(e->msg)) {
        char text[128] = "";
        /* GNU's strerror_r: thread-safe, may return a static text. */
        const char *why = strerror_r(errno_value, text, sizeof(text));
        (void)snprintf(e->msg + used, sizeof(e->msg) - used, ": %s", why);
    }
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e) {
        return -1;
    }
    char context[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(context, sizeof(context), fmt, args);
    va_end(args);
    char inner[sizeof(e->msg)];
    memcpy(inner, e->msg, sizeof(inner));
    (void)snprintf(e->msg, sizeof(e->msg), "%s: %.*s", context,
                   (int)(sizeof(e->msg) - strlen(context) - sizeof(": ")), inner);
    return -1;
}

int err_tag(struct err *e, const char *tag)
{
    if (e) {
        (void)snprintf(e->tag, sizeof(e->tag), "%s", tag);
    }
    return -1;
}

const char *err_code_name(enum err_code code)
{
    return err_names[code];
}

enum err_code err_code_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof(err_names) / sizeof(err_names[0]); i++) {
        if (strcmp(err_names[i], name) == 0) {
            return (enum err_code)i;
        }
    }
    return ERR_INTERNAL;
}

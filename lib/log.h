/*
 * Structured log: one JSON object a line on stderr: time, level, program, msg, then key/value
 * pairs.
 *
 * Never put a secret into it. One write(2) per line, so that lines of threads do not mix. Any
 * thread.
 */
#pragma once

#include <stdbool.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR
};

/* Once, before any thread. program is kept, not copied. */
void log_init(const char *program, enum log_level level);
/* "debug", "info", "warn", "error"; false for anything else. */
bool log_level_parse(const char *text, enum log_level *ret_level);

/* Pairs of const char *key, const char *value, ended by a NULL key; a NULL value leaves its pair
 * out. */
void log_write(enum log_level level, const char *msg, ...) __attribute__((sentinel));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__, (char *)0)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__, (char *)0)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__, (char *)0)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__, (char *)0)

/* One plain line "program: message" on stderr, for a start that fails, then _exit(1). */
_Noreturn void log_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

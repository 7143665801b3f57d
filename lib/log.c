/*
 * Structured log on stderr. Any thread; one write per line.
 */
#include "lib/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/clock.h"
#include "lib/json_write.h"

#define LOG_LINE_BYTES_MAX 16384
#define LOG_CUT_BYTES      1024

static const char *log_program = "sandboxd";
static enum log_level log_threshold = LOG_INFO;
static const char *const log_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level level)
{
    log_program = program;
    log_threshold = level;
}

bool log_level_parse(const char *text, enum log_level *ret_level)
{
    for (int i = 0; i < 4; i++) {
        if (str_is(str_of(text), log_names[i])) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void log_head(struct json_writer *w, struct buf *line, enum log_level level, struct str msg)
{
    buf_reset(line);
    json_begin(w, line);
    json_object(w, NULL);
    json_time(w, "time", clock_unix_ms());
    json_text(w, "level", log_names[level]);
    json_text(w, "program", log_program);
    json_str(w, "msg", msg);
}

static void log_line(enum log_level level, const char *msg, va_list args)
{
    BUF_AUTO(line, LOG_LINE_BYTES_MAX);
    struct json_writer w;
    log_head(&w, &line, level, str_of(msg));
    const char *key = NULL;
    while ((key = va_arg(args, const char *)) != NULL) {
        const char *value = va_arg(args, const char *);
        if (value) {
            json_text(&w, key, value);
        }
    }
    json_object_end(&w);
    buf_putc(&line, '\n');
    if (!buf_ok(&line)) {
        /* Too long whole: that it happened must not be lost. */
        log_head(&w, &line, level, str_cut(str_of(msg), 0, LOG_CUT_BYTES));
        json_text(&w, "cut", "the rest of this line was too long");
        json_object_end(&w);
        buf_putc(&line, '\n');
    }
    /* A log that cannot be written has nowhere to complain. */
    ssize_t ignored = write(STDERR_FILENO, line.ptr, line.len);
    (void)ignored;
}

void log_write(enum log_level level, const char *msg, ...)
{
    if (level < log_threshold) {
        return;
    }
    va_list args;
    va_start(args, msg);
    log_line(level, msg, args);
    va_end(args);
}

_Noreturn void log_die(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)fprintf(stderr, "%s: %s\n", log_program, text);
    _exit(1); /* other threads may run: no handlers of atexit */
}

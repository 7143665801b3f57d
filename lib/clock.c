/*
 * Time. Any thread.
 */
#include "lib/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

static int64_t clock_read_us(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

int64_t clock_unix_ms(void)
{
    return clock_read_us(CLOCK_REALTIME) / 1000;
}

char *clock_format(int64_t unix_ms, char text[CLOCK_TEXT_BYTES])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm t;
    if (unix_ms < 0 || !gmtime_r(&seconds, &t) || t.tm_year > 8099) {
        text[0] = '\0';
        return text;
    }
    (void)snprintf(text, CLOCK_TEXT_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                   (unsigned)(t.tm_year + 1900) % 10000U, (unsigned)(t.tm_mon + 1) % 100U,
                   (unsigned)t.tm_mday % 100U, (unsigned)t.tm_hour % 100U,
                   (unsigned)t.tm_min % 100U, (unsigned)t.tm_sec % 100U,
                   (unsigned)(unix_ms % 1000));
    return text;
}

int clock_until(int64_t deadline_mono_ms)
{
    int64_t left = deadline_mono_ms - clock_mono_ms();
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void clock_sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000L};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/*
 * Time. Any thread.
 */
#include "lib/clock.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

/* 9999-12-31T23:59:59.999Z */
#define CLOCK_FORMAT_MAX_MS 253402300799999

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

/* Year, month and day of a day number since 1970-01-01. Years begin in March here, so that the leap
 * day is the last one; 400 of them are always 146,097 days. */
static void clock_civil(int64_t days, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
    uint64_t from_march_0 = (uint64_t)days + 719468; /* 0000-03-01 */
    uint64_t era = from_march_0 / 146097;
    unsigned in_era = (unsigned)(from_march_0 % 146097);
    unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned in_year = in_era - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * in_year + 2) / 153; /* 0 is March */
    *ret_day = in_year - (153 * month + 2) / 5 + 1;
    *ret_month = month < 10 ? month + 3 : month - 9;
    *ret_year = (unsigned)(era * 400) + year + (*ret_month <= 2 ? 1 : 0);
}

static char *clock_digits(char *at, unsigned value, int count, char after)
{
    for (int i = count - 1; i >= 0; i--) {
        at[i] = (char)('0' + value % 10);
        value /= 10;
    }
    at[count] = after;
    return at + count + 1;
}

/* By hand: a list shows hundreds of times, and the C library's way takes a lock and a hundred times
 * longer. */
char *clock_format(int64_t unix_ms, char text[CLOCK_TEXT_BYTES])
{
    char *at = text;
    unsigned year = 0;
    unsigned month = 0;
    unsigned day = 0;
    if (unix_ms < 0 || unix_ms > CLOCK_FORMAT_MAX_MS) {
        text[0] = '\0';
        return text;
    }
    unsigned second = (unsigned)(unix_ms / 1000 % 86400);
    clock_civil(unix_ms / 86400000, &year, &month, &day);
    at = clock_digits(at, year, 4, '-');
    at = clock_digits(at, month, 2, '-');
    at = clock_digits(at, day, 2, 'T');
    at = clock_digits(at, second / 3600, 2, ':');
    at = clock_digits(at, second / 60 % 60, 2, ':');
    at = clock_digits(at, second % 60, 2, '.');
    at = clock_digits(at, (unsigned)(unix_ms % 1000), 3, 'Z');
    *at = '\0';
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

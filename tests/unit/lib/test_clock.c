/*
 * Tests of time: formats, deadlines. One thread.
 */
#include <limits.h>
#include <time.h>

#include "lib/clock.h"
#include "tests/unit/lib/test.h"

static void test_format(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_BYTES];
    assert_string_equal(clock_format(0, text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(clock_format(1767323045678, text), "2026-01-02T03:04:05.678Z");
    assert_string_equal(clock_format(951782400000, text), "2000-02-29T00:00:00.000Z");
    assert_string_equal(clock_format(253402300799999, text), "9999-12-31T23:59:59.999Z");
    assert_string_equal(clock_format(253402300800000, text), "");
    assert_string_equal(clock_format(-1, text), "");
    assert_string_equal(clock_format(INT64_MAX, text), "");
}

/* Every day until 2400, and both ends of each, against the C library. */
static void test_format_agrees(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_BYTES];
    char want[32];
    for (int64_t s = 0; s < 430LL * 366 * 86400; s += 43199) {
        struct tm t;
        time_t at = (time_t)s;
        assert_non_null(gmtime_r(&at, &t));
        assert_true(strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S.007Z", &t) > 0);
        assert_string_equal(clock_format(s * 1000 + 7, text), want);
    }
}

static void test_deadlines(void **state)
{
    (void)state;
    int64_t now = clock_mono_ms();
    assert_int_equal(clock_until(now - 5), 0);
    assert_int_equal(clock_until(INT64_MIN / 2), 0);
    assert_in_range(clock_until(now + 1000), 1, 1000);
    assert_int_equal(clock_until(INT64_MAX / 2), INT_MAX);
}

static void test_sleep(void **state)
{
    (void)state;
    int64_t us = clock_mono_us();
    int64_t wall = clock_unix_ms();
    clock_sleep_ms(20);
    assert_true(clock_mono_us() - us >= 20000);
    assert_true(wall > 1700000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_format_agrees),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

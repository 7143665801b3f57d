/*
 * Tests of ids: the strict parser, order, uniqueness across threads.
 */
#include "lib/clock.h"
#include "lib/thread.h"
#include "lib/ulid.h"
#include "tests/unit/lib/test.h"

#define THREADS    4
#define PER_THREAD 5000

static void test_parse(void **state)
{
    (void)state;
    struct ulid id;
    assert_true(ulid_parse(STR("01arz3ndektsv4rrffq69g5fav"), &id));
    assert_string_equal(id.text, "01arz3ndektsv4rrffq69g5fav");
    assert_true(ulid_parse(STR("7zzzzzzzzzzzzzzzzzzzzzzzzz"), &id));
    static const char *const bad[] = {
        "",
        "01arz3ndektsv4rrffq69g5fa",
        "01arz3ndektsv4rrffq69g5fav0",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "81arz3ndektsv4rrffq69g5fav",
        "a1arz3ndektsv4rrffq69g5fav",
        "01arz3ndektsv4rrffq69g5fai",
        "01arz3ndektsv4rrffq69g5fal",
        "01arz3ndektsv4rrffq69g5fao",
        "01arz3ndektsv4rrffq69g5fau",
        "../../../../../../etc/pass",
        "01arz3ndektsv4rrffq69g5fa/",
        "01arz3ndektsv4rrffq69g5fa.",
        " 1arz3ndektsv4rrffq69g5fav",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(ulid_parse(str_of(bad[i]), &id));
    }
    assert_false(ulid_parse(STR("01arz3ndektsv4rrffq69g5fa\0"), &id));
    assert_false(ulid_parse((struct str){NULL, 0}, &id));
}

static void test_every_character(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[] = "01arz3ndektsv4rrffq69g5fav";
        struct ulid id;
        text[12] = (char)c;
        bool digit = c != 0 && strchr("0123456789abcdefghjkmnpqrstvwxyz", c) != NULL;
        assert_int_equal(ulid_parse(str_n(text, ULID_LEN), &id), digit);
    }
}

static void test_new_ones_rise(void **state)
{
    (void)state;
    struct ulid last = ulid_new();
    for (int i = 0; i < 10000; i++) {
        struct ulid next = ulid_new();
        struct ulid parsed;
        assert_true(ulid_parse(str_of(next.text), &parsed));
        assert_true(ulid_eq(&next, &parsed));
        assert_true(strcmp(last.text, next.text) < 0);
        last = next;
    }
}

static void test_time_stands_in_front(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    int64_t before = clock_unix_ms();
    struct ulid id = ulid_new();
    int64_t after = clock_unix_ms();
    int64_t ms = 0;
    for (int i = 0; i < 10; i++) {
        ms = ms * 32 + (strchr(digits, id.text[i]) - digits);
    }
    assert_in_range(ms, before, after);
}

static void *make_ids(void *ctx)
{
    struct ulid *ids = ctx;
    for (int i = 0; i < PER_THREAD; i++) {
        ids[i] = ulid_new();
    }
    return NULL;
}

static int by_text(const void *a, const void *b)
{
    return memcmp(a, b, ULID_LEN);
}

static void test_threads_share_none(void **state)
{
    (void)state;
    static struct ulid ids[THREADS * PER_THREAD];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_start("ids", make_ids, ids + (ptrdiff_t)i * PER_THREAD);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    qsort(ids, THREADS * PER_THREAD, sizeof(ids[0]), by_text);
    for (int i = 1; i < THREADS * PER_THREAD; i++) {
        assert_false(ulid_eq(&ids[i - 1], &ids[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_new_ones_rise),
        cmocka_unit_test(test_time_stands_in_front),
        cmocka_unit_test(test_threads_share_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

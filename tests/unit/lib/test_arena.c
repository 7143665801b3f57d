/*
 * Tests of the arena: alignment, zeroing, its maximum, reuse. One thread.
 */
#include "lib/arena.h"
#include "tests/unit/lib/test.h"

static void test_alloc(void **state)
{
    (void)state;
    struct arena *a AUTO(arena) = arena_new(1 << 20);
    for (size_t size = 0; size < 3000; size += 7) {
        char *p = arena_alloc(a, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(p[i], 0);
        }
        memset(p, 0xFF, size);
    }
}

static void test_texts(void **state)
{
    (void)state;
    struct arena *a AUTO(arena) = arena_new(1 << 20);
    assert_string_equal(arena_strdup(a, "one"), "one");
    assert_string_equal(arena_strdup(a, NULL), "");
    assert_string_equal(arena_str(a, str_cut(STR("a longer one"), 2, 8)), "longer");
    assert_string_equal(arena_str(a, (struct str){NULL, 0}), "");
    assert_string_equal(arena_printf(a, "%s-%05d", "x", 42), "x-00042");
    assert_string_equal(arena_printf(a, "%s", ""), "");
    assert_int_equal(strlen(arena_printf(a, "%10000d", 1)), 10000);
}

static void test_maximum(void **state)
{
    (void)state;
    struct arena *a AUTO(arena) = arena_new(10000);
    assert_non_null(arena_try(a, 4000));
    assert_non_null(arena_try(a, 4000));
    assert_null(arena_try(a, 4000));
    /* What is left is still given. */
    assert_non_null(arena_try(a, 1000));
    assert_null(arena_try(a, SIZE_MAX));
    assert_null(arena_try(a, SIZE_MAX - 8));
    assert_null(arena_try(a, 10001));
    struct arena *small AUTO(arena) = arena_new(64);
    assert_non_null(arena_try(small, 48));
    assert_non_null(arena_try(small, 16));
    assert_null(arena_try(small, 1));
    struct arena *none AUTO(arena) = arena_new(0);
    assert_null(arena_try(none, 1));
}

static void test_reset(void **state)
{
    (void)state;
    struct arena *a AUTO(arena) = arena_new(100000);
    arena_reset(a);
    for (int round = 0; round < 100; round++) {
        char *p = arena_alloc(a, 100);
        assert_int_equal(p[50], 0);
        memset(p, 0xFF, 100);
        assert_non_null(arena_try(a, 90000));
        arena_reset(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

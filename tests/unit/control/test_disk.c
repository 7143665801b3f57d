/*
 * Tests of who is found to fill the disk. One thread.
 */
#include "control/sandbox/disk.h"
#include "tests/unit/control/test.h"

#define MIB   (1LL << 20)
#define GIB   (1LL << 30)
#define FLOOR (512 * MIB)

static void test_floor(void **state)
{
    (void)state;
    assert_int_equal(disk_floor(100 * GIB, -1), 100 * GIB / 100 * 2);
    assert_int_equal(disk_floor(10 * GIB, -1), 512 * MIB);
    assert_int_equal(disk_floor(2000 * GIB, -1), 4 * GIB);
    /* A small disk is not half floor. */
    assert_int_equal(disk_floor(GIB, -1), GIB / 100 * 10);
    assert_int_equal(disk_floor(GIB, 64), 64 * MIB);
    assert_int_equal(disk_floor(GIB, 0), 0);
}

static void test_low(void **state)
{
    (void)state;
    assert_false(disk_is_low(false, FLOOR, FLOOR));
    assert_true(disk_is_low(false, FLOOR - 1, FLOOR));
    /* It does not flutter: an eighth more is wanted before it is well again. */
    assert_true(disk_is_low(true, FLOOR + FLOOR / 8 - 1, FLOOR));
    assert_false(disk_is_low(true, FLOOR + FLOOR / 8, FLOOR));
    assert_false(disk_is_low(true, 64 * GIB + 256 * MIB, 64 * GIB));
    assert_false(disk_is_low(false, 0, 0));
}

static void test_fastest(void **state)
{
    (void)state;
    const struct disk_measure list[] = {
        /* Large, and stays what it is. */
        {.base_bytes = 9 * GIB,
         .bytes = 9 * GIB,
         .base_ms = 0,
         .at_ms = 60000,
         .is_complete = true},
        /* Grew more, over a longer time. */
        {.base_bytes = 0, .bytes = 600 * MIB, .base_ms = 0, .at_ms = 60000, .is_complete = true},
        {.base_bytes = 0,
         .bytes = 300 * MIB,
         .base_ms = 55000,
         .at_ms = 60000,
         .is_complete = true},
        /* Shrank. */
        {.base_bytes = GIB, .bytes = 0, .base_ms = 59000, .at_ms = 60000, .is_complete = true},
    };
    assert_int_equal(disk_pick(list, 4, FLOOR, false), 2);
    assert_int_equal(disk_pick(list, 2, FLOOR, false), 1);
    assert_int_equal(disk_pick(list, 1, FLOOR, true), -1);
    assert_int_equal(disk_pick(list, 0, FLOOR, true), -1);
}

/* What programs write in passing is no reason, however fast. */
static void test_small_growth(void **state)
{
    (void)state;
    struct disk_measure m = {.base_bytes = 100 * MIB,
                             .bytes = 100 * MIB + FLOOR / 64 - 1,
                             .base_ms = 59999,
                             .at_ms = 60000,
                             .is_complete = true};
    assert_int_equal(disk_pick(&m, 1, FLOOR, true), -1);
    m.bytes++;
    assert_int_equal(disk_pick(&m, 1, FLOOR, false), 0);
    assert_int_equal(disk_matters(64 * GIB), 64 * MIB);
    assert_int_equal(disk_matters(MIB), MIB);
}

/* A tree that cannot be walked in time: what it surely grew by counts; when that is not known, it
 * is suspected only while the space goes on falling and nobody else grew. */
static void test_unfinished_walks(void **state)
{
    (void)state;
    const struct disk_measure known = {
        .base_bytes = 100 * MIB, .bytes = 300 * MIB, .base_ms = 0, .at_ms = 60000};
    const struct disk_measure list[] = {
        {.base_bytes = -1, .bytes = 100 * MIB, .base_ms = 0, .at_ms = 60000},
        {.base_bytes = -1, .bytes = 200 * MIB, .base_ms = 0, .at_ms = 60000},
        {.base_bytes = 0, .bytes = 300 * MIB, .base_ms = 0, .at_ms = 60000, .is_complete = true},
    };
    assert_int_equal(disk_pick(&known, 1, FLOOR, false), 0);
    assert_int_equal(disk_pick(list, 2, FLOOR, false), -1);
    assert_int_equal(disk_pick(list, 2, FLOOR, true), 1);
    assert_int_equal(disk_pick(list, 3, FLOOR, true), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_low),
        cmocka_unit_test(test_fastest),
        cmocka_unit_test(test_small_growth),
        cmocka_unit_test(test_unfinished_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

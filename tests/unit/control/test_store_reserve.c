/*
 * Tests of the reserve file. What it is for needs a disk that is really full: tests/long. One
 * thread.
 */
#include "control/store/reserve.h"
#include "tests/unit/control/store.h"

static int64_t blocks(void)
{
    struct stat st;
    return stat(store_path("state/reserve"), &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

static void test_made_of_real_blocks(void **state)
{
    struct stat st;
    (void)state;
    assert_true(blocks() >= RESERVE_BYTES);
    OK(stat(store_path("state/reserve"), &st));
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(db_room(db) > 0);
}

static void test_given_back_and_made_again(void **state)
{
    (void)state;
    db_release_reserve(db);
    assert_int_equal(blocks(), -1);
    db_release_reserve(db);
    db_maintain(db);
    assert_true(blocks() >= RESERVE_BYTES);
}

/* A start after a crash in the middle: an empty or half file is none. */
static void test_a_hollow_one_is_filled(void **state)
{
    (void)state;
    OK(truncate(store_path("state/reserve"), 0));
    OK(truncate(store_path("state/reserve"), RESERVE_BYTES));
    assert_true(blocks() < RESERVE_BYTES);
    store_reopen();
    assert_true(blocks() >= RESERVE_BYTES);
}

static void test_no_file_of_others_is_taken(void **state)
{
    struct stat st;
    (void)state;
    db_release_reserve(db);
    OK(symlink("/dev/null", store_path("state/reserve")));
    db_maintain(db);
    OK(lstat(store_path("state/reserve"), &st));
    assert_true(S_ISLNK(st.st_mode));
    /* Without a reserve everything else works, and nothing waits for it. */
    (void)store_app("writes go on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_made_of_real_blocks),
        WITH_STORE(test_given_back_and_made_again),
        WITH_STORE(test_a_hollow_one_is_filled),
        WITH_STORE(test_no_file_of_others_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

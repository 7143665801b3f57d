/*
 * The process tree: /proc/<pid>/stat with hostile names, and who stands below whom.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/tree.h"
#include "tests/unit/supervisor/test.h"

static void stat_is_parsed_whatever_the_name(void **state)
{
    static const char *const good[] = {
        "12 (sh) S 7 12 12 0",        "12 (a) b) S 7 12", "12 () S 1 (x)) S 7 12",
        "12 (S 1 ) Z 1 1) S 7 12 12", "12 (\n) S 7 1",
    };
    static const char *const bad[] = {"",
                                      "12",
                                      "12 (sh",
                                      "12 (sh)",
                                      "12 (sh) S",
                                      "12 (sh) SS 7 1",
                                      "12 (sh) S x 1",
                                      "12 (sh) S -1 1"};
    struct tree_entry entry = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        entry = (struct tree_entry){.zombie = true, .started = 1};
        assert_true(tree_parse_stat(str_of(good[i]), &entry));
        assert_int_equal(entry.parent, 7);
        assert_false(entry.zombie);
        assert_int_equal(entry.started, 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (tree_parse_stat(str_of(bad[i]), &entry)) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    assert_true(tree_parse_stat(STR("12 (sh) Z 7 1"), &entry));
    assert_true(entry.zombie);
    assert_true(tree_parse_stat(
        STR("9 (x) R 8 9 9 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 99"), &entry));
    assert_int_equal(entry.started, 4711);
}

static struct tree *made_tree(void)
{
    static struct tree t;
    /* 1 ─ 2 ─ 4 ─ 6 (zombie) │ 1 ─ 3 ─ 5 │ 9 is nobody's; children come before parents */
    static const int links[][2] = {{6, 4}, {4, 2}, {5, 3}, {2, 1}, {3, 1}, {9, 0}, {1, 0}};

    t.count = sizeof(links) / sizeof(links[0]);
    for (size_t i = 0; i < t.count; i++) {
        t.entries[i] = (struct tree_entry){.pid = links[i][0], .parent = links[i][1]};
        t.entries[i].zombie = links[i][0] == 6;
        t.entries[i].started = (uint64_t)links[i][0] * 10;
    }
    return &t;
}

static void assert_below(const struct tree *t, const char *expected)
{
    BUF_AUTO(found, 256);

    for (size_t i = 0; i < t->count; i++) {
        if (t->entries[i].below) {
            buf_printf(&found, "%d ", (int)t->entries[i].pid);
        }
    }
    assert_string_equal(found.ptr, expected);
}

static void everything_below_is_marked_and_nothing_else(void **state)
{
    struct tree *t = made_tree();
    static const pid_t pids[] = {3};
    struct tree_keep keep = {.pids = pids, .count = 1};

    (void)state;
    assert_int_equal(tree_mark(t, 2, NULL), 1);
    assert_below(t, "6 4 ");
    assert_int_equal(tree_mark(t, 1, NULL), 4);
    assert_below(t, "6 4 5 2 3 ");
    assert_int_equal(tree_mark(t, 1, &keep), 2);
    assert_below(t, "6 4 2 ");
    keep = (struct tree_keep){.started_before = 30}; /* 2 is older, what is below it goes with it */
    assert_int_equal(tree_mark(t, 1, &keep), 2);
    assert_below(t, "5 3 ");
    assert_int_equal(tree_mark(t, 5, NULL), 0);
    assert_int_equal(tree_mark(t, 77, NULL), 0);
}

static void a_real_child_is_found_and_signalled(void **state)
{
    static struct tree t;
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(child > 0);
    assert_true(tree_read(&t));
    assert_int_equal(tree_mark(&t, getpid(), NULL), 1);
    assert_int_equal(tree_signal(&t, SIGKILL), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(tree_read(&t));
    assert_int_equal(tree_mark(&t, getpid(), NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_parsed_whatever_the_name),
        cmocka_unit_test(everything_below_is_marked_and_nothing_else),
        cmocka_unit_test(a_real_child_is_found_and_signalled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Tests of deadlines, of what is called later, and of the table of ids. One thread.
 */
#include "proxy/ids.h"
#include "proxy/loop.h"
#include "tests/unit/proxy/test.h"

struct fired {
    struct loop_deadline deadline;
    struct loop_deadline *clears; /* another one, cleared when this one fires */
    int64_t at_ms;
    unsigned count;
};

static void on_fire(void *ctx)
{
    struct fired *f = ctx;

    f->count++;
    f->at_ms = loop_now_ms();
    if (f->clears) {
        loop_deadline_clear(f->clears);
    }
}

static void on_last(void *ctx)
{
    on_fire(ctx);
    loop_stop();
}

static void test_deadlines(void **state)
{
    struct fired early = {0};
    struct fired late = {0};
    struct fired never = {0};
    struct fired cleared = {0};
    int64_t began_ms = loop_now_ms();

    (void)state;
    early.clears = &cleared.deadline;
    loop_deadline_set(&early.deadline, 60, on_fire, &early);
    loop_deadline_set(&cleared.deadline, 60, on_fire, &cleared);
    loop_deadline_set(&never.deadline, 100000, on_fire, &never);
    loop_deadline_set(&late.deadline, 100, on_last, &late);
    loop_deadline_set(&late.deadline, 300, on_last, &late);
    loop_run();
    assert_int_equal(early.count, 1);
    assert_int_equal(late.count, 1);
    assert_int_equal(never.count + cleared.count, 0);
    assert_in_range(early.at_ms - began_ms, 60, 200);
    assert_in_range(late.at_ms - began_ms, 300, 450);
    assert_true(loop_deadline_is_set(&never.deadline));
    loop_deadline_clear(&never.deadline);
    loop_deadline_clear(&never.deadline);
    assert_false(loop_deadline_is_set(&never.deadline));
}

static char order[8];

static void on_later(void *p)
{
    order[strlen(order)] = *(const char *)p;
    if (order[2] != '\0') {
        loop_stop();
    }
}

static void test_later_keeps_its_order(void **state)
{
    static char names[] = "abc";
    struct loop_later slots[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        loop_later(&slots[i], on_later, &names[i]);
    }
    assert_string_equal(order, "");
    loop_run();
    assert_string_equal(order, "abc");
}

static void count_entry(struct ids_entry *entry, void *ctx)
{
    (void)entry;
    ++*(unsigned *)ctx;
}

static void test_ids(void **state)
{
    enum {
        COUNT = 5000
    };
    struct ids table;
    struct ids_entry *entries = mem_calloc(COUNT, sizeof(*entries));
    unsigned count = 0;

    (void)state;
    ids_init(&table);
    for (unsigned i = 0; i < COUNT; i++) {
        entries[i].id = ulid_new();
        assert_null(ids_find(&table, &entries[i].id));
        ids_add(&table, &entries[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_ptr_equal(ids_find(&table, &entries[i].id), &entries[i]);
    }
    for (unsigned i = 0; i < COUNT; i += 2) {
        ids_remove(&table, &entries[i]);
        ids_remove(&table, &entries[i]);
        assert_null(ids_find(&table, &entries[i].id));
    }
    ids_each(&table, count_entry, &count);
    assert_int_equal(count, COUNT / 2);
    assert_int_equal(table.count, COUNT / 2);
    free(table.buckets);
    free(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_later_keeps_its_order),
        cmocka_unit_test(test_ids),
    };

    loop_init();
    return RUN_TESTS(tests);
}

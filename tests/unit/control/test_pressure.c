/*
 * Tests of who has to go when memory runs short, and of what a start is promised. One thread; the
 * figures are made up, the table is the real one.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/sandbox/pressure.h"
#include "lib/clock.h"
#include "tests/unit/control/test.h"

#define MIB   (INT64_C(1) << 20)
#define TOTAL (1000 * MIB)

static struct memory_figures free_of(int64_t mib, bool stalled)
{
    return (struct memory_figures){.total_bytes = TOTAL,
                                   .available_bytes = mib * MIB,
                                   .low_bytes = 100 * MIB,
                                   .critical_bytes = 40 * MIB,
                                   .stalled = stalled};
}

/* ---- how bad it is ---- */

static void levels_follow_the_marks(void **state)
{
    (void)state;
    struct memory_figures f = free_of(150, false);
    assert_int_equal(pressure_level_of(&f), PRESSURE_NONE);
    f = free_of(150, true);
    assert_int_equal(pressure_level_of(&f), PRESSURE_STALLED);
    /* Programs that wait for memory while there is plenty wait at a limit of their own. */
    f = free_of(201, true);
    assert_int_equal(pressure_level_of(&f), PRESSURE_NONE);
    f = free_of(99, false);
    assert_int_equal(pressure_level_of(&f), PRESSURE_LOW);
    f = free_of(39, false);
    assert_int_equal(pressure_level_of(&f), PRESSURE_CRITICAL);
}

static void what_is_not_known_stops_nothing(void **state)
{
    (void)state;
    struct memory_figures f = {0};
    struct pressure_watch w = {0};
    for (int64_t at = 1; at < 2000; at += 50) {
        assert_int_equal(pressure_judge(&w, &f, at), PRESSURE_NONE);
    }
    f = free_of(1, true);
    f.low_bytes = 0; /* switched off */
    f.critical_bytes = 0;
    assert_int_equal(pressure_level_of(&f), PRESSURE_NONE);
}

static void one_reading_is_not_enough(void **state)
{
    (void)state;
    struct pressure_watch w = {0};
    struct memory_figures f = free_of(90, false);
    struct memory_figures good = free_of(500, false);
    assert_int_equal(pressure_judge(&w, &f, 1000), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &f, 1050), PRESSURE_LOW);
    assert_int_equal(pressure_judge(&w, &good, 1100), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &f, 1150), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &f, 1200), PRESSURE_LOW);
}

static void the_host_is_about_to_die_after_a_tenth_of_a_second(void **state)
{
    (void)state;
    struct pressure_watch w = {0};
    struct memory_figures f = free_of(30, false);
    assert_int_equal(pressure_judge(&w, &f, 1000), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &f, 1050), PRESSURE_LOW);
    assert_int_equal(pressure_judge(&w, &f, 1100), PRESSURE_CRITICAL);
    struct memory_figures better = free_of(41, false);
    assert_int_equal(pressure_judge(&w, &better, 1150), PRESSURE_LOW);
    assert_int_equal(pressure_judge(&w, &f, 1200), PRESSURE_LOW);
    assert_int_equal(pressure_judge(&w, &f, 1300), PRESSURE_CRITICAL);
}

static void memory_that_comes_back_is_waited_for(void **state)
{
    (void)state;
    struct pressure_watch w = {0};
    struct memory_figures f = free_of(60, false);
    struct memory_figures more = free_of(85, false);
    assert_int_equal(pressure_judge(&w, &f, 1000), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &more, 1050), PRESSURE_NONE);
    assert_int_equal(pressure_judge(&w, &more, 1100), PRESSURE_LOW);
}

/* ---- who goes ---- */

static struct pressure_candidate one(enum pressure_class class, int64_t mib)
{
    return (struct pressure_candidate){.class = class, .resident_bytes = mib * MIB};
}

static void the_least_valuable_class_goes_first_and_the_largest_in_it(void **state)
{
    (void)state;
    struct memory_figures f = free_of(50, false);
    struct pressure_candidate list[] = {one(PRESSURE_ALWAYS_ON, 900), one(PRESSURE_TASK, 800),
                                        one(PRESSURE_WATCHED, 700),   one(PRESSURE_IDLE, 10),
                                        one(PRESSURE_IDLE, 20),       one(PRESSURE_EXEC, 600)};
    assert_int_equal(pressure_choose(list, 6, PRESSURE_LOW, &f), 4);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_STALLED, &f), 4);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_NONE, &f), -1);
    assert_int_equal(pressure_choose(list, 0, PRESSURE_CRITICAL, &f), -1);
    /* Without idle ones. */
    list[3] = list[4] = one(PRESSURE_TASK, 1);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_STALLED, &f), -1);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_LOW, &f), 2);
    /* Nothing above watched unless the host is about to die. */
    list[2] = one(PRESSURE_TASK, 1);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_LOW, &f), -1);
    f = free_of(20, false);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_CRITICAL, &f), 5);
    list[5] = one(PRESSURE_ALWAYS_ON, 5);
    assert_int_equal(pressure_choose(list, 6, PRESSURE_CRITICAL, &f), 1);
}

static void what_leaves_already_counts(void **state)
{
    (void)state;
    struct memory_figures f = free_of(90, false);
    struct pressure_candidate list[] = {one(PRESSURE_IDLE, 20), one(PRESSURE_IDLE, 15),
                                        one(PRESSURE_WATCHED, 50)};
    list[0].leaving = true;
    assert_int_equal(pressure_choose(list, 3, PRESSURE_LOW, &f), -1);
    f = free_of(70, false); /* it will not be enough */
    assert_int_equal(pressure_choose(list, 3, PRESSURE_LOW, &f), 1);
    /* The class is not exhausted as long as one of it is still on its way. */
    list[1].leaving = true;
    f = free_of(50, false);
    assert_int_equal(pressure_choose(list, 3, PRESSURE_LOW, &f), -1);
    f = free_of(1, false);
    assert_int_equal(pressure_choose(list, 3, PRESSURE_CRITICAL, &f), 2);
}

/* ---- what it is for ---- */

static const struct config config = {.memory_watched_s = 120, .memory_low_percent = 10};

static void classes_follow_use(void **state)
{
    (void)state;
    struct sandbox_service s = {.config = &config};
    int64_t now = clock_mono_ms();
    struct sandbox b = {.last_active_ms = now - 121000};
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_IDLE);
    b.last_active_ms = now - 100000;
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_WATCHED);
    b = (struct sandbox){.last_active_ms = now - 121000, .open_connections = 1};
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_WATCHED);
    b = (struct sandbox){.last_active_ms = now - 121000, .watched_until_ms = now + 5000};
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_WATCHED);
    b = (struct sandbox){.last_active_ms = now - 121000, .idle.keep_alive_ms = now + 5000};
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_WATCHED);
    b = (struct sandbox){.last_active_ms = now - 121000, .holds = 1};
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_EXEC);
    b.task_holds = 1;
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_TASK);
    b.idle.always_on = true;
    assert_int_equal(pressure_class_of(&s, &b), PRESSURE_ALWAYS_ON);
}

/* ---- promises ---- */

/* A table of its own for each test. No database: nothing here is told. */
static struct sandbox_service service;
static struct sandbox boxes[4];
static struct sandbox_preset preset = {.memory_bytes = 200 * MIB};

static int fresh(void **state)
{
    (void)state;
    service = (struct sandbox_service){.config = &config, .count = ARRAY_LEN(boxes)};
    (void)pthread_mutex_init(&service.lock, NULL);
    (void)pthread_cond_init(&service.work, NULL);
    service.broker_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    service.memory = free_of(500, false); /* of which 100 stay free */
    service.memory.at_ms = clock_mono_ms();
    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        boxes[i] = (struct sandbox){.id = ulid_new(),
                                    .preset = &preset,
                                    .status = SANDBOX_STOPPED,
                                    .want = WANT_RUN,
                                    .order = (int64_t)i};
        table_put(&service, &boxes[i]);
    }
    return 0;
}

static int done(void **state)
{
    (void)state;
    (void)close(service.broker_wake_fd);
    return 0;
}

static enum admit ask(size_t i, struct err *e)
{
    char detail[128] = "";
    service.memory.at_ms = clock_mono_ms();
    enum admit result = admit_start(&service, &boxes[i].id, detail, sizeof(detail), e);
    assert_true(result != ADMIT_WAIT || str_contains(str_of(detail), STR("waiting for memory")));
    if (result == ADMIT_YES) {
        boxes[i].status = SANDBOX_RUNNING;
        boxes[i].want = WANT_NOTHING;
        boxes[i].last_active_ms = clock_mono_ms();
    }
    return result;
}

static void the_same_memory_is_never_promised_twice(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(ask(0, &e), ADMIT_YES);
    assert_int_equal(ask(1, &e), ADMIT_YES);
    assert_int_equal(ask(2, &e), ADMIT_WAIT);
    /* It takes what it was promised; the host has that much less, and the promise is kept. */
    boxes[0].resident_bytes = 100 * MIB;
    service.memory.available_bytes -= 100 * MIB;
    assert_int_equal(ask(2, &e), ADMIT_WAIT);
    boxes[0].resident_bytes = 160 * MIB;
    service.memory.available_bytes = 650 * MIB;
    assert_int_equal(ask(2, &e), ADMIT_YES);
    /* A promise ends with time, too. */
    assert_int_equal(ask(3, &e), ADMIT_WAIT);
    boxes[1].reserved_ms -= 60000;
    assert_int_equal(ask(3, &e), ADMIT_YES);
}

static void who_came_first_goes_first(void **state)
{
    (void)state;
    struct err e;
    service.memory = free_of(250, false);
    boxes[1].last_peak_bytes = 10 * MIB;
    assert_int_equal(ask(0, &e), ADMIT_WAIT); /* large */
    assert_int_equal(ask(1, &e), ADMIT_WAIT); /* small, would fit, came later */
    service.memory.available_bytes = 320 * MIB;
    assert_int_equal(ask(1, &e), ADMIT_WAIT);
    assert_int_equal(ask(0, &e), ADMIT_YES);
    assert_int_equal(ask(1, &e), ADMIT_YES);
}

static void a_wait_ends_with_both_figures(void **state)
{
    (void)state;
    struct err e = {0};
    service.memory = free_of(150, false);
    assert_int_equal(ask(0, &e), ADMIT_WAIT);
    boxes[0].queued_ms -= 30000;
    assert_int_equal(ask(0, &e), ADMIT_NO);
    assert_string_equal(e.tag, "no_memory");
    assert_true(str_contains(str_of(e.msg), STR("about 200 MiB, 50 MiB are available")));
    /* What can never fit is not waited for. */
    boxes[1].last_peak_bytes = 950 * MIB;
    assert_int_equal(ask(1, &e), ADMIT_NO);
    assert_int_equal(boxes[1].queued_ms, 0);
    assert_int_equal(admit_check(&service, 950 * MIB, &e), -1);
    assert_int_equal(admit_check(&service, 900 * MIB, &e), 0);
}

static void figures_that_are_not_known_refuse_nothing(void **state)
{
    (void)state;
    struct err e;
    service.memory = (struct memory_figures){0};
    assert_int_equal(ask(0, &e), ADMIT_YES);
    assert_int_equal(admit_check(&service, INT64_MAX, &e), 0);
}

static void the_last_run_says_what_a_start_needs(void **state)
{
    (void)state;
    struct sandbox b = {.preset = &preset};
    assert_int_equal(admit_need(&b), 200 * MIB);
    b.last_peak_bytes = 50 * MIB;
    assert_int_equal(admit_need(&b), 50 * MIB);
    b = (struct sandbox){.preset = &preset, .memory_bytes = 128 * MIB};
    assert_int_equal(admit_need(&b), 128 * MIB);
    b = (struct sandbox){0};
    assert_int_equal(admit_need(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_follow_the_marks),
        cmocka_unit_test(what_is_not_known_stops_nothing),
        cmocka_unit_test(one_reading_is_not_enough),
        cmocka_unit_test(the_host_is_about_to_die_after_a_tenth_of_a_second),
        cmocka_unit_test(memory_that_comes_back_is_waited_for),
        cmocka_unit_test(the_least_valuable_class_goes_first_and_the_largest_in_it),
        cmocka_unit_test(what_leaves_already_counts),
        cmocka_unit_test(classes_follow_use),
        cmocka_unit_test_setup_teardown(the_same_memory_is_never_promised_twice, fresh, done),
        cmocka_unit_test_setup_teardown(who_came_first_goes_first, fresh, done),
        cmocka_unit_test_setup_teardown(a_wait_ends_with_both_figures, fresh, done),
        cmocka_unit_test_setup_teardown(figures_that_are_not_known_refuse_nothing, fresh, done),
        cmocka_unit_test(the_last_run_says_what_a_start_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

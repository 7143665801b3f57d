/*
 * The table of a process's life: every cell, and the back-off.
 */
#include "supervisor/machine.h"
#include "tests/unit/supervisor/test.h"

#define NOW 1000000

struct cell {
    enum machine_state next;
    enum machine_action action;
};

#define STAY(state) {state, MACHINE_DO_NOTHING}

/* In the order of enum machine_event: START STOP RESTART READY UNREADY GONE STUCK TIME NOSTART. */
static const struct cell expected[MACHINE_STATE_COUNT][MACHINE_EVENT_COUNT] = {
    [MACHINE_STOPPED] = {{MACHINE_STARTING, MACHINE_DO_SPAWN},
                         STAY(MACHINE_STOPPED),
                         {MACHINE_STARTING, MACHINE_DO_SPAWN},
                         STAY(MACHINE_STOPPED),
                         STAY(MACHINE_STOPPED),
                         STAY(MACHINE_STOPPED),
                         STAY(MACHINE_STOPPED),
                         STAY(MACHINE_STOPPED),
                         STAY(MACHINE_STOPPED)},
    [MACHINE_STARTING] = {STAY(MACHINE_STARTING),
                          {MACHINE_STOPPING, MACHINE_DO_END},
                          {MACHINE_RESTARTING, MACHINE_DO_END},
                          STAY(MACHINE_RUNNING),
                          STAY(MACHINE_STARTING),
                          STAY(MACHINE_BACKOFF),
                          STAY(MACHINE_FAILED),
                          STAY(MACHINE_STARTING),
                          STAY(MACHINE_BACKOFF)},
    [MACHINE_RUNNING] = {STAY(MACHINE_RUNNING),
                         {MACHINE_STOPPING, MACHINE_DO_END},
                         {MACHINE_RESTARTING, MACHINE_DO_END},
                         STAY(MACHINE_RUNNING),
                         STAY(MACHINE_STARTING),
                         STAY(MACHINE_BACKOFF),
                         STAY(MACHINE_FAILED),
                         STAY(MACHINE_RUNNING),
                         STAY(MACHINE_RUNNING)},
    [MACHINE_STOPPING] = {{MACHINE_RESTARTING, MACHINE_DO_END},
                          STAY(MACHINE_STOPPING),
                          {MACHINE_RESTARTING, MACHINE_DO_END},
                          STAY(MACHINE_STOPPING),
                          STAY(MACHINE_STOPPING),
                          STAY(MACHINE_STOPPED),
                          STAY(MACHINE_FAILED),
                          STAY(MACHINE_STOPPING),
                          STAY(MACHINE_STOPPING)},
    [MACHINE_RESTARTING] = {STAY(MACHINE_RESTARTING),
                            {MACHINE_STOPPING, MACHINE_DO_END},
                            STAY(MACHINE_RESTARTING),
                            STAY(MACHINE_RESTARTING),
                            STAY(MACHINE_RESTARTING),
                            {MACHINE_STARTING, MACHINE_DO_SPAWN},
                            STAY(MACHINE_FAILED),
                            STAY(MACHINE_RESTARTING),
                            STAY(MACHINE_RESTARTING)},
    [MACHINE_BACKOFF] = {STAY(MACHINE_BACKOFF),
                         STAY(MACHINE_STOPPED),
                         {MACHINE_STARTING, MACHINE_DO_SPAWN},
                         STAY(MACHINE_BACKOFF),
                         STAY(MACHINE_BACKOFF),
                         STAY(MACHINE_BACKOFF),
                         STAY(MACHINE_BACKOFF),
                         {MACHINE_STARTING, MACHINE_DO_SPAWN},
                         STAY(MACHINE_BACKOFF)},
    [MACHINE_FAILED] = {STAY(MACHINE_FAILED),
                        STAY(MACHINE_STOPPED),
                        {MACHINE_STARTING, MACHINE_DO_SPAWN},
                        STAY(MACHINE_FAILED),
                        STAY(MACHINE_FAILED),
                        STAY(MACHINE_FAILED),
                        STAY(MACHINE_FAILED),
                        STAY(MACHINE_FAILED),
                        STAY(MACHINE_FAILED)},
};

static void check_cell(enum machine_state state, enum machine_event event)
{
    struct machine m = {.state = state};
    enum machine_action action = machine_step(&m, event, NOW);

    if (m.state != expected[state][event].next || action != expected[state][event].action) {
        fail_msg("state %d event %d: state %d action %d", (int)state, (int)event, (int)m.state,
                 (int)action);
    }
}

static void every_cell_is_as_meant(void **state)
{
    (void)state;
    for (int s = 0; s < MACHINE_STATE_COUNT; s++) {
        for (int event = 0; event < MACHINE_EVENT_COUNT; event++) {
            check_cell((enum machine_state)s, (enum machine_event)event);
        }
    }
}

static void fast_failures_back_off_and_end(void **state)
{
    static const int64_t waits_ms[] = {1000, 2000, 4000, 8000};
    struct machine m = {0};
    int64_t now = NOW;

    (void)state;
    assert_int_equal(machine_step(&m, MACHINE_START, now), MACHINE_DO_SPAWN);
    for (size_t i = 0; i < 4; i++) {
        now += 100;
        (void)machine_step(&m, MACHINE_GONE, now);
        assert_int_equal(m.state, MACHINE_BACKOFF);
        assert_int_equal(m.next_start_ms - now, waits_ms[i]);
        now = m.next_start_ms;
        assert_int_equal(machine_step(&m, MACHINE_TIME, now), MACHINE_DO_SPAWN);
    }
    (void)machine_step(&m, MACHINE_GONE, now + 1);
    assert_int_equal(m.state, MACHINE_FAILED);
    assert_int_equal(m.restarts, 4);
    assert_int_equal(machine_step(&m, MACHINE_RESTART, now), MACHINE_DO_SPAWN);
    assert_int_equal(m.fast_failures, 0);
}

static void a_long_run_forgives(void **state)
{
    struct machine m = {0};

    (void)state;
    (void)machine_step(&m, MACHINE_START, NOW);
    for (int i = 0; i < 20; i++) {
        int64_t end = m.started_ms + MACHINE_FAST_MS;

        (void)machine_step(&m, MACHINE_GONE, end);
        assert_int_equal(m.state, MACHINE_BACKOFF);
        assert_int_equal(m.next_start_ms - end, MACHINE_BACKOFF_FIRST_MS);
        (void)machine_step(&m, MACHINE_TIME, m.next_start_ms);
    }
    assert_int_equal(m.state, MACHINE_STARTING);
}

static void the_wait_has_a_cap(void **state)
{
    struct machine m = {.state = MACHINE_STARTING, .fast_failures = 40};

    (void)state;
    (void)machine_step(&m, MACHINE_NOSTART, NOW);
    assert_int_equal(m.next_start_ms - NOW, MACHINE_BACKOFF_MAX_MS);
}

static void names_are_those_of_the_protocol(void **state)
{
    static const char *const names[MACHINE_STATE_COUNT] = {
        "stopped", "starting", "running", "stopped", "starting", "backoff", "failed"};

    (void)state;
    for (int s = 0; s < MACHINE_STATE_COUNT; s++) {
        assert_string_equal(machine_state_name((enum machine_state)s), names[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_as_meant),
        cmocka_unit_test(fast_failures_back_off_and_end),
        cmocka_unit_test(a_long_run_forgives),
        cmocka_unit_test(the_wait_has_a_cap),
        cmocka_unit_test(names_are_those_of_the_protocol),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

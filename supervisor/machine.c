/*
 * The life of a web process or worker. It must never ask for a spawn while something of the last
 * run may live. Pure.
 */
#include "supervisor/machine.h"

enum step {
    KEEP,    /* nothing happens */
    SPAWN,   /* → STARTING */
    READY,   /* → RUNNING */
    UNREADY, /* → STARTING, of the same run */
    END,     /* → STOPPING */
    END_NEW, /* → RESTARTING */
    STOPPED, /* → STOPPED */
    JUDGE,   /* it ended by itself: → BACKOFF or FAILED */
    LATER,   /* it could not start: → BACKOFF */
    REVIVE,  /* failures are forgotten, then SPAWN */
    GIVE_UP, /* → FAILED */
};

static const unsigned char machine_table[MACHINE_STATE_COUNT][MACHINE_EVENT_COUNT] = {
    [MACHINE_STOPPED] = {[MACHINE_START] = REVIVE, [MACHINE_RESTART] = REVIVE},
    [MACHINE_STARTING] = {[MACHINE_STOP] = END,
                          [MACHINE_RESTART] = END_NEW,
                          [MACHINE_READY] = READY,
                          [MACHINE_GONE] = JUDGE,
                          [MACHINE_STUCK] = GIVE_UP,
                          [MACHINE_NOSTART] = LATER},
    [MACHINE_RUNNING] = {[MACHINE_STOP] = END,
                         [MACHINE_RESTART] = END_NEW,
                         [MACHINE_UNREADY] = UNREADY,
                         [MACHINE_GONE] = JUDGE,
                         [MACHINE_STUCK] = GIVE_UP},
    [MACHINE_STOPPING] = {[MACHINE_START] = END_NEW,
                          [MACHINE_RESTART] = END_NEW,
                          [MACHINE_GONE] = STOPPED,
                          [MACHINE_STUCK] = GIVE_UP},
    [MACHINE_RESTARTING] =
        {[MACHINE_STOP] = END, [MACHINE_GONE] = REVIVE, [MACHINE_STUCK] = GIVE_UP},
    [MACHINE_BACKOFF] =
        {[MACHINE_STOP] = STOPPED, [MACHINE_RESTART] = REVIVE, [MACHINE_TIME] = SPAWN},
    [MACHINE_FAILED] = {[MACHINE_STOP] = STOPPED, [MACHINE_RESTART] = REVIVE},
};

static enum machine_action machine_spawn(struct machine *m, int64_t now_ms)
{
    m->restarts += m->started_ms != 0;
    m->state = MACHINE_STARTING;
    m->started_ms = now_ms;
    return MACHINE_DO_SPAWN;
}

static void machine_back_off(struct machine *m, int64_t now_ms)
{
    int64_t wait_ms = MACHINE_BACKOFF_FIRST_MS;

    for (int i = 1; i < m->fast_failures && wait_ms < MACHINE_BACKOFF_MAX_MS; i++) {
        wait_ms *= 2;
    }
    m->state = MACHINE_BACKOFF;
    m->next_start_ms =
        now_ms + (wait_ms < MACHINE_BACKOFF_MAX_MS ? wait_ms : MACHINE_BACKOFF_MAX_MS);
}

static void machine_judge(struct machine *m, int64_t now_ms)
{
    bool fast = now_ms - m->started_ms < MACHINE_FAST_MS;

    m->fast_failures = fast ? m->fast_failures + 1 : 0;
    if (m->fast_failures >= MACHINE_FAST_FAILURES_MAX) {
        m->state = MACHINE_FAILED;
        return;
    }
    machine_back_off(m, now_ms);
}

enum machine_action machine_step(struct machine *m, enum machine_event event, int64_t now_ms)
{
    switch ((enum step)machine_table[m->state][event]) {
    case KEEP: break;
    case REVIVE: m->fast_failures = 0; return machine_spawn(m, now_ms);
    case SPAWN: return machine_spawn(m, now_ms);
    case READY: m->state = MACHINE_RUNNING; break;
    case UNREADY: m->state = MACHINE_STARTING; break;
    case END: m->state = MACHINE_STOPPING; return MACHINE_DO_END;
    case END_NEW: m->state = MACHINE_RESTARTING; return MACHINE_DO_END;
    case STOPPED: m->state = MACHINE_STOPPED; break;
    case JUDGE: machine_judge(m, now_ms); break;
    case LATER: machine_back_off(m, now_ms); break;
    case GIVE_UP: m->state = MACHINE_FAILED; break;
    }
    return MACHINE_DO_NOTHING;
}

const char *machine_state_name(enum machine_state state)
{
    static const char *const names[MACHINE_STATE_COUNT] = {
        [MACHINE_STOPPED] = "stopped",     [MACHINE_STARTING] = "starting",
        [MACHINE_RUNNING] = "running",     [MACHINE_STOPPING] = "stopped",
        [MACHINE_RESTARTING] = "starting", [MACHINE_BACKOFF] = "backoff",
        [MACHINE_FAILED] = "failed",
    };

    return names[state];
}

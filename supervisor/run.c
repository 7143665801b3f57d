/*
 * Run: programs below their runners. It must never call a run over while something of its tree
 * lives, and never wait. One thread: PID 1's.
 */
#include "supervisor/run.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "supervisor/runner.h"
#include "supervisor/spawn.h"
#include "supervisor/tree.h"

#define RUN_GIVE_UP_MS   8000 /* behind the grace: longer than a runner needs to say STUCK */
#define RUN_SWEEP_MS     20
#define RUN_SWEEP_MAX_MS 5000

void runs_init(struct runs *rs, struct loop *loop)
{
    *rs = (struct runs){.loop = loop};
}

static void run_report(struct run *r, bool stuck)
{
    if (!r->reported) {
        r->reported = true;
        r->hooks.on_gone(r->hooks.ctx, stuck);
    }
}

static void run_is_loose(struct run *r)
{
    struct tree_entry runner;

    r->loose = true;
    r->started = tree_read_one(r->runner, &runner) ? runner.started : 0;
}

/* The runner's words. It is ours, but a stray message changes nothing beyond its own run. */
static void run_message(struct run *r, const struct runner_message *m)
{
    switch (m->verb) {
    case RUNNER_STARTED:
        r->pid = (pid_t)m->value;
        r->hooks.on_started(r->hooks.ctx);
        break;
    case RUNNER_EXITED:
        r->exited = true;
        r->status = (int)m->value;
        break;
    case RUNNER_STUCK: run_report(r, true); break;
    case RUNNER_GONE: r->said_gone = true; break;
    case RUNNER_LOOSE: run_is_loose(r); break;
    default: break;
    }
}

static void run_on_control(void *ctx, uint32_t events)
{
    struct run *r = ctx;
    struct runner_message m;

    (void)events;
    while (r->control.fd >= 0) {
        ssize_t len = recv(r->control.fd, &m, sizeof(m), MSG_DONTWAIT);

        if (len != (ssize_t)sizeof(m)) {
            if (len == 0) {
                loop_change(r->loop, &r->control, 0); /* SIGCHLD tells the rest */
            }
            return;
        }
        run_message(r, &m);
    }
}

static int run_spawn(struct run *r, const struct run_options *options, int control_fd,
                     struct err *e)
{
    const char *args[SPAWN_ARGS_MAX + 1] = {"runner", options->cwd};
    size_t count = 2;

    for (size_t i = 0; options->argv[i]; i++) {
        if (count == SPAWN_ARGS_MAX) {
            return err_set(e, ERR_LIMIT, 0, "more than %d arguments", SPAWN_ARGS_MAX - 2);
        }
        args[count++] = options->argv[i];
    }
    args[count] = NULL;
    struct spawn s = {.args = args, .envp = options->envp, .control_fd = control_fd};
    for (int i = 0; i < 3; i++) {
        s.fds[i] = options->fds[i];
    }
    return spawn_start(&s, &r->runner, e);
}

int run_start(struct runs *rs, struct run *r, const struct run_options *options, struct err *e)
{
    int pair[2] = {-1, -1};
    int theirs AUTOCLOSE = -1;

    *r = (struct run){.hooks = r->hooks, .loop = rs->loop, .control = WATCH_NONE};
    if (rs->count == RUNS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "%d programs run already", RUNS_MAX);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "make a socket pair");
    }
    theirs = pair[1];
    r->control.on_event = run_on_control;
    r->control.ctx = r;
    if (loop_add(rs->loop, &r->control, pair[0], EPOLLIN, e) != 0) {
        (void)close(pair[0]);
        return -1;
    }
    if (run_spawn(r, options, theirs, e) != 0) {
        r->runner = 0;
        loop_close(rs->loop, &r->control);
        return -1;
    }
    rs->active[rs->count++] = r;
    return 0;
}

void run_stop(struct run *r, int64_t grace_ms)
{
    struct runner_message m = {.verb = RUNNER_STOP, .value = (uint32_t)grace_ms};
    int64_t give_up_ms = clock_mono_ms() + grace_ms + RUN_GIVE_UP_MS;

    if (!run_is_active(r) || r->orphaned) {
        return;
    }
    (void)send(r->control.fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)kill(r->runner, SIGCONT); /* somebody of the same uid may have stopped it */
    if (r->give_up_ms == 0 || give_up_ms < r->give_up_ms) {
        r->give_up_ms = give_up_ms;
    }
}

static void runs_forget(struct runs *rs, struct run *r)
{
    loop_close(rs->loop, &r->control);
    r->runner = 0;
    for (size_t i = 0; i < rs->count; i++) {
        if (rs->active[i] == r) {
            rs->active[i] = rs->active[--rs->count];
            return;
        }
    }
}

static void run_over(struct runs *rs, struct run *r, bool stuck)
{
    runs_forget(rs, r);
    run_report(r, stuck);
}

/* The runner's last words may still be in its socket when its SIGCHLD comes. */
static void run_runner_ended(struct runs *rs, struct run *r, int64_t now_ms)
{
    run_on_control(r, 0);
    if (r->said_gone && !r->loose) {
        run_over(rs, r, false);
        return;
    }
    if (!r->said_gone) {
        log_warn("a runner was killed from inside; killing what it left behind");
    }
    if (!r->exited) {
        r->status = SIGKILL;
    }
    r->orphaned = true;
    r->give_up_ms = 0;
    rs->sweep_at_ms = now_ms;
    rs->sweep_end_ms = now_ms + RUN_SWEEP_MAX_MS;
}

bool runs_reaped(struct runs *rs, pid_t pid)
{
    for (size_t i = 0; i < rs->count; i++) {
        if (rs->active[i]->runner == pid && !rs->active[i]->orphaned) {
            run_runner_ended(rs, rs->active[i], clock_mono_ms());
            return true;
        }
    }
    return false;
}

/* Whom a sweep leaves alone: runners, the relay, and what is older than every loose run that ended.
 */
static struct tree_keep runs_keep(const struct runs *rs, pid_t known[RUNS_MAX + 1])
{
    struct tree_keep keep = {.pids = known, .started_before = UINT64_MAX};

    for (size_t i = 0; i < rs->count; i++) {
        const struct run *r = rs->active[i];
        uint64_t since = r->loose ? r->started : 0;

        if (!r->orphaned) {
            known[keep.count++] = r->runner;
        } else if (since < keep.started_before) {
            keep.started_before = since;
        }
    }
    if (rs->helper != 0) {
        known[keep.count++] = rs->helper;
    }
    return keep;
}

/* Kills every child of PID 1 that nobody keeps, with all below; true when none is left. */
static bool runs_sweep(struct runs *rs)
{
    static struct tree tree;
    pid_t known[RUNS_MAX + 1];
    struct tree_keep keep = runs_keep(rs, known);

    if (!tree_read(&tree)) {
        return false;
    }
    if (tree_mark(&tree, getpid(), &keep) == 0) {
        return true;
    }
    /* Stopped first, so that nobody forks away from under the list. */
    (void)tree_signal(&tree, SIGSTOP);
    if (tree_read(&tree)) {
        (void)tree_mark(&tree, getpid(), &keep);
        (void)tree_signal(&tree, SIGKILL);
    }
    return false;
}

static void runs_end_orphaned(struct runs *rs, bool stuck)
{
    for (size_t i = rs->count; i > 0; i--) {
        if (i <= rs->count && rs->active[i - 1]->orphaned) {
            run_over(rs, rs->active[i - 1], stuck);
        }
    }
}

static void runs_sweep_due(struct runs *rs, int64_t now_ms)
{
    bool clean = runs_sweep(rs);

    if (clean || now_ms >= rs->sweep_end_ms) {
        rs->sweep_at_ms = 0;
        runs_end_orphaned(rs, !clean);
    } else {
        rs->sweep_at_ms = now_ms + RUN_SWEEP_MS;
    }
}

int64_t runs_tick(struct runs *rs, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    if (rs->sweep_at_ms != 0 && now_ms >= rs->sweep_at_ms) {
        runs_sweep_due(rs, now_ms);
    }
    for (size_t i = 0; i < rs->count; i++) {
        struct run *r = rs->active[i];

        if (r->give_up_ms != 0 && now_ms >= r->give_up_ms) {
            r->give_up_ms = 0;
            (void)kill(r->runner, SIGKILL); /* its leftovers are swept when it is reaped */
        }
        if (r->give_up_ms != 0 && r->give_up_ms < next_ms) {
            next_ms = r->give_up_ms;
        }
    }
    if (rs->sweep_at_ms != 0 && rs->sweep_at_ms < next_ms) {
        next_ms = rs->sweep_at_ms;
    }
    return next_ms;
}

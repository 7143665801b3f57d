/*
 * PID 1 of a sandbox. It must never block, never exit on an error, and never believe that it is
 * trusted. One thread; children only through spawn.c.
 */
#include "supervisor/init.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/ulid.h"
#include "supervisor/app.h"
#include "supervisor/channel.h"
#include "supervisor/loop.h"
#include "supervisor/run.h"
#include "supervisor/spawn.h"
#include "supervisor/task.h"

#define INIT_STOP_MS       5000 /* TERM to KILL, for everything together */
#define INIT_STAGE_MS      1500 /* then the next stage is told too */
#define INIT_LAST_MS       7000 /* then whatever is left is killed and PID 1 goes */
#define INIT_ACK_WAIT_MS   200  /* for the last records of tasks */
#define INIT_RELAY_FAST_MS 1000 /* a relay that lived shorter waits before it starts anew */
#define INIT_RELAY_WAIT_MS 50
#define INIT_RETRY_MS      1000

enum init_stage {
    INIT_RUNS,
    INIT_STOPS_TASKS,
    INIT_STOPS_WORKERS,
    INIT_STOPS_WEB,
    INIT_STOPPED
};

struct init {
    struct loop loop;
    struct watch signals;
    struct runs runs;
    struct app app;
    struct tasks tasks;
    struct channel channel;
    struct ulid boot;
    const char *const *env; /* borrowed for ever */
    pid_t relay;
    int64_t relay_started_ms;
    int64_t relay_next_ms;
    enum init_stage stage;
    int64_t stop_ms;  /* when it was told to stop */
    int64_t stage_ms; /* when this stage began */
};

/* ---- children ---- */

static void init_start_relay(struct init *in, int64_t now_ms)
{
    const char *args[] = {"relay", in->boot.text, NULL};
    struct spawn s = {.args = args, .envp = in->env, .fds = {-1, -1, -1}, .control_fd = -1};
    struct err e = {0};

    in->relay_started_ms = now_ms;
    if (spawn_start(&s, &in->relay, &e) != 0) {
        log_error("the relay cannot be started", "error", e.msg);
        in->relay = 0;
        in->relay_next_ms = now_ms + INIT_RETRY_MS;
    }
    in->runs.helper = in->relay;
}

static void init_relay_ended(struct init *in, int64_t now_ms)
{
    bool fast = now_ms - in->relay_started_ms < INIT_RELAY_FAST_MS;

    log_warn("the relay ended; starting it anew");
    in->relay = 0;
    in->runs.helper = 0;
    in->relay_next_ms = fast ? now_ms + INIT_RELAY_WAIT_MS : now_ms;
}

/* Everything that ended: ours, and orphans that fell to PID 1. */
static void init_reap(struct init *in)
{
    pid_t pid = 0;
    int status = 0;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == in->relay) {
            init_relay_ended(in, clock_mono_ms());
        } else {
            (void)runs_reaped(&in->runs, pid);
        }
    }
}

/* ---- stopping ---- */

static void init_stop(struct init *in)
{
    if (in->stage != INIT_RUNS) {
        return;
    }
    log_info("stopping");
    in->stage = INIT_STOPS_TASKS;
    in->stop_ms = clock_mono_ms();
    in->stage_ms = in->stop_ms;
}

/* Whatever an earlier stage began goes on; the grace of all ends at the same moment. */
static bool init_stage_is_done(struct init *in, int64_t grace_ms)
{
    bool tasks_done = tasks_stop(&in->tasks, grace_ms);
    bool app_done = true;

    if (in->stage >= INIT_STOPS_WORKERS) {
        app_done = app_stop(&in->app, in->stage >= INIT_STOPS_WEB, grace_ms);
    } else {
        in->app.stopping = true;
    }
    return tasks_done && app_done;
}

static void init_advance(struct init *in, int64_t now_ms)
{
    int64_t left_ms = in->stop_ms + INIT_STOP_MS - now_ms;
    bool done = init_stage_is_done(in, left_ms > 0 ? left_ms : 0);

    if (in->stage < INIT_STOPS_WEB && (done || now_ms - in->stage_ms >= INIT_STAGE_MS)) {
        in->stage++;
        in->stage_ms = now_ms;
        (void)init_stage_is_done(in, left_ms > 0 ? left_ms : 0);
    } else if (in->stage == INIT_STOPS_WEB && done) {
        bool heard = tasks_are_acked(&in->tasks) || !channel_is_up(&in->channel) ||
                     now_ms - in->stage_ms >= INIT_ACK_WAIT_MS;

        in->stage = heard ? INIT_STOPPED : in->stage;
    }
    if (now_ms - in->stop_ms >= INIT_LAST_MS) {
        in->stage = INIT_STOPPED;
    }
}

/* ---- signals ---- */

static void init_on_signal(void *ctx, uint32_t events)
{
    struct init *in = ctx;
    struct signalfd_siginfo info;

    (void)events;
    while (read(in->signals.fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            continue;
        }
        /* From outside the sandbox a signal has no sender here. One from inside is somebody's
         * pkill. */
        if (getpid() == 1 && info.ssi_pid != 0) {
            log_warn("ignored a signal from inside the sandbox");
            continue;
        }
        init_stop(in);
    }
    init_reap(in);
}

static int init_watch_signals(struct init *in, struct err *e)
{
    sigset_t all;
    int fd = -1;

    (void)sigemptyset(&all);
    (void)sigaddset(&all, SIGCHLD);
    (void)sigaddset(&all, SIGTERM);
    (void)sigaddset(&all, SIGINT);
    fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)sigfillset(&all);
    if (fd < 0 || sigprocmask(SIG_BLOCK, &all, NULL) != 0) {
        return err_set(e, ERR_IO, errno, "watch signals");
    }
    in->signals.on_event = init_on_signal;
    in->signals.ctx = in;
    return loop_add(&in->loop, &in->signals, fd, EPOLLIN, e);
}

/* ---- the loop ---- */

static void init_task_ended(void *ctx)
{
    struct init *in = ctx;

    app_task_ended(&in->app);
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* All work that is due; returns the monotonic time of the next. */
static int64_t init_tick(struct init *in, int64_t now_ms)
{
    int64_t next_ms = runs_tick(&in->runs, now_ms);

    next_ms = earlier(next_ms, tasks_tick(&in->tasks, now_ms));
    next_ms = earlier(next_ms, app_tick(&in->app, now_ms));
    next_ms = earlier(next_ms, channel_tick(&in->channel, now_ms));
    if (in->relay == 0 && now_ms >= in->relay_next_ms) {
        init_start_relay(in, now_ms);
    }
    if (in->relay == 0) {
        next_ms = earlier(next_ms, in->relay_next_ms);
    }
    if (in->stage != INIT_RUNS) {
        init_advance(in, now_ms);
        next_ms = earlier(next_ms, now_ms + 20);
    }
    return next_ms;
}

static void init_loop(struct init *in)
{
    while (in->stage != INIT_STOPPED) {
        int64_t next_ms = init_tick(in, clock_mono_ms());

        channel_flush(&in->channel);
        loop_wait(&in->loop, next_ms == INT64_MAX ? -1 : clock_until(next_ms));
    }
}

/* Nothing of ours needs a core file, and PID 1's memory is nobody's business. */
static void init_harden(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    fd_raise_limit();
    (void)fd_set_nonblock(STDOUT_FILENO);
    (void)fd_set_nonblock(STDERR_FILENO);
    if (getpid() != 1) {
        /* Only when it is tried by hand: orphans must fall to us as they do to PID 1. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/* A start that fails is tried again: there is nobody else to do it. */
static void init_setup(struct init *in)
{
    struct err e = {0};

    while (in->loop.epoll_fd < 0 && loop_init(&in->loop, &e) != 0) {
        log_error("cannot start", "error", e.msg);
        clock_sleep_ms(INIT_RETRY_MS);
    }
    while (in->signals.fd < 0 && init_watch_signals(in, &e) != 0) {
        log_error("cannot start", "error", e.msg);
        clock_sleep_ms(INIT_RETRY_MS);
    }
    in->boot = ulid_new();
    runs_init(&in->runs, &in->loop);
    app_init(&in->app, &in->loop, &in->runs, in->boot.text, in->env);
    tasks_init(&in->tasks, &in->loop, &in->runs, init_task_ended, in);
    channel_init(&in->channel, &in->loop, &in->app, &in->tasks, in->boot.text);
}

/* The last act: nobody is left who could do anything in order. */
static void init_end(struct init *in)
{
    channel_flush(&in->channel);
    if (getpid() == 1) {
        (void)kill(-1, SIGKILL);
    } else if (in->relay > 0) {
        (void)kill(in->relay, SIGKILL);
    }
    log_info("stopped");
}

int init_main(const char *argv0, char **env)
{
    /* Too large for a stack; pages that are not used cost nothing. */
    static struct init in = {.loop = {.epoll_fd = -1}, .signals = {.fd = -1}};

    log_init("sandboxd-init", LOG_INFO);
    spawn_init(argv0);
    init_harden();
    in.env = (const char *const *)env;
    init_setup(&in);
    log_info("started", "boot_id", in.boot.text);
    init_loop(&in);
    init_end(&in);
    return 0;
}

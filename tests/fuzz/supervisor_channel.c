/*
 * Fuzzes the records of the control plane against the whole of PID 1 but its children: nothing is
 * really started. The first byte says whether a start seems to work. One thread.
 */
#include <signal.h>

#include "supervisor/app_config.h"
#include "supervisor/channel.c"
#include "supervisor/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_PID 2147483646 /* above any pid there is */

static bool fuzz_spawn_works;

void spawn_init(const char *argv0)
{
    (void)argv0;
}

const char *spawn_self(void)
{
    return "/proc/self/exe";
}

int spawn_start(const struct spawn *s, pid_t *ret_pid, struct err *e)
{
    size_t len = 0;

    for (size_t i = 0; s->args[i]; i++) {
        len += strlen(s->args[i]);
    }
    for (size_t i = 0; s->envp[i]; i++) {
        len += strlen(s->envp[i]);
    }
    if (!fuzz_spawn_works || len == 0) {
        return err_set(e, ERR_UNAVAILABLE, 0, "not now");
    }
    *ret_pid = FUZZ_PID;
    return 0;
}

static void fuzz_on_ended(void *ctx)
{
    app_task_ended(ctx);
}

/* Ends every run as if its runner had said so, and frees everything. */
static void fuzz_done(struct channel *c, struct runs *runs)
{
    struct app *a = c->app;

    a->stopping = true;
    while (runs->count > 0) {
        runs->active[0]->said_gone = true;
        runs->active[0]->runner = FUZZ_PID;
        (void)runs_reaped(runs, FUZZ_PID);
    }
    for (size_t i = 0; i < TASKS_MAX; i++) {
        c->tasks->items[i].forgotten = true;
    }
    (void)tasks_tick(c->tasks, INT64_MAX / 2);
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        process_done(&a->processes[i]);
    }
    loop_close(c->loop, &a->seed_output);
    ring_done(&a->seed_ring);
    settings_done(&a->settings);
    app_config_done(a);
    portwatch_done(&a->ports);
    buf_done(&c->in);
    buf_done(&c->out);
}

static void fuzz_feed(struct channel *c, const uint8_t *data, size_t size)
{
    BUF_AUTO(out, CHANNEL_OUT_BYTES_MAX);

    while (size > 0) {
        size_t room = CHANNEL_IN_BYTES_MAX - c->in.len;
        size_t len = size < room ? size : room;

        buf_add(&c->in, data, len);
        if (channel_take_frames(c) != 0) {
            return;
        }
        data += len;
        size -= len;
        (void)tasks_tick(c->tasks, clock_mono_ms());
        buf_reset(&out);
        app_emit(c->app, &out, CHANNEL_OUT_UNTIL);
        tasks_emit(c->tasks, &out, CHANNEL_OUT_UNTIL);
        buf_reset(&c->out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop loop;
    static struct runs runs;
    static struct app app;
    static struct tasks tasks;
    static struct channel channel;
    static const char *const env[] = {"A=b", NULL};

    if (size == 0) {
        return 0;
    }
    log_init("fuzz", LOG_ERROR + 1);
    (void)signal(SIGPIPE, SIG_IGN); /* PID 1 blocks it */
    fuzz_spawn_works = data[0] & 1;
    if (loop_init(&loop, NULL) != 0) {
        return 0;
    }
    runs_init(&runs, &loop);
    app_init(&app, &loop, &runs, "boot", env);
    tasks_init(&tasks, &loop, &runs, fuzz_on_ended, &app);
    channel_init(&channel, &loop, &app, &tasks, "boot");
    channel.state = data[0] & 2 ? CHANNEL_GREETING : CHANNEL_UP;
    fuzz_feed(&channel, data + 1, size - 1);
    fuzz_done(&channel, &runs);
    loop_done(&loop);
    return 0;
}

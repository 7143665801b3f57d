/*
 * One supervised process. It must never block on the process's output, nor start it twice. One
 * thread: PID 1's.
 */
#include "supervisor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/record.h"
#include "supervisor/environ.h"

#define PROCESS_READ_BYTES      16384
#define PROCESS_READS_PER_TURN  16 /* a process that floods its output shares the loop */
#define PROCESS_SHOWN_BYTES_MAX (8UL * MASK_VALUE_BYTES)
#define PROCESS_SHELL           "/bin/bash"

void process_init(struct process *p, struct process_world *world,
                  const struct manifest_process *spec, bool is_web)
{
    *p = (struct process){.used = true, .is_web = is_web, .dirty = true, .world = world};
    p->output = WATCH_NONE;
    p->run.control = WATCH_NONE;
    mask_stream_init(&p->masking);
    memcpy(p->name, spec->name, sizeof(p->name));
    (void)process_update(p, spec);
}

bool process_update(struct process *p, const struct manifest_process *spec)
{
    bool differs = !p->command || strcmp(p->command, spec->command) != 0;

    p->restart_after_task = spec->restart_after_task;
    if (differs) {
        free(p->command);
        p->command = mem_strdup(spec->command);
    }
    return differs;
}

void process_done(struct process *p)
{
    if (p->world) {
        loop_close(p->world->loop, &p->output);
    }
    mask_stream_done(&p->masking);
    ring_done(&p->ring);
    free(p->command);
    *p = (struct process){.output = WATCH_NONE};
}

/* What the app prints is also the container's own output; a full pipe there loses it and nothing
 * else. */
static void process_copy_out(const char *bytes, size_t len)
{
    ssize_t ignored = write(STDOUT_FILENO, bytes, len);

    (void)ignored;
}

/* Keeps and shows what came through the mask. */
static void process_keep(struct process *p, struct str bytes)
{
    ring_add(&p->ring, bytes);
    process_copy_out(bytes.ptr, bytes.len);
}

static void process_take(struct process *p, struct str bytes)
{
    BUF_AUTO(shown, PROCESS_SHOWN_BYTES_MAX);

    if (!p->world->mask && p->masking.held.len == 0) {
        process_keep(p, bytes);
        return;
    }
    mask_stream_feed(&p->masking, p->world->mask, bytes, &shown);
    process_keep(p, buf_str(&shown));
}

/* Nothing more comes: what looked like the beginning of a secret was none. */
static void process_close_output(struct process *p)
{
    BUF_AUTO(shown, PROCESS_SHOWN_BYTES_MAX);

    mask_stream_end(&p->masking, &shown);
    process_keep(p, buf_str(&shown));
    loop_close(p->world->loop, &p->output);
}

void process_mask_changed(struct process *p)
{
    mask_stream_switch(&p->masking, p->world->mask);
}

/* False at the end of the stream. */
static bool process_read_once(struct process *p, bool *ret_more)
{
    static char bytes[PROCESS_READ_BYTES];
    ssize_t len = read(p->output.fd, bytes, sizeof(bytes));

    *ret_more = len == (ssize_t)sizeof(bytes);
    if (len <= 0) {
        return len < 0 && (errno == EAGAIN || errno == EINTR);
    }
    process_take(p, str_n(bytes, (size_t)len));
    return true;
}

static void process_on_output(void *ctx, uint32_t events)
{
    struct process *p = ctx;
    bool more = true;

    (void)events;
    for (int i = 0; i < PROCESS_READS_PER_TURN && more; i++) {
        if (!process_read_once(p, &more)) {
            process_close_output(p);
            return;
        }
    }
}

static void process_on_started(void *ctx)
{
    struct process *p = ctx;

    p->dirty = true;
    if (!p->is_web) {
        process_event(p, MACHINE_READY);
    }
    p->world->changed(p->world->ctx);
}

static void process_on_gone(void *ctx, bool stuck)
{
    struct process *p = ctx;
    int status = p->run.status;

    if (p->output.fd >= 0) {
        process_on_output(p, 0);
    }
    p->ended = true;
    p->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    p->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    process_event(p, stuck ? MACHINE_STUCK : MACHINE_GONE);
}

/* Both ends of its output: ours does not block, its own does. */
static int process_open_output(struct process *p, int *ret_theirs, struct err *e)
{
    int ends[2];

    process_close_output(p);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "make a pipe");
    }
    p->output.on_event = process_on_output;
    p->output.ctx = p;
    if (fd_set_nonblock(ends[0]) != 0 ||
        loop_add(p->world->loop, &p->output, ends[0], EPOLLIN, e) != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return -1;
    }
    *ret_theirs = ends[1];
    return 0;
}

static int process_spawn(struct process *p, struct err *e)
{
    const char *argv[] = {PROCESS_SHELL, "-c", p->command, NULL};
    char **env ENVIRON_AUTO = p->world->make_env(p->world->ctx, p);
    int theirs AUTOCLOSE = -1;

    if (run_is_active(&p->run)) {
        return err_set(e, ERR_BUSY, 0, "something of its last run could not be ended");
    }
    if (!env) {
        return err_set(e, ERR_UNAVAILABLE, 0, "no memory for the environment");
    }
    if (process_open_output(p, &theirs, e) != 0) {
        return -1;
    }
    struct run_options options = {.cwd = p->world->app_dir,
                                  .argv = argv,
                                  .envp = (const char *const *)env,
                                  .fds = {-1, theirs, theirs}};
    p->run.hooks = (struct run_hooks){process_on_started, process_on_gone, p};
    return run_start(p->world->runs, &p->run, &options, e);
}

static void process_begin(struct process *p)
{
    struct err e = {0};

    if (process_spawn(p, &e) == 0) {
        return;
    }
    log_error("a process cannot be started", "name", p->name, "error", e.msg);
    process_close_output(p);
    (void)machine_step(&p->machine, MACHINE_NOSTART, clock_mono_ms());
}

void process_event(struct process *p, enum machine_event event)
{
    enum machine_state before = p->machine.state;
    enum machine_action action = machine_step(&p->machine, event, clock_mono_ms());

    if (action == MACHINE_DO_SPAWN) {
        process_begin(p);
    } else if (action == MACHINE_DO_END) {
        run_stop(&p->run, PROCESS_STOP_GRACE_MS);
    }
    if (action != MACHINE_DO_NOTHING || p->machine.state != before) {
        p->dirty = true;
        p->world->changed(p->world->ctx);
    }
}

void process_stop(struct process *p, int64_t grace_ms)
{
    process_event(p, MACHINE_STOP);
    run_stop(&p->run, grace_ms);
}

int64_t process_tick(struct process *p, int64_t now_ms)
{
    if (p->machine.state != MACHINE_BACKOFF) {
        return INT64_MAX;
    }
    if (now_ms >= p->machine.next_start_ms) {
        process_event(p, MACHINE_TIME);
        return p->machine.state == MACHINE_BACKOFF ? p->machine.next_start_ms : INT64_MAX;
    }
    return p->machine.next_start_ms;
}

bool process_emit(const struct process *p, struct buf *out)
{
    BUF_AUTO(tail, PROCESS_TAIL_BYTES_MAX + 1);
    int64_t wait_ms = p->machine.next_start_ms - clock_mono_ms();

    ring_tail(&p->ring, PROCESS_TAIL_BYTES_MAX, &tail);
    struct record_writer w = record_begin(out, "process");
    record_adds(&w, "name", p->name);
    record_adds(&w, "type", p->is_web ? "web" : "worker");
    record_adds(&w, "state", machine_state_name(p->machine.state));
    record_addn(&w, "pid", run_is_active(&p->run) ? p->run.pid : 0);
    record_addn(&w, "restarts", p->machine.restarts);
    if (p->ended) {
        record_addn(&w, "exit_code", p->exit_code);
        record_addn(&w, "signal", p->signal);
    }
    if (p->machine.state == MACHINE_BACKOFF) {
        record_addn(&w, "next_start_ms", wait_ms > 0 ? wait_ms : 0);
    }
    record_add(&w, "lines", buf_str(&tail));
    return record_end(&w);
}

void process_how_ended(const struct process *p, char *text, size_t size)
{
    if (!p->ended) {
        (void)snprintf(text, size, "could not be started");
    } else if (p->signal != 0) {
        (void)snprintf(text, size, "was ended by signal %d", p->signal);
    } else {
        (void)snprintf(text, size, "exited with status %d", p->exit_code);
    }
}

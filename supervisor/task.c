/*
 * Tasks. It must never lose a line that was not acknowledged, nor hold more than TASKS_UNACKED_MAX
 * of them: the agent waits instead. One thread: PID 1's.
 */
#include "supervisor/task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "supervisor/environ.h"
#include "supervisor/seed.h"
#include "supervisor/spawn.h"

#define TASK_READ_BYTES   32768
#define TASK_DRAIN_MS     500
#define TASK_RETRY_MS     100 /* an outbox without memory is tried again */
#define TASK_GRACE_MS_MAX 60000
#define TASK_FIELDS_MAX   (SPAWN_ARGS_MAX - 2)
#define TASK_TIME_MS_MAX  (7LL * 24 * 3600 * 1000)

void tasks_init(struct tasks *ts, struct loop *loop, struct runs *runs, void (*ended)(void *ctx),
                void *ctx)
{
    *ts = (struct tasks){.loop = loop, .runs = runs, .ended = ended, .ctx = ctx};
}

/* ---- records out ---- */

static size_t tasks_held(const struct tasks *ts)
{
    size_t held = 0;

    for (size_t i = 0; i < TASKS_MAX; i++) {
        held += ts->items[i].used ? outbox_held(&ts->items[i].outbox) : 0;
    }
    return held;
}

/* Appends one record to a task's outbox; false without memory. */
static bool task_queue(struct task *t, struct record_writer *w)
{
    bool queued = record_end(w) && outbox_add(&t->outbox, buf_str(w->out));

    if (queued) {
        t->next_seq++;
    }
    return queued;
}

static void task_on_line(void *ctx, struct str line, bool part)
{
    struct task_stream *stream = ctx;
    struct task *t = stream->task;
    BUF_AUTO(out, RECORD_FRAME_MAX + 4);
    struct record_writer w = record_begin(&out, "line");

    record_adds(&w, "task_id", t->id.text);
    record_addn(&w, "seq", (int64_t)t->next_seq);
    record_adds(&w, "stream", stream->is_err ? "err" : "out");
    record_add(&w, "data", line);
    if (part) {
        record_addb(&w, "part", true);
    }
    if (!task_queue(t, &w)) {
        log_error("no memory for a line of a task", "task", t->id.text);
    }
}

/* Something of ours that the person must see, as a line of the task. */
static void task_say(struct task *t, const char *text)
{
    task_on_line(&t->err, str_of(text), false);
}

static const char *task_cause_name(enum task_cause cause)
{
    static const char *const names[] = {"exit", "cancelled", "timeout", "ended"};

    return names[cause];
}

static bool task_queue_exit(struct task *t)
{
    BUF_AUTO(out, 512);
    int status = t->run.status;
    struct record_writer w = record_begin(&out, "exit");

    record_adds(&w, "task_id", t->id.text);
    record_addn(&w, "seq", (int64_t)t->next_seq);
    record_addn(&w, "code", WIFEXITED(status) ? WEXITSTATUS(status) : 0);
    record_addn(&w, "signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    record_adds(&w, "cause", task_cause_name(t->cause));
    if (t->stuck) {
        record_addb(&w, "stuck", true);
    }
    return task_queue(t, &w);
}

/* ---- streams ---- */

static void stream_close(struct task_stream *stream)
{
    if (stream->watch.fd < 0) {
        return;
    }
    lines_end(&stream->lines, task_on_line, stream);
    lines_done(&stream->lines);
    loop_close(stream->task->all->loop, &stream->watch);
}

/* Reads once; false when there is nothing more for now. Closes at the end of the stream. */
static bool stream_read(struct task_stream *stream)
{
    static char bytes[TASK_READ_BYTES];
    ssize_t len = read(stream->watch.fd, bytes, sizeof(bytes));

    if (len > 0) {
        lines_feed(&stream->lines, str_n(bytes, (size_t)len), task_on_line, stream);
        return true;
    }
    if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
        stream_close(stream);
    }
    return false;
}

static void tasks_pause(struct tasks *ts, bool paused)
{
    ts->paused = paused;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct task *t = &ts->items[i];

        if (t->used) {
            loop_change(ts->loop, &t->out.watch, paused ? 0 : EPOLLIN);
            loop_change(ts->loop, &t->err.watch, paused ? 0 : EPOLLIN);
        }
    }
}

static void tasks_check_held(struct tasks *ts)
{
    bool full = tasks_held(ts) >= TASKS_UNACKED_MAX;

    if (full != ts->paused) {
        tasks_pause(ts, full);
    }
}

static void stream_on_event(void *ctx, uint32_t events)
{
    struct task_stream *stream = ctx;
    struct tasks *ts = stream->task->all;

    (void)events;
    /* A paused stream is told of a hang-up once; what it holds is read when there is room again. */
    if (!ts->paused) {
        (void)stream_read(stream);
        tasks_check_held(ts);
    }
}

static void input_close(struct task *t)
{
    loop_close(t->all->loop, &t->input);
    free(t->input_bytes);
    t->input_bytes = NULL;
}

/* Writes what has come; closes when all of it went out or nobody reads it. */
static void input_write(struct task *t)
{
    while (t->input.fd >= 0 && t->input_written < t->input_have) {
        ssize_t len =
            write(t->input.fd, t->input_bytes + t->input_written, t->input_have - t->input_written);

        if (len < 0 && errno == EAGAIN) {
            loop_change(t->all->loop, &t->input, EPOLLOUT);
            return;
        }
        if (len < 0) {
            input_close(t); /* the program has closed its stdin, which is its right */
            return;
        }
        t->input_written += (size_t)len;
    }
    if (t->input_written == t->input_want) {
        input_close(t);
    } else {
        loop_change(t->all->loop, &t->input, 0);
    }
}

static void input_on_event(void *ctx, uint32_t events)
{
    struct task *t = ctx;

    if (events & (EPOLLERR | EPOLLHUP)) {
        input_close(t);
    } else {
        input_write(t);
    }
}

/* ---- a task's life ---- */

static struct task *tasks_find(struct tasks *ts, const struct ulid *id)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (ts->items[i].used && ulid_eq(&ts->items[i].id, id)) {
            return &ts->items[i];
        }
    }
    return NULL;
}

static struct task *tasks_free_place(struct tasks *ts)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (!ts->items[i].used) {
            return &ts->items[i];
        }
    }
    return NULL;
}

static void task_forget(struct task *t)
{
    stream_close(&t->out);
    stream_close(&t->err);
    input_close(t);
    outbox_done(&t->outbox);
    t->used = false;
    tasks_check_held(t->all);
}

static void task_on_started(void *ctx)
{
    (void)ctx;
}

static void task_on_gone(void *ctx, bool stuck)
{
    struct task *t = ctx;

    t->over = true;
    t->stuck = stuck;
    t->deadline_ms = 0;
    t->finish_at_ms = 0;
    t->drain_ms = clock_mono_ms() + TASK_DRAIN_MS;
    input_close(t);
}

/* Behind its end: reads out what its pipes hold, then queues the last record. */
static void task_wind_up(struct task *t, int64_t now_ms)
{
    struct tasks *ts = t->all;

    while (!ts->paused && t->out.watch.fd >= 0 && stream_read(&t->out)) {
        tasks_check_held(ts);
    }
    while (!ts->paused && t->err.watch.fd >= 0 && stream_read(&t->err)) {
        tasks_check_held(ts);
    }
    if (ts->paused) {
        t->drain_ms = now_ms + TASK_DRAIN_MS;
        return;
    }
    if ((t->out.watch.fd >= 0 || t->err.watch.fd >= 0) && now_ms < t->drain_ms) {
        return; /* somebody outside its tree holds a pipe of it: not for long */
    }
    stream_close(&t->out);
    stream_close(&t->err);
    t->exit_queued = task_queue_exit(t);
    if (t->exit_queued) {
        ts->ended(ts->ctx);
    } else {
        t->drain_ms = now_ms + TASK_RETRY_MS;
    }
}

static void task_end(struct task *t, enum task_cause cause, int64_t grace_ms)
{
    if (t->over) {
        return;
    }
    if (t->cause == TASK_EXIT) {
        t->cause = cause;
    }
    t->deadline_ms = 0;
    t->finish_at_ms = 0;
    run_stop(&t->run, grace_ms);
}

static int64_t task_tick(struct task *t, int64_t now_ms)
{
    if (t->forgotten) {
        if (!run_is_active(&t->run)) {
            task_forget(t);
        }
        return INT64_MAX;
    }
    if (t->over && !t->exit_queued) {
        task_wind_up(t, now_ms);
        return t->exit_queued ? INT64_MAX : now_ms + TASK_RETRY_MS;
    }
    if (t->deadline_ms != 0 && now_ms >= t->deadline_ms) {
        task_end(t, TASK_TIMEOUT, TASK_TIMEOUT_GRACE_MS);
    }
    if (t->finish_at_ms != 0 && now_ms >= t->finish_at_ms) {
        task_end(t, TASK_ENDED, TASK_FINISH_GRACE_MS);
    }
    int64_t next_ms = t->deadline_ms != 0 ? t->deadline_ms : INT64_MAX;
    return t->finish_at_ms != 0 && t->finish_at_ms < next_ms ? t->finish_at_ms : next_ms;
}

int64_t tasks_tick(struct tasks *ts, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < TASKS_MAX; i++) {
        int64_t at_ms = ts->items[i].used ? task_tick(&ts->items[i], now_ms) : INT64_MAX;

        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

/* ---- start ---- */

struct start {
    const char *argv[TASK_FIELDS_MAX + 1];
    char **env;  /* owned list and strings */
    char **args; /* owned strings behind argv */
    char *cwd;   /* owned */
};

static void start_done(struct start *s)
{
    environ_free(s->env);
    environ_free(s->args);
    free(s->cwd);
}

static int start_parse(const struct record *r, struct start *s, struct err *e)
{
    struct str cwd = record_get(r, "cwd");

    s->env = environ_copy(r, "env", TASK_FIELDS_MAX);
    s->args = environ_copy(r, "argv", TASK_FIELDS_MAX);
    s->cwd = cwd.len > 0 ? strndup(cwd.ptr, cwd.len) : strdup(SEED_APP);
    if (!s->env || !s->args || !s->cwd || !s->args[0] || s->args[0][0] == '\0') {
        return err_set(
            e, ERR_INVALID, 0,
            "start: argv is missing, or argv, env or cwd holds what no program can take");
    }
    for (size_t i = 0; s->args[i]; i++) {
        s->argv[i] = s->args[i];
    }
    return 0;
}

/* A pipe between us and the program: ours does not block, the program's does. */
static int task_pipe(struct task *t, struct watch *w, bool we_write, int *ret_theirs, struct err *e)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "make a pipe");
    }
    int ours = we_write ? ends[1] : ends[0];
    int theirs = we_write ? ends[0] : ends[1];
    if (fd_set_nonblock(ours) != 0 ||
        loop_add(t->all->loop, w, ours, we_write ? 0 : EPOLLIN, e) != 0) {
        (void)close(ours);
        (void)close(theirs);
        return err_set(e, ERR_UNAVAILABLE, 0, "watch a pipe");
    }
    *ret_theirs = theirs;
    return 0;
}

static int task_run(struct task *t, const struct start *s, struct err *e)
{
    int in AUTOCLOSE = -1;
    int out AUTOCLOSE = -1;
    int err AUTOCLOSE = -1;

    if (task_pipe(t, &t->input, true, &in, e) != 0 ||
        task_pipe(t, &t->out.watch, false, &out, e) != 0 ||
        task_pipe(t, &t->err.watch, false, &err, e) != 0) {
        return -1;
    }
    struct run_options options = {
        .cwd = s->cwd, .argv = s->argv, .envp = (const char *const *)s->env, .fds = {in, out, err}};
    t->run.hooks = (struct run_hooks){task_on_started, task_on_gone, t};
    return run_start(t->all->runs, &t->run, &options, e);
}

static void stream_init(struct task_stream *stream, struct task *t, bool is_err)
{
    stream->task = t;
    stream->is_err = is_err;
    stream->watch = (struct watch){.fd = -1, .on_event = stream_on_event, .ctx = stream};
    lines_init(&stream->lines);
}

static void task_init(struct task *t, struct tasks *ts, const struct ulid *id)
{
    *t = (struct task){.used = true, .all = ts, .id = *id, .next_seq = 1, .tell_started = true};
    t->run.control = WATCH_NONE;
    t->input = (struct watch){.fd = -1, .on_event = input_on_event, .ctx = t};
    stream_init(&t->out, t, false);
    stream_init(&t->err, t, true);
    outbox_init(&t->outbox);
}

/* A task that cannot even start ends like a program that a shell cannot start. */
static void task_stillborn(struct task *t, const struct err *e)
{
    char text[sizeof(e->msg) + 32];

    (void)snprintf(text, sizeof(text), "sandboxd: cannot start: %s", e->msg);
    task_say(t, text);
    t->run.status = 126 << 8;
    task_on_gone(t, false);
    loop_close(t->all->loop, &t->out.watch);
    loop_close(t->all->loop, &t->err.watch);
}

static int start_numbers(const struct record *r, struct task *t, struct err *e)
{
    uint64_t timeout_ms = 0;
    uint64_t stdin_bytes = 0;

    if ((record_get(r, "timeout_ms").len > 0 &&
         !record_get_u64(r, "timeout_ms", TASK_TIME_MS_MAX, &timeout_ms)) ||
        (record_get(r, "stdin_bytes").len > 0 &&
         !record_get_u64(r, "stdin_bytes", TASK_STDIN_BYTES_MAX, &stdin_bytes))) {
        return err_set(e, ERR_INVALID, 0,
                       "start: timeout_ms or stdin_bytes (at most %u) is out of range",
                       TASK_STDIN_BYTES_MAX);
    }
    t->deadline_ms = timeout_ms > 0 ? clock_mono_ms() + (int64_t)timeout_ms : 0;
    t->input_want = stdin_bytes;
    return 0;
}

/* What is wrong with the record is the task's own end: an error to the sender would only make it
 * send it again. */
static void task_begin(struct task *t, const struct record *r)
{
    struct start s = {0};
    struct err why = {0};

    if (start_numbers(r, t, &why) != 0 || start_parse(r, &s, &why) != 0) {
        task_stillborn(t, &why);
        start_done(&s);
        return;
    }
    t->input_bytes = t->input_want > 0 ? mem_try_alloc(t->input_want) : NULL;
    if (t->input_want > 0 && !t->input_bytes) {
        (void)err_set(&why, ERR_UNAVAILABLE, 0, "no memory for its input");
        task_stillborn(t, &why);
    } else if (task_run(t, &s, &why) != 0) {
        task_stillborn(t, &why);
    } else {
        input_write(t);
    }
    start_done(&s);
}

static int task_id_of(const struct record *r, struct ulid *ret_id, struct err *e)
{
    return ulid_parse(record_get(r, "task_id"), ret_id)
               ? 0
               : err_set(e, ERR_INVALID, 0, "%.*s: task_id is not an id", STR_FMT(r->kind));
}

int tasks_start(struct tasks *ts, const struct record *r, struct err *e)
{
    struct ulid id;
    struct task *t = NULL;

    if (task_id_of(r, &id, e) != 0) {
        return -1;
    }
    t = tasks_find(ts, &id);
    if (t) {
        t->tell_started = true;
        t->input_skip = t->input_have;
        return 0;
    }
    t = tasks_free_place(ts);
    if (!t) {
        return err_set(e, ERR_LIMIT, 0,
                       "start: %d tasks are known already; acknowledge their exits", TASKS_MAX);
    }
    task_init(t, ts, &id);
    task_begin(t, r);
    return 0;
}

int tasks_stdin(struct tasks *ts, const struct record *r, struct err *e)
{
    struct str data = record_get(r, "data");
    struct ulid id;

    if (task_id_of(r, &id, e) != 0) {
        return -1;
    }
    struct task *t = tasks_find(ts, &id);
    if (!t || !t->input_bytes) {
        return 0; /* it ended, or closed its input, before all was sent */
    }
    size_t known = data.len < t->input_skip ? data.len : t->input_skip;
    t->input_skip -= known;
    data = str_cut(data, known, data.len);
    if (data.len > t->input_want - t->input_have) {
        return err_set(e, ERR_INVALID, 0, "stdin: more than the %zu bytes that start named",
                       t->input_want);
    }
    memcpy(t->input_bytes + t->input_have, data.ptr ? data.ptr : "", data.len);
    t->input_have += data.len;
    input_write(t);
    return 0;
}

int tasks_cancel(struct tasks *ts, const struct record *r, struct err *e)
{
    uint64_t grace_ms = TASK_TIMEOUT_GRACE_MS;
    struct ulid id;

    if (task_id_of(r, &id, e) != 0) {
        return -1;
    }
    (void)record_get_u64(r, "grace_ms", TASK_GRACE_MS_MAX, &grace_ms);
    struct task *t = tasks_find(ts, &id);
    if (t) {
        task_end(t, TASK_CANCELLED, (int64_t)grace_ms);
    }
    return 0;
}

int tasks_finish(struct tasks *ts, const struct record *r, struct err *e)
{
    uint64_t after_ms = 0;
    struct ulid id;

    if (task_id_of(r, &id, e) != 0) {
        return -1;
    }
    (void)record_get_u64(r, "after_ms", TASK_TIME_MS_MAX, &after_ms);
    struct task *t = tasks_find(ts, &id);
    /* Repeated after a reconnect it must not begin anew. */
    if (t && !t->over && t->finish_at_ms == 0 && t->cause == TASK_EXIT) {
        t->finish_at_ms = clock_mono_ms() + (int64_t)after_ms;
    }
    return 0;
}

int tasks_ack(struct tasks *ts, const struct record *r, struct err *e)
{
    uint64_t seq = 0;
    struct ulid id;

    if (task_id_of(r, &id, e) != 0) {
        return -1;
    }
    if (!record_get_u64(r, "seq", UINT64_MAX, &seq)) {
        return err_set(e, ERR_INVALID, 0, "ack: seq is not a number");
    }
    struct task *t = tasks_find(ts, &id);
    if (t) {
        outbox_ack(&t->outbox, seq);
        t->forgotten = t->exit_queued && outbox_held(&t->outbox) == 0;
        tasks_check_held(ts);
    }
    return 0;
}

/* ---- all of them ---- */

bool tasks_stop(struct tasks *ts, int64_t grace_ms)
{
    bool all_over = true;

    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct task *t = &ts->items[i];

        if (t->used && !t->over) {
            task_end(t, TASK_CANCELLED, grace_ms);
            all_over = false;
        }
    }
    return all_over;
}

bool tasks_are_acked(const struct tasks *ts)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (ts->items[i].used && !ts->items[i].forgotten) {
            return false;
        }
    }
    return true;
}

void tasks_add_known(const struct tasks *ts, struct record_writer *w)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (ts->items[i].used && !ts->items[i].forgotten) {
            record_adds(w, "task", ts->items[i].id.text);
        }
    }
}

void tasks_rewind(struct tasks *ts)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (ts->items[i].used) {
            outbox_rewind(&ts->items[i].outbox);
        }
    }
}

static bool emit_started(const struct task *t, struct buf *out)
{
    struct record_writer w = record_begin(out, "started");

    record_adds(&w, "task_id", t->id.text);
    return record_end(&w);
}

void tasks_emit(struct tasks *ts, struct buf *out, size_t until)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct task *t = &ts->items[i];

        if (!t->used) {
            continue;
        }
        if (t->tell_started && out->len < until && emit_started(t, out)) {
            t->tell_started = false;
        }
        outbox_emit(&t->outbox, out, until);
    }
}

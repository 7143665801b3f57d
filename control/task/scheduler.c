/*
 * The scheduler: one box for each sandbox that has tasks or a supervisor, one run in it at a time.
 * Its thread alone touches boxes and runs; it never waits for a sandbox, an agent or a peer.
 */
#include <stdio.h>

#include "control/task/service.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SCHEDULER_POLL_MS   1000 /* while something is waited for that may not be announced */
#define SCHEDULER_BATCH_MAX 256

void scheduler_due(struct task_service *s, int64_t at_ms)
{
    s->due_ms = at_ms < s->due_ms ? at_ms : s->due_ms;
}

bool scheduler_is_stale(struct task_service *s, const struct box *b, const struct ulid *id)
{
    struct ulid task = *id;
    task.text[0] = '0';
    if (b->run && b->run->stored && ulid_eq(&b->run->id, &task)) {
        return id->text[0] - '0' < b->run->attempt;
    }
    return !service_open_has(s, &task);
}

static struct box *box_get(struct task_service *s, const struct ulid *id)
{
    for (struct box *b = s->boxes; b; b = b->next) {
        if (ulid_eq(&b->id, id)) {
            return b;
        }
    }
    struct box *b = mem_alloc(sizeof(*b));
    b->id = *id;
    b->next = s->boxes;
    s->boxes = b;
    return b;
}

/* ---- waiting for the sandbox ---- */

static void wait_for_start(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    struct err e = {0};
    enum sandbox_outcome outcome = SANDBOX_DONE;
    scheduler_due(s, clock_mono_ms() + SCHEDULER_POLL_MS);
    if (run->ticket_open) {
        outcome = sandbox_outcome(s->sandboxes, &b->id, run->ticket, &e);
        if (outcome == SANDBOX_PENDING) {
            return;
        }
        run->ticket_open = false;
    }
    if (outcome == SANDBOX_FAILED) {
        run_end(s, b, TASK_FAILED, "sandbox_unavailable", e.msg);
        return;
    }
    if (run->starts++ == TASK_STARTS_MAX) {
        run_end(s, b, TASK_FAILED, "sandbox_unavailable",
                "the sandbox was stopped again and again before the task could begin");
        return;
    }
    if (!run->told_waking) {
        run->told_waking = true;
        run_status(s, run, "waking", "the sandbox is being started");
    }
    if (sandbox_start(s->sandboxes, &b->id, "task", &run->ticket, &e) != 0) {
        run_end(s, b, TASK_FAILED, "sandbox_unavailable", e.msg);
        return;
    }
    run->ticket_open = true;
}

static void wait_for_hello(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    int64_t now = clock_mono_ms();
    if (run->connect_by_ms == 0) {
        run->connect_by_ms = now + TASK_CONNECT_MS;
    }
    if (now < run->connect_by_ms) {
        scheduler_due(s, run->connect_by_ms);
        return;
    }
    run_end(s, b, TASK_FAILED, "sandbox_unavailable",
            "the sandbox runs, but its supervisor did not report within 60 s");
}

/* The app stands in its place: nothing is moved under the agent's feet any more. What the
 * supervisor says before it was configured, and what stands there before it said anything, does not
 * count. */
static bool wait_is_settled(const struct sandbox_view *view)
{
    bool early =
        strcmp(view->detail, "") == 0 || strcmp(view->detail, "waiting for the control plane") == 0;
    return view->phase[0] != '\0' && strcmp(view->phase, "seeding") != 0 &&
           !(strcmp(view->phase, "starting") == 0 && early);
}

/* Seeding takes what it takes; a phase that is never told is not waited for longer than a hello. */
static bool wait_for_app(struct task_service *s, struct box *b, const struct sandbox_view *view)
{
    struct run *run = b->run;
    int64_t now = clock_mono_ms();
    if (wait_is_settled(view)) {
        return false;
    }
    run->connect_by_ms = run->connect_by_ms ? run->connect_by_ms : now + TASK_CONNECT_MS;
    scheduler_due(s, now + SCHEDULER_POLL_MS);
    return now < run->connect_by_ms || strcmp(view->phase, "seeding") == 0;
}

static void drive_waiting(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    struct sandbox_view view;
    struct err e;
    if (run->cancel_asked) {
        run_end(s, b, TASK_CANCELLED, "", "");
    } else if (sandbox_look(s->sandboxes, &b->id, &view, &e) != 0 ||
               view.status == SANDBOX_DELETING || view.status == SANDBOX_DELETED) {
        run_end(s, b, TASK_CANCELLED, "sandbox_deleted", "the sandbox was deleted");
    } else if (view.status != SANDBOX_RUNNING) {
        run->connect_by_ms = 0;
        wait_for_start(s, b);
    } else if (b->serial == 0) {
        wait_for_hello(s, b);
    } else if (!wait_for_app(s, b, &view)) {
        run_launch(s, b);
    }
}

/* ---- running ---- */

/* What the kernel killed for memory is said in the task, whether it fails of it or not. */
static void running_note_kill(struct task_service *s, struct run *run,
                              const struct sandbox_view *view)
{
    BUF_AUTO(out, 4096);
    struct json_writer w;
    if (view->kill_ms <= run->kill_ms) {
        return;
    }
    run->kill_ms = view->kill_ms;
    run->kill = view->kill;
    json_begin(&w, &out);
    json_object(&w, NULL);
    json_text(&w, "text", view->kill.msg);
    json_object_end(&w);
    if (buf_ok(&out)) {
        run_event(s, run, "notice", str_cut(buf_str(&out), 1, out.len - 1));
    }
}

static bool running_is_dead(struct task_service *s, const struct box *b, char reason[32],
                            const char **ret_message)
{
    struct sandbox_view view;
    struct err e;
    if (sandbox_look(s->sandboxes, &b->id, &view, &e) != 0 || view.status == SANDBOX_DELETING ||
        view.status == SANDBOX_DELETED) {
        (void)snprintf(reason, 32, "sandbox_deleted");
        *ret_message = "the sandbox ended while the agent worked";
        return true;
    }
    running_note_kill(s, b->run, &view);
    outcome_sandbox_end(&view, reason, ret_message);
    return view.status == SANDBOX_STOPPED || view.status == SANDBOX_ERROR;
}

static void drive_running(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    const char *message = NULL;
    char reason[32];
    int64_t now = clock_mono_ms();
    if (running_is_dead(s, b, reason, &message)) {
        run_abandon(s, b, reason, message);
        return;
    }
    if (outcome_look(s, b)) {
        return;
    }
    if (!run->timed_out && now >= run->deadline_ms + TASK_OVERTIME_MS) {
        run->timed_out = true;
        run_send_cancel(s, b);
    }
    if (run->refused_ms != 0 && run->cancel_sent_ms == 0) {
        if (now >= run->refused_ms + TASK_REFUSED_MS) {
            run_send_cancel(s, b);
        } else {
            scheduler_due(s, run->refused_ms + TASK_REFUSED_MS);
        }
    }
    if (run->cancel_sent_ms != 0 && now >= run->cancel_sent_ms + TASK_ABANDON_MS) {
        run_abandon(s, b, "sandbox_unavailable", "the sandbox did not say how the agent ended");
        return;
    }
    scheduler_due(s, run->cancel_sent_ms != 0 ? run->cancel_sent_ms + TASK_ABANDON_MS
                                              : run->deadline_ms + TASK_OVERTIME_MS);
}

/* ---- what a box does next ---- */

/* Stops and starts the sandbox in which something could not be ended. True while at it. */
static bool drive_restart(struct task_service *s, struct box *b)
{
    struct err e = {0};
    int64_t ticket = 0;
    if (!b->restarting) {
        return false;
    }
    if (b->restart_ticket == 0 &&
        sandbox_stop(s->sandboxes, &b->id, "task_stuck", &b->restart_ticket, &e) != 0) {
        b->restarting = false;
        return false;
    }
    if (sandbox_outcome(s->sandboxes, &b->id, b->restart_ticket, &e) == SANDBOX_PENDING) {
        scheduler_due(s, clock_mono_ms() + SCHEDULER_POLL_MS);
        return true;
    }
    b->restarting = false;
    if (sandbox_start(s->sandboxes, &b->id, "task_stuck", &ticket, &e) != 0) {
        log_warn("a sandbox was not started again", "sandbox_id", b->id.text, "error", e.msg);
    }
    return false;
}

static void drive_next(struct task_service *s, struct box *b)
{
    struct ulid id;
    struct err e = {0};
    if (!service_open_first(s, &b->id, &id)) {
        return;
    }
    if (resume_run(s, b, &id, &e) == 0) {
        return;
    }
    log_error("a task cannot be taken up", "task_id", id.text, "error", e.msg);
    if (e.code == ERR_IO) {
        run_begin_anew(s, b);
    } else if (b->run) {
        run_end(s, b, TASK_FAILED, "internal", e.msg);
    } else {
        run_refuse(s, &id, e.msg);
        service_look(s, &b->id);
    }
}

void scheduler_drive(struct task_service *s, struct box *b)
{
    if (b->drop_at_ms != 0 || b->job || drive_restart(s, b)) {
        return;
    }
    if (!b->run) {
        drive_next(s, b);
    }
    if (!b->run) {
        return;
    }
    switch (b->run->stage) {
    case RUN_WAITING: drive_waiting(s, b); break;
    case RUN_PREPARING: break;
    case RUN_RUNNING: drive_running(s, b); break;
    }
}

/* ---- notes ---- */

static void note_cancel(struct task_service *s, struct box *b, const struct ulid *task)
{
    if (b->run && ulid_eq(&b->run->id, task)) {
        b->run->cancel_asked = true;
        if (b->run->stage == RUN_RUNNING) {
            run_send_cancel(s, b);
        }
    }
    scheduler_drive(s, b);
}

/* An agent that goes on all the same is ended. */
static void note_refused(struct task_service *s, struct box *b, const struct ulid *task)
{
    if (b->run && ulid_eq(&b->run->id, task) && b->run->refused_ms == 0) {
        b->run->refused_ms = clock_mono_ms();
    }
    scheduler_drive(s, b);
}

/* Tasks that the supervisor knows and that are over here: what is left of them ends. */
static bool hello_known(struct task_service *s, struct box *b, const struct record *hello)
{
    BUF_AUTO(out, 16384);
    struct ulid own = b->run && b->run->stored ? run_id(b->run) : (struct ulid){0};
    struct str text;
    struct ulid id;
    size_t pos = 0;
    bool found = false;
    while (record_each_of(hello, &pos, "task", &text)) {
        if (!ulid_parse(text, &id)) {
            continue;
        }
        found = found || ulid_eq(&id, &own);
        if (!scheduler_is_stale(s, b, &id)) {
            continue;
        }
        struct record_writer w = record_begin(&out, "cancel");
        record_adds(&w, "task_id", id.text);
        record_addn(&w, "grace_ms", TASK_CANCEL_GRACE_MS);
        (void)record_end(&w);
    }
    channel_send(s->channel, &b->id, b->serial, &out);
    return found;
}

/* Another boot: why the one before ended is known when nobody stopped it in order. */
static void hello_restarted(struct task_service *s, struct box *b)
{
    struct sandbox_view view;
    struct err ignored;
    char reason[32] = "sandbox_stopped";
    const char *message = "";
    if (sandbox_look(s->sandboxes, &b->id, &view, &ignored) == 0) {
        outcome_sandbox_end(&view, reason, &message);
    }
    if (strcmp(reason, "sandbox_stopped") == 0) {
        (void)snprintf(reason, sizeof(reason), "sandbox_restarted");
        message = "the sandbox was started anew while the agent worked";
    }
    run_abandon(s, b, reason, message);
}

static void hello_running(struct task_service *s, struct box *b, bool known)
{
    struct run *run = b->run;
    if (strcmp(run->boot_id, b->boot_id) != 0) {
        hello_restarted(s, b);
        return;
    }
    if (!known) {
        /* The word to start it was lost with us; saying it again is the first time over there. */
        if (run->cancel_asked || run->state.terminal) {
            run_abandon(s, b, "sandbox_unavailable", "");
        } else {
            run_launch(s, b);
        }
        return;
    }
    if (run->cancel_asked || run->timed_out) {
        run_send_cancel(s, b);
    } else if (run->state.terminal) {
        run_send_finish(s, b);
    }
}

static void note_hello(struct task_service *s, struct box *b, const struct note *note)
{
    struct record hello = {.kind = STR("hello"), .fields = str_n(note->bytes, note->len)};
    struct str boot = record_get(&hello, "boot_id");
    b->serial = note->serial;
    (void)snprintf(b->boot_id, sizeof(b->boot_id), "%.*s", STR_FMT(boot));
    if (!b->run && b->drop_at_ms == 0) {
        drive_next(s, b);
    }
    bool known = hello_known(s, b, &hello);
    if (b->run && b->run->stage == RUN_RUNNING && !b->job) {
        hello_running(s, b, known);
    }
    scheduler_drive(s, b);
}

static void note_gone(struct task_service *s, struct box *b, uint64_t serial)
{
    if (b->serial == serial) {
        b->serial = 0;
    }
    scheduler_drive(s, b);
}

static void note_one(struct task_service *s, struct note *note)
{
    struct box *b = box_get(s, &note->sandbox);
    switch (note->kind) {
    case NOTE_LOOK: scheduler_drive(s, b); break;
    case NOTE_CANCEL: note_cancel(s, b, &note->task); break;
    case NOTE_REFUSED: note_refused(s, b, &note->task); break;
    case NOTE_HELLO: note_hello(s, b, note); break;
    case NOTE_GONE: note_gone(s, b, note->serial); break;
    case NOTE_PREPARED: {
        struct prepare_job *job = note->job;
        note->job = NULL;
        run_prepared(s, b, job);
        break;
    }
    case NOTE_RECORD: lines_take(s, b, &note, 1); break;
    }
}

static void note_free(struct note *note)
{
    prepare_job_free(note->job);
    free(note->bytes);
    free(note);
}

static bool note_goes_with(const struct note *first, const struct note *note)
{
    return note && note->kind == NOTE_RECORD && note->serial == first->serial;
}

/* Takes the records of one connection that stand together, as one batch. Returns what follows. */
static struct note *note_records(struct task_service *s, struct note *first)
{
    struct note *batch[SCHEDULER_BATCH_MAX];
    struct note *next = first;
    uint64_t serial = first->serial;
    size_t count = 0;
    size_t bytes = 0;
    while (note_goes_with(first, next) && count < SCHEDULER_BATCH_MAX) {
        batch[count++] = next;
        bytes += next->len;
        next = next->next;
    }
    lines_take(s, box_get(s, &first->sandbox), batch, count);
    for (size_t i = 0; i < count; i++) {
        note_free(batch[i]);
    }
    channel_consumed(s->channel, serial, bytes);
    return next;
}

static void scheduler_notes(struct task_service *s, struct note *list)
{
    while (list) {
        if (list->kind == NOTE_RECORD) {
            list = note_records(s, list);
            continue;
        }
        struct note *note = list;
        list = note->next;
        note_one(s, note);
        note_free(note);
    }
}

/* ---- the thread ---- */

static void scheduler_tick(struct task_service *s)
{
    int64_t now = clock_mono_ms();
    if (now < s->due_ms) {
        return;
    }
    s->due_ms = INT64_MAX;
    for (struct box *b = s->boxes; b; b = b->next) {
        if (b->drop_at_ms != 0 && now >= b->drop_at_ms) {
            b->drop_at_ms = 0;
            if (b->serial != 0) {
                /* It dials again and sends what was not acknowledged. */
                channel_drop(s->channel, b->serial);
                b->serial = 0;
            }
        }
        scheduler_due(s, b->drop_at_ms != 0 ? b->drop_at_ms : INT64_MAX);
        scheduler_drive(s, b);
    }
}

static void scheduler_sweep(struct task_service *s)
{
    struct ulid id;
    for (struct box **at = &s->boxes; *at;) {
        struct box *b = *at;
        if (b->serial != 0 || b->run || b->job || b->restarting || b->drop_at_ms != 0 ||
            service_open_first(s, &b->id, &id)) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        free(b);
    }
}

static struct note *scheduler_wait(struct task_service *s)
{
    LOCK_GUARD(&s->lock);
    while (!s->first && !atomic_load(&s->stopping)) {
        if (s->due_ms == INT64_MAX) {
            (void)pthread_cond_wait(&s->wake, &s->lock);
        } else if (!thread_cond_wait_until(&s->wake, &s->lock, s->due_ms)) {
            break;
        }
    }
    struct note *list = s->first;
    s->first = NULL;
    s->last = NULL;
    return list;
}

void *scheduler_run(void *service)
{
    struct task_service *s = service;
    while (!atomic_load(&s->stopping)) {
        scheduler_notes(s, scheduler_wait(s));
        scheduler_tick(s);
        scheduler_sweep(s);
    }
    return NULL;
}

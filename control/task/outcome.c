/*
 * What came of an agent's run: the end of its task, or another attempt. The scheduler's thread.
 */
#include <stdio.h>

#include "control/task/service.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"

#define OUTCOME_TEXT_BYTES  6000
#define OUTCOME_SIG_KILL    9
#define OUTCOME_EXIT_KILLED 137
static const char outcome_stuck[] =
    "; something it started could not be ended, so the sandbox is started anew";

static struct run_exit outcome_read(const struct record *r)
{
    struct run_exit x = {.stuck = record_get_bool(r, "stuck", false)};
    struct str cause = record_get(r, "cause");
    (void)snprintf(x.cause, sizeof(x.cause), "%.*s", STR_FMT(cause));
    (void)record_get_i64(r, "seq", &x.seq);
    (void)record_get_i64(r, "code", &x.code);
    (void)record_get_i64(r, "signal", &x.signal);
    return x;
}

static bool outcome_caused(const struct run_exit *x, const char *cause)
{
    return strcmp(x->cause, cause) == 0;
}

/* ---- another attempt ---- */

static bool outcome_may_try_again(const struct run *run)
{
    return !run->state.acted && !run->cancel_asked && !run->refusal_code[0] && !run->timed_out &&
           run->attempt + 1 < TASK_ATTEMPTS_MAX;
}

/* The next free model, when the provider does not know this one. */
static struct str outcome_next_model(struct task_service *s, const struct run *run)
{
    bool passes = run->state.model_unknown && !run->given && run->model_index >= 0;
    return passes ? models_free(s->config->free_models, run->model_index + 1)
                  : (struct str){NULL, 0};
}

static bool outcome_prepare_again(struct task_service *s, struct run *run, struct buf *detail)
{
    if (!outcome_may_try_again(run)) {
        return false;
    }
    if (run->state.session_lost && run->resumes && !run->new_session) {
        run->new_session = true;
        run->resumes = false;
        buf_puts(detail, "the last conversation is not there any more; a new one begins");
        return true;
    }
    struct str next = outcome_next_model(s, run);
    if (!next.ptr) {
        return false;
    }
    buf_printf(detail, "%s was passed over (%.300s); %.*s is tried", run->model,
               buf_str(&run->state.error).ptr, STR_FMT(next));
    run->model_index++;
    (void)snprintf(run->model, sizeof(run->model), "%.*s", STR_FMT(next));
    return true;
}

static void outcome_reset(struct run *run)
{
    agent_state_done(&run->state);
    agent_state_init(&run->state);
    run->seen_seq = 0;
    run->stored_seq = 0;
    run->in_parts = false;
    run->finish_sent = false;
    buf_reset(&run->err_tail);
}

static void outcome_again(struct task_service *s, struct box *b, const char *detail,
                          int64_t exit_seq)
{
    struct run *run = b->run;
    struct ulid before = run_id(run);
    struct err e;
    run->attempt++;
    if (run_store_attempt(s, run, detail, &e) != 0) {
        log_error("another attempt could not be stored", "task_id", run->id.text, "error", e.msg);
        run_begin_anew(s, b);
        return;
    }
    run_send_ack(s, b, &before, exit_seq);
    outcome_reset(run);
    run_launch(s, b);
}

/* ---- the end ---- */

struct outcome outcome_refused(const struct run *run)
{
    return strcmp(run->refusal_code, "budget_reached") == 0
               ? (struct outcome){TASK_BUDGET_REACHED, "budget_reached"}
               : (struct outcome){TASK_FAILED, run->refusal_code};
}

static bool outcome_was_killed(const struct run_exit *x)
{
    return x->signal == OUTCOME_SIG_KILL || x->code == OUTCOME_EXIT_KILLED;
}

/* The kernel's part in it, when it had one: then that is the reason, whatever the agent made of it.
 */
static bool outcome_blames_memory(const struct run *run, const struct run_exit *x,
                                  struct buf *message, const char **ret_reason)
{
    static const struct {
        const char *tag;
        const char *reason;
    } reasons[] = {{"host_out_of_memory", "host_out_of_memory"},
                   {"out_of_memory", "out_of_memory"}};
    struct err heap;
    if (sandbox_is_node_heap(x->code, x->signal, buf_str(&run->err_tail), &heap)) {
        buf_printf(message, "; %s", heap.msg);
        *ret_reason = "node_heap_limit";
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (strcmp(run->kill.tag, reasons[i].tag) == 0) {
            buf_printf(message, "; %s", run->kill.msg);
            *ret_reason = reasons[i].reason;
            return true;
        }
    }
    return false;
}

static struct outcome outcome_of_process(const struct run *run, const struct run_exit *x,
                                         struct buf *message)
{
    const char *name = run->agent->label;
    const char *reason = x->signal == 0 && x->code == 0 ? "no_result" : "agent_error";
    if (x->signal != 0) {
        buf_printf(message, "%s was ended by signal %lld", name, (long long)x->signal);
    } else if (x->code != 0) {
        buf_printf(message, "%s exited with %lld", name, (long long)x->code);
    } else {
        buf_printf(message, "%s left without saying that it was done", name);
    }
    if (!outcome_blames_memory(run, x, message, &reason) && run->err_tail.len > 0) {
        struct str tail = str_trim(buf_str(&run->err_tail));
        buf_printf(message, ": %.*s", STR_FMT(tail));
    }
    return (struct outcome){TASK_FAILED, reason};
}

static struct outcome outcome_failed(struct task_service *s, const struct run *run,
                                     const struct run_exit *x, struct buf *message)
{
    const char *reason = run->state.reason[0] ? run->state.reason : "agent_error";
    buf_add_str(message, buf_str(&run->state.error));
    if (run->state.model_unknown && run->model_index >= 0) {
        buf_printf(message,
                   "; no other free model is left: name one that the provider has in "
                   "SANDBOXD_OPENCODE_FREE_MODEL (now \"%.200s\"), or store a key",
                   s->config->free_models);
    }
    if (strcmp(reason, "agent_error") == 0) {
        (void)outcome_blames_memory(run, x, message, &reason);
    }
    return (struct outcome){TASK_FAILED, reason};
}

static struct outcome outcome_decide(struct task_service *s, const struct run *run,
                                     const struct run_exit *x, struct buf *message)
{
    const struct agent_state *st = &run->state;
    bool by_itself = outcome_caused(x, "exit") || outcome_caused(x, "ended");
    if (st->terminal && !st->failed) {
        return (struct outcome){TASK_SUCCEEDED, ""};
    }
    if (run->refusal_code[0] && !run->cancel_asked) {
        buf_puts(message, run->refusal);
        return outcome_refused(run);
    }
    if (outcome_caused(x, "timeout") || (run->timed_out && !by_itself)) {
        buf_printf(message, "the task took longer than its %lld s",
                   (long long)(run->timeout_ms / 1000));
        return (struct outcome){TASK_TIMED_OUT, "timeout"};
    }
    if (run->cancel_asked && !st->terminal) {
        return (struct outcome){TASK_CANCELLED, ""};
    }
    if (outcome_caused(x, "cancelled")) {
        buf_puts(message, "the sandbox was stopped while the agent worked");
        return (struct outcome){TASK_INTERRUPTED, "sandbox_stopped"};
    }
    if (st->failed) {
        return outcome_failed(s, run, x, message);
    }
    if (st->settled && x->code == 0 && x->signal == 0) {
        return (struct outcome){TASK_SUCCEEDED, ""};
    }
    return outcome_of_process(run, x, message);
}

void outcome_sandbox_end(const struct sandbox_view *view, char reason[32], const char **ret_message)
{
    static const struct {
        const char *code;
        const char *message;
    } known[] = {
        {"memory", "stopped for memory: the machine ran out of it while the agent worked; what it "
                   "did so far is kept; stop other apps or use a bigger machine, then try again"},
        {"out_of_memory", "the sandbox reached its memory limit and was killed by the kernel while "
                          "the agent worked; give it more memory or make the app use less"},
        {"host_out_of_memory", "the machine had no memory left and the kernel killed the sandbox "
                               "while the agent worked; stop other apps or use a bigger machine"},
    };

    (void)snprintf(reason, 32, "sandbox_stopped");
    *ret_message = "the sandbox ended while the agent worked";
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(view->end_code, known[i].code) == 0) {
            (void)snprintf(reason, 32, "%s", known[i].code);
            *ret_message = known[i].message;
        }
    }
}

/* A sandbox that leaves because of memory takes its agent along, however that shows. */
static bool outcome_leaves(struct task_service *s, const struct box *b, struct buf *message,
                           char reason[32])
{
    struct sandbox_view view;
    struct err ignored;
    const char *why = "";
    const struct agent_state *st = &b->run->state;
    if ((st->terminal && !st->failed) || b->run->cancel_asked ||
        sandbox_look(s->sandboxes, &b->id, &view, &ignored) != 0 ||
        view.status == SANDBOX_STARTING || strcmp(view.end_code, "memory") != 0) {
        return false;
    }
    outcome_sandbox_end(&view, reason, &why);
    buf_reset(message);
    buf_puts(message, why);
    return true;
}

static void outcome_settle(struct task_service *s, struct box *b, const struct run_exit *x)
{
    BUF_AUTO(text, OUTCOME_TEXT_BYTES);
    struct ulid id = run_id(b->run);
    struct ulid task = b->run->id;
    char reason[32];
    struct outcome o = {TASK_INTERRUPTED, NULL};
    b->run->exit_waits = false;
    run_load_refusal(s, b->run);
    if (b->run->refusal_code[0] || !outcome_leaves(s, b, &text, reason)) {
        if (outcome_prepare_again(s, b->run, &text)) {
            outcome_again(s, b, text.ptr, x->seq);
            return;
        }
        o = outcome_decide(s, b->run, x, &text);
        (void)snprintf(reason, sizeof(reason), "%s", o.reason);
    }
    if (x->stuck) {
        buf_puts(&text, text.len > 0 ? outcome_stuck : outcome_stuck + 2);
        b->restarting = true;
        b->restart_ticket = 0;
    }
    run_end(s, b, o.status, reason, text.ptr);
    /* Only what is on disk may be forgotten over there. */
    if (!service_open_has(s, &task)) {
        run_send_ack(s, b, &id, x->seq);
    }
}

bool outcome_look(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    if (!run->exit_waits) {
        return false;
    }
    if (run->kill.code == ERR_NONE && clock_mono_ms() < run->exit_by_ms) {
        scheduler_due(s, run->exit_by_ms);
        return false;
    }
    struct run_exit x = run->exit;
    outcome_settle(s, b, &x);
    return true;
}

void outcome_exit(struct task_service *s, struct box *b, const struct record *exit)
{
    struct run *run = b->run;
    run->exit = outcome_read(exit);
    run->exit_waits = true;
    bool done = run->state.terminal && !run->state.failed;
    bool asks = outcome_was_killed(&run->exit) && !done && !run->cancel_asked;
    run->exit_by_ms = clock_mono_ms() + (asks ? TASK_KILL_WAIT_MS : 0);
    (void)outcome_look(s, b);
}

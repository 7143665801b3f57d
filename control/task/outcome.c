/*
 * What came of an agent's run: the end of its task, or another attempt. The scheduler's thread.
 */
#include <stdio.h>

#include "control/task/service.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"

#define OUTCOME_TEXT_BYTES 6000
static const char outcome_stuck[] =
    "; something it started could not be ended, so the sandbox is started anew";

struct outcome_exit {
    int64_t seq;
    int64_t code;
    int64_t signal;
    struct str cause;
    bool stuck;
};

static struct outcome_exit outcome_read(const struct record *r)
{
    struct outcome_exit x = {.cause = record_get(r, "cause"),
                             .stuck = record_get_bool(r, "stuck", false)};
    (void)record_get_i64(r, "seq", &x.seq);
    (void)record_get_i64(r, "code", &x.code);
    (void)record_get_i64(r, "signal", &x.signal);
    return x;
}

/* ---- another attempt ---- */

static bool outcome_may_try_again(const struct run *run)
{
    return !run->state.acted && !run->cancel_asked && !run->timed_out &&
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

struct outcome {
    enum task_status status;
    const char *reason;
};

static struct outcome outcome_of_process(const struct run *run, const struct outcome_exit *x,
                                         struct buf *message)
{
    const char *name = run->agent->label;
    if (x->signal != 0) {
        buf_printf(message, "%s was ended by signal %lld%s", name, (long long)x->signal,
                   x->signal == 9 ? "; the sandbox may be out of memory" : "");
    } else if (x->code != 0) {
        buf_printf(message, "%s exited with %lld", name, (long long)x->code);
    } else {
        buf_printf(message, "%s left without saying that it was done", name);
    }
    if (run->err_tail.len > 0) {
        struct str tail = str_trim(buf_str(&run->err_tail));
        buf_printf(message, ": %.*s", STR_FMT(tail));
    }
    return (struct outcome){TASK_FAILED,
                            x->signal == 0 && x->code == 0 ? "no_result" : "agent_error"};
}

static struct outcome outcome_failed(struct task_service *s, const struct run *run,
                                     struct buf *message)
{
    buf_add_str(message, buf_str(&run->state.error));
    if (run->state.model_unknown && run->model_index >= 0) {
        buf_printf(message,
                   "; no other free model is left: name one that the provider has in "
                   "SANDBOXD_OPENCODE_FREE_MODEL (now \"%.200s\"), or store a key",
                   s->config->free_models);
    }
    return (struct outcome){TASK_FAILED, run->state.reason[0] ? run->state.reason : "agent_error"};
}

static struct outcome outcome_decide(struct task_service *s, const struct run *run,
                                     const struct outcome_exit *x, struct buf *message)
{
    const struct agent_state *st = &run->state;
    bool by_itself = str_is(x->cause, "exit") || str_is(x->cause, "ended");
    if (st->terminal && !st->failed) {
        return (struct outcome){TASK_SUCCEEDED, ""};
    }
    if (str_is(x->cause, "timeout") || (run->timed_out && !by_itself)) {
        buf_printf(message, "the task took longer than its %lld s",
                   (long long)(run->timeout_ms / 1000));
        return (struct outcome){TASK_TIMED_OUT, "timeout"};
    }
    if (run->cancel_asked && !st->terminal) {
        return (struct outcome){TASK_CANCELLED, ""};
    }
    if (str_is(x->cause, "cancelled")) {
        buf_puts(message, "the sandbox was stopped while the agent worked");
        return (struct outcome){TASK_INTERRUPTED, "sandbox_stopped"};
    }
    if (st->failed) {
        return outcome_failed(s, run, message);
    }
    if (st->settled && x->code == 0 && x->signal == 0) {
        return (struct outcome){TASK_SUCCEEDED, ""};
    }
    return outcome_of_process(run, x, message);
}

void outcome_exit(struct task_service *s, struct box *b, const struct record *exit)
{
    BUF_AUTO(text, OUTCOME_TEXT_BYTES);
    struct outcome_exit x = outcome_read(exit);
    struct ulid id = run_id(b->run);
    struct ulid task = b->run->id;
    if (outcome_prepare_again(s, b->run, &text)) {
        outcome_again(s, b, text.ptr, x.seq);
        return;
    }
    struct outcome o = outcome_decide(s, b->run, &x, &text);
    if (x.stuck) {
        buf_puts(&text, text.len > 0 ? outcome_stuck : outcome_stuck + 2);
        b->restarting = true;
        b->restart_ticket = 0;
    }
    char reason[32];
    (void)snprintf(reason, sizeof(reason), "%s", o.reason);
    run_end(s, b, o.status, reason, text.ptr);
    /* Only what is on disk may be forgotten over there. */
    if (!service_open_has(s, &task)) {
        run_send_ack(s, b, &id, x.seq);
    }
}

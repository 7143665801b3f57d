/*
 * Taking up a task that was running when the last process of ours ended: from its row and its
 * events alone. The scheduler's thread.
 */
#include <stdio.h>

#include "control/task/service.h"
#include "lib/clock.h"
#include "lib/json_read.h"
#include "lib/mem.h"

#define RESUME_PAGE            64
#define RESUME_ARENA_BYTES_MAX (96UL * 1024 * 1024)
#define RESUME_TOKEN_BYTES_MAX 256
#define RESUME_MESSAGE_MAX     (256UL * 1024)

static void resume_flag(const struct json_value *facts, const char *key, bool *flag)
{
    (void)json_get_bool(facts, key, flag);
}

static void resume_facts(struct run *run, const char *stored)
{
    struct agent_state *st = &run->state;
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err e;
    if (!stored[0] || json_parse(str_of(stored), &doc, &e) != 0) {
        return;
    }
    const struct json_value *facts = json_root(doc);
    struct str text = json_get_str(facts, "reason");
    resume_flag(facts, "terminal", &st->terminal);
    resume_flag(facts, "settled", &st->settled);
    resume_flag(facts, "failed", &st->failed);
    resume_flag(facts, "acted", &st->acted);
    resume_flag(facts, "model_unknown", &st->model_unknown);
    resume_flag(facts, "session_lost", &st->session_lost);
    (void)json_get_int(facts, "tokens_input", &st->tokens_input);
    (void)json_get_int(facts, "tokens_output", &st->tokens_output);
    (void)json_get_int(facts, "tokens_cached", &st->tokens_cached);
    (void)snprintf(st->reason, sizeof(st->reason), "%.*s", STR_FMT(text));
    buf_reset(&st->error);
    buf_add_str(&st->error, json_get_str(facts, "error"));
    text = json_get_str(facts, "message");
    if (text.len > 0) {
        buf_reset(&st->message);
        buf_add_str(&st->message, text);
    }
}

static void resume_attempt(struct run *run, const struct json_value *event)
{
    struct str model = json_get_str(event, "model");
    int64_t index = -1;
    int64_t attempt = 0;
    (void)json_get_int(event, "model_index", &index);
    (void)json_get_int(event, "attempt", &attempt);
    (void)json_get_bool(event, "model_given", &run->given);
    (void)json_get_bool(event, "new_session", &run->new_session);
    (void)json_get_bool(event, "resumes", &run->resumes);
    (void)snprintf(run->model, sizeof(run->model), "%.*s", STR_FMT(model));
    run->model_index = (int)index;
    /* What came before belongs to an attempt that is over. */
    agent_state_done(&run->state);
    agent_state_init(&run->state);
}

static void resume_event(struct run *run, const struct task_event_row *row)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err e;
    if (json_parse(str_of(row->data), &doc, &e) != 0) {
        return;
    }
    const struct json_value *event = json_root(doc);
    run->events++;
    run->event_bytes += (int64_t)strlen(row->data);
    if (strcmp(row->type, "message") == 0) {
        struct str text = json_get_str(event, "text");
        run->state.acted = true;
        buf_reset(&run->state.message);
        buf_add_str(&run->state.message, str_cut(text, 0, RESUME_MESSAGE_MAX));
    } else if (strcmp(row->type, "tool") == 0) {
        run->state.acted = true;
    } else if (strcmp(row->type, "notice") == 0) {
        run->notices++;
    } else if (json_get_str(event, "model").ptr) {
        resume_attempt(run, event);
    } else if (str_is(json_get_str(event, "status"), "cancelling")) {
        run->cancel_asked = true;
    }
}

static int resume_events(struct task_service *s, struct run *run, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(RESUME_ARENA_BYTES_MAX);
    int64_t after = 0;
    size_t count = 0;
    do {
        struct task_event_row *rows = NULL;
        arena_reset(a);
        if (tasks_events(s->db, &run->id, after, RESUME_PAGE, a, &rows, &count, e) != 0) {
            return -1;
        }
        for (size_t i = 0; i < count; i++) {
            resume_event(run, &rows[i]);
            after = rows[i].seq;
        }
    } while (count == RESUME_PAGE);
    return 0;
}

static int resume_token(struct task_service *s, struct box *b, const struct task_row *row,
                        struct err *e)
{
    BUF_AUTO(token, RESUME_TOKEN_BYTES_MAX);
    if (vault_restore(s->vault, &row->id, &b->id, b->run->agent, str_of(row->token_box), &token,
                      e) != 0) {
        return -1;
    }
    b->run->token = buf_take(&token);
    return 0;
}

int resume_run(struct task_service *s, struct box *b, const struct ulid *id, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(16UL * 1024 * 1024);
    struct task_row row;
    const char *facts = "";
    if (tasks_get(s->db, id, a, &row, e) != 0 || tasks_facts(s->db, id, a, &facts, e) != 0 ||
        run_take(s, b, &row, e) != 0) {
        return -1;
    }
    struct run *run = b->run;
    if (resume_events(s, run, e) != 0) {
        return -1;
    }
    resume_facts(run, facts);
    if (row.status != TASK_RUNNING) {
        return 0; /* it waits for its turn, or for its sandbox */
    }
    run->stage = RUN_RUNNING;
    run->stored = true;
    run->attempt = (int)(row.line_seq >> TASK_SEQ_BITS) % TASK_ATTEMPTS_MAX;
    run->stored_seq = row.line_seq & ((INT64_C(1) << TASK_SEQ_BITS) - 1);
    run->seen_seq = run->stored_seq;
    (void)snprintf(run->boot_id, sizeof(run->boot_id), "%s", row.boot_id);
    (void)snprintf(run->state.session, sizeof(run->state.session), "%s", row.session);
    int64_t left_ms = row.started_at + run->timeout_ms - clock_unix_ms();
    left_ms = left_ms < 0 ? 0 : left_ms > run->timeout_ms ? run->timeout_ms : left_ms;
    run->deadline_ms = clock_mono_ms() + left_ms;
    scheduler_due(s, run->deadline_ms + TASK_OVERTIME_MS);
    return resume_token(s, b, &row, e);
}

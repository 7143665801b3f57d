/*
 * One task's run: launching it, records to the supervisor, its end. The scheduler's thread.
 */
#include <stdio.h>

#include "control/http/http.h"
#include "control/store/events.h"
#include "control/task/service.h"
#include "control/vault/app_config.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"

#define RUN_ARENA_BYTES_MAX (4UL * 1024 * 1024)
#define RUN_RECORDS_MAX     (1024UL * 1024)
#define RUN_STDIN_PART      32768
#define RUN_TOKEN_BYTES_MAX 256
#define RUN_ANEW_MS         2000
#define RUN_MODELS_MAX      16
#define RUN_CWD             "/home/sandbox/workspace/app"
#define RUN_TEXT_MAX        (8UL * 1024 * 1024)

/* ---- taking and dropping ---- */

int run_take(struct task_service *s, struct box *b, const struct task_row *row, struct err *e)
{
    const struct vault_agent *agent = vault_agent_find(s->vault, str_of(row->agent));
    const struct agent_adapter *adapter = agent_find(row->agent);
    if (!agent || !adapter) {
        return err_set(e, ERR_INVALID, 0, "this version knows no agent \"%s\"", row->agent);
    }
    struct run *run = mem_alloc(sizeof(*run));
    run->id = row->id;
    run->app_id = row->app_id;
    run->agent = agent;
    run->adapter = adapter;
    run->timeout_ms = row->timeout_s * 1000;
    run->given = row->model[0] != '\0';
    run->model_index = -1;
    run->kill_ms = clock_mono_ms();
    (void)snprintf(run->model, sizeof(run->model), "%s", row->model);
    agent_state_init(&run->state);
    buf_init(&run->line, TASK_LINE_BYTES_MAX);
    buf_init(&run->err_tail, TASK_ERR_TAIL_BYTES);
    b->run = run;
    sandbox_hold_task(s->sandboxes, &b->id, 1);
    return 0;
}

void run_drop(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    if (!run) {
        return;
    }
    b->run = NULL;
    sandbox_hold_task(s->sandboxes, &b->id, -1);
    if (run->token) {
        mem_wipe(run->token, strlen(run->token));
    }
    free(run->token);
    free(run->token_box);
    masking_done(run);
    agent_state_done(&run->state);
    buf_done(&run->line);
    buf_done(&run->err_tail);
    free(run);
}

void run_begin_anew(struct task_service *s, struct box *b)
{
    run_drop(s, b);
    b->drop_at_ms = clock_mono_ms() + RUN_ANEW_MS;
    scheduler_due(s, b->drop_at_ms);
}

struct ulid run_id(const struct run *run)
{
    struct ulid id = run->id;
    /* The first character of an id of this millennium is 0. */
    id.text[0] = (char)('0' + run->attempt);
    return id;
}

/* ---- events ---- */

static void run_kick(const struct run *run)
{
    char key[TASK_KEY_BYTES];
    task_key(&run->id, key);
    http_kick(key);
}

void run_event(struct task_service *s, const struct run *run, const char *type, struct str fields)
{
    struct task_event_new event = {.type = type, .fields = fields};
    struct err e;
    if (tasks_add_events(s->db, &run->id, &event, 1, -1, &e) != 0) {
        log_warn("an event of a task was not stored", "task_id", run->id.text, "error", e.msg);
    }
    run_kick(run);
}

/* Members of an object that a writer made. */
static struct str run_members(const struct buf *object)
{
    return object->len >= 2 ? str_cut(buf_str(object), 1, object->len - 1) : STR("");
}

void run_status(struct task_service *s, const struct run *run, const char *status,
                const char *detail)
{
    BUF_AUTO(out, 8192);
    struct json_writer w;
    json_begin(&w, &out);
    json_object(&w, NULL);
    json_text(&w, "status", status);
    json_text(&w, "detail", detail);
    json_object_end(&w);
    if (buf_ok(&out)) {
        run_event(s, run, "status", run_members(&out));
    }
}

int run_store_attempt(struct task_service *s, struct run *run, const char *detail, struct err *e)
{
    BUF_AUTO(out, 16384);
    struct json_writer w;
    json_begin(&w, &out);
    json_object(&w, NULL);
    json_text(&w, "status", "running");
    json_text(&w, "detail", detail);
    json_text(&w, "model", run->model);
    json_bool(&w, "model_given", run->given);
    json_int(&w, "model_index", run->model_index);
    json_int(&w, "attempt", run->attempt);
    json_bool(&w, "new_session", run->new_session);
    json_bool(&w, "resumes", run->resumes);
    json_object_end(&w);
    struct task_event_new event = {.type = "status", .fields = run_members(&out)};
    int64_t line_seq = (int64_t)run->attempt << TASK_SEQ_BITS;
    if (!buf_ok(&out) || tasks_set_model(s->db, &run->id, run->model, e) != 0 ||
        tasks_add_lines(s->db, &run->id, &event, 1, line_seq, "", e) != 0) {
        return -1;
    }
    run_kick(run);
    return 0;
}

static void run_tell(struct task_service *s, const struct box *b, const char *kind,
                     const char *severity, const char *payload)
{
    events_add(s->db, &(struct event_row){.kind = kind,
                                          .severity = severity,
                                          .app_id = b->run->app_id.text,
                                          .sandbox_id = b->id.text,
                                          .task_id = b->run->id.text,
                                          .payload = payload});
}

/* ---- records to the supervisor ---- */

static void run_send(struct task_service *s, const struct box *b, struct buf *frames)
{
    channel_send(s->channel, &b->id, b->serial, frames);
}

void run_send_ack(struct task_service *s, const struct box *b, const struct ulid *id, int64_t seq)
{
    BUF_AUTO(out, 256);
    struct record_writer w = record_begin(&out, "ack");
    record_adds(&w, "task_id", id->text);
    record_addn(&w, "seq", seq);
    (void)record_end(&w);
    run_send(s, b, &out);
}

void run_send_cancel(struct task_service *s, struct box *b)
{
    BUF_AUTO(out, 256);
    struct ulid id = run_id(b->run);
    struct record_writer w = record_begin(&out, "cancel");
    record_adds(&w, "task_id", id.text);
    record_addn(&w, "grace_ms", TASK_CANCEL_GRACE_MS);
    (void)record_end(&w);
    if (b->run->cancel_sent_ms == 0) {
        b->run->cancel_sent_ms = clock_mono_ms();
        scheduler_due(s, b->run->cancel_sent_ms + TASK_ABANDON_MS);
    }
    run_send(s, b, &out);
}

void run_send_finish(struct task_service *s, struct box *b)
{
    BUF_AUTO(out, 256);
    struct ulid id = run_id(b->run);
    struct record_writer w = record_begin(&out, "finish");
    record_adds(&w, "task_id", id.text);
    record_addn(&w, "after_ms", TASK_FINISH_AFTER_MS);
    (void)record_end(&w);
    b->run->finish_sent = true;
    run_send(s, b, &out);
}

static void run_send_stdin(struct buf *out, const struct ulid *id, struct str text)
{
    for (size_t at = 0; at < text.len; at += RUN_STDIN_PART) {
        struct record_writer w = record_begin(out, "stdin");
        record_adds(&w, "task_id", id->text);
        record_add(&w, "data", str_cut(text, at, at + RUN_STDIN_PART));
        (void)record_end(&w);
    }
}

/* What drives the agent wins over what the owner gave it. */
static bool run_env_has(const char *const *env, const char *pair)
{
    size_t len = (size_t)(str_find(str_of(pair), '=') + 1);
    for (size_t i = 0; env[i]; i++) {
        if (strncmp(env[i], pair, len) == 0) {
            return true;
        }
    }
    return false;
}

static int run_send_start(struct task_service *s, struct box *b, const struct agent_run *a)
{
    BUF_AUTO(out, RUN_RECORDS_MAX);
    struct ulid id = run_id(b->run);
    int64_t left_ms = b->run->deadline_ms - clock_mono_ms();
    struct record_writer w = record_begin(&out, "start");
    record_adds(&w, "task_id", id.text);
    for (size_t i = 0; a->argv[i]; i++) {
        record_adds(&w, "argv", a->argv[i]);
    }
    for (size_t i = 0; a->env[i]; i++) {
        record_adds(&w, "env", a->env[i]);
    }
    for (size_t i = 0; a->config[i]; i++) {
        if (!run_env_has(a->env, a->config[i])) {
            record_adds(&w, "env", a->config[i]);
        }
    }
    record_adds(&w, "cwd", RUN_CWD);
    record_addn(&w, "timeout_ms", left_ms > 1 ? left_ms : 1);
    record_addn(&w, "stdin_bytes", (int64_t)strlen(a->stdin_text));
    if (!record_end(&w)) {
        return -1;
    }
    run_send_stdin(&out, &id, str_of(a->stdin_text));
    run_send(s, b, &out);
    return 0;
}

/* ---- launching ---- */

static int run_get_token(struct task_service *s, struct box *b, struct err *e)
{
    BUF_AUTO(token, RUN_TOKEN_BYTES_MAX);
    BUF_AUTO(box, 4 * RUN_TOKEN_BYTES_MAX);
    struct run *run = b->run;
    if (run->token) {
        return 0;
    }
    if (vault_grant(s->vault, &run->id, &b->id, run->agent, &token, &box, e) != 0) {
        return -1;
    }
    run->token = buf_take(&token);
    run->token_box = buf_take(&box);
    return 0;
}

/* The other free models, for an agent that runs without a key. */
static const char *const *run_other_models(struct task_service *s, const struct run *run,
                                           struct arena *a)
{
    const char **list = arena_alloc(a, (RUN_MODELS_MAX + 1) * sizeof(*list));
    size_t count = 0;
    for (int i = 0; models_keyless(s, run->agent) && count < RUN_MODELS_MAX; i++) {
        struct str model = models_free(s->config->free_models, i);
        if (!model.ptr) {
            break;
        }
        bool known = str_is(model, run->model);
        for (size_t k = 0; k < count; k++) {
            known = known || str_is(model, list[k]);
        }
        if (!known) {
            list[count++] = arena_str(a, model);
        }
    }
    return list;
}

/* Where the agent finds its provider behind the door, and how it speaks with it. */
static int run_fill_provider(struct task_service *s, const struct run *run, struct agent_run *out,
                             struct err *e)
{
    const struct vault_provider *p = vault_provider_find(s->vault, str_of(out->provider));
    enum vault_dialect dialect;
    if (!p || !vault_agent_dialect(run->agent, p, &dialect)) {
        return err_set(e, ERR_INVALID, 0, "%s and %s do not speak the same language",
                       run->agent->label, out->provider);
    }
    out->agent = run->agent;
    out->provider_name = vault_agent_name(run->agent, out->provider);
    out->base_path = p->dialects[dialect];
    out->speaks_anthropic = dialect == VAULT_ANTHROPIC;
    return 0;
}

static int run_fill(struct task_service *s, struct box *b, struct prepare_job *job, struct err *e)
{
    struct run *run = b->run;
    struct task_row row;
    struct str provider;
    const char *session = "";
    if (tasks_get(s->db, &run->id, job->arena, &row, e) != 0 ||
        (!run->new_session &&
         tasks_last_session(s->db, &b->id, run->agent->id, job->arena, &session, e) != 0)) {
        return -1;
    }
    run->resumes = session[0] != '\0';
    models_split(s, run->agent, run->model, &provider, &job->run.model);
    job->run.model = arena_strdup(job->arena, job->run.model);
    job->run.provider = arena_str(job->arena, provider);
    if (run_fill_provider(s, run, &job->run, e) != 0) {
        return -1;
    }
    if (vault_config_agent_env(s->vault, &run->app_id, job->arena, &job->run.config, e) != 0) {
        return -1;
    }
    job->run.other_models = run_other_models(s, run, job->arena);
    job->run.session = session;
    job->run.token = arena_strdup(job->arena, run->token);
    job->run.prompt = row.prompt;
    job->run.arena = job->arena;
    return run->adapter->prepare(&job->run, e);
}

static int run_make_job(struct task_service *s, struct box *b, struct err *e)
{
    struct sandbox_view view;
    if (sandbox_look(s->sandboxes, &b->id, &view, e) != 0 || models_choose(s, b->run, e) != 0 ||
        run_get_token(s, b, e) != 0) {
        return -1;
    }
    struct prepare_job *job = mem_alloc(sizeof(*job));
    job->arena = arena_new(RUN_ARENA_BYTES_MAX);
    job->sandbox = b->id;
    job->task = b->run->id;
    job->uid = view.uid;
    if (run_fill(s, b, job, e) != 0) {
        prepare_job_free(job);
        return -1;
    }
    b->job = job;
    prepare_ask(s, job);
    return 0;
}

void run_launch(struct task_service *s, struct box *b)
{
    struct err e = {0};
    if (b->job) {
        return; /* asked again when that one is back */
    }
    if (run_make_job(s, b, &e) != 0) {
        run_end(s, b, TASK_FAILED, e.tag[0] ? e.tag : "sandbox_unavailable", e.msg);
        return;
    }
    if (!b->run->stored) {
        b->run->stage = RUN_PREPARING;
    }
}

/* queued → running. False: the run is over or begins anew. */
static bool run_mark(struct task_service *s, struct box *b)
{
    struct run *run = b->run;
    struct err e;
    char detail[TASK_MODEL_BYTES_MAX + 128];
    (void)snprintf(detail, sizeof(detail), "%s with %s", run->agent->label, run->model);
    if (run_store_attempt(s, run, detail, &e) != 0 ||
        tasks_mark_running(s->db, &run->id, b->boot_id, run->token_box, &e) != 0) {
        if (e.code == ERR_CONFLICT) { /* it was cancelled in this moment */
            vault_revoke(s->vault, &run->id);
            run_drop(s, b);
            service_look(s, &b->id);
            return false;
        }
        log_error("a task could not be started", "task_id", run->id.text, "error", e.msg);
        vault_revoke(s->vault, &run->id);
        run_begin_anew(s, b);
        return false;
    }
    run->stored = true;
    run->stage = RUN_RUNNING;
    run->kill_ms = clock_mono_ms();
    (void)snprintf(run->boot_id, sizeof(run->boot_id), "%s", b->boot_id);
    run->deadline_ms = clock_mono_ms() + run->timeout_ms;
    scheduler_due(s, run->deadline_ms + TASK_OVERTIME_MS);
    service_open_running(s, &run->id);
    run_tell(s, b, "task.started", "info", "{}");
    return true;
}

void run_prepared(struct task_service *s, struct box *b, struct prepare_job *job)
{
    struct run *run = b->run;
    b->job = NULL;
    if (!run || !ulid_eq(&run->id, &job->task)) {
        scheduler_drive(s, b);
    } else if (run->cancel_asked && !run->stored) {
        run_end(s, b, TASK_CANCELLED, "", "");
    } else if (job->err.code != ERR_NONE) {
        run_end(s, b, TASK_FAILED, "sandbox_unavailable", job->err.msg);
    } else if (b->serial == 0) {
        run->stage = run->stored ? RUN_RUNNING : RUN_WAITING;
        scheduler_drive(s, b);
    } else if (run->stored && strcmp(run->boot_id, b->boot_id) != 0) {
        run_end(s, b, TASK_INTERRUPTED, "sandbox_restarted",
                "the sandbox was started anew while the agent worked");
    } else if ((run->stored || run_mark(s, b)) && run_send_start(s, b, &job->run) != 0) {
        run_end(s, b, TASK_FAILED, "agent_error", "the agent's command is too long");
    }
    prepare_job_free(job);
}

/* ---- the end ---- */

static void run_done_fields(const struct task_row *row, struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "status", task_status_name(row->status));
    json_text(&w, "failure_reason", row->failure_reason[0] ? row->failure_reason : NULL);
    json_text(&w, "error_message", row->error_message[0] ? row->error_message : NULL);
    json_text(&w, "agent_message", row->agent_message[0] ? row->agent_message : NULL);
    json_object_end(&w);
}

static void run_tell_end(struct task_service *s, const struct box *b, const struct task_row *row)
{
    char kind[40];
    char payload[128];
    (void)snprintf(kind, sizeof(kind), "task.%s", task_status_name(row->status));
    (void)snprintf(payload, sizeof(payload), "{\"agent\":\"%s\",\"reason\":\"%.40s\"}",
                   b->run->agent->id, row->failure_reason);
    run_tell(s, b, kind, row->status == TASK_FAILED ? "warning" : "info", payload);
}

void run_load_refusal(struct task_service *s, struct run *run)
{
    struct arena *a AUTO(arena) = arena_new(65536);
    const char *code = "";
    const char *message = "";
    struct err e;
    if (task_refusal_get(s->db, &run->id, a, &code, &message, &e) != 0) {
        log_warn("a task's refusal could not be read", "task_id", run->id.text, "error", e.msg);
        return;
    }
    (void)snprintf(run->refusal_code, sizeof(run->refusal_code), "%s", code);
    (void)snprintf(run->refusal, sizeof(run->refusal), "%s", message);
}

void run_end(struct task_service *s, struct box *b, enum task_status status, const char *reason,
             const char *message)
{
    BUF_AUTO(done, RUN_TEXT_MAX);
    struct run *run = b->run;
    struct ulid id = run->id;
    struct err e;
    bool changed = false;
    struct task_row row = {.id = id,
                           .status = status,
                           .failure_reason = reason,
                           .error_message = message,
                           .agent_message = buf_str(&run->state.message).ptr,
                           .tokens_input = run->state.tokens_input,
                           .tokens_output = run->state.tokens_output,
                           .tokens_cached = run->state.tokens_cached,
                           .cost_microusd = -1};
    run_done_fields(&row, &done);
    if (tasks_finish(s->db, &row, run_members(&done), &changed, &e) != 0) {
        log_error("a task's end could not be stored; it is tried again", "task_id", id.text,
                  "error", e.msg);
        run_begin_anew(s, b);
        return;
    }
    if (changed) {
        run_tell_end(s, b, &row);
    }
    vault_revoke(s->vault, &id);
    service_open_remove(s, &id);
    run_kick(run);
    run_drop(s, b);
    service_look(s, &b->id);
}

void run_abandon(struct task_service *s, struct box *b, const char *reason, const char *message)
{
    struct run *run = b->run;
    run_load_refusal(s, run);
    if (run->state.terminal && !run->state.failed) {
        run_end(s, b, TASK_SUCCEEDED, "", "");
    } else if (run->cancel_asked) {
        run_end(s, b, TASK_CANCELLED, "", "");
    } else if (run->refusal_code[0]) {
        struct outcome o = outcome_refused(run);
        run_end(s, b, o.status, o.reason, run->refusal);
    } else if (run->timed_out) {
        run_end(s, b, TASK_TIMED_OUT, "timeout", "the task took longer than it was given");
    } else {
        run_end(s, b, TASK_INTERRUPTED, reason, message);
    }
}

void run_refuse(struct task_service *s, const struct ulid *id, const char *message)
{
    BUF_AUTO(done, 8192);
    struct err e;
    bool changed = false;
    struct task_row row = {.id = *id,
                           .status = TASK_FAILED,
                           .failure_reason = "internal",
                           .error_message = message,
                           .agent_message = "",
                           .tokens_input = -1,
                           .tokens_output = -1,
                           .tokens_cached = -1,
                           .cost_microusd = -1};
    run_done_fields(&row, &done);
    if (tasks_finish(s->db, &row, run_members(&done), &changed, &e) != 0) {
        log_error("a task's end could not be stored", "task_id", id->text, "error", e.msg);
    }
    service_open_remove(s, id);
}

/*
 * The task service as others see it: submit, cancel, busy; its inbox and its list of open tasks.
 * Any thread.
 */
#include "control/task/service.h"

#include <stdio.h>

#include "control/http/http.h"
#include "control/store/events.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SERVICE_OPEN_BYTES_MAX  (16UL * 1024 * 1024)
#define SERVICE_TOKEN_BYTES_MAX 256

void task_key(const struct ulid *id, char key[TASK_KEY_BYTES])
{
    (void)snprintf(key, TASK_KEY_BYTES, "task:%s", id->text);
}

/* ---- inbox ---- */

/* Under the lock. */
static void service_append(struct task_service *s, struct note *take_note)
{
    take_note->next = NULL;
    if (s->last) {
        s->last->next = take_note;
    } else {
        s->first = take_note;
    }
    s->last = take_note;
}

void service_post(struct task_service *s, struct note *take_note)
{
    LOCK_GUARD(&s->lock);
    service_append(s, take_note);
    (void)pthread_cond_signal(&s->wake);
}

static void service_say(struct task_service *s, enum note_kind kind, const struct ulid *sandbox,
                        const struct ulid *task)
{
    struct note *note = mem_alloc(sizeof(*note));
    note->kind = kind;
    note->sandbox = *sandbox;
    note->task = task ? *task : (struct ulid){0};
    service_post(s, note);
}

void service_look(struct task_service *s, const struct ulid *sandbox)
{
    service_say(s, NOTE_LOOK, sandbox, NULL);
}

/* ---- open tasks ---- */

void service_open_add(struct task_service *s, const struct ulid *id, const struct ulid *sandbox,
                      bool running)
{
    struct open_entry *entry = mem_alloc(sizeof(*entry));
    *entry = (struct open_entry){.id = *id, .sandbox = *sandbox, .running = running};
    LOCK_GUARD(&s->lock);
    struct open_entry **at = &s->open;
    while (*at) {
        at = &(*at)->next;
    }
    *at = entry;
}

static struct open_entry *service_open_find(struct task_service *s, const struct ulid *id)
{
    for (struct open_entry *entry = s->open; entry; entry = entry->next) {
        if (ulid_eq(&entry->id, id)) {
            return entry;
        }
    }
    return NULL;
}

void service_open_running(struct task_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    struct open_entry *entry = service_open_find(s, id);
    if (entry) {
        entry->running = true;
    }
}

void service_open_remove(struct task_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    for (struct open_entry **at = &s->open; *at; at = &(*at)->next) {
        struct open_entry *entry = *at;
        if (ulid_eq(&entry->id, id)) {
            *at = entry->next;
            free(entry);
            return;
        }
    }
}

bool service_open_first(struct task_service *s, const struct ulid *sandbox, struct ulid *ret_id)
{
    const struct open_entry *found = NULL;
    LOCK_GUARD(&s->lock);
    for (const struct open_entry *entry = s->open; entry; entry = entry->next) {
        if (ulid_eq(&entry->sandbox, sandbox) && (!found || (entry->running && !found->running))) {
            found = entry;
        }
    }
    if (found) {
        *ret_id = found->id;
    }
    return found != NULL;
}

bool service_open_has(struct task_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    return service_open_find(s, id) != NULL;
}

bool task_busy(struct task_service *s, const struct ulid *sandbox_id, struct ulid *ret_task)
{
    struct ulid id;
    bool busy = service_open_first(s, sandbox_id, &id);
    if (busy && ret_task) {
        *ret_task = id;
    }
    return busy;
}

/* ---- submit ---- */

static int submit_check_text(const struct task_order *order, struct err *e)
{
    struct str prompt = str_of(order->prompt);
    if (str_empty(str_trim(prompt))) {
        return err_set(e, ERR_INVALID, 0, "prompt: it is empty; say what the agent is to do");
    }
    if (prompt.len > TASK_PROMPT_BYTES_MAX) {
        return err_set(e, ERR_INVALID, 0, "prompt: %zu bytes; %d at most", prompt.len,
                       TASK_PROMPT_BYTES_MAX);
    }
    if (order->model[0] && !models_valid(str_of(order->model))) {
        return err_set(e, ERR_INVALID, 0,
                       "model: 1 to %d visible characters without blanks are wanted",
                       TASK_MODEL_BYTES_MAX);
    }
    if (order->timeout_s < 0 || order->timeout_s > TASK_TIMEOUT_S_MAX) {
        return err_set(e, ERR_INVALID, 0, "timeout_s: 1 to %d seconds are possible",
                       TASK_TIMEOUT_S_MAX);
    }
    return 0;
}

static int submit_check_agent(struct task_service *s, const struct task_order *order,
                              const struct vault_agent **ret, struct err *e)
{
    const char *id = order->agent[0] ? order->agent : s->config->default_agent;
    *ret = vault_agent_find(s->vault, str_of(id));
    if (!*ret || !agent_find(id)) {
        return err_set(e, ERR_INVALID, 0,
                       "agent: there is no \"%.64s\"; GET /v1/agents lists those there are", id);
    }
    return models_check(s, *ret, order->model, e);
}

static int submit_check_sandbox(struct task_service *s, const struct task_order *order,
                                struct err *e)
{
    struct sandbox_view view;
    size_t count = 0;
    if (sandbox_look(s->sandboxes, &order->sandbox_id, &view, e) != 0) {
        return -1;
    }
    if (view.status == SANDBOX_DELETING || view.status == SANDBOX_DELETED) {
        return err_set(e, ERR_CONFLICT, 0, "the sandbox is being deleted");
    }
    LOCK_GUARD(&s->lock);
    for (const struct open_entry *entry = s->open; entry; entry = entry->next) {
        count += ulid_eq(&entry->sandbox, &order->sandbox_id) ? 1 : 0;
    }
    if (count >= TASK_QUEUE_MAX) {
        (void)err_set(e, ERR_LIMIT, 0, "%d tasks wait in this sandbox already", TASK_QUEUE_MAX);
        return err_tag(e, "too_many_requests");
    }
    return 0;
}

/* What every task gets that names none of its own. */
static void submit_default_budget(struct task_service *s, struct task_row *row)
{
    struct vault_budget budget;
    if (row->budget_microusd > 0 || row->budget_tokens > 0 ||
        !vault_budget_get(s->vault, BUDGET_TASK, NULL, &budget)) {
        return;
    }
    row->budget_microusd = budget.limit_microusd;
    row->budget_tokens = budget.limit_tokens;
}

int task_submit(struct task_service *s, const struct task_order *order, struct ulid *ret_id,
                struct err *e)
{
    const struct vault_agent *agent = NULL;
    if (submit_check_text(order, e) != 0 || submit_check_agent(s, order, &agent, e) != 0 ||
        submit_check_sandbox(s, order, e) != 0) {
        return -1;
    }
    struct task_row row = {.id = ulid_new(),
                           .app_id = order->app_id,
                           .sandbox_id = order->sandbox_id,
                           .agent = agent->id,
                           .model = order->model,
                           .prompt = order->prompt,
                           .timeout_s =
                               order->timeout_s ? order->timeout_s : TASK_TIMEOUT_S_DEFAULT,
                           .budget_microusd = order->budget_microusd,
                           .budget_tokens = order->budget_tokens,
                           .created_at = clock_unix_ms()};
    submit_default_budget(s, &row);
    struct task_event_new queued = {.type = "status",
                                    .fields = STR("\"status\":\"queued\",\"detail\":\"\"")};
    if (tasks_insert(s->db, &row, e) != 0) {
        return -1;
    }
    struct err lost;
    if (tasks_add_events(s->db, &row.id, &queued, 1, -1, &lost) != 0) {
        log_warn("an event of a task was not stored", "task_id", row.id.text, "error", lost.msg);
    }
    service_open_add(s, &row.id, &row.sandbox_id, false);
    service_look(s, &row.sandbox_id);
    *ret_id = row.id;
    return 0;
}

/* ---- cancel ---- */

/* True when this call is the first to ask. */
static bool cancel_is_first(struct task_service *s, const struct ulid *id)
{
    LOCK_GUARD(&s->lock);
    struct open_entry *entry = service_open_find(s, id);
    bool first = entry && !entry->cancelling;
    if (first) {
        entry->cancelling = true;
    }
    return first;
}

static int cancel_queued(struct task_service *s, const struct task_row *row, struct err *e)
{
    char key[TASK_KEY_BYTES];
    bool changed = false;
    struct task_row end = {.id = row->id,
                           .status = TASK_CANCELLED,
                           .failure_reason = "",
                           .error_message = "",
                           .agent_message = "",
                           .tokens_input = -1,
                           .tokens_output = -1,
                           .tokens_cached = -1,
                           .cost_microusd = -1};
    if (tasks_finish(s->db, &end,
                     STR("\"status\":\"cancelled\",\"failure_reason\":null,\"error_message\":null,"
                         "\"agent_message\":null"),
                     &changed, e) != 0) {
        return -1;
    }
    if (changed) {
        events_add(s->db, &(struct event_row){.kind = "task.cancelled",
                                              .severity = "info",
                                              .app_id = row->app_id.text,
                                              .sandbox_id = row->sandbox_id.text,
                                              .task_id = row->id.text,
                                              .payload = "{\"while\":\"queued\"}"});
    }
    service_open_remove(s, &row->id);
    task_key(&row->id, key);
    http_kick(key);
    return 0;
}

int task_cancel(struct task_service *s, const struct ulid *id, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(4UL * 1024 * 1024);
    struct task_row row;
    /* On disk before the answer: a crash in this moment does not forget it. */
    struct task_event_new asked = {.type = "status",
                                   .fields = STR("\"status\":\"cancelling\",\"detail\":\"\"")};
    if (tasks_get(s->db, id, a, &row, e) != 0) {
        return -1;
    }
    if (task_is_over(row.status)) {
        return 0;
    }
    bool first = cancel_is_first(s, id);
    if (row.status == TASK_QUEUED ? cancel_queued(s, &row, e) != 0
                                  : first && tasks_add_events(s->db, id, &asked, 1, -1, e) != 0) {
        return -1;
    }
    service_say(s, NOTE_CANCEL, &row.sandbox_id, id);
    return 0;
}

void task_cancel_all(struct task_service *s, const struct ulid *sandbox_id)
{
    struct ulid ids[TASK_QUEUE_MAX];
    size_t count = 0;
    {
        LOCK_GUARD(&s->lock);
        for (const struct open_entry *o = s->open; o && count < TASK_QUEUE_MAX; o = o->next) {
            if (ulid_eq(&o->sandbox, sandbox_id)) {
                ids[count++] = o->id;
            }
        }
    }
    /* The last one first, so that none of them begins when the one before it ends. */
    while (count-- > 0) {
        struct err e;
        if (task_cancel(s, &ids[count], &e) != 0) {
            log_warn("a task was not cancelled", "task_id", ids[count].text, "error", e.msg);
        }
    }
}

/* ---- hooks of the sandbox service, sink of the channel ---- */

static int hook_listen(void *ctx, const struct ulid *id, struct err *e)
{
    struct task_service *s = ctx;
    return atomic_load(&s->stopping) ? err_set(e, ERR_UNAVAILABLE, 0, "sandboxd is stopping")
                                     : channel_listen(s->channel, id, e);
}

static void hook_close(void *ctx, const struct ulid *id)
{
    struct task_service *s = ctx;
    if (!atomic_load(&s->stopping)) {
        channel_close(s->channel, id);
    }
}

static void hook_tell(void *ctx, const struct ulid *id, struct buf *frames)
{
    struct task_service *s = ctx;
    channel_tell(s->channel, id, frames);
}

static void hook_changed(void *ctx, const struct ulid *id)
{
    struct task_service *s = ctx;
    struct ulid task;
    if (!atomic_load(&s->stopping) && service_open_first(s, id, &task)) {
        service_look(s, id);
    }
}

static void sink_frame(struct task_service *s, enum note_kind kind, const struct ulid *id,
                       uint64_t serial, struct str frame)
{
    struct note *note = mem_alloc(sizeof(*note));
    note->kind = kind;
    note->sandbox = *id;
    note->serial = serial;
    note->bytes = frame.len > 0 ? mem_dup(frame.ptr, frame.len) : NULL;
    note->len = frame.len;
    service_post(s, note);
}

static void sink_hello(void *ctx, const struct ulid *id, uint64_t serial,
                       const struct record *hello)
{
    sink_frame(ctx, NOTE_HELLO, id, serial, hello->fields);
}

static void sink_record(void *ctx, const struct ulid *id, uint64_t serial, struct str frame)
{
    sink_frame(ctx, NOTE_RECORD, id, serial, frame);
}

static void sink_gone(void *ctx, const struct ulid *id, uint64_t serial)
{
    sink_frame(ctx, NOTE_GONE, id, serial, STR(""));
}

static void hook_refused(void *ctx, const struct ulid *task)
{
    struct task_service *s = ctx;
    struct ulid sandbox;
    bool open = false;
    {
        LOCK_GUARD(&s->lock);
        const struct open_entry *entry = service_open_find(s, task);
        open = entry && !atomic_load(&s->stopping);
        sandbox = entry ? entry->sandbox : (struct ulid){""};
    }
    if (open) {
        service_say(s, NOTE_REFUSED, &sandbox, task);
    }
}

/* ---- start and stop ---- */

static void service_free(struct task_service *s)
{
    while (s->first) {
        struct note *note = s->first;
        s->first = note->next;
        prepare_job_free(note->job);
        free(note->bytes);
        free(note);
    }
    while (s->jobs) {
        struct prepare_job *job = s->jobs;
        s->jobs = job->next;
        prepare_job_free(job);
    }
    while (s->open) {
        struct open_entry *entry = s->open;
        s->open = entry->next;
        free(entry);
    }
    while (s->boxes) {
        struct box *b = s->boxes;
        s->boxes = b->next;
        run_drop(s, b);
        free(b);
    }
    s->first = NULL;
    s->jobs = NULL;
    s->open = NULL;
    s->boxes = NULL;
}

/* Its agent may be in the middle of a request: the token must be good before the first question of
 * the proxy is answered, or that request would be cut. What cannot be restored is told when the
 * task is taken up. */
static void service_restore_token(struct task_service *s, const struct task_open *open)
{
    BUF_AUTO(token, SERVICE_TOKEN_BYTES_MAX);
    struct err ignored;
    const struct vault_agent *agent = vault_agent_find(s->vault, str_of(open->agent));
    if (open->running && agent) {
        (void)!vault_restore(s->vault, &open->id, &open->sandbox_id, agent, str_of(open->token_box),
                             &token, &ignored);
        mem_wipe(token.ptr, token.len);
    }
}

/* Before the first supervisor is heard: what is not in the list counts as over. */
static int service_load_open(struct task_service *s, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(SERVICE_OPEN_BYTES_MAX);
    struct task_open *open = NULL;
    size_t count = 0;
    if (tasks_list_open(s->db, a, &open, &count, e) != 0) {
        return err_wrap(e, "the open tasks of the last run");
    }
    for (size_t i = 0; i < count; i++) {
        service_open_add(s, &open[i].id, &open[i].sandbox_id, open[i].running);
        service_restore_token(s, &open[i]);
    }
    return 0;
}

int task_service_start(const struct config *config, struct db *db,
                       struct sandbox_service *sandboxes, struct vault *vault,
                       struct task_service **ret, struct err *e)
{
    struct task_service *s = mem_alloc(sizeof(*s));
    s->config = config;
    s->db = db;
    s->sandboxes = sandboxes;
    s->vault = vault;
    s->due_ms = INT64_MAX;
    (void)pthread_mutex_init(&s->lock, NULL);
    thread_cond_init(&s->wake);
    thread_cond_init(&s->work);
    struct channel_sink sink = {
        .hello = sink_hello, .record = sink_record, .gone = sink_gone, .ctx = s};
    if (service_load_open(s, e) != 0 ||
        channel_start(sandboxes, db, config->data_dir, &sink, &s->channel, e) != 0) {
        service_free(s);
        free(s);
        return -1;
    }
    struct sandbox_channel_hooks hooks = {.listen = hook_listen,
                                          .close = hook_close,
                                          .tell = hook_tell,
                                          .changed = hook_changed,
                                          .ctx = s};
    sandbox_set_hooks(sandboxes, &hooks);
    vault_on_refusal(vault, hook_refused, s);
    s->preparer = thread_start("task-prepare", prepare_run, s);
    s->scheduler = thread_start("tasks", scheduler_run, s);
    *ret = s;
    return 0;
}

void task_service_resume(struct task_service *s)
{
    LOCK_GUARD(&s->lock);
    for (const struct open_entry *entry = s->open; entry; entry = entry->next) {
        struct note *note = mem_alloc(sizeof(*note));
        *note = (struct note){.kind = NOTE_LOOK, .sandbox = entry->sandbox};
        service_append(s, note);
    }
    (void)pthread_cond_signal(&s->wake);
}

void task_service_stop(struct task_service *take_service)
{
    struct task_service *s = take_service;
    if (!s) {
        return;
    }
    atomic_store(&s->stopping, true);
    {
        LOCK_GUARD(&s->lock);
        (void)pthread_cond_broadcast(&s->wake);
        (void)pthread_cond_broadcast(&s->work);
    }
    (void)pthread_join(s->scheduler, NULL);
    (void)pthread_join(s->preparer, NULL);
    channel_stop(s->channel);
    service_free(s);
    /* The sandbox service stops after us and may still call our hooks: what they look at stays. */
    static struct task_service *stopped;
    s->next_stopped = stopped;
    stopped = s;
}

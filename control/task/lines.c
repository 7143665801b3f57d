/*
 * Lines of an agent into events: one transaction for many, then their acknowledgement. Everything
 * in a line is hostile. The scheduler's thread.
 */
#include <stdio.h>

#include "control/http/http.h"
#include "control/task/service.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"

#define LINES_EVENTS_MAX   256
#define LINES_FLUSH_EVENTS 128
#define LINES_FLUSH_BYTES  (2UL * 1024 * 1024)
#define LINES_ARENA_BYTES  (32UL * 1024 * 1024)
#define LINES_NOTICE_BYTES 2000
#define LINES_FACTS_BYTES  (3UL * 1024 * 1024)

struct lines_batch {
    struct task_service *s;
    struct box *b;
    struct run *run;
    struct arena *arena;
    struct task_event_new events[LINES_EVENTS_MAX];
    size_t count;
    size_t bytes;
    bool facts_changed;
    bool failed; /* storing did not work: nothing more is taken */
};

/* What of an agent's state must survive us and is not seen in its other events. */
struct lines_facts {
    bool flags[5];
    int64_t tokens[3];
    char session[128];
};

static struct lines_facts lines_facts(const struct agent_state *st)
{
    struct lines_facts f = {
        .flags = {st->terminal, st->settled, st->failed, st->model_unknown, st->session_lost},
        .tokens = {st->tokens_input, st->tokens_output, st->tokens_cached}};
    memcpy(f.session, st->session, sizeof(f.session));
    return f;
}

static bool lines_facts_differ(const struct lines_facts *a, const struct lines_facts *b)
{
    bool differ = false;
    for (size_t i = 0; i < ARRAY_LEN(a->flags); i++) {
        differ = differ || a->flags[i] != b->flags[i];
    }
    for (size_t i = 0; i < ARRAY_LEN(a->tokens); i++) {
        differ = differ || a->tokens[i] != b->tokens[i];
    }
    return differ;
}

/* ---- events ---- */

static void lines_add(struct lines_batch *batch, const char *type, struct str fields)
{
    struct run *run = batch->run;
    if (batch->count == LINES_EVENTS_MAX) {
        return;
    }
    run->events++;
    run->event_bytes += (int64_t)fields.len;
    const char *copy = arena_str(batch->arena, fields);
    batch->events[batch->count++] =
        (struct task_event_new){.type = type, .fields = {copy, fields.len}};
    batch->bytes += fields.len;
}

static void lines_notice(struct lines_batch *batch, struct str text)
{
    BUF_AUTO(out, 6 * LINES_NOTICE_BYTES + 64);
    struct json_writer w;
    json_begin(&w, &out);
    json_object(&w, NULL);
    json_str(&w, "text", str_cut(text, 0, LINES_NOTICE_BYTES));
    json_object_end(&w);
    if (buf_ok(&out)) {
        lines_add(batch, "notice", str_cut(buf_str(&out), 1, out.len - 1));
    }
}

static bool lines_is_full(const struct run *run)
{
    return run->events >= TASK_EVENTS_MAX || run->event_bytes >= (int64_t)TASK_EVENT_BYTES_MAX;
}

static void lines_emit(void *ctx, const char *type, struct str fields)
{
    struct lines_batch *batch = ctx;
    struct run *run = batch->run;
    bool passed_over = (run->state.session_lost && run->resumes && !run->new_session) ||
                       (run->state.model_unknown && !run->given);
    /* What makes another attempt is told by that attempt, and is no error of the task. */
    if (strcmp(type, "error") == 0 && passed_over) {
        return;
    }
    if (!lines_is_full(run)) {
        lines_add(batch, type, fields);
        if (lines_is_full(run)) {
            lines_notice(batch,
                         STR("this task has told more than is kept; what follows is left out"));
        }
    }
}

/* The facts as text for the task's row; they are for a restart of ours, never shown. */
static const char *lines_facts_text(const struct agent_state *st, struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_bool(&w, "terminal", st->terminal);
    json_bool(&w, "settled", st->settled);
    json_bool(&w, "failed", st->failed);
    json_bool(&w, "acted", st->acted);
    json_bool(&w, "model_unknown", st->model_unknown);
    json_bool(&w, "session_lost", st->session_lost);
    json_int(&w, "tokens_input", st->tokens_input);
    json_int(&w, "tokens_output", st->tokens_output);
    json_int(&w, "tokens_cached", st->tokens_cached);
    json_text(&w, "reason", st->reason);
    json_str(&w, "error", st->failed ? buf_str(&st->error) : STR(""));
    json_str(&w, "message", st->terminal ? buf_str(&st->message) : STR(""));
    json_object_end(&w);
    return buf_ok(out) ? out->ptr : NULL;
}

/* ---- storing ---- */

/* Up to where a supervisor may forget: not into a line of which only parts came. */
static int64_t lines_ack_seq(const struct run *run)
{
    return run->in_parts && !run->too_long ? run->parts_from : run->seen_seq;
}

static int lines_store(struct lines_batch *batch, struct err *e)
{
    struct run *run = batch->run;
    int64_t line_seq = ((int64_t)run->attempt << TASK_SEQ_BITS) | lines_ack_seq(run);
    BUF_AUTO(text, LINES_FACTS_BYTES);
    const char *facts = batch->facts_changed ? lines_facts_text(&run->state, &text) : NULL;
    if (tasks_add_lines(batch->s->db, &run->id, batch->events, batch->count, line_seq, facts, e) !=
        0) {
        return -1;
    }
    char key[TASK_KEY_BYTES];
    task_key(&run->id, key);
    http_kick(key);
    return 0;
}

static void lines_flush(struct lines_batch *batch)
{
    struct run *run = batch->run;
    int64_t ack = lines_ack_seq(run);
    struct ulid id = run_id(run);
    struct err e;
    if (batch->failed) {
        return;
    }
    if ((batch->count > 0 || batch->facts_changed) && lines_store(batch, &e) != 0) {
        log_error("events of a task could not be stored", "task_id", run->id.text, "error", e.msg);
        batch->failed = true;
        return;
    }
    if (ack > run->stored_seq) {
        run->stored_seq = ack;
        run_send_ack(batch->s, batch->b, &id, ack);
    }
    batch->count = 0;
    batch->facts_changed = false;
    batch->bytes = 0;
    arena_reset(batch->arena);
}

/* ---- lines ---- */

/* The task's token is of no use to anybody who reads events; it is made unreadable where it stands.
 */
static void lines_mask(const struct run *run, char *bytes, size_t len)
{
    size_t token = run->token ? strlen(run->token) : 0;
    size_t shown = 4;
    if (token <= shown) {
        return;
    }
    char *at = bytes;
    while ((at = memmem(at, len - (size_t)(at - bytes), run->token, token)) != NULL) {
        memset(at + shown, '*', token - shown);
        at += token;
    }
}

static void lines_session(struct lines_batch *batch, const struct lines_facts *before)
{
    const struct run *run = batch->run;
    struct err e;
    if (strcmp(before->session, run->state.session) != 0 &&
        tasks_set_session(batch->s->db, &run->id, run->state.session, &e) != 0) {
        log_warn("an agent's conversation was not noted", "task_id", run->id.text, "error", e.msg);
    }
}

static void lines_out_whole(struct lines_batch *batch, char *bytes, size_t len)
{
    BUF_AUTO(masked, MASKING_TEXT_MAX);
    struct run *run = batch->run;
    struct lines_facts before = lines_facts(&run->state);
    lines_mask(run, bytes, len);
    struct str line = masking_apply(run, str_n(bytes, len), &masked);
    run->adapter->line(&run->state, line, lines_emit, batch);
    struct lines_facts after = lines_facts(&run->state);
    lines_session(batch, &before);
    batch->facts_changed = batch->facts_changed || lines_facts_differ(&before, &after);
    if (run->state.terminal && !run->finish_sent) {
        run_send_finish(batch->s, batch->b);
    }
}

static void lines_out(struct lines_batch *batch, char *bytes, size_t len, bool part, int64_t seq)
{
    struct run *run = batch->run;
    if (!part && !run->in_parts) {
        run->seen_seq = seq;
        lines_out_whole(batch, bytes, len);
        return;
    }
    if (!run->in_parts) {
        run->in_parts = true;
        run->too_long = false;
        run->parts_from = run->seen_seq;
        buf_reset(&run->line);
    }
    buf_add(&run->line, bytes, len);
    run->too_long = run->too_long || !buf_ok(&run->line);
    run->seen_seq = seq;
    if (part) {
        return;
    }
    run->in_parts = false;
    if (run->too_long) {
        lines_notice(batch, STR("a line of the agent was too long and is left out"));
    } else {
        lines_out_whole(batch, run->line.ptr, run->line.len);
    }
    buf_done(&run->line);
}

/* Without the escape sequences that colour a terminal. */
static struct str lines_plain(struct arena *a, struct str text)
{
    char *plain = arena_alloc(a, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\033' && i + 1 < text.len && text.ptr[i + 1] == '[') {
            i += 2;
            while (i < text.len && !(text.ptr[i] >= '@' && text.ptr[i] <= '~')) {
                i++;
            }
        } else {
            plain[len++] = text.ptr[i];
        }
    }
    return str_trim(str_n(plain, len));
}

static void lines_err(struct lines_batch *batch, char *bytes, size_t len, bool part, int64_t seq)
{
    BUF_AUTO(masked, MASKING_TEXT_MAX);
    struct run *run = batch->run;
    struct lines_facts before = lines_facts(&run->state);
    bool goes_on = run->err_in_parts;
    run->seen_seq = seq;
    run->err_in_parts = part;
    if (goes_on) {
        return; /* more than a notice keeps; and it may begin in the middle of a secret */
    }
    lines_mask(run, bytes, len);
    struct str text = lines_plain(batch->arena, str_n(bytes, len));
    text = str_cut(masking_apply(run, text, &masked), 0, LINES_NOTICE_BYTES);
    if (str_empty(text)) {
        return;
    }
    run->adapter->err_line(&run->state, text);
    if (run->err_tail.len + text.len + 1 >= TASK_ERR_TAIL_BYTES) {
        buf_reset(&run->err_tail);
    }
    buf_add_str(&run->err_tail, str_cut(text, 0, TASK_ERR_TAIL_BYTES / 2));
    buf_putc(&run->err_tail, '\n');
    if (run->notices < TASK_NOTICES_MAX) {
        lines_notice(batch, text);
    } else if (run->notices == TASK_NOTICES_MAX) {
        lines_notice(batch, STR("the agent wrote more to its error stream; it is left out"));
    }
    run->notices += run->notices <= TASK_NOTICES_MAX ? 1 : 0;
    struct lines_facts after = lines_facts(&run->state);
    batch->facts_changed = batch->facts_changed || lines_facts_differ(&before, &after);
}

/* The slice as bytes that may be changed: it points into a note that is ours. */
static char *lines_bytes(const struct note *note, struct str data)
{
    return data.len > 0 ? note->bytes + (data.ptr - note->bytes) : note->bytes;
}

static void lines_line(struct lines_batch *batch, const struct note *note, const struct record *r,
                       int64_t seq)
{
    struct str data = record_get(r, "data");
    char *bytes = lines_bytes(note, data);
    if (seq <= batch->run->seen_seq) {
        return; /* sent again after a reconnect */
    }
    bool part = record_get_bool(r, "part", false);
    if (str_is(record_get(r, "stream"), "err")) {
        lines_err(batch, bytes, data.len, part, seq);
    } else {
        lines_out(batch, bytes, data.len, part, seq);
    }
    if (batch->count >= LINES_FLUSH_EVENTS || batch->bytes >= LINES_FLUSH_BYTES) {
        lines_flush(batch);
    }
}

/* True when the record belongs to the run in hand. */
static bool lines_is_ours(const struct lines_batch *batch, const struct ulid *id)
{
    if (!batch->run || batch->b->run != batch->run || !batch->run->stored) {
        return false;
    }
    struct ulid own = run_id(batch->run);
    return ulid_eq(&own, id);
}

static void lines_record(struct lines_batch *batch, const struct note *note)
{
    struct record r;
    struct err e;
    struct ulid id;
    uint64_t seq = 0;
    if (batch->failed || note->serial != batch->b->serial ||
        record_parse(str_n(note->bytes, note->len), &r, &e) != 0 ||
        !ulid_parse(record_get(&r, "task_id"), &id) || record_is(&r, "started") ||
        !record_get_u64(&r, "seq", (UINT64_C(1) << TASK_SEQ_BITS) - 1, &seq)) {
        return;
    }
    if (!lines_is_ours(batch, &id)) {
        if (scheduler_is_stale(batch->s, batch->b, &id)) {
            run_send_ack(batch->s, batch->b, &id, (int64_t)seq);
        }
        return;
    }
    if (record_is(&r, "line")) {
        lines_line(batch, note, &r, (int64_t)seq);
        return;
    }
    lines_flush(batch);
    if (!batch->failed) {
        outcome_exit(batch->s, batch->b, &r);
        batch->run = batch->b->run;
    }
}

void lines_take(struct task_service *s, struct box *b, struct note *const *notes, size_t count)
{
    struct lines_batch *batch AUTOFREE = mem_alloc(sizeof(*batch));
    struct err e;
    *batch = (struct lines_batch){.s = s, .b = b, .run = b->run};
    batch->arena = arena_new(LINES_ARENA_BYTES);
    if (batch->run && masking_refresh(s, batch->run, &e) != 0) {
        log_error("what a task may not show is not known; its lines wait", "task_id",
                  batch->run->id.text, "error", e.msg);
        batch->failed = true;
    }
    for (size_t i = 0; i < count; i++) {
        lines_record(batch, notes[i]);
    }
    if (batch->run && batch->run == b->run) {
        lines_flush(batch);
    }
    if (batch->failed && b->run) {
        run_begin_anew(s, b);
    }
    arena_free(batch->arena);
}

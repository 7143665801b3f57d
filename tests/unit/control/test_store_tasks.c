/*
 * Tests of tasks and their events in the store: each ends once, its events are numbered without a
 * gap, nothing is added after the end. One thread.
 */
#include "control/store/tasks.h"
#include "lib/json_read.h"
#include "tests/unit/control/store.h"

static struct task_row make_task(const struct sandbox_row *sandbox)
{
    struct task_row task = {.id = ulid_new(),
                            .app_id = sandbox->app_id,
                            .sandbox_id = sandbox->id,
                            .agent = "opencode",
                            .model = "m",
                            .prompt = "do it",
                            .timeout_s = 1800,
                            .failure_reason = "",
                            .error_message = "",
                            .agent_message = "",
                            .tokens_input = -1,
                            .tokens_output = -1,
                            .tokens_cached = -1,
                            .cost_microusd = -1,
                            .created_at = clock_unix_ms()};
    OK(tasks_insert(db, &task, &e));
    return task;
}

static struct sandbox_row make_sandbox(void)
{
    struct app_row app = store_app("with tasks");
    return store_sandbox(&app.id);
}

static void test_life(void **state)
{
    (void)state;
    struct sandbox_row sandbox = make_sandbox();
    struct task_row task = make_task(&sandbox);
    struct task_row later = make_task(&sandbox);
    struct task_row back;
    bool changed = false;
    OK(tasks_next_queued(db, &sandbox.id, arena, &back, &e));
    assert_true(ulid_eq(&back.id, &task.id));
    assert_int_equal(back.tokens_input, -1);
    OK(tasks_mark_running(db, &task.id, "boot", "box", &e));
    REFUSED(tasks_mark_running(db, &task.id, "boot2", "box", &e), ERR_CONFLICT);
    OK(tasks_next_queued(db, &sandbox.id, arena, &back, &e));
    assert_true(ulid_eq(&back.id, &later.id));
    OK(tasks_set_session(db, &task.id, "session-1", &e));
    const char *session = NULL;
    OK(tasks_last_session(db, &sandbox.id, "opencode", arena, &session, &e));
    assert_string_equal(session, "");
    task.status = TASK_SUCCEEDED;
    task.agent_message = "done";
    task.tokens_output = 12;
    OK(tasks_finish(db, &task, STR("\"status\":\"succeeded\""), &changed, &e));
    assert_true(changed);
    /* Ends once. */
    task.status = TASK_FAILED;
    OK(tasks_finish(db, &task, STR("\"status\":\"failed\""), &changed, &e));
    assert_false(changed);
    OK(tasks_get(db, &task.id, arena, &back, &e));
    assert_int_equal(back.status, TASK_SUCCEEDED);
    assert_string_equal(back.agent_message, "done");
    assert_string_equal(back.token_box, "");
    assert_int_equal(back.tokens_output, 12);
    assert_int_equal(back.tokens_input, -1);
    assert_int_equal(back.cost_microusd, -1);
    assert_true(back.finished_at >= back.started_at && back.started_at > 0);
    OK(tasks_last_session(db, &sandbox.id, "opencode", arena, &session, &e));
    assert_string_equal(session, "session-1");
    OK(tasks_last_session(db, &sandbox.id, "claude-code", arena, &session, &e));
    assert_string_equal(session, "");
}

static void test_events(void **state)
{
    (void)state;
    struct sandbox_row sandbox = make_sandbox();
    struct task_row task = make_task(&sandbox);
    struct task_event_row *events = NULL;
    struct task_row back;
    size_t count = 0;
    bool changed = false;
    const struct task_event_new two[] = {
        {.type = "message", .fields = STR("\"role\":\"assistant\",\"text\":\"hi\"")},
        {.type = "notice", .fields = {NULL, 0}}};
    OK(tasks_add_events(db, &task.id, two, 2, 7, &e));
    OK(tasks_add_events(db, &task.id, two, 1, 3, &e));
    OK(tasks_add_events(db, &task.id, NULL, 0, -1, &e));
    OK(tasks_get(db, &task.id, arena, &back, &e));
    assert_int_equal(back.line_seq, 7);
    task.status = TASK_FAILED;
    OK(tasks_finish(db, &task, STR("\"status\":\"failed\""), &changed, &e));
    OK(tasks_add_events(db, &task.id, two, 2, 9, &e));
    OK(tasks_events(db, &task.id, 0, 100, arena, &events, &count, &e));
    assert_int_equal(count, 4);
    static const char *const types[] = {"message", "notice", "message", "done"};
    for (size_t i = 0; i < count; i++) {
        struct json_doc *doc AUTO(json_doc) = NULL;
        int64_t seq = 0;
        assert_int_equal(events[i].seq, i + 1);
        assert_string_equal(events[i].type, types[i]);
        OK(json_parse(str_of(events[i].data), &doc, &e));
        assert_true(json_get_int(json_root(doc), "seq", &seq) && seq == events[i].seq);
        test_str(json_get_str(json_root(doc), "type"), types[i]);
        assert_int_equal(json_get_str(json_root(doc), "at").len, 24);
        assert_null(strchr(events[i].data, '\n'));
    }
    OK(tasks_events(db, &task.id, 3, 100, arena, &events, &count, &e));
    assert_int_equal(count, 1);
    OK(tasks_events(db, &task.id, 0, 2, arena, &events, &count, &e));
    assert_int_equal(count, 2);
}

/* One event that is too long leaves none of its batch. */
static void test_event_too_long(void **state)
{
    (void)state;
    struct sandbox_row sandbox = make_sandbox();
    struct task_row task = make_task(&sandbox);
    struct task_event_row *events = NULL;
    size_t count = 0;
    static char big[(2UL << 20) + 1];
    memset(big, 'x', sizeof(big) - 1);
    const struct task_event_new batch[] = {
        {.type = "notice", .fields = {NULL, 0}},
        {.type = "message", .fields = str_n(big, sizeof(big) - 1)}};
    REFUSED(tasks_add_events(db, &task.id, batch, 2, 1, &e), ERR_LIMIT);
    OK(tasks_events(db, &task.id, 0, 100, arena, &events, &count, &e));
    assert_int_equal(count, 0);
}

static void test_lists(void **state)
{
    (void)state;
    struct sandbox_row one = make_sandbox();
    struct sandbox_row two = make_sandbox();
    struct task_row tasks[3];
    struct task_row *list = NULL;
    struct task_open *open = NULL;
    size_t count = 0;
    bool changed = false;
    for (int i = 0; i < 3; i++) {
        tasks[i] = make_task(i < 2 ? &one : &two);
    }
    OK(tasks_list(db, &one.id, NULL, "", 10, arena, &list, &count, &e));
    assert_int_equal(count, 2);
    assert_true(ulid_eq(&list[0].id, &tasks[1].id));
    OK(tasks_list(db, &one.id, NULL, tasks[1].id.text, 10, arena, &list, &count, &e));
    assert_int_equal(count, 1);
    OK(tasks_list(db, NULL, &two.app_id, "", 10, arena, &list, &count, &e));
    assert_int_equal(count, 1);
    OK(tasks_mark_running(db, &tasks[2].id, "b", "", &e));
    tasks[0].status = TASK_CANCELLED;
    OK(tasks_finish(db, &tasks[0], STR(""), &changed, &e));
    OK(tasks_list_open(db, arena, &open, &count, &e));
    assert_int_equal(count, 2);
    assert_true(ulid_eq(&open[0].id, &tasks[1].id) && !open[0].running);
    assert_true(ulid_eq(&open[1].id, &tasks[2].id) && open[1].running);
    struct task_row back;
    struct ulid unknown = ulid_new();
    REFUSED(tasks_get(db, &unknown, arena, &back, &e), ERR_NOT_FOUND);
    REFUSED(tasks_next_queued(db, &two.id, arena, &back, &e), ERR_NOT_FOUND);
    /* Of a task nobody knows, nothing is kept. */
    const struct task_event_new event = {.type = "notice", .fields = {NULL, 0}};
    OK(tasks_add_events(db, &unknown, &event, 1, 1, &e));
    OK(tasks_finish(db, &(struct task_row){.id = unknown}, STR(""), &changed, &e));
    assert_false(changed);
}

/* What was acknowledged to a supervisor is there after a restart. */
static void test_restart(void **state)
{
    (void)state;
    struct sandbox_row sandbox = make_sandbox();
    struct task_row task = make_task(&sandbox);
    struct task_event_row *events = NULL;
    struct task_row back;
    size_t count = 0;
    const struct task_event_new event = {.type = "message", .fields = STR("\"text\":\"x\"")};
    OK(tasks_mark_running(db, &task.id, "boot-1", "box", &e));
    OK(tasks_add_events(db, &task.id, &event, 1, 5, &e));
    store_reopen();
    OK(tasks_get(db, &task.id, arena, &back, &e));
    assert_int_equal(back.status, TASK_RUNNING);
    assert_string_equal(back.boot_id, "boot-1");
    assert_string_equal(back.token_box, "box");
    assert_int_equal(back.line_seq, 5);
    OK(tasks_add_events(db, &task.id, &event, 1, 6, &e));
    OK(tasks_events(db, &task.id, 0, 10, arena, &events, &count, &e));
    assert_int_equal(count, 2);
    assert_int_equal(events[1].seq, 2);
}

/* Long prompts make short pages: everything is still found, page by page. */
static void test_pages_are_bounded(void **state)
{
    (void)state;

    enum {
        ROWS = 10,
        PROMPT_BYTES = 256 * 1024,
        PER_PAGE = TASKS_PAGE_BYTES / PROMPT_BYTES
    };
    struct sandbox_row sandbox = make_sandbox();
    struct arena *page AUTO(arena) = arena_new(16UL * 1024 * 1024);
    char *prompt AUTOFREE = mem_alloc(PROMPT_BYTES + 1);
    memset(prompt, 'x', PROMPT_BYTES);
    for (int i = 0; i < ROWS; i++) {
        struct task_row task = {.id = ulid_new(),
                                .app_id = sandbox.app_id,
                                .sandbox_id = sandbox.id,
                                .agent = "opencode",
                                .model = "",
                                .prompt = prompt,
                                .timeout_s = 60,
                                .created_at = 1};
        OK(tasks_insert(db, &task, &e));
    }
    char before[ULID_LEN + 1] = "";
    size_t seen = 0;
    size_t count = 0;
    do {
        struct task_row *list = NULL;
        arena_reset(page);
        OK(tasks_list(db, &sandbox.id, NULL, before, 200, page, &list, &count, &e));
        assert_true(count <= PER_PAGE);
        seen += count;
        if (count > 0) {
            memcpy(before, list[count - 1].id.text, sizeof(before));
        }
    } while (count > 0);
    assert_int_equal(seen, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_life),  WITH_STORE(test_events),  WITH_STORE(test_event_too_long),
        WITH_STORE(test_lists), WITH_STORE(test_restart), WITH_STORE(test_pages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Fuzz target: lines of stdout and stderr of both agents. Whatever they say, what is told is sound
 * JSON and the conversation's id can be an argument. One thread.
 */
#include "control/task/agents.h"
#include "lib/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void told(void *ctx, const char *type, struct str fields)
{
    struct json_doc *doc = NULL;
    struct err e;
    BUF_AUTO(object, 4UL << 20);
    (void)ctx;
    (void)type;
    buf_putc(&object, '{');
    buf_add_str(&object, fields);
    buf_putc(&object, '}');
    if (!buf_ok(&object) || json_parse(buf_str(&object), &doc, &e) != 0) {
        __builtin_trap(); /* an event that nobody could read again */
    }
    json_doc_free(doc);
}

static void feed(const struct agent_adapter *agent, struct str text)
{
    struct agent_state state;
    struct str line;
    agent_state_init(&state);
    while (text.len > 0 && str_split(&text, '\n', &line)) {
        agent->line(&state, line, told, NULL);
        agent->err_line(&state, line);
    }
    if (state.session[0] == '-' || !str_is_text(str_of(state.session), false) ||
        state.tokens_input < -1 || state.tokens_output < -1 || state.tokens_cached < -1) {
        __builtin_trap();
    }
    agent_state_done(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed(&agent_opencode, str_n(data, size));
    feed(&agent_claude, str_n(data, size));
    return 0;
}

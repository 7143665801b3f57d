/*
 * sandbox.yaml by libyaml's events. It must never follow an alias, recurse, or keep more than the
 * limits of manifest.h. One thread: PID 1's.
 */
#include "supervisor/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "lib/mem.h"

#define MANIFEST_EVENTS_MAX 4096
#define MANIFEST_LEVELS_MAX 32 /* of package.json, below the key that is looked for */
#define MANIFEST_FILE       "sandbox.yaml"

/* With dependencies when they are not there yet: an import from a repository has none. */
#define MANIFEST_DEFAULT_COMMAND \
    "if [ ! -d node_modules ]; then npm install --no-audit --no-fund || exit; fi; exec npm run dev"

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; valid while has_event */
    bool has_event;
    int events;
    struct err *e;
};

static unsigned long reader_line(const struct reader *r)
{
    return (unsigned long)r->event.start_mark.line + 1;
}

static int reader_fail(struct reader *r, const char *what, const char *fix)
{
    return err_set(r->e, ERR_INVALID, 0, "%s line %lu: %s; %s", MANIFEST_FILE, reader_line(r), what,
                   fix);
}

static void reader_drop(struct reader *r)
{
    if (r->has_event) {
        yaml_event_delete(&r->event);
    }
    r->has_event = false;
}

static int reader_syntax(struct reader *r)
{
    unsigned long line = (unsigned long)r->parser.problem_mark.line + 1;
    const char *problem = r->parser.problem ? r->parser.problem : "it is not YAML";

    return err_set(r->e, ERR_INVALID, 0,
                   "%s line %lu: %s; check the indentation and the quotes around that line",
                   MANIFEST_FILE, line, problem);
}

static int reader_next(struct reader *r)
{
    reader_drop(r);
    if (++r->events > MANIFEST_EVENTS_MAX) {
        return err_set(r->e, ERR_INVALID, 0, "%s is too long; keep only version, web and workers",
                       MANIFEST_FILE);
    }
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        return reader_syntax(r);
    }
    r->has_event = true;
    if (r->event.type == YAML_ALIAS_EVENT) {
        return reader_fail(r, "an alias (*name)", "write the value out");
    }
    return 0;
}

/* Moves to the next event, which must be of that type. */
static int reader_expect(struct reader *r, yaml_event_type_t type, const char *what,
                         const char *fix)
{
    if (reader_next(r) != 0) {
        return -1;
    }
    return r->event.type == type ? 0 : reader_fail(r, what, fix);
}

static struct str reader_scalar(const struct reader *r)
{
    return str_n(r->event.data.scalar.value, r->event.data.scalar.length);
}

/* Reads a value that must be a scalar without NUL, at most max bytes. */
static int reader_text(struct reader *r, size_t max, const char *key, struct str *ret_text)
{
    char fix[96];

    (void)snprintf(fix, sizeof(fix), "write `%s: value` on one line, at most %zu bytes", key, max);
    if (reader_expect(r, YAML_SCALAR_EVENT, "the value must be a single text", fix) != 0) {
        return -1;
    }
    *ret_text = reader_scalar(r);
    if (ret_text->len > max || !str_is_text(*ret_text, true)) {
        return reader_fail(r, "the value is too long or holds control characters", fix);
    }
    return 0;
}

static int read_command(struct reader *r, struct manifest_process *p)
{
    struct str text;

    if (reader_text(r, MANIFEST_COMMAND_BYTES_MAX, "command", &text) != 0) {
        return -1;
    }
    text = str_trim(text);
    if (text.len == 0) {
        return reader_fail(r, "command is empty",
                           "write the command line to run, or remove the block");
    }
    free(p->command);
    p->command = mem_dup(text.ptr, text.len);
    return 0;
}

static int read_bool(struct reader *r, const char *key, bool *ret_value)
{
    struct str text;

    if (reader_text(r, 8, key, &text) != 0) {
        return -1;
    }
    if (!str_to_bool(text, ret_value)) {
        return reader_fail(r, "not a yes or no", "write `restart_after_task: true` or `false`");
    }
    return 0;
}

static int read_port(struct reader *r, uint16_t *ret_port)
{
    struct str text;
    uint64_t port = 0;

    if (reader_text(r, 8, "port", &text) != 0) {
        return -1;
    }
    if (!str_to_u64(text, 65535, &port) || port == 0) {
        return reader_fail(r, "not a port",
                           "write a number from 1 to 65535, for example `port: 3000`");
    }
    *ret_port = (uint16_t)port;
    return 0;
}

static int read_health_path(struct reader *r, struct manifest *m)
{
    struct str text;

    if (reader_text(r, MANIFEST_PATH_BYTES_MAX, "health_path", &text) != 0) {
        return -1;
    }
    if (text.len == 0 || text.ptr[0] != '/') {
        return reader_fail(r, "health_path does not begin with /", "write `health_path: /`");
    }
    memcpy(m->health_path, text.ptr, text.len);
    m->health_path[text.len] = '\0';
    return 0;
}

static bool name_is_ok(struct str name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

    for (size_t i = 0; i < name.len; i++) {
        if (memchr(allowed, name.ptr[i], sizeof(allowed) - 1) == NULL) {
            return false;
        }
    }
    return name.len > 0 && name.len <= MANIFEST_NAME_BYTES_MAX && !str_is(name, "web");
}

static int read_name(struct reader *r, struct manifest *m, struct manifest_process *p)
{
    struct str text;

    if (reader_text(r, MANIFEST_NAME_BYTES_MAX, "name", &text) != 0) {
        return -1;
    }
    if (!name_is_ok(text)) {
        return reader_fail(r, "not a worker's name",
                           "use up to 64 letters, digits, _ and -, and not `web`");
    }
    for (size_t i = 0; i < m->worker_count; i++) {
        if (str_is(text, m->workers[i].name)) {
            return reader_fail(r, "a second worker of that name", "give each worker its own name");
        }
    }
    memcpy(p->name, text.ptr, text.len);
    p->name[text.len] = '\0';
    return 0;
}

/* A set of keys seen, so that none comes twice: later ones would win silently. */
static int mark_seen(struct reader *r, unsigned *seen, unsigned bit)
{
    if (*seen & bit) {
        return reader_fail(r, "the key stands there twice", "remove one of them");
    }
    *seen |= bit;
    return 0;
}

static int read_web_key(struct reader *r, struct manifest *m, struct str key, unsigned *seen)
{
    if (str_is(key, "command")) {
        return mark_seen(r, seen, 1) ? -1 : read_command(r, &m->web);
    }
    if (str_is(key, "port")) {
        return mark_seen(r, seen, 2) ? -1 : read_port(r, &m->web_port);
    }
    if (str_is(key, "health_path")) {
        return mark_seen(r, seen, 4) ? -1 : read_health_path(r, m);
    }
    if (str_is(key, "restart_after_task")) {
        return mark_seen(r, seen, 8)
                   ? -1
                   : read_bool(r, "restart_after_task", &m->web.restart_after_task);
    }
    return reader_fail(r, "an unknown key below web",
                       "known are command, port, health_path, restart_after_task");
}

static int read_web(struct reader *r, struct manifest *m)
{
    unsigned seen = 0;

    if (reader_expect(r, YAML_MAPPING_START_EVENT, "web has nothing below it",
                      "put `command:` and `port:` below `web:`, indented by two spaces") != 0) {
        return -1;
    }
    for (;;) {
        if (reader_next(r) != 0) {
            return -1;
        }
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            break;
        }
        if (r->event.type != YAML_SCALAR_EVENT) {
            return reader_fail(r, "a key that is not a name", "write `key: value`");
        }
        if (read_web_key(r, m, reader_scalar(r), &seen) != 0) {
            return -1;
        }
    }
    return m->web.command ? 0 : reader_fail(r, "web has no command", "add `command:` below `web:`");
}

static int read_worker_key(struct reader *r, struct manifest *m, struct manifest_process *p,
                           unsigned *seen)
{
    struct str key = reader_scalar(r);

    if (str_is(key, "name")) {
        return mark_seen(r, seen, 1) ? -1 : read_name(r, m, p);
    }
    if (str_is(key, "command")) {
        return mark_seen(r, seen, 2) ? -1 : read_command(r, p);
    }
    if (str_is(key, "restart_after_task")) {
        return mark_seen(r, seen, 4) ? -1
                                     : read_bool(r, "restart_after_task", &p->restart_after_task);
    }
    return reader_fail(r, "an unknown key of a worker",
                       "known are name, command, restart_after_task");
}

/* The mapping of one worker; its start was read. */
static int read_worker(struct reader *r, struct manifest *m)
{
    struct manifest_process *p = &m->workers[m->worker_count];
    unsigned seen = 0;

    for (;;) {
        if (reader_next(r) != 0) {
            return -1;
        }
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            break;
        }
        if (r->event.type != YAML_SCALAR_EVENT) {
            return reader_fail(r, "a key that is not a name", "write `key: value`");
        }
        if (read_worker_key(r, m, p, &seen) != 0) {
            return -1;
        }
    }
    if (!p->command || p->name[0] == '\0') {
        return reader_fail(r, "a worker without name or command",
                           "give each worker `name:` and `command:`");
    }
    m->worker_count++;
    return 0;
}

static int read_workers(struct reader *r, struct manifest *m)
{
    if (reader_expect(r, YAML_SEQUENCE_START_EVENT, "workers is not a list",
                      "write `- name: …` and `command: …` below `workers:`") != 0) {
        return -1;
    }
    for (;;) {
        if (reader_next(r) != 0) {
            return -1;
        }
        if (r->event.type == YAML_SEQUENCE_END_EVENT) {
            return 0;
        }
        if (r->event.type != YAML_MAPPING_START_EVENT) {
            return reader_fail(r, "a worker that is not a block",
                               "write `- name: …` and `command: …` below `workers:`");
        }
        if (m->worker_count == MANIFEST_WORKERS_MAX) {
            return reader_fail(r, "more than 16 workers",
                               "start several programs from one of them");
        }
        if (read_worker(r, m) != 0) {
            return -1;
        }
    }
}

/* Known from older manifests, and checked; nothing is built by it. */
static int read_build(struct reader *r)
{
    struct str text;

    if (reader_expect(r, YAML_MAPPING_START_EVENT, "build has nothing below it",
                      "put `command:` below `build:`, or remove the block") != 0) {
        return -1;
    }
    for (;;) {
        if (reader_next(r) != 0) {
            return -1;
        }
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            return 0;
        }
        if (r->event.type != YAML_SCALAR_EVENT || (!str_is(reader_scalar(r), "command") &&
                                                   !str_is(reader_scalar(r), "timeout_seconds"))) {
            return reader_fail(r, "an unknown key below build",
                               "known are command, timeout_seconds");
        }
        if (reader_text(r, MANIFEST_COMMAND_BYTES_MAX, "command", &text) != 0) {
            return -1;
        }
    }
}

static int read_version(struct reader *r)
{
    struct str text;

    if (reader_text(r, 16, "version", &text) != 0) {
        return -1;
    }
    return str_is(text, "1") ? 0 : reader_fail(r, "an unknown version", "write `version: 1`");
}

/* Keys people try, and where they belong. */
static const char *hint_for(struct str key)
{
    if (str_is(key, "command") || str_is(key, "port") || str_is(key, "health_path")) {
        return "put it below `web:`, indented by two spaces";
    }
    if (str_is(key, "processes") || str_is(key, "services")) {
        return "the server belongs below `web:`, everything else into the list `workers:`";
    }
    return "known are version, web and workers";
}

static int read_top_key(struct reader *r, struct manifest *m, unsigned *seen)
{
    struct str key = reader_scalar(r);

    if (str_is(key, "version")) {
        return mark_seen(r, seen, 1) ? -1 : read_version(r);
    }
    if (str_is(key, "web")) {
        return mark_seen(r, seen, 2) ? -1 : read_web(r, m);
    }
    if (str_is(key, "workers")) {
        return mark_seen(r, seen, 4) ? -1 : read_workers(r, m);
    }
    if (str_is(key, "build")) {
        return mark_seen(r, seen, 8) ? -1 : read_build(r);
    }
    return reader_fail(r, "an unknown key", hint_for(key));
}

static int read_top(struct reader *r, struct manifest *m)
{
    unsigned seen = 0;

    if (reader_expect(r, YAML_MAPPING_START_EVENT, "the file does not hold keys and values",
                      "begin with `version: 1`") != 0) {
        return -1;
    }
    for (;;) {
        if (reader_next(r) != 0) {
            return -1;
        }
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            break;
        }
        if (r->event.type != YAML_SCALAR_EVENT) {
            return reader_fail(r, "a key that is not a name", "write `key: value`");
        }
        if (read_top_key(r, m, &seen) != 0) {
            return -1;
        }
    }
    if (!(seen & 1)) {
        return reader_fail(r, "version is missing", "add `version: 1` as the first line");
    }
    return m->web.command || m->worker_count > 0
               ? 0
               : reader_fail(r, "neither web nor workers",
                             "add `web:` with `command:` and `port:`");
}

static int read_document(struct reader *r, struct manifest *m)
{
    if (reader_expect(r, YAML_STREAM_START_EVENT, "no YAML", "begin with `version: 1`") != 0 ||
        reader_expect(r, YAML_DOCUMENT_START_EVENT, "the file is empty",
                      "begin with `version: 1`") != 0 ||
        read_top(r, m) != 0 ||
        reader_expect(r, YAML_DOCUMENT_END_EVENT, "text behind the end", "remove it") != 0) {
        return -1;
    }
    return reader_expect(r, YAML_STREAM_END_EVENT, "a second document", "keep one, without `---`");
}

static int reader_open(struct reader *r, struct str text, struct err *e)
{
    *r = (struct reader){.e = e};
    if (!yaml_parser_initialize(&r->parser)) {
        return err_set(e, ERR_UNAVAILABLE, 0, "no memory to read %s", MANIFEST_FILE);
    }
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text.ptr, text.len);
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    return 0;
}

static void reader_close(struct reader *r)
{
    reader_drop(r);
    yaml_parser_delete(&r->parser);
}

int manifest_parse(struct str text, struct manifest *ret, struct err *e)
{
    struct reader r;
    struct manifest m = {.web.name = "web", .health_path = "/"};
    int result = 0;

    if (text.len > MANIFEST_BYTES_MAX) {
        return err_set(e, ERR_INVALID, 0, "%s is longer than %d bytes; keep only what runs",
                       MANIFEST_FILE, MANIFEST_BYTES_MAX);
    }
    if (reader_open(&r, text, e) != 0) {
        return -1;
    }
    result = read_document(&r, &m);
    reader_close(&r);
    if (result != 0) {
        manifest_done(&m);
        return -1;
    }
    *ret = m;
    return 0;
}

void manifest_done(struct manifest *m)
{
    free(m->web.command);
    m->web.command = NULL;
    for (size_t i = 0; i < MANIFEST_WORKERS_MAX; i++) {
        free(m->workers[i].command);
        m->workers[i].command = NULL;
    }
    m->worker_count = 0;
}

void manifest_default(struct manifest *ret)
{
    *ret = (struct manifest){.web.name = "web", .health_path = "/"};
    ret->web.command = mem_strdup(MANIFEST_DEFAULT_COMMAND);
}

/* How deep the reader stands below a change of level. */
static int level_change(yaml_event_type_t type)
{
    switch (type) {
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT: return 1;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: return -1;
    default: return 0;
    }
}

/* Looks for the key at the level below the current one; true when the reader then stands on it. */
static bool find_key(struct reader *r, const char *wanted)
{
    int level = 0;
    bool is_key = true;

    if (reader_next(r) != 0 || r->event.type != YAML_MAPPING_START_EVENT) {
        return false;
    }
    while (reader_next(r) == 0) {
        int change = level_change(r->event.type);

        if (level == 0 && is_key && r->event.type == YAML_SCALAR_EVENT &&
            str_is(reader_scalar(r), wanted)) {
            return true;
        }
        if ((level == 0 && change < 0) || level > MANIFEST_LEVELS_MAX) {
            return false;
        }
        level += change;
        if (level == 0) {
            is_key = !is_key; /* a scalar, or the end of a nested value */
        }
    }
    return false;
}

bool manifest_package_has_dev(struct str text)
{
    struct reader r;
    bool found = false;

    /* JSON is YAML in flow style, near enough for one question. */
    if (text.len > MANIFEST_BYTES_MAX || reader_open(&r, text, NULL) != 0) {
        return false;
    }
    found = reader_next(&r) == 0 && r.event.type == YAML_STREAM_START_EVENT &&
            reader_next(&r) == 0 && r.event.type == YAML_DOCUMENT_START_EVENT &&
            find_key(&r, "scripts") && find_key(&r, "dev") && reader_next(&r) == 0 &&
            r.event.type == YAML_SCALAR_EVENT && r.event.data.scalar.length > 0;
    reader_close(&r);
    return found;
}

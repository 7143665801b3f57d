/*
 * sandbox.yaml and package.json: what is taken, and what a wrong one is told.
 */
#include "supervisor/manifest.h"
#include "tests/unit/supervisor/test.h"

static void takes_a_whole_manifest(void **state)
{
    static const char text[] = "version: 1\n"
                               "web:\n"
                               "  command: npm run dev -- --port 5173 # comment\n"
                               "  port: 5173\n"
                               "  health_path: /health\n"
                               "  restart_after_task: yes\n"
                               "build:\n"
                               "  command: npm run build\n"
                               "  timeout_seconds: 60\n"
                               "workers:\n"
                               "  - name: queue_1\n"
                               "    command: |\n"
                               "      set -e\n"
                               "      node worker.js\n"
                               "    restart_after_task: false\n"
                               "  - {name: cron, command: \"sleep 5\"}\n";
    struct manifest m = {0};
    struct err e = {0};

    (void)state;
    assert_int_equal(manifest_parse(str_of(text), &m, &e), 0);
    assert_string_equal(m.web.command, "npm run dev -- --port 5173");
    assert_int_equal(m.web_port, 5173);
    assert_string_equal(m.health_path, "/health");
    assert_true(m.web.restart_after_task);
    assert_int_equal(m.worker_count, 2);
    assert_string_equal(m.workers[0].name, "queue_1");
    assert_string_equal(m.workers[0].command, "set -e\nnode worker.js");
    assert_string_equal(m.workers[1].command, "sleep 5");
    manifest_done(&m);
}

static void fills_what_is_not_said(void **state)
{
    struct manifest m = {0};

    (void)state;
    assert_int_equal(manifest_parse(STR("version: 1\nweb:\n  command: x\n"), &m, NULL), 0);
    assert_int_equal(m.web_port, 0);
    assert_string_equal(m.health_path, "/");
    assert_string_equal(m.web.name, "web");
    assert_false(m.web.restart_after_task);
    manifest_done(&m);
    assert_int_equal(
        manifest_parse(STR("version: 1\nworkers:\n- name: w\n  command: x\n"), &m, NULL), 0);
    assert_null(m.web.command);
    manifest_done(&m);
}

struct wrong {
    const char *text;
    const char *says; /* stands in the message */
};

static const struct wrong wrongs[] = {
    {"", "the file is empty"},
    {"hello", "does not hold keys and values"},
    {"- a\n", "does not hold keys and values"},
    {"web:\n  command: x\n", "line 3: version is missing; add `version: 1`"},
    {"version: 2\nweb:\n  command: x\n", "line 1: an unknown version"},
    {"version: one\n", "line 1: an unknown version"},
    {"version: 1\n", "neither web nor workers"},
    {"version: 1\nweb:\n", "line 2: web has nothing below it"},
    {"version: 1\nweb: {}\n", "web has no command"},
    {"version: 1\nweb:\n  port: 3000\n", "web has no command"},
    {"version: 1\nweb:\n  command: ''\n", "line 3: command is empty"},
    {"version: 1\nweb:\n  command: [a, b]\n", "line 3: the value must be a single text"},
    {"version: 1\nweb:\n  command: x\n  port: 0\n", "line 4: not a port"},
    {"version: 1\nweb:\n  command: x\n  port: 65536\n", "line 4: not a port"},
    {"version: 1\nweb:\n  command: x\n  port: 3000x\n", "line 4: not a port"},
    {"version: 1\nweb:\n  command: x\n  port: -1\n", "line 4: not a port"},
    {"version: 1\nweb:\n  command: x\n  health_path: x\n", "line 4: health_path does not begin"},
    {"version: 1\nweb:\n  command: x\n  restart_after_task: maybe\n", "line 4: not a yes or no"},
    {"version: 1\nweb:\n  command: x\n  command: y\n", "line 4: the key stands there twice"},
    {"version: 1\nversion: 1\n", "line 2: the key stands there twice"},
    {"version: 1\nweb:\n  command: x\n  prot: 1\n", "line 4: an unknown key below web"},
    {"version: 1\ncommand: x\n", "line 2: an unknown key; put it below `web:`"},
    {"version: 1\nservices: {}\n", "everything else into the list `workers:`"},
    {"version: 1\nbuilds: x\n", "known are version, web and workers"},
    {"version: 1\nbuild: x\n", "line 2: build has nothing below it"},
    {"version: 1\nbuild:\n  x: y\n", "line 3: an unknown key below build"},
    {"version: 1\nworkers: x\n", "line 2: workers is not a list"},
    {"version: 1\nworkers:\n  - x\n", "line 3: a worker that is not a block"},
    {"version: 1\nworkers:\n  - name: a\n", "a worker without name or command"},
    {"version: 1\nworkers:\n  - {name: web, command: x}\n", "not a worker's name"},
    {"version: 1\nworkers:\n  - {name: a b, command: x}\n", "not a worker's name"},
    {"version: 1\nworkers:\n  - {name: a, command: x}\n  - {name: a, command: x}\n",
     "line 4: a second worker of that name"},
    {"version: 1\nworkers:\n  - {name: a, command: x, port: 1}\n", "an unknown key of a worker"},
    {"version: 1\nweb: &a\n  command: x\nworkers: *a\n", "an alias"},
    {"version: 1\nweb:\n\tcommand: x\n", "line 3"},
    {"version: 1\nweb:\n command: 'x\n", "check the indentation and the quotes"},
    {"version: 1\nweb:\n  command: x\n---\nversion: 1\n", "a second document"},
    {"version: 1\nweb:\n  command: \"a\\0b\"\n", "holds control characters"},
    {"version: 1\nweb:\n  ? [a]\n  : x\n", "a key that is not a name"},
};

static void says_what_is_wrong_and_how_to_mend_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        struct manifest m = {0};
        struct err e = {0};

        if (manifest_parse(str_of(wrongs[i].text), &m, &e) == 0) {
            fail_msg("taken: %s", wrongs[i].text);
        }
        assert_int_equal(e.code, ERR_INVALID);
        if (!strstr(e.msg, wrongs[i].says)) {
            fail_msg("%s: says \"%s\", not \"%s\"", wrongs[i].text, e.msg, wrongs[i].says);
        }
        assert_null(m.web.command); /* untouched on failure */
    }
}

static void refuses_what_is_too_much(void **state)
{
    BUF_AUTO(text, 1 << 20);
    struct manifest m = {0};
    struct err e = {0};

    (void)state;
    buf_puts(&text, "version: 1\nworkers:\n");
    for (int i = 0; i <= MANIFEST_WORKERS_MAX; i++) {
        buf_printf(&text, "- {name: w%d, command: x}\n", i);
    }
    assert_int_equal(manifest_parse(buf_str(&text), &m, &e), -1);
    assert_non_null(strstr(e.msg, "more than 16 workers"));
    buf_reset(&text);
    buf_puts(&text, "version: 1\nweb:\n  command: ");
    while (text.len <= MANIFEST_COMMAND_BYTES_MAX + 40) {
        buf_putc(&text, 'x');
    }
    assert_int_equal(manifest_parse(buf_str(&text), &m, &e), -1);
    assert_non_null(strstr(e.msg, "too long"));
    while (text.len <= MANIFEST_BYTES_MAX) {
        buf_putc(&text, '\n');
    }
    assert_int_equal(manifest_parse(buf_str(&text), &m, &e), -1);
    assert_non_null(strstr(e.msg, "longer than"));
}

static void finds_the_dev_script_of_a_package(void **state)
{
    static const struct {
        const char *text;
        bool has;
    } packages[] = {
        {"{\"scripts\":{\"dev\":\"vite\"}}", true},
        {"{\n\t\"a\": \"x\",\n\t\"scripts\": {\n\t\t\"b\": \"a\",\n\t\t\"dev\": \"vite\"\n\t}\n}\n",
         true},
        {"{\"a\":{\"scripts\":{\"dev\":1}},\"b\":[1,[{\"dev\":2}]],\"scripts\":{\"dev\":\"x\"}}",
         true},
        {"{\"dev\":\"x\"}", false},
        {"{\"a\":{\"scripts\":{\"dev\":\"no\"}}}", false},
        {"{\"scripts\":{\"start\":\"dev\"}}", false},
        {"{\"scripts\":{\"x\":{\"dev\":\"y\"}}}", false},
        {"{\"scripts\":{\"dev\":\"\"}}", false},
        {"{\"scripts\":{\"dev\":[]}}", false},
        {"{\"scripts\":[\"dev\"]}", false},
        {"{\"scripts\":{\"dev\"", false},
        {"[]", false},
        {"", false},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
        if (manifest_package_has_dev(str_of(packages[i].text)) != packages[i].has) {
            fail_msg("wrong about %s", packages[i].text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_whole_manifest),
        cmocka_unit_test(fills_what_is_not_said),
        cmocka_unit_test(says_what_is_wrong_and_how_to_mend_it),
        cmocka_unit_test(refuses_what_is_too_much),
        cmocka_unit_test(finds_the_dev_script_of_a_package),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

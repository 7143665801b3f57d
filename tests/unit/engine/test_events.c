/*
 * Tests of Docker's event lines, of the hub, of log frames and of the runtime's check. One thread.
 */
#include <poll.h>

#include "engine/container.h"
#include "engine/events.h"
#include "engine/runtime.h"
#include "tests/unit/engine/test.h"

#define DATA_DIR "/var/lib/sandboxed"

static const char die[] =
    "{\"status\":\"die\",\"id\":\"7ab8\",\"from\":\"sandboxd-child:9c4c\",\"Type\":\"container\","
    "\"Action\":\"die\",\"Actor\":{\"ID\":\"7ab8\",\"Attributes\":{\"exitCode\":\"137\","
    "\"sandboxd.instance\":\"" DATA_DIR "\",\"sandboxd.sandbox\":\"" TEST_ID "\"}},"
    "\"scope\":\"local\",\"time\":1795981106,\"timeNano\":1795981106762000111}\n";

static void test_container_line(void **state)
{
    (void)state;
    struct hub_event event;
    assert_int_equal(events_parse_line(str_of(die), DATA_DIR, &event), EVENTS_CONTAINER);
    assert_int_equal(event.kind, HUB_DIE);
    assert_int_equal(event.exit_code, 137);
    assert_int_equal(event.at_ms, 1795981106762);
    assert_string_equal(event.id.text, TEST_ID);
    assert_int_equal(events_parse_line(str_of(die), "/srv/other", &event), EVENTS_OTHER);
}

static const char wrong_id[] =
    "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{"
    "\"sandboxd.instance\":\"" DATA_DIR "\",\"sandboxd.sandbox\":\"../../etc\"}}}";

static void test_other_lines(void **state)
{
    (void)state;
    static const char *const other[] = {
        "",
        "{",
        "[]",
        "7",
        "{\"Type\":\"container\"}",
        "{\"Type\":\"container\",\"Action\":\"exec_start: sh\"}",
        wrong_id,
        "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":[]}}",
        "{\"Type\":\"image\",\"Action\":\"pull\"}",
    };
    struct hub_event event;
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        assert_int_equal(events_parse_line(str_of(other[i]), DATA_DIR, &event), EVENTS_OTHER);
    }
    assert_int_equal(
        events_parse_line(STR("{\"Type\":\"network\",\"Action\":\"destroy\"}"), DATA_DIR, &event),
        EVENTS_NETWORK);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_hub(void **state)
{
    (void)state;
    struct hub *h = hub_new();
    struct hub_event event = {.kind = HUB_DOCKER, .is_up = true};
    struct hub_event got;
    struct hub_follower *first = hub_join(h);
    assert_int_equal(hub_next(h, first, &got), 1);
    assert_int_equal(got.kind, HUB_DOCKER);
    assert_false(got.is_up);
    assert_int_equal(hub_next(h, first, &got), 0);
    assert_false(is_readable(hub_follower_fd(first)));
    hub_publish(h, &event);
    hub_publish(h, &event); /* the same word twice is said once */
    assert_true(is_readable(hub_follower_fd(first)));
    assert_int_equal(hub_next(h, first, &got), 1);
    assert_true(got.is_up);
    assert_int_equal(hub_next(h, first, &got), 0);
    struct hub_follower *second = hub_join(h);
    assert_int_equal(hub_next(h, second, &got), 1);
    assert_true(got.is_up);
    hub_leave(h, first);
    event.kind = HUB_START;
    for (size_t i = 0; i < HUB_QUEUE_MAX; i++) {
        hub_publish(h, &event);
    }
    assert_int_equal(hub_next(h, second, &got), 1);
    hub_publish(h, &event);
    hub_publish(h, &event); /* one too many: better none than a gap */
    assert_int_equal(hub_next(h, second, &got), -1);
    hub_leave(h, second);
    hub_free(h);
}

static void test_log_frames(void **state)
{
    (void)state;
    BUF_AUTO(out, 1024);
    container_logs_demux(STR("\1\0\0\0\0\0\0\3one\2\0\0\0\0\0\0\4\ntwo\1\0\0\0\0\0\0\0"), &out);
    assert_string_equal(out.ptr, "one\ntwo");
    buf_reset(&out);
    /* A frame cut short gives what there is; a wild head ends it. */
    container_logs_demux(STR("\1\0\0\0\0\0\0\11short"), &out);
    assert_string_equal(out.ptr, "short");
    buf_reset(&out);
    container_logs_demux(STR("\1\0\0\0\0\0\0\1a\7\0\0\0\0\0\0\1b"), &out);
    assert_string_equal(out.ptr, "a");
    container_logs_demux(STR("\1\0\0\0\377\377\377\377x"), &out);
    container_logs_demux(STR("\1\0\0"), &out);
    assert_string_equal(out.ptr, "ax");
}

static void test_runtime(void **state)
{
    (void)state;

    static const struct {
        const char *info;
        const char *word; /* NULL: fine */
    } cases[] = {
        {"{\"Runtimes\":{\"runc\":{\"path\":\"runc\"}}}", "no runtime runsc"},
        {"{\"Runtimes\":{\"runsc\":{\"path\":\"/usr/bin/runsc\"}}}", "--host-uds=open"},
        {"{\"Runtimes\":{\"runsc\":{\"path\":\"/usr/bin/runsc\",\"runtimeArgs\":"
         "[\"--host-uds=create\"]}}}",
         "--host-uds=open"},
        {"{\"Runtimes\":{\"runsc\":{\"path\":\"/usr/bin/runsc\",\"runtimeArgs\":"
         "[\"--platform=ptrace\",\"--host-uds=open\"]}}}",
         NULL},
        {"{\"Runtimes\":{\"runsc\":{\"runtimeArgs\":[7,\"--host-uds=all\"]}}}", NULL},
        {"{}", "daemon.json"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(cases[i].info);
        struct err e = {0};
        int result = runtime_check_info(json_root(doc), true, &e);
        assert_int_equal(result, cases[i].word ? -1 : 0);
        if (cases[i].word) {
            assert_int_equal(e.code, ERR_UNAVAILABLE);
            assert_non_null(strstr(e.msg, cases[i].word));
            assert_non_null(strstr(e.msg, "restart Docker"));
        }
    }
}

static void test_engine_refused(void **state)
{
    (void)state;

    static const struct {
        const char *info;
        const char *word; /* NULL: fine */
    } cases[] = {
        {"{\"SecurityOptions\":[\"name=seccomp,profile=default\",\"name=cgroupns\"]}", NULL},
        {"{\"SecurityOptions\":[\"name=seccomp\",\"name=rootless\"]}", "rootless"},
        {"{\"SecurityOptions\":[\"name=userns\"]}", "userns-remap"},
        {"{\"OperatingSystem\":\"Docker Desktop\"}", "Docker Desktop"},
        {"{\"SecurityOptions\":null}", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(cases[i].info);
        struct err e = {0};
        assert_int_equal(runtime_check_info(json_root(doc), false, &e), cases[i].word ? -1 : 0);
        if (cases[i].word) {
            assert_non_null(strstr(e.msg, cases[i].word));
        }
    }
}

static void test_data_dir(void **state)
{
    (void)state;

    static const struct {
        const char *own;
        bool is_fine;
    } cases[] = {
        {"{\"Mounts\":[{\"Source\":\"/var/lib/sandboxed\",\"Destination\":\"/var/lib/sandboxed\"},"
         "{\"Source\":\"/x\",\"Destination\":\"/var/lib/sandboxed/run/engine\"}]}",
         true},
        {"{\"Mounts\":[{\"Source\":\"/var/lib\",\"Destination\":\"/var/lib\"}]}", true},
        {"{\"Mounts\":[{\"Source\":\"/srv/data\",\"Destination\":\"/var/lib/sandboxed\"}]}", false},
        {"{\"Mounts\":[{\"Source\":\"/var/lib/sand\",\"Destination\":\"/var/lib/sand\"}]}", false},
        {"{\"Mounts\":[]}", false},
        {"{}", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(cases[i].own);
        struct err e = {0};
        assert_int_equal(runtime_check_mounts(json_root(doc), DATA_DIR, &e),
                         cases[i].is_fine ? 0 : -1);
        assert_true(cases[i].is_fine || strstr(e.msg, "SANDBOXD_DATA_DIR"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_container_line),
        cmocka_unit_test(test_other_lines),
        cmocka_unit_test(test_hub),
        cmocka_unit_test(test_log_frames),
        cmocka_unit_test(test_runtime),
        cmocka_unit_test(test_engine_refused),
        cmocka_unit_test(test_data_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

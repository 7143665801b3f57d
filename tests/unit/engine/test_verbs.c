/*
 * Tests of what the engine takes from its caller, who is not believed. One thread.
 */
#include "engine/hub.h"
#include "engine/verbs.h"
#include "tests/unit/engine/test.h"

#define BASE  2000000000U
#define TOTAL (8ULL << 30)

struct field {
    const char *key;
    const char *value; /* NULL: left out */
};

static const struct field good[] = {
    {"id", TEST_ID}, {"uid", "2000000001"}, {"image", "react-vite"}, {"init", "5009c74e732e096f"},
    {"memory", "0"}, {"cpus_milli", "0"},   {"app_name", "My app"},
};

/* A create record with one field replaced. */
static int parse(struct field change, struct spec_request *ret, struct err *e)
{
    BUF_AUTO(out, RECORD_FRAME_MAX + 8);
    struct record record;
    struct str frame;
    struct record_writer w = record_begin(&out, "create");
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        bool is_changed = change.key && strcmp(change.key, good[i].key) == 0;
        record_adds(&w, good[i].key, is_changed ? change.value : good[i].value);
    }
    assert_true(record_end(&w));
    assert_int_equal(record_next(&out, &frame, e), 1);
    assert_int_equal(record_parse(frame, &record, e), 0);
    return verbs_parse_create(&record, BASE, TOTAL, ret, e);
}

static void test_create(void **state)
{
    (void)state;
    struct spec_request r;
    struct err e;
    assert_int_equal(parse((struct field){0}, &r, &e), 0);
    assert_string_equal(r.id.text, TEST_ID);
    assert_int_equal(r.uid, 2000000001);
    assert_string_equal(r.image, "react-vite");
    assert_string_equal(r.init, "5009c74e732e096f");
    assert_string_equal(r.app_name, "My app");
    assert_int_equal(parse((struct field){"uid", "2000099999"}, &r, &e), 0);
    assert_int_equal(parse((struct field){"memory", "67108864"}, &r, &e), 0);
    assert_int_equal(parse((struct field){"app_name", NULL}, &r, &e), 0);
}

static void test_create_refused(void **state)
{
    (void)state;
    static const struct field cases[] = {
        {"id", NULL},
        {"id", ""},
        {"id", "../../../../../../../etc"},
        {"id", "01JD00000000000000000000AA"},
        {"id", TEST_ID "x"},
        {"uid", NULL},
        {"uid", "0"},
        {"uid", "2000000000"},
        {"uid", "2000100000"},
        {"uid", "-1"},
        {"uid", "0x77359401"},
        {"uid", "2000000001 "},
        {"uid", "99999999999999999999999"},
        {"memory", NULL},
        {"memory", "1"},
        {"memory", "8589934593"},
        {"cpus_milli", "1000001"},
        {"cpus_milli", "1.5"},
        {"init", NULL},
        {"init", "../../../etc/pas"},
        {"init", "5009C74E732E096F"},
        {"app_name", "two\nlines"},
        {"app_name", "\xff\xfe"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct spec_request r;
        struct err e = {0};
        if (parse(cases[i], &r, &e) == 0) {
            fail_msg("%s=%s was accepted", cases[i].key,
                     cases[i].value ? cases[i].value : "(none)");
        }
        assert_int_equal(e.code, ERR_INVALID);
        assert_non_null(strstr(e.msg, cases[i].key));
    }
    char name[2000];
    struct spec_request r;
    struct err e;
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(parse((struct field){"app_name", name}, &r, &e), -1);
    assert_int_equal(parse((struct field){"image", name}, &r, &e), -1);
}

static int hello(const char *kind, const char *protocol, const char *role, struct err *e)
{
    BUF_AUTO(out, 1024);
    struct record record;
    struct str frame;
    struct record_writer w = record_begin(&out, kind);
    record_adds(&w, "protocol", protocol);
    record_adds(&w, "role", role);
    assert_true(record_end(&w));
    assert_int_equal(record_next(&out, &frame, e), 1);
    assert_int_equal(record_parse(frame, &record, e), 0);
    return verbs_check_hello(&record, e);
}

static void test_hello(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(hello("hello", "1", "sandboxd", &e), 0);
    assert_int_equal(hello("hello", "2", "sandboxd", &e), -1);
    assert_int_equal(e.code, ERR_PROTOCOL);
    assert_int_equal(hello("hello", NULL, "sandboxd", &e), -1);
    assert_int_equal(hello("hello", "1", "standing", &e), -1);
    assert_int_equal(hello("status", "1", "sandboxd", &e), -1);
}

static struct record first_record(const struct buf *out)
{
    struct record record;
    struct str frame;
    struct err e;
    assert_int_equal(record_next(out, &frame, &e), 1);
    assert_int_equal(record_parse(frame, &record, &e), 0);
    return record;
}

/* Requests that are refused before anything is asked of Docker. */
static void test_answer_refused(void **state)
{
    (void)state;
    static const char *const kinds[] = {"create", "start", "stop",  "remove", "inspect",
                                        "peer",   "port",  "usage", "logs"};
    struct config config = test_config();
    struct engine g = {.config = &config, .memory_total_bytes = TOTAL};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        BUF_AUTO(in, 1024);
        BUF_AUTO(out, 65536);
        struct record_writer w = record_begin(&in, kinds[i]);
        record_adds(&w, "id", "not-an-id");
        assert_true(record_end(&w));
        struct record request = first_record(&in);
        assert_int_equal(verbs_answer(&g, &request, -1, &out), 0);
        struct record answer = first_record(&out);
        assert_true(record_is(&answer, "error"));
        assert_true(str_is(record_get(&answer, "code"), "invalid"));
    }
}

static void test_unknown_kind(void **state)
{
    (void)state;
    struct config config = test_config();
    struct engine g = {.config = &config};
    BUF_AUTO(in, 1024);
    BUF_AUTO(out, 65536);
    struct record_writer w = record_begin(&in, "exec");
    assert_true(record_end(&w));
    struct record request = first_record(&in);
    assert_int_equal(verbs_answer(&g, &request, -1, &out), -1);
    struct record answer = first_record(&out);
    assert_true(str_is(record_get(&answer, "code"), "protocol"));
}

static void test_event(void **state)
{
    (void)state;
    struct hub_event event = {.kind = HUB_DIE, .exit_code = 137, .at_ms = 5};
    BUF_AUTO(out, 65536);
    int64_t exit_code = 0;
    assert_true(ulid_parse(STR(TEST_ID), &event.id));
    verbs_write_event(&out, &event);
    struct record record = first_record(&out);
    assert_true(record_is(&record, "event"));
    assert_true(str_is(record_get(&record, "action"), "die"));
    assert_true(str_is(record_get(&record, "id"), TEST_ID));
    assert_true(record_get_i64(&record, "exit_code", &exit_code));
    assert_int_equal(exit_code, 137);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),       cmocka_unit_test(test_create_refused),
        cmocka_unit_test(test_hello),        cmocka_unit_test(test_answer_refused),
        cmocka_unit_test(test_unknown_kind), cmocka_unit_test(test_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

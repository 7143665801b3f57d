/*
 * Tests of the JSON writer. One thread.
 */
#include "lib/json_read.h"
#include "lib/json_write.h"
#include "tests/unit/lib/test.h"

static void test_shapes(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    struct json_writer w;
    json_begin(&w, &b);
    json_object(&w, NULL);
    json_text(&w, "a", "x");
    json_text(&w, "none", NULL);
    json_int(&w, "n", INT64_MIN);
    json_bool(&w, "t", true);
    json_array(&w, "l");
    json_int(&w, NULL, 1);
    json_object(&w, NULL);
    json_object_end(&w);
    json_null(&w, NULL);
    json_array(&w, NULL);
    json_array_end(&w);
    json_array_end(&w);
    json_raw(&w, "r", STR("{\"k\":1}"));
    json_time(&w, "at", 1767323045678);
    json_time(&w, "never", 0);
    json_object_end(&w);
    test_buf(&b, "{\"a\":\"x\",\"none\":null,\"n\":-9223372036854775808,\"t\":true,"
                 "\"l\":[1,{},null,[]],\"r\":{\"k\":1},\"at\":\"2026-01-02T03:04:05.678Z\","
                 "\"never\":null}");
}

static void escaped(struct str in, const char *want)
{
    BUF_AUTO(b, 4096);
    json_escape(&b, in);
    test_buf(&b, want);
}

static void test_escapes(void **state)
{
    (void)state;
    escaped(STR(""), "\"\"");
    escaped((struct str){NULL, 0}, "\"\"");
    escaped(STR("\"\\/\b\f\n\r\t"), "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    escaped(STR("a\0b\x01\x1F\x7F"), "\"a\\u0000b\\u0001\\u001f\\u007f\"");
    escaped(STR("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

static void test_broken_bytes(void **state)
{
    (void)state;
    escaped(STR("a\xFFz"), "\"a\\ufffdz\"");
    escaped(STR("\xC0\x80"), "\"\\ufffd\\ufffd\"");
    escaped(STR("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
    /* Cut in the middle of a character: what follows is kept. */
    escaped(STR("\xE2\x82"), "\"\\ufffd\\ufffd\"");
    escaped(STR("\xE2\x82\"x"), "\"\\ufffd\\ufffd\\\"x\"");
}

/* Each byte value at each place of a string of ten: escaped alone or not at all. */
static void test_every_byte(void **state)
{
    (void)state;
    for (int c = 1; c < 0x80; c++) {
        for (size_t at = 0; at < 10; at++) {
            char in[11] = "aaaaaaaaaa";
            BUF_AUTO(b, 100);
            struct json_doc *doc = NULL;
            struct err e;
            in[at] = (char)c;
            json_escape(&b, str_n(in, 10));
            bool plain = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
            assert_int_equal(b.len == 12, plain);
            assert_int_equal(json_parse(buf_str(&b), &doc, &e), 0);
            assert_true(str_eq(json_as_str(json_root(doc)), str_n(in, 10)));
            json_doc_free(doc);
        }
    }
}

/* Whatever the bytes, the reader takes what the writer wrote. */
static void test_reader_agrees(void **state)
{
    (void)state;
    unsigned seed = 12345;
    for (int round = 0; round < 500; round++) {
        char bytes[64];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1103515245U + 12345U;
            bytes[i] = (char)(seed >> 16);
        }
        BUF_AUTO(b, 4096);
        json_escape(&b, str_n(bytes, sizeof(bytes)));
        struct json_doc *doc = NULL;
        struct err e;
        assert_int_equal(json_parse(buf_str(&b), &doc, &e), 0);
        json_doc_free(doc);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    struct json_writer w;
    json_begin(&w, &b);
    for (int i = 0; i < JSON_WRITE_DEPTH_MAX + 4; i++) {
        json_array(&w, NULL);
    }
    for (int i = 0; i < JSON_WRITE_DEPTH_MAX + 8; i++) {
        json_array_end(&w);
    }
    assert_false(buf_ok(&b));
    BUF_AUTO(small, 10);
    json_begin(&w, &small);
    json_text(&w, NULL, "longer than ten");
    assert_false(buf_ok(&small));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),       cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_broken_bytes), cmocka_unit_test(test_reader_agrees),
        cmocka_unit_test(test_bounds),       cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

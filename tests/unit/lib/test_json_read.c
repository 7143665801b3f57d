/*
 * Tests of the JSON reader: strictness, depth, repeated keys, access. One thread.
 */
#include "lib/clock.h"
#include "lib/json_read.h"
#include "tests/unit/lib/test.h"

static bool parses(struct str text)
{
    struct json_doc *doc = NULL;
    struct err e = {0};
    int rc = json_parse(text, &doc, &e);
    if (rc != 0) {
        assert_int_equal(e.code, ERR_INVALID);
        assert_true(e.msg[0]);
        assert_null(doc);
    }
    json_doc_free(doc);
    return rc == 0;
}

static void test_strict(void **state)
{
    (void)state;
    static const char *const good[] = {"{}",
                                       "[]",
                                       "null",
                                       " {\"a\" : [1, -2.5e3, true]} ",
                                       "\"x\"",
                                       "{\"a\":{\"b\":1},\"b\":1}",
                                       "\"\\u00e4\\ud83d\\ude00\"",
                                       "0"};
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "{\"a\":1,}",
                                      "[1,]",
                                      "{a:1}",
                                      "{'a':1}",
                                      "// c\n{}",
                                      "/* c */{}",
                                      "{} {}",
                                      "NaN",
                                      "Infinity",
                                      "1e999",
                                      "01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "tru",
                                      "\"a",
                                      "\"\n\"",
                                      "\"\\x\"",
                                      "\"\\ud800\"",
                                      "\"\xC0\x80\"",
                                      "\"\xED\xA0\x80\"",
                                      "\"\xFF\"",
                                      "{\"\xE2\x82\":1}",
                                      "\xEF\xBB\xBF{}"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(parses(str_of(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(parses(str_of(bad[i])));
    }
    assert_false(parses(STR("{}\0")));
    assert_false(parses((struct str){NULL, 0}));
}

static void nest(struct buf *b, int depth)
{
    buf_reset(b);
    for (int i = 0; i < depth; i++) {
        buf_putc(b, '[');
    }
    for (int i = 0; i < depth; i++) {
        buf_putc(b, ']');
    }
}

static void test_depth(void **state)
{
    (void)state;
    BUF_AUTO(b, 2000000);
    nest(&b, JSON_DEPTH_MAX);
    assert_true(parses(buf_str(&b)));
    nest(&b, JSON_DEPTH_MAX + 1);
    assert_false(parses(buf_str(&b)));
    nest(&b, 500000);
    assert_false(parses(buf_str(&b)));
    /* Brackets inside strings do not count, escaped quotes do not end them. */
    buf_reset(&b);
    buf_puts(&b, "[\"\\\"");
    for (int i = 0; i < 100; i++) {
        buf_putc(&b, '[');
    }
    buf_puts(&b, "\\\\\"]");
    assert_true(parses(buf_str(&b)));
}

static void test_repeated_keys(void **state)
{
    (void)state;
    assert_false(parses(STR("{\"a\":1,\"a\":2}")));
    assert_false(parses(STR("{\"a\":1,\"\\u0061\":2}")));
    assert_false(parses(STR("[{\"x\":{\"b\":1,\"c\":[],\"b\":2}}]")));
    assert_true(parses(STR("[{\"a\":1},{\"a\":2},\"a\",\"a\"]")));
}

static void many_keys(struct buf *b, int count, bool repeat)
{
    buf_reset(b);
    buf_putc(b, '{');
    for (int i = 0; i < count; i++) {
        buf_printf(b, "\"key%d\":{},", i);
    }
    buf_printf(b, "\"key%d\":1}", repeat ? count / 2 : count);
}

static void test_many_keys(void **state)
{
    (void)state;
    BUF_AUTO(b, 4000000);
    static const int counts[] = {63, 64, 65, 256, 257, 300, 100000};
    int64_t start = clock_mono_ms();
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        many_keys(&b, counts[i], false);
        assert_true(parses(buf_str(&b)));
        many_keys(&b, counts[i], true);
        assert_false(parses(buf_str(&b)));
    }
    struct json_doc *doc = NULL;
    struct err e;
    many_keys(&b, 100000, false);
    assert_int_equal(json_parse(buf_str(&b), &doc, &e), 0);
    size_t pos = 0;
    size_t seen = 0;
    struct str key;
    const struct json_value *value = NULL;
    while (json_each(json_root(doc), &pos, &key, &value)) {
        seen++;
    }
    assert_int_equal(seen, 100001);
    json_doc_free(doc);
    /* A peer's big object costs it more than us: quadratic work would take minutes here. */
    assert_true(clock_mono_ms() - start < 20000);
}

static void test_access(void **state)
{
    (void)state;
    struct json_doc *doc = NULL;
    struct err e;
    assert_int_equal(
        json_parse(STR("{\"s\":\"a\\u0000b\",\"n\":-5,\"big\":18446744073709551615,\"r\":1.5,"
                       "\"t\":true,\"z\":null,\"l\":[1,{\"k\":\"v\"}],\"o\":{\"p\":{\"q\":7}}}"),
                   &doc, &e),
        0);
    const struct json_value *root = json_root(doc);
    int64_t n = 0;
    double d = 0;
    bool t = false;
    assert_true(json_is_object(root));
    assert_int_equal(json_count(root), 8);
    assert_true(str_eq(json_get_str(root, "s"), str_n("a\0b", 3)));
    assert_null(json_get_str(root, "n").ptr);
    assert_null(json_get_str(root, "missing").ptr);
    assert_true(json_get_int(root, "n", &n) && n == -5);
    assert_false(json_get_int(root, "big", &n));
    assert_false(json_get_int(root, "r", &n));
    assert_true(json_as_double(json_get(root, "r"), &d) && d > 1.4 && d < 1.6);
    assert_false(json_as_double(json_get(root, "s"), &d));
    assert_true(json_get_bool(root, "t", &t) && t);
    assert_false(json_get_bool(root, "n", &t));
    assert_true(json_is_null(json_get(root, "z")));
    assert_false(json_is_null(json_get(root, "missing")));
    const struct json_value *list = json_get(root, "l");
    assert_true(json_is_array(list));
    assert_int_equal(json_count(list), 2);
    assert_true(json_is_int(json_at(list, 0)));
    test_str(json_get_str(json_at(list, 1), "k"), "v");
    assert_null(json_at(list, 2));
    assert_null(json_at(root, 0));
    assert_true(json_as_int(json_path(root, "o", "p", "q", NULL), &n) && n == 7);
    assert_null(json_path(root, "o", "x", "q", NULL));
    assert_null(json_get(NULL, "a"));
    assert_null(json_get(list, "a"));
    json_doc_free(doc);
}

static void test_each_in_order(void **state)
{
    (void)state;
    struct json_doc *doc = NULL;
    struct err e;
    assert_int_equal(json_parse(STR("{\"a\":[1,[2]],\"b\":{\"x\":1},\"c\":{},\"d\":4}"), &doc, &e),
                     0);
    size_t pos = 0;
    struct str key;
    const struct json_value *value = NULL;
    BUF_AUTO(seen, 8);
    while (json_each(json_root(doc), &pos, &key, &value)) {
        buf_putc(&seen, key.ptr[0]);
    }
    test_buf(&seen, "abcd");
    int64_t n = 0;
    assert_true(json_as_int(value, &n) && n == 4);
    pos = 0;
    assert_false(json_each(json_get(json_root(doc), "c"), &pos, &key, &value));
    assert_false(json_each(json_get(json_root(doc), "a"), &pos, &key, &value));
    assert_false(json_each(NULL, &pos, &key, &value));
    json_doc_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict),        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_repeated_keys), cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_access),        cmocka_unit_test(test_each_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

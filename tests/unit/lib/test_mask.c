/*
 * Tests of masking: values leave no byte behind, however the text was cut.
 */
#include "lib/json_read.h"
#include "lib/mask.h"
#include "tests/unit/lib/test.h"

static void assert_masked(const struct mask *m, const char *text, const char *expected)
{
    BUF_AUTO(out, 65536);

    mask_text(m, str_of(text), &out);
    assert_string_equal(out.ptr, expected);
}

/* Every way to cut it in two, and byte by byte. */
static void assert_masked_in_pieces(const struct mask *m, const char *text, const char *expected)
{
    struct str all = str_of(text);

    assert_masked(m, text, expected);
    for (size_t cut = 0; cut <= all.len; cut++) {
        struct mask_stream s;
        BUF_AUTO(out, 65536);

        mask_stream_init(&s);
        mask_stream_feed(&s, m, str_cut(all, 0, cut), &out);
        mask_stream_feed(&s, m, str_cut(all, cut, all.len), &out);
        mask_stream_end(&s, &out);
        mask_stream_done(&s);
        assert_string_equal(out.ptr, expected);
    }
    struct mask_stream s;
    BUF_AUTO(out, 65536);
    mask_stream_init(&s);
    for (size_t i = 0; i < all.len; i++) {
        mask_stream_feed(&s, m, str_cut(all, i, i + 1), &out);
    }
    mask_stream_end(&s, &out);
    mask_stream_done(&s);
    assert_string_equal(out.ptr, expected);
}

static void values_are_taken_out(void **state)
{
    const struct str values[] = {STR("hunter2-pass"), STR("abcdef"), STR("defghi"), STR("aaaaaa")};
    struct mask *m AUTO(mask) = mask_new(values, ARRAY_LEN(values));

    (void)state;
    assert_non_null(m);
    assert_masked_in_pieces(m, "", "");
    assert_masked_in_pieces(m, "nothing here", "nothing here");
    assert_masked_in_pieces(m, "hunter2-pass", "***");
    assert_masked_in_pieces(m, "x hunter2-pass y\n", "x *** y\n");
    assert_masked_in_pieces(m, "hunter2-pas", "hunter2-pas");
    assert_masked_in_pieces(m, "hunter2-hunter2-pass", "hunter2-***");
    assert_masked_in_pieces(m, "hunter2-passhunter2-pass!", "***!");
    /* Two that overlap are one. */
    assert_masked_in_pieces(m, "<abcdefghi>", "<***>");
    assert_masked_in_pieces(m, "abcdeabcdef", "abcde***");
    assert_masked_in_pieces(m, "aaaaa aaaaaa aaaaaaaaaab", "aaaaa *** ***b");
}

static void a_value_inside_another_goes_with_it(void **state)
{
    const struct str values[] = {STR("secret"), STR("my-secret-is-long")};
    struct mask *m AUTO(mask) = mask_new(values, ARRAY_LEN(values));

    (void)state;
    assert_masked_in_pieces(m, "my-secret-is-long", "***");
    assert_masked_in_pieces(m, "my-secret-is-lon", "my-***-is-lon");
    assert_masked_in_pieces(m, "a secret a", "a *** a");
}

static void short_values_stay(void **state)
{
    const struct str values[] = {STR("12345"), STR(""), STR("   x  \n")};

    (void)state;
    assert_null(mask_new(values, ARRAY_LEN(values)));
    assert_null(mask_new(values, 0));
    assert_false(mask_covers(STR("12345")));
    assert_false(mask_covers(STR(" 12345\n")));
    assert_true(mask_covers(STR("123456")));
    assert_masked(NULL, "12345", "12345");
    mask_free(NULL);
}

static void several_lines_are_masked_line_by_line(void **state)
{
    const struct str values[] = {
        STR("-----BEGIN KEY-----\nMIIEvQIBADAN\r\nab==\n-----END KEY-----\n")};
    struct mask *m AUTO(mask) = mask_new(values, ARRAY_LEN(values));

    (void)state;
    assert_masked_in_pieces(m, "  MIIEvQIBADAN\n", "  ***\n");
    assert_masked_in_pieces(m, "-----BEGIN KEY-----\nMIIEvQIBADAN\r\nab==\n-----END KEY-----\n",
                            "***\n");
    assert_masked_in_pieces(m, "-----END KEY-----", "***");
    /* A line that is short hides only beside its neighbours. */
    assert_masked_in_pieces(m, "ab==", "ab==");
}

static void a_new_mask_takes_what_is_held(void **state)
{
    const struct str before[] = {STR("first-value")};
    const struct str after[] = {STR("first-value"), STR("value-second")};
    struct mask *old AUTO(mask) = mask_new(before, 1);
    struct mask *next AUTO(mask) = mask_new(after, 2);
    struct mask_stream s;
    BUF_AUTO(out, 4096);

    (void)state;
    mask_stream_init(&s);
    mask_stream_feed(&s, old, STR("say first-val"), &out);
    assert_string_equal(out.ptr, "say ");
    mask_stream_switch(&s, next);
    mask_stream_feed(&s, next, STR("ue-sec"), &out);
    mask_stream_feed(&s, next, STR("ond."), &out);
    mask_stream_switch(&s, NULL);
    mask_stream_feed(&s, NULL, STR(" first-value"), &out);
    mask_stream_end(&s, &out);
    assert_string_equal(out.ptr, "say ***. first-value");
    mask_stream_done(&s);
}

static void what_is_held_goes_out_without_a_mask(void **state)
{
    const struct str values[] = {STR("first-value")};
    struct mask *m AUTO(mask) = mask_new(values, 1);
    struct mask_stream s;
    BUF_AUTO(out, 4096);

    (void)state;
    mask_stream_init(&s);
    mask_stream_feed(&s, m, STR("a first"), &out);
    assert_string_equal(out.ptr, "a ");
    mask_stream_switch(&s, NULL);
    mask_stream_feed(&s, NULL, STR(" b"), &out);
    assert_string_equal(out.ptr, "a first b");
    mask_stream_done(&s);
}

static void a_length_that_was_promised_is_kept(void **state)
{
    const struct str values[] = {STR("sk-first-value")};
    const char *const text = "say sk-first-valsk-first-value, sk-first-values";
    struct mask *m AUTO(mask) = mask_new(values, 1);
    struct mask_stream s;

    (void)state;
    for (size_t step = 1; step <= strlen(text); step++) {
        BUF_AUTO(out, 4096);
        mask_stream_init(&s);
        s.keeps_length = true;
        for (size_t i = 0; i < strlen(text); i += step) {
            mask_stream_feed(&s, m, str_cut(str_of(text), i, i + step), &out);
        }
        mask_stream_end(&s, &out);
        assert_string_equal(out.ptr, "say sk-first-val**************, **************s");
        mask_stream_done(&s);
    }
}

static void long_values_in_long_text(void **state)
{
    BUF_AUTO(value, MASK_VALUE_BYTES);
    BUF_AUTO(text, 1 << 20);
    BUF_AUTO(out, 1 << 20);

    (void)state;
    for (int i = 0; i < 2000; i++) {
        buf_printf(&value, "%d,", i * 7919);
    }
    for (int i = 0; i < 20; i++) {
        buf_puts(&text, "<0,7919,");
        buf_add_str(&text, buf_str(&value));
        buf_puts(&text, ">");
    }
    struct str one = buf_str(&value);
    struct mask *m AUTO(mask) = mask_new(&one, 1);
    mask_text(m, buf_str(&text), &out);
    assert_int_equal(out.len, strlen("<0,7919,***>") * 20);
}

static void assert_json(const struct mask *m, const char *json, const char *expected)
{
    struct json_doc *doc = NULL;
    struct err e = {0};
    BUF_AUTO(out, 65536);

    mask_json(m, str_of(json), &out);
    assert_string_equal(out.ptr, expected);
    assert_int_equal(json_parse(buf_str(&out), &doc, &e), 0);
    json_doc_free(doc);
}

static void json_is_masked_by_what_it_means(void **state)
{
    const struct str values[] = {STR("n\"quoted\\secret"), STR("n12345678"),
                                 STR("k\xc3\xa4se-brot"), STR("one-line\ntwo-line"),
                                 STR("4711001")};
    struct mask *m AUTO(mask) = mask_new(values, ARRAY_LEN(values));

    (void)state;
    assert_json(m, "{\"a\":\"n\\\"quoted\\\\secret\"}", "{\"a\":\"***\"}");
    /* The n of a line's end is none. */
    assert_json(m, "{\"a\":\"\\n12345678\"}", "{\"a\":\"\\n12345678\"}");
    assert_json(m, "{\"a\":\"\\nn12345678\"}", "{\"a\":\"\\n***\"}");
    assert_json(m, "{\"a\":\"K=k\\u00e4se-brot\",\"b\":[1,true]}",
                "{\"a\":\"K=***\",\"b\":[1,true]}");
    assert_json(m, "[\"one-line\\ntwo-line\",\"\\ud83d\\ude00 n12345678\"]",
                "[\"***\\n***\",\"\xf0\x9f\x98\x80 ***\"]");
    assert_json(m, "{\"n12345678\":\"n1234567\"}", "{\"***\":\"n1234567\"}");
    /* Numbers that hold none stay numbers. */
    assert_json(m, "{\"a\":4711001,\"b\":[-1.5e3,4711002,74711001],\"c\":1234567}",
                "{\"a\":\"***\",\"b\":[-1.5e3,4711002,\"7***\"],\"c\":1234567}");
    /* Half a line. */
    BUF_AUTO(out, 4096);
    mask_json(m, STR("{\"a\":\"x n12345678"), &out);
    assert_string_equal(out.ptr, "{\"a\":\"x ***");
    buf_reset(&out);
    mask_json(NULL, STR("{\"a\""), &out);
    assert_string_equal(out.ptr, "{\"a\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken_out),
        cmocka_unit_test(a_value_inside_another_goes_with_it),
        cmocka_unit_test(short_values_stay),
        cmocka_unit_test(several_lines_are_masked_line_by_line),
        cmocka_unit_test(a_new_mask_takes_what_is_held),
        cmocka_unit_test(what_is_held_goes_out_without_a_mask),
        cmocka_unit_test(a_length_that_was_promised_is_kept),
        cmocka_unit_test(long_values_in_long_text),
        cmocka_unit_test(json_is_masked_by_what_it_means),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

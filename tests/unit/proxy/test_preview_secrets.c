/*
 * Tests of what is kept from an app: our tokens and cookies, and nothing else. One thread.
 */
#include "lib/crypto.h"
#include "proxy/preview_secrets.h"
#include "tests/unit/proxy/test.h"

static void take(struct str hash)
{
    BUF_AUTO(frames, 4096);
    struct record r;
    struct str frame;
    struct err e;
    struct record_writer w = record_begin(&frames, "settings");

    record_add(&w, "api_token", STR("not a hash"));
    record_add(&w, "api_token", hash);
    assert_true(record_end(&w));
    assert_int_equal(record_next(&frames, &frame, &e), 1);
    assert_int_equal(record_parse(frame, &r, &e), 0);
    secrets_take(&r);
}

static void test_tokens(void **state)
{
    char hash[CRYPTO_SHA256_HEX];

    (void)state;
    assert_false(secrets_has_token(STR("Bearer sk_ours")));
    crypto_sha256_hex(STR("sk_ours"), hash);
    take(str_of(hash));
    assert_true(secrets_has_token(STR("Bearer sk_ours")));
    assert_true(secrets_has_token(STR("bearer  sk_ours ")));
    assert_false(secrets_has_token(STR("Bearer sk_our")));
    assert_false(secrets_has_token(STR("Basic sk_ours")));
    assert_false(secrets_has_token(STR("Bearer ")));
    assert_false(secrets_has_token(STR("")));
    crypto_sha256_hex(STR("sk_other"), hash);
    take(str_of(hash));
    assert_false(secrets_has_token(STR("Bearer sk_ours")));
}

static void test_cookies(void **state)
{
    static const struct {
        const char *cookies, *rest;
        bool has;
    } cases[] = {
        {"", "", false},
        {"a=1", "a=1", false},
        {"a=1; sandboxd_session=x; b=2", "a=1; b=2", true},
        {"sandboxd_session=x", "", true},
        {"__Host-sandboxd_session=x;c=3", "c=3", true},
        {"a=sandboxd_session=x", "a=sandboxd_session=x", false},
        {"my_sandboxd_session=x", "my_sandboxd_session=x", false},
        {";; ;a=1;;", "a=1", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        BUF_AUTO(out, 4096);
        assert_int_equal(secrets_has_cookie(str_of(cases[i].cookies)), cases[i].has);
        secrets_add_cookies(&out, str_of(cases[i].cookies));
        assert_string_equal(out.ptr, cases[i].rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_cookies),
    };

    return RUN_TESTS(tests);
}

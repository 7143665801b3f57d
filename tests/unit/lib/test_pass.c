/*
 * Tests of signatures and passes.
 */
#include <stdio.h>

#include "lib/mem.h"
#include "lib/pass.h"
#include "tests/unit/lib/test.h"

static const uint8_t seed[CRYPTO_KEY_BYTES] = {7, 7, 7};

static void from_hex(const char *hex, uint8_t *out, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        ptrdiff_t high = str_find(str_of(digits), hex[2 * i]);
        ptrdiff_t low = str_find(str_of(digits), hex[2 * i + 1]);

        assert_true(high >= 0 && low >= 0);
        out[i] = (uint8_t)(high * 16 + low);
    }
}

/* RFC 8032, section 7.1, test 2. */
static void test_ed25519(void **state)
{
    uint8_t key[CRYPTO_KEY_BYTES], wanted_public[CRYPTO_KEY_BYTES], public_key[CRYPTO_KEY_BYTES];
    uint8_t wanted[CRYPTO_SIGNATURE_BYTES], signature[CRYPTO_SIGNATURE_BYTES];
    const struct str message = STR("\x72");

    (void)state;
    from_hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", key, sizeof key);
    from_hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", wanted_public,
             sizeof wanted_public);
    from_hex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
             "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
             wanted, sizeof wanted);
    crypto_sign_public(key, public_key);
    assert_memory_equal(public_key, wanted_public, sizeof public_key);
    crypto_sign(key, message, signature);
    assert_memory_equal(signature, wanted, sizeof signature);
    assert_true(crypto_verify(public_key, message, signature));
    assert_false(crypto_verify(public_key, STR("\x73"), signature));
    signature[63] ^= 0x10;
    assert_false(crypto_verify(public_key, message, signature));
    memset(public_key, 0xff, sizeof public_key);
    assert_false(crypto_verify(public_key, message, wanted));
}

static struct pass some_pass(void)
{
    struct pass p = {.epoch = 12, .expires_s = 1800000000};

    assert_true(ulid_parse(STR("01k9p3n8c4w6r2t5y7a9b1d3f5"), &p.sandbox));
    (void)snprintf(p.session, sizeof p.session, "0123456789abcdef0123456789abcdef");
    return p;
}

static void test_a_pass_comes_back(void **state)
{
    struct pass p = some_pass();
    struct pass back;
    uint8_t public_key[CRYPTO_KEY_BYTES];

    BUF_AUTO(text, PASS_BYTES_MAX);
    BUF_AUTO(other, PASS_BYTES_MAX);

    (void)state;
    crypto_sign_public(seed, public_key);
    pass_sign(&p, seed, &text);
    assert_true(buf_ok(&text));
    assert_true(pass_verify(buf_str(&text), public_key, &back));
    assert_true(ulid_eq(&back.sandbox, &p.sandbox));
    assert_string_equal(back.session, p.session);
    assert_int_equal(back.epoch, 12);
    assert_int_equal(back.expires_s, 1800000000);

    (void)snprintf(p.session, sizeof p.session, PASS_NO_SESSION);
    p.epoch = INT64_MAX;
    p.expires_s = INT64_MAX;
    pass_sign(&p, seed, &other);
    assert_true(pass_verify(buf_str(&other), public_key, &back));
    public_key[0] ^= 1;
    assert_false(pass_verify(buf_str(&text), public_key, &back));
}

/* Every byte counts: none may be changed, left out or added. */
static void test_a_changed_pass_is_none(void **state)
{
    struct pass p = some_pass();
    struct pass back;
    uint8_t public_key[CRYPTO_KEY_BYTES];

    BUF_AUTO(text, PASS_BYTES_MAX);

    (void)state;
    crypto_sign_public(seed, public_key);
    pass_sign(&p, seed, &text);
    for (size_t i = 0; i < text.len; i++) {
        char before = text.ptr[i];

        text.ptr[i] = before == 'A' ? 'B' : 'A';
        assert_false(pass_verify(buf_str(&text), public_key, &back));
        text.ptr[i] = before;
        assert_false(pass_verify(str_cut(buf_str(&text), 0, i), public_key, &back));
    }
    buf_putc(&text, '=');
    assert_false(pass_verify(buf_str(&text), public_key, &back));
}

static void test_what_is_no_pass(void **state)
{
#define ID  "01k9p3n8c4w6r2t5y7a9b1d3f5"
#define SES "0123456789abcdef0123456789abcdef"
#define SIG "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    static const char *const wrong[] = {
        "",
        ".....",
        "v2." ID "." SES ".1.2." SIG,
        "v1." ID "." SES ".1.2",
        "v1." ID "." SES ".1.2." SIG ".",
        "v1." ID "." SES ".1.2.." SIG,
        "v1." ID "." SES ".01.2." SIG,
        "v1." ID "." SES ".1.02." SIG,
        "v1." ID "." SES ".-1.2." SIG,
        "v1." ID "." SES ".1.9223372036854775808." SIG,
        "v1." ID ".00.1.2." SIG,
        "v1." ID "..1.2." SIG,
        "v1." ID ".0123456789ABCDEF0123456789ABCDEF.1.2." SIG,
        "v1.01K9P3N8C4W6R2T5Y7A9B1D3F5." SES ".1.2." SIG,
        "v1." ID "." SES ".1.2." SIG "=",
        /* The last digit carries two bits too many. */
        "v1." ID "." SES ".1.2."
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB",
    };
    struct pass p;

    (void)state;
    assert_true(pass_parse(STR("v1." ID "." SES ".1.2." SIG), &p));
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(pass_parse(str_of(wrong[i]), &p));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ed25519),
        cmocka_unit_test(test_a_pass_comes_back),
        cmocka_unit_test(test_a_changed_pass_is_none),
        cmocka_unit_test(test_what_is_no_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

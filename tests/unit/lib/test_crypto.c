/*
 * Tests of hashes, encodings, sealed boxes and passwords against published vectors. One thread.
 */
#include "lib/crypto.h"
#include "tests/unit/lib/test.h"

static void test_sha256(void **state)
{
    (void)state;
    char hex[CRYPTO_SHA256_HEX];
    /* FIPS 180-2 */
    crypto_sha256_hex(STR("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    crypto_sha256_hex(STR(""), hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    struct crypto_hash *h = crypto_hash_new();
    crypto_hash_add(h, STR("a"));
    crypto_hash_add(h, STR(""));
    crypto_hash_add(h, STR("bc"));
    crypto_hash_hex(h, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    BUF_AUTO(b, 100);
    crypto_hex(STR("\x00\xFF\x10"), &b);
    test_buf(&b, "00ff10");
}

static void test_base64(void **state)
{
    (void)state;
    /* RFC 4648, section 10 */
    static const char *const pairs[][3] = {{"", "", ""},
                                           {"f", "Zg==", "Zg"},
                                           {"fo", "Zm8=", "Zm8"},
                                           {"foo", "Zm9v", "Zm9v"},
                                           {"foob", "Zm9vYg==", "Zm9vYg"},
                                           {"fooba", "Zm9vYmE=", "Zm9vYmE"},
                                           {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
                                           {"\xFB\xFF\xBF", "+/+/", "-_-_"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        for (int url = 0; url < 2; url++) {
            BUF_AUTO(text, 100);
            BUF_AUTO(back, 100);
            struct err e;
            crypto_base64(str_of(pairs[i][0]), url, &text);
            test_buf(&text, pairs[i][1 + url]);
            assert_int_equal(crypto_unbase64(buf_str(&text), url, &back, &e), 0);
            test_buf(&back, pairs[i][0]);
        }
    }
}

static void test_bad_base64(void **state)
{
    (void)state;
    static const char *const standard[] = {
        "Zg",   "Zg=",  "Z===", "====", "Zg==Zg==", "Zm9v\n",     "Zm 9", "-_-_",
        "Zh==", "Zm9=", "=Zm9", "Zm=v", "Zm9vYg=a", "\xC3\xA4==", "Z"};
    static const char *const url[] = {"Zg==", "+/+/", "Z", "Zh", "Zm9vY", "Zm9v "};
    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++) {
        BUF_AUTO(back, 100);
        struct err e;
        assert_int_equal(crypto_unbase64(str_of(standard[i]), false, &back, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
    }
    for (size_t i = 0; i < sizeof(url) / sizeof(url[0]); i++) {
        BUF_AUTO(back, 100);
        assert_int_equal(crypto_unbase64(str_of(url[i]), true, &back, NULL), -1);
    }
}

static void test_tokens(void **state)
{
    (void)state;
    BUF_AUTO(a, 200);
    BUF_AUTO(b, 200);
    crypto_token(&a, "sk_", 32);
    crypto_token(&b, "sk_", 32);
    assert_int_equal(a.len, 3 + 43);
    assert_true(str_starts(buf_str(&a), STR("sk_")));
    assert_false(str_eq(buf_str(&a), buf_str(&b)));
    for (size_t i = 0; i < a.len; i++) {
        char c = a.ptr[i];
        assert_true((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_');
    }
}

static struct crypto_master master_of(uint8_t fill)
{
    uint8_t key[CRYPTO_KEY_BYTES];
    struct crypto_master m;
    memset(key, fill, sizeof(key));
    crypto_master_init(&m, key);
    return m;
}

static void test_sealed_box(void **state)
{
    (void)state;
    struct crypto_master m = master_of(1);
    BUF_AUTO(box, 4096);
    BUF_AUTO(again, 4096);
    BUF_AUTO(plain, 4096);
    struct err e;
    crypto_seal(&m, "provider", "anthropic", STR("sk-ant-secret"), &box);
    crypto_seal(&m, "provider", "anthropic", STR("sk-ant-secret"), &again);
    assert_true(buf_ok(&box));
    assert_false(str_eq(buf_str(&box), buf_str(&again)));
    assert_false(str_contains(buf_str(&box), STR("secret")));
    assert_int_equal(strlen(m.id), 16);
    assert_true(str_starts(buf_str(&box), STR("v1.")));
    assert_true(str_contains(buf_str(&box), str_of(m.id)));
    assert_int_equal(crypto_open(&m, "provider", "anthropic", buf_str(&box), &plain, &e), 0);
    test_buf(&plain, "sk-ant-secret");
    buf_reset(&box);
    buf_reset(&plain);
    crypto_seal(&m, "provider", "empty", STR(""), &box);
    assert_int_equal(crypto_open(&m, "provider", "empty", buf_str(&box), &plain, &e), 0);
    test_buf(&plain, "");
}

static void refused(const struct crypto_master *m, const char *purpose, const char *row,
                    struct str box, enum err_code code)
{
    BUF_AUTO(plain, 4096);
    struct err e = {0};
    assert_int_equal(crypto_open(m, purpose, row, box, &plain, &e), -1);
    assert_int_equal(e.code, code);
    assert_int_equal(plain.len, 0);
    assert_null(strstr(e.msg, "secret"));
}

static void test_moved_box(void **state)
{
    (void)state;
    struct crypto_master m = master_of(1);
    struct crypto_master other = master_of(2);
    BUF_AUTO(box, 4096);
    crypto_seal(&m, "provider", "row1", STR("secret"), &box);
    refused(&m, "provider", "row2", buf_str(&box), ERR_FORBIDDEN);
    refused(&m, "task", "row1", buf_str(&box), ERR_FORBIDDEN);
    refused(&m, "provider|row1", "", buf_str(&box), ERR_FORBIDDEN);
    refused(&other, "provider", "row1", buf_str(&box), ERR_FORBIDDEN);
    /* The same box under the other key's name. */
    memcpy(box.ptr + 3, other.id, 16);
    refused(&other, "provider", "row1", buf_str(&box), ERR_FORBIDDEN);
}

static void test_changed_box(void **state)
{
    (void)state;
    struct crypto_master m = master_of(1);
    BUF_AUTO(box, 4096);
    crypto_seal(&m, "provider", "row1", STR("secret"), &box);
    for (size_t i = 0; i < box.len; i++) {
        char was = box.ptr[i];
        BUF_AUTO(plain, 4096);
        box.ptr[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(crypto_open(&m, "provider", "row1", buf_str(&box), &plain, NULL), -1);
        assert_int_equal(plain.len, 0);
        box.ptr[i] = was;
    }
    for (size_t len = 0; len < box.len; len++) {
        BUF_AUTO(plain, 4096);
        assert_int_equal(
            crypto_open(&m, "provider", "row1", str_cut(buf_str(&box), 0, len), &plain, NULL), -1);
    }
    refused(&m, "provider", "row1", STR(""), ERR_INVALID);
    refused(&m, "provider", "row1", STR("v2.x.y"), ERR_INVALID);
    refused(&m, "provider", "row1", STR("v1"), ERR_INVALID);
}

static void test_box_bounds(void **state)
{
    (void)state;
    struct crypto_master m = master_of(1);
    BUF_AUTO(box, 4096);
    BUF_AUTO(plain, 3);
    struct err e;
    static char row[2000];
    memset(row, 'r', sizeof(row) - 1);
    crypto_seal(&m, "provider", row, STR("secret"), &box);
    assert_false(buf_ok(&box));
    buf_reset(&box);
    crypto_seal(&m, "provider", "row", STR("secret"), &box);
    refused(&m, "provider", row, buf_str(&box), ERR_INVALID);
    assert_int_equal(crypto_open(&m, "provider", "row", buf_str(&box), &plain, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    buf_reset(&box);
    crypto_seal(&m, "provider", "row", str_n(row, SIZE_MAX - 20), &box);
    assert_false(buf_ok(&box));
}

static void test_passwords(void **state)
{
    (void)state;
    BUF_AUTO(a, 200);
    BUF_AUTO(b, 200);
    struct err e;
    assert_int_equal(crypto_password_hash(STR("correct horse"), &a, &e), 0);
    assert_int_equal(crypto_password_hash(STR("correct horse"), &b, &e), 0);
    assert_false(str_eq(buf_str(&a), buf_str(&b)));
    assert_true(str_starts(buf_str(&a), STR("argon2id$")));
    assert_true(crypto_password_check(STR("correct horse"), buf_str(&a)));
    assert_false(crypto_password_check(STR("correct hors"), buf_str(&a)));
    assert_false(crypto_password_check(STR(""), buf_str(&a)));
    assert_false(crypto_password_check(STR("correct horse"), STR("")));
    assert_false(crypto_password_check(STR("x"), STR("argon2id$m=19456,t=2,p=1$$")));
    assert_false(crypto_password_check(STR("x"), str_cut(buf_str(&a), 0, a.len - 4)));
}

/* The parameters reach OpenSSL: what `openssl kdf` computes from the same ones. */
static void test_password_vector(void **state)
{
    (void)state;
    assert_true(crypto_password_check(STR("password"),
                                      STR("argon2id$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$"
                                          "K13EBUiG7JV-9ZxztmHFTdb7J0WQsnj2V8bZaqyPptE")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),      cmocka_unit_test(test_base64),
        cmocka_unit_test(test_bad_base64),  cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_sealed_box),  cmocka_unit_test(test_moved_box),
        cmocka_unit_test(test_changed_box), cmocka_unit_test(test_box_bounds),
        cmocka_unit_test(test_passwords),   cmocka_unit_test(test_password_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

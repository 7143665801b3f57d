/*
 * Tests of the one reader of preview host names. One thread.
 */
#include "proxy/preview_host.h"
#include "tests/unit/proxy/test.h"

#define ID "01jd5v8k3q0000000000000abc"

static void test_good(void **state)
{
    (void)state;

    static const struct {
        const char *host;
        uint16_t port;
        bool is_localhost;
    } cases[] = {
        {"s-" ID "-3000.preview.localhost", 3000, true},
        {"S-01JD5V8K3Q0000000000000ABC-3000.Preview.LocalHost", 3000, true},
        {"s-" ID "-1.preview.example.com", 1, false},
        {"s-" ID "-65535.preview.example.com:8080", 65535, false},
        {"s-" ID "-80.preview.localhost:1", 80, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct preview_host host;

        assert_true(preview_host_parse(str_of(cases[i].host), STR("example.com"), &host));
        assert_string_equal(host.id.text, ID);
        assert_int_equal(host.port, cases[i].port);
        assert_int_equal(host.is_localhost, cases[i].is_localhost);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        ".",
        ":80",
        "localhost",
        "preview.localhost",
        ".preview.localhost",
        "s-.preview.localhost",
        "s-" ID ".preview.localhost",
        "s-" ID "-.preview.localhost",
        "s-" ID "-0.preview.localhost",
        "s-" ID "-03000.preview.localhost",
        "s-" ID "-65536.preview.localhost",
        "s-" ID "-99999999999999999999.preview.localhost",
        "s-" ID "-+80.preview.localhost",
        "s-" ID "-80.preview.localhost.",
        "s-" ID "-80.preview.localhost:",
        "s-" ID "-80.preview.localhost:0",
        "s-" ID "-80.preview.localhost:65536",
        "s-" ID "-80.preview.localhost:80:80",
        "s-" ID "-80.preview.localhost:8o",
        "s-" ID "-80:80.preview.localhost",
        "s-" ID "-80.previewlocalhost",
        "s-" ID "-80.xpreview.localhost",
        "s-" ID "-80..preview.localhost",
        "x.s-" ID "-80.preview.localhost",
        "s-" ID "-80.preview.xexample.com",
        "s-" ID "-80.preview.example.com.evil.net",
        "s-" ID "-80.preview.example.org",
        "t-" ID "-80.preview.localhost",
        "s-81jd5v8k3q0000000000000abc-80.preview.localhost",
        "s-01jd5v8k3q0000000000000abu-80.preview.localhost",
        "s-01jd5v8k3q0000000000000ab-80.preview.localhost",
        "s-" ID "-80.preview.local host",
        "s-" ID "-80.preview.localhost/",
        "s-" ID "-80.preview.localhost%00",
        "s-" ID "-80.pre\xc3\xa9view.localhost",
        "user@s-" ID "-80.preview.localhost",
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct preview_host host;

        assert_false(preview_host_parse(str_of(cases[i]), STR("example.com"), &host));
    }
}

static void test_longest(void **state)
{
    char text[4096];
    struct preview_host host;

    (void)state;
    memset(text, 'a', sizeof text);
    assert_false(preview_host_parse(str_n(text, sizeof text), STR("example.com"), &host));
    assert_false(preview_host_parse(str_n("s-" ID "-80.preview.", 42), STR(""), &host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_longest),
    };

    return RUN_TESTS(tests);
}

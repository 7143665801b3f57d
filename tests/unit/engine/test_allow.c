/*
 * Tests of the address lists of SANDBOXD_EGRESS_ALLOW. One thread.
 */
#include "engine/allow.h"
#include "tests/unit/engine/test.h"

static void test_entries(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        const char *prefix;
        uint16_t port;
    } cases[] = {
        {"192.168.1.5", "192.168.1.5", 0},     {"192.168.1.5:5432", "192.168.1.5", 5432},
        {"10.0.0.0/8", "10.0.0.0/8", 0},       {"10.1.2.3/8:80", "10.0.0.0/8", 80},
        {"0.0.0.0/0", "0.0.0.0/0", 0},         {"fd00::1", "fd00::1", 0},
        {"fd00::/8", "fd00::/8", 0},           {"[fd00::1]", "fd00::1", 0},
        {"[fd00::1]:443", "fd00::1", 443},     {"[fd00::]/64:443", "fd00::/64", 443},
        {" 192.168.1.5:1 ", "192.168.1.5", 1}, {"192.168.1.5:65535", "192.168.1.5", 65535},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct allow_list list;
        struct err e;
        char text[ALLOW_TEXT_BYTES];
        assert_int_equal(allow_parse(str_of(cases[i].text), &list, &e), 0);
        assert_int_equal(list.count, 1);
        assert_string_equal(allow_prefix_text(&list.entries[0].prefix, text), cases[i].prefix);
        assert_int_equal(list.entries[0].port, cases[i].port);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        ",",
        "1.2.3.4,",
        ",1.2.3.4",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "01.2.3.4",
        "printer.local",
        "1.2.3.4/33",
        "1.2.3.4/",
        "1.2.3.4/-1",
        "1.2.3.4/08",
        "1.2.3.4:",
        "1.2.3.4:0",
        "1.2.3.4:65536",
        "1.2.3.4:80:80",
        "1.2.3.4:http",
        "[1.2.3.4]:80",
        "[fd00::1",
        "fd00::1]:80",
        "[fd00::1]80",
        "[fd00::1]:",
        "fd00::1/129",
        "fd00::g",
        "1.2.3.4 5.6.7.8",
        "1.2.3.4;drop",
        "[fd00::1]/64/64:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct allow_list list;
        struct err e;
        if (allow_parse(str_of(cases[i]), &list, &e) == 0) {
            fail_msg("\"%s\" was accepted", cases[i]);
        }
        assert_int_equal(e.code, ERR_INVALID);
    }
}

static void test_list(void **state)
{
    (void)state;
    struct allow_list list;
    struct err e;
    assert_int_equal(allow_parse(STR(""), &list, &e), 0);
    assert_int_equal(list.count, 0);
    assert_int_equal(allow_parse(STR("10.0.0.1:1, 10.0.0.2 ,fd00::/8"), &list, &e), 0);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.entries[1].port, 0);
    BUF_AUTO(many, 4096);
    for (size_t i = 0; i <= ALLOW_ENTRIES_MAX; i++) {
        buf_printf(&many, "%s10.0.0.%zu", i ? "," : "", i);
    }
    assert_int_equal(allow_parse(buf_str(&many), &list, &e), -1);
}

static struct allow_prefix prefix(const char *text)
{
    struct allow_prefix p;
    assert_true(allow_parse_prefix(str_of(text), &p));
    return p;
}

static void test_relations(void **state)
{
    (void)state;
    struct allow_prefix a = prefix("10.0.0.0/8");
    struct allow_prefix b = prefix("10.201.0.0/20");
    struct allow_prefix c = prefix("11.0.0.0/8");
    struct allow_prefix d = prefix("fd00::/8");
    struct allow_prefix all = prefix("0.0.0.0/0");
    assert_true(allow_prefix_overlaps(&a, &b));
    assert_true(allow_prefix_overlaps(&b, &a));
    assert_true(allow_prefix_overlaps(&all, &c));
    assert_false(allow_prefix_overlaps(&a, &c));
    assert_false(allow_prefix_overlaps(&all, &d));
    assert_true(allow_prefix_is_base(&b));
    struct allow_prefix e = prefix("10.201.0.1/20");
    assert_false(allow_prefix_is_base(&e));
    struct allow_prefix local4 = prefix("127.0.0.53");
    struct allow_prefix local6 = prefix("::1");
    assert_true(allow_prefix_is_loopback(&local4));
    assert_true(allow_prefix_is_loopback(&local6));
    assert_false(allow_prefix_is_loopback(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_relations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

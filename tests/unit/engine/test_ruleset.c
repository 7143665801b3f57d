/*
 * Tests of the walls' text. That it holds traffic back is tried against the kernel by the
 * integration tests. One thread.
 */
#include "engine/ruleset.h"
#include "tests/unit/engine/test.h"

static void assert_has(const struct buf *text, const char *part)
{
    if (!strstr(text->ptr, part)) {
        fail_msg("no \"%s\" in:\n%s", part, text->ptr);
    }
}

static void test_text(void **state)
{
    (void)state;
    struct allow_list allow;
    struct err e;
    BUF_AUTO(text, RULESET_BYTES_MAX);
    assert_int_equal(allow_parse(STR("10.0.0.5:5432,[fd00::5]/64"), &allow, &e), 0);
    struct ruleset rules = {.table = "sandboxd_sbx0",
                            .bridge = "sbx0",
                            .allow = &allow,
                            .other_bridges = "\"docker0\""};
    ruleset_add_resolvers(&rules, STR("# made by hand\nsearch lan\nnameserver 10.255.255.53\n"
                                      "nameserver 127.0.0.53\nnameserver  fd00::53 \n"
                                      "nameserver 10.255.255.53\nnameserverx 10.0.0.1\n"
                                      "nameserver fe80::1%eth0\nnameserver 10.0.0.0/8\n"));
    assert_int_equal(rules.resolver_count, 2);
    ruleset_write(&rules, &text);
    assert_true(buf_ok(&text));
    /* Replaced in one batch: the table is never absent. */
    assert_true(str_starts(buf_str(&text),
                           STR("add table inet sandboxd_sbx0\ndelete table inet sandboxd_sbx0\n")));
    assert_has(&text, "ip daddr 10.255.255.53 meta l4proto { tcp, udp } th dport 53 accept");
    assert_has(&text, "ip6 daddr fd00::53 meta l4proto { tcp, udp } th dport 53 accept");
    assert_has(&text, "ip daddr 10.0.0.5 meta l4proto { tcp, udp } th dport 5432 accept");
    assert_has(&text, "ip6 daddr fd00::/64 accept");
    assert_has(&text, "oifname \"sbx0\" counter drop");
    assert_has(&text, "oifname { \"docker0\" } counter drop");
    static const char *const nets[] = {"10.0.0.0/8",    "172.16.0.0/12",  "192.168.0.0/16",
                                       "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8",
                                       "224.0.0.0/4",   "240.0.0.0/4",    "0.0.0.0/8",
                                       "fc00::/7",      "fe80::/10",      "::ffff:0:0/96"};
    for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
        assert_has(&text, nets[i]);
    }
}

static void test_no_bridges(void **state)
{
    (void)state;
    struct allow_list allow = {0};
    BUF_AUTO(text, RULESET_BYTES_MAX);
    struct ruleset rules = {
        .table = "sandboxd_a", .bridge = "a", .allow = &allow, .other_bridges = ""};
    ruleset_write(&rules, &text);
    assert_null(strstr(text.ptr, "oifname {"));
}

static void test_listed(void **state)
{
    (void)state;
    struct str batch = STR("add table inet t\ndelete table inet t\ntable inet t {\n  chain c {\n"
                           "    ip daddr 10.0.0.0/8 drop\n  }\n}\n");
    assert_true(ruleset_is_listed(
        batch, STR("table inet t {\n\tchain c {\n\n\t\tip daddr 10.0.0.0/8 drop\n\t}\n}\n")));
    assert_false(ruleset_is_listed(batch, STR("table inet t {\n\tchain c {\n\t}\n}\n")));
    assert_false(ruleset_is_listed(batch, STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_no_bridges),
        cmocka_unit_test(test_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

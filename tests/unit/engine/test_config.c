/*
 * Tests of the settings. One thread; hands config_load environments of its own.
 */
#include <stdio.h>

#include "engine/config.h"
#include "tests/unit/engine/test.h"

extern char **environ;

/* The environment that config_load sees is exactly these, ended by NULL. */
static int load(char **variables, struct config *ret, struct err *e)
{
    char **before = environ;
    environ = variables;
    int result = config_load(ret, e);
    environ = before;
    return result;
}

static void test_defaults(void **state)
{
    (void)state;
    struct config c;
    struct err e;
    char *none[] = {NULL};
    assert_int_equal(load(none, &c, &e), 0);
    assert_string_equal(c.data_dir, "/var/lib/sandboxed");
    assert_string_equal(c.bridge, "sbx0");
    assert_string_equal(c.table, "sandboxd_sbx0");
    assert_true(c.walls_on);
    assert_false(c.runsc);
    assert_int_equal(c.uid_base, 2000000000);
    assert_int_equal(c.memory_bytes, 0);
    assert_int_equal(c.cpus_milli, 0);
}

static void test_values(void **state)
{
    (void)state;
    struct config c;
    struct err e;
    char walls[] = "SANDBOXD_WALLS=off";
    char runtime[] = "SANDBOXD_RUNTIME=runsc";
    char memory[] = "SANDBOXD_SANDBOX_MEMORY=512m";
    char cpus[] = "SANDBOXD_SANDBOX_CPUS=1.5";
    char dns[] = "SANDBOXD_DNS=10.0.0.53, fd00::53";
    char allow[] = "SANDBOXD_EGRESS_ALLOW=10.0.0.5:5432";
    char subnet[] = "SANDBOXD_SUBNET=10.90.0.0/20";
    char empty[] = "SANDBOXD_BRIDGE="; /* the same as unset */
    char *variables[] = {walls, runtime, memory, cpus, dns, allow, subnet, empty, NULL};
    assert_int_equal(load(variables, &c, &e), 0);
    assert_string_equal(c.bridge, "sbx0");
    assert_false(c.walls_on);
    assert_true(c.runsc);
    assert_int_equal(c.memory_bytes, 512 << 20);
    assert_int_equal(c.cpus_milli, 1500);
    assert_int_equal(c.dns_count, 2);
    assert_int_equal(c.allow.count, 1);
}

static void test_refused(void **state)
{
    (void)state;

    static const struct {
        const char *name;
        const char *value;
    } cases[] = {
        {"SANDBOXD_DATA_DIR", "relative"},    {"SANDBOXD_DATA_DIR", "/a/../b"},
        {"SANDBOXD_DATA_DIR", "/"},           {"SANDBOXD_DATA_DIR", "/a/"},
        {"SANDBOXD_DATA_DIR", "/a//b"},       {"SANDBOXD_DATA_DIR", "/a b"},
        {"SANDBOXD_DATA_DIR", "/a:b"},        {"SANDBOXD_DATA_DIR", "/a\"b"},
        {"SANDBOXD_BRIDGE", "0sbx"},          {"SANDBOXD_BRIDGE", "abcdefghijklmnop"},
        {"SANDBOXD_BRIDGE", "a-b"},           {"SANDBOXD_BRIDGE", "a;b"},
        {"SANDBOXD_SUBNET", "10.0.0.1/20"},   {"SANDBOXD_SUBNET", "10.0.0.0"},
        {"SANDBOXD_SUBNET", "fd00::/64"},     {"SANDBOXD_WALLS", "maybe"},
        {"SANDBOXD_EGRESS_ALLOW", "printer"}, {"SANDBOXD_RUNTIME", "kata"},
        {"SANDBOXD_DNS", "dns.local"},        {"SANDBOXD_DNS", "10.0.0.0/8"},
        {"SANDBOXD_SANDBOX_MEMORY", "lots"},  {"SANDBOXD_SANDBOX_MEMORY", "1m"},
        {"SANDBOXD_SANDBOX_CPUS", "-1"},      {"SANDBOXD_SANDBOX_CPUS", "1."},
        {"SANDBOXD_SANDBOX_CPUS", "1.2345"},  {"SANDBOXD_UID_BASE", "5"},
        {"SANDBOXD_UID_BASE", "4294967295"},  {"SANDBOXD_LOG_LEVEL", "loud"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config c;
        struct err e;
        char variable[256];
        char *variables[] = {variable, NULL};
        (void)snprintf(variable, sizeof(variable), "%s=%s", cases[i].name, cases[i].value);
        if (load(variables, &c, &e) == 0) {
            fail_msg("%s=%s was accepted", cases[i].name, cases[i].value);
        }
        assert_int_equal(e.code, ERR_INVALID);
        /* The line names the setting, or nobody finds it. */
        assert_non_null(strstr(e.msg, cases[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

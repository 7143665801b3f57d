/*
 * Tests of the host's figures, ports and cgroups: parsers over recorded files. One thread.
 */
#include <unistd.h>

#include "engine/cgroup.h"
#include "engine/figures.h"
#include "engine/ports.h"
#include "tests/unit/engine/test.h"

#define GIB       (1ULL << 30)
#define CONTAINER "7ab8cf26f7a5ae5f00812349f8335c9311d6d95f1b313763748074673da7603e"

static void test_meminfo(void **state)
{
    (void)state;
    struct figures_memory m;
    assert_true(figures_memory_parse(STR("MemTotal:       24684092 kB\nMemFree:        12 kB\n"
                                         "MemAvailable:   23108000 kB\nBuffers: 1 kB\n"),
                                     &m));
    assert_int_equal(m.total_bytes, 24684092ULL * 1024);
    assert_int_equal(m.available_bytes, 23108000ULL * 1024);
    assert_false(figures_memory_parse(STR("MemTotal: 1 kB\n"), &m));
    assert_false(figures_memory_parse(STR("MemTotal: x kB\nMemAvailable: 1 kB\n"), &m));
    assert_false(figures_memory_parse(STR("MemTotal: 1\nMemAvailable: 1\n"), &m));
    assert_false(figures_memory_parse(STR(""), &m));
}

static void test_memory_default(void **state)
{
    (void)state;
    assert_int_equal(figures_memory_default(1 * GIB, 0), 1 * GIB);
    assert_int_equal(figures_memory_default(4 * GIB, 0), 2 * GIB);
    assert_int_equal(figures_memory_default(64 * GIB, 0), 4 * GIB);
    assert_int_equal(figures_memory_default(64 * GIB, 6 * GIB), 6 * GIB);
    assert_int_equal(figures_memory_default(4 * GIB, 6 * GIB), 4 * GIB);
}

static void test_ports(void **state)
{
    (void)state;
    struct str tcp =
        STR("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
            "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000\n"
            "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
            "   2: 0100007F:C350 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000  1000\n");
    struct str tcp6 = STR("   0: 00000000000000000000000000000000:1388 "
                          "00000000000000000000000000000000:0000 0A 00000000:00000000\n");
    assert_true(ports_table_has(tcp, 3000));
    assert_true(ports_table_has(tcp, 8080));
    assert_false(ports_table_has(tcp, 50000)); /* connected, not listening */
    assert_false(ports_table_has(tcp, 3001));
    assert_true(ports_table_has(tcp6, 5000));
    assert_false(ports_table_has(STR("0: 0100007F:0bb8 0:0 0A\n"), 3000)); /* not the kernel's */
    assert_false(ports_table_has(STR("0: 0100007F:00BB8 0:0 0A\n1: x 0A\n\n:::\n"), 3000));
    assert_false(ports_table_has(STR(""), 1));
}

static void test_ports_own(void **state)
{
    (void)state;
    struct err e;
    bool is_open = true;
    assert_int_equal(ports_is_open(getpid(), 1, &is_open, &e), 0);
    assert_false(is_open);
    assert_int_equal(ports_is_open(0x3ffffff, 1, &is_open, &e), -1);
}

static const char cgroup_v1[] = "10:memory:/docker/" CONTAINER "\n9:name=systemd:/docker/" CONTAINER
                                "\n4:cpu,cpuacct:/docker/" CONTAINER "\n0::/\n";
static const char cgroup_v2[] = "0::/system.slice/docker-" CONTAINER ".scope\n";
static const char cgroup_v2_namespace[] = "0::/../docker-" CONTAINER ".scope/init\n";

static void test_cgroup_path(void **state)
{
    (void)state;
    char path[CGROUP_PATH_BYTES];
    assert_true(cgroup_parse_path(str_of(cgroup_v1), "memory", path));
    assert_string_equal(path, "/docker/" CONTAINER);
    assert_true(cgroup_parse_path(str_of(cgroup_v1), "cpuacct", path));
    assert_true(cgroup_parse_path(str_of(cgroup_v1), "", path));
    assert_string_equal(path, "/");
    assert_false(cgroup_parse_path(str_of(cgroup_v1), "pids", path));
    assert_true(cgroup_parse_path(str_of(cgroup_v2), "", path));
    assert_string_equal(path, "/system.slice/docker-" CONTAINER ".scope");
    assert_false(cgroup_parse_path(str_of(cgroup_v2), "memory", path));
    assert_false(cgroup_parse_path(STR("garbage\n1:memory\n\n"), "memory", path));
}

static void test_cgroup_names(void **state)
{
    (void)state;
    assert_true(cgroup_text_names(str_of(cgroup_v1), CONTAINER));
    assert_true(cgroup_text_names(str_of(cgroup_v2), CONTAINER));
    assert_true(cgroup_text_names(str_of(cgroup_v2_namespace), CONTAINER));
    assert_false(cgroup_text_names(STR("0::/\n"), CONTAINER));
    assert_false(cgroup_text_names(STR("0::/docker/x" CONTAINER "\n"), CONTAINER));
    assert_false(cgroup_text_names(STR("0::/docker/" CONTAINER "x\n"), CONTAINER));
    assert_false(cgroup_text_names(STR(CONTAINER ":memory:/\n"), CONTAINER));
}

static void test_cgroup_memory(void **state)
{
    (void)state;
    struct str v1 = STR("cache 9000\nrss 100\ninactive_file 1\nactive_file 1\ntotal_cache 9000\n"
                        "total_inactive_file 5000\ntotal_active_file 3000\n");
    struct str v2 = STR("anon 100\nfile 9000\ninactive_file 5000\nactive_file 3000\n");
    assert_int_equal(cgroup_memory_real(10000, v1, 1), 2000);
    assert_int_equal(cgroup_memory_real(10000, v2, 2), 2000);
    assert_int_equal(cgroup_memory_real(10, v2, 2), 0);
    assert_int_equal(cgroup_memory_real(10, STR(""), 2), 10);
    uint64_t value = 0;
    assert_true(cgroup_parse_key(STR("usage_usec 123\nuser_usec 7\n"), "usage_usec", &value));
    assert_int_equal(value, 123);
    assert_false(cgroup_parse_key(STR("usage_usec x\n"), "usage_usec", &value));
    assert_false(cgroup_parse_key(STR("usage_usec_more 1\n"), "usage_usec", &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meminfo),       cmocka_unit_test(test_memory_default),
        cmocka_unit_test(test_ports),         cmocka_unit_test(test_ports_own),
        cmocka_unit_test(test_cgroup_path),   cmocka_unit_test(test_cgroup_names),
        cmocka_unit_test(test_cgroup_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

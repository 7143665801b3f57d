/*
 * Tests of the figures behind memory pressure and kills: parsers and verdicts over what kernels
 * write, both cgroup versions. One thread.
 */
#include <stdio.h>
#include <unistd.h>

#include "engine/cgroup.h"
#include "engine/pressure.h"
#include "lib/fd.h"
#include "tests/unit/engine/test.h"

#define MIB (1ULL << 20)

static void stalls_are_read(void **state)
{
    (void)state;
    uint64_t us = 0;
    assert_true(pressure_parse_stall(STR("some avg10=1.53 avg60=0.87 avg300=0.20 total=9876543\n"
                                         "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"),
                                     &us));
    assert_int_equal(us, 9876543);
    /* Full alone is not what is asked for, and a kernel without PSI has no or an empty file. */
    assert_false(pressure_parse_stall(STR("full avg10=0.00 total=12\n"), &us));
    assert_false(pressure_parse_stall(STR(""), &us));
    assert_false(pressure_parse_stall(STR("some avg10=0.00\n"), &us));
    assert_false(pressure_parse_stall(STR("some total=x\n"), &us));
    assert_false(pressure_parse_stall(STR("some total=99999999999999999999999\n"), &us));
    assert_int_equal(us, 9876543);
}

static void this_host_is_read(void **state)
{
    (void)state;
    struct pressure_reading now;
    struct err e;
    assert_int_equal(pressure_read(&now, &e), 0);
    assert_true(now.total_bytes > now.available_bytes);
    assert_true(now.available_bytes > 0);
    int fd = pressure_open_trigger();
    /* Where the kernel counts stalls for us to read, it lets us wait for them too. */
    assert_true(fd >= 0 || !now.has_stall || geteuid() != 0);
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void it_looks_often_only_near_the_mark(void **state)
{
    (void)state;
    assert_int_equal(pressure_next_ms(100 * MIB, 200 * MIB), 50);
    assert_int_equal(pressure_next_ms(200 * MIB, 200 * MIB), 50);
    assert_int_equal(pressure_next_ms(600 * MIB, 200 * MIB), 100);
    assert_int_equal(pressure_next_ms(UINT64_MAX, 200 * MIB), 1000);
}

static enum cgroup_kill cause(int version, uint64_t kills, uint64_t hits, bool is_short,
                              bool docker_says)
{
    struct cgroup_memory before = {.oom_kills = 1, .limit_hits = 10};
    struct cgroup_memory now = {.oom_kills = kills, .limit_hits = hits};
    return cgroup_kill_cause(version, &before, &now, is_short, docker_says);
}

static void kills_of_version_2_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(cause(2, 1, 11, true, true), CGROUP_KILL_NONE);
    assert_int_equal(cause(2, 2, 11, false, false), CGROUP_KILL_LIMIT);
    assert_int_equal(cause(2, 2, 11, true, false), CGROUP_KILL_LIMIT);
    /* Docker tells of every kill there, the host's too. */
    assert_int_equal(cause(2, 2, 10, true, true), CGROUP_KILL_HOST);
}

static void kills_of_version_1_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(cause(1, 1, 99, true, true), CGROUP_KILL_NONE);
    assert_int_equal(cause(1, 2, 12, false, false), CGROUP_KILL_LIMIT);
    assert_int_equal(cause(1, 2, 12, true, true), CGROUP_KILL_LIMIT);
    assert_int_equal(cause(1, 2, 10, true, false), CGROUP_KILL_HOST);
    /* Its page cache touched the limit while the host had nothing left. */
    assert_int_equal(cause(1, 2, 12, true, false), CGROUP_KILL_HOST);
    assert_int_equal(cause(1, 0, 0, true, false), CGROUP_KILL_NONE);
}

/* A directory with the files of one cgroup, as a kernel writes them. */
static void put(const char *dir, const char *name, const char *text)
{
    char path[512];
    struct err e;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(fd_write_file(path, str_of(text), 0600, &e), 0);
}

static void empty_dir(const char *dir)
{
    static const char *const names[] = {
        "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt", "memory.oom_control",
        "memory.stat",           "memory.current",        "memory.max",     "memory.events"};
    char path[512];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void a_cgroup_of_version_1_is_read(void **state)
{
    (void)state;
    struct cgroup_place place = {.version = 1};
    struct cgroup_memory m;
    struct err e;
    (void)snprintf(place.dir, sizeof(place.dir), "/tmp/cgroup1-XXXXXX");
    assert_non_null(mkdtemp(place.dir));
    assert_int_equal(cgroup_memory_read(&place, &m, &e), -1);
    put(place.dir, "memory.usage_in_bytes", "104857600\n");
    put(place.dir, "memory.limit_in_bytes", "335544320\n");
    put(place.dir, "memory.failcnt", "4311\n");
    put(place.dir, "memory.stat", "total_inactive_file 1048576\ntotal_active_file 1048576\n");
    put(place.dir, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    assert_int_equal(cgroup_memory_read(&place, &m, &e), 0);
    assert_int_equal(m.real_bytes, 98 * MIB);
    assert_int_equal(m.limit_bytes, 320 * MIB);
    assert_int_equal(m.limit_hits, 4311);
    assert_int_equal(m.oom_kills, 2);
    /* Before 4.13 nobody counted; no limit is a very large one. */
    put(place.dir, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
    put(place.dir, "memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(cgroup_memory_read(&place, &m, &e), 0);
    assert_int_equal(m.oom_kills, 0);
    assert_int_equal(m.limit_bytes, 0);
    put(place.dir, "memory.usage_in_bytes", "much\n");
    assert_int_equal(cgroup_memory_read(&place, &m, &e), -1);
    empty_dir(place.dir);
}

static void a_cgroup_of_version_2_is_read(void **state)
{
    (void)state;
    struct cgroup_place place = {.version = 2};
    struct cgroup_memory m;
    struct err e;
    (void)snprintf(place.dir, sizeof(place.dir), "/tmp/cgroup2-XXXXXX");
    assert_non_null(mkdtemp(place.dir));
    put(place.dir, "memory.current", "104857600\n");
    put(place.dir, "memory.max", "max\n");
    put(place.dir, "memory.stat", "anon 3\ninactive_file 1048576\nactive_file 1048576\n");
    put(place.dir, "memory.events", "low 0\nhigh 0\nmax 37\noom 1\noom_kill 3\noom_group_kill 0\n");
    assert_int_equal(cgroup_memory_read(&place, &m, &e), 0);
    assert_int_equal(m.real_bytes, 98 * MIB);
    assert_int_equal(m.limit_bytes, 0);
    assert_int_equal(m.limit_hits, 1);
    assert_int_equal(m.oom_kills, 3);
    empty_dir(place.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stalls_are_read),
        cmocka_unit_test(this_host_is_read),
        cmocka_unit_test(it_looks_often_only_near_the_mark),
        cmocka_unit_test(kills_of_version_2_are_told_apart),
        cmocka_unit_test(kills_of_version_1_are_told_apart),
        cmocka_unit_test(a_cgroup_of_version_1_is_read),
        cmocka_unit_test(a_cgroup_of_version_2_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

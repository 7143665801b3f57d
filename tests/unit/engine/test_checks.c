/*
 * Tests of the mount sources: a tree as sandboxd makes it, and every way to spoil it. Needs root.
 * One thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checks.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/proc.h"
#include "tests/unit/engine/test.h"

#define UID         2000000001U
#define PREVIEW     1999999001U
#define CREDENTIALS 1999999002U

static char root[64];
static struct config config;
static struct checks_sources sources;
static char version[CHECKS_INIT_VERSION_LEN + 1];

static const char *below(const char *rest)
{
    static char path[PATHS_MAX];
    return paths_join(path, root, rest);
}

static void make_dir(const char *rest, mode_t mode, uid_t uid)
{
    assert_int_equal(mkdir(below(rest), 0700), 0);
    assert_int_equal(chmod(below(rest), mode), 0);
    assert_int_equal(chown(below(rest), uid, uid), 0);
}

static void make_file(const char *rest, mode_t mode, const char *content)
{
    struct err e;
    assert_int_equal(fd_write_file(below(rest), str_of(content), mode, &e), 0);
    assert_int_equal(chmod(below(rest), mode), 0);
}

static int setup(void **state)
{
    (void)state;
    char rest[PATHS_MAX];
    char hex[CRYPTO_SHA256_HEX];
    struct ulid id;
    (void)umask(022);
    (void)snprintf(root, sizeof(root), "/tmp/engine-checks-XXXXXX");
    assert_non_null(mkdtemp(root));
    config = test_config();
    config.data_dir = root;
    assert_true(ulid_parse(STR(TEST_ID), &id));
    crypto_sha256_hex(STR("program"), hex);
    (void)snprintf(version, sizeof(version), "%.*s", CHECKS_INIT_VERSION_LEN, hex);
    static const char *const dirs[] = {"workspaces", "run",     "run/control", "run/in",
                                       "run/out",    "run/etc", "init"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        make_dir(dirs[i], 0711, 0);
    }
    make_dir("workspaces/" TEST_ID, 0700, UID);
    make_dir("run/control/" TEST_ID, 0711, 0);
    make_dir("run/in/" TEST_ID, 0711, PREVIEW);
    make_dir("run/out/" TEST_ID, 0711, CREDENTIALS);
    make_dir("run/etc/" TEST_ID, 0755, 0);
    make_file("run/etc/" TEST_ID "/passwd", 0644, "sandbox");
    make_file("run/etc/" TEST_ID "/group", 0644, "sandbox");
    (void)snprintf(rest, sizeof(rest), "init/%s", version);
    make_dir(rest, 0755, 0);
    (void)snprintf(rest, sizeof(rest), "init/%s/sandboxd-init", version);
    make_file(rest, 0755, "program");
    checks_sources_list(&config, &id, UID, version, &sources);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const char *const argv[] = {"rm", "-rf", root, NULL};
    const char *const envp[] = {NULL};
    struct proc_options options = {
        .path = "/bin/rm", .argv = argv, .envp = envp, .timeout_ms = 10000, .output_max = 1000};
    BUF_AUTO(out, 1000);
    BUF_AUTO(err_text, 1000);
    struct err e;
    int status = 0;
    return proc_run(&options, &out, &err_text, &status, &e);
}

static void assert_verdict(int code)
{
    struct err e = {0};
    int result = checks_sources_verify(&config, &sources, &e);
    if (code == ERR_NONE) {
        if (result < 0) {
            fail_msg("%s", e.msg);
        }
        return;
    }
    assert_int_equal(result, -1);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.msg, root));
}

static void test_good(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(sources.count, 7);
    assert_verdict(ERR_NONE);
    assert_int_equal(checks_init_verify(&config, version, &e), 0);
    assert_string_equal(sources.items[CHECKS_WORKSPACE].target, "/home/sandbox");
    assert_false(sources.items[CHECKS_WORKSPACE].is_read_only);
    for (size_t i = 1; i < sources.count; i++) {
        assert_true(sources.items[i].is_read_only);
    }
}

static void test_symlink(void **state)
{
    (void)state;
    assert_int_equal(rename(below("workspaces/" TEST_ID), "/tmp/engine-checks-aside"), 0);
    assert_int_equal(symlink("/etc", below("workspaces/" TEST_ID)), 0);
    assert_verdict(ERR_FORBIDDEN);
    assert_int_equal(unlink(below("workspaces/" TEST_ID)), 0);
    /* A symlink to the right directory is no better: it may point elsewhere when Docker looks. */
    assert_int_equal(symlink("/tmp/engine-checks-aside", below("workspaces/" TEST_ID)), 0);
    assert_verdict(ERR_FORBIDDEN);
    assert_int_equal(unlink(below("workspaces/" TEST_ID)), 0);
    assert_verdict(ERR_NOT_FOUND);
    assert_int_equal(rename("/tmp/engine-checks-aside", below("workspaces/" TEST_ID)), 0);
    assert_verdict(ERR_NONE);
}

static void test_symlink_above(void **state)
{
    (void)state;
    char aside[PATHS_MAX];
    (void)paths_join(aside, root, "aside");
    assert_int_equal(rename(below("workspaces"), aside), 0);
    assert_int_equal(symlink("aside", below("workspaces")), 0);
    assert_verdict(ERR_FORBIDDEN);
    assert_int_equal(unlink(below("workspaces")), 0);
    assert_int_equal(rename(aside, below("workspaces")), 0);
}

static void test_owner_and_mode(void **state)
{
    (void)state;

    static const struct {
        const char *rest;
        uid_t uid;
        gid_t gid;
        mode_t mode;
    } cases[] = {
        {"workspaces/" TEST_ID, 0, 0, 0700},
        {"workspaces/" TEST_ID, UID + 1, UID + 1, 0700},
        {"workspaces/" TEST_ID, UID, 0, 0700},
        {"workspaces/" TEST_ID, UID, UID, 0777},
        {"workspaces/" TEST_ID, UID, UID, 04700},
        {"run/in/" TEST_ID, CREDENTIALS, CREDENTIALS, 0711},
        {"run/out/" TEST_ID, UID, UID, 0711},
        {"run/control/" TEST_ID, UID, UID, 0711},
        {"run/control/" TEST_ID, 0, 0, 0777},
        {"run/etc/" TEST_ID "/passwd", UID, UID, 0644},
        {"run/etc/" TEST_ID "/passwd", 0, 0, 0666},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stat st;
        assert_int_equal(stat(below(cases[i].rest), &st), 0);
        assert_int_equal(chown(below(cases[i].rest), cases[i].uid, cases[i].gid), 0);
        assert_int_equal(chmod(below(cases[i].rest), cases[i].mode), 0);
        assert_verdict(ERR_FORBIDDEN);
        assert_int_equal(chown(below(cases[i].rest), st.st_uid, st.st_gid), 0);
        assert_int_equal(chmod(below(cases[i].rest), st.st_mode & 07777), 0);
    }
    assert_verdict(ERR_NONE);
}

static void test_wrong_kind(void **state)
{
    (void)state;
    char aside[PATHS_MAX];
    (void)paths_join(aside, root, "aside");
    assert_int_equal(rename(below("run/control/" TEST_ID), aside), 0);
    make_file("run/control/" TEST_ID, 0711, "");
    assert_verdict(ERR_FORBIDDEN);
    assert_int_equal(unlink(below("run/control/" TEST_ID)), 0);
    assert_int_equal(rename(aside, below("run/control/" TEST_ID)), 0);
    /* A second name of the file could be one that somebody else writes to. */
    assert_int_equal(link(below("run/etc/" TEST_ID "/passwd"), aside), 0);
    assert_verdict(ERR_FORBIDDEN);
    assert_int_equal(unlink(aside), 0);
    assert_verdict(ERR_NONE);
}

static void test_init(void **state)
{
    (void)state;
    char rest[PATHS_MAX];
    struct err e;
    assert_true(checks_init_version_is_valid(STR("0123456789abcdef")));
    assert_false(checks_init_version_is_valid(STR("0123456789ABCDEF")));
    assert_false(checks_init_version_is_valid(STR("0123456789abcde")));
    assert_false(checks_init_version_is_valid(STR("../../../../etc/")));
    assert_int_equal(checks_init_verify(&config, "0000000000000000", &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    (void)snprintf(rest, sizeof(rest), "init/%s/sandboxd-init", version);
    make_file(rest, 0755, "another program");
    assert_int_equal(checks_init_verify(&config, version, &e), -1);
    assert_int_equal(e.code, ERR_FORBIDDEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good, setup, teardown),
        cmocka_unit_test_setup_teardown(test_symlink, setup, teardown),
        cmocka_unit_test_setup_teardown(test_symlink_above, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_and_mode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_init, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

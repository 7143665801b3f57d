/*
 * Writing into a hostile workspace: links, fifos and directories in the way never lead out of it
 * and never block.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/workspace/files.h"
#include "control/workspace/tree.h"
#include "lib/buf.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "tests/unit/control/test.h"

#define OWNER 54321U

static char base[64];
static int workspace = -1;
static struct err e;

static const char *at(const char *name)
{
    static char paths[4][160];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", base, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof(base), "/tmp/files-XXXXXX");
    if (!mkdtemp(base) || mkdir(at("ws"), 0700) != 0 || mkdir(at("outside"), 0700) != 0) {
        return -1;
    }
    return files_open(at("ws"), &workspace, &e);
}

static int teardown(void **state)
{
    (void)state;
    (void)close(workspace);
    return tree_remove(base, &e);
}

static void holds(const char *name, const char *content)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct stat st;
    OK(fd_read_file(at(name), 1024, &text, &len, &e));
    assert_string_equal(text, content);
    assert_int_equal(lstat(at(name), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_uid, OWNER);
    assert_int_equal(st.st_gid, OWNER);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void put(const char *path, const char *content)
{
    OK(files_put(workspace, path, str_of(content), 0600, OWNER, &e));
}

/* Nothing was made, changed or given away beside the workspace. */
static void outside_is_untouched(void)
{
    struct stat st;
    assert_int_equal(lstat(at("outside"), &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(rmdir(at("outside")), 0); /* empty */
    assert_int_equal(mkdir(at("outside"), 0700), 0);
}

static void a_file_and_its_parents_are_made(void **state)
{
    struct stat st;
    (void)state;
    put("a/b/c.txt", "one");
    holds("ws/a/b/c.txt", "one");
    put("a/b/c.txt", "two");
    holds("ws/a/b/c.txt", "two");
    assert_int_equal(stat(at("ws/a/b"), &st), 0);
    assert_int_equal(st.st_uid, OWNER);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void what_is_no_path_is_refused(void **state)
{
    static const char *const bad[] = {"", "/x", "x/", "a//b", "../x", "a/../b", ".", "a/."};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        REFUSED(files_put(workspace, bad[i], STR("x"), 0600, OWNER, &e), ERR_INVALID);
    }
    outside_is_untouched();
}

static void a_link_in_place_of_a_parent_is_replaced(void **state)
{
    static const char *const targets[] = {"../outside", "/", "nowhere", "."};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        OK(tree_remove(at("ws/a"), &e));
        assert_int_equal(symlink(targets[i], at("ws/a")), 0);
        put("a/c.txt", "here");
        holds("ws/a/c.txt", "here");
    }
    outside_is_untouched();
}

static void a_link_in_place_of_the_file_is_replaced(void **state)
{
    (void)state;
    OK(fd_write_file(at("outside/file"), STR("theirs"), 0600, &e));
    assert_int_equal(symlink("../outside/file", at("ws/f")), 0);
    put("f", "ours");
    holds("ws/f", "ours");
    char *text AUTOFREE = NULL;
    size_t len = 0;
    OK(fd_read_file(at("outside/file"), 64, &text, &len, &e));
    assert_string_equal(text, "theirs");
    assert_int_equal(unlink(at("outside/file")), 0);
    outside_is_untouched();
}

static void a_hard_link_is_not_written_through(void **state)
{
    struct stat st;
    (void)state;
    OK(fd_write_file(at("outside/file"), STR("theirs"), 0600, &e));
    assert_int_equal(link(at("outside/file"), at("ws/f")), 0);
    put("f", "ours");
    holds("ws/f", "ours");
    assert_int_equal(stat(at("outside/file"), &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_size, 6);
    assert_int_equal(unlink(at("outside/file")), 0);
}

static void a_fifo_blocks_nobody(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(at("ws/a"), 0600), 0);
    put("a/b", "x");
    holds("ws/a/b", "x");
    assert_int_equal(mkfifo(at("ws/f"), 0600), 0);
    put("f", "y");
    holds("ws/f", "y");
}

static void a_directory_in_place_of_the_file_is_removed(void **state)
{
    (void)state;
    put("f/deep/down", "x");
    put("f", "file");
    holds("ws/f", "file");
}

static void modes_without_any_right_are_no_obstacle(void **state)
{
    (void)state;
    put("a/b", "x");
    assert_int_equal(chmod(at("ws/a"), 0), 0);
    put("a/b", "y");
    holds("ws/a/b", "y");
}

/* A limit on the size of files stands for a full quota: what cannot be written is not put into
 * place. */
static void what_does_not_fit_leaves_the_old_file(void **state)
{
    struct rlimit before;
    struct rlimit small;
    BUF_AUTO(big, 65536);
    (void)state;
    put("f", "old");
    for (int i = 0; i < 4096; i++) {
        buf_puts(&big, "new text");
    }
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    REFUSED(files_put(workspace, "f", buf_str(&big), 0600, OWNER, &e), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    holds("ws/f", "old");
    /* Nor does the half of it stay behind. */
    assert_int_equal(unlink(at("ws/f")), 0);
    assert_int_equal(rmdir(at("ws")), 0);
    assert_int_equal(mkdir(at("ws"), 0700), 0);
}

static void clearing_keeps_only_directories_of_that_name(void **state)
{
    static const char *const keep[] = {"data", NULL};
    (void)state;
    put("home/data/db", "kept");
    put("home/config/x", "gone");
    put("home/settings.json", "gone");
    assert_int_equal(symlink("../../outside", at("ws/home/link")), 0);
    OK(files_clear_dir(workspace, "home", keep, OWNER, &e));
    holds("ws/home/data/db", "kept");
    assert_int_equal(access(at("ws/home/config"), F_OK), -1);
    assert_int_equal(access(at("ws/home/settings.json"), F_OK), -1);
    outside_is_untouched();
    OK(tree_remove(at("ws/home/data"), &e));
    assert_int_equal(symlink("../../outside", at("ws/home/data")), 0);
    OK(files_clear_dir(workspace, "home", keep, OWNER, &e));
    struct stat st;
    assert_int_equal(lstat(at("ws/home/data"), &st), -1);
    outside_is_untouched();
}

static void clearing_makes_what_is_missing(void **state)
{
    struct stat st;
    (void)state;
    OK(files_clear_dir(workspace, "new/home", NULL, OWNER, &e));
    assert_int_equal(stat(at("ws/new/home"), &st), 0);
    assert_int_equal(st.st_uid, OWNER);
}

static void a_workspace_that_is_a_link_is_refused(void **state)
{
    int fd = -1;
    (void)state;
    assert_int_equal(symlink("outside", at("fake")), 0);
    REFUSED(files_open(at("fake"), &fd, &e), ERR_IO);
    REFUSED(files_open(at("nowhere"), &fd, &e), ERR_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_and_its_parents_are_made),
        TEST(what_is_no_path_is_refused),
        TEST(a_link_in_place_of_a_parent_is_replaced),
        TEST(a_link_in_place_of_the_file_is_replaced),
        TEST(a_hard_link_is_not_written_through),
        TEST(a_fifo_blocks_nobody),
        TEST(a_directory_in_place_of_the_file_is_removed),
        TEST(modes_without_any_right_are_no_obstacle),
        TEST(what_does_not_fit_leaves_the_old_file),
        TEST(clearing_keeps_only_directories_of_that_name),
        TEST(clearing_makes_what_is_missing),
        TEST(a_workspace_that_is_a_link_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

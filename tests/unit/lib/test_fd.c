/*
 * Tests of descriptors: whole files, Unix sockets over stale ones, deadlines. One thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "tests/unit/lib/test.h"

static char dir[64];

static const char *below(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(dir, sizeof(dir), "/tmp/lib-fd-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    struct dirent *entry = NULL;
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        (void)unlinkat(dirfd(d), entry->d_name, 0);
    }
    (void)closedir(d);
    return rmdir(dir);
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int count = -2; /* . and .. */
    while (readdir(d)) {
        count++;
    }
    (void)closedir(d);
    return count;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void reads(const char *path, const char *want)
{
    struct err e;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(fd_read_file(path, 1000, &text, &len, &e), 0);
    assert_int_equal(len, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static void test_write_file(void **state)
{
    (void)state;
    struct err e;
    static const mode_t masks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < 4; i++) {
        mode_t was = umask(masks[i]);
        assert_int_equal(fd_write_file(below("f"), STR("content"), 0644, &e), 0);
        assert_int_equal(mode_of(below("f")), 0644);
        assert_int_equal(fd_write_file(below("f"), STR("next"), 0600, &e), 0);
        (void)umask(was);
        assert_int_equal(mode_of(below("f")), 0600);
        reads(below("f"), "next");
    }
    assert_int_equal(entries(), 1);
    assert_int_equal(fd_write_file(below("f"), STR(""), 0600, &e), 0);
    reads(below("f"), "");
}

static void test_write_file_replaces(void **state)
{
    (void)state;
    struct err e;
    struct stat before;
    struct stat after;
    /* A reader that has the old file open keeps the old content: never a half. */
    assert_int_equal(fd_write_file(below("f"), STR("old"), 0600, &e), 0);
    int fd AUTOCLOSE = open(below("f"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &before), 0);
    assert_int_equal(fd_write_file(below("f"), STR("new content"), 0600, &e), 0);
    assert_int_equal(stat(below("f"), &after), 0);
    assert_true(before.st_ino != after.st_ino);
    char old[16] = "";
    assert_int_equal(read(fd, old, sizeof(old)), 3);
    assert_string_equal(old, "old");
    /* A symlink is replaced, not followed. */
    assert_int_equal(fd_write_file(below("target"), STR("safe"), 0600, &e), 0);
    assert_int_equal(symlink("target", below("link")), 0);
    assert_int_equal(fd_write_file(below("link"), STR("x"), 0600, &e), 0);
    reads(below("target"), "safe");
    reads(below("link"), "x");
}

static void test_write_file_failures(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(mkdir(below("d"), 0700), 0);
    assert_int_equal(fd_write_file(below("d"), STR("x"), 0600, &e), -1);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "/d"));
    /* Nothing half-made stays behind. */
    assert_int_equal(entries(), 1);
    assert_int_equal(rmdir(below("d")), 0);
    assert_int_equal(fd_write_file(below("no/such/dir"), STR("x"), 0600, &e), -1);
    char path[600];
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(fd_write_file(path, STR("x"), 0600, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
}

static void test_read_bounds(void **state)
{
    (void)state;
    struct err e;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(fd_read_file(below("none"), 10, &text, &len, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(fd_write_file(below("f"), STR("0123456789"), 0600, &e), 0);
    assert_int_equal(fd_read_file(below("f"), 10, &text, &len, &e), 0);
    assert_int_equal(len, 10);
    free(text);
    text = NULL;
    assert_int_equal(fd_read_file(below("f"), 9, &text, &len, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(fd_read_file("/dev/zero", 100000, &text, &len, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(fd_read_file(dir, 10, &text, &len, &e), -1);
    assert_int_equal(e.code, ERR_IO);
    assert_null(text);
}

static void test_listen_over_stale_socket(void **state)
{
    (void)state;
    struct err e;
    int client = -1;
    const char *path = below("s.sock");
    for (int round = 0; round < 2; round++) {
        int server = -1;
        mode_t was = umask(077);
        assert_int_equal(fd_unix_listen(path, 0666, (uid_t)-1, (gid_t)-1, 8, &server, &e), 0);
        (void)umask(was);
        assert_int_equal(mode_of(path), 0666);
        assert_true(fcntl(server, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(fd_unix_connect(path, &client, &e), 0);
        pid_t pid = 0;
        uid_t uid = 99;
        assert_int_equal(fd_peer(client, &pid, &uid, &e), 0);
        assert_int_equal(pid, getpid());
        assert_int_equal(uid, getuid());
        (void)close(client);
        (void)close(server);
        /* The file stays behind, as after a crash; nobody listens. */
        assert_int_equal(fd_unix_connect(path, &client, &e), -1);
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        assert_int_equal(e.cause, ECONNREFUSED);
    }
    assert_int_equal(fd_unix_connect(below("none"), &client, &e), -1);
    assert_int_equal(e.cause, ENOENT);
}

static void test_long_socket_path(void **state)
{
    (void)state;
    struct err e;
    int fd = -1;
    char path[200];
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(fd_unix_listen(path, 0600, 0, 0, 8, &fd, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.msg, "shorter data directory"));
    assert_int_equal(fd_unix_connect(path, &fd, &e), -1);
    assert_int_equal(fd, -1);
}

static void test_read_and_write(void **state)
{
    (void)state;
    int pair[2];
    struct err e;
    char text[8] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    int64_t start = clock_mono_ms();
    assert_int_equal(fd_write_all(pair[0], "hello", 5, start + 1000, &e), 0);
    assert_int_equal(fd_read_exact(pair[1], text, 5, start + 1000, &e), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(fd_read_exact(pair[1], text, 1, clock_mono_ms() + 30, &e), -1);
    assert_int_equal(e.code, ERR_TIMEOUT);
    /* A peer that does not read: a blocking socket keeps its deadline too. */
    static char big[4 << 20];
    assert_int_equal(fd_write_all(pair[0], big, sizeof(big), clock_mono_ms() + 30, &e), -1);
    assert_int_equal(e.code, ERR_TIMEOUT);
    assert_true(clock_mono_ms() - start < 2000);
    (void)close(pair[1]);
    assert_int_equal(fd_write_all(pair[0], "x", 1, clock_mono_ms() + 1000, &e), -1);
    assert_int_equal(e.code, ERR_IO);
    assert_int_equal(e.cause, EPIPE);
    (void)close(pair[0]);
}

static void test_pipes_too(void **state)
{
    (void)state;
    int ends[2];
    struct err e;
    char c = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_set_nonblock(ends[1]), 0);
    assert_int_equal(fd_write_all(ends[1], "x", 1, clock_mono_ms() + 1000, &e), 0);
    (void)close(ends[1]);
    assert_int_equal(fd_read_exact(ends[0], &c, 1, clock_mono_ms() + 1000, &e), 0);
    assert_int_equal(fd_read_exact(ends[0], &c, 1, clock_mono_ms() + 1000, &e), -1);
    assert_int_equal(e.cause, EPIPE);
    (void)close(ends[0]);
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_DIR(test_write_file),
        IN_DIR(test_write_file_replaces),
        IN_DIR(test_write_file_failures),
        IN_DIR(test_read_bounds),
        IN_DIR(test_listen_over_stale_socket),
        IN_DIR(test_long_socket_path),
        IN_DIR(test_read_and_write),
        IN_DIR(test_pipes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Tests of spawning: exact environment, bounded output, deadlines that reach the whole group,
 * nothing left behind. One thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/proc.h"
#include "tests/unit/lib/test.h"

struct ran {
    int rc;
    int status;
    struct buf out;
    struct buf err;
    struct err e;
    int64_t ms;
};

static struct ran run_with(const char *script, struct str input, int64_t timeout_ms, size_t max)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const char *const envp[] = {"ONLY=this", "PATH=/usr/bin:/bin", NULL};
    struct proc_options options = {.path = "/bin/sh",
                                   .argv = argv,
                                   .envp = envp,
                                   .cwd = "/tmp",
                                   .input = input,
                                   .timeout_ms = timeout_ms,
                                   .output_max = max};
    struct ran ran = {0};
    int64_t start = clock_mono_ms();
    ran.rc = proc_run(&options, &ran.out, &ran.err, &ran.status, &ran.e);
    ran.ms = clock_mono_ms() - start;
    return ran;
}

static void ran_done(struct ran *ran)
{
    buf_done(&ran->out);
    buf_done(&ran->err);
}

static int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(d)) {
        count++;
    }
    (void)closedir(d);
    return count;
}

static void test_plain(void **state)
{
    (void)state;
    assert_non_null(getenv("HOME"));
    struct ran ran =
        run_with("cat; pwd; echo $ONLY $HOME; echo bad >&2; exit 3", STR("input\n"), 5000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_true(WIFEXITED(ran.status));
    assert_int_equal(WEXITSTATUS(ran.status), 3);
    test_buf(&ran.out, "input\n/tmp\nthis\n");
    test_buf(&ran.err, "bad\n");
    ran_done(&ran);
}

static void test_descriptors(void **state)
{
    (void)state;
    /* One without close-on-exec is not inherited either. */
    int leak = dup2(0, 57);
    assert_int_equal(leak, 57);
    int before = open_fds();
    struct ran ran = run_with("ls /proc/self/fd | sort -n | tr '\\n' ' '", STR(""), 5000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_false(str_contains(buf_str(&ran.out), STR("57")));
    ran_done(&ran);
    assert_int_equal(open_fds(), before);
    (void)close(leak);
}

static void test_output_bound(void **state)
{
    (void)state;
    struct ran ran =
        run_with("head -c 1000000 /dev/zero | tr '\\0' x; echo done >&2", STR(""), 20000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_true(buf_ok(&ran.out));
    assert_int_equal(ran.out.len, 1000);
    test_buf(&ran.err, "done\n");
    ran_done(&ran);
}

static void test_big_input(void **state)
{
    (void)state;
    static char big[1 << 20];
    memset(big, 'y', sizeof(big));
    struct ran ran = run_with("wc -c", str_n(big, sizeof(big)), 20000, 1000);
    assert_int_equal(ran.rc, 0);
    test_buf(&ran.out, "1048576\n");
    ran_done(&ran);
    /* One that does not read it. */
    ran = run_with("exit 0", str_n(big, sizeof(big)), 20000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_int_equal(ran.status, 0);
    ran_done(&ran);
}

static void test_timeout_reaches_the_group(void **state)
{
    (void)state;
    int64_t start = clock_mono_ms();
    int before = open_fds();
    struct ran ran = run_with("sleep 60 & echo $!; sleep 60", STR(""), 200, 1000);
    assert_int_equal(ran.rc, -1);
    assert_int_equal(ran.e.code, ERR_TIMEOUT);
    assert_true(clock_mono_ms() - start < 3000);
    assert_true(WIFSIGNALED(ran.status));
    uint64_t child = 0;
    assert_true(str_to_u64(str_trim(buf_str(&ran.out)), 1 << 30, &child));
    /* Dead, or a zombie that waits for its new parent. */
    for (int i = 0; i < 100 && kill((pid_t)child, 0) == 0; i++) {
        char state_path[64];
        char line[256] = "";
        (void)snprintf(state_path, sizeof(state_path), "/proc/%d/stat", (int)child);
        int fd = open(state_path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            (void)read(fd, line, sizeof(line) - 1);
            (void)close(fd);
        }
        if (strstr(line, ") Z ")) {
            break;
        }
        assert_true(i < 99);
        clock_sleep_ms(10);
    }
    ran_done(&ran);
    assert_int_equal(open_fds(), before);
}

static void test_term_is_not_enough(void **state)
{
    (void)state;
    struct ran ran = run_with("trap '' TERM; while :; do sleep 1; done", STR(""), 100, 1000);
    assert_int_equal(ran.rc, -1);
    assert_int_equal(ran.e.code, ERR_TIMEOUT);
    assert_int_equal(WTERMSIG(ran.status), SIGKILL);
    assert_in_range(ran.ms, 2000, 4500);
    ran_done(&ran);
}

/* Whoever holds the pipes after the end of the program does not hold us. */
static void test_left_behind(void **state)
{
    (void)state;
    struct ran ran = run_with("sleep 60 & echo started", STR(""), 10000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_int_equal(ran.status, 0);
    test_buf(&ran.out, "started\n");
    assert_true(ran.ms < 5000);
    ran_done(&ran);
    ran = run_with("setsid sleep 3 & echo started", STR(""), 10000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_true(ran.ms < 2500);
    ran_done(&ran);
}

static void test_closed_output(void **state)
{
    (void)state;
    struct ran ran = run_with("exec >&- 2>&-; sleep 0.2; exit 4", STR(""), 10000, 1000);
    assert_int_equal(ran.rc, 0);
    assert_int_equal(WEXITSTATUS(ran.status), 4);
    ran_done(&ran);
}

static void test_beside(void **state)
{
    (void)state;
    char path[PROC_PATH_MAX];
    char self[PROC_PATH_MAX] = "";
    static char long_name[PROC_PATH_MAX];
    struct err e;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    assert_int_equal(proc_beside(path, "other", &e), 0);
    assert_memory_equal(path, self, (size_t)(strrchr(self, '/') - self) + 1);
    assert_string_equal(strrchr(path, '/'), "/other");
    memset(long_name, 'x', sizeof(long_name) - 1);
    assert_int_equal(proc_beside(path, long_name, &e), -1);
    assert_int_equal(e.code, ERR_IO);
}

static void test_cannot_start(void **state)
{
    (void)state;
    const char *const argv[] = {"x", NULL};
    const char *const envp[] = {NULL};
    struct proc_options options = {
        .path = "/no/such/program", .argv = argv, .envp = envp, .timeout_ms = 1000};
    struct buf out;
    struct buf err;
    struct err e;
    int status = 0;
    int before = open_fds();
    assert_int_equal(proc_run(&options, &out, &err, &status, &e), -1);
    assert_int_equal(e.code, ERR_IO);
    assert_int_equal(e.cause, ENOENT);
    assert_non_null(strstr(e.msg, "/no/such/program"));
    buf_done(&out);
    buf_done(&err);
    options.path = "/bin/true";
    options.cwd = "/no/such/dir";
    assert_int_equal(proc_run(&options, &out, &err, &status, &e), -1);
    buf_done(&out);
    buf_done(&err);
    assert_int_equal(open_fds(), before);
}

/* Descriptors run out at each of the pipes in turn; none is lost. */
static void test_no_descriptors_left(void **state)
{
    (void)state;
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)close(lowest);
    int before = open_fds();
    for (int room = 0; room < 7; room++) {
        struct rlimit tight = {.rlim_cur = (rlim_t)(lowest + room), .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        struct ran ran = run_with("exit 0", STR(""), 5000, 100);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        if (room < 6) {
            assert_int_equal(ran.rc, -1);
            assert_int_equal(ran.e.code, ERR_IO);
        }
        ran_done(&ran);
        assert_int_equal(open_fds(), before);
    }
    /* No zombie either. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_output_bound),
        cmocka_unit_test(test_big_input),
        cmocka_unit_test(test_timeout_reaches_the_group),
        cmocka_unit_test(test_term_is_not_enough),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_closed_output),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_cannot_start),
        cmocka_unit_test(test_no_descriptors_left),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

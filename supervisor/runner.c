/*
 * Runner: starts one program and ends its whole tree. It must never leave anything below it alive
 * when it says GONE, and never wait for PID 1. A process of its own, one thread.
 */
#include "supervisor/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/err.h"
#include "lib/fd.h"
#include "supervisor/tree.h"

#define RUNNER_SCAN_MS     20  /* between two looks at the tree while it is being ended */
#define RUNNER_SCAN_MAX_MS 500 /* the same for a tree that does not end */

enum runner_state {
    RUNNER_RUNS,
    RUNNER_TERMINATING,
    RUNNER_KILLING
};

struct runner {
    int signal_fd;
    pid_t program;
    bool program_ended;
    enum runner_state state;
    int64_t kill_at_ms;
    int64_t stuck_at_ms;
    int64_t scan_at_ms;
    int64_t scan_every_ms;
    bool said_stuck;
    struct tree tree;  /* as read last */
    pid_t termed[256]; /* who had its TERM; more than that get it again */
    size_t termed_count;
};

static void runner_say(enum runner_verb verb, uint32_t value)
{
    struct runner_message m = {.verb = verb, .value = value};

    /* A PID 1 that does not read would have ended the container already. */
    (void)send(RUNNER_CONTROL_FD, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* In the program's process, before its exec. Never returns. */
static _Noreturn void runner_exec(const char *cwd, char *const *argv)
{
    struct err e = {0};
    sigset_t none;

    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (cwd[0] != '\0' && chdir(cwd) != 0) {
        (void)err_set(&e, ERR_IO, errno, "enter %s", cwd);
        (void)dprintf(STDERR_FILENO, "sandboxd: %s\n", e.msg);
        _exit(126);
    }
    (void)execvp(argv[0], argv);
    bool missing = errno == ENOENT;
    (void)err_set(&e, ERR_IO, errno, "start %s", argv[0]);
    (void)dprintf(STDERR_FILENO, "sandboxd: %s\n", e.msg);
    _exit(missing ? 127 : 126);
}

/* Lets go of the program's pipes: their other ends must see the program's end, not ours. */
static void runner_drop_pipes(void)
{
    int null_fd AUTOCLOSE = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd <= 2; fd++) {
        if (null_fd >= 0) {
            (void)dup2(null_fd, fd);
        } else {
            (void)close(fd);
        }
    }
}

static int runner_start(struct runner *r, const char *cwd, char *const *argv)
{
    sigset_t children;

    /* The program must not be able to speak for its runner. */
    (void)fcntl(RUNNER_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &children, NULL);
    r->signal_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signal_fd < 0) {
        (void)dprintf(STDERR_FILENO, "sandboxd: no descriptor is left to watch a program with\n");
        return -1;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        runner_say(RUNNER_LOOSE, 0); /* gVisor's kernel, for one */
    }
    r->program = fork();
    if (r->program == 0) {
        runner_exec(cwd, argv);
    }
    if (r->program < 0) {
        (void)dprintf(STDERR_FILENO, "sandboxd: cannot start a process: the sandbox is out of "
                                     "processes or memory\n");
        return -1;
    }
    runner_say(RUNNER_STARTED, (uint32_t)r->program);
    return 0;
}

static void runner_terminate(struct runner *r, int64_t grace_ms)
{
    int64_t kill_at = clock_mono_ms() + grace_ms;

    if (r->state == RUNNER_RUNS) {
        r->state = RUNNER_TERMINATING;
        r->kill_at_ms = kill_at;
        r->scan_at_ms = 0;
        r->scan_every_ms = RUNNER_SCAN_MS;
    } else if (r->state == RUNNER_TERMINATING && kill_at < r->kill_at_ms) {
        r->kill_at_ms = kill_at;
    }
}

/* True when no child is left. */
static bool runner_reap(struct runner *r)
{
    struct signalfd_siginfo info;
    int status = 0;
    pid_t pid = 0;

    while (read(r->signal_fd, &info, sizeof(info)) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == r->program) {
            r->program_ended = true;
            runner_say(RUNNER_EXITED, (uint32_t)status);
            runner_terminate(r, RUNNER_LEFTOVER_GRACE_MS);
        }
    }
    return pid < 0 && errno == ECHILD;
}

static bool runner_had_term(const struct runner *r, pid_t pid)
{
    for (size_t i = 0; i < r->termed_count; i++) {
        if (r->termed[i] == pid) {
            return true;
        }
    }
    return false;
}

/* TERM to everybody below who did not have it: a second one makes some programs give up their clean
 * end. */
static void runner_term_all(struct runner *r)
{
    for (size_t i = 0; i < r->tree.count; i++) {
        pid_t pid = r->tree.entries[i].pid;

        if (!r->tree.entries[i].below || r->tree.entries[i].zombie || runner_had_term(r, pid)) {
            continue;
        }
        (void)kill(pid, SIGTERM);
        (void)kill(pid, SIGCONT); /* a stopped process would never see it */
        if (r->termed_count < sizeof(r->termed) / sizeof(r->termed[0])) {
            r->termed[r->termed_count++] = pid;
        }
    }
}

/* Stops all first, so that nobody forks away from under the list, then kills. */
static void runner_kill_all(struct runner *r)
{
    size_t before = 0;
    size_t now = tree_mark(&r->tree, getpid(), NULL);

    while (now > before) {
        before = now;
        (void)tree_signal(&r->tree, SIGSTOP);
        if (!tree_read(&r->tree)) {
            return;
        }
        now = tree_mark(&r->tree, getpid(), NULL);
    }
    (void)tree_signal(&r->tree, SIGKILL);
}

static void runner_scan(struct runner *r, int64_t now_ms)
{
    if (r->state == RUNNER_TERMINATING && now_ms >= r->kill_at_ms) {
        r->state = RUNNER_KILLING;
        r->stuck_at_ms = now_ms + RUNNER_STUCK_MS;
        r->scan_every_ms = RUNNER_SCAN_MS;
    }
    r->scan_at_ms = now_ms + r->scan_every_ms;
    r->scan_every_ms =
        r->scan_every_ms * 2 > RUNNER_SCAN_MAX_MS ? RUNNER_SCAN_MAX_MS : r->scan_every_ms * 2;
    if (!tree_read(&r->tree) || tree_mark(&r->tree, getpid(), NULL) == 0) {
        return;
    }
    if (r->state == RUNNER_TERMINATING) {
        runner_term_all(r);
    } else {
        runner_kill_all(r);
    }
    if (r->state == RUNNER_KILLING && now_ms >= r->stuck_at_ms && !r->said_stuck) {
        r->said_stuck = true;
        runner_say(RUNNER_STUCK, 0);
    }
}

/* Until something is to be looked at; -1 for ever. */
static int runner_timeout(const struct runner *r)
{
    int64_t at = r->scan_at_ms;

    if (r->state == RUNNER_RUNS) {
        return -1;
    }
    if (r->state == RUNNER_TERMINATING && r->kill_at_ms < at) {
        at = r->kill_at_ms;
    }
    return clock_until(at);
}

/* False when PID 1 is gone: then everything goes. */
static bool runner_listen(struct runner *r)
{
    struct runner_message m;
    ssize_t len = recv(RUNNER_CONTROL_FD, &m, sizeof(m), MSG_DONTWAIT);

    if (len == 0) {
        return false;
    }
    if (len == (ssize_t)sizeof(m) && m.verb == RUNNER_STOP) {
        runner_terminate(r, m.value);
    }
    return true;
}

static void runner_loop(struct runner *r)
{
    bool connected = true;

    while (!runner_reap(r)) {
        struct pollfd fds[2] = {{.fd = r->signal_fd, .events = POLLIN},
                                {.fd = connected ? RUNNER_CONTROL_FD : -1, .events = POLLIN}};

        if (poll(fds, 2, runner_timeout(r)) > 0 && fds[1].revents != 0 && !runner_listen(r)) {
            connected = false;
            runner_terminate(r, 0);
        }
        if (r->state != RUNNER_RUNS &&
            (clock_mono_ms() >= r->scan_at_ms ||
             (r->state == RUNNER_TERMINATING && clock_mono_ms() >= r->kill_at_ms))) {
            runner_scan(r, clock_mono_ms());
        }
    }
}

int runner_main(const char *cwd, char *const *argv)
{
    /* Too large for a stack; untouched pages of it cost nothing. */
    static struct runner runner;

    if (runner_start(&runner, cwd, argv) == 0) {
        runner_drop_pipes();
        runner_loop(&runner);
    } else {
        runner_say(RUNNER_EXITED, 126 << 8); /* as a shell says it */
    }
    runner_say(RUNNER_GONE, 0);
    return 0;
}

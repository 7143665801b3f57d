/*
 * Spawn. It must never leave PID 1 with a changed signal mask or a descriptor more. One thread: PID
 * 1's.
 */
#include "supervisor/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/str.h"

static char spawn_path[PATH_MAX] = "/run/sandboxd/init/sandboxd-init";

void spawn_init(const char *argv0)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (len > 0 && len < (ssize_t)sizeof(path) - 1) {
        path[len] = '\0';
        (void)snprintf(spawn_path, sizeof(spawn_path), "%s", path);
    } else if (argv0 && argv0[0] == '/') {
        (void)snprintf(spawn_path, sizeof(spawn_path), "%s", argv0);
    }
}

const char *spawn_self(void)
{
    return spawn_path;
}

/* In the child: lifts a descriptor out of the way of 0 to 3. -1 stays. */
static int spawn_lift(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 16);
}

static void spawn_place_fds(const struct spawn *s)
{
    int fds[3];
    int control_fd = spawn_lift(s->control_fd);

    for (int i = 0; i < 3; i++) {
        fds[i] = spawn_lift(s->fds[i]);
    }
    if (fds[0] < 0) {
        fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            (void)dup2(fds[i], i);
        }
    }
    if (control_fd >= 0) {
        (void)dup2(control_fd, 3);
        (void)close_range(4, UINT_MAX, 0);
    } else {
        (void)close_range(3, UINT_MAX, 0);
    }
}

/* A child starts with every signal at its default and none blocked. */
static void spawn_reset_signals(void)
{
    sigset_t none;
    struct sigaction action = {.sa_handler = SIG_DFL};

    (void)sigemptyset(&action.sa_mask);
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &action, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void spawn_exec(const struct spawn *s)
{
    static char *argv[SPAWN_ARGS_MAX + 3];
    static char name[] = "sandboxd-init";
    static char child[] = "child";
    size_t count = 0;

    argv[count++] = name;
    argv[count++] = child;
    for (size_t i = 0; s->args[i] && count < SPAWN_ARGS_MAX + 2; i++) {
        argv[count++] = (char *)(uintptr_t)s->args[i];
    }
    argv[count] = NULL;
    spawn_place_fds(s);
    spawn_reset_signals();
    (void)execve(spawn_path, argv, (char *const *)(uintptr_t)s->envp);
    (void)dprintf(STDERR_FILENO, "sandboxd: the supervisor's program %s cannot be started again\n",
                  spawn_path);
    _exit(126);
}

int spawn_start(const struct spawn *s, pid_t *ret_pid, struct err *e)
{
    pid_t pid = fork();

    if (pid < 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "start a process");
    }
    if (pid == 0) {
        spawn_exec(s);
    }
    *ret_pid = pid;
    return 0;
}

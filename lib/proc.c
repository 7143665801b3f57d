/*
 * Spawning with posix_spawn, bounded output, a deadline. It must never leave a process, a zombie or
 * a descriptor behind. Caller's thread; waits for its own child only.
 */
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"

#define PROC_KILL_AFTER_MS 2000
/* What was written before the end is in the pipes already; only a process that left the group can
 * still hold them open. */
#define PROC_DRAIN_AFTER_END_MS 200

/* Both ends of the child's three pipes; -1 when closed. */
struct proc_pipes {
    int in[2];
    int out[2];
    int err[2];
};

struct proc_child {
    pid_t pid;
    int ended; /* pidfd, readable at its end; -1 after it */
    struct str input;
    int64_t deadline_ms;
    bool late;
};

static void proc_pipes_close(struct proc_pipes *p)
{
    for (int i = 0; i < 2; i++) {
        fd_close_cleanup(&p->in[i]);
        fd_close_cleanup(&p->out[i]);
        fd_close_cleanup(&p->err[i]);
    }
}

static int proc_pipes_open(struct proc_pipes *p, struct err *e)
{
    if (pipe2(p->in, O_CLOEXEC) != 0 || pipe2(p->out, O_CLOEXEC) != 0 ||
        pipe2(p->err, O_CLOEXEC) != 0) {
        return err_set(e, ERR_IO, errno, "make a pipe");
    }
    if (fd_set_nonblock(p->in[1]) != 0) {
        return err_set(e, ERR_IO, errno, "make a pipe");
    }
    return 0;
}

static int proc_actions(posix_spawn_file_actions_t *actions, const struct proc_options *o,
                        const struct proc_pipes *p)
{
    return posix_spawn_file_actions_adddup2(actions, p->in[0], 0) ||
           posix_spawn_file_actions_adddup2(actions, p->out[1], 1) ||
           posix_spawn_file_actions_adddup2(actions, p->err[1], 2) ||
           posix_spawn_file_actions_addclosefrom_np(actions, 3) ||
           (o->cwd && posix_spawn_file_actions_addchdir_np(actions, o->cwd));
}

static int proc_attributes(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    return posix_spawnattr_setsigmask(attr, &none) || posix_spawnattr_setsigdefault(attr, &all) ||
           posix_spawnattr_setpgroup(attr, 0) ||
           posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
}

static int proc_spawn(const struct proc_options *o, const struct proc_pipes *p, pid_t *ret_pid,
                      struct err *e)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;

    union {
        const char *const *ours;
        char *const *theirs;
    } argv = {.ours = o->argv}, envp = {.ours = o->envp};

    /* glibc's two inits cannot fail. */
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    int failed = ENOMEM;
    if (!proc_actions(&actions, o, p) && !proc_attributes(&attr)) {
        failed = posix_spawn(ret_pid, o->path, &actions, &attr, argv.theirs, envp.theirs);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return failed ? err_set(e, ERR_IO, failed, "start %s", o->path) : 0;
}

/* Moves what is there; closes the descriptor at its end. More than the buffer takes is dropped. */
static void proc_drain(int *fd, struct buf *into)
{
    char chunk[8192];
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    if (n > 0) {
        size_t room = into->max - into->len;
        buf_add(into, chunk, (size_t)n < room ? (size_t)n : room);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        fd_close_cleanup(fd);
    }
}

static void proc_feed(struct proc_child *child, int *fd)
{
    ssize_t n = child->input.len ? write(*fd, child->input.ptr, child->input.len) : 0;
    if (n > 0) {
        child->input = str_cut(child->input, (size_t)n, child->input.len);
    }
    if (child->input.len == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        fd_close_cleanup(fd);
    }
}

/* Not reaped yet: its number still names its group and nobody else's. */
static void proc_on_end(struct proc_child *child)
{
    (void)kill(-child->pid, SIGKILL);
    fd_close_cleanup(&child->ended);
    child->deadline_ms = clock_mono_ms() + PROC_DRAIN_AFTER_END_MS;
}

/* First politely; the group, so that its children go too. */
static void proc_on_deadline(struct proc_child *child)
{
    (void)kill(-child->pid, child->late ? SIGKILL : SIGTERM);
    child->late = true;
    child->deadline_ms = clock_mono_ms() + PROC_KILL_AFTER_MS;
}

/* Waits once and moves what can be moved; false when there is nothing more to wait for. */
static bool proc_pump(struct proc_child *child, struct proc_pipes *p, struct buf *out,
                      struct buf *err)
{
    struct pollfd wait[4] = {{.fd = p->in[1], .events = POLLOUT},
                             {.fd = p->out[0], .events = POLLIN},
                             {.fd = p->err[0], .events = POLLIN},
                             {.fd = child->ended, .events = POLLIN}};
    if (child->ended < 0 && p->out[0] < 0 && p->err[0] < 0) {
        return false;
    }
    if (poll(wait, 4, clock_until(child->deadline_ms)) == 0) {
        if (child->ended < 0) {
            return false;
        }
        proc_on_deadline(child);
        return true;
    }
    if (wait[0].revents) {
        proc_feed(child, &p->in[1]);
    }
    if (wait[1].revents) {
        proc_drain(&p->out[0], out);
    }
    if (wait[2].revents) {
        proc_drain(&p->err[0], err);
    }
    if (wait[3].revents) {
        proc_on_end(child);
    }
    return true;
}

static int proc_reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

int proc_run(const struct proc_options *options, struct buf *ret_out, struct buf *ret_err_text,
             int *ret_status, struct err *e)
{
    struct proc_pipes pipes __attribute__((cleanup(proc_pipes_close))) = {
        .in = {-1, -1}, .out = {-1, -1}, .err = {-1, -1}};
    struct proc_child child = {.input = options->input,
                               .deadline_ms = clock_mono_ms() + options->timeout_ms};
    buf_init(ret_out, options->output_max);
    buf_init(ret_err_text, options->output_max);
    if (proc_pipes_open(&pipes, e) != 0 || proc_spawn(options, &pipes, &child.pid, e) != 0) {
        return -1;
    }
    fd_close_cleanup(&pipes.in[0]);
    fd_close_cleanup(&pipes.out[1]);
    fd_close_cleanup(&pipes.err[1]);
    child.ended = pidfd_open(child.pid, 0);
    if (child.ended < 0) {
        (void)err_set(e, ERR_IO, errno, "watch %s", options->path);
        (void)kill(-child.pid, SIGKILL);
        (void)proc_reap(child.pid);
        return -1;
    }
    while (proc_pump(&child, &pipes, ret_out, ret_err_text)) {
    }
    *ret_status = proc_reap(child.pid);
    return child.late ? err_set(e, ERR_TIMEOUT, 0, "%s did not end in time", options->path) : 0;
}

int proc_beside(char out[PROC_PATH_MAX], const char *program, struct err *e)
{
    char self[PROC_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0) {
        return err_set(e, ERR_IO, errno, "find %s: read /proc/self/exe", program);
    }
    self[n] = '\0';
    /* A file that was replaced reads "… (deleted)"; its directory is still the right one. */
    char *slash = strrchr(self, '/');
    int dir_len = slash ? (int)(slash - self) : 0;
    int len = snprintf(out, PROC_PATH_MAX, "%.*s/%s", dir_len, self, program);
    if (!slash || len < 0 || len >= PROC_PATH_MAX) {
        return err_set(e, ERR_IO, ENAMETOOLONG, "find %s beside this program", program);
    }
    return 0;
}

/*
 * Spawning with posix_spawn, bounded output, a deadline. Caller's thread; waits for its own child only.
 */
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"

#define PROC_KILL_AFTER_MS 2000

struct proc_run {
    pid_t pid;
    int in;  /* our end of its stdin, -1 when closed */
    int out; /* our end of its stdout */
    int err;
    struct str input;
};

static int proc_pipe(int ends[2], struct err *e)
{
    return pipe2(ends, O_CLOEXEC) == 0 ? 0 : err_set(e, ERR_IO, errno, "make a pipe");
}

static int proc_actions(posix_spawn_file_actions_t *actions, const struct proc_options *o, int in,
                        int out, int err)
{
    return posix_spawn_file_actions_init(actions) ||
           posix_spawn_file_actions_adddup2(actions, in, 0) ||
           posix_spawn_file_actions_adddup2(actions, out, 1) ||
           posix_spawn_file_actions_adddup2(actions, err, 2) ||
           posix_spawn_file_actions_addclosefrom_np(actions, 3) ||
           (o->cwd && posix_spawn_file_actions_addchdir_np(actions, o->cwd));
}

static int proc_attributes(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    return posix_spawnattr_init(attr) || posix_spawnattr_setsigmask(attr, &none) ||
           posix_spawnattr_setsigdefault(attr, &all) || posix_spawnattr_setpgroup(attr, 0) ||
           posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
}

static int proc_spawn(const struct proc_options *o, int in, int out, int err, pid_t *ret_pid,
                      struct err *e)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    union {
        const char *const *ours;
        char *const *theirs;
    } argv = {.ours = o->argv}, envp = {.ours = o->envp};
    if (proc_actions(&actions, o, in, out, err) || proc_attributes(&attr)) {
        return err_set(e, ERR_INTERNAL, 0, "prepare %s", o->path);
    }
    int failed = posix_spawn(ret_pid, o->path, &actions, &attr, argv.theirs, envp.theirs);
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

static void proc_feed(struct proc_run *run)
{
    ssize_t n = run->input.len ? write(run->in, run->input.ptr, run->input.len) : 0;
    if (n > 0) {
        run->input = str_cut(run->input, (size_t)n, run->input.len);
    }
    if (run->input.len == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        fd_close_cleanup(&run->in);
    }
}

/* True while there is something to wait for. */
static bool proc_pump(struct proc_run *run, struct buf *out, struct buf *err, int64_t deadline_ms)
{
    struct pollfd p[3] = {{.fd = run->in, .events = POLLOUT},
                          {.fd = run->out, .events = POLLIN},
                          {.fd = run->err, .events = POLLIN}};
    if (run->out < 0 && run->err < 0) {
        return false;
    }
    int n = poll(p, 3, clock_until(deadline_ms));
    if (n == 0) {
        return false;
    }
    if (p[0].revents) {
        proc_feed(run);
    }
    if (p[1].revents) {
        proc_drain(&run->out, out);
    }
    if (p[2].revents) {
        proc_drain(&run->err, err);
    }
    return true;
}

static int proc_reap(pid_t pid, int64_t deadline_ms, bool *ret_late)
{
    int status = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) {
            return status;
        }
        if (clock_until(deadline_ms) == 0) {
            /* First politely; the group, so that its children go too. */
            (void)kill(-pid, *ret_late ? SIGKILL : SIGTERM);
            *ret_late = true;
            deadline_ms = clock_mono_ms() + PROC_KILL_AFTER_MS;
        }
        clock_sleep_ms(2);
    }
}

int proc_run(const struct proc_options *options, struct buf *ret_out, struct buf *ret_err_text,
             int *ret_status, struct err *e)
{
    int in[2];
    int out[2];
    int err[2];
    if (proc_pipe(in, e) != 0 || proc_pipe(out, e) != 0 || proc_pipe(err, e) != 0) {
        return -1;
    }
    struct proc_run run = {.in = in[1], .out = out[0], .err = err[0], .input = options->input};
    int started = proc_spawn(options, in[0], out[1], err[1], &run.pid, e);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    (void)fd_set_nonblock(run.in);
    int64_t deadline_ms = clock_mono_ms() + options->timeout_ms;
    bool late = false;
    buf_init(ret_out, options->output_max);
    buf_init(ret_err_text, options->output_max);
    while (started == 0 && proc_pump(&run, ret_out, ret_err_text, deadline_ms)) {
    }
    fd_close_cleanup(&run.in);
    fd_close_cleanup(&run.out);
    fd_close_cleanup(&run.err);
    if (started != 0) {
        return -1;
    }
    *ret_status = proc_reap(run.pid, deadline_ms, &late);
    return late ? err_set(e, ERR_TIMEOUT, 0, "%s did not end in time", options->path) : 0;
}

/*
 * The gate: asks the engine whether a peer is PID 1 of its sandbox. A thread of its own, because
 * that may take seconds.
 */
#include <fcntl.h>

#include "control/sandbox/sandbox.h"
#include "control/task/channel_private.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

void gate_ask(struct channel *c, const struct link *link)
{
    struct gate_job *job = mem_alloc(sizeof(*job));
    job->id = link->id;
    job->serial = link->serial;
    job->fd = fcntl(link->fd, F_DUPFD_CLOEXEC, 0);
    LOCK_GUARD(&c->lock);
    if (c->gate_last) {
        c->gate_last->next = job;
    } else {
        c->gate_first = job;
    }
    c->gate_last = job;
    (void)pthread_cond_signal(&c->gate_work);
}

static struct gate_job *gate_next(struct channel *c)
{
    LOCK_GUARD(&c->lock);
    while (!c->gate_first && !atomic_load(&c->stopping)) {
        (void)pthread_cond_wait(&c->gate_work, &c->lock);
    }
    struct gate_job *job = c->gate_first;
    if (job) {
        c->gate_first = job->next;
        c->gate_last = c->gate_first ? c->gate_last : NULL;
    }
    return job;
}

static void gate_check(struct channel *c, struct gate_job *job)
{
    struct err e = {0};
    struct command *answer = mem_alloc(sizeof(*answer));
    *answer =
        (struct command){.kind = COMMAND_CHECKED, .id = job->id, .serial = job->serial, .fd = -1};
    answer->good = job->fd >= 0 && !atomic_load(&c->stopping) &&
                   sandbox_check_peer(c->sandboxes, &job->id, job->fd, &e) == 0;
    answer->forbidden = !answer->good && e.code == ERR_FORBIDDEN;
    if (!answer->good && !answer->forbidden && e.msg[0]) {
        log_warn("a connection on control could not be checked; it is dialled again", "sandbox_id",
                 job->id.text, "error", e.msg);
    }
    channel_post(c, answer);
    fd_close_cleanup(&job->fd);
    free(job);
}

void *gate_run(void *channel)
{
    struct channel *c = channel;
    struct gate_job *job = NULL;
    while ((job = gate_next(c)) != NULL) {
        gate_check(c, job);
    }
    return NULL;
}

void gate_stop(struct channel *c)
{
    {
        LOCK_GUARD(&c->lock);
        (void)pthread_cond_broadcast(&c->gate_work);
    }
    (void)pthread_join(c->gate, NULL);
}

/*
 * The preparer: writes the files of an attempt into its workspace. A thread of its own, because a
 * hostile workspace can make that slow.
 */
#include "control/task/service.h"
#include "control/workspace/files.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define PREPARE_FILE_MODE 0600

void prepare_ask(struct task_service *s, struct prepare_job *take_job)
{
    LOCK_GUARD(&s->lock);
    take_job->next = NULL;
    if (s->jobs_last) {
        s->jobs_last->next = take_job;
    } else {
        s->jobs = take_job;
    }
    s->jobs_last = take_job;
    (void)pthread_cond_signal(&s->work);
}

void prepare_job_free(struct prepare_job *job)
{
    if (job) {
        arena_free(job->arena);
        free(job);
    }
}

static int prepare_files(struct task_service *s, struct prepare_job *job, struct err *e)
{
    char path[PATHS_MAX];
    const struct agent_run *run = &job->run;
    int workspace AUTOCLOSE = -1;
    (void)paths_workspace(path, s->config->data_dir, &job->sandbox);
    if (files_open(path, &workspace, e) != 0 ||
        files_make_dir(workspace, ".tmp", job->uid, e) != 0 ||
        files_clear_dir(workspace, run->home, run->keep, job->uid, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < run->file_count; i++) {
        if (files_put(workspace, run->files[i].path, str_of(run->files[i].content),
                      PREPARE_FILE_MODE, job->uid, e) != 0) {
            return -1;
        }
    }
    return 0;
}

static struct prepare_job *prepare_next(struct task_service *s)
{
    LOCK_GUARD(&s->lock);
    while (!s->jobs && !atomic_load(&s->stopping)) {
        (void)pthread_cond_wait(&s->work, &s->lock);
    }
    struct prepare_job *job = atomic_load(&s->stopping) ? NULL : s->jobs;
    if (job) {
        s->jobs = job->next;
        s->jobs_last = s->jobs ? s->jobs_last : NULL;
    }
    return job;
}

void *prepare_run(void *service)
{
    struct task_service *s = service;
    struct prepare_job *job = NULL;
    while ((job = prepare_next(s)) != NULL) {
        struct note *note = mem_alloc(sizeof(*note));
        job->err = (struct err){0};
        if (prepare_files(s, job, &job->err) != 0 && job->err.code == ERR_NONE) {
            job->err.code = ERR_IO;
        }
        *note = (struct note){.kind = NOTE_PREPARED, .sandbox = job->sandbox, .job = job};
        service_post(s, note);
    }
    return NULL;
}

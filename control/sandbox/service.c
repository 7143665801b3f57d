/*
 * Start and stop of the sandbox room: loads rows, finishes what a crash left half-done, starts the
 * threads.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/sandbox/dirs.h"
#include "control/sandbox/table.h"
#include "control/sandbox/tickets.h"
#include "control/store/apps.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SERVICE_ROWS_ARENA_BYTES  (256UL * 1024 * 1024)
#define SERVICE_START_THREADS_MIN 2
#define SERVICE_START_THREADS_MAX 4
#define SERVICE_OTHER_THREADS     2

int sandbox_service_start(const struct config *config, struct sandbox_service **ret, struct err *e)
{
    struct sandbox_service *s = mem_alloc(sizeof(*s));
    s->config = config;
    (void)pthread_mutex_init(&s->policy_lock, NULL);
    (void)pthread_mutex_init(&s->lock, NULL);
    thread_cond_init(&s->work);
    thread_cond_init(&s->stop);
    thread_cond_init(&s->changed);
    for (int i = 0; i < SERVICE_STREAMS; i++) {
        s->streams[i] = -1;
    }
    s->broker_wake_fd = -1;
    s->proxy_left_ms = clock_mono_ms();
    s->engine = engine_client_new(config->data_dir);
    s->tickets = tickets_new();
    if (presets_load(s, e) != 0 ||
        dirs_prepare(config->data_dir, config->uid_base, config->init_source, s->init_version, e) !=
            0 ||
        broker_listen(s, e) != 0) {
        engine_client_free(s->engine);
        tickets_free(s->tickets);
        free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void sandbox_set_hooks(struct sandbox_service *s, const struct sandbox_channel_hooks *hooks)
{
    s->hooks = *hooks;
}

/* What a row needs after a crash in the middle of something. */
static enum sandbox_want service_unfinished(enum sandbox_status status)
{
    switch (status) {
    case SANDBOX_CREATING: return WANT_FORGET; /* nobody got an answer: it never was */
    case SANDBOX_STOPPING: return WANT_STOP;
    case SANDBOX_DELETING: return WANT_DELETE;
    case SANDBOX_STARTING:
    case SANDBOX_RUNNING:
    case SANDBOX_FROZEN:
    case SANDBOX_STOPPED:
    case SANDBOX_ERROR:
    case SANDBOX_DELETED: break;
    }
    return WANT_NOTHING;
}

static int service_adopt(struct sandbox_service *s, const struct sandbox_row *row, struct arena *a,
                         struct err *e)
{
    struct app_row app = {.name = "", .runtime_preset = ""};
    if (apps_get(s->db, &row->app_id, a, &app, e) != 0) {
        return -1;
    }
    struct sandbox *b = table_add(s, row, &app, sandbox_preset_find(s, str_of(app.runtime_preset)));
    b->want = service_unfinished(row->status);
    b->creating = false;
    b->order = ++s->next_order;
    if (b->want == WANT_STOP) {
        /* It goes on being stopped for what it was stopped for. */
        (void)snprintf(b->reason, sizeof(b->reason), "%.31s", row->error_code);
        b->stop_why = b->trouble.code == ERR_NONE ? NULL : mem_alloc(sizeof(*b->stop_why));
        if (b->stop_why) {
            *b->stop_why = b->trouble;
        }
    }
    b->ticket = b->want == WANT_NOTHING ? 0 : 1;
    bool might_run = row->status == SANDBOX_RUNNING || row->status == SANDBOX_STARTING;
    if (row->status == SANDBOX_STARTING) {
        /* Reconcile makes it running when it is. */
        b->status = SANDBOX_STOPPED;
        if (sandboxes_set_status(s->db, &row->id, SANDBOX_STOPPED, "", "", e) != 0) {
            return -1;
        }
    }
    /* Its supervisor dials from the first moment; a door that cannot be opened is that sandbox's
     * trouble, not ours. */
    if (might_run && (dirs_make_doors(s->config, &row->id, b->uid, e) != 0 ||
                      s->hooks.listen(s->hooks.ctx, &row->id, e) != 0)) {
        log_warn("a sandbox cannot be reached", "sandbox_id", row->id.text, "error", e->msg);
    }
    return 0;
}

static int service_load(struct sandbox_service *s, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(SERVICE_ROWS_ARENA_BYTES);
    struct sandbox_row *rows = NULL;
    size_t count = 0;
    if (sandboxes_list(s->db, a, &rows, &count, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (service_adopt(s, &rows[i], a, e) != 0) {
            return err_wrap(e, "sandbox %s", rows[i].id.text);
        }
    }
    return 0;
}

static void service_thread(struct sandbox_service *s, const char *name, void *(*run)(void *))
{
    s->threads[s->thread_count++] = thread_start(name, run, s);
}

int sandbox_service_run(struct sandbox_service *s, struct db *db, struct vault *vault,
                        struct err *e)
{
    s->db = db;
    s->vault = vault;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long starts = cores < SERVICE_START_THREADS_MIN   ? SERVICE_START_THREADS_MIN
                  : cores > SERVICE_START_THREADS_MAX ? SERVICE_START_THREADS_MAX
                                                      : cores;
    if (service_load(s, e) != 0 || app_resume_deletes(s, e) != 0) {
        return -1;
    }
    service_thread(s, "broker", broker_run);
    s->start_slots = (size_t)starts;
    for (long i = 0; i < starts; i++) {
        service_thread(s, "start", jobs_run_starts);
    }
    for (int i = 0; i < SERVICE_OTHER_THREADS; i++) {
        service_thread(s, "stop", jobs_run_others);
    }
    service_thread(s, "follow", follow_run);
    service_thread(s, "reaper", reaper_run);
    service_thread(s, "disk", disk_run);
    service_thread(s, "pressure", pressure_run);
    return 0;
}

void service_pause(struct sandbox_service *s, int64_t ms)
{
    int64_t end_ms = clock_mono_ms() + ms;
    LOCK_GUARD(&s->lock);
    while (!atomic_load(&s->stopping) && thread_cond_wait_until(&s->stop, &s->lock, end_ms)) {
    }
}

static void service_break(int fd)
{
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

void service_stream(struct sandbox_service *s, enum service_stream which, int fd)
{
    LOCK_GUARD(&s->lock);
    s->streams[which] = fd;
    if (atomic_load(&s->stopping)) {
        service_break(fd);
    }
}

void sandbox_service_stop(struct sandbox_service *take_service)
{
    struct sandbox_service *s = take_service;
    atomic_store(&s->stopping, true);
    (void)pthread_mutex_lock(&s->lock);
    (void)pthread_cond_broadcast(&s->work);
    (void)pthread_cond_broadcast(&s->stop);
    (void)pthread_cond_broadcast(&s->changed);
    for (int i = 0; i < SERVICE_STREAMS; i++) {
        service_break(s->streams[i]);
    }
    (void)pthread_mutex_unlock(&s->lock);
    broker_wake(s);
    for (size_t i = 0; i < s->thread_count; i++) {
        (void)pthread_join(s->threads[i], NULL);
    }
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        while (s->buckets[i]) {
            struct sandbox *b = s->buckets[i];
            s->buckets[i] = b->next;
            free(b->processes);
            free(b->stop_why);
            free(b);
        }
    }
    engine_client_free(s->engine);
    tickets_free(s->tickets);
    free(s);
}

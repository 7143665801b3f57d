/*
 * Meter of sandboxes and host. Any thread; the stream runs in the thread of its connection.
 */
#include "engine/meter.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/container.h"
#include "engine/inspect.h"
#include "engine/pressure.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/record.h"
#include "lib/thread.h"

#define METER_BYTES_MAX   (4UL << 20)
#define METER_SEND_MS     10000
#define METER_RETRY_MS    1000
#define METER_REST_MS     2000 /* while no sandbox runs that could be stopped */
#define METER_FIND_MAX    16
#define METER_STALL_US    150000
#define METER_STALL_MS    2000
#define METER_SHORT_MS    5000 /* how long the host counts as having been short */
#define METER_SHORT_PART  25   /* of the total: 4 % */
#define METER_OOM_MS      3000 /* between Docker's word of an out-of-memory and the end */
#define METER_TOGETHER_MS 1000 /* between a kill and the end of its container */
#define METER_CHANGE_PART 64
#define METER_EXIT_KILLED 137

struct meter_box {
    struct meter_box *next;
    struct ulid id;
    bool is_found;
    bool is_new; /* seen to start: its counters begin at nothing */
    int64_t retry_ms;
    struct cgroup_place place;
    struct meter_figures figures;
    int64_t rise_ms;       /* when oom_kills was last seen to have risen */
    int64_t docker_oom_ms; /* Docker's last word of an out-of-memory … */
    bool is_oom_counted;   /* … which the counters know of */
    uint64_t told_serial;  /* the stream that knows … */
    uint64_t told_bytes;
    uint64_t told_kills;
};

struct meter {
    struct engine *engine; /* borrowed */
    pthread_mutex_t lock;  /* everything below */
    struct meter_box *boxes;
    bool is_stale; /* the whole list has to be asked for */
    bool is_short;
    int64_t short_ms;
    uint64_t host_kills;
    uint64_t next_serial;
    int wake_fd;
};

/* One stream. */
struct meter_stream {
    struct meter *meter;
    uint64_t serial;
    uint64_t mark_bytes;
    int trigger_fd;
    bool is_stalled;
    int64_t stall_from_ms; /* of the window that is counted */
    uint64_t stall_from_us;
    int64_t stalled_ms; /* when it last was too much */
};

struct meter *meter_new(struct engine *g)
{
    struct meter *m = mem_alloc(sizeof(*m));
    m->engine = g;
    m->is_stale = true;
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&m->lock, NULL);
    return m;
}

void meter_free(struct meter *m)
{
    if (!m) {
        return;
    }
    while (m->boxes) {
        struct meter_box *b = m->boxes;
        m->boxes = b->next;
        free(b);
    }
    fd_close_cleanup(&m->wake_fd);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

static void meter_wake(struct meter *m)
{
    uint64_t one = 1;
    (void)!write(m->wake_fd, &one, sizeof(one));
}

/* ---- boxes; under the lock ---- */

static struct meter_box *box_find(struct meter *m, const struct ulid *id)
{
    struct meter_box *b = m->boxes;
    while (b && !ulid_eq(&b->id, id)) {
        b = b->next;
    }
    return b;
}

static struct meter_box *box_get(struct meter *m, const struct ulid *id)
{
    struct meter_box *b = box_find(m, id);
    if (!b) {
        b = mem_alloc(sizeof(*b));
        b->id = *id;
        b->next = m->boxes;
        m->boxes = b;
    }
    return b;
}

static void box_remove(struct meter *m, const struct ulid *id)
{
    for (struct meter_box **at = &m->boxes; *at; at = &(*at)->next) {
        struct meter_box *b = *at;
        if (ulid_eq(&b->id, id)) {
            *at = b->next;
            free(b);
            return;
        }
    }
}

static bool meter_was_short(const struct meter *m)
{
    return m->is_short && clock_mono_ms() - m->short_ms < METER_SHORT_MS;
}

static bool box_docker_says(const struct meter_box *b)
{
    return b->docker_oom_ms > 0 && clock_mono_ms() - b->docker_oom_ms < METER_OOM_MS;
}

/* Reads it again and says who killed since the last time. False: it cannot be read any more. */
static bool box_read(const struct meter *m, struct meter_box *b)
{
    struct cgroup_memory now;
    struct err ignored;
    if (!b->is_found || cgroup_memory_read(&b->place, &now, &ignored) < 0) {
        return false;
    }
    enum cgroup_kill kill = cgroup_kill_cause(b->place.version, &b->figures.memory, &now,
                                              meter_was_short(m), box_docker_says(b));
    if (kill != CGROUP_KILL_NONE) {
        b->figures.kill = kill;
        b->rise_ms = clock_mono_ms();
    }
    b->figures.memory = now;
    return true;
}

/* ---- events ---- */

/* Why a container ended with the exit code of a KILL. Its cgroup may be there for a moment yet. A
 * kill of one of its other processes, a while ago, has nothing to do with it. */
static enum cgroup_kill box_death(const struct meter *m, struct meter_box *b)
{
    struct pressure_reading host;
    struct err ignored;
    (void)box_read(m, b);
    if (b->rise_ms > 0 && clock_mono_ms() - b->rise_ms < METER_TOGETHER_MS) {
        return b->figures.kill;
    }
    if (box_docker_says(b) && !b->is_oom_counted) {
        return b->place.version == 2 && meter_was_short(m) ? CGROUP_KILL_HOST : CGROUP_KILL_LIMIT;
    }
    bool killed = pressure_read(&host, &ignored) == 0 && host.oom_kills > m->host_kills;
    return killed && meter_was_short(m) ? CGROUP_KILL_HOST : CGROUP_KILL_NONE;
}

void meter_take_event(struct meter *m, struct hub_event *event)
{
    {
        LOCK_GUARD(&m->lock);
        struct meter_box *b = event->kind == HUB_DOCKER ? NULL : box_find(m, &event->id);
        switch (event->kind) {
        case HUB_START:
            box_remove(m, &event->id);
            box_get(m, &event->id)->is_new = true;
            break;
        case HUB_OOM:
            if (b) {
                b->docker_oom_ms = clock_mono_ms();
                b->is_oom_counted = box_read(m, b);
            }
            break;
        case HUB_DIE:
            if (b && event->exit_code == METER_EXIT_KILLED) {
                event->killed = box_death(m, b);
            }
            box_remove(m, &event->id);
            break;
        case HUB_DESTROY: box_remove(m, &event->id); break;
        case HUB_DOCKER: m->is_stale = m->is_stale || event->is_up; break;
        }
    }
    meter_wake(m);
}

/* ---- finding where a container is accounted ---- */

static void meter_place(struct meter *m, const struct inspect *container)
{
    struct cgroup_place place;
    struct err e;
    bool found =
        container->pid > 0 && cgroup_find(container->pid, container->container_id, &place, &e) == 0;
    LOCK_GUARD(&m->lock);
    if (container->pid <= 0) {
        box_remove(m, &container->id);
        return;
    }
    struct meter_box *b = box_get(m, &container->id);
    b->retry_ms = clock_mono_ms() + METER_RETRY_MS;
    if (!found) {
        log_debug("a sandbox's memory cannot be read", "sandbox", container->id.text, "error",
                  e.msg);
        return;
    }
    b->is_found = true;
    b->place = place;
    (void)box_read(m, b);
}

static int meter_list_one(const struct inspect *container, void *ctx, struct err *e)
{
    (void)e;
    meter_place(ctx, container);
    return 0;
}

static void meter_relist(struct meter *m)
{
    struct err e;
    {
        LOCK_GUARD(&m->lock);
        if (!m->is_stale) {
            return;
        }
        m->is_stale = false;
    }

    if (container_each(m->engine, meter_list_one, m, &e) < 0) {
        /* Docker is away; the hub says when it is back, and then this is asked again. */
        log_debug("the sandboxes cannot be listed", "error", e.msg);
    }
}

static int meter_find_one(struct meter *m, const struct ulid *id, struct err *e)
{
    struct inspect container;
    if (inspect_container(m->engine->docker, m->engine->config, id, &container, e) < 0) {
        return -1;
    }
    meter_place(m, &container);
    return 0;
}

static void meter_find(struct meter *m)
{
    struct ulid ids[METER_FIND_MAX];
    size_t count = 0;
    struct err e;
    int64_t now = clock_mono_ms();
    {
        LOCK_GUARD(&m->lock);
        for (struct meter_box *b = m->boxes; b && count < METER_FIND_MAX; b = b->next) {
            if (!b->is_found && b->retry_ms <= now) {
                b->retry_ms = now + METER_RETRY_MS;
                ids[count++] = b->id;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (meter_find_one(m, &ids[i], &e) < 0) {
            return;
        }
    }
}

int meter_look(struct meter *m, const struct ulid *id, struct meter_figures *ret, struct err *e)
{
    for (int i = 0; i < 2; i++) {
        {
            LOCK_GUARD(&m->lock);
            struct meter_box *b = box_find(m, id);
            if (b && box_read(m, b)) {
                *ret = b->figures;
                return 0;
            }
        }
        if (i == 0 && meter_find_one(m, id, e) < 0) {
            return -1;
        }
    }
    return err_set(e, ERR_CONFLICT, 0, "the sandbox does not run");
}

/* ---- the stream ---- */

static void stream_add_usage(struct meter_box *b, uint64_t serial, struct buf *out)
{
    const struct cgroup_memory *now = &b->figures.memory;
    uint64_t more = now->real_bytes > b->told_bytes ? now->real_bytes - b->told_bytes
                                                    : b->told_bytes - now->real_bytes;
    if (b->told_serial == serial && b->told_kills == now->oom_kills &&
        more <= b->told_bytes / METER_CHANGE_PART) {
        return;
    }
    b->told_serial = serial;
    b->told_bytes = now->real_bytes;
    b->told_kills = now->oom_kills;
    struct record_writer w = record_begin(out, "usage");
    record_adds(&w, "id", b->id.text);
    record_addn(&w, "memory", (int64_t)now->real_bytes);
    record_addn(&w, "memory_limit", (int64_t)now->limit_bytes);
    record_addn(&w, "oom_kills", (int64_t)now->oom_kills);
    record_adds(&w, "killed_by", cgroup_kill_name(b->figures.kill));
    (void)record_end(&w);
}

/* Too much waiting for memory within the last two seconds? */
static void stream_note_stall(struct meter_stream *s, const struct pressure_reading *host,
                              bool triggered)
{
    int64_t now = clock_mono_ms();
    if (triggered ||
        (s->stall_from_ms > 0 && host->stall_us - s->stall_from_us >= METER_STALL_US)) {
        s->stalled_ms = now;
        s->stall_from_ms = 0;
    }
    if (s->stall_from_ms == 0 || now - s->stall_from_ms >= METER_STALL_MS) {
        s->stall_from_ms = now;
        s->stall_from_us = host->stall_us;
    }
    s->is_stalled = s->stalled_ms > 0 && now - s->stalled_ms < METER_STALL_MS;
}

static void stream_add_memory(const struct meter_stream *s, const struct pressure_reading *host,
                              struct buf *out)
{
    struct record_writer w = record_begin(out, "memory");
    record_addn(&w, "total", (int64_t)host->total_bytes);
    record_addn(&w, "available", (int64_t)host->available_bytes);
    record_addb(&w, "stalled", s->is_stalled);
    record_addn(&w, "stall_us", (int64_t)host->stall_us);
    record_addn(&w, "oom_kills", (int64_t)host->oom_kills);
    (void)record_end(&w);
}

static void stream_note_host(struct meter *m, const struct pressure_reading *host)
{
    if (host->available_bytes < host->total_bytes / METER_SHORT_PART) {
        m->is_short = true;
        m->short_ms = clock_mono_ms();
    }
    m->host_kills = host->oom_kills;
}

/* Everything of one look. Figures of sandboxes first: who reads the host's may decide at once. *
 * ret_next_ms: until the next look. An unreadable figure is left out and stops nothing. */
static void stream_look(struct meter_stream *s, bool triggered, struct buf *out,
                        int64_t *ret_next_ms)
{
    struct meter *m = s->meter;
    struct pressure_reading host;
    struct err e;
    meter_relist(m);
    meter_find(m);
    bool has_host = pressure_read(&host, &e) == 0;
    *ret_next_ms = METER_RETRY_MS;
    LOCK_GUARD(&m->lock);
    for (struct meter_box *b = m->boxes; b; b = b->next) {
        if (box_read(m, b)) {
            stream_add_usage(b, s->serial, out);
        }
    }
    if (has_host) {
        stream_note_host(m, &host);
        stream_note_stall(s, &host, triggered);
        stream_add_memory(s, &host, out);
        *ret_next_ms = pressure_next_ms(host.available_bytes, s->mark_bytes);
    }
    *ret_next_ms = m->boxes ? *ret_next_ms : METER_REST_MS;
}

/* False when it is time to go. */
static bool stream_wait(struct meter_stream *s, int fd, int stop_fd, int64_t wait_ms,
                        bool *ret_triggered)
{
    uint64_t ignored = 0;
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = stop_fd, .events = POLLIN},
                           {.fd = s->meter->wake_fd, .events = POLLIN},
                           {.fd = s->trigger_fd, .events = POLLPRI}};
    (void)poll(fds, ARRAY_LEN(fds), (int)wait_ms);
    (void)!read(s->meter->wake_fd, &ignored, sizeof(ignored));
    *ret_triggered = (fds[3].revents & POLLPRI) != 0 && (fds[3].revents & POLLERR) == 0;
    if (fds[3].revents & POLLERR) {
        fd_close_cleanup(&s->trigger_fd);
    }
    return fds[0].revents == 0 && fds[1].revents == 0;
}

void meter_serve(struct meter *m, int fd, int stop_fd, uint64_t mark_bytes)
{
    struct meter_stream s = {
        .meter = m, .mark_bytes = mark_bytes, .trigger_fd = pressure_open_trigger()};
    bool triggered = false;
    int64_t wait_ms = 0;

    struct err e;
    {
        LOCK_GUARD(&m->lock);
        s.serial = ++m->next_serial;
    }

    do {
        BUF_AUTO(out, METER_BYTES_MAX);
        stream_look(&s, triggered, &out, &wait_ms);
        if (!buf_ok(&out) || record_send(fd, &out, clock_mono_ms() + METER_SEND_MS, &e) < 0) {
            break;
        }
    } while (stream_wait(&s, fd, stop_fd, wait_ms, &triggered));
    fd_close_cleanup(&s.trigger_fd);
}

/*
 * The channel's thread: doors, the command inbox, the clock. Any thread posts commands; the thread
 * alone touches doors and links.
 */
#include "control/task/channel.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/sandbox/sandbox.h"
#include "control/store/events.h"
#include "control/task/channel_private.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define CHANNEL_EVENTS      64
#define CHANNEL_BACKLOG     16
#define CHANNEL_ACCEPTS     8    /* a turn */
#define CHANNEL_SOCKET_MODE 0666 /* the mount is the wall, not the mode */

void channel_post(struct channel *c, struct command *take_command)
{
    uint64_t one = 1;
    {
        LOCK_GUARD(&c->lock);
        take_command->next = NULL;
        if (c->last) {
            c->last->next = take_command;
        } else {
            c->first = take_command;
        }
        c->last = take_command;
    }
    ssize_t ignored = write(c->wake_fd, &one, sizeof(one));
    (void)ignored; /* a full counter is a wake too */
}

void channel_due(struct channel *c, int64_t at_ms)
{
    c->due_ms = at_ms < c->due_ms ? at_ms : c->due_ms;
}

struct door *channel_door(struct channel *c, const struct ulid *id)
{
    for (struct door *d = c->doors; id && d; d = d->next) {
        if (d->fd >= 0 && ulid_eq(&d->id, id)) {
            return d;
        }
    }
    return NULL;
}

static struct link *channel_link(struct channel *c, uint64_t serial)
{
    for (struct link *l = c->links; l; l = l->next) {
        if (l->serial == serial && l->state != LINK_DEAD) {
            return l;
        }
    }
    return NULL;
}

/* ---- doors ---- */

static void door_watch(struct channel *c, struct door *d, bool open)
{
    struct epoll_event ev = {.events = open ? (uint32_t)EPOLLIN : 0, .data.ptr = d};
    (void)epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, d->fd, &ev);
}

static void door_open(struct channel *c, const struct ulid *id, int fd)
{
    struct door *d = mem_alloc(sizeof(*d));
    d->watch.kind = WATCH_DOOR;
    d->id = *id;
    d->fd = fd;
    d->refused_event_ms = -CHANNEL_REFUSED_EVENT_MS;
    d->next = c->doors;
    c->doors = d;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = d};
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        log_error("a control socket cannot be watched", "sandbox_id", id->text);
    }
}

static void door_close(struct channel *c, const struct ulid *id)
{
    struct door *d = channel_door(c, id);
    for (struct link *l = c->links; l; l = l->next) {
        if (ulid_eq(&l->id, id)) {
            link_end(c, l);
        }
    }
    if (d) {
        fd_close_cleanup(&d->fd);
        c->dirty = true;
    }
}

/* Some other process of the sandbox knocked. */
static void door_refused(struct channel *c, struct door *d)
{
    int64_t now = clock_mono_ms();
    struct sandbox_view view;
    struct err e;
    d->paused_until_ms = now + CHANNEL_REFUSED_WAIT_MS;
    channel_due(c, d->paused_until_ms);
    door_watch(c, d, false);
    if (now - d->refused_event_ms < CHANNEL_REFUSED_EVENT_MS) {
        return;
    }
    d->refused_event_ms = now;
    bool known = sandbox_look(c->sandboxes, &d->id, &view, &e) == 0;
    events_add(c->db, &(struct event_row){
                          .kind = "sandbox.control_refused",
                          .severity = "warning",
                          .app_id = known ? view.app_id.text : "",
                          .sandbox_id = d->id.text,
                          .payload = "{\"why\":\"a process that is not PID 1 dialled control\"}"});
}

/* ---- commands ---- */

static void channel_checked(struct channel *c, const struct command *cmd)
{
    struct door *d = channel_door(c, &cmd->id);
    struct link *l = channel_link(c, cmd->serial);
    if (d && d->checks > 0) {
        d->checks--;
    }
    if (l) {
        link_checked(c, l, cmd->good && d);
    }
    if (d && cmd->forbidden) {
        door_refused(c, d);
    }
}

static void channel_told(struct channel *c, const struct command *cmd)
{
    const struct door *d = channel_door(c, &cmd->id);
    struct link *l = d && d->up != 0 ? channel_link(c, d->up) : NULL;
    if (l) {
        link_send(c, l, cmd->frames, cmd->frames_len);
    }
}

static void channel_do(struct channel *c, struct command *cmd)
{
    struct link *l = cmd->serial ? channel_link(c, cmd->serial) : NULL;
    switch (cmd->kind) {
    case COMMAND_LISTEN: door_open(c, &cmd->id, cmd->fd); break;
    case COMMAND_CLOSE: door_close(c, &cmd->id); break;
    case COMMAND_CHECKED: channel_checked(c, cmd); break;
    case COMMAND_DROP:
        if (l) {
            link_end(c, l);
        }
        break;
    case COMMAND_SEND:
        if (l) {
            link_send(c, l, cmd->frames, cmd->frames_len);
        }
        break;
    case COMMAND_TELL: channel_told(c, cmd); break;
    case COMMAND_CONSUMED:
        if (l) {
            link_consumed(c, l, cmd->bytes);
        }
        break;
    }
    if (cmd->frames) {
        mem_wipe(cmd->frames, cmd->frames_len); /* a task's token, what an owner gave an app */
    }
    free(cmd->frames);
    free(cmd);
}

static void channel_do_all(struct channel *c)
{
    uint64_t count = 0;
    ssize_t ignored = read(c->wake_fd, &count, sizeof(count));
    struct command *list = NULL;
    (void)ignored; /* nothing counted is nothing lost */
    {
        LOCK_GUARD(&c->lock);
        list = c->first;
        c->first = NULL;
        c->last = NULL;
    }
    while (list) {
        struct command *cmd = list;
        list = cmd->next;
        channel_do(c, cmd);
    }
}

/* ---- the thread ---- */

static void channel_event(struct channel *c, struct watch *w, uint32_t events)
{
    struct door *d = NULL;
    switch (w->kind) {
    case WATCH_WAKE: channel_do_all(c); break;
    case WATCH_DOOR:
        d = (void *)w;
        for (int i = 0; i < CHANNEL_ACCEPTS && d->fd >= 0 && d->paused_until_ms == 0; i++) {
            link_accept(c, d);
        }
        break;
    case WATCH_LINK: link_event(c, (void *)w, events); break;
    }
}

static void channel_tick(struct channel *c)
{
    int64_t now = clock_mono_ms();
    if (now < c->due_ms) {
        return;
    }
    c->due_ms = INT64_MAX;
    for (struct door *d = c->doors; d; d = d->next) {
        if (d->fd >= 0 && d->paused_until_ms != 0) {
            bool over = now >= d->paused_until_ms;
            d->paused_until_ms = over ? 0 : d->paused_until_ms;
            door_watch(c, d, over);
            channel_due(c, over ? INT64_MAX : d->paused_until_ms);
        }
    }
    for (struct link *l = c->links; l; l = l->next) {
        link_tick(c, l, now);
        channel_due(c, l->state == LINK_DEAD ? INT64_MAX : l->due_ms);
    }
}

/* Frees what died in this turn: nothing of epoll's answers points to it any more. */
static void channel_sweep(struct channel *c)
{
    if (!c->dirty) {
        return;
    }
    c->dirty = false;
    for (struct link **at = &c->links; *at;) {
        struct link *l = *at;
        if (l->state != LINK_DEAD) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        buf_done(&l->in);
        buf_done(&l->out);
        free(l);
    }
    for (struct door **at = &c->doors; *at;) {
        struct door *d = *at;
        if (d->fd >= 0) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        free(d);
    }
}

static void *channel_run(void *arg)
{
    struct channel *c = arg;
    struct epoll_event events[CHANNEL_EVENTS];
    while (!atomic_load(&c->stopping)) {
        int wait = c->due_ms == INT64_MAX ? -1 : clock_until(c->due_ms);
        int n = epoll_wait(c->epoll_fd, events, CHANNEL_EVENTS, wait);
        for (int i = 0; i < n; i++) {
            channel_event(c, events[i].data.ptr, events[i].events);
        }
        channel_tick(c);
        channel_sweep(c);
    }
    return NULL;
}

/* ---- start and stop ---- */

int channel_start(struct sandbox_service *sandboxes, struct db *db, const char *data_dir,
                  const struct channel_sink *sink, struct channel **ret, struct err *e)
{
    struct channel *c = mem_alloc(sizeof(*c));
    c->sandboxes = sandboxes;
    c->db = db;
    c->data_dir = data_dir;
    c->sink = *sink;
    c->due_ms = INT64_MAX;
    c->wake.kind = WATCH_WAKE;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &c->wake};
    if (c->epoll_fd < 0 || c->wake_fd < 0 ||
        epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &ev) != 0) {
        (void)err_set(e, ERR_IO, errno, "make the channel's event descriptors");
        fd_close_cleanup(&c->epoll_fd);
        fd_close_cleanup(&c->wake_fd);
        free(c);
        return -1;
    }
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->gate_work, NULL);
    c->thread = thread_start("channel", channel_run, c);
    c->gate = thread_start("gate", gate_run, c);
    *ret = c;
    return 0;
}

static void channel_free(struct channel *c)
{
    while (c->first) {
        struct command *cmd = c->first;
        c->first = cmd->next;
        if (cmd->kind == COMMAND_LISTEN) {
            fd_close_cleanup(&cmd->fd);
        }
        free(cmd->frames);
        free(cmd);
    }
    while (c->listening) {
        struct channel_name *name = c->listening;
        c->listening = name->next;
        free(name);
    }
    for (struct link *l = c->links; l; l = l->next) {
        fd_close_cleanup(&l->fd);
        l->state = LINK_DEAD;
    }
    for (struct door *d = c->doors; d; d = d->next) {
        fd_close_cleanup(&d->fd);
    }
    c->dirty = true;
    channel_sweep(c);
    (void)close(c->epoll_fd);
    (void)close(c->wake_fd);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->gate_work);
    free(c);
}

void channel_stop(struct channel *take_channel)
{
    uint64_t one = 1;
    if (!take_channel) {
        return;
    }
    atomic_store(&take_channel->stopping, true);
    ssize_t ignored = write(take_channel->wake_fd, &one, sizeof(one));
    (void)ignored; /* a full counter is a wake too */
    gate_stop(take_channel);
    (void)pthread_join(take_channel->thread, NULL);
    channel_free(take_channel);
}

/* ---- from any thread ---- */

static bool channel_note(struct channel *c, const struct ulid *id)
{
    LOCK_GUARD(&c->lock);
    for (struct channel_name *n = c->listening; n; n = n->next) {
        if (ulid_eq(&n->id, id)) {
            return false;
        }
    }
    struct channel_name *name = mem_alloc(sizeof(*name));
    name->id = *id;
    name->next = c->listening;
    c->listening = name;
    return true;
}

static bool channel_forget(struct channel *c, const struct ulid *id)
{
    LOCK_GUARD(&c->lock);
    for (struct channel_name **at = &c->listening; *at; at = &(*at)->next) {
        struct channel_name *name = *at;
        if (ulid_eq(&name->id, id)) {
            *at = name->next;
            free(name);
            return true;
        }
    }
    return false;
}

int channel_listen(struct channel *c, const struct ulid *id, struct err *e)
{
    char path[PATHS_MAX];
    int fd AUTOCLOSE = -1;
    if (!channel_note(c, id)) {
        return 0;
    }
    (void)paths_door_socket(path, c->data_dir, "control", id);
    if (fd_unix_listen(path, CHANNEL_SOCKET_MODE, (uid_t)-1, (gid_t)-1, CHANNEL_BACKLOG, &fd, e) !=
            0 ||
        fd_set_nonblock(fd) != 0) {
        (void)channel_forget(c, id);
        return err_wrap(e, "the control socket of %s", id->text);
    }
    struct command *cmd = mem_alloc(sizeof(*cmd));
    *cmd = (struct command){.kind = COMMAND_LISTEN, .id = *id, .fd = TAKE_FD(fd)};
    channel_post(c, cmd);
    return 0;
}

void channel_close(struct channel *c, const struct ulid *id)
{
    if (channel_forget(c, id)) {
        struct command *cmd = mem_alloc(sizeof(*cmd));
        *cmd = (struct command){.kind = COMMAND_CLOSE, .id = *id, .fd = -1};
        channel_post(c, cmd);
    }
}

void channel_drop(struct channel *c, uint64_t serial)
{
    struct command *cmd = mem_alloc(sizeof(*cmd));
    *cmd = (struct command){.kind = COMMAND_DROP, .serial = serial, .fd = -1};
    channel_post(c, cmd);
}

void channel_send(struct channel *c, const struct ulid *id, uint64_t serial, struct buf *frames)
{
    if (frames->len == 0 || serial == 0) {
        buf_reset(frames);
        return;
    }
    struct command *cmd = mem_alloc(sizeof(*cmd));
    *cmd = (struct command){.kind = COMMAND_SEND, .id = *id, .serial = serial, .fd = -1};
    cmd->frames_len = frames->len;
    cmd->frames = buf_take(frames);
    channel_post(c, cmd);
}

void channel_tell(struct channel *c, const struct ulid *id, struct buf *frames)
{
    if (frames->len == 0) {
        return;
    }
    struct command *cmd = mem_alloc(sizeof(*cmd));
    *cmd = (struct command){.kind = COMMAND_TELL, .id = *id, .fd = -1};
    cmd->frames_len = frames->len;
    cmd->frames = buf_take(frames);
    channel_post(c, cmd);
}

void channel_consumed(struct channel *c, uint64_t serial, size_t bytes)
{
    struct command *cmd = mem_alloc(sizeof(*cmd));
    *cmd = (struct command){.kind = COMMAND_CONSUMED, .serial = serial, .bytes = bytes, .fd = -1};
    channel_post(c, cmd);
}

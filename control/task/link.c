/*
 * One connection of a supervisor: greeting, records, pings. Hostile until the gate has said that it
 * is PID 1, and bounded afterwards. The channel's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/sandbox/sandbox.h"
#include "control/task/channel_private.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/record.h"

static void link_watch(struct channel *c, struct link *link)
{
    uint32_t wanted = 0;
    if (link->state == LINK_GREETING || link->state == LINK_UP) {
        wanted |= link->waiting < CHANNEL_WAITING_MAX ? (uint32_t)EPOLLIN : 0;
        wanted |= link->out.len > 0 ? (uint32_t)EPOLLOUT : 0;
    }
    struct epoll_event ev = {.events = wanted, .data.ptr = link};
    if (wanted != link->events && epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, link->fd, &ev) == 0) {
        link->events = wanted;
    }
}

void link_accept(struct channel *c, struct door *door)
{
    int fd AUTOCLOSE = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || door->checks >= CHANNEL_CHECKS_MAX) {
        return; /* who is turned away here dials again */
    }
    struct link *link = mem_alloc(sizeof(*link));
    link->watch.kind = WATCH_LINK;
    link->serial = ++c->next_serial;
    link->id = door->id;
    link->state = LINK_CHECKING;
    link->due_ms = INT64_MAX;
    buf_init(&link->in, CHANNEL_IN_BYTES);
    buf_init(&link->out, CHANNEL_OUT_BYTES_MAX);
    struct epoll_event ev = {.events = 0, .data.ptr = link};
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        free(link);
        return;
    }
    link->fd = TAKE_FD(fd);
    link->next = c->links;
    c->links = link;
    door->checks++;
    gate_ask(c, link);
}

void link_checked(struct channel *c, struct link *link, bool good)
{
    if (!good) {
        link_end(c, link);
        return;
    }
    link->state = LINK_GREETING;
    link->due_ms = clock_mono_ms() + CHANNEL_HELLO_MS;
    channel_due(c, link->due_ms);
    link_watch(c, link);
}

void link_end(struct channel *c, struct link *link)
{
    bool was_up = link->state == LINK_UP;
    struct door *door = channel_door(c, link->id.text[0] ? &link->id : NULL);
    if (link->state == LINK_DEAD) {
        return;
    }
    link->state = LINK_DEAD;
    /* Closing alone would leave it watched: the gate and the engine may hold the same connection.
     */
    (void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    fd_close_cleanup(&link->fd);
    c->dirty = true;
    if (was_up) {
        /* One that was replaced takes nothing with it. */
        if (!door || door->up == link->serial) {
            sandbox_disconnected(c->sandboxes, &link->id);
        }
        if (door && door->up == link->serial) {
            door->up = 0;
        }
        c->sink.gone(c->sink.ctx, &link->id, link->serial);
    }
}

/* ---- out ---- */

static void link_flush(struct channel *c, struct link *link)
{
    size_t sent = 0;
    while (sent < link->out.len) {
        ssize_t n =
            send(link->fd, link->out.ptr + sent, link->out.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            link_end(c, link);
            return;
        }
        sent += (size_t)n;
    }
    buf_consume(&link->out, sent);
    link_watch(c, link);
}

void link_send(struct channel *c, struct link *link, const char *bytes, size_t len)
{
    if (link->state != LINK_UP) {
        return;
    }
    buf_add(&link->out, bytes, len);
    if (!buf_ok(&link->out)) {
        log_warn("a supervisor does not read; its connection is closed", "sandbox_id",
                 link->id.text);
        link_end(c, link);
        return;
    }
    link_flush(c, link);
}

void link_consumed(struct channel *c, struct link *link, size_t bytes)
{
    if (link->state != LINK_DEAD) {
        link->waiting -= bytes < link->waiting ? bytes : link->waiting;
        link_watch(c, link);
    }
}

/* ---- records ---- */

/* Says what was wrong, and that is all. */
static int link_refuse(struct channel *c, struct link *link, const char *message)
{
    struct err e;
    (void)err_set(&e, ERR_PROTOCOL, 0, "%s", message);
    log_warn("a supervisor's connection is closed", "sandbox_id", link->id.text, "error", message);
    record_add_error(&link->out, &e);
    link_flush(c, link);
    return -1;
}

/* A new connection of PID 1 takes the place of the old one. */
static void link_take_place(struct channel *c, struct link *link)
{
    struct door *door = channel_door(c, &link->id);
    if (!door) {
        return;
    }
    uint64_t before = door->up;
    door->up = link->serial;
    for (struct link *l = c->links; before && l; l = l->next) {
        if (l->serial == before) {
            link_end(c, l);
        }
    }
}

static int link_hello(struct channel *c, struct link *link, const struct record *r)
{
    BUF_WIPED(configure, 2 * RECORD_FRAME_MAX); /* it holds what the owner gave the app */
    uint64_t protocol = 0;
    struct err e;
    if (!record_get_u64(r, "protocol", 1000, &protocol) || protocol != RECORD_PROTOCOL) {
        return link_refuse(c, link, "this side speaks protocol 1");
    }
    link_take_place(c, link);
    if (sandbox_connected(c->sandboxes, &link->id, r, &configure, &e) != 0) {
        return link_refuse(c, link, e.msg);
    }
    link->state = LINK_UP;
    link->due_ms = clock_mono_ms() + CHANNEL_PING_MS;
    channel_due(c, link->due_ms);
    struct record_writer w = record_begin(&link->out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    (void)record_end(&w);
    link_send(c, link, configure.ptr, configure.len);
    if (link->state == LINK_UP) {
        c->sink.hello(c->sink.ctx, &link->id, link->serial, r);
    }
    return 0;
}

static void link_pong(struct channel *c, struct link *link, const struct record *r)
{
    uint64_t n = 0;
    if (link->pinged && record_get_u64(r, "n", UINT64_MAX, &n) && n == link->ping) {
        link->pinged = false;
        link->due_ms = clock_mono_ms() + CHANNEL_PING_MS;
        channel_due(c, link->due_ms);
    }
}

static bool link_is_report(const struct record *r)
{
    return record_is(r, "phase") || record_is(r, "process") || record_is(r, "port") ||
           record_is(r, "other_port");
}

static int link_record(struct channel *c, struct link *link, const struct record *r,
                       struct str frame)
{
    if (link->state == LINK_GREETING) {
        return record_is(r, "hello") ? link_hello(c, link, r)
                                     : link_refuse(c, link, "hello comes first");
    }
    if (link_is_report(r)) {
        sandbox_report(c->sandboxes, &link->id, r);
    } else if (record_is(r, "line") || record_is(r, "exit") || record_is(r, "started")) {
        link->waiting += frame.len;
        c->sink.record(c->sink.ctx, &link->id, link->serial, frame);
    } else if (record_is(r, "pong")) {
        link_pong(c, link, r);
    } else if (record_is(r, "error")) {
        struct err said = {0};
        (void)record_to_err(r, &said);
        log_warn("a supervisor refused something", "sandbox_id", link->id.text, "error", said.msg);
    } else {
        return link_refuse(c, link, "a record of unknown kind");
    }
    return 0;
}

/* Handles the whole frames that are there and drops them together. */
static int link_frames(struct channel *c, struct link *link)
{
    struct buf view = link->in;
    struct str frame;
    struct record r;
    struct err e = {0};
    size_t taken = 0;
    int whole = 0;
    while (link->state != LINK_DEAD && (whole = record_next(&view, &frame, &e)) == 1) {
        if (record_parse(frame, &r, &e) != 0) {
            whole = link_refuse(c, link, e.msg);
            break;
        }
        if (link_record(c, link, &r, frame) != 0) {
            whole = -1;
            break;
        }
        taken += frame.len + 4;
        view.ptr = link->in.ptr + taken;
        view.len = link->in.len - taken;
    }
    buf_consume(&link->in, taken);
    return whole < 0 ? -1 : 0;
}

static int link_read(struct channel *c, struct link *link)
{
    size_t room = CHANNEL_IN_BYTES - link->in.len;
    if (room == 0 || !buf_reserve(&link->in, room)) {
        return -1;
    }
    ssize_t n = recv(link->fd, link->in.ptr + link->in.len, room, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    if (n == 0) {
        return -1;
    }
    buf_grew(&link->in, (size_t)n);
    return link_frames(c, link);
}

void link_event(struct channel *c, struct link *link, uint32_t events)
{
    if (link->state == LINK_DEAD) {
        return;
    }
    if (link->state == LINK_CHECKING) {
        link_end(c, link); /* hung up; nothing else is watched for */
        return;
    }
    if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN) &&
        link->waiting >= CHANNEL_WAITING_MAX) {
        link_end(c, link);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && link_read(c, link) != 0) {
        link_end(c, link);
        return;
    }
    if (link->state != LINK_DEAD) {
        link_flush(c, link);
    }
}

void link_tick(struct channel *c, struct link *link, int64_t now_ms)
{
    if (link->state == LINK_DEAD || now_ms < link->due_ms) {
        return;
    }
    if (link->state == LINK_GREETING || link->pinged) {
        log_warn("a supervisor did not answer in time; its connection is closed", "sandbox_id",
                 link->id.text);
        link_end(c, link);
        return;
    }
    BUF_AUTO(out, 256);
    struct record_writer w = record_begin(&out, "ping");
    record_addn(&w, "n", (int64_t)++link->ping);
    (void)record_end(&w);
    link->pinged = true;
    link->due_ms = now_ms + CHANNEL_PONG_MS;
    link_send(c, link, out.ptr, out.len);
}

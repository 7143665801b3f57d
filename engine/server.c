/*
 * The engine's socket. server_run is main's; each connection has a thread of its own.
 *
 * Must never serve a peer that is not root, whatever the mode of the socket says.
 */
#include "engine/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/hub.h"
#include "engine/meter.h"
#include "engine/verbs.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/record.h"
#include "lib/thread.h"

#define BACKLOG          64
#define FRAME_TIMEOUT_MS 10000 /* for a request that has begun, and for an answer */
#define FOLLOW_BYTES_MAX 65536

struct server_slot {
    bool is_used;
    atomic_bool is_over; /* its thread may be joined */
    pthread_t thread;
    struct server *server;
    int fd; /* owned */
};

struct server {
    struct engine *engine;
    int stop_fd;
    struct server_slot slots[SERVER_CONNECTIONS_MAX];
};

/* Waits for the connection, a second descriptor (-1: none) or the end of the program. False when it
 * is time to go. */
static bool serve_wait(int fd, int other_fd, int stop_fd, bool *ret_fd_ready)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = other_fd, .events = POLLIN},
                           {.fd = stop_fd, .events = POLLIN}};
    int n = 0;
    do {
        n = poll(fds, ARRAY_LEN(fds), -1);
    } while (n < 0 && errno == EINTR);
    *ret_fd_ready = fds[0].revents != 0;
    return n > 0 && fds[2].revents == 0;
}

static int serve_send(int fd, const struct buf *out, struct err *e)
{
    if (!buf_ok(out)) {
        return err_set(e, ERR_LIMIT, 0, "an answer of more than %zu bytes", out->max);
    }
    return record_send(fd, out, clock_mono_ms() + FRAME_TIMEOUT_MS, e);
}

/* Events until the other side goes away, says anything or does not keep up. */
static void serve_follow(struct engine *g, int fd, int stop_fd)
{
    struct hub_follower *f = hub_join(g->hub);
    struct hub_event event;
    bool has_spoken = false;
    int next = 0;
    while (!has_spoken && next >= 0) {
        BUF_AUTO(out, FOLLOW_BYTES_MAX);
        struct err e;
        while ((next = hub_next(g->hub, f, &event)) > 0) {
            verbs_write_event(&out, &event);
        }
        if (next < 0 || (out.len > 0 && serve_send(fd, &out, &e) < 0) ||
            !serve_wait(fd, hub_follower_fd(f), stop_fd, &has_spoken)) {
            break;
        }
    }
    hub_leave(g->hub, f);
}

/* Says an error and lets the caller close. */
static void serve_refuse(int fd, const struct err *why)
{
    BUF_AUTO(out, RECORD_FRAME_MAX);
    struct err ignored;
    record_add_error(&out, why);
    (void)!serve_send(fd, &out, &ignored);
}

/* One request and its answer. False when the connection ends. */
static bool serve_one(struct engine *g, int fd, int stop_fd, bool *has_greeted, struct buf *in)
{
    BUF_AUTO(out, VERBS_ANSWER_BYTES_MAX);
    int pass_fd AUTOCLOSE = -1;
    struct record request;
    struct err e;
    if (record_recv_fd(fd, in, &request, &pass_fd, clock_mono_ms() + FRAME_TIMEOUT_MS, &e) < 0) {
        if (e.code == ERR_PROTOCOL) {
            log_warn("a broken record", "error", e.msg);
            serve_refuse(fd, &e);
        }
        return false;
    }
    if (!*has_greeted) {
        if (verbs_check_hello(&request, &e) < 0) {
            log_warn("refused a connection", "error", e.msg);
            serve_refuse(fd, &e);
            return false;
        }
        *has_greeted = true;
        verbs_write_hello(&out);
        return serve_send(fd, &out, &e) == 0;
    }
    if (record_is(&request, "follow")) {
        serve_follow(g, fd, stop_fd);
        return false;
    }
    if (record_is(&request, "watch")) {
        uint64_t percent = 0;
        if (!record_get_u64(&request, "mark_percent", 100, &percent)) {
            (void)err_set(&e, ERR_INVALID, 0, "mark_percent must be a number from 0 to 100");
            serve_refuse(fd, &e);
            return false;
        }
        meter_serve(g->meter, fd, stop_fd, g->memory_total_bytes / 100 * percent);
        return false;
    }
    bool is_over = verbs_answer(g, &request, pass_fd, &out) < 0;
    return serve_send(fd, &out, &e) == 0 && !is_over;
}

void server_serve(struct engine *g, int fd, int stop_fd)
{
    BUF_AUTO(in, RECORD_FRAME_MAX + 8);
    bool has_greeted = false;
    bool is_ready = false;
    while (serve_wait(fd, -1, stop_fd, &is_ready) && serve_one(g, fd, stop_fd, &has_greeted, &in)) {
        /* An idle connection keeps no memory. */
        buf_done(&in);
        buf_init(&in, RECORD_FRAME_MAX + 8);
    }
}

static void *slot_run(void *ctx)
{
    struct server_slot *slot = ctx;
    server_serve(slot->server->engine, slot->fd, slot->server->stop_fd);
    fd_close_cleanup(&slot->fd);
    atomic_store(&slot->is_over, true);
    return NULL;
}

/* A free slot; threads that ended are joined on the way. NULL when all are busy. */
static struct server_slot *slot_find(struct server *s)
{
    struct server_slot *free_slot = NULL;
    for (size_t i = 0; i < ARRAY_LEN(s->slots); i++) {
        struct server_slot *slot = &s->slots[i];
        if (slot->is_used && atomic_load(&slot->is_over)) {
            (void)pthread_join(slot->thread, NULL);
            slot->is_used = false;
        }
        if (!slot->is_used) {
            free_slot = slot;
        }
    }
    return free_slot;
}

static int peer_check(int fd, struct err *e)
{
    pid_t pid = 0;
    uid_t uid = 0;
    if (fd_peer(fd, &pid, &uid, e) < 0) {
        return -1;
    }
    return uid == 0 ? 0 : err_set(e, ERR_FORBIDDEN, 0, "the peer runs as uid %u", (unsigned)uid);
}

static void server_accept(struct server *s, int listener)
{
    struct err e;
    int fd AUTOCLOSE = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (peer_check(fd, &e) < 0) {
        log_warn("refused a connection", "error", e.msg);
        serve_refuse(fd, &e);
        return;
    }
    struct server_slot *slot = slot_find(s);
    if (!slot) {
        (void)err_set(&e, ERR_BUSY, 0, "%d connections are open already", SERVER_CONNECTIONS_MAX);
        log_warn("refused a connection", "error", e.msg);
        serve_refuse(fd, &e);
        return;
    }
    slot->is_used = true;
    slot->server = s;
    slot->fd = TAKE_FD(fd);
    atomic_store(&slot->is_over, false);
    slot->thread = thread_start("connection", slot_run, slot);
}

int server_run(struct engine *g, int stop_fd, struct err *e)
{
    char path[PATHS_MAX];
    int listener AUTOCLOSE = -1;
    struct server *s AUTOFREE = mem_alloc(sizeof(*s));
    s->engine = g;
    s->stop_fd = stop_fd;
    (void)paths_engine_socket(path, g->config->data_dir);
    if (fd_unix_listen(path, 0600, 0, 0, BACKLOG, &listener, e) < 0) {
        return err_wrap(e, "%s (run/engine/ is made by sandboxd at its start)", path);
    }
    log_info("listening", "socket", path);
    bool is_ready = false;
    while (serve_wait(listener, -1, stop_fd, &is_ready)) {
        server_accept(s, listener);
    }
    for (size_t i = 0; i < ARRAY_LEN(s->slots); i++) {
        if (s->slots[i].is_used) {
            (void)pthread_join(s->slots[i].thread, NULL);
        }
    }
    (void)unlink(path);
    return 0;
}

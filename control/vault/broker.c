/*
 * The credentials broker: answers the credentials proxy on run/broker/credentials/broker.sock. The
 * only place where a key leaves the vault; it must never log one. One thread with a poll loop; it
 * never waits for a peer.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/vault/spend.h"
#include "control/vault/vault_private.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/record.h"
#include "lib/thread.h"

#define BROKER_BACKLOG       8
#define BROKER_IN_BYTES_MAX  (2 * (RECORD_FRAME_MAX + 4))
#define BROKER_OUT_BYTES_MAX (1024UL * 1024)

void broker_drop(struct vault *v, struct vault_connection *c)
{
    broker_grant_forget(v, c->serial);
    fd_close_cleanup(&c->fd);
    if (c->in.len > 0) {
        mem_wipe(c->in.ptr, c->in.len);
    }
    if (c->out.len > 0) {
        mem_wipe(c->out.ptr, c->out.len);
    }
    buf_done(&c->in);
    buf_done(&c->out);
    c->greeted = false;
    c->boot_id[0] = '\0';
    c->serial = 0;
}

struct vault_connection *broker_find(struct vault *v, uint64_t serial)
{
    for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
        struct vault_connection *c = &v->connections[i];
        if (c->fd >= 0 && c->serial == serial) {
            return c;
        }
    }
    return NULL;
}

/* ---- records ---- */

static int broker_refuse(struct vault_connection *c, const char *message)
{
    struct err e;
    (void)err_set(&e, ERR_PROTOCOL, 0, "%s", message);
    record_add_error(&c->out, &e);
    return -1;
}

static int broker_hello(struct vault *v, struct vault_connection *c, const struct record *r)
{
    uint64_t protocol = 0;
    if (!record_get_u64(r, "protocol", 1000, &protocol) || protocol != RECORD_PROTOCOL) {
        return broker_refuse(c, "this side speaks protocol 1");
    }
    struct record_writer w = record_begin(&c->out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "version", CONFIG_VERSION);
    c->greeted = true;
    struct str boot_id = str_cut(record_get(r, "boot_id"), 0, sizeof(c->boot_id) - 1);
    (void)snprintf(c->boot_id, sizeof(c->boot_id), "%.*s", STR_FMT(boot_id));
    spend_boot(v, boot_id);
    return record_end(&w) ? 0 : -1;
}

static int broker_handle(struct vault *v, struct vault_connection *c, const struct record *r,
                         struct str frame)
{
    if (record_is(r, "hello")) {
        return broker_hello(v, c, r);
    }
    if (!c->greeted) {
        return broker_refuse(c, "hello comes first");
    }
    if (record_is(r, "grant")) {
        return broker_grant(v, c, r, frame);
    }
    if (record_is(r, "usage")) {
        return broker_usage(v, c, r);
    }
    if (record_is(r, "admit")) {
        return broker_admit(v, c, r);
    }
    if (record_is(r, "error")) {
        log_warn("the credentials proxy refused something");
        return 0;
    }
    return broker_refuse(c, "a record of unknown kind");
}

/* ---- bytes ---- */

static int broker_frames(struct vault *v, struct vault_connection *c)
{
    struct str frame;
    struct record r;
    struct err e;
    int whole = 0;
    while ((whole = record_next(&c->in, &frame, &e)) == 1) {
        if (record_parse(frame, &r, &e) != 0 || broker_handle(v, c, &r, frame) != 0) {
            return -1;
        }
        record_skip(&c->in, frame);
    }
    return whole;
}

static int broker_read(struct vault *v, struct vault_connection *c)
{
    size_t room = BROKER_IN_BYTES_MAX - c->in.len;
    if (room == 0 || !buf_reserve(&c->in, room)) {
        return -1;
    }
    ssize_t n = recv(c->fd, c->in.ptr + c->in.len, room, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    if (n == 0) {
        return -1;
    }
    buf_grew(&c->in, (size_t)n);
    return broker_frames(v, c);
}

static int broker_write(struct vault_connection *c)
{
    while (c->out.len > 0) {
        ssize_t n = send(c->fd, c->out.ptr, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        /* What was sent may have been a key. */
        mem_wipe(c->out.ptr, (size_t)n);
        buf_consume(&c->out, (size_t)n);
    }
    return 0;
}

static void broker_accept(struct vault *v)
{
    int fd AUTOCLOSE = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    pid_t pid = 0;
    uid_t uid = 0;
    struct err e;
    if (fd < 0) {
        return;
    }
    if (fd_peer(fd, &pid, &uid, &e) != 0 || uid != PATHS_CREDENTIALS_UID(v->config->uid_base)) {
        log_warn("a stranger called the credentials broker and was sent away");
        return;
    }
    for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
        struct vault_connection *c = &v->connections[i];
        if (c->fd < 0) {
            c->fd = TAKE_FD(fd);
            c->serial = ++v->next_serial;
            buf_init(&c->in, BROKER_IN_BYTES_MAX);
            buf_init(&c->out, BROKER_OUT_BYTES_MAX);
            return;
        }
    }
}

static void broker_push_revoked(struct vault *v)
{
    struct ulid revoked[VAULT_REVOKED_MAX];
    size_t count = 0;
    {
        LOCK_GUARD(&v->lock);
        count = v->revoked_count;
        memcpy(revoked, v->revoked, count * sizeof(revoked[0]));
        v->revoked_count = 0;
    }
    for (size_t k = 0; k < count * VAULT_CONNECTIONS; k++) {
        struct vault_connection *c = &v->connections[k % VAULT_CONNECTIONS];
        if (c->fd < 0 || !c->greeted) {
            continue;
        }
        struct record_writer w = record_begin(&c->out, "revoke");
        record_adds(&w, "task_id", revoked[k / VAULT_CONNECTIONS].text);
        if (!record_end(&w)) {
            broker_drop(v, c);
        }
    }
}

/* Some key changed: every grant is to be asked for again. */
static void broker_push_changed(struct vault *v)
{
    {
        LOCK_GUARD(&v->lock);
        if (!v->changed) {
            return;
        }
        v->changed = false;
    }
    for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
        struct vault_connection *c = &v->connections[i];
        if (c->fd < 0 || !c->greeted) {
            continue;
        }
        struct record_writer w = record_begin(&c->out, "changed");
        if (!record_end(&w)) {
            broker_drop(v, c);
        }
    }
}

static void broker_serve(struct vault *v, struct vault_connection *c, short events)
{
    int rc = 0;
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        rc = broker_read(v, c);
    }
    /* The last words of a refusal go out too. */
    if (broker_write(c) != 0 || rc != 0) {
        broker_drop(v, c);
    }
}

static void *broker_run(void *arg)
{
    struct vault *v = arg;
    struct pollfd polls[VAULT_CONNECTIONS + 2];
    while (!atomic_load(&v->stopping)) {
        for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
            const struct vault_connection *c = &v->connections[i];
            polls[i] = (struct pollfd){.fd = c->fd,
                                       .events = (short)(POLLIN | (c->out.len > 0 ? POLLOUT : 0))};
        }
        polls[VAULT_CONNECTIONS] = (struct pollfd){.fd = v->listen_fd, .events = POLLIN};
        polls[VAULT_CONNECTIONS + 1] = (struct pollfd){.fd = v->wake_fd, .events = POLLIN};
        if (poll(polls, VAULT_CONNECTIONS + 2, broker_grant_wait_ms(v)) < 0) {
            continue;
        }
        for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
            if (polls[i].fd >= 0 && polls[i].revents) {
                broker_serve(v, &v->connections[i], polls[i].revents);
            }
        }
        if (polls[VAULT_CONNECTIONS + 1].revents) {
            uint64_t count = 0;
            ssize_t ignored = read(v->wake_fd, &count, sizeof(count));
            (void)ignored; /* a wake without a count is a wake */
            broker_push_revoked(v);
            broker_push_changed(v);
            broker_tell_noted(v);
        }
        broker_grant_waiting(v);
        if (polls[VAULT_CONNECTIONS].revents) {
            broker_accept(v);
        }
    }
    return NULL;
}

int vault_broker_prepare(struct vault *v, struct err *e)
{
    for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
        v->connections[i].fd = -1;
        v->connections[i].in.ptr = buf_empty_;
        v->connections[i].out.ptr = buf_empty_;
    }
    v->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (v->wake_fd < 0) {
        return err_set(e, ERR_IO, errno, "make an event descriptor");
    }
    return 0;
}

int vault_serve(struct vault *v, struct err *e)
{
    char path[PATHS_MAX];
    gid_t gid = PATHS_CREDENTIALS_UID(v->config->uid_base);
    (void)paths_broker_socket(path, v->config->data_dir, "credentials");
    if (fd_unix_listen(path, 0660, 0, gid, BROKER_BACKLOG, &v->listen_fd, e) != 0 ||
        fd_set_nonblock(v->listen_fd) != 0) {
        fd_close_cleanup(&v->listen_fd);
        return err_wrap(e, "the credentials broker");
    }
    v->thread = thread_start("vault-broker", broker_run, v);
    v->has_thread = true;
    return 0;
}

void vault_broker_wake(struct vault *v)
{
    uint64_t one = 1;
    ssize_t ignored = write(v->wake_fd, &one, sizeof(one));
    (void)ignored; /* a full counter is a wake too */
}

void vault_broker_stop(struct vault *v)
{
    atomic_store(&v->stopping, true);
    vault_broker_wake(v);
    if (v->has_thread) {
        (void)pthread_join(v->thread, NULL);
    }
    for (size_t i = 0; i < VAULT_CONNECTIONS; i++) {
        broker_drop(v, &v->connections[i]);
    }
    fd_close_cleanup(&v->listen_fd);
}

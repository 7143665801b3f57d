/*
 * Connections over libuv streams.
 *
 * Must never buffer without bound by itself: whoever writes looks at wire_queued and stops its
 * source. Main thread.
 */
#include "proxy/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/fd.h"
#include "lib/mem.h"
#include "proxy/limits.h"

struct wire {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    const struct wire_events *events; /* NULL once closed */
    void *ctx;
    size_t queued;
    struct loop_later broken_later;
    int broken; /* what the next event says */
    bool is_tcp, reading, closing, ended, broken_queued;
    uv_shutdown_t shutdown;
};

struct wire_pending {
    uv_write_t req;
    struct wire *wire;
    size_t len;
    char bytes[];
};

static char read_buffer[LIMIT_READ_BYTES];

static void wire_freed(uv_handle_t *handle)
{
    free(handle->data);
}

/* A wire whose end is still to be told is freed after that. */
static void broken_tell(void *p)
{
    struct wire *w = p;

    w->broken_queued = false;
    if (w->closing) {
        uv_close(&w->uv.handle, wire_freed);
        return;
    }
    if (w->events && !w->ended) {
        w->ended = true;
        w->events->ended(w->ctx, w->broken);
    }
}

static void wire_break(struct wire *w, int status)
{
    if (w->broken_queued || w->ended || w->closing) {
        return;
    }
    w->broken = status;
    w->broken_queued = true;
    loop_later(&w->broken_later, broken_tell, w);
}

static struct wire *wire_new(bool is_tcp)
{
    struct wire *w = mem_alloc(sizeof(*w));

    w->is_tcp = is_tcp;
    if (is_tcp) {
        (void)uv_tcp_init(loop_get(), &w->uv.tcp);
    } else {
        (void)uv_pipe_init(loop_get(), &w->uv.pipe, 0);
    }
    w->uv.handle.data = w;
    return w;
}

struct wire *wire_accept(uv_stream_t *listener)
{
    struct wire *w = wire_new(listener->type == UV_TCP);

    if (uv_accept(listener, &w->uv.stream) < 0) {
        wire_close(w);
        return NULL;
    }
    if (w->is_tcp) {
        (void)uv_tcp_nodelay(&w->uv.tcp, 1);
    }
    return w;
}

struct wire *wire_connect_unix(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || len >= sizeof addr.sun_path) {
        return NULL;
    }
    memcpy(addr.sun_path, path, len + 1);
    if (connect(fd, (const struct sockaddr *)&addr, sizeof addr) < 0) {
        return NULL;
    }
    struct wire *w = wire_new(false);

    if (uv_pipe_open(&w->uv.pipe, fd) < 0) {
        wire_close(w);
        return NULL;
    }
    (void)TAKE_FD(fd);
    return w;
}

void wire_attach(struct wire *w, const struct wire_events *events, void *ctx)
{
    w->events = events;
    w->ctx = ctx;
}

static void read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof read_buffer);
}

static void read_done(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct wire *w = stream->data;

    if (count > 0) {
        w->events->data(w->ctx, str_n(buf->base, (size_t)count));
        return;
    }
    if (count < 0 && !w->ended) {
        w->ended = true;
        wire_read(w, false);
        w->events->ended(w->ctx, count == UV_EOF ? 0 : (int)count);
    }
}

void wire_read(struct wire *w, bool on)
{
    if (on == w->reading || w->closing || (on && w->ended)) {
        return;
    }
    w->reading = on;
    if (!on) {
        (void)uv_read_stop(&w->uv.stream);
        return;
    }
    int status = uv_read_start(&w->uv.stream, read_alloc, read_done);

    if (status < 0) {
        wire_break(w, status);
    }
}

static void write_done(uv_write_t *req, int status)
{
    struct wire_pending *pending = req->data;
    struct wire *w = pending->wire;

    w->queued -= pending->len;
    free(pending);
    if (w->closing) {
        return;
    }
    if (status < 0) {
        wire_break(w, status);
        return;
    }
    if (w->queued == 0 && w->events && w->events->drained) {
        w->events->drained(w->ctx);
    }
}

/* libuv's buffers are not const; it only reads what is written. */
static uv_buf_t buf_of(struct str s)
{
    return uv_buf_init((char *)(uintptr_t)s.ptr, (unsigned)s.len);
}

static void write_rest(struct wire *w, const struct str *parts, unsigned count, size_t skip)
{
    size_t total = 0;

    for (unsigned i = 0; i < count; i++) {
        total += parts[i].len;
    }
    if (total <= skip) {
        return;
    }
    struct wire_pending *pending = mem_alloc(sizeof(*pending) + total - skip);
    char *at = pending->bytes;

    for (unsigned i = 0; i < count; i++) {
        size_t from = skip < parts[i].len ? skip : parts[i].len;

        memcpy(at, parts[i].ptr + from, parts[i].len - from);
        at += parts[i].len - from;
        skip -= from;
    }
    pending->wire = w;
    pending->len = (size_t)(at - pending->bytes);
    pending->req.data = pending;
    w->queued += pending->len;

    uv_buf_t buf = uv_buf_init(pending->bytes, (unsigned)pending->len);
    int status = uv_write(&pending->req, &w->uv.stream, &buf, 1, write_done);

    if (status < 0) {
        w->queued -= pending->len;
        free(pending);
        wire_break(w, status);
    }
}

void wire_write(struct wire *w, const struct str *parts, unsigned count)
{
    uv_buf_t bufs[WIRE_PARTS];
    size_t sent = 0;

    if (w->closing || w->broken_queued || count > WIRE_PARTS) {
        return;
    }
    if (w->queued == 0) {
        unsigned used = 0;

        for (unsigned i = 0; i < count; i++) {
            if (parts[i].len > 0) {
                bufs[used++] = buf_of(parts[i]);
            }
        }
        int result = used > 0 ? uv_try_write(&w->uv.stream, bufs, used) : 0;

        if (result < 0 && result != UV_EAGAIN) {
            wire_break(w, result);
            return;
        }
        sent = result > 0 ? (size_t)result : 0;
    }
    write_rest(w, parts, count, sent);
}

size_t wire_queued(const struct wire *w)
{
    return w->queued;
}

static void shutdown_done(uv_shutdown_t *req, int status)
{
    (void)req;
    (void)status;
}

void wire_shutdown(struct wire *w)
{
    if (!w->closing) {
        (void)uv_shutdown(&w->shutdown, &w->uv.stream, shutdown_done);
    }
}

bool wire_peer_gone(const struct wire *w)
{
    struct pollfd p = {.events = POLLRDHUP};

    if (w->ended || uv_fileno(&w->uv.handle, &p.fd) < 0) {
        return true;
    }
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static bool wire_end(struct wire *w)
{
    if (!w || w->closing) {
        return false;
    }
    w->closing = true;
    w->events = NULL;
    if (w->reading) {
        w->reading = false;
        (void)uv_read_stop(&w->uv.stream);
    }
    /* Else broken_tell does it: its slot is inside the wire. */
    return !w->broken_queued;
}

void wire_close(struct wire *w)
{
    if (wire_end(w)) {
        uv_close(&w->uv.handle, wire_freed);
    }
}

static void set_reset(struct wire *w)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    uv_os_fd_t fd;

    if (w->is_tcp && uv_fileno(&w->uv.handle, &fd) == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
}

void wire_destroy(struct wire *w)
{
    if (w && !w->closing) {
        set_reset(w);
    }
    wire_close(w);
}

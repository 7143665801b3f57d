/*
 * The event thread. Everything but the inbox (new streams, kicks, stop) belongs to it alone; pump
 * and closed run on it, so they must be short. Must never block on a client.
 */
#include "control/http/stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/thread.h"

#define STREAM_HEARTBEAT_MS 15000
#define STREAM_KEY_BYTES    64
#define STREAM_KICKS_MAX    64
#define STREAM_EVENTS       64

struct stream {
    struct stream *next;                /* in the loop's list or in its inbox */
    struct http_stream_options options; /* take_ctx owned until closed */
    char key[STREAM_KEY_BYTES];
    struct buf out;
    int fd; /* owned, -1 when over */
    int64_t heartbeat_ms;
    bool ending; /* close when out is sent */
    bool more;   /* pump again when out is sent */
    bool writable_wanted;
};

struct stream_loop {
    pthread_t thread;
    int epoll_fd;
    int wake_fd;
    atomic_int count;
    pthread_mutex_t lock; /* the inbox below */
    struct stream *arrived;
    char kicks[STREAM_KICKS_MAX][STREAM_KEY_BYTES];
    size_t kick_count;
    bool kick_all; /* more kicks than the table holds */
    bool stopping;
    struct stream *streams; /* the loop's own */
};

static void stream_wake(struct stream_loop *loop)
{
    uint64_t one = 1;
    ssize_t ignored = write(loop->wake_fd, &one, sizeof(one));
    (void)ignored; /* a full counter is a wake too */
}

static void stream_over(struct stream_loop *loop, struct stream *s)
{
    if (s->fd < 0) {
        return;
    }
    fd_close_cleanup(&s->fd);
    atomic_fetch_sub(&loop->count, 1);
    s->options.closed(s->options.take_ctx);
}

static void stream_watch(struct stream_loop *loop, struct stream *s, bool writable, bool add)
{
    struct epoll_event ev = {.events = EPOLLRDHUP | (writable ? EPOLLOUT : 0U), .data.ptr = s};
    if (!add && writable == s->writable_wanted) {
        return;
    }
    s->writable_wanted = writable;
    if (epoll_ctl(loop->epoll_fd, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, s->fd, &ev) != 0) {
        stream_over(loop, s);
    }
}

/* Sends what is queued. False when the connection is over. */
static bool stream_flush(struct stream_loop *loop, struct stream *s)
{
    while (s->out.len > 0) {
        ssize_t n = send(s->fd, s->out.ptr, s->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            stream_watch(loop, s, true, false);
            return s->fd >= 0;
        }
        if (n < 0) {
            stream_over(loop, s);
            return false;
        }
        buf_consume(&s->out, (size_t)n);
    }
    if (s->ending) {
        (void)shutdown(s->fd, SHUT_WR);
        stream_over(loop, s);
        return false;
    }
    stream_watch(loop, s, false, false);
    return s->fd >= 0;
}

static void stream_pump(struct stream_loop *loop, struct stream *s, bool expired)
{
    do {
        if (s->fd < 0 || s->ending || s->out.len > 0) {
            /* What is queued goes first; the pump is asked again when it is sent. */
            s->more = true;
            return;
        }
        enum http_pump result = s->options.pump(s->options.take_ctx, &s->out, expired);
        s->more = result == HTTP_PUMP_MORE;
        s->ending = result == HTTP_PUMP_END;
        if (s->out.failed) {
            stream_over(loop, s);
            return;
        }
        s->heartbeat_ms = clock_mono_ms() + STREAM_HEARTBEAT_MS;
        if (!stream_flush(loop, s)) {
            return;
        }
        expired = false;
    } while (s->more && s->out.len == 0);
}

static void stream_adopt(struct stream_loop *loop, struct stream *list)
{
    while (list) {
        struct stream *s = list;
        list = s->next;
        s->next = loop->streams;
        loop->streams = s;
        stream_watch(loop, s, false, true);
        if (s->fd >= 0) {
            stream_pump(loop, s, false);
        }
    }
}

static bool stream_kicked(const struct stream *s, char (*kicks)[STREAM_KEY_BYTES], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(s->key, kicks[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Empties the inbox; false when the loop shall stop. */
static bool stream_inbox(struct stream_loop *loop)
{
    char kicks[STREAM_KICKS_MAX][STREAM_KEY_BYTES];
    (void)pthread_mutex_lock(&loop->lock);
    struct stream *arrived = loop->arrived;
    loop->arrived = NULL;
    size_t count = loop->kick_count;
    memcpy(kicks, loop->kicks, sizeof(kicks));
    bool all = loop->kick_all;
    loop->kick_count = 0;
    loop->kick_all = false;
    bool stopping = loop->stopping;
    (void)pthread_mutex_unlock(&loop->lock);
    stream_adopt(loop, arrived);
    for (struct stream *s = loop->streams; s; s = s->next) {
        if (s->fd >= 0 && (all || stream_kicked(s, kicks, count))) {
            stream_pump(loop, s, false);
        }
    }
    return !stopping;
}

static void stream_event(struct stream_loop *loop, struct stream *s, uint32_t events)
{
    if (s->fd < 0) {
        return;
    }
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        stream_over(loop, s);
        return;
    }
    if ((events & EPOLLOUT) && stream_flush(loop, s) && s->out.len == 0 && s->more) {
        stream_pump(loop, s, false);
    }
}

/* Deadlines and heartbeats; drops what is over. Returns how long to sleep. */
static int stream_tick(struct stream_loop *loop)
{
    int64_t now = clock_mono_ms();
    int64_t next = now + 60000;
    struct stream **at = &loop->streams;
    while (*at) {
        struct stream *s = *at;
        if (s->fd >= 0 && s->options.deadline_ms > 0 && s->options.deadline_ms <= now) {
            s->options.deadline_ms = 0;
            stream_pump(loop, s, true);
        }
        if (s->fd >= 0 && s->options.heartbeat && s->heartbeat_ms <= now && s->out.len == 0) {
            buf_puts(&s->out, ": \n\n");
            s->heartbeat_ms = now + STREAM_HEARTBEAT_MS;
            (void)stream_flush(loop, s);
        }
        if (s->fd < 0) {
            *at = s->next;
            buf_done(&s->out);
            free(s);
            continue;
        }
        int64_t due = s->options.deadline_ms > 0 ? s->options.deadline_ms : next;
        due = s->options.heartbeat && s->heartbeat_ms < due ? s->heartbeat_ms : due;
        next = due < next ? due : next;
        at = &s->next;
    }
    return clock_until(next);
}

static void *stream_run(void *ctx)
{
    struct stream_loop *loop = ctx;
    struct epoll_event events[STREAM_EVENTS];
    bool running = true;
    while (running) {
        int n = epoll_wait(loop->epoll_fd, events, STREAM_EVENTS, stream_tick(loop));
        for (int i = 0; i < n; i++) {
            struct stream *s = events[i].data.ptr;
            if (s) {
                stream_event(loop, s, events[i].events);
                continue;
            }
            uint64_t drained = 0;
            ssize_t ignored = read(loop->wake_fd, &drained, sizeof(drained));
            (void)ignored;
            running = stream_inbox(loop);
        }
    }
    for (struct stream *s = loop->streams; s; s = s->next) {
        stream_over(loop, s);
    }
    (void)stream_tick(loop);
    return NULL;
}

struct stream_loop *stream_loop_start(void)
{
    struct stream_loop *loop = mem_alloc(sizeof(*loop));
    (void)pthread_mutex_init(&loop->lock, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &ev) != 0) {
        abort(); /* two descriptors at start: nothing would work without them */
    }
    loop->thread = thread_start("http-stream", stream_run, loop);
    return loop;
}

void stream_loop_stop(struct stream_loop *take_loop)
{
    (void)pthread_mutex_lock(&take_loop->lock);
    take_loop->stopping = true;
    (void)pthread_mutex_unlock(&take_loop->lock);
    stream_wake(take_loop);
    (void)pthread_join(take_loop->thread, NULL);
    (void)close(take_loop->epoll_fd);
    (void)close(take_loop->wake_fd);
    free(take_loop);
}

bool stream_loop_add(struct stream_loop *loop, int take_fd,
                     const struct http_stream_options *options)
{
    if (atomic_fetch_add(&loop->count, 1) >= HTTP_STREAMS_MAX) {
        atomic_fetch_sub(&loop->count, 1);
        return false;
    }
    struct stream *s = mem_alloc(sizeof(*s));
    s->options = *options;
    s->options.key = NULL;
    (void)snprintf(s->key, sizeof(s->key), "%s", options->key);
    buf_init(&s->out, HTTP_ANSWER_BYTES_MAX);
    s->fd = take_fd;
    s->heartbeat_ms = clock_mono_ms() + STREAM_HEARTBEAT_MS;
    (void)pthread_mutex_lock(&loop->lock);
    s->next = loop->arrived;
    loop->arrived = s;
    (void)pthread_mutex_unlock(&loop->lock);
    stream_wake(loop);
    return true;
}

void stream_loop_kick(struct stream_loop *loop, const char *key)
{
    (void)pthread_mutex_lock(&loop->lock);
    if (loop->kick_count < STREAM_KICKS_MAX) {
        (void)snprintf(loop->kicks[loop->kick_count++], STREAM_KEY_BYTES, "%s", key);
    } else {
        loop->kick_all = true;
    }
    (void)pthread_mutex_unlock(&loop->lock);
    stream_wake(loop);
}

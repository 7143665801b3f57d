/*
 * Relay: both directions of the door on one loop. It must never serve a stream that was not asked
 * for, and never wait for one peer while another has something to say. A process of its own, one
 * thread.
 */
#include "supervisor/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/record.h"
#include "supervisor/dial.h"
#include "supervisor/portwatch.h"
#include "supervisor/route.h"
#include "supervisor/standing.h"
#include "supervisor/stream.h"

#define RELAY_CONNECT_MS                                                     \
    2000 /* for the app to take a connection, and for the proxy to take ours \
          */
#define RELAY_OUT_DIAL_MS      10000 /* for the credentials proxy to come back */
#define RELAY_RETRY_MS         5
#define RELAY_LISTEN_RETRY_MS  200
#define RELAY_ACCEPTS_PER_TURN 32

enum link_state {
    LINK_FREE,
    LINK_CONNECTING, /* to the app */
    LINK_DIALLING,   /* the proxy's backlog is full, or it is away */
    LINK_OPEN,
    LINK_DYING, /* closed; its place is free after this turn, see relay_bury */
};

/* A stream and what it is for. */
struct link {
    struct stream stream; /* first: hooks hand it back */
    struct relay *relay;
    enum link_state state;
    bool outwards;
    uint64_t n; /* inwards: the proxy's number */
    struct route route;
    enum route_result result; /* inwards: what the stream's hello will say */
    int64_t deadline_ms;
};

struct pool {
    struct link *links;
    size_t size;
    size_t used;     /* places below it were ever used */
    size_t free_top; /* of free_list */
    unsigned short *free_list;
};

struct relay {
    struct loop loop;
    struct standing standing;
    struct sockets sockets;
    struct watch listener;
    int64_t listen_ms; /* next try to listen; 0 while it does */
    struct pool in;
    struct pool out;
    struct stream_hooks hooks;
    size_t waiting; /* links that have a deadline */
    size_t dying;
};

static struct link relay_in_links[RELAY_IN_STREAMS_MAX];
static struct link relay_out_links[RELAY_OUT_STREAMS_MAX];
static unsigned short relay_in_free[RELAY_IN_STREAMS_MAX];
static unsigned short relay_out_free[RELAY_OUT_STREAMS_MAX];

/* ---- places ---- */

static struct link *pool_take(struct pool *p)
{
    if (p->free_top > 0) {
        return &p->links[p->free_list[--p->free_top]];
    }
    return p->used < p->size ? &p->links[p->used++] : NULL;
}

static void link_on_event(void *ctx, uint32_t events);

static struct link *link_new(struct relay *r, struct pool *p)
{
    struct link *l = pool_take(p);

    if (l) {
        *l = (struct link){.relay = r, .outwards = p == &r->out};
        stream_init(&l->stream, &r->loop, &r->hooks, link_on_event);
    }
    return l;
}

static void link_enter(struct link *l, enum link_state state)
{
    bool waited = l->state == LINK_CONNECTING || l->state == LINK_DIALLING;
    bool waits = state == LINK_CONNECTING || state == LINK_DIALLING;

    l->relay->waiting += waits;
    l->relay->waiting -= waited;
    l->state = state;
}

/*
 * Closes both sockets. The place itself is free only after this turn of the loop: events of the old
 * sockets that were fetched with it must not find a new stream.
 */
static void link_close(struct link *l)
{
    if (l->state != LINK_DYING) {
        stream_close(&l->stream);
        link_enter(l, LINK_DYING);
        l->relay->dying++;
    }
}

static void pool_bury(struct pool *p)
{
    for (size_t i = 0; i < p->used; i++) {
        if (p->links[i].state == LINK_DYING) {
            p->links[i].state = LINK_FREE;
            p->free_list[p->free_top++] = (unsigned short)i;
        }
    }
}

static void relay_bury(struct relay *r)
{
    if (r->dying > 0) {
        pool_bury(&r->in);
        pool_bury(&r->out);
        r->dying = 0;
    }
}

/* ---- the proxy's side of a link ---- */

static int link_greet(const struct link *l, int fd, struct err *e)
{
    BUF_AUTO(out, 512);
    struct record_writer w = record_begin(&out, "hello");

    record_addn(&w, "protocol", RECORD_PROTOCOL);
    if (!l->outwards) {
        record_adds(&w, "role", "stream");
        record_addn(&w, "n", (int64_t)l->n);
        record_adds(&w, "result", route_result_name(l->result));
    }
    /* The socket is new and empty: it takes a hello whole or not at all. */
    if (!record_end(&w) ||
        send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len) {
        return err_set(e, ERR_IO, errno, "greet the proxy");
    }
    return 0;
}

static void link_wait_for_proxy(struct link *l)
{
    int64_t now_ms = clock_mono_ms();

    if (l->state != LINK_DIALLING) {
        l->deadline_ms = now_ms + (l->outwards ? RELAY_OUT_DIAL_MS : RELAY_CONNECT_MS);
        link_enter(l, LINK_DIALLING);
    }
}

/* Only for the client inside, which has no other way to learn why. It will try again. */
static void link_say_away(struct link *l)
{
    static const char body[] = "{\"error\":{\"type\":\"proxy_unavailable\",\"message\":"
                               "\"the credentials proxy does not answer just now\"}}";
    BUF_AUTO(answer, 512);

    buf_printf(&answer,
               "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
               "retry-after: 1\r\nconnection: close\r\ncontent-length: %zu\r\n\r\n%s",
               sizeof(body) - 1, body);
    (void)send(l->stream.app.watch.fd, answer.ptr, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The app's side is settled: dials the proxy and lets the bytes flow, or closes when there is no
 * app. */
static void link_dial(struct link *l)
{
    struct err e = {0};
    int fd = -1;

    if (dial_unix(l->outwards ? RELAY_OUT_SOCKET : RELAY_IN_SOCKET, &fd, &e) != 0) {
        if (l->outwards || e.code == ERR_BUSY) {
            link_wait_for_proxy(l);
        } else {
            link_close(l);
        }
        return;
    }
    if (loop_add(&l->relay->loop, &l->stream.door.watch, fd, 0, &e) != 0) {
        (void)close(fd);
        link_close(l);
        return;
    }
    if (link_greet(l, fd, &e) != 0 || (!l->outwards && l->result != ROUTE_OK)) {
        link_close(l);
        return;
    }
    link_enter(l, LINK_OPEN);
    stream_open(&l->stream);
}

/* ---- the app's side of an inward link ---- */

static void link_settle(struct link *l, enum route_result result)
{
    l->result = result;
    if (result != ROUTE_OK) {
        loop_close(&l->relay->loop, &l->stream.app.watch);
    }
    link_dial(l);
}

static void link_connect(struct link *l)
{
    struct err e = {0};
    int fd = -1;
    enum route_result result = route_next(&l->route, &l->relay->sockets, &fd);

    if (fd >= 0 && loop_add(&l->relay->loop, &l->stream.app.watch, fd,
                            result == ROUTE_IN_PROGRESS ? EPOLLOUT : 0, &e) != 0) {
        (void)close(fd);
        result = ROUTE_UNREACHABLE;
    }
    if (result != ROUTE_IN_PROGRESS) {
        link_settle(l, result);
        return;
    }
    if (l->state != LINK_CONNECTING) {
        l->deadline_ms = clock_mono_ms() + RELAY_CONNECT_MS;
        link_enter(l, LINK_CONNECTING);
    }
}

/* Before the bytes flow: a connect that was in progress, or a client that left while the proxy was
 * away. */
static void link_on_event(void *ctx, uint32_t events)
{
    struct stream_side *side = ctx;
    struct link *l = (struct link *)side->stream;

    if (l->state == LINK_CONNECTING && side == &l->stream.app) {
        enum route_result result = route_check(side->watch.fd);

        if (result == ROUTE_OK) {
            loop_change(&l->relay->loop, &side->watch, 0);
            link_settle(l, ROUTE_OK);
        } else if (result != ROUTE_IN_PROGRESS) {
            loop_close(&l->relay->loop, &side->watch);
            link_connect(l);
        }
    } else if (l->state == LINK_DIALLING && (events & (EPOLLHUP | EPOLLERR))) {
        link_close(l);
    }
}

/* ---- ends ---- */

static void link_on_end(void *ctx, struct stream *s, enum stream_end end)
{
    struct relay *r = ctx;
    struct link *l = (struct link *)s;

    if (!l->outwards && end == STREAM_ENDED) {
        standing_say(&r->standing, "end", l->n);
    }
    if (!l->outwards && end == STREAM_APP_BROKE) {
        standing_say(&r->standing, "reset", l->n);
    }
    if (end != STREAM_ENDED) {
        link_close(l);
    }
}

static void relay_on_open(void *ctx, uint64_t n, uint16_t port)
{
    struct relay *r = ctx;
    struct link *l = link_new(r, &r->in);

    if (!l) {
        standing_say(&r->standing, "reset", n);
        return;
    }
    l->n = n;
    l->route.port = port;
    link_connect(l);
}

/* ---- the listener for clients inside ---- */

static void relay_accept_one(struct relay *r, int fd)
{
    int one = 1;
    struct err e = {0};
    struct link *l = link_new(r, &r->out);

    if (!l) {
        (void)close(fd); /* the client tries again */
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (loop_add(&r->loop, &l->stream.app.watch, fd, 0, &e) != 0) {
        (void)close(fd);
        link_close(l);
        return;
    }
    link_dial(l);
}

static void relay_on_accept(void *ctx, uint32_t events)
{
    struct relay *r = ctx;

    (void)events;
    for (int i = 0; i < RELAY_ACCEPTS_PER_TURN; i++) {
        int fd = accept4(r->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            relay_accept_one(r, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            /* Would be reported again at once: listen anew in a moment. */
            loop_close(&r->loop, &r->listener);
            r->listen_ms = clock_mono_ms() + RELAY_LISTEN_RETRY_MS;
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

static int relay_listen(struct relay *r, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(PORTWATCH_RELAY_PORT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int fd AUTOCLOSE = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "make a socket");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 128) != 0) {
        return err_set(e, ERR_IO, errno, "listen on 127.0.0.1:%d", PORTWATCH_RELAY_PORT);
    }
    if (loop_add(&r->loop, &r->listener, fd, EPOLLIN, e) != 0) {
        return -1;
    }
    (void)TAKE_FD(fd);
    return 0;
}

static int64_t relay_keep_listening(struct relay *r, int64_t now_ms)
{
    struct err e = {0};

    if (r->listener.fd >= 0) {
        return INT64_MAX;
    }
    if (now_ms >= r->listen_ms) {
        r->listen_ms = now_ms + RELAY_LISTEN_RETRY_MS;
        if (relay_listen(r, &e) == 0) {
            return INT64_MAX;
        }
        log_warn("agents cannot reach their provider yet", "error", e.msg);
    }
    return r->listen_ms;
}

/* ---- time ---- */

static void link_late(struct link *l)
{
    if (l->state == LINK_CONNECTING) {
        link_settle(l, ROUTE_TIMEOUT);
        return;
    }
    if (l->outwards) {
        link_say_away(l);
    }
    link_close(l);
}

static void pool_tick(struct pool *p, int64_t now_ms)
{
    for (size_t i = 0; i < p->used; i++) {
        struct link *l = &p->links[i];

        if (l->state != LINK_CONNECTING && l->state != LINK_DIALLING) {
            continue;
        }
        if (now_ms >= l->deadline_ms) {
            link_late(l);
        } else if (l->state == LINK_DIALLING) {
            link_dial(l);
        }
    }
}

static int64_t relay_tick(struct relay *r, int64_t now_ms)
{
    int64_t next_ms = standing_tick(&r->standing, now_ms);
    int64_t listen_ms = relay_keep_listening(r, now_ms);

    next_ms = listen_ms < next_ms ? listen_ms : next_ms;
    if (r->waiting > 0) {
        pool_tick(&r->in, now_ms);
        pool_tick(&r->out, now_ms);
    }
    relay_bury(r);
    if (r->waiting > 0 && now_ms + RELAY_RETRY_MS < next_ms) {
        next_ms = now_ms + RELAY_RETRY_MS;
    }
    return next_ms;
}

static void relay_init(struct relay *r, const char *boot_id)
{
    struct err e = {0};

    *r = (struct relay){
        .in = {.links = relay_in_links, .size = RELAY_IN_STREAMS_MAX, .free_list = relay_in_free},
        .out = {.links = relay_out_links,
                .size = RELAY_OUT_STREAMS_MAX,
                .free_list = relay_out_free},
        .hooks = {.on_end = link_on_end, .ctx = r},
    };
    while (loop_init(&r->loop, &e) != 0) {
        log_error("the relay cannot start", "error", e.msg);
        clock_sleep_ms(RELAY_LISTEN_RETRY_MS);
    }
    r->listener = (struct watch){.fd = -1, .on_event = relay_on_accept, .ctx = r};
    sockets_init(&r->sockets);
    standing_init(&r->standing, &r->loop, boot_id, relay_on_open, r);
}

int relay_main(const char *boot_id)
{
    static struct relay relay;

    log_init("sandboxd-init relay", LOG_INFO);
    (void)signal(SIGPIPE, SIG_IGN);
    fd_raise_limit();
    relay_init(&relay, boot_id);
    for (;;) {
        int64_t next_ms = relay_tick(&relay, clock_mono_ms());

        standing_flush(&relay.standing);
        loop_wait(&relay.loop, next_ms == INT64_MAX ? -1 : clock_until(next_ms));
    }
}

/*
 * The only code that talks to civetweb: every request is owned by begin_request, checked by the
 * gate, routed by our table and answered with one write. Must never set a document root, use
 * civetweb's router, forms, CGI, WebSocket or TLS. Runs on civetweb's worker threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <civetweb.h>

#include "control/http/gate.h"
#include "control/http/http.h"
#include "control/http/interpose.h"
#include "control/http/route.h"
#include "control/http/self_test.h"
#include "control/http/stream.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/thread.h"
#include "lib/ulid.h"

#define SERVER_ARENA_BYTES_MAX (32UL * 1024 * 1024)
#define SERVER_BODY_MS         30000
#define SERVER_DRAIN_MS        2000
#define SERVER_DRAIN_BYTES_MAX (64UL * 1024 * 1024)
#define SERVER_STOP_MS         10000
#define SERVER_QUERY_BYTES_MAX 8192

struct http_server {
    struct http_options options;
    struct mg_context *mg;
    struct stream_loop *streams;
    atomic_int running; /* handlers at work */
    atomic_bool draining;
    _Atomic uint64_t requests;
    _Atomic uint64_t errors;
};

struct http_connection {
    struct mg_connection *mg;
    const struct mg_request_info *info;
    struct http_server *server;
    bool body_left; /* the client may still be sending */
};

/* Kicks come from everywhere; there is one server per process. */
/* Threads that started before the server and outlive it kick its streams. */
static pthread_mutex_t server_lock = PTHREAD_MUTEX_INITIALIZER;
static struct http_server *server_current; /* under server_lock */

struct str http_header(const struct http_request *r, const char *name)
{
    const struct mg_request_info *info = r->connection->info;
    for (int i = 0; i < info->num_headers; i++) {
        if (str_eq_nocase(str_of(info->http_headers[i].name), str_of(name))) {
            return str_of(info->http_headers[i].value);
        }
    }
    return (struct str){NULL, 0};
}

bool http_query(const struct http_request *r, const char *name, struct str *ret_value)
{
    struct str rest = r->query;
    struct str pair;
    while (str_split(&rest, '&', &pair)) {
        struct str key;
        if (str_split(&pair, '=', &key) && str_is(key, name)) {
            if (!route_decode(r->arena, pair, true, ret_value)) {
                *ret_value = (struct str){NULL, 0};
            }
            return true;
        }
    }
    return false;
}

static bool server_cookie_in(struct str header, size_t *pos, const char *name,
                             struct str *ret_value)
{
    while (*pos < header.len) {
        struct str rest = str_cut(header, *pos, header.len);
        struct str pair;
        struct str key;
        (void)str_split(&rest, ';', &pair);
        *pos += pair.len + 1;
        pair = str_trim(pair);
        if (str_split(&pair, '=', &key) && pair.ptr && str_is(key, name)) {
            *ret_value = pair;
            return true;
        }
    }
    return false;
}

bool http_cookie(const struct http_request *r, size_t *pos, const char *name, struct str *ret_value)
{
    /* A browser sends one Cookie header; more of them are a trick and are not read. */
    return server_cookie_in(http_header(r, "cookie"), pos, name, ret_value);
}

static int server_fd(const struct http_request *r)
{
    return interpose_find(r->connection->info->remote_port, r->connection->info->server_port);
}

/* Our own descriptor of the connection; civetweb keeps a dead socket in its place and shuts that
 * one down. */
static int server_take_fd(struct http_request *r)
{
    int theirs = server_fd(r);
    int ends[2];
    if (theirs < 0) {
        return -1;
    }
    int ours AUTOCLOSE = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
    if (ours < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    int moved = dup3(ends[0], theirs, O_CLOEXEC);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return moved < 0 ? -1 : TAKE_FD(ours);
}

void http_stream_start(struct http_request *r, struct http_response *p,
                       const struct http_stream_options *options)
{
    int fd = server_take_fd(r);
    if (fd >= 0 && stream_loop_add(r->connection->server->streams, fd, options)) {
        p->taken = true;
        return;
    }
    http_error(p, "too_many_requests",
               "%d long answers are open; close one of them or try again later", HTTP_STREAMS_MAX);
    http_retry_after(p, 5);
    if (fd >= 0) {
        /* The worker's descriptor is a dead one by now: answer on ours. */
        BUF_AUTO(out, HTTP_ANSWER_BYTES_MAX);
        struct err e;
        http_render(p, r->request_id, &out);
        if (fd_write_all(fd, out.ptr, out.len, clock_mono_ms() + SERVER_DRAIN_MS, &e) != 0) {
            log_debug("a refused stream left early", "error", e.msg);
        }
        (void)close(fd);
        p->taken = true;
    }
    options->closed(options->take_ctx);
}

void http_kick(const char *key)
{
    LOCK_GUARD(&server_lock);
    if (server_current) {
        stream_loop_kick(server_current->streams, key);
    }
}

/* Reads the body into the arena. Fills the response and returns false when it is too long, late or
 * broken. */
static bool server_read_body(struct http_request *r, struct http_response *p, size_t max)
{
    struct mg_connection *c = r->connection->mg;
    long long length = r->connection->info->content_length;
    if (length > (long long)max) {
        http_error(p, "too_large", "the body has %lld bytes, at most %zu are taken here", length,
                   max);
        return false;
    }
    if (str_eq_nocase(http_header(r, "expect"), STR("100-continue"))) {
        (void)mg_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    }
    size_t cap = length >= 0 ? (size_t)length : max;
    char *at = arena_alloc(r->arena, cap + 1);
    size_t len = 0;
    int64_t deadline_ms = clock_mono_ms() + SERVER_BODY_MS;
    while (len < cap + 1 && (length < 0 || len < cap)) {
        size_t want = cap + 1 - len < 4096 ? cap + 1 - len : 4096;
        want = length >= 0 && want > cap - len ? cap - len : want;
        int n = mg_read(c, at + len, want);
        if (n <= 0 || clock_until(deadline_ms) == 0) {
            break;
        }
        len += (size_t)n;
    }
    if (len > cap) {
        http_error(p, "too_large", "the body has more than the %zu bytes that are taken here", max);
        return false;
    }
    if (length >= 0 && len < cap) {
        http_error(p, "invalid_request", "the body ended after %zu of %lld bytes", len, length);
        return false;
    }
    r->connection->body_left = false;
    r->body = (struct str){at, len};
    return true;
}

/* Lets the answer arrive before the connection closes under a client that is still sending. */
static void server_linger(const struct http_request *r)
{
    int fd = server_fd(r);
    int64_t deadline_ms = clock_mono_ms() + SERVER_DRAIN_MS;
    char sink[8192];
    size_t total = 0;
    if (fd < 0) {
        return;
    }
    (void)shutdown(fd, SHUT_WR);
    while (total < SERVER_DRAIN_BYTES_MAX) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        if (poll(&pfd, 1, clock_until(deadline_ms)) <= 0) {
            return;
        }
        ssize_t n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return;
        }
        total += n > 0 ? (size_t)n : 0;
    }
}

static void server_write(struct http_request *r, struct http_response *p)
{
    BUF_AUTO(out, HTTP_ANSWER_BYTES_MAX + 65536);
    if (!buf_ok(&p->body)) {
        http_error(p, "internal", "the answer is longer than %lu bytes; ask for less at once",
                   (unsigned long)HTTP_ANSWER_BYTES_MAX);
    }
    http_render(p, r->request_id, &out);
    size_t len = out.len;
    if (strcmp(r->method, "HEAD") == 0 && p->status != 204 && p->status != 304) {
        len -= p->body.len;
    }
    (void)mg_write(r->connection->mg, out.ptr, len);
    if (r->connection->body_left) {
        server_linger(r);
    }
}

/* One that goes on as a stream has no status yet. */
static void server_log(const struct http_request *r, const struct http_response *p,
                       int64_t started_us)
{
    char status[8];
    char us[24];
    bool quiet = p->status < 400 && strcmp(r->method, "GET") == 0;
    (void)snprintf(status, sizeof(status), "%d", p->status);
    (void)snprintf(us, sizeof(us), "%lld", (long long)(clock_mono_us() - started_us));
    log_write(quiet ? LOG_DEBUG : LOG_INFO, "request", "request_id", r->request_id, "method",
              r->method, "path", arena_str(r->arena, str_cut(r->path, 0, 256)), "status",
              p->taken ? NULL : status, "us", us, "actor", r->actor, (char *)0);
}

static void server_wrong_method(struct http_server *s, struct http_request *r,
                                struct http_response *p)
{
    BUF_AUTO(methods, 256);
    route_methods(s->options.routes, s->options.route_count, r, &methods);
    http_error(p, "method_not_allowed", "this path does not know the method %.16s; it knows %s",
               r->method, methods.ptr);
    http_add_header(p, "Allow", methods.ptr);
}

static void server_dispatch(struct http_server *s, struct http_request *r, struct http_response *p)
{
    const struct http_route *route = NULL;
    switch (route_find(s->options.routes, s->options.route_count, r, &route)) {
    case ROUTE_NO_PATH: http_error(p, "not_found", "there is nothing at this path"); return;
    case ROUTE_NO_METHOD: server_wrong_method(s, r, p); return;
    case ROUTE_BAD_PATH: http_error(p, "invalid_request", "the path is malformed"); return;
    case ROUTE_FOUND: break;
    }
    if (!s->options.authorize(r, p, route, s->options.ctx)) {
        return;
    }
    size_t max = route->body_max ? route->body_max : HTTP_BODY_BYTES_DEFAULT;
    if (r->body_sent && !server_read_body(r, p, max)) {
        return;
    }
    route->handler(r, p, s->options.ctx);
}

static void server_fill(struct http_request *r, struct http_connection *c)
{
    const struct mg_request_info *info = c->info;
    r->connection = c;
    r->method = info->request_method;
    r->path = str_of(info->request_uri);
    r->query = str_of(info->query_string);
    r->from_console = info->server_port == c->server->options.console_port &&
                      c->server->options.console_port != c->server->options.api_port;
    r->peer = info->remote_addr;
    struct ulid id = ulid_new();
    r->request_id = arena_strdup(r->arena, id.text);
    r->host = http_header(r, "host");
    r->body = (struct str){"", 0};
    r->body_sent = info->content_length > 0 || http_header(r, "transfer-encoding").ptr != NULL;
    c->body_left = r->body_sent;
}

static int server_begin(struct mg_connection *mg)
{
    struct http_server *s = mg_get_user_data(mg_get_context(mg));
    struct http_connection c = {.mg = mg, .info = mg_get_request_info(mg), .server = s};
    struct arena *arena AUTO(arena) = arena_new(SERVER_ARENA_BYTES_MAX);
    struct http_request r = {.arena = arena};
    struct http_response p;
    struct err e;
    int64_t started_us = clock_mono_us();
    atomic_fetch_add(&s->running, 1);
    http_response_init(&p);
    server_fill(&r, &c);
    self_test_note(server_fd(&r), interpose_stack_bytes());
    if (atomic_load(&s->draining)) {
        http_error(&p, "unavailable", "sandboxd is stopping; try again in a moment");
        http_retry_after(&p, 1);
    } else if (gate_check(c.info, &e) != 0) {
        http_error(&p, e.code == ERR_LIMIT ? "headers_too_large" : "invalid_request", "%s", e.msg);
    } else if (r.query.len > SERVER_QUERY_BYTES_MAX) {
        http_error(&p, "invalid_request", "the query is too long");
    } else {
        server_dispatch(s, &r, &p);
    }
    mg_disable_connection_keep_alive(mg);
    if (!p.taken) {
        server_write(&r, &p);
    }
    atomic_fetch_add(&s->requests, 1);
    atomic_fetch_add(&s->errors, p.status >= 500 && !p.taken ? 1U : 0U);
    server_log(&r, &p, started_us);
    int status = p.status;
    http_response_done(&p);
    atomic_fetch_sub(&s->running, 1);
    return status;
}

static int server_on_log(const struct mg_connection *c, const char *message)
{
    (void)c;
    log_debug("civetweb", "message", message);
    return 1;
}

/* What civetweb refuses by itself, before begin_request: said in our one shape. */
static int server_on_error(struct mg_connection *mg, int status, const char *message)
{
    struct http_response p;
    struct ulid id = ulid_new();
    BUF_AUTO(out, 4096);
    http_response_init(&p);
    http_error(&p, status == 413 || status == 414 ? "headers_too_large" : "invalid_request",
               "not a request that is understood here: %.200s", message ? message : "");
    http_render(&p, id.text, &out);
    mg_disable_connection_keep_alive(mg);
    (void)mg_write(mg, out.ptr, out.len);
    http_response_done(&p);
    return 0;
}

static struct mg_context *server_mg_start(struct http_server *s)
{
    char ports[64];
    char workers[16];
    (void)snprintf(ports, sizeof(ports), "127.0.0.1:%u,127.0.0.1:%u", s->options.api_port,
                   s->options.console_port);
    (void)snprintf(workers, sizeof(workers), "%d", HTTP_WORKERS);
    const char *settings[] = {"listening_ports",
                              ports,
                              "num_threads",
                              workers,
                              "connection_queue",
                              "128",
                              "listen_backlog",
                              "1024",
                              "tcp_nodelay",
                              "1",
                              "enable_keep_alive",
                              "no",
                              "request_timeout_ms",
                              "15000",
                              "max_request_size",
                              "32768",
                              "decode_url",
                              "no",
                              "enable_directory_listing",
                              "no",
                              "access_control_allow_origin",
                              "",
                              "access_control_allow_methods",
                              "",
                              "cgi_pattern",
                              "",
                              NULL};
    struct mg_callbacks callbacks = {
        .begin_request = server_begin, .http_error = server_on_error, .log_message = server_on_log};
    return mg_start(&callbacks, s, settings);
}

static bool server_port_taken(uint16_t port)
{
    return self_test_port_answers(port);
}

static int server_start_error(const struct http_options *o, struct err *e)
{
    uint16_t port = server_port_taken(o->api_port) ? o->api_port : o->console_port;
    return err_set(
        e, ERR_UNAVAILABLE, 0,
        "127.0.0.1:%u cannot be opened, something else uses it; set %s in .env to a free "
        "port",
        port, port == o->api_port ? "API_PORT" : "CONSOLE_PORT");
}

static void server_set_current(struct http_server *s)
{
    LOCK_GUARD(&server_lock);
    server_current = s;
}

int http_server_start(const struct http_options *options, struct http_server **ret, struct err *e)
{
    struct http_server *s = mem_alloc(sizeof(*s));
    s->options = *options;
    (void)mg_init_library(MG_FEATURES_DEFAULT);
    s->streams = stream_loop_start();
    server_set_current(s);
    s->mg = server_mg_start(s);
    int failed = s->mg ? self_test_run(options->api_port, e) : server_start_error(options, e);
    if (failed != 0) {
        http_server_stop(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void http_server_stop(struct http_server *take_server)
{
    int64_t deadline_ms = clock_mono_ms() + SERVER_STOP_MS;
    atomic_store(&take_server->draining, true);
    while (atomic_load(&take_server->running) > 0 && clock_until(deadline_ms) > 0) {
        clock_sleep_ms(5);
    }
    server_set_current(NULL);
    if (take_server->mg) {
        mg_stop(take_server->mg);
    }
    stream_loop_stop(take_server->streams);
    (void)mg_exit_library();
    free(take_server);
}

void http_server_count(uint64_t *ret_requests, uint64_t *ret_errors)
{
    LOCK_GUARD(&server_lock);
    *ret_requests = server_current ? atomic_load(&server_current->requests) : 0;
    *ret_errors = server_current ? atomic_load(&server_current->errors) : 0;
}

/*
 * HTTP client on an event loop: libcurl's multi interface by way of sockets and one timer.
 *
 * Must never call libcurl from inside one of its callbacks in a way that it forbids: a stream that
 * is cancelled there is only marked, and removed when libcurl has returned. One thread.
 */
#include "lib/fetch_multi.h"

#include <stdlib.h>

#include <curl/curl.h>

#include "lib/clock.h"
#include "lib/env.h"
#include "lib/mem.h"

#define FETCH_IDLE_CONNECTIONS_MAX 64L
/* Providers close idle connections after a minute or more; an older one is not tried. */
#define FETCH_IDLE_CONNECTION_S      50L
#define FETCH_STREAMS_PER_CONNECTION 100L
/* Resets of streams that are cancelled together are sent together. */
#define FETCH_FLUSH_MS 2

struct fetch_stream {
    struct fetch_multi *multi;
    CURL *curl;                 /* owned */
    struct curl_slist *headers; /* owned, wiped */
    const struct fetch_stream_events *events;
    void *ctx;
    struct fetch_stream *next; /* cancelled while libcurl was running */
    struct fetch_stream *live_next, *live_prev;
    bool is_final, head_told, cancelled;
    char errors[CURL_ERROR_SIZE];
};

struct fetch_multi {
    CURLM *curl;
    const struct fetch_multi_hooks *hooks;
    void *ctx;
    struct fetch_stream *cancelled;
    struct fetch_stream *live; /* all of them */
    unsigned running;          /* libcurl is on the stack */
    int64_t curl_at_ms;        /* when libcurl wants to be called; negative: not */
    int64_t flush_at_ms;       /* when resets of streams are sent; negative: there are none */
    int *sockets;              /* owned; watched now */
    size_t socket_count, socket_room;
};

/* ---- the loop's side ---- */

static void socket_note(struct fetch_multi *m, int fd, bool is_watched)
{
    size_t at = 0;

    while (at < m->socket_count && m->sockets[at] != fd) {
        at++;
    }
    if (at < m->socket_count) {
        m->sockets[at] = is_watched ? fd : m->sockets[--m->socket_count];
    } else if (is_watched) {
        if (m->socket_count == m->socket_room) {
            m->socket_room = m->socket_room * 2 + 16;
            m->sockets = mem_resize(m->sockets, m->socket_room, sizeof(*m->sockets));
        }
        m->sockets[m->socket_count++] = fd;
    }
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *slot)
{
    struct fetch_multi *m = ctx;
    unsigned wanted = 0;
    void *kept = slot;

    (void)easy;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) {
        wanted |= FETCH_WATCH_READ;
    }
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) {
        wanted |= FETCH_WATCH_WRITE;
    }
    socket_note(m, fd, what != CURL_POLL_REMOVE);
    m->hooks->watch(m->ctx, fd, wanted, &kept);
    if (what != CURL_POLL_REMOVE && kept != slot) {
        (void)curl_multi_assign(m->curl, fd, kept);
    }
    return 0;
}

/* One timer for both. */
static void timer_set(struct fetch_multi *m)
{
    int64_t at = m->curl_at_ms;

    if (at < 0 || (m->flush_at_ms >= 0 && m->flush_at_ms < at)) {
        at = m->flush_at_ms;
    }
    m->hooks->timer(m->ctx, at < 0 ? -1 : clock_until(at));
}

static int on_timer(CURLM *curl, long delay_ms, void *ctx)
{
    struct fetch_multi *m = ctx;

    (void)curl;
    m->curl_at_ms = delay_ms < 0 ? -1 : clock_mono_ms() + delay_ms;
    timer_set(m);
    return 0;
}

struct fetch_multi *fetch_multi_new(const struct fetch_multi_hooks *hooks, void *ctx)
{
    struct fetch_multi *m = mem_alloc(sizeof(*m));

    m->hooks = hooks;
    m->ctx = ctx;
    m->curl_at_ms = m->flush_at_ms = -1;
    m->curl = curl_multi_init();
    if (!m->curl) {
        abort();
    }
    (void)curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m);
    (void)curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, on_timer);
    (void)curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m);
    (void)curl_multi_setopt(m->curl, CURLMOPT_MAXCONNECTS, FETCH_IDLE_CONNECTIONS_MAX);
    (void)curl_multi_setopt(m->curl, CURLMOPT_MAX_CONCURRENT_STREAMS, FETCH_STREAMS_PER_CONNECTION);
    return m;
}

/* ---- the end of a stream ---- */

/* The list holds the key that was sent. */
static void headers_wipe(struct curl_slist *list)
{
    for (struct curl_slist *h = list; h; h = h->next) {
        mem_wipe(h->data, strlen(h->data));
    }
    curl_slist_free_all(list);
}

static void live_remove(struct fetch_stream *s)
{
    *(s->live_prev ? &s->live_prev->live_next : &s->multi->live) = s->live_next;
    if (s->live_next) {
        s->live_next->live_prev = s->live_prev;
    }
}

static void stream_free(struct fetch_stream *s)
{
    live_remove(s);
    (void)curl_multi_remove_handle(s->multi->curl, s->curl);
    curl_easy_cleanup(s->curl);
    headers_wipe(s->headers);
    free(s);
}

/* Frees one that has not come to its end. libcurl writes the reset of an HTTP/2 stream into its
 * buffer and sends it with whatever the connection carries next, which may be minutes later, while
 * the provider writes on and counts. A connection that nobody else uses is therefore closed, and
 * those that are in use are looked at in a moment as if something had come: that sends what waits.
 */
static void stream_abort(struct fetch_stream *s)
{
    struct fetch_multi *m = s->multi;

    (void)curl_easy_setopt(s->curl, CURLOPT_FORBID_REUSE, 1L);
    stream_free(s);
    if (m->live && m->flush_at_ms < 0) {
        m->flush_at_ms = clock_mono_ms() + FETCH_FLUSH_MS;
        timer_set(m);
    }
}

static void result_of(const struct fetch_stream *s, CURLcode rc, struct err *e)
{
    const char *why = s->errors[0] ? s->errors : curl_easy_strerror(rc);

    switch ((int)rc) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION: (void)err_set(e, ERR_UNAVAILABLE, 0, "%s", why); break;
    case CURLE_OPERATION_TIMEDOUT: (void)err_set(e, ERR_TIMEOUT, 0, "%s", why); break;
    case CURLE_WRITE_ERROR:
    case CURLE_ABORTED_BY_CALLBACK: (void)err_set(e, ERR_CANCELLED, 0, "%s", why); break;
    default: (void)err_set(e, ERR_IO, 0, "%s", why);
    }
}

static void stream_done(struct fetch_stream *s, CURLcode rc)
{
    struct err e;

    if (s->cancelled) {
        return;
    }
    if (rc != CURLE_OK) {
        result_of(s, rc, &e);
    }
    s->cancelled = true;
    s->events->done(s->ctx, rc == CURLE_OK ? NULL : &e);
    stream_free(s);
}

/* What ended while libcurl ran; only when it is not on the stack. */
static void multi_sweep(struct fetch_multi *m)
{
    const CURLMsg *message;
    struct fetch_stream *s;
    int left;

    if (m->running > 0) {
        return;
    }
    while ((s = m->cancelled)) {
        m->cancelled = s->next;
        stream_abort(s);
    }
    while ((message = curl_multi_info_read(m->curl, &left))) {
        struct fetch_stream *done = NULL;

        if (message->msg == CURLMSG_DONE) {
            CURLcode rc = message->data.result;

            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &done);
            stream_done(done, rc);
        }
    }
}

/* One that is closed meanwhile is unknown to libcurl, and passed over. */
static void flush_resets(struct fetch_multi *m)
{
    size_t count = m->socket_count;
    int *sockets AUTOFREE = mem_calloc(count + 1, sizeof(*sockets));
    int still;

    memcpy(sockets, m->sockets, count * sizeof(*sockets));
    m->flush_at_ms = -1;
    m->running++;
    for (size_t i = 0; i < count; i++) {
        (void)curl_multi_socket_action(m->curl, sockets[i], CURL_CSELECT_IN | CURL_CSELECT_OUT,
                                       &still);
    }
    m->running--;
    multi_sweep(m);
}

void fetch_multi_ready(struct fetch_multi *m, int fd, unsigned what)
{
    int flags = (what & FETCH_WATCH_READ ? CURL_CSELECT_IN : 0) |
                (what & FETCH_WATCH_WRITE ? CURL_CSELECT_OUT : 0);
    int still;

    m->running++;
    (void)curl_multi_socket_action(m->curl, fd, flags, &still);
    m->running--;
    multi_sweep(m);
}

void fetch_multi_timeout(struct fetch_multi *m)
{
    int64_t now = clock_mono_ms();
    int still;

    if (m->flush_at_ms >= 0 && now >= m->flush_at_ms) {
        flush_resets(m);
    }
    if (m->curl_at_ms >= 0 && now >= m->curl_at_ms) {
        m->curl_at_ms = -1;
        m->running++;
        (void)curl_multi_socket_action(m->curl, CURL_SOCKET_TIMEOUT, 0, &still);
        m->running--;
        multi_sweep(m);
    }
    timer_set(m);
}

void fetch_stream_cancel(struct fetch_stream *s)
{
    struct fetch_multi *m = s->multi;

    if (s->cancelled) {
        return;
    }
    s->cancelled = true;
    if (m->running > 0) {
        s->next = m->cancelled;
        m->cancelled = s;
        return;
    }
    stream_abort(s);
}

void fetch_stream_resume(struct fetch_stream *s)
{
    struct fetch_multi *m = s->multi;

    if (s->cancelled) {
        return;
    }
    m->running++;
    (void)curl_easy_pause(s->curl, CURLPAUSE_CONT);
    m->running--;
    multi_sweep(m);
}

/* ---- libcurl's callbacks ---- */

/* "HTTP/1.1 103 Early Hints": heads before the final one are not told. */
static bool is_final_status(struct str line)
{
    ptrdiff_t blank = str_find(line, ' ');

    return blank >= 0 && (size_t)blank + 1 < line.len && line.ptr[blank + 1] != '1';
}

static void field_tell(const struct fetch_stream *s, struct str line)
{
    ptrdiff_t colon = str_find(line, ':');

    if (colon > 0) {
        s->events->field(s->ctx, str_cut(line, 0, (size_t)colon),
                         str_trim(str_cut(line, (size_t)colon + 1, line.len)));
    }
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct fetch_stream *s = ctx;
    struct str line = str_trim(str_n(bytes, size * count));
    long status = 0;

    if (s->cancelled) {
        return 0;
    }
    if (s->head_told) {
        return size * count; /* a trailer */
    }
    if (str_starts(line, STR("HTTP/"))) {
        s->is_final = is_final_status(line);
    } else if (line.len > 0 && s->is_final) {
        field_tell(s, line);
    } else if (line.len == 0 && s->is_final) {
        s->head_told = true;
        (void)curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
        s->events->head(s->ctx, (unsigned)status);
    }
    return s->cancelled ? 0 : size * count;
}

static size_t on_data(char *bytes, size_t size, size_t count, void *ctx)
{
    struct fetch_stream *s = ctx;
    enum fetch_flow flow =
        s->cancelled ? FETCH_ABORT : s->events->data(s->ctx, str_n(bytes, size * count));

    if (s->cancelled || flow == FETCH_ABORT) {
        return 0;
    }
    return flow == FETCH_PAUSE ? CURL_WRITEFUNC_PAUSE : size * count;
}

static size_t on_body(char *room, size_t size, size_t count, void *ctx)
{
    struct fetch_stream *s = ctx;
    size_t len = 0;
    enum fetch_flow flow =
        s->cancelled ? FETCH_ABORT : s->events->body(s->ctx, room, size * count, &len);

    if (s->cancelled || flow == FETCH_ABORT) {
        return CURL_READFUNC_ABORT;
    }
    return flow == FETCH_PAUSE ? CURL_READFUNC_PAUSE : len;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct fetch_stream *s = ctx;

    if (offset != 0 || origin != SEEK_SET || s->cancelled) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    return s->events->rewind(s->ctx) ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

/* ---- start ---- */

static int headers_set(struct fetch_stream *s, const char *const *headers, struct err *e)
{
    /* Nothing of libcurl's own: no wait for 100-continue, no Accept that the client did not send.
     */
    s->headers = curl_slist_append(NULL, "Expect:");
    for (const char *const *h = headers; h && *h; h++) {
        if (str_find(str_of(*h), '\r') >= 0 || str_find(str_of(*h), '\n') >= 0) {
            return err_set(e, ERR_INVALID, 0, "a header with a line break");
        }
        s->headers = curl_slist_append(s->headers, *h);
    }
    (void)curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
    return 0;
}

/* libcurl itself does not look at the names that OpenSSL's own tools take. */
static void trust_set(CURL *c)
{
    const char *file = env_text("SSL_CERT_FILE", NULL);
    const char *dir = env_text("SSL_CERT_DIR", NULL);

    if (file) {
        (void)curl_easy_setopt(c, CURLOPT_CAINFO, file);
    }
    if (dir) {
        (void)curl_easy_setopt(c, CURLOPT_CAPATH, dir);
    }
    (void)curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
    (void)curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

static void options_set(struct fetch_stream *s, const struct fetch_stream_request *request)
{
    CURL *c = s->curl;

    (void)curl_easy_setopt(c, CURLOPT_PRIVATE, s);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->errors);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(c, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    (void)curl_easy_setopt(c, CURLOPT_PIPEWAIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(c, CURLOPT_MAXAGE_CONN, FETCH_IDLE_CONNECTION_S);
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_timeout_ms);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, s);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
    if (request->has_body) {
        (void)curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(c, CURLOPT_READFUNCTION, on_body);
        (void)curl_easy_setopt(c, CURLOPT_READDATA, s);
        (void)curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(c, CURLOPT_SEEKDATA, s);
        (void)curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
    }
    (void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, request->method);
    trust_set(c);
}

int fetch_stream_start(struct fetch_multi *m, const struct fetch_stream_request *request,
                       const struct fetch_stream_events *events, void *ctx,
                       struct fetch_stream **ret, struct err *e)
{
    struct fetch_stream *s = mem_alloc(sizeof(*s));

    s->multi = m;
    s->events = events;
    s->ctx = ctx;
    s->curl = curl_easy_init();
    if (!s->curl) {
        abort();
    }
    options_set(s, request);
    if (headers_set(s, request->headers, e) != 0 ||
        curl_easy_setopt(s->curl, CURLOPT_URL, request->url) != CURLE_OK ||
        curl_multi_add_handle(m->curl, s->curl) != CURLM_OK) {
        if (e && e->code == ERR_NONE) {
            (void)err_set(e, ERR_INVALID, 0, "a request that cannot be sent");
        }
        curl_easy_cleanup(s->curl);
        headers_wipe(s->headers);
        free(s);
        return -1;
    }
    s->live_next = m->live;
    if (m->live) {
        m->live->live_prev = s;
    }
    m->live = s;
    *ret = s;
    return 0;
}

/*
 * What the credentials proxy adds to requests and to events of streams. This program is everything
 * around it, on one loop: the provider, sandboxd's end of its socket, and the agents, so that what
 * is measured is the proxy and not a measurer that is slower than it. One thread.
 *
 *     tokens DIRECTORY SANDBOX STREAMS EVENTS PERIOD_US
 *
 * DIRECTORY holds run/broker/credentials/ and run/out/<SANDBOX>/. Prints "ready", and then for each
 * line on stdin its answer: "requests N" the median microseconds of N, straight and through the
 * proxy in turn; "straight" and "through" what 200 streams took, each event with the time of its
 * sending in it: p50, p99 and most microseconds from sending to reading, events, microseconds all
 * of it took, microseconds of CPU of this program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/record.h"

#define STREAMS_MAX    1000
#define READ_BYTES     65536
#define REQUEST_BYTES  50000
#define START_US       500000
#define GIVE_UP_US     60000000
#define NS_PER_US      1000
#define EVENTS_AT_ONCE 64
#define KEPT_BYTES     131072
#define TOKEN          "tk_of-a-bench"
#define ANSWER         "{\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}"
#define LAST                                                                                      \
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\"" \
    ":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n"

enum kind {
    BROKER_LISTENER,
    BROKER,
    PROVIDER_LISTENER,
    PROVIDER,
    AGENT
};

/* One descriptor on the loop. */
struct peer {
    enum kind kind;
    int fd;
    struct buf in;  /* what has come and is not read yet; of an agent the tail of it */
    size_t awaited; /* of a provider: bytes of a body that are still to come */
    bool is_short;
    /* A stream that the provider sends. */
    bool waits;
    unsigned left;
    int64_t due_us;
    /* A stream or an answer that an agent reads. */
    unsigned seen;
    bool is_done;
};

static struct {
    int epoll;
    uint16_t port;
    const char *dir;
    const char *sandbox;
    unsigned streams, events;
    int64_t period_us;
    struct peer *senders[STREAMS_MAX];
    unsigned sender_count;
    int64_t *delays; /* owned */
    size_t delay_count;
} bench;

static _Noreturn void die(const char *what)
{
    struct err e;
    (void)err_set(&e, ERR_IO, errno, "tokens: %s", what);
    (void)fprintf(stderr, "%s\n", e.msg);
    exit(1);
}

/* The digits before that byte. */
static int64_t number(const char *text, char end)
{
    const char *close = strchr(text, end);
    uint64_t value = 0;
    if (!close || !str_to_u64(str_n(text, (size_t)(close - text)), INT64_MAX, &value)) {
        die("a number is wanted");
    }
    return (int64_t)value;
}

static void send_all(int fd, const void *bytes, size_t len)
{
    struct err e;
    if (fd_write_all(fd, bytes, len, clock_mono_ms() + 10000, &e) != 0) {
        die(e.msg);
    }
}

/* ---- peers ---- */

static struct peer *peer_new(enum kind kind, int fd)
{
    struct peer *p = mem_alloc(sizeof(*p));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    *p = (struct peer){.kind = kind, .fd = fd};
    buf_init(&p->in, KEPT_BYTES);
    if (epoll_ctl(bench.epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("epoll_ctl");
    }
    return p;
}

static void peer_free(struct peer *p)
{
    for (unsigned i = 0; i < bench.sender_count; i++) {
        if (bench.senders[i] == p) {
            bench.senders[i] = bench.senders[--bench.sender_count];
        }
    }
    (void)close(p->fd);
    buf_done(&p->in);
    free(p);
}

/* ---- sandboxd's end ---- */

static void broker_grant(const struct record *r, struct buf *out)
{
    char url[64];
    struct record_writer w = record_begin(out, "grant");
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", bench.port);
    record_add(&w, "n", record_get(r, "n"));
    record_adds(&w, "status", "ok");
    record_adds(&w, "task_id", "task");
    record_addn(&w, "requests_per_minute", 0);
    record_adds(&w, "provider", "stub");
    record_adds(&w, "base_url", url);
    record_adds(&w, "header", "authorization");
    record_adds(&w, "prefix", "Bearer ");
    record_adds(&w, "key", "sk-of-the-owner");
    record_adds(&w, "state", "ok");
    record_adds(&w, "path", "POST /chat/completions");
    record_adds(&w, "usage", "openai-chat");
    (void)record_end(&w);
}

static void broker_answer(const struct record *r, struct buf *out)
{
    if (record_is(r, "hello")) {
        struct record_writer w = record_begin(out, "hello");
        record_addn(&w, "protocol", RECORD_PROTOCOL);
        (void)record_end(&w);
    } else if (record_is(r, "grant")) {
        broker_grant(r, out);
    } else if (record_is(r, "admit")) {
        struct record_writer w = record_begin(out, "admitted");
        record_add(&w, "n", record_get(r, "n"));
        record_addn(&w, "left_microusd", 1000000000);
        record_addn(&w, "input_price", 3000000);
        record_addn(&w, "output_price", 15000000);
        (void)record_end(&w);
    } else if (record_is(r, "usage")) {
        struct record_writer w = record_begin(out, "noted");
        record_add(&w, "n", record_get(r, "n"));
        (void)record_end(&w);
    }
}

static void broker_read(struct peer *p)
{
    BUF_AUTO(out, RECORD_FRAME_MAX);
    struct str frame;
    struct record r;
    struct err e;
    while (record_next(&p->in, &frame, &e) > 0) {
        if (record_parse(frame, &r, &e) != 0) {
            die(e.msg);
        }
        broker_answer(&r, &out);
        record_skip(&p->in, frame);
    }
    send_all(p->fd, out.ptr, out.len);
}

/* ---- the provider ---- */

static void provider_answer(struct peer *p)
{
    static const char short_answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    char text[512];
    if (p->is_short) {
        int len = snprintf(text, sizeof(text), short_answer, sizeof(ANSWER) - 1, ANSWER);
        send_all(p->fd, text, (size_t)len);
        return;
    }
    send_all(p->fd, head, sizeof(head) - 1);
    p->waits = true;
    bench.senders[bench.sender_count++] = p;
}

/* All begin together, so that nobody who still asks is late at reading; spread over the period. */
static void provider_begin_together(void)
{
    int64_t start = clock_mono_us() + START_US;
    if (bench.sender_count < bench.streams || !bench.senders[0]->waits) {
        return;
    }
    for (unsigned i = 0; i < bench.sender_count; i++) {
        struct peer *p = bench.senders[i];
        p->waits = false;
        p->left = bench.events;
        p->due_us = start + bench.period_us * i / bench.streams;
    }
}

static void provider_read(struct peer *p)
{
    ptrdiff_t end = -1;
    if (p->awaited == 0) {
        const char *at = memmem(p->in.ptr, p->in.len, "\r\n\r\n", 4);
        const char *length = memmem(p->in.ptr, p->in.len, "ength: ", 7);
        end = at ? at - p->in.ptr + 4 : -1;
        if (!at || !length || p->in.len < (size_t)end + 40) {
            return;
        }
        p->is_short = memmem(at, 40, "short", 5) != NULL;
        p->awaited = (size_t)(number(length + 7, '\r') + end);
    }
    if (p->in.len >= p->awaited) {
        buf_reset(&p->in);
        p->awaited = 0;
        provider_answer(p);
        provider_begin_together();
    }
}

static void provider_send(struct peer *p)
{
    char event[256];
    char text[512];
    int len = snprintf(event, sizeof(event),
                       "data: {\"choices\":[{\"delta\":{\"content\":\" token\"},\"finish_reason\":"
                       "null}],\"t\":%lld}\n\n",
                       (long long)clock_mono_us());
    p->left--;
    p->due_us += bench.period_us;
    int size = snprintf(text, sizeof(text), "%x\r\n%s\r\n", (unsigned)len, event);
    if (p->left == 0) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, "%x\r\n%s\r\n0\r\n\r\n",
                         (unsigned)sizeof(LAST) - 1, LAST);
    }
    send_all(p->fd, text, (size_t)size);
}

/* Sends what is due; microseconds until the next, GIVE_UP_US for none. */
static int64_t provider_tick(void)
{
    int64_t next = GIVE_UP_US;
    for (unsigned i = 0; i < bench.sender_count; i++) {
        struct peer *p = bench.senders[i];
        int64_t wait = p->due_us - clock_mono_us();
        if (p->waits || p->left == 0) {
            continue;
        }
        if (wait <= 0) {
            provider_send(p);
            wait = p->due_us - clock_mono_us();
        }
        if (p->left > 0 && wait < next) {
            next = wait > 0 ? wait : 0;
        }
    }
    return next;
}

/* ---- agents ---- */

static struct peer *agent_new(bool through)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(bench.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    BUF_AUTO(hello, 256);
    char path[512];
    struct err e;
    int fd = -1;
    if (!through) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
            die("connect");
        }
        return peer_new(AGENT, fd);
    }
    (void)snprintf(path, sizeof(path), "%s/run/out/%s/out.sock", bench.dir, bench.sandbox);
    if (fd_unix_connect(path, &fd, &e) != 0) {
        die(e.msg);
    }
    struct record_writer w = record_begin(&hello, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    (void)record_end(&w);
    send_all(fd, hello.ptr, hello.len);
    return peer_new(AGENT, fd);
}

static void agent_ask(struct peer *p, bool through, const char *word)
{
    BUF_AUTO(body, REQUEST_BYTES + 1024);
    BUF_AUTO(text, REQUEST_BYTES + 2048);
    buf_printf(&body, "{\"kind\":\"%s\",\"model\":\"m-1\",\"max_tokens\":1000,\"messages\":\"",
               word);
    while (body.len < REQUEST_BYTES) {
        buf_puts(&body, "a prompt of some length, ");
    }
    buf_puts(&body, "\",\"stream\":true}");
    buf_printf(&text,
               "POST %s/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " TOKEN
               "\r\nContent-Length: %zu\r\n\r\n%s",
               through ? "/stub" : "", body.len, body.ptr);
    p->is_done = false;
    send_all(p->fd, text.ptr, text.len);
}

/* Takes the stamps out of what came; keeps what may be the beginning of another. */
static void agent_read(struct peer *p)
{
    int64_t now = clock_mono_us();
    const char *end = p->in.ptr + p->in.len;
    const char *at = p->in.ptr;
    const char *kept = p->in.ptr;
    while ((at = memmem(at, (size_t)(end - at), "\"t\":", 4)) != NULL) {
        const char *close = memchr(at, '}', (size_t)(end - at));
        if (!close) {
            break;
        }
        if (bench.delay_count >= (size_t)bench.streams * bench.events) {
            die("more events than were sent");
        }
        bench.delays[bench.delay_count++] = now - number(at + 4, '}');
        p->seen++;
        kept = at = close;
    }
    struct str tail = str_n(kept, (size_t)(end - kept));
    p->is_done =
        str_ends(tail, STR("0\r\n\r\n")) || str_contains(tail, STR("completion_tokens\":9}}"));
    /* The end of a stream comes behind that, and nothing of it matters. */
    size_t keep = tail.len < 256 ? tail.len : 256;
    memmove(p->in.ptr, end - keep, keep);
    p->in.len = p->is_done ? 0 : keep;
}

/* ---- the loop ---- */

static void accept_one(const struct peer *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        die("accept");
    }
    (void)peer_new(listener->kind == BROKER_LISTENER ? BROKER : PROVIDER, fd);
}

static void on_input(struct peer *p)
{
    static char bytes[READ_BYTES];
    if (p->kind == BROKER_LISTENER || p->kind == PROVIDER_LISTENER) {
        accept_one(p);
        return;
    }
    ssize_t n = read(p->fd, bytes, sizeof(bytes));
    if (n <= 0 && p->kind == PROVIDER) {
        peer_free(p);
        return;
    }
    if (n <= 0) {
        die(p->kind == AGENT ? "a stream broke off" : "the proxy left");
    }
    buf_add(&p->in, bytes, (size_t)n);
    switch (p->kind) {
    case BROKER: broker_read(p); break;
    case PROVIDER: provider_read(p); break;
    default: agent_read(p); break;
    }
}

static void loop_once(void)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int64_t wait_us = provider_tick();
    struct timespec wait = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * NS_PER_US};
    int n = epoll_pwait2(bench.epoll, events, EVENTS_AT_ONCE, &wait, NULL);
    if (n < 0 || (n == 0 && wait_us == GIVE_UP_US)) {
        die("nothing happens any more");
    }
    for (int i = 0; i < n; i++) {
        on_input(events[i].data.ptr);
    }
}

/* ---- what is measured ---- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t quantile(int64_t *values, size_t count, size_t percent)
{
    qsort(values, count, sizeof(*values), compare);
    return values[(count - 1) * percent / 100];
}

static int64_t cpu_us(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * INT64_C(1000000) +
           used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static int64_t one_request(struct peer *p, bool through)
{
    int64_t start = clock_mono_us();
    agent_ask(p, through, "short");
    while (!p->is_done) {
        loop_once();
    }
    return clock_mono_us() - start;
}

static void requests(unsigned count)
{
    int64_t *took[2] = {mem_calloc(count, sizeof(int64_t)), mem_calloc(count, sizeof(int64_t))};
    struct peer *agents[2] = {agent_new(false), agent_new(true)};
    for (unsigned i = 0; i < count; i++) {
        for (int through = 0; through < 2; through++) {
            took[through][i] = one_request(agents[through], through);
        }
    }
    (void)printf("%lld %lld\n", (long long)quantile(took[0], count, 50),
                 (long long)quantile(took[1], count, 50));
    for (int through = 0; through < 2; through++) {
        peer_free(agents[through]);
        free(took[through]);
    }
}

static bool all_done(struct peer *const *agents)
{
    for (unsigned i = 0; i < bench.streams; i++) {
        if (!agents[i]->is_done) {
            return false;
        }
    }
    return true;
}

static void streams(bool through)
{
    struct peer *agents[STREAMS_MAX];
    bench.delay_count = 0;
    bench.sender_count = 0;
    for (unsigned i = 0; i < bench.streams; i++) {
        agents[i] = agent_new(through);
        agent_ask(agents[i], through, "long");
        loop_once();
    }
    while (bench.delay_count == 0) {
        loop_once();
    }
    int64_t start = clock_mono_us();
    int64_t cpu = cpu_us();
    while (!all_done(agents)) {
        loop_once();
    }
    int64_t took = clock_mono_us() - start;
    cpu = cpu_us() - cpu;
    for (unsigned i = 0; i < bench.streams; i++) {
        if (agents[i]->seen != bench.events) {
            die("an event was lost");
        }
        peer_free(agents[i]);
    }
    int64_t p50 = quantile(bench.delays, bench.delay_count, 50);
    int64_t p99 = quantile(bench.delays, bench.delay_count, 99);
    (void)printf("%lld %lld %lld %zu %lld %lld\n", (long long)p50, (long long)p99,
                 (long long)bench.delays[bench.delay_count - 1], bench.delay_count, (long long)took,
                 (long long)cpu);
}

/* ---- start ---- */

static void listen_all(void)
{
    char path[512];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    struct err e;
    int broker = -1;
    int provider = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(path, sizeof(path), "%s/run/broker/credentials/broker.sock", bench.dir);
    bench.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (fd_unix_listen(path, 0666, (uid_t)-1, (gid_t)-1, 8, &broker, &e) != 0) {
        die(e.msg);
    }
    if (provider < 0 || bind(provider, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(provider, STREAMS_MAX) != 0 ||
        getsockname(provider, (struct sockaddr *)&at, &len) != 0) {
        die("listen");
    }
    bench.port = ntohs(at.sin_port);
    (void)peer_new(BROKER_LISTENER, broker);
    (void)peer_new(PROVIDER_LISTENER, provider);
}

/* Lines wait while something is measured, and the loop while no line comes. */
static void serve(void)
{
    char line[64];
    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, "requests ", 9) == 0) {
            requests((unsigned)number(line + 9, '\n'));
        } else if (strcmp(line, "straight\n") == 0 || strcmp(line, "through\n") == 0) {
            streams(line[0] == 't');
        }
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fputs("usage: tokens DIRECTORY SANDBOX STREAMS EVENTS PERIOD_US\n", stderr);
        return 2;
    }
    bench.dir = argv[1];
    bench.sandbox = argv[2];
    bench.streams = (unsigned)number(argv[3], '\0');
    bench.events = (unsigned)number(argv[4], '\0');
    bench.period_us = number(argv[5], '\0');
    if (bench.streams == 0 || bench.streams > STREAMS_MAX || bench.events == 0) {
        die("STREAMS or EVENTS");
    }
    bench.delays = mem_calloc((size_t)bench.streams * bench.events, sizeof(*bench.delays));
    listen_all();
    (void)puts("ready");
    (void)fflush(stdout);
    serve();
    return 0;
}

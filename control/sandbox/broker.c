/*
 * Broker of the preview proxy: hands out the route table and its changes, takes wakes and activity.
 * One thread, one poll loop. Must never wait for a proxy: what does not fit into its buffer is sent
 * when it has read the rest.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/sandbox/passes.h"
#include "control/sandbox/table.h"
#include "control/sandbox/why.h"
#include "control/store/watch.h"
#include "control/vault/vault.h"
#include "lib/clock.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/record.h"
#include "lib/thread.h"

#define BROKER_CONNECTIONS     IDLE_PROXIES_MAX
#define BROKER_WAITS_MAX       1024
#define BROKER_OUT_BYTES_MAX   (8UL * 1024 * 1024)
#define BROKER_OUT_PAUSE_BYTES (1UL * 1024 * 1024)
#define BROKER_IN_BYTES_MAX    (256UL * 1024)
#define BROKER_REST_MS         60000
#define BROKER_SWEEP_MS        200  /* from one look at who may load previews to the next */
#define BROKER_POLL_MS         1000 /* the same where nobody tells of writes */

struct broker_wait {
    struct ulid id;
    int64_t ticket;
};

struct broker_connection {
    int fd; /* -1: free */
    bool greeted;
    bool synced;
    int64_t sent_change;
    struct buf in;
    struct buf out;
    struct broker_wait waits[BROKER_WAITS_MAX];
    size_t wait_count;
};

struct broker {
    struct sandbox_service *service;
    int listen_fd;
    int watch_fd; /* tells of writes to the database; -1: nobody does */
    bool sweep_due;
    int64_t swept_ms;
    struct broker_connection connections[BROKER_CONNECTIONS];
};

static int broker_listen_fd = -1;

int broker_listen(struct sandbox_service *s, struct err *e)
{
    char path[PATHS_MAX];
    s->broker_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->broker_wake_fd < 0) {
        return err_set(e, ERR_IO, errno, "make an eventfd");
    }
    (void)paths_broker_socket(path, s->config->data_dir, "preview");
    return fd_unix_listen(path, 0660, 0, PATHS_PREVIEW_UID(s->config->uid_base), 8,
                          &broker_listen_fd, e);
}

void broker_wake(struct sandbox_service *s)
{
    uint64_t one = 1;
    ssize_t ignored = write(s->broker_wake_fd, &one, sizeof(one));
    (void)ignored; /* a full counter is a wake too */
}

/* Its number as a proxy (idle.h). */
static size_t broker_place(const struct broker *br, const struct broker_connection *c)
{
    return (size_t)(c - br->connections);
}

static void broker_close(struct broker *br, struct broker_connection *c)
{
    if (c->greeted) {
        ask_proxy_left(br->service, broker_place(br, c));
    }
    fd_close_cleanup(&c->fd);
    buf_done(&c->in);
    buf_done(&c->out);
    *c = (struct broker_connection){.fd = -1};
}

/* ---- what is sent ---- */

static const char *broker_state(const struct sandbox *b)
{
    switch (b->status) {
    case SANDBOX_CREATING:
    case SANDBOX_STARTING: return "starting";
    case SANDBOX_RUNNING:
    case SANDBOX_FROZEN: return "running";
    case SANDBOX_STOPPING: return "stopping";
    case SANDBOX_STOPPED: return "asleep";
    case SANDBOX_ERROR: return "failed";
    case SANDBOX_DELETING:
    case SANDBOX_DELETED: break;
    }
    return NULL;
}

/* Its start command was run: from here on it is the app that is waited for. */
static bool broker_web_was_run(const struct sandbox *b)
{
    for (size_t i = 0; i < b->process_count; i++) {
        const struct sandbox_process *p = &b->processes[i];
        if (str_is(str_of(p->type), "web") && (p->pid > 0 || p->restarts > 0)) {
            return true;
        }
    }
    return false;
}

static const char *broker_phase(const struct sandbox *b)
{
    struct str phase = str_of(b->phase);
    if (b->status == SANDBOX_RUNNING &&
        (str_is(phase, "running") || (str_is(phase, "starting") && broker_web_was_run(b)))) {
        return "waiting";
    }
    bool queued = b->want == WANT_RUN && !b->working && b->status != SANDBOX_RUNNING;
    return queued && !b->phase[0] ? "queued" : b->phase;
}

static void broker_add_gone(struct buf *out, const struct ulid *id)
{
    struct record_writer w = record_begin(out, "gone");
    record_adds(&w, "id", id->text);
    (void)record_end(&w);
}

static void broker_add_route(struct buf *out, const struct sandbox *b)
{
    const char *state = b->gone ? NULL : broker_state(b);
    if (!state) {
        broker_add_gone(out, &b->id);
        return;
    }
    /* A wake that waits its turn is a start already, for whoever looks. */
    bool waking =
        b->want == WANT_RUN && (b->status == SANDBOX_STOPPED || b->status == SANDBOX_ERROR);
    struct record_writer w = record_begin(out, "route");
    record_adds(&w, "id", b->id.text);
    record_addn(&w, "generation", b->generation);
    record_adds(&w, "state", b->ask.n > 0 ? "stopping" : waking ? "starting" : state);
    if (b->ask.n > 0) {
        record_addn(&w, "ask", b->ask.n);
    }
    for (size_t i = 0; i < b->port_count; i++) {
        record_addn(&w, "port", b->ports[i]);
    }
    for (size_t i = 0; i < b->open_count; i++) {
        record_addn(&w, "open", b->open[i]);
    }
    record_adds(&w, "access", b->is_private ? "private" : "public");
    record_addn(&w, "epoch", b->access_epoch);
    record_addn(&w, "usual_ms", b->usual_start_ms);
    record_adds(&w, "phase", broker_phase(b));
    record_adds(&w, "detail", b->detail);
    (void)record_end(&w);
}

static void broker_add_settings(struct broker *br, struct buf *out)
{
    const struct config *c = br->service->config;
    uint8_t key[CRYPTO_KEY_BYTES];
    BUF_AUTO(hex, CRYPTO_SHA256_HEX);
    vault_preview_public(br->service->vault, key);
    crypto_hex(str_n(key, sizeof(key)), &hex);
    struct record_writer w = record_begin(out, "settings");
    record_adds(&w, "preview_domain", c->preview_domain);
    record_adds(&w, "console_host", c->console_host);
    record_addn(&w, "http_port", c->http_port);
    record_addb(&w, "tls", c->preview_tls);
    record_add(&w, "pass_key", buf_str(&hex));
    record_addn(&w, "wakes_per_minute_per_client", c->wakes_per_minute_per_client);
    record_addn(&w, "wakes_per_minute", c->wakes_per_minute);
    /* Hashes only: the proxy keeps a token that is shown to a preview from the app behind it. */
    for (unsigned i = 0; i < c->token_count; i++) {
        char hash[CRYPTO_SHA256_HEX];
        crypto_sha256_hex(str_of(c->tokens[i].secret), hash);
        record_adds(&w, "api_token", hash);
    }
    (void)record_end(&w);
}

/* Everything that changed since this connection was last told, as far as there is room. */
static void broker_add_changes(struct broker *br, struct broker_connection *c)
{
    struct sandbox_service *s = br->service;
    size_t bucket = 0;
    LOCK_GUARD(&s->lock);
    if (c->out.len > BROKER_OUT_PAUSE_BYTES || (c->synced && c->sent_change == s->next_change)) {
        return;
    }
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (!c->synced ? !b->gone : b->change > c->sent_change) {
            broker_add_route(&c->out, b);
        }
    }
    c->sent_change = s->next_change;
    if (!c->synced) {
        struct record_writer w = record_begin(&c->out, "synced");
        (void)record_end(&w);
        c->synced = true;
    }
}

static void broker_add_failed(struct broker *br, struct broker_connection *c, const struct ulid *id,
                              const struct err *e)
{
    struct why why;
    char last_end[sizeof(((struct sandbox *)NULL)->last_end)] = "";
    {
        LOCK_GUARD(&br->service->lock);
        const struct sandbox *b = table_live(br->service, id);
        if (b) {
            memcpy(last_end, b->last_end, sizeof(last_end));
        }
    }
    why_failed_start(e, last_end, &why);
    struct record_writer w = record_begin(&c->out, "wake_failed");
    record_adds(&w, "id", id->text);
    record_adds(&w, "code", e->tag[0] ? e->tag : "start_failed");
    record_adds(&w, "message", why.message);
    record_adds(&w, "lines", why.lines);
    record_addn(&w, "retry_after_s", 5);
    (void)record_end(&w);
}

/* Outcomes of the wakes this connection asked for. */
static void broker_check_waits(struct broker *br, struct broker_connection *c)
{
    struct err e;
    for (size_t i = 0; i < c->wait_count;) {
        struct broker_wait *wait = &c->waits[i];
        enum sandbox_outcome outcome = sandbox_outcome(br->service, &wait->id, wait->ticket, &e);
        if (outcome == SANDBOX_PENDING) {
            i++;
            continue;
        }
        if (outcome == SANDBOX_FAILED) {
            broker_add_failed(br, c, &wait->id, &e);
        }
        *wait = c->waits[--c->wait_count];
    }
}

/* ---- what comes ---- */

static void broker_on_wake(struct broker *br, struct broker_connection *c, const struct ulid *id)
{
    struct err e;
    int64_t ticket = 0;
    if (sandbox_start(br->service, id, "preview", &ticket, &e) != 0) {
        broker_add_failed(br, c, id, &e);
        return;
    }
    if (c->wait_count < BROKER_WAITS_MAX) {
        c->waits[c->wait_count++] = (struct broker_wait){.id = *id, .ticket = ticket};
        return;
    }
    (void)err_set(&e, ERR_BUSY, 0, "%d starts are waited for", BROKER_WAITS_MAX);
    broker_add_failed(br, c, id, &e);
}

static void broker_on_status(struct broker *br, struct broker_connection *c, const struct record *r,
                             const struct ulid *id)
{
    struct why why = {.state = "asleep"};
    uint64_t port = 0;
    struct str n = record_get(r, "n");
    (void)record_get_u64(r, "port", 65535, &port);
    {
        LOCK_GUARD(&br->service->lock);
        const struct sandbox *b = table_live(br->service, id);
        if (b) {
            why_port(b, (uint16_t)port, &why);
        }
    }
    struct record_writer w = record_begin(&c->out, "status");
    record_add(&w, "n", n);
    record_adds(&w, "id", id->text);
    record_adds(&w, "state", why.state);
    record_adds(&w, "message", why.message);
    record_adds(&w, "lines", why.lines);
    (void)record_end(&w);
}

static void broker_on_activity(struct broker *br, const struct broker_connection *c,
                               const struct record *r, const struct ulid *id)
{
    uint64_t open = 0;
    uint64_t age_ms = 0;
    if (record_get_u64(r, "open", UINT32_MAX, &open) &&
        record_get_u64(r, "age_ms", INT64_MAX, &age_ms)) {
        ask_take_activity(br->service, broker_place(br, c), id, (int64_t)open, (int64_t)age_ms);
    }
}

static void broker_on_stopping(struct broker *br, const struct broker_connection *c,
                               const struct record *r, const struct ulid *id)
{
    uint64_t n = 0;
    uint64_t open = 0;
    uint64_t busy = 0;
    uint64_t age_ms = 0;
    if (!record_get_u64(r, "n", INT64_MAX, &n) || !record_get_u64(r, "open", UINT32_MAX, &open) ||
        !record_get_u64(r, "busy", UINT32_MAX, &busy)) {
        return;
    }
    bool aged = record_get_u64(r, "age_ms", INT64_MAX, &age_ms);
    ask_take_answer(br->service, broker_place(br, c), id,
                    &(struct ask_answer){.n = (int64_t)n,
                                         .open = (int64_t)open,
                                         .busy = (int64_t)busy,
                                         .age_ms = aged ? (int64_t)age_ms : -1});
}

static int broker_on_hello(struct broker *br, struct broker_connection *c, const struct record *r,
                           struct err *e)
{
    uint64_t protocol = 0;
    if (!record_is(r, "hello") || !record_get_u64(r, "protocol", UINT32_MAX, &protocol) ||
        protocol != RECORD_PROTOCOL) {
        return err_set(e, ERR_PROTOCOL, 0, "hello with protocol %d is wanted", RECORD_PROTOCOL);
    }
    struct record_writer w = record_begin(&c->out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    (void)record_end(&w);
    c->greeted = true;
    ask_proxy_came(br->service, broker_place(br, c));
    broker_add_settings(br, &c->out);
    return 0;
}

static int broker_on_record(struct broker *br, struct broker_connection *c, const struct record *r,
                            struct err *e)
{
    struct ulid id;
    if (!c->greeted) {
        return broker_on_hello(br, c, r, e);
    }
    if (!ulid_parse(record_get(r, "id"), &id)) {
        return err_set(e, ERR_PROTOCOL, 0, "a record without an id");
    }
    if (record_is(r, "wake")) {
        broker_on_wake(br, c, &id);
    } else if (record_is(r, "status")) {
        broker_on_status(br, c, r, &id);
    } else if (record_is(r, "activity")) {
        broker_on_activity(br, c, r, &id);
    } else if (record_is(r, "stopping")) {
        broker_on_stopping(br, c, r, &id);
    } else if (record_is(r, "enter")) {
        passes_enter(br->service, r, &id, &c->out);
    } else if (record_is(r, "renew")) {
        passes_renew(br->service, r, &id, &c->out);
    } else {
        return err_set(e, ERR_PROTOCOL, 0, "an unknown record");
    }
    return 0;
}

static int broker_parse(struct broker *br, struct broker_connection *c, struct err *e)
{
    struct str frame;
    struct record r;
    int n = 0;
    while ((n = record_next(&c->in, &frame, e)) > 0) {
        if (record_parse(frame, &r, e) != 0 || broker_on_record(br, c, &r, e) != 0) {
            return -1;
        }
        record_skip(&c->in, frame);
    }
    return n;
}

/* ---- the loop ---- */

static void broker_read(struct broker *br, struct broker_connection *c)
{
    struct err e;
    if (!buf_reserve(&c->in, 16384)) {
        broker_close(br, c);
        return;
    }
    ssize_t n = recv(c->fd, c->in.ptr + c->in.len, 16384, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        log_info("the preview proxy left");
        broker_close(br, c);
        return;
    }
    buf_grew(&c->in, (size_t)n);
    if (broker_parse(br, c, &e) != 0) {
        log_warn("the preview proxy broke its protocol", "error", e.msg);
        broker_close(br, c);
    }
}

static void broker_flush(struct broker *br, struct broker_connection *c)
{
    while (c->fd >= 0 && c->out.len > 0) {
        ssize_t n = send(c->fd, c->out.ptr, c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n < 0) {
            broker_close(br, c);
            return;
        }
        buf_consume(&c->out, (size_t)n);
    }
}

static void broker_accept(struct broker *br)
{
    struct err e;
    pid_t pid = 0;
    uid_t uid = 0;
    int fd AUTOCLOSE = accept4(br->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (fd_peer(fd, &pid, &uid, &e) != 0 ||
        (uid != PATHS_PREVIEW_UID(br->service->config->uid_base) && uid != 0)) {
        log_warn("a stranger at the preview broker was refused");
        return;
    }
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        struct broker_connection *c = &br->connections[i];
        if (c->fd < 0) {
            *c = (struct broker_connection){.fd = TAKE_FD(fd)};
            buf_init(&c->in, BROKER_IN_BYTES_MAX);
            buf_init(&c->out, BROKER_OUT_BYTES_MAX);
            return;
        }
    }
    log_warn("too many preview proxies; one was refused");
}

static void broker_update(struct broker *br)
{
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        struct broker_connection *c = &br->connections[i];
        if (c->fd >= 0 && c->greeted) {
            broker_check_waits(br, c);
            broker_add_changes(br, c);
        }
        broker_flush(br, c);
    }
}

/* Who may load previews is changed by other processes too. */
static void broker_sweep(struct broker *br)
{
    bool is_told = br->watch_fd >= 0;
    int64_t since_ms = clock_mono_ms() - br->swept_ms;
    if (since_ms >= (is_told ? BROKER_SWEEP_MS : BROKER_POLL_MS) && (br->sweep_due || !is_told)) {
        br->sweep_due = false;
        br->swept_ms = clock_mono_ms();
        sandbox_access_sweep(br->service);
    }
}

static int broker_rest_ms(const struct broker *br)
{
    return br->watch_fd < 0 ? BROKER_POLL_MS : br->sweep_due ? BROKER_SWEEP_MS : BROKER_REST_MS;
}

/* Waits, and takes what came. */
static void broker_turn(struct broker *br)
{
    struct pollfd p[3 + BROKER_CONNECTIONS] = {
        {.fd = br->listen_fd, .events = POLLIN},
        {.fd = br->service->broker_wake_fd, .events = POLLIN},
        {.fd = br->watch_fd, .events = POLLIN}};
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        const struct broker_connection *c = &br->connections[i];
        p[3 + i] =
            (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (c->out.len ? POLLOUT : 0))};
    }
    (void)poll(p, ARRAY_LEN(p), broker_rest_ms(br));
    uint64_t drained = 0;
    ssize_t ignored = read(br->service->broker_wake_fd, &drained, sizeof(drained));
    (void)ignored;
    if (p[2].revents) {
        watch_drain(br->watch_fd);
        br->sweep_due = true;
    }
    broker_sweep(br);
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        if (p[3 + i].revents && br->connections[i].fd >= 0) {
            broker_read(br, &br->connections[i]);
        }
    }
    if (p[0].revents) {
        broker_accept(br);
    }
    broker_update(br);
}

void *broker_run(void *service)
{
    struct broker *br = mem_alloc(sizeof(*br));
    br->service = service;
    br->listen_fd = broker_listen_fd;
    br->watch_fd = watch_open(br->service->config->data_dir);
    br->sweep_due = true;
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        br->connections[i].fd = -1;
    }
    while (!atomic_load(&br->service->stopping)) {
        broker_turn(br);
    }
    for (size_t i = 0; i < BROKER_CONNECTIONS; i++) {
        broker_close(br, &br->connections[i]);
    }
    fd_close_cleanup(&br->watch_fd);
    free(br);
    return NULL;
}

/*
 * Client of sandboxd-engine. Any thread; a connection is used by one call at a time.
 */
#include "control/sandbox/engine_client.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define ENGINE_KEPT             4
#define ENGINE_HELLO_MS         5000
#define ENGINE_RECORD_BYTES_MAX (RECORD_FRAME_MAX + 16)

struct engine_client {
    char path[PATHS_MAX];
    pthread_mutex_t lock;
    int kept[ENGINE_KEPT]; /* idle connections, -1: none */
};

struct engine_client *engine_client_new(const char *data_dir)
{
    struct engine_client *c = mem_alloc(sizeof(*c));
    (void)paths_engine_socket(c->path, data_dir);
    (void)pthread_mutex_init(&c->lock, NULL);
    for (int i = 0; i < ENGINE_KEPT; i++) {
        c->kept[i] = -1;
    }
    return c;
}

void engine_client_free(struct engine_client *c)
{
    for (int i = 0; c && i < ENGINE_KEPT; i++) {
        fd_close_cleanup(&c->kept[i]);
    }
    free(c);
}

static int engine_hello(int fd, struct err *e)
{
    BUF_AUTO(out, 256);
    BUF_AUTO(in, ENGINE_RECORD_BYTES_MAX);
    struct record r;
    int64_t deadline_ms = clock_mono_ms() + ENGINE_HELLO_MS;
    struct record_writer w = record_begin(&out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "role", "sandboxd");
    (void)record_end(&w);
    if (record_send(fd, &out, deadline_ms, e) != 0 ||
        record_recv(fd, &in, &r, deadline_ms, e) != 0) {
        return err_wrap(e, "sandboxd-engine");
    }
    return record_is(&r, "hello") ? 0 : record_to_err(&r, e);
}

int engine_dial(struct engine_client *c, int *ret_fd, struct err *e)
{
    int fd AUTOCLOSE = -1;
    if (fd_unix_connect(c->path, &fd, e) != 0) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "sandboxd-engine does not answer on its socket; is its container running?");
    }
    if (engine_hello(fd, e) != 0) {
        return -1;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int engine_take_kept(struct engine_client *c)
{
    LOCK_GUARD(&c->lock);
    for (int i = 0; i < ENGINE_KEPT; i++) {
        if (c->kept[i] >= 0) {
            return TAKE_FD(c->kept[i]);
        }
    }
    return -1;
}

static void engine_keep(struct engine_client *c, int take_fd)
{
    LOCK_GUARD(&c->lock);
    for (int i = 0; i < ENGINE_KEPT; i++) {
        if (c->kept[i] < 0) {
            c->kept[i] = take_fd;
            return;
        }
    }
    (void)close(take_fd);
}

static int engine_send(int fd, const struct buf *request, int pass_fd, int64_t deadline_ms,
                       struct err *e)
{
    return pass_fd >= 0 ? record_send_fd(fd, request, pass_fd, deadline_ms, e)
                        : record_send(fd, request, deadline_ms, e);
}

/* One try on one connection; *ret_fd is the connection when it may be kept. */
static int engine_try(int fd, const struct buf *request, int pass_fd, struct buf *in,
                      struct record *ret, int64_t deadline_ms, struct err *e)
{
    if (engine_send(fd, request, pass_fd, deadline_ms, e) != 0) {
        return -1;
    }
    return record_recv(fd, in, ret, deadline_ms, e);
}

int engine_call(struct engine_client *c, const struct buf *request, int pass_fd, struct buf *in,
                struct record *ret, int64_t timeout_ms, struct err *e)
{
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;
    int fd AUTOCLOSE = engine_take_kept(c);
    in->max = ENGINE_RECORD_BYTES_MAX;
    if (fd >= 0 && engine_try(fd, request, pass_fd, in, ret, deadline_ms, e) != 0) {
        /* Kept since before a restart of the engine's program: every verb is idempotent, so once
         * more on a new one. */
        bool died = e->code == ERR_IO;
        fd_close_cleanup(&fd);
        if (!died) {
            return -1;
        }
    } else if (fd >= 0) {
        engine_keep(c, TAKE_FD(fd));
        return record_is(ret, "error") ? record_to_err(ret, e) : 0;
    }
    if (engine_dial(c, &fd, e) != 0 ||
        engine_try(fd, request, pass_fd, in, ret, deadline_ms, e) != 0) {
        return -1;
    }
    engine_keep(c, TAKE_FD(fd));
    return record_is(ret, "error") ? record_to_err(ret, e) : 0;
}

int engine_call_list(struct engine_client *c, const struct buf *request,
                     void (*fn)(void *ctx, const struct record *r), void *ctx, int64_t timeout_ms,
                     struct err *e)
{
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;
    int fd AUTOCLOSE = -1;
    BUF_AUTO(in, ENGINE_RECORD_BYTES_MAX);
    struct record r;
    if (engine_dial(c, &fd, e) != 0 || record_send(fd, request, deadline_ms, e) != 0) {
        return -1;
    }
    for (;;) {
        if (record_recv(fd, &in, &r, deadline_ms, e) != 0) {
            return -1;
        }
        if (record_is(&r, "end")) {
            return 0;
        }
        if (record_is(&r, "error")) {
            return record_to_err(&r, e);
        }
        fn(ctx, &r);
    }
}

/*
 * The preview role: listener for the edge, route table, doors, and the end in order.
 *
 * Must never bind anything but loopback. Main thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "lib/log.h"
#include "proxy/broker.h"
#include "proxy/front.h"
#include "proxy/limits.h"
#include "proxy/loop.h"
#include "proxy/preview_access.h"
#include "proxy/preview_activity.h"
#include "proxy/preview_enter.h"
#include "proxy/preview_passes.h"
#include "proxy/preview_secrets.h"
#include "proxy/preview_stopping.h"
#include "proxy/preview_visit.h"
#include "proxy/role.h"

#define EDGE_BACKLOG 1024

static struct {
    uv_tcp_t listener;
    uv_signal_t terminate, interrupt;
    uv_timer_t drain;
    int64_t drain_until_ms, quiet_since_ms;
    bool is_draining;
} preview;

/* ---- the edge ---- */

static void on_connection(uv_stream_t *listener, int status)
{
    struct wire *w = status == 0 ? wire_accept(listener) : NULL;

    if (!w) {
        return;
    }
    if (front_count() >= LIMIT_CLIENTS) {
        wire_destroy(w);
        return;
    }
    front_open(w, &preview_role, NULL, STR(""));
}

static void listen_edge(uint16_t port)
{
    struct sockaddr_in addr;
    int status;

    (void)uv_ip4_addr("127.0.0.1", port, &addr);
    (void)uv_tcp_init(loop_get(), &preview.listener);
    status = uv_tcp_bind(&preview.listener, (const struct sockaddr *)&addr, 0);
    if (status == 0) {
        status = uv_listen((uv_stream_t *)&preview.listener, EDGE_BACKLOG, on_connection);
    }
    if (status < 0) {
        log_die(
            "PREVIEW_PORT: cannot listen on 127.0.0.1:%u: %s; free the port or choose another one",
            (unsigned)port, uv_strerror(status));
    }
}

/* ---- sandboxd ---- */

static void on_up(void *ctx)
{
    (void)ctx;
    routes_begin();
    activity_tell();
    wake_broker_up();
}

static void on_down(void *ctx)
{
    (void)ctx;
    stopping_broker_down();
    enter_broker_down();
}

static void on_record(void *ctx, const struct record *r)
{
    (void)ctx;
    if (record_is(r, "settings")) {
        secrets_take(r);
    }
    if (record_is(r, "pass")) {
        if (!enter_take(r)) {
            passes_take(r);
        }
        return;
    }
    if (!routes_take(r) && !wake_take(r)) {
        log_warn("sandboxd sent a record we do not know");
    }
}

static const struct broker_events broker_events = {
    .up = on_up, .down = on_down, .record = on_record};

static void on_route_gone(struct route *r)
{
    wake_route_gone(r);
    activity_forget(r);
}

/* What may not go on is ended before anything is woken or sent on for it. */
static void on_route_changed(struct route *r)
{
    access_route_changed(r);
    stopping_route_changed(r);
    wake_route_changed(r);
}

static const struct routes_events routes_events = {.changed = on_route_changed,
                                                   .gone = on_route_gone};

/* ---- the end ---- */

/* Leaves when nothing was in flight for a moment: what the edge just sent on a kept connection may
 * be on its way. */
static void drain_tick(uv_timer_t *timer)
{
    int64_t now_ms = loop_now_ms();

    (void)timer;
    if (visits_count() > 0) {
        preview.quiet_since_ms = now_ms;
    }
    if (now_ms - preview.quiet_since_ms >= LIMIT_DRAIN_QUIET_MS) {
        loop_stop();
    } else if (now_ms >= preview.drain_until_ms) {
        unsigned count = visits_cut();
        char text[16];

        (void)snprintf(text, sizeof text, "%u", count);
        log_warn("requests were cut by the restart", "count", text);
        loop_stop();
    }
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)handle;
    (void)signum;
    if (preview.is_draining) {
        return;
    }
    preview.is_draining = true;
    log_info("leaving: the listener is closed, what is in flight is finished");
    uv_close((uv_handle_t *)&preview.listener, NULL);
    visits_drain();
    preview.quiet_since_ms = loop_now_ms();
    preview.drain_until_ms = loop_now_ms() + LIMIT_DRAIN_MS;
    (void)uv_timer_start(&preview.drain, drain_tick, 20, 20);
}

static void watch_signals(void)
{
    (void)uv_timer_init(loop_get(), &preview.drain);
    (void)uv_signal_init(loop_get(), &preview.terminate);
    (void)uv_signal_start(&preview.terminate, on_signal, SIGTERM);
    (void)uv_signal_init(loop_get(), &preview.interrupt);
    (void)uv_signal_start(&preview.interrupt, on_signal, SIGINT);
}

int preview_serve(const char *data_dir, uint16_t port)
{
    watch_signals();
    gate_start(data_dir, wake_standing);
    routes_init(data_dir, &routes_events);
    visits_init(broker_open(data_dir, "preview", &broker_events, NULL));
    listen_edge(port);
    log_info("preview proxy serves", "listener", "127.0.0.1");
    loop_run();
    log_info("preview proxy ends");
    return 0;
}

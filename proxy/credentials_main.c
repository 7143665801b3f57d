/*
 * The credentials role: doors of the sandboxes, grants, and the end in order.
 *
 * Must never listen on anything but the doors. Main thread.
 */
#include <signal.h>

#include "lib/fetch.h"
#include "lib/log.h"
#include "proxy/broker.h"
#include "proxy/credentials_admit.h"
#include "proxy/credentials_call.h"
#include "proxy/credentials_clients.h"
#include "proxy/credentials_grant.h"
#include "proxy/credentials_usage.h"
#include "proxy/door.h"
#include "proxy/limits.h"
#include "proxy/loop.h"
#include "proxy/role.h"

static struct {
    uv_signal_t terminate, interrupt;
    uv_timer_t drain;
    int64_t drain_until_ms;
    bool is_draining;
} credentials;

/* ---- doors ---- */

static void on_connected(struct door *door, const struct record *hello, struct wire *take_wire,
                         struct str rest)
{
    (void)hello;
    if (front_count() >= LIMIT_CLIENTS || !clients_enter(door_id(door))) {
        wire_destroy(take_wire);
        return;
    }
    front_open(take_wire, &credentials_role, door_id(door), rest);
}

static void on_gone(struct door *door)
{
    (void)door;
}

static const struct door_events door_events = {.connected = on_connected, .gone = on_gone};

/* ---- sandboxd ---- */

static void on_up(void *ctx)
{
    (void)ctx;
    admissions_broker_up();
    grants_broker_up();
    usage_broker_up();
}

static void on_down(void *ctx)
{
    (void)ctx;
    grants_broker_down();
    admissions_broker_down();
}

static void on_record(void *ctx, const struct record *r)
{
    (void)ctx;
    if (!grants_take(r) && !admissions_take(r) && !usage_take(r)) {
        log_warn("sandboxd sent a record we do not know");
    }
}

static const struct broker_events broker_events = {
    .up = on_up, .down = on_down, .record = on_record};

/* ---- the end ---- */

static void drain_tick(uv_timer_t *timer)
{
    (void)timer;
    if (calls_count() == 0) {
        loop_stop();
    } else if (loop_now_ms() >= credentials.drain_until_ms) {
        log_warn("requests to providers were cut by the restart");
        calls_cut();
        loop_stop();
    }
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)handle;
    (void)signum;
    if (credentials.is_draining) {
        return;
    }
    credentials.is_draining = true;
    front_drain_all();
    credentials.drain_until_ms = loop_now_ms() + LIMIT_DRAIN_MS;
    (void)uv_timer_start(&credentials.drain, drain_tick, 20, 20);
}

int credentials_serve(const char *data_dir)
{
    struct err e;
    struct broker *broker;

    if (fetch_global_init(&e) != 0) {
        log_die("%s", e.msg);
    }
    (void)uv_timer_init(loop_get(), &credentials.drain);
    (void)uv_signal_init(loop_get(), &credentials.terminate);
    (void)uv_signal_start(&credentials.terminate, on_signal, SIGTERM);
    (void)uv_signal_init(loop_get(), &credentials.interrupt);
    (void)uv_signal_start(&credentials.interrupt, on_signal, SIGINT);
    door_watch(data_dir, "out", &door_events);
    broker = broker_open(data_dir, "credentials", &broker_events, NULL);
    grants_init(broker);
    admissions_init(broker);
    usage_init(broker);
    log_info("credentials proxy serves");
    loop_run();
    log_info("credentials proxy ends");
    return 0;
}

/*
 * Fuzzes what sandboxd may send to the preview role: rows of the route table, their end, and
 * anything else. One thread.
 *
 * Rows that come must be found, rows that go must not.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/loop.h"
#include "proxy/preview_routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_changed(struct route *r)
{
    if (routes_find(&r->entry.id) != r || r->ports.count > LIMIT_ROUTE_PORTS) {
        abort();
    }
    (void)route_state_name(r->state);
    (void)route_has_port(&r->open, 3000);
}

static void on_gone(struct route *r)
{
    if (routes_find(&r->entry.id)) {
        abort();
    }
}

static void start(void)
{
    static const struct routes_events events = {.changed = on_changed, .gone = on_gone};
    static bool is_started;

    if (!is_started) {
        is_started = true;
        loop_init();
        routes_init("/nonexistent", &events);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BUF_AUTO(in, 1 << 20);
    struct record r;
    struct str frame;
    struct err e;

    start();
    routes_begin();
    buf_add(&in, data, size);
    while (record_next(&in, &frame, &e) == 1 && record_parse(frame, &r, &e) == 0) {
        (void)routes_take(&r);
        record_skip(&in, frame);
    }
    (void)uv_run(loop_get(), UV_RUN_NOWAIT);
    return 0;
}

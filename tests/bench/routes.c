/*
 * How long the preview proxy takes to find the row of a Host, linked with the proxy's own files:
 * the host's parser, the route table, the list of ports. Prints nanoseconds per look-up for two
 * sizes of the table. One thread.
 *
 *     routes DIRECTORY SMALL LARGE        e.g. routes /tmp/x 10 5000
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/buf.h"
#include "lib/clock.h"
#include "lib/mem.h"
#include "proxy/loop.h"
#include "proxy/preview_host.h"
#include "proxy/preview_routes.h"

#define ROWS_MAX    100000
#define HOST_BYTES  80
#define LOOKUPS     1000000
#define ROUNDS      5
#define DOMAIN      "example.com"
#define PORT        3000
#define STEP        7919 /* a prime: neighbours in time are no neighbours in the table */
#define NS_PER_US   1000
#define FRAME_BYTES 1024

static void ignore_changed(struct route *r)
{
    (void)r;
}

static const struct routes_events events = {.changed = ignore_changed, .gone = ignore_changed};

static void take(const struct buf *frame)
{
    struct record r;
    struct err e;
    /* A record without its length. */
    if (record_parse(str_n(frame->ptr + 4, frame->len - 4), &r, &e) != 0 || !routes_take(&r)) {
        (void)fprintf(stderr, "the proxy does not take a record of the bench: %s\n", e.msg);
        exit(1);
    }
}

static void add_settings(void)
{
    BUF_AUTO(out, FRAME_BYTES);
    struct record_writer w = record_begin(&out, "settings");
    record_adds(&w, "preview_domain", DOMAIN);
    (void)record_end(&w);
    take(&out);
}

/* One row, and the name that a browser would send for it. */
static void add_row(char host[HOST_BYTES])
{
    BUF_AUTO(out, FRAME_BYTES);
    struct ulid id = ulid_new();
    struct record_writer w = record_begin(&out, "route");
    record_adds(&w, "id", id.text);
    record_addn(&w, "generation", 1);
    record_adds(&w, "state", "running");
    record_addn(&w, "port", PORT);
    record_addn(&w, "open", PORT);
    record_adds(&w, "access", "public");
    (void)record_end(&w);
    take(&out);
    (void)snprintf(host, HOST_BYTES, "s-%s-%d.preview." DOMAIN, id.text, PORT);
}

static bool look_up(const char *host)
{
    struct preview_host parsed;
    if (!preview_host_parse(str_of(host), str_of(routes_settings_get()->domain), &parsed)) {
        return false;
    }
    const struct route *r = routes_find(&parsed.id);
    return r && route_has_port(&r->ports, parsed.port);
}

/* The best of some rounds, in ns for one: what else the machine does only makes it longer. */
static int64_t measure(char (*hosts)[HOST_BYTES], size_t count)
{
    int64_t best_us = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start_us = clock_mono_us();
        size_t at = 0;
        for (int i = 0; i < LOOKUPS; i++) {
            at = (at + STEP) % count;
            if (!look_up(hosts[at])) {
                (void)fprintf(stderr, "%s was not found\n", hosts[at]);
                exit(1);
            }
        }
        int64_t took_us = clock_mono_us() - start_us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    return best_us * NS_PER_US / LOOKUPS;
}

int main(int argc, char **argv)
{
    uint64_t small = 0;
    uint64_t large = 0;
    if (argc != 4 || !str_to_u64(str_of(argv[2]), ROWS_MAX, &small) || small == 0 ||
        !str_to_u64(str_of(argv[3]), ROWS_MAX, &large) || large < small) {
        (void)fprintf(stderr, "usage: routes DIRECTORY SMALL LARGE\n");
        return 2;
    }
    char(*hosts)[HOST_BYTES] = mem_calloc(large, sizeof(*hosts));
    loop_init();
    routes_init(argv[1], &events);
    add_settings();
    for (uint64_t i = 0; i < small; i++) {
        add_row(hosts[i]);
    }
    int64_t small_ns = measure(hosts, small);
    for (uint64_t i = small; i < large; i++) {
        add_row(hosts[i]);
    }
    (void)printf("%" PRId64 " %" PRId64 "\n", small_ns, measure(hosts, large));
    free(hosts);
    return 0;
}

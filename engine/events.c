/*
 * Docker's stream of events. Everything but the parser runs in the thread "events".
 */
#include "engine/events.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/meter.h"
#include "engine/network.h"
#include "engine/runtime.h"
#include "engine/spec.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/thread.h"

#define LINE_BYTES_MAX    65536
#define BRIDGES_BYTES_MAX 16384
#define RETRY_FIRST_MS    200
#define RETRY_LAST_MS     2000

struct events {
    struct engine *engine; /* borrowed */
    pthread_t thread;
    atomic_bool is_stopping;
    int stop_fd;
    struct buf line; /* what has arrived of the next line */
    bool is_network_changed;
};

static bool event_kind(struct str action, enum hub_kind *ret_kind)
{
    static const struct {
        const char *action;
        enum hub_kind kind;
    } known[] = {
        {"start", HUB_START}, {"die", HUB_DIE}, {"oom", HUB_OOM}, {"destroy", HUB_DESTROY}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_is(action, known[i].action)) {
            *ret_kind = known[i].kind;
            return true;
        }
    }
    return false;
}

enum events_line events_parse_line(struct str line, const char *data_dir, struct hub_event *ret)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    int64_t at_ns = 0;
    if (json_parse(str_trim(line), &doc, NULL) < 0) {
        return EVENTS_OTHER;
    }
    const struct json_value *v = json_root(doc);
    const struct json_value *attributes = json_path(v, "Actor", "Attributes", NULL);
    struct str type = json_get_str(v, "Type");
    *ret = (struct hub_event){0};
    if (str_is(type, "network")) {
        return EVENTS_NETWORK;
    }
    if (!str_is(type, "container") || !event_kind(json_get_str(v, "Action"), &ret->kind) ||
        !str_is(json_get_str(attributes, SPEC_LABEL_INSTANCE), data_dir) ||
        !ulid_parse(json_get_str(attributes, SPEC_LABEL_SANDBOX), &ret->id)) {
        return EVENTS_OTHER;
    }
    struct str exit_code = json_get_str(attributes, "exitCode");
    if (exit_code.ptr) {
        (void)str_to_i64(exit_code, INT32_MIN, INT32_MAX, &ret->exit_code);
    }
    ret->at_ms =
        json_get_int(v, "timeNano", &at_ns) && at_ns > 0 ? at_ns / 1000000 : clock_unix_ms();
    return EVENTS_CONTAINER;
}

static void events_tell(struct events *v, struct hub_event *event)
{
    meter_take_event(v->engine->meter, event);
    hub_publish(v->engine->hub, event);
}

static void events_take_line(struct events *v)
{
    struct hub_event event;
    switch (events_parse_line(buf_str(&v->line), v->engine->config->data_dir, &event)) {
    case EVENTS_CONTAINER: events_tell(v, &event); break;
    case EVENTS_NETWORK: v->is_network_changed = true; break;
    case EVENTS_OTHER: break;
    }
}

/* Makes the bridge when it is missing and tells the walls about the others. */
static void events_mend_network(struct events *v)
{
    struct engine *g = v->engine;
    struct network network;
    struct err e;
    BUF_AUTO(bridges, BRIDGES_BYTES_MAX);
    v->is_network_changed = false;
    if (network_ensure(g->docker, g->config, &network, &e) < 0 ||
        network_other_bridges(g->docker, g->config, &bridges, &e) < 0) {
        log_error("the bridge of the sandboxes is not as it should be", "error", e.msg);
        return;
    }
    walls_set_bridges(g->walls, bridges.ptr);
}

static size_t events_on_data(const char *bytes, size_t len, void *ctx)
{
    struct events *v = ctx;
    struct str rest = str_n(bytes, len);
    while (!str_empty(rest)) {
        ptrdiff_t end = str_find(rest, '\n');
        buf_add_str(&v->line, end < 0 ? rest : str_cut(rest, 0, (size_t)end));
        if (end < 0) {
            break;
        }
        if (buf_ok(&v->line)) {
            events_take_line(v);
        }
        buf_reset(&v->line);
        rest = str_cut(rest, (size_t)end + 1, rest.len);
    }
    if (v->is_network_changed) {
        events_mend_network(v);
    }
    return len;
}

static void events_say_docker(struct events *v, const char *error)
{
    struct hub_event event = {.kind = HUB_DOCKER, .is_up = error == NULL, .at_ms = clock_unix_ms()};
    (void)snprintf(event.error, sizeof(event.error), "%s", error ? error : "");
    events_tell(v, &event);
}

static void events_path(struct buf *out)
{
    static const char *const actions[] = {"start", "die", "oom", "destroy", "create"};
    BUF_AUTO(filters, 512);
    struct json_writer w;
    json_begin(&w, &filters);
    json_object(&w, NULL);
    json_array(&w, "type");
    json_text(&w, NULL, "container");
    json_text(&w, NULL, "network");
    json_array_end(&w);
    json_array(&w, "event");
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        json_text(&w, NULL, actions[i]);
    }
    json_array_end(&w);
    json_object_end(&w);
    /* From this moment on, so that nothing is missed between the call and its arrival. */
    int64_t now_ms = clock_unix_ms();
    buf_printf(out, "/events?since=%lld.%03d&filters=", (long long)(now_ms / 1000),
               (int)(now_ms % 1000));
    docker_encode(out, buf_str(&filters));
}

/* Follows one connection to its end. True when it was up at all. */
static bool events_follow(struct events *v)
{
    struct docker_version version;
    FETCH_ANSWER_AUTO(answer);
    struct err e;
    BUF_AUTO(path, 1024);
    if (docker_negotiate(v->engine->docker, &version, &e) < 0) {
        events_say_docker(v, e.msg);
        return false;
    }
    events_path(&path);
    events_mend_network(v);
    events_say_docker(v, NULL);
    log_info("following Docker", "version", version.engine, "api", version.api);
    runtime_forget(v->engine->runtime);
    if (runtime_check(v->engine->runtime, &e) < 0) {
        log_error("no sandbox starts", "error", e.msg);
    }
    buf_reset(&v->line);
    struct docker_request request = {.method = "GET",
                                     .path = path.ptr,
                                     .timeout_ms = -1,
                                     .data_fn = events_on_data,
                                     .stop_fd = v->stop_fd,
                                     .ctx = v};
    int result = docker_call(v->engine->docker, &request, &answer, &e);
    if (!atomic_load(&v->is_stopping)) {
        log_warn("Docker ended its stream of events", "error", result < 0 ? e.msg : NULL);
        /* Said even when Docker is back at once: what happened in between was not seen, and the
         * followers look for themselves only when it comes up. */
        events_say_docker(v, "Docker ended its stream of events");
    }
    return true;
}

static void *events_run(void *ctx)
{
    struct events *v = ctx;
    int64_t wait_ms = RETRY_FIRST_MS;
    while (!atomic_load(&v->is_stopping)) {
        int64_t began_ms = clock_mono_ms();
        bool was_up = events_follow(v);
        if (was_up && clock_mono_ms() - began_ms > RETRY_LAST_MS) {
            wait_ms = RETRY_FIRST_MS;
        }
        struct pollfd stop = {.fd = v->stop_fd, .events = POLLIN};
        (void)poll(&stop, 1, (int)wait_ms);
        wait_ms = wait_ms * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : wait_ms * 2;
    }
    return NULL;
}

struct events *events_start(struct engine *g)
{
    struct events *v = mem_alloc(sizeof(*v));
    v->engine = g;
    v->stop_fd = eventfd(0, EFD_CLOEXEC);
    buf_init(&v->line, LINE_BYTES_MAX);
    v->thread = thread_start("events", events_run, v);
    return v;
}

void events_stop(struct events *v)
{
    uint64_t one = 1;
    if (!v) {
        return;
    }
    atomic_store(&v->is_stopping, true);
    (void)!write(v->stop_fd, &one, sizeof(one));
    (void)pthread_join(v->thread, NULL);
    (void)close(v->stop_fd);
    buf_done(&v->line);
    free(v);
}

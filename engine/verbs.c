/*
 * The verbs of the engine's socket. Runs in the thread of the connection.
 */
#include "engine/verbs.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "engine/cgroup.h"
#include "engine/container.h"
#include "engine/figures.h"
#include "engine/hub.h"
#include "engine/meter.h"
#include "engine/network.h"
#include "engine/peer.h"
#include "engine/ports.h"
#include "engine/runtime.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/version.h"

#define MEMORY_MIN_BYTES (64ULL << 20)
#define CPUS_MILLI_MAX   1000000U

/* What a verb works with. */
struct verb_call {
    struct engine *engine;
    const struct record *request;
    int pass_fd; /* borrowed, or -1 */
    struct buf *out;
};

static int call_id(const struct verb_call *c, struct ulid *ret_id, struct err *e)
{
    if (!ulid_parse(record_get(c->request, "id"), ret_id)) {
        return err_set(e, ERR_INVALID, 0, "id is not the id of a sandbox");
    }
    return 0;
}

static int call_number(const struct verb_call *c, const char *key, uint64_t min, uint64_t max,
                       uint64_t *ret_value, struct err *e)
{
    if (!record_get_u64(c->request, key, max, ret_value) || *ret_value < min) {
        return err_set(e, ERR_INVALID, 0, "%s must be a number from %llu to %llu", key,
                       (unsigned long long)min, (unsigned long long)max);
    }
    return 0;
}

static int record_finish(struct record_writer *w, struct err *e)
{
    return record_end(w) ? 0 : err_set(e, ERR_LIMIT, 0, "the answer does not fit into a record");
}

static void write_time(struct record_writer *w, const char *key, int64_t at_ms)
{
    if (at_ms > 0) {
        record_addn(w, key, at_ms);
    }
}

static struct record_writer begin_container(const struct verb_call *c,
                                            const struct inspect *container)
{
    struct record_writer w = record_begin(c->out, "container");
    record_adds(&w, "id", container->id.text);
    record_adds(&w, "state", inspect_state_name(container->state));
    if (container->state != INSPECT_MISSING) {
        record_adds(&w, "container_id", container->container_id);
        record_addn(&w, "pid", container->pid);
        record_addn(&w, "exit_code", container->exit_code);
        record_addb(&w, "oom", container->is_oom);
        write_time(&w, "started_at_ms", container->started_at_ms);
        write_time(&w, "finished_at_ms", container->finished_at_ms);
        record_adds(&w, "image", container->request.image);
        record_adds(&w, "error", container->error);
    }
    return w;
}

static int write_container(const struct verb_call *c, const struct inspect *container,
                           struct err *e)
{
    struct record_writer w = begin_container(c, container);
    return record_finish(&w, e);
}

static void write_docker_status(struct engine *g, struct record_writer *w)
{
    struct docker_version version;
    struct network network;
    struct err why;
    if (docker_ping(g->docker, &version, &why) < 0) {
        record_adds(w, "docker", "down");
        record_adds(w, "docker_error", why.msg);
        return;
    }
    record_adds(w, "docker", "up");
    record_adds(w, "docker_version", version.engine);
    record_adds(w, "api_version", version.api);
    if (network_inspect(g->docker, g->config, &network, &why) == 0) {
        record_adds(w, "subnet", network.subnet);
    }
    record_adds(w, "runtime", g->config->runsc ? "runsc" : "runc");
    if (runtime_check(g->runtime, &why) < 0) {
        record_adds(w, "runtime_error", why.msg);
    }
}

static int verb_status(const struct verb_call *c, struct err *e)
{
    static const char *const states[] = {
        [WALLS_OFF] = "off", [WALLS_UP] = "up", [WALLS_FAILED] = "failed"};
    struct engine *g = c->engine;
    struct figures_memory memory;
    struct err why;
    if (figures_memory_read(&memory, e) < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "status");
    write_docker_status(g, &w);
    record_addn(&w, "cgroup", figures_cgroup_version());
    enum walls_state walls = walls_state_get(g->walls, &why);
    record_adds(&w, "walls", states[walls]);
    if (walls == WALLS_FAILED) {
        record_adds(&w, "walls_error", why.msg);
    }
    record_addn(&w, "memory_default", (int64_t)g->memory_default_bytes);
    record_addn(&w, "mem_total", (int64_t)memory.total_bytes);
    record_addn(&w, "mem_available", (int64_t)memory.available_bytes);
    return record_finish(&w, e);
}

static int answer_image(const struct verb_call *c, bool is_build, struct err *e)
{
    static const char *const states[] = {[IMAGES_PRESENT] = "present",
                                         [IMAGES_MISSING] = "missing",
                                         [IMAGES_BUILDING] = "building",
                                         [IMAGES_FAILED] = "failed"};
    struct images *images = c->engine->images;
    struct images_status status;
    int index = -1;
    if (images_find(images, record_get(c->request, "image"), &index, e) < 0) {
        return -1;
    }
    int result = is_build ? images_build(images, index, &status, e)
                          : images_status(images, index, &status, e);
    if (result < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "image");
    record_adds(&w, "image", images_get(images, index)->name);
    record_adds(&w, "tag", status.tag);
    record_adds(&w, "image_id", status.image_id);
    record_adds(&w, "state", states[status.state]);
    record_addn(&w, "percent", status.percent);
    record_adds(&w, "step", status.step);
    record_adds(&w, "error", status.error);
    return record_finish(&w, e);
}

static int verb_image(const struct verb_call *c, struct err *e)
{
    return answer_image(c, false, e);
}

static int verb_build(const struct verb_call *c, struct err *e)
{
    return answer_image(c, true, e);
}

/* Copies a text field into a fixed array. */
static int take_text(const struct record *request, const char *key, char *to, size_t size,
                     struct err *e)
{
    struct str value = record_get(request, key);
    if (value.len >= size || !str_is_text(value, false)) {
        return err_set(e, ERR_INVALID, 0, "%s must be text of at most %zu bytes", key, size - 1);
    }
    if (value.len > 0) {
        memcpy(to, value.ptr, value.len);
    }
    to[value.len] = '\0';
    return 0;
}

int verbs_parse_create(const struct record *request, uint64_t uid_base, uint64_t memory_total_bytes,
                       struct spec_request *ret, struct err *e)
{
    struct verb_call c = {.request = request};
    struct str init = record_get(request, "init");
    *ret = (struct spec_request){0};
    if (call_id(&c, &ret->id, e) < 0 ||
        call_number(&c, "uid", uid_base + 1, uid_base + PATHS_UID_COUNT, &ret->uid, e) < 0 ||
        call_number(&c, "memory", 0, memory_total_bytes, &ret->memory_bytes, e) < 0 ||
        call_number(&c, "cpus_milli", 0, CPUS_MILLI_MAX, &ret->cpus_milli, e) < 0 ||
        take_text(request, "image", ret->image, sizeof(ret->image), e) < 0 ||
        take_text(request, "app_name", ret->app_name, sizeof(ret->app_name), e) < 0) {
        return -1;
    }
    if (ret->memory_bytes > 0 && ret->memory_bytes < MEMORY_MIN_BYTES) {
        return err_set(e, ERR_INVALID, 0, "memory must be 0 or at least %llu bytes",
                       MEMORY_MIN_BYTES);
    }
    if (!checks_init_version_is_valid(init)) {
        return err_set(e, ERR_INVALID, 0, "init must be the version of a supervisor: %d hex digits",
                       CHECKS_INIT_VERSION_LEN);
    }
    memcpy(ret->init, init.ptr, init.len);
    ret->init[init.len] = '\0';
    return 0;
}

static int verb_create(const struct verb_call *c, struct err *e)
{
    struct spec_request request;
    struct inspect container;
    if (verbs_parse_create(c->request, c->engine->config->uid_base, c->engine->memory_total_bytes,
                           &request, e) < 0 ||
        container_create(c->engine, &request, &container, e) < 0) {
        return -1;
    }
    return write_container(c, &container, e);
}

static int verb_start(const struct verb_call *c, struct err *e)
{
    struct ulid id;
    struct inspect container;
    if (call_id(c, &id, e) < 0 || container_start(c->engine, &id, &container, e) < 0) {
        return -1;
    }
    return write_container(c, &container, e);
}

static int verb_stop(const struct verb_call *c, struct err *e)
{
    struct ulid id;
    struct inspect container;
    uint64_t grace_s = 0;
    if (call_id(c, &id, e) < 0 ||
        call_number(c, "grace_s", 1, VERBS_GRACE_S_MAX, &grace_s, e) < 0 ||
        container_stop(c->engine, &id, grace_s, &container, e) < 0) {
        return -1;
    }
    return write_container(c, &container, e);
}

static int verb_remove(const struct verb_call *c, struct err *e)
{
    struct ulid id;
    if (call_id(c, &id, e) < 0 || container_remove(c->engine, &id, e) < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "removed");
    record_adds(&w, "id", id.text);
    return record_finish(&w, e);
}

static int call_inspect(const struct verb_call *c, struct inspect *ret, struct err *e)
{
    struct ulid id;
    if (call_id(c, &id, e) < 0) {
        return -1;
    }
    return inspect_container(c->engine->docker, c->engine->config, &id, ret, e);
}

/* The same for verbs that look into a running sandbox. */
static int call_inspect_running(const struct verb_call *c, struct inspect *ret, struct err *e)
{
    if (call_inspect(c, ret, e) < 0) {
        return -1;
    }
    if (ret->state == INSPECT_MISSING) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no container of that sandbox");
    }
    if (ret->pid <= 0) {
        return err_set(e, ERR_CONFLICT, 0, "the sandbox does not run");
    }
    return 0;
}

static int verb_inspect(const struct verb_call *c, struct err *e)
{
    struct inspect container;
    if (call_inspect(c, &container, e) < 0) {
        return -1;
    }
    struct record_writer w = begin_container(c, &container);
    record_addb(&w, "spec_current", container_is_current(c->engine, &container));
    return record_finish(&w, e);
}

static int list_one(const struct inspect *container, void *ctx, struct err *e)
{
    const struct verb_call *c = ctx;
    struct record_writer w = record_begin(c->out, "container");
    record_adds(&w, "id", container->id.text);
    record_adds(&w, "container_id", container->container_id);
    record_adds(&w, "state", inspect_state_name(container->state));
    return record_finish(&w, e);
}

static int verb_list(const struct verb_call *c, struct err *e)
{
    struct verb_call copy = *c;
    int result = container_each(c->engine, list_one, &copy, e);
    (void)malloc_trim(0);
    if (result < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "end");
    return record_finish(&w, e);
}

static int verb_peer(const struct verb_call *c, struct err *e)
{
    struct inspect container;
    struct ulid id;
    char detail[PEER_DETAIL_BYTES] = "";
    bool is_init = false;
    if (c->pass_fd < 0) {
        return err_set(e, ERR_INVALID, 0, "peer comes with the descriptor of a connection");
    }
    if (call_id(c, &id, e) < 0) {
        return -1;
    }
    is_init = peer_is_starting(c->engine->config, &id, c->pass_fd, detail);
    if (!is_init &&
        (call_inspect(c, &container, e) < 0 ||
         peer_is_init(c->engine->config, &container, c->pass_fd, &is_init, detail, e) < 0)) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "peer");
    record_adds(&w, "verdict", is_init ? "init" : "other");
    record_adds(&w, "detail", detail);
    return record_finish(&w, e);
}

static int verb_port(const struct verb_call *c, struct err *e)
{
    struct inspect container;
    uint64_t port = 0;
    bool is_open = false;
    if (call_number(c, "port", 1, UINT16_MAX, &port, e) < 0 ||
        call_inspect_running(c, &container, e) < 0 ||
        ports_is_open(container.pid, (uint16_t)port, &is_open, e) < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "port");
    record_addb(&w, "open", is_open);
    return record_finish(&w, e);
}

static int verb_usage(const struct verb_call *c, struct err *e)
{
    struct inspect container;
    struct cgroup_usage usage;
    struct meter_figures figures;
    if (call_inspect_running(c, &container, e) < 0 ||
        cgroup_usage_read(container.pid, container.container_id, &usage, e) < 0 ||
        meter_look(c->engine->meter, &container.id, &figures, e) < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "usage");
    record_addn(&w, "memory", (int64_t)usage.memory_bytes);
    record_addn(&w, "memory_limit", (int64_t)usage.limit_bytes);
    record_addn(&w, "cpu_usec", (int64_t)usage.cpu_usec);
    record_addn(&w, "oom_kills", (int64_t)figures.memory.oom_kills);
    record_adds(&w, "killed_by", cgroup_kill_name(figures.kill));
    return record_finish(&w, e);
}

static int verb_logs(const struct verb_call *c, struct err *e)
{
    struct ulid id;
    BUF_AUTO(text, CONTAINER_LOGS_BYTES);
    if (call_id(c, &id, e) < 0 || container_logs(c->engine, &id, &text, e) < 0) {
        return -1;
    }
    struct record_writer w = record_begin(c->out, "logs");
    record_add(&w, "text", buf_str(&text));
    return record_finish(&w, e);
}

static const struct {
    const char *kind;
    int (*run)(const struct verb_call *c, struct err *e);
} verbs[] = {
    {"status", verb_status}, {"image", verb_image},     {"build", verb_build},
    {"create", verb_create}, {"start", verb_start},     {"stop", verb_stop},
    {"remove", verb_remove}, {"inspect", verb_inspect}, {"list", verb_list},
    {"peer", verb_peer},     {"port", verb_port},       {"usage", verb_usage},
    {"logs", verb_logs},
};

int verbs_answer(struct engine *g, const struct record *request, int pass_fd, struct buf *out)
{
    struct verb_call call = {.engine = g, .request = request, .pass_fd = pass_fd, .out = out};
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (!record_is(request, verbs[i].kind)) {
            continue;
        }
        if (verbs[i].run(&call, &e) < 0) {
            /* Nothing of a half-written answer. */
            buf_reset(out);
            record_add_error(out, &e);
            log_warn("a request failed", "verb", verbs[i].kind, "code", err_code_name(e.code),
                     "error", e.msg);
        }
        return 0;
    }
    (void)err_set(&e, ERR_PROTOCOL, 0, "unknown kind of request");
    record_add_error(out, &e);
    return -1;
}

int verbs_check_hello(const struct record *request, struct err *e)
{
    uint64_t protocol = 0;
    if (!record_is(request, "hello") ||
        !record_get_u64(request, "protocol", UINT32_MAX, &protocol) ||
        !str_is(record_get(request, "role"), "sandboxd")) {
        return err_set(e, ERR_PROTOCOL, 0, "hello{protocol, role=sandboxd} comes first");
    }
    if (protocol != RECORD_PROTOCOL) {
        return err_set(e, ERR_PROTOCOL, 0, "this engine speaks protocol %d, not %llu",
                       RECORD_PROTOCOL, (unsigned long long)protocol);
    }
    return 0;
}

void verbs_write_hello(struct buf *out)
{
    struct record_writer w = record_begin(out, "hello");
    record_addn(&w, "protocol", RECORD_PROTOCOL);
    record_adds(&w, "version", version_text());
    (void)record_end(&w);
}

void verbs_write_event(struct buf *out, const struct hub_event *event)
{
    static const char *const actions[] = {
        [HUB_START] = "start", [HUB_DIE] = "die", [HUB_OOM] = "oom", [HUB_DESTROY] = "destroy"};
    struct record_writer w;
    if (event->kind == HUB_DOCKER) {
        w = record_begin(out, "docker");
        record_adds(&w, "state", event->is_up ? "up" : "down");
        record_adds(&w, "error", event->error);
        (void)record_end(&w);
        return;
    }
    w = record_begin(out, "event");
    record_adds(&w, "id", event->id.text);
    record_adds(&w, "action", actions[event->kind]);
    if (event->kind == HUB_DIE) {
        record_addn(&w, "exit_code", event->exit_code);
        record_adds(&w, "killed_by", cgroup_kill_name(event->killed));
    }
    record_addn(&w, "at_ms", event->at_ms);
    (void)record_end(&w);
}

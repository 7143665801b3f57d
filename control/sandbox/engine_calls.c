/*
 * Typed calls of sandboxd-engine. Jobs and the follow thread; each blocks up to its deadline.
 */
#include <stdio.h>

#include "control/sandbox/table.h"
#include "lib/mem.h"

#define ENGINE_QUICK_MS      5000
#define ENGINE_CREATE_MS     60000
#define ENGINE_START_MS      60000
#define ENGINE_STOP_EXTRA_MS 20000
#define ENGINE_FRAME_BYTES   8192

static void engine_copy(const struct record *r, const char *key, char *out, size_t size)
{
    struct str value = record_get(r, key);
    (void)snprintf(out, size, "%.*s", STR_FMT(value));
}

static int64_t engine_number(const struct record *r, const char *key)
{
    int64_t value = 0;
    return record_get_i64(r, key, &value) ? value : 0;
}

/* One verb with an id and nothing else. */
static int engine_verb(struct sandbox_service *s, const char *verb, const struct ulid *id,
                       int64_t grace_s, int64_t timeout_ms, struct engine_container *ret,
                       struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, verb);
    record_adds(&w, "id", id->text);
    if (grace_s > 0) {
        record_addn(&w, "grace_s", grace_s);
    }
    (void)record_end(&w);
    if (engine_call(s->engine, &out, -1, &in, &r, timeout_ms, e) != 0) {
        return -1;
    }
    if (ret) {
        *ret =
            (struct engine_container){.exit_code = engine_number(&r, "exit_code"),
                                      .oom = record_get_bool(&r, "oom", false),
                                      .spec_current = record_get_bool(&r, "spec_current", false)};
        engine_copy(&r, "state", ret->state, sizeof(ret->state));
        engine_copy(&r, "error", ret->error, sizeof(ret->error));
    }
    return 0;
}

int engine_create(struct sandbox_service *s, const struct sandbox *b, struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, "create");
    record_adds(&w, "id", b->id.text);
    record_addn(&w, "uid", b->uid);
    record_adds(&w, "image", b->image);
    record_adds(&w, "init", s->init_version);
    record_addn(&w, "memory", b->memory_bytes);
    record_addn(&w, "cpus_milli", 0);
    record_adds(&w, "app_name", b->app_name);
    (void)record_end(&w);
    return engine_call(s->engine, &out, -1, &in, &r, ENGINE_CREATE_MS, e);
}

int engine_start(struct sandbox_service *s, const struct ulid *id, struct err *e)
{
    return engine_verb(s, "start", id, 0, ENGINE_START_MS, NULL, e);
}

int engine_stop(struct sandbox_service *s, const struct ulid *id, int grace_s,
                struct engine_container *ret, struct err *e)
{
    return engine_verb(s, "stop", id, grace_s, grace_s * 1000 + ENGINE_STOP_EXTRA_MS, ret, e);
}

int engine_remove(struct sandbox_service *s, const struct ulid *id, struct err *e)
{
    return engine_verb(s, "remove", id, 0, ENGINE_CREATE_MS, NULL, e);
}

int engine_inspect(struct sandbox_service *s, const struct ulid *id, struct engine_container *ret,
                   struct err *e)
{
    return engine_verb(s, "inspect", id, 0, ENGINE_QUICK_MS, ret, e);
}

int engine_usage(struct sandbox_service *s, const struct ulid *id, int64_t *ret_memory,
                 struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, "usage");
    record_adds(&w, "id", id->text);
    (void)record_end(&w);
    if (engine_call(s->engine, &out, -1, &in, &r, ENGINE_QUICK_MS, e) != 0) {
        return -1;
    }
    *ret_memory = engine_number(&r, "memory");
    return 0;
}

int engine_fetch_status(struct sandbox_service *s, struct sandbox_engine_status *ret, struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, "status");
    (void)record_end(&w);
    if (engine_call(s->engine, &out, -1, &in, &r, ENGINE_QUICK_MS, e) != 0) {
        return -1;
    }
    *ret = (struct sandbox_engine_status){.docker_up = str_is(record_get(&r, "docker"), "up"),
                                          .memory_default = engine_number(&r, "memory_default"),
                                          .mem_total = engine_number(&r, "mem_total"),
                                          .mem_available = engine_number(&r, "mem_available")};
    engine_copy(&r, "docker_error", ret->docker_error, sizeof(ret->docker_error));
    engine_copy(&r, "docker_version", ret->docker_version, sizeof(ret->docker_version));
    engine_copy(&r, "walls", ret->walls, sizeof(ret->walls));
    engine_copy(&r, "walls_error", ret->walls_error, sizeof(ret->walls_error));
    engine_copy(&r, "runtime_error", ret->runtime_error, sizeof(ret->runtime_error));
    return 0;
}

int sandbox_image(struct sandbox_service *s, const char *image, bool build,
                  struct sandbox_image *ret, struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, build ? "build" : "image");
    record_adds(&w, "image", image);
    (void)record_end(&w);
    if (engine_call(s->engine, &out, -1, &in, &r, ENGINE_QUICK_MS * 2, e) != 0) {
        return -1;
    }
    *ret = (struct sandbox_image){.percent = engine_number(&r, "percent")};
    engine_copy(&r, "state", ret->state, sizeof(ret->state));
    engine_copy(&r, "tag", ret->tag, sizeof(ret->tag));
    engine_copy(&r, "step", ret->step, sizeof(ret->step));
    engine_copy(&r, "error", ret->error, sizeof(ret->error));
    return 0;
}

struct engine_list_ctx {
    void (*fn)(void *ctx, const struct ulid *id, struct str state);
    void *ctx;
};

static void engine_on_container(void *ctx, const struct record *r)
{
    struct engine_list_ctx *list = ctx;
    struct ulid id;
    if (record_is(r, "container") && ulid_parse(record_get(r, "id"), &id)) {
        list->fn(list->ctx, &id, record_get(r, "state"));
    }
}

int engine_list(struct sandbox_service *s,
                void (*fn)(void *ctx, const struct ulid *id, struct str state), void *ctx,
                struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    struct engine_list_ctx list = {.fn = fn, .ctx = ctx};
    struct record_writer w = record_begin(&out, "list");
    (void)record_end(&w);
    return engine_call_list(s->engine, &out, engine_on_container, &list, ENGINE_CREATE_MS, e);
}

int sandbox_check_peer(struct sandbox_service *s, const struct ulid *id, int fd, struct err *e)
{
    BUF_AUTO(out, ENGINE_FRAME_BYTES);
    BUF_AUTO(in, RECORD_FRAME_MAX + 16);
    struct record r;
    struct record_writer w = record_begin(&out, "peer");
    record_adds(&w, "id", id->text);
    (void)record_end(&w);
    if (engine_call(s->engine, &out, fd, &in, &r, ENGINE_QUICK_MS, e) != 0) {
        return -1;
    }
    if (!str_is(record_get(&r, "verdict"), "init")) {
        struct str detail = record_get(&r, "detail");
        return err_set(e, ERR_FORBIDDEN, 0, "%.*s", STR_FMT(detail));
    }
    return 0;
}

/*
 * Health, readiness, metrics, status. Worker threads.
 */
#include <stdio.h>

#include "control/api/api.h"
#include "lib/fd.h"

#define OPENAPI_BYTES_MAX (2UL * 1024 * 1024)

void api_healthz(struct http_request *r, struct http_response *p, void *ctx)
{
    (void)r;
    (void)ctx;
    buf_puts(&p->body, "ok\n");
    p->content_type = "text/plain; charset=utf-8";
}

/* Why no sandbox can start now, "" when one can. */
static const char *status_trouble(struct api *api, struct http_request *r,
                                  struct sandbox_engine_status *ret)
{
    struct err e;
    if (sandbox_engine_status(api->sandboxes, ret, &e) != 0) {
        return arena_strdup(r->arena, e.msg);
    }
    if (!ret->docker_up) {
        return arena_printf(r->arena, "Docker does not answer: %s", ret->docker_error);
    }
    if (str_is(str_of(ret->walls), "failed")) {
        return arena_printf(r->arena, "the walls are not in place: %s", ret->walls_error);
    }
    return arena_strdup(r->arena, ret->runtime_error);
}

void api_readyz(struct http_request *r, struct http_response *p, void *ctx)
{
    struct sandbox_engine_status status = {0};
    const char *trouble = status_trouble(ctx, r, &status);
    if (trouble[0]) {
        http_error(p, "engine_unavailable", "%s", trouble);
        http_retry_after(p, 5);
        return;
    }
    buf_puts(&p->body, "ready\n");
    p->content_type = "text/plain; charset=utf-8";
}

void api_status(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct sandbox_engine_status status = {0};
    struct sandbox_disk disk = {0};
    struct json_writer w;
    size_t running = 0;
    size_t total = 0;
    const char *trouble = status_trouble(api, r, &status);
    sandbox_counts(api->sandboxes, &running, &total);
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_text(&w, "version", CONFIG_VERSION);
    json_object(&w, "engine");
    json_text(&w, "status", trouble[0] ? "down" : "up");
    json_text(&w, "message", trouble[0] ? trouble : NULL);
    json_text(&w, "docker_version", status.docker_version);
    json_object_end(&w);
    json_object(&w, "walls");
    json_text(&w, "status", status.walls[0] ? status.walls : "unknown");
    json_text(&w, "message", status.walls_error[0] ? status.walls_error : NULL);
    json_object_end(&w);
    json_object(&w, "memory");
    json_int(&w, "available_bytes", status.mem_available);
    json_int(&w, "total_bytes", status.mem_total);
    json_object_end(&w);
    sandbox_disk_look(api->sandboxes, &disk);
    json_object(&w, "disk");
    json_text(&w, "status", disk.is_low ? "low" : "ok");
    json_int(&w, "free_bytes", disk.free_bytes);
    json_int(&w, "floor_bytes", disk.floor_bytes);
    json_int(&w, "total_bytes", disk.total_bytes);
    json_object_end(&w);
    json_object(&w, "sandboxes");
    json_int(&w, "running", (int64_t)running);
    json_int(&w, "total", (int64_t)total);
    json_object_end(&w);
    json_object_end(&w);
    api_json(p, 200);
}

void api_metrics(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    size_t running = 0;
    size_t total = 0;
    uint64_t requests = 0;
    uint64_t errors = 0;
    sandbox_counts(api->sandboxes, &running, &total);
    http_server_count(&requests, &errors);
    buf_printf(&p->body,
               "# TYPE sandboxd_build_info gauge\nsandboxd_build_info{version=\"%s\"} 1\n"
               "# TYPE sandboxd_sandboxes gauge\nsandboxd_sandboxes{state=\"running\"} %zu\n"
               "sandboxd_sandboxes{state=\"other\"} %zu\n"
               "# TYPE sandboxd_api_requests_total counter\nsandboxd_api_requests_total %llu\n"
               "# TYPE sandboxd_api_errors_total counter\nsandboxd_api_errors_total %llu\n",
               CONFIG_VERSION, running, total - running, (unsigned long long)requests,
               (unsigned long long)errors);
    api_metrics_usage(api, r->arena, &p->body);
    p->content_type = "text/plain; version=0.0.4";
}

void api_openapi(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    char path[768];
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct err e;
    (void)r;
    (void)snprintf(path, sizeof(path), "%s/../openapi.json", api->config->presets_dir);
    if (fd_read_file(path, OPENAPI_BYTES_MAX, &text, &len, &e) != 0) {
        http_error(p, "unavailable", "the description of the API is not installed: %s", e.msg);
        return;
    }
    buf_add(&p->body, text, len);
    api_json(p, 200);
}

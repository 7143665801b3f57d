/*
 * What goes out: apps, sandboxes, tasks as compact JSON on one line, the object's own id last.
 */
#include <stdio.h>

#include "control/api/api.h"

/* Port behind the last colon of a Host header, or an empty slice. */
static struct str render_host_port(struct str host)
{
    ptrdiff_t at = -1;
    for (size_t i = host.len; i > 0 && at < 0; i--) {
        at = host.ptr[i - 1] == ':' ? (ptrdiff_t)i - 1 : -1;
        if (host.ptr[i - 1] == ']') {
            break;
        }
    }
    return at < 0 ? (struct str){"", 0} : str_cut(host, (size_t)at + 1, host.len);
}

const char *api_preview_url(const struct api *api, const struct http_request *r,
                            const struct ulid *id, uint16_t port)
{
    const struct config *c = api->config;
    char suffix[16] = "";
    uint64_t edge = 0;
    bool through_edge = r->from_console;
    if (through_edge) {
        /* The port the person sees, a tunnel's for example; none means the scheme's own. */
        if (str_to_u64(render_host_port(r->host), 65535, &edge)) {
            (void)snprintf(suffix, sizeof(suffix), ":%u", (unsigned)edge);
        }
    } else if (c->http_port != 80 && !c->preview_tls) {
        (void)snprintf(suffix, sizeof(suffix), ":%u", c->http_port);
    }
    return arena_printf(r->arena, "%s://s-%s-%u.preview.%s%s", c->preview_tls ? "https" : "http",
                        id->text, port, c->preview_domain, suffix);
}

static void render_ports(struct json_writer *w, const struct sandbox_row *row)
{
    json_array(w, "ports");
    for (size_t i = 0; i < row->port_count; i++) {
        json_int(w, NULL, row->ports[i]);
    }
    json_array_end(w);
}

static void render_disk(struct json_writer *w, const struct sandbox_row *row)
{
    if (row->disk_bytes < 0) {
        json_null(w, "disk_bytes");
    } else {
        json_int(w, "disk_bytes", row->disk_bytes);
    }
    json_time(w, "disk_measured_at", row->disk_at);
}

void render_app(struct json_writer *w, const struct api *api, const struct http_request *r,
                const struct app_row *app, const struct sandbox_row *sandbox)
{
    json_object(w, NULL);
    json_text(w, "name", app->name);
    json_text(w, "description", app->description);
    json_text(w, "runtime_preset", app->runtime_preset);
    json_text(w, "preview_access", app->is_private ? "private" : "public");
    json_text(w, "idle_policy", app_idle_policy_name(app->always_on));
    if (app->idle_threshold_s > 0) {
        json_int(w, "idle_threshold_s", app->idle_threshold_s);
    } else {
        json_null(w, "idle_threshold_s");
    }
    if (sandbox) {
        json_object(w, "sandbox");
        json_text(w, "sandbox_id", sandbox->id.text);
        json_text(w, "status", sandbox_status_name(sandbox->status));
        json_text(w, "preview_url", api_preview_url(api, r, &sandbox->id, sandbox->web_port));
        json_text(w, "image", sandbox->image);
        render_disk(w, sandbox);
        render_ports(w, sandbox);
        json_object_end(w);
    } else {
        json_null(w, "sandbox");
    }
    json_time(w, "created_at", app->created_at);
    json_time(w, "updated_at", app->updated_at);
    json_text(w, "id", app->id.text);
    json_object_end(w);
}

static void render_processes(struct json_writer *w, const struct api *api, struct arena *a,
                             const struct ulid *id)
{
    struct sandbox_process *list = NULL;
    size_t count = sandbox_processes(api->sandboxes, id, a, &list);
    json_array(w, "processes");
    for (size_t i = 0; i < count; i++) {
        json_object(w, NULL);
        json_text(w, "name", list[i].name);
        json_text(w, "type", list[i].type);
        json_text(w, "state", list[i].state);
        json_int(w, "restarts", list[i].restarts);
        json_int(w, "exit_code", list[i].exit_code);
        json_text(w, "lines", list[i].lines);
        json_object_end(w);
    }
    json_array_end(w);
}

static void render_preview(struct json_writer *w, const struct api *api,
                           const struct sandbox_row *row)
{
    struct sandbox_view view;
    struct err e;
    const char *status = "asleep";
    bool is_known = sandbox_look(api->sandboxes, &row->id, &view, &e) == 0;
    bool is_private = !is_known || view.is_private;
    json_object(w, "preview");
    /* The row is written before the table: an answer never says ready of a sandbox that it says
     * stopped. */
    if (is_known && row->status == SANDBOX_RUNNING && view.status == SANDBOX_RUNNING) {
        status = "waiting";
        for (size_t i = 0; i < view.open_count; i++) {
            status = view.open[i] == row->web_port ? "ready" : status;
        }
    }
    /* A start has phases too: queued, image, starting. */
    if (is_known && view.phase[0]) {
        json_text(w, "phase", view.phase);
        json_text(w, "detail", view.detail);
    }
    json_text(w, "status", status);
    json_int(w, "port", row->web_port);
    json_text(w, "access", is_private ? "private" : "public");
    json_text(w, "note",
              is_private ? "only you, signed in to the console, can load the app"
                         : "whoever has the preview address can load the app");
    json_object_end(w);
}

void render_sandbox(struct json_writer *w, const struct api *api, const struct http_request *r,
                    const struct sandbox_row *row)
{
    json_object(w, NULL);
    json_text(w, "app_id", row->app_id.text);
    json_text(w, "status", sandbox_status_name(row->status));
    render_ports(w, row);
    json_text(w, "preview_url", api_preview_url(api, r, &row->id, row->web_port));
    render_preview(w, api, row);
    render_idle(w, api, &row->id);
    json_bool(w, "config_changed_since_start", api_config_changed(api, &row->app_id, &row->id));
    json_text(w, "image", row->image);
    if (row->memory_bytes > 0) {
        json_int(w, "memory_limit_bytes", row->memory_bytes);
    } else {
        json_null(w, "memory_limit_bytes");
    }
    render_disk(w, row);
    render_processes(w, api, r->arena, &row->id);
    if (row->error_code[0]) {
        json_object(w, "error");
        json_text(w, "code", row->error_code);
        json_text(w, "message", row->error_message);
        json_object_end(w);
    } else {
        json_null(w, "error");
    }
    json_time(w, "started_at", row->started_at);
    json_time(w, "stopped_at", row->stopped_at);
    json_time(w, "created_at", row->created_at);
    json_time(w, "updated_at", row->updated_at);
    json_text(w, "id", row->id.text);
    json_object_end(w);
}

static void render_figure(struct json_writer *w, const char *key, int64_t value)
{
    if (value < 0) {
        json_null(w, key);
    } else {
        json_int(w, key, value);
    }
}

static void render_or_null(struct json_writer *w, const char *key, const char *value)
{
    json_text(w, key, value[0] ? value : NULL);
}

void render_task(struct json_writer *w, const struct task_row *task)
{
    char url[160];
    json_object(w, NULL);
    json_text(w, "sandbox_id", task->sandbox_id.text);
    json_text(w, "app_id", task->app_id.text);
    json_text(w, "agent", task->agent);
    json_text(w, "model", task->model);
    json_text(w, "prompt", task->prompt);
    json_text(w, "status", task_status_name(task->status));
    render_or_null(w, "failure_reason", task->failure_reason);
    render_or_null(w, "error_message", task->error_message);
    render_or_null(w, "agent_message", task->agent_message);
    json_object(w, "tokens");
    render_figure(w, "input", task->tokens_input);
    render_figure(w, "output", task->tokens_output);
    render_figure(w, "cached", task->tokens_cached);
    json_object_end(w);
    bool unpriced = task->requests > 0 && task->unpriced == task->requests;
    render_figure(w, "cost_microusd", unpriced ? -1 : task->cost_microusd);
    json_object(w, "metered");
    json_int(w, "requests", task->requests);
    json_int(w, "unpriced_requests", task->unpriced);
    json_object_end(w);
    json_object(w, "budget");
    render_figure(w, "limit_microusd", task->budget_microusd);
    render_figure(w, "limit_tokens", task->budget_tokens);
    json_object_end(w);
    json_int(w, "timeout_s", task->timeout_s);
    render_figure(
        w, "duration_ms",
        task->finished_at > 0 && task->started_at > 0 ? task->finished_at - task->started_at : -1);
    (void)snprintf(url, sizeof(url), "/v1/sandboxes/%s/tasks/%s/events", task->sandbox_id.text,
                   task->id.text);
    json_text(w, "events_url", url);
    json_time(w, "created_at", task->created_at);
    json_time(w, "started_at", task->started_at);
    json_time(w, "finished_at", task->finished_at);
    json_text(w, "id", task->id.text);
    json_object_end(w);
}

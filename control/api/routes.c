/*
 * The route table: method, path, handler, who may call it, how long its body may be.
 */
#include "control/api/api.h"
#include "control/vault/app_config.h"

#define PROMPT_BODY_BYTES (TASK_PROMPT_BYTES_MAX * 2)
#define CONFIG_BODY_BYTES (6 * APP_CONFIG_VALUE_BYTES_MAX + 4096) /* every byte escaped */

static const struct http_route api_table[] = {
    {"GET", "/healthz", api_healthz, HTTP_PUBLIC | HTTP_API_ONLY, 0},
    {"GET", "/readyz", api_readyz, HTTP_PUBLIC | HTTP_API_ONLY, 0},
    {"GET", "/metrics", api_metrics, HTTP_API_ONLY, 0},
    {"GET", "/v1/openapi.json", api_openapi, 0, 0},
    {"GET", "/v1/status", api_status, 0, 0},
    {"GET", "/v1/apps", api_apps_list, 0, 0},
    {"POST", "/v1/apps", api_apps_create, 0, 0},
    {"GET", "/v1/apps/:id", api_apps_get, 0, 0},
    {"PATCH", "/v1/apps/:id", api_apps_patch, 0, 0},
    {"DELETE", "/v1/apps/:id", api_apps_delete, 0, 0},
    {"POST", "/v1/apps/:id/sandbox", api_apps_sandbox, 0, 0},
    {"GET", "/v1/apps/:id/tasks", api_apps_tasks, 0, 0},
    {"GET", "/v1/apps/:id/events", api_apps_events, 0, 0},
    {"GET", "/v1/events", api_events, 0, 0},
    {"GET", "/v1/sandboxes/:id", api_sandboxes_get, 0, 0},
    {"POST", "/v1/sandboxes/:id/start", api_sandboxes_start, 0, 0},
    {"POST", "/v1/sandboxes/:id/stop", api_sandboxes_stop, 0, 0},
    {"POST", "/v1/sandboxes/:id/watching", api_sandboxes_watching, 0, 0},
    {"POST", "/v1/sandboxes/:id/keep-alive", api_sandboxes_keep_alive, 0, 0},
    {"POST", "/v1/sandboxes/:id/preview-ticket", api_sandboxes_ticket, 0, 0},
    {"DELETE", "/v1/sandboxes/:id", api_sandboxes_delete, 0, 0},
    {"GET", "/v1/sandboxes/:id/tasks", api_tasks_list, 0, 0},
    {"POST", "/v1/sandboxes/:id/tasks", api_tasks_create, 0, PROMPT_BODY_BYTES},
    {"GET", "/v1/sandboxes/:id/tasks/:task", api_tasks_get, 0, 0},
    {"GET", "/v1/sandboxes/:id/tasks/:task/events", api_tasks_events, 0, 0},
    {"POST", "/v1/sandboxes/:id/tasks/:task/cancel", api_tasks_cancel, 0, 0},
    {"GET", "/v1/apps/:id/config", api_app_config_list, 0, 0},
    {"GET", "/v1/apps/:id/config/:key", api_app_config_get, 0, 0},
    {"PUT", "/v1/apps/:id/config/:key", api_app_config_put, 0, CONFIG_BODY_BYTES},
    {"DELETE", "/v1/apps/:id/config/:key", api_app_config_delete, 0, 0},
    {"POST", "/v1/sandboxes/:id/apply-config", api_sandboxes_apply_config, 0, 0},
    {"GET", "/v1/presets", api_presets_list, 0, 0},
    {"POST", "/v1/presets/:id/image", api_presets_image, 0, 0},
    {"GET", "/v1/agents", api_agents_list, 0, 0},
    {"POST", "/v1/agents/:id/api-key", api_agents_key, 0, 0},
    {"POST", "/v1/agents/:id/disconnect", api_agents_disconnect, 0, 0},
    {"POST", "/v1/agents/:id/import", api_agents_import, 0, 0},
    {"POST", "/v1/agents/:id/oauth/start", api_agents_login_start, 0, 0},
    {"POST", "/v1/agents/:id/oauth/finish", api_agents_login_finish, 0, 0},
    {"GET", "/v1/providers", api_providers_list, 0, 0},
    {"PUT", "/v1/providers/:id", api_providers_put, 0, 0},
    {"DELETE", "/v1/providers/:id", api_providers_delete, 0, 0},
    {"POST", "/v1/providers/:id/api-key", api_providers_key, 0, 0},
    {"POST", "/v1/providers/:id/check", api_providers_check, 0, 0},
    {"POST", "/v1/providers/:id/disconnect", api_providers_disconnect, 0, 0},
    {"GET", "/v1/usage", api_usage, 0, 0},
    {"GET", "/v1/budgets", api_budgets_list, 0, 0},
    {"PUT", "/v1/budgets/:scope", api_budgets_put, 0, 0},
    {"DELETE", "/v1/budgets/:scope", api_budgets_delete, 0, 0},
    {"GET", "/v1/apps/:id/budget", api_app_budget_get, 0, 0},
    {"PUT", "/v1/apps/:id/budget", api_app_budget_put, 0, 0},
    {"DELETE", "/v1/apps/:id/budget", api_app_budget_delete, 0, 0},
    {"GET", "/v1/prices", api_prices_list, 0, 0},
    {"PUT", "/v1/prices", api_prices_put, 0, 0},
    {"DELETE", "/v1/prices", api_prices_delete, 0, 0},
    {"GET", "/v1/session", api_session_get, HTTP_PUBLIC | HTTP_CONSOLE_ONLY, 0},
    {"POST", "/v1/session", api_session_open, HTTP_PUBLIC | HTTP_CONSOLE_ONLY, 0},
    {"DELETE", "/v1/session", api_session_close, HTTP_PUBLIC | HTTP_CONSOLE_ONLY, 0},
    {"POST", "/v1/session/setup", api_session_setup, HTTP_PUBLIC | HTTP_CONSOLE_ONLY, 0},
    {"GET", "/", api_console_file, HTTP_PUBLIC | HTTP_CONSOLE_ONLY | HTTP_FALLBACK, 0},
};

const struct http_route *api_routes(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(api_table);
    return api_table;
}

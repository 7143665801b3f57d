/*
 * When an app may sleep: its idle policy in bodies and answers, and the keep-alive call. Worker
 * threads.
 */
#include "control/api/api.h"

/* The preview proxy tells every two seconds who is in use; below five of these an app would be put
 * to sleep under its visitor's fingers. */
#define APP_IDLE_SECONDS_MIN 10
#define APP_IDLE_SECONDS_MAX 31536000

static bool idle_policy(const struct json_value *body, struct app_change *ret,
                        struct http_response *p)
{
    const struct json_value *v = json_get(body, "idle_policy");
    if (!v) {
        return true;
    }
    struct str text = json_as_str(v);
    if (str_is(text, "sleep")) {
        ret->idle_policy = "sleep";
    } else if (str_is(text, "always_on")) {
        ret->idle_policy = "always_on";
    } else {
        http_error(p, "invalid_request",
                   "idle_policy must be \"sleep\" (stopped when nobody uses it, woken by its next "
                   "request) or \"always_on\"");
    }
    return ret->idle_policy != NULL;
}

bool api_opt_idle(const struct json_value *body, struct app_change *ret, struct http_response *p)
{
    const struct json_value *v = json_get(body, "idle_threshold_s");
    int64_t seconds = 0;
    if (!idle_policy(body, ret, p)) {
        return false;
    }
    if (!v) {
        return true;
    }
    ret->set_idle_threshold = true;
    if (json_is_null(v)) {
        return true;
    }
    if (!json_as_int(v, &seconds) || seconds < APP_IDLE_SECONDS_MIN ||
        seconds > APP_IDLE_SECONDS_MAX) {
        http_error(p, "invalid_request",
                   "idle_threshold_s must be a whole number from %d to %d, or null for the "
                   "installation's: use is told every two seconds, so less would put the app to "
                   "sleep under its visitors; \"idle_policy\":\"always_on\" never sleeps",
                   APP_IDLE_SECONDS_MIN, APP_IDLE_SECONDS_MAX);
        return false;
    }
    ret->idle_threshold_s = seconds;
    return true;
}

void render_idle(struct json_writer *w, const struct api *api, const struct ulid *id)
{
    struct sandbox_idle idle;
    struct err e;
    if (sandbox_idle_look(api->sandboxes, id, &idle, &e) != 0) {
        json_null(w, "idle");
        return;
    }
    json_object(w, "idle");
    json_text(w, "policy", app_idle_policy_name(idle.always_on));
    if (idle.threshold_s > 0) {
        json_int(w, "threshold_s", idle.threshold_s);
    } else {
        json_null(w, "threshold_s");
    }
    json_bool(w, "in_use", idle.in_use);
    json_time(w, "sleeps_at", idle.sleeps_at);
    json_time(w, "keep_alive_until", idle.keep_alive_until);
    json_bool(w, "stays_stopped", idle.stays_stopped);
    json_time(w, "starts_at", idle.starts_at);
    json_object_end(w);
}

void api_sandboxes_keep_alive(struct http_request *r, struct http_response *p, void *ctx)
{
    static const char *const allowed[] = {"seconds", NULL};
    struct api *api = ctx;
    struct ulid id;
    struct err e = {0};
    struct sandbox_row row;
    struct json_writer w;
    int64_t seconds = -1;
    int64_t max = api->config->keep_alive_max_s;
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, allowed);
    if (!doc || !api_id(r, 0, "sandbox", &id, p)) {
        return;
    }
    if (!json_get_int(json_root(doc), "seconds", &seconds) || seconds < 0 || seconds > max) {
        http_error(p, "invalid_request",
                   "seconds must be a whole number from 0 (ends it) to %lld "
                   "(SANDBOXD_KEEP_ALIVE_MAX_SECONDS)",
                   (long long)max);
        return;
    }
    if (sandbox_keep_alive(api->sandboxes, &id, seconds, &e) != 0 ||
        sandboxes_get(api->db, &id, r->arena, &row, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    render_sandbox(&w, api, r, &row);
    api_json(p, 200);
}

/*
 * What was spent: GET /v1/usage, and its part of /metrics. Worker threads.
 */
#include "control/store/usage.h"

#include <stdio.h>

#include "control/api/api.h"
#include "lib/clock.h"

#define USAGE_DAYS_MAX    100000 /* from the epoch on */
#define USAGE_METRICS_MAX 1000   /* lines of one group */

static const char *const usage_groups[] = {
    [USAGE_BY_NOTHING] = "",     [USAGE_BY_DAY] = "day",     [USAGE_BY_APP] = "app_id",
    [USAGE_BY_TASK] = "task_id", [USAGE_BY_AGENT] = "agent", [USAGE_BY_PROVIDER] = "provider",
    [USAGE_BY_MODEL] = "model",  [USAGE_BY_KEY] = "key_id",
};

static bool usage_is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t usage_month_days(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && usage_is_leap(year) ? 1 : 0);
}

/* "2026-01-31" as days since the epoch; false for no such day. */
static bool usage_read_day(struct str text, int64_t *ret_day)
{
    uint64_t parts[3] = {0};
    static const size_t at[] = {0, 5, 8};
    static const size_t len[] = {4, 2, 2};
    if (text.len != 10 || text.ptr[4] != '-' || text.ptr[7] != '-') {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = at[i]; k < at[i] + len[i]; k++) {
            if (text.ptr[k] < '0' || text.ptr[k] > '9') {
                return false;
            }
            parts[i] = parts[i] * 10 + (uint64_t)(text.ptr[k] - '0');
        }
    }
    int64_t year = (int64_t)parts[0];
    int64_t month = (int64_t)parts[1];
    if (year < 1970 || month < 1 || month > 12 || parts[2] < 1 ||
        (int64_t)parts[2] > usage_month_days(year, month)) {
        return false;
    }
    int64_t day = (int64_t)parts[2] - 1;
    for (int64_t y = 1970; y < year; y++) {
        day += usage_is_leap(y) ? 366 : 365;
    }
    for (int64_t m = 1; m < month; m++) {
        day += usage_month_days(year, m);
    }
    *ret_day = day;
    return true;
}

static const char *usage_day_text(int64_t day, char text[CLOCK_TEXT_BYTES])
{
    if (day <= 0) {
        return "1970-01-01";
    }
    (void)clock_format(day * USAGE_DAY_MS, text);
    text[10] = '\0';
    return text;
}

static bool usage_day(const struct http_request *r, const char *key, int64_t *ret_day,
                      struct http_response *p)
{
    struct str text;
    if (http_query(r, key, &text) && !usage_read_day(text, ret_day)) {
        http_error(p, "invalid_request", "%s must be a day like 2026-01-31", key);
        return false;
    }
    return true;
}

static const char *usage_word(const struct http_request *r, const char *key)
{
    struct str text;
    return http_query(r, key, &text) ? arena_str(r->arena, str_cut(text, 0, 200)) : "";
}

static bool usage_group_of(const struct http_request *r, enum usage_group *ret,
                           struct http_response *p)
{
    const char *word = usage_word(r, "group");
    for (size_t i = 0; i < ARRAY_LEN(usage_groups); i++) {
        if (strcmp(usage_groups[i], word) == 0) {
            *ret = (enum usage_group)i;
            return true;
        }
    }
    http_error(p, "invalid_request",
               "group must be day, app_id, task_id, agent, provider, model or key_id");
    return false;
}

static void usage_render_sums(struct json_writer *w, const struct usage_sums *s)
{
    json_int(w, "requests", s->requests);
    json_int(w, "failed_requests", s->failed);
    json_object(w, "tokens");
    json_int(w, "input", s->input);
    json_int(w, "output", s->output);
    json_int(w, "cached_read", s->cached_read);
    json_int(w, "cached_write", s->cached_write);
    json_object_end(w);
    if (s->requests > 0 && s->unpriced == s->requests) {
        json_null(w, "cost_microusd");
    } else {
        json_int(w, "cost_microusd", s->cost_microusd);
    }
    json_int(w, "unpriced_requests", s->unpriced);
}

static void usage_render(struct json_writer *w, enum usage_group group,
                         const struct usage_line *line)
{
    char text[CLOCK_TEXT_BYTES];
    int64_t day = 0;
    json_object(w, NULL);
    if (group == USAGE_BY_DAY) {
        (void)str_to_i64(str_of(line->group), 0, USAGE_DAYS_MAX, &day);
        json_text(w, "day", usage_day_text(day, text));
    } else if (group != USAGE_BY_NOTHING) {
        json_text(w, usage_groups[group], line->group[0] ? line->group : NULL);
    }
    if (group == USAGE_BY_TASK) {
        json_text(w, "app_id", line->app_id && line->app_id[0] ? line->app_id : NULL);
    }
    usage_render_sums(w, &line->sums);
    json_object_end(w);
}

static void usage_answer(struct http_response *p, const struct usage_filter *filter,
                         enum usage_group group, const struct usage_line *lines, size_t count,
                         const struct usage_sums *total, bool more)
{
    struct json_writer w;
    char text[CLOCK_TEXT_BYTES];
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_text(&w, "from", usage_day_text(filter->from_day, text));
    json_text(&w, "to", usage_day_text(filter->to_day, text));
    json_array(&w, "usage");
    for (size_t i = 0; i < count; i++) {
        usage_render(&w, group, &lines[i]);
    }
    json_array_end(&w);
    json_object(&w, "total");
    usage_render_sums(&w, total);
    json_object_end(&w);
    json_text(&w, "next_cursor", more ? lines[count - 1].group : NULL);
    json_object_end(&w);
    api_json(p, 200);
}

void api_usage(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct err e;
    struct usage_filter filter = {.from_day = 0,
                                  .to_day = clock_unix_ms() / USAGE_DAY_MS,
                                  .app_id = usage_word(r, "app_id"),
                                  .task_id = usage_word(r, "task_id"),
                                  .provider = usage_word(r, "provider")};
    enum usage_group group = USAGE_BY_NOTHING;
    struct usage_line *lines = NULL;
    struct usage_sums total = {0};
    size_t count = 0;
    int limit = 0;
    struct str cursor;
    if (!usage_day(r, "from", &filter.from_day, p) || !usage_day(r, "to", &filter.to_day, p) ||
        !usage_group_of(r, &group, p) || !api_page(r, &limit, &cursor, p)) {
        return;
    }
    if (usage_list(api->db, &filter, group, arena_str(r->arena, cursor), limit, r->arena, &lines,
                   &count, &e) != 0 ||
        usage_sum(api->db, &filter, &total, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    usage_answer(p, &filter, group, lines, count, &total,
                 count > 0 && count == (size_t)limit && group != USAGE_BY_NOTHING);
}

/* ---- /metrics ---- */

static void usage_metric(struct buf *out, const char *name, const char *provider, const char *kind,
                         int64_t value)
{
    buf_printf(out, "%s{provider=\"%s\"%s%s%s} %lld\n", name, provider, kind[0] ? ",kind=\"" : "",
               kind, kind[0] ? "\"" : "", (long long)value);
}

static void usage_metrics_tokens(struct buf *out, const struct usage_line *lines, size_t count)
{
    buf_puts(out, "# TYPE sandboxd_model_tokens_total counter\n");
    for (size_t i = 0; i < count; i++) {
        const struct usage_sums *s = &lines[i].sums;
        const char *name = "sandboxd_model_tokens_total";
        usage_metric(out, name, lines[i].group, "input", s->input);
        usage_metric(out, name, lines[i].group, "output", s->output);
        usage_metric(out, name, lines[i].group, "cached_read", s->cached_read);
        usage_metric(out, name, lines[i].group, "cached_write", s->cached_write);
    }
}

/* Tokens of every kind together and cost, one line of each for a group; ids are labels as they
 * stand. */
static void usage_metrics_by(struct api *api, struct arena *a, struct buf *out,
                             enum usage_group group, const char *name, const char *label)
{
    struct usage_filter filter = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_line *lines = NULL;
    size_t count = 0;
    struct err e;
    if (usage_list(api->db, &filter, group, "", USAGE_METRICS_MAX, a, &lines, &count, &e) != 0) {
        return;
    }
    buf_printf(out, "# TYPE sandboxd_%s_tokens_total counter\n", name);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "sandboxd_%s_tokens_total{%s=\"%s\"} %lld\n", name, label, lines[i].group,
                   (long long)usage_tokens(&lines[i].sums));
    }
    buf_printf(out, "# TYPE sandboxd_%s_cost_microusd_total counter\n", name);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "sandboxd_%s_cost_microusd_total{%s=\"%s\"} %lld\n", name, label,
                   lines[i].group, (long long)lines[i].sums.cost_microusd);
    }
}

static void usage_metrics_today(struct api *api, struct buf *out)
{
    struct usage_filter filter = {.from_day = clock_unix_ms() / USAGE_DAY_MS,
                                  .to_day = INT64_MAX,
                                  .app_id = "",
                                  .task_id = "",
                                  .provider = ""};
    struct usage_sums sums = {0};
    struct err e;
    if (usage_sum(api->db, &filter, &sums, &e) != 0) {
        return;
    }
    buf_printf(out,
               "# TYPE sandboxd_today_tokens gauge\nsandboxd_today_tokens %lld\n"
               "# TYPE sandboxd_today_cost_microusd gauge\nsandboxd_today_cost_microusd %lld\n",
               (long long)usage_tokens(&sums), (long long)sums.cost_microusd);
}

void api_metrics_usage(struct api *api, struct arena *a, struct buf *out)
{
    struct usage_filter filter = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_line *lines = NULL;
    size_t count = 0;
    struct err e;
    /* A provider's id is small letters, digits and dashes: a label as it stands. */
    if (usage_list(api->db, &filter, USAGE_BY_PROVIDER, "", VAULT_PROVIDERS_MAX, a, &lines, &count,
                   &e) != 0) {
        return;
    }
    buf_puts(out, "# TYPE sandboxd_model_requests_total counter\n");
    for (size_t i = 0; i < count; i++) {
        usage_metric(out, "sandboxd_model_requests_total", lines[i].group, "",
                     lines[i].sums.requests);
    }
    buf_puts(out, "# TYPE sandboxd_model_requests_unpriced_total counter\n");
    for (size_t i = 0; i < count; i++) {
        usage_metric(out, "sandboxd_model_requests_unpriced_total", lines[i].group, "",
                     lines[i].sums.unpriced);
    }
    usage_metrics_tokens(out, lines, count);
    buf_puts(out, "# TYPE sandboxd_model_cost_microusd_total counter\n");
    for (size_t i = 0; i < count; i++) {
        usage_metric(out, "sandboxd_model_cost_microusd_total", lines[i].group, "",
                     lines[i].sums.cost_microusd);
    }
    usage_metrics_by(api, a, out, USAGE_BY_APP, "app", "app_id");
    usage_metrics_by(api, a, out, USAGE_BY_KEY, "key", "key_id");
    usage_metrics_today(api, out);
}

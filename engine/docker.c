/*
 * Docker Engine API over its Unix socket. Any thread; holds its lock never across an exchange.
 */
#include "engine/docker.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/thread.h"

#define API_MINOR_MIN    41 /* engine 20.10 */
#define API_MINOR_MAX    51 /* engine 28.3; newer ones still speak it */
#define IDLE_HANDLES_MAX 2
#define URL_BYTES        4096
#define HEADER_BYTES     128

struct docker {
    const char *socket_path; /* borrowed */
    pthread_mutex_t lock;    /* guards what is below */
    struct fetch *idle[IDLE_HANDLES_MAX];
    size_t idle_count;
    bool is_negotiated;
    struct docker_version version;
};

struct docker *docker_new(const char *socket_path)
{
    struct docker *d = mem_alloc(sizeof(*d));
    d->socket_path = socket_path;
    (void)pthread_mutex_init(&d->lock, NULL);
    return d;
}

void docker_free(struct docker *d)
{
    if (!d) {
        return;
    }
    for (size_t i = 0; i < d->idle_count; i++) {
        fetch_free(d->idle[i]);
    }
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

static struct fetch *docker_handle_take(struct docker *d)
{
    LOCK_GUARD(&d->lock);
    return d->idle_count > 0 ? d->idle[--d->idle_count] : fetch_new();
}

static void docker_handle_give(struct docker *d, struct fetch *take_f)
{
    {
        LOCK_GUARD(&d->lock);
        if (d->idle_count < IDLE_HANDLES_MAX) {
            d->idle[d->idle_count++] = take_f;
            return;
        }
    }
    fetch_free(take_f);
}

void docker_encode(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '_' || c == '-' || c == '.' || c == '~') {
            buf_putc(out, c);
        } else {
            buf_printf(out, "%%%02X", (unsigned)(uint8_t)c);
        }
    }
}

static bool time_digits(struct str text, size_t from, size_t len, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = from; i < from + len; i++) {
        if (i >= text.len || text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret_value = value;
    return value <= max;
}

/* The fraction behind the seconds, in milliseconds, and the zone: "Z" or "+hh:mm". */
static bool time_tail(struct str text, size_t at, uint64_t *ret_ms, int64_t *ret_offset_s)
{
    uint64_t hours = 0;
    uint64_t minutes = 0;
    uint64_t unit = 100;
    *ret_ms = 0;
    *ret_offset_s = 0;
    if (at < text.len && text.ptr[at] == '.') {
        for (at++; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++, unit /= 10) {
            *ret_ms += (uint64_t)(text.ptr[at] - '0') * unit;
        }
    }
    if (at + 1 == text.len && text.ptr[at] == 'Z') {
        return true;
    }
    if (at + 6 != text.len || (text.ptr[at] != '+' && text.ptr[at] != '-') ||
        text.ptr[at + 3] != ':' || !time_digits(text, at + 1, 2, 23, &hours) ||
        !time_digits(text, at + 4, 2, 59, &minutes)) {
        return false;
    }
    *ret_offset_s = (int64_t)(hours * 3600 + minutes * 60) * (text.ptr[at] == '-' ? -1 : 1);
    return true;
}

int64_t docker_time_ms(struct str text)
{
    uint64_t year = 0;
    uint64_t month = 0;
    uint64_t day = 0;
    uint64_t hour = 0;
    uint64_t minute = 0;
    uint64_t second = 0;
    uint64_t ms = 0;
    int64_t offset_s = 0;
    if (!time_digits(text, 0, 4, 9999, &year) || !time_digits(text, 5, 2, 12, &month) ||
        !time_digits(text, 8, 2, 31, &day) || !time_digits(text, 11, 2, 23, &hour) ||
        !time_digits(text, 14, 2, 59, &minute) || !time_digits(text, 17, 2, 60, &second) ||
        text.ptr[4] != '-' || text.ptr[7] != '-' || text.ptr[10] != 'T' || text.ptr[13] != ':' ||
        text.ptr[16] != ':' || !time_tail(text, 19, &ms, &offset_s) || year < 1970 || month == 0 ||
        day == 0) {
        return 0;
    }
    struct tm tm = {.tm_year = (int)year - 1900,
                    .tm_mon = (int)month - 1,
                    .tm_mday = (int)day,
                    .tm_hour = (int)hour,
                    .tm_min = (int)minute,
                    .tm_sec = (int)second};
    return ((int64_t)timegm(&tm) - offset_s) * 1000 + (int64_t)ms;
}

/* "1.41" → 41; false for another major or anything malformed. */
static bool api_minor(struct str text, uint64_t *ret_minor)
{
    return str_starts(text, STR("1.")) && str_to_u64(str_cut(text, 2, text.len), 1000, ret_minor);
}

int docker_pick_version(const struct json_value *version, struct docker_version *ret, struct err *e)
{
    uint64_t max = 0;
    uint64_t min = 0;
    struct str name = json_get_str(version, "Version");
    struct str api = json_get_str(version, "ApiVersion");
    struct str min_api = json_get_str(version, "MinAPIVersion");
    if (!name.ptr || !api_minor(api, &max)) {
        return err_set(e, ERR_UNAVAILABLE, 0, "what answers at the engine's socket is not Docker");
    }
    if (max < API_MINOR_MIN) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "Docker %.*s speaks API %.*s: 1.%d (Docker 20.10) or newer is needed",
                       STR_FMT(name), STR_FMT(api), API_MINOR_MIN);
    }
    if (min_api.ptr && (!api_minor(min_api, &min) || min > API_MINOR_MAX)) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "Docker %.*s wants at least API %.*s and this sandboxd speaks up to 1.%d: "
                       "upgrade sandboxd",
                       STR_FMT(name), STR_FMT(min_api), API_MINOR_MAX);
    }
    (void)snprintf(ret->engine, sizeof(ret->engine), "%.*s", STR_FMT(name));
    (void)snprintf(ret->api, sizeof(ret->api), "1.%u",
                   (unsigned)(max < API_MINOR_MAX ? max : API_MINOR_MAX));
    return 0;
}

/* One exchange with a full URL. Marks the version unknown when the engine cannot be reached: it may
 * come back as another. */
static int docker_exchange(struct docker *d, const struct fetch_request *request,
                           struct fetch_answer *ret, struct err *e)
{
    struct fetch *f = docker_handle_take(d);
    int result = fetch_perform(f, request, ret, e);
    if (result < 0) {
        /* The connection may be in any state. */
        fetch_free(f);
    } else {
        docker_handle_give(d, f);
    }
    if (result < 0 && e && e->code == ERR_UNAVAILABLE) {
        LOCK_GUARD(&d->lock);
        d->is_negotiated = false;
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "Docker does not answer at %s: start it (systemctl start docker)",
                       d->socket_path);
    }
    return result < 0 ? err_wrap(e, "Docker") : 0;
}

int docker_negotiate(struct docker *d, struct docker_version *ret, struct err *e)
{
    struct fetch_request request = {.method = "GET",
                                    .url = "http://docker/version",
                                    .unix_socket = d->socket_path,
                                    .timeout_ms = DOCKER_STATUS_TIMEOUT_MS};
    FETCH_ANSWER_AUTO(answer);
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct docker_version version = {0};
    if (docker_exchange(d, &request, &answer, e) < 0) {
        return -1;
    }
    if (answer.status != 200 || json_parse(buf_str(&answer.body), &doc, NULL) < 0) {
        return err_set(e, ERR_UNAVAILABLE, 0, "Docker answered %ld when asked for its version",
                       answer.status);
    }
    if (docker_pick_version(json_root(doc), &version, e) < 0) {
        return -1;
    }
    LOCK_GUARD(&d->lock);
    d->version = version;
    d->is_negotiated = true;
    *ret = version;
    return 0;
}

static bool docker_is_negotiated(struct docker *d, struct docker_version *ret)
{
    LOCK_GUARD(&d->lock);
    if (d->is_negotiated) {
        *ret = d->version;
    }
    return d->is_negotiated;
}

static int docker_version_get(struct docker *d, struct docker_version *ret, struct err *e)
{
    return docker_is_negotiated(d, ret) ? 0 : docker_negotiate(d, ret, e);
}

int docker_ping(struct docker *d, struct docker_version *ret, struct err *e)
{
    struct fetch_request request = {.method = "GET",
                                    .url = "http://docker/_ping",
                                    .unix_socket = d->socket_path,
                                    .timeout_ms = DOCKER_STATUS_TIMEOUT_MS};
    FETCH_ANSWER_AUTO(answer);
    if (!docker_is_negotiated(d, ret)) {
        return docker_negotiate(d, ret, e);
    }
    if (docker_exchange(d, &request, &answer, e) < 0) {
        return -1;
    }
    return answer.status == 200
               ? 0
               : err_set(e, ERR_UNAVAILABLE, 0, "Docker answered %ld to a ping", answer.status);
}

static enum err_code docker_status_code(long status)
{
    switch (status) {
    case 400: return ERR_INVALID;
    case 404: return ERR_NOT_FOUND;
    case 409: return ERR_CONFLICT;
    default: return ERR_IO;
    }
}

/* The engine's own words out of an error answer. */
static int docker_refused(const struct fetch_answer *answer, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct str words = {0};
    if (json_parse(buf_str(&answer->body), &doc, NULL) == 0) {
        words = str_trim(json_get_str(json_root(doc), "message"));
    }
    if (!words.ptr || str_empty(words)) {
        return err_set(e, docker_status_code(answer->status), 0, "Docker answered %ld",
                       answer->status);
    }
    return err_set(e, docker_status_code(answer->status), 0, "%.*s", STR_FMT(words));
}

int docker_call(struct docker *d, const struct docker_request *request, struct fetch_answer *ret,
                struct err *e)
{
    struct docker_version version;
    char url[URL_BYTES];
    char type[HEADER_BYTES];
    const char *headers[] = {type, NULL};
    if (docker_version_get(d, &version, e) < 0) {
        return -1;
    }
    int len = snprintf(url, sizeof(url), "http://docker/v%s%s", version.api, request->path);
    (void)snprintf(type, sizeof(type), "Content-Type: %s",
                   request->content_type ? request->content_type : "application/json");
    if (len < 0 || (size_t)len >= sizeof(url)) {
        return err_set(e, ERR_INTERNAL, 0, "a path too long for Docker");
    }
    bool has_body = request->body.len > 0 || request->body_fn;
    int64_t timeout_ms = request->timeout_ms ? request->timeout_ms : DOCKER_TIMEOUT_MS;
    struct fetch_request exchange = {.method = request->method,
                                     .url = url,
                                     .unix_socket = d->socket_path,
                                     .headers = has_body ? headers : NULL,
                                     .body = request->body,
                                     .body_fn = request->body_fn,
                                     .timeout_ms = timeout_ms < 0 ? 0 : timeout_ms,
                                     .idle_timeout_ms = request->idle_timeout_ms,
                                     .answer_max = request->answer_max,
                                     .data_fn = request->data_fn,
                                     .cancel_fn = request->cancel_fn,
                                     .stop_fd = request->stop_fd,
                                     .ctx = request->ctx};
    if (docker_exchange(d, &exchange, ret, e) < 0) {
        return -1;
    }
    return ret->status >= 400 ? docker_refused(ret, e) : 0;
}

int docker_json(struct docker *d, const char *method, const char *path, const struct buf *body,
                struct json_doc **ret_doc, struct err *e)
{
    struct docker_request request = {.method = method,
                                     .path = path,
                                     .body = body ? buf_str(body) : STR(""),
                                     .answer_max = 16UL << 20};
    FETCH_ANSWER_AUTO(answer);
    if (docker_call(d, &request, &answer, e) < 0) {
        return -1;
    }
    *ret_doc = NULL;
    if (answer.body.len > 0 && json_parse(buf_str(&answer.body), ret_doc, e) < 0) {
        return err_wrap(e, "Docker's answer to %s %s", method, path);
    }
    return 0;
}

int docker_do(struct docker *d, const char *method, const char *path, const struct buf *body,
              int64_t timeout_ms, struct err *e)
{
    struct docker_request request = {.method = method,
                                     .path = path,
                                     .body = body ? buf_str(body) : STR(""),
                                     .timeout_ms = timeout_ms};
    FETCH_ANSWER_AUTO(answer);
    return docker_call(d, &request, &answer, e);
}

/*
 * HTTP client: blocking exchanges over libcurl. A handle belongs to one thread at a time.
 */
#include "lib/fetch.h"

#include <stdio.h>

#include <curl/curl.h>

#include "lib/clock.h"

#define FETCH_CONNECT_TIMEOUT_MS 2000
#define FETCH_WAIT_MS            60000

struct fetch {
    CURL *curl; /* owned */
};

/* State of one exchange; lives on the stack of fetch_perform. */
struct fetch_run {
    const struct fetch_request *request;
    struct fetch_answer *answer;
    int64_t last_byte_ms;
    bool cancelled;
    bool idle;
    bool over_limit;
};

int fetch_global_init(struct err *e)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(e, ERR_INTERNAL, 0, "libcurl does not start");
    }
    return 0;
}

struct fetch *fetch_new(void)
{
    struct fetch *f = mem_alloc(sizeof(*f));
    f->curl = curl_easy_init();
    if (!f->curl) {
        abort();
    }
    return f;
}

void fetch_free(struct fetch *f)
{
    if (f) {
        curl_easy_cleanup(f->curl);
        free(f);
    }
}

void fetch_answer_done(struct fetch_answer *a)
{
    buf_done(&a->body);
}

static size_t fetch_on_data(char *bytes, size_t size, size_t count, void *ctx)
{
    struct fetch_run *run = ctx;
    size_t len = size * count;
    run->last_byte_ms = clock_mono_ms();
    if (run->request->data_fn) {
        return run->request->data_fn(bytes, len, run->request->ctx);
    }
    buf_add(&run->answer->body, bytes, len);
    run->over_limit = !buf_ok(&run->answer->body);
    return run->over_limit ? 0 : len;
}

static size_t fetch_on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct fetch_run *run = ctx;
    size_t n = run->request->body_fn(bytes, size * count, run->request->ctx);
    run->last_byte_ms = clock_mono_ms();
    return n == (size_t)-1 ? CURL_READFUNC_ABORT : n;
}

static int fetch_on_progress(void *ctx, curl_off_t dl_total, curl_off_t dl_now, curl_off_t ul_total,
                             curl_off_t ul_now)
{
    struct fetch_run *run = ctx;
    (void)dl_total, (void)dl_now, (void)ul_total, (void)ul_now;
    int64_t idle_ms = run->request->idle_timeout_ms;
    run->cancelled =
        run->cancelled || (run->request->cancel_fn && run->request->cancel_fn(run->request->ctx));
    run->idle = idle_ms > 0 && clock_mono_ms() - run->last_byte_ms > idle_ms;
    return run->cancelled || run->idle;
}

static int fetch_set_headers(const struct fetch_request *request, struct curl_slist **ret,
                             struct err *e)
{
    /* An empty Expect keeps libcurl from waiting a second for "100 Continue". */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    for (const char *const *h = request->headers; h && *h; h++) {
        if (str_find(str_of(*h), '\r') >= 0 || str_find(str_of(*h), '\n') >= 0) {
            curl_slist_free_all(list);
            return err_set(e, ERR_INVALID, 0, "a header with a line break");
        }
        list = curl_slist_append(list, *h);
    }
    *ret = list;
    return 0;
}

static void fetch_set_body(CURL *c, const struct fetch_request *request, struct fetch_run *run)
{
    if (request->body_fn) {
        curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c, CURLOPT_READFUNCTION, fetch_on_body);
        curl_easy_setopt(c, CURLOPT_READDATA, run);
    } else if (request->body.len > 0 || request->send_body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, request->body.ptr ? request->body.ptr : "");
    }
    if (str_is(str_of(request->method), "HEAD")) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    }
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, request->method);
}

static void fetch_set_options(CURL *c, const struct fetch_request *request, struct fetch_run *run,
                              char *errors)
{
    long connect_ms =
        request->connect_timeout_ms ? (long)request->connect_timeout_ms : FETCH_CONNECT_TIMEOUT_MS;
    curl_easy_setopt(c, CURLOPT_URL, request->url);
    if (request->unix_socket) {
        curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket);
    }
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, errors);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, fetch_on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, fetch_on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, run);
}

static int fetch_result(CURLcode rc, const struct fetch_run *run, const char *errors, struct err *e)
{
    const char *why = errors[0] ? errors : curl_easy_strerror(rc);
    if (rc == CURLE_OK) {
        return 0;
    }
    if (run->cancelled) {
        return err_set(e, ERR_CANCELLED, 0, "cancelled");
    }
    if (run->over_limit) {
        return err_set(e, ERR_LIMIT, 0, "an answer of more than %zu bytes", run->answer->body.max);
    }
    if (run->idle || rc == CURLE_OPERATION_TIMEDOUT) {
        return err_set(e, ERR_TIMEOUT, 0, "%s", run->idle ? "nothing was received in time" : why);
    }
    bool unreachable = rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST;
    return err_set(e, unreachable ? ERR_UNAVAILABLE : ERR_IO, 0, "%s", why);
}

/* Waits for the exchange's own descriptors and stop_fd. */
static void fetch_wait(CURLM *multi, struct fetch_run *run)
{
    struct curl_waitfd stop = {.fd = run->request->stop_fd, .events = CURL_WAIT_POLLIN};
    CURLMcode rc = curl_multi_poll(multi, &stop, 1, FETCH_WAIT_MS, NULL);
    run->cancelled = run->cancelled || rc != CURLM_OK || stop.revents != 0;
}

static CURLcode fetch_result_of(CURLM *multi)
{
    CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
    int left = 0;
    const CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(multi, &left))) {
        rc = message->msg == CURLMSG_DONE ? message->data.result : rc;
    }
    return rc;
}

/* curl_easy_perform wakes each second to ask whether to go on. */
static CURLcode fetch_follow(CURL *c, struct fetch_run *run)
{
    CURLM *multi = curl_multi_init();
    int running = 1;
    if (!multi) {
        return CURLE_OUT_OF_MEMORY;
    }
    (void)curl_multi_add_handle(multi, c);
    while (running > 0 && !run->cancelled && curl_multi_perform(multi, &running) == CURLM_OK) {
        if (running > 0) {
            fetch_wait(multi, run);
        }
    }
    CURLcode rc = fetch_result_of(multi);
    (void)curl_multi_remove_handle(multi, c);
    (void)curl_multi_cleanup(multi);
    return rc;
}

int fetch_perform(struct fetch *f, const struct fetch_request *request, struct fetch_answer *ret,
                  struct err *e)
{
    char errors[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    struct fetch_run run = {.request = request, .answer = ret, .last_byte_ms = clock_mono_ms()};
    if (fetch_set_headers(request, &headers, e) != 0) {
        return -1;
    }
    ret->status = 0;
    buf_reset(&ret->body);
    ret->body.max = request->answer_max ? request->answer_max : FETCH_ANSWER_BYTES_DEFAULT;
    curl_easy_reset(f->curl);
    fetch_set_options(f->curl, request, &run, errors);
    fetch_set_body(f->curl, request, &run);
    curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, headers);
    CURLcode rc = request->stop_fd > 0 ? fetch_follow(f->curl, &run) : curl_easy_perform(f->curl);
    (void)curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &ret->status);
    curl_slist_free_all(headers);
    return fetch_result(rc, &run, errors, e);
}

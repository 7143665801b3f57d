/*
 * sandboxd-fetch: one request to a provider, read as a record from stdin, its answer written to
 * stdout; then it ends. docs/protocols.md, section 10.
 *
 * Started by sandboxd, which so keeps no HTTP and TLS client in memory and lets no provider's bytes
 * reach one beside its keys. It must never take a secret from anywhere but stdin, follow a
 * redirect, keep a right that it does not need, or outlive sandboxd. Main thread.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/fetch.h"
#include "lib/mem.h"
#include "lib/record.h"

#define MAIN_HEADERS_MAX  16
#define MAIN_ANSWER_MAX   (1U << 20)
#define MAIN_TIMEOUT_MAX  120000
#define MAIN_WRITE_MS     5000
#define MAIN_NOBODY       65534
#define MAIN_MEMORY_MAX   (512UL * 1024 * 1024)
#define MAIN_CPU_SECONDS  10
#define MAIN_DESCRIPTORS  64
#define MAIN_HEADER_BYTES 8192
#define MAIN_TEXT_BYTES   8192 /* method and address */
#define MAIN_TEXTS_BYTES  (MAIN_TEXT_BYTES + MAIN_HEADERS_MAX * MAIN_HEADER_BYTES)

/* What a request is made of: terminated copies of what the record says. */
struct request {
    char *texts; /* owned; holds all of the following */
    size_t used;
    const char *method;
    const char *url;
    const char *headers[MAIN_HEADERS_MAX + 1];
    struct fetch_request fetch;
};

/* ---- rights ---- */

static void limit(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit value = {most, most};
    (void)setrlimit(resource, &value);
}

/* Root's rights are for files and users of this machine; a request needs none of them. */
static int drop_rights(struct err *e)
{
    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(MAIN_NOBODY) != 0 || setuid(MAIN_NOBODY) != 0)) {
        return err_set(e, ERR_INTERNAL, errno, "give up root's rights");
    }
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CPU, MAIN_CPU_SECONDS);
    limit(RLIMIT_NOFILE, MAIN_DESCRIPTORS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their shadow is larger */
    limit(RLIMIT_AS, MAIN_MEMORY_MAX);
#endif
    /* A change of user clears both of these, so they come after it. */
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return err_set(e, ERR_INTERNAL, errno, "close this process to others");
    }
    return 0;
}

/* ---- the request ---- */

static const char *keep_text(struct request *r, struct str text, size_t max)
{
    char *at = r->texts + r->used;
    if (!text.ptr || text.len >= max || memchr(text.ptr, '\0', text.len)) {
        return NULL;
    }
    memcpy(at, text.ptr, text.len);
    at[text.len] = '\0';
    r->used += text.len + 1;
    return at;
}

static int keep_headers(struct request *r, const struct record *in, struct err *e)
{
    struct str header;
    size_t pos = 0;
    size_t count = 0;
    while (record_each_of(in, &pos, "header", &header)) {
        r->headers[count] =
            count < MAIN_HEADERS_MAX ? keep_text(r, header, MAIN_HEADER_BYTES) : NULL;
        if (!r->headers[count]) {
            return err_set(e, ERR_PROTOCOL, 0, "too many headers, or one that is too long");
        }
        count++;
    }
    return 0;
}

static int read_request(const struct record *in, struct request *r, struct err *e)
{
    uint64_t timeout = 0;
    uint64_t connect = 0;
    uint64_t answer_max = 0;
    struct str body = record_get(in, "body");
    r->texts = mem_alloc(MAIN_TEXTS_BYTES);
    r->method = keep_text(r, record_get(in, "method"), 16);
    r->url = keep_text(r, record_get(in, "url"), MAIN_TEXT_BYTES - 16);
    if (!record_is(in, "fetch") || !r->method || !r->url ||
        !record_get_u64(in, "timeout_ms", MAIN_TIMEOUT_MAX, &timeout) ||
        !record_get_u64(in, "connect_timeout_ms", MAIN_TIMEOUT_MAX, &connect) ||
        !record_get_u64(in, "answer_max", MAIN_ANSWER_MAX, &answer_max)) {
        return err_set(e, ERR_PROTOCOL, 0, "a request that is not whole");
    }
    r->fetch = (struct fetch_request){.method = r->method,
                                      .url = r->url,
                                      .headers = r->headers,
                                      .body = body,
                                      .send_body = body.ptr != NULL,
                                      .timeout_ms = (int64_t)timeout,
                                      .connect_timeout_ms = (int64_t)connect,
                                      .answer_max = (size_t)answer_max};
    return keep_headers(r, in, e);
}

/* ---- the answer ---- */

/* Keeps what fits and lets the rest go by; the request's time is its bound. */
static size_t keep_beginning(const char *bytes, size_t len, void *ctx)
{
    struct buf *body = ctx;
    size_t room = body->max - body->len;
    buf_add(body, bytes, len < room ? len : room);
    return len;
}

static int perform(struct fetch_request *request, bool cut, struct buf *out, struct err *e)
{
    FETCH_ANSWER_AUTO(answer);
    if (fetch_global_init(e) != 0) {
        return -1;
    }
    struct fetch *f AUTO(fetch) = fetch_new();
    if (cut) {
        request->data_fn = keep_beginning;
        request->ctx = &answer.body;
    }
    int rc = fetch_perform(f, request, &answer, e);
    if (rc == 0) {
        struct record_writer w = record_begin(out, "answer");
        record_addn(&w, "status", answer.status);
        record_addn(&w, "body_bytes", (int64_t)answer.body.len);
        (void)record_end(&w);
        buf_add_str(out, buf_str(&answer.body));
    }
    return rc;
}

static int serve(struct buf *out, struct err *e)
{
    BUF_AUTO(in, RECORD_FRAME_MAX + 4);
    char *bytes AUTOFREE = NULL;
    size_t len = 0;
    struct request r = {0};
    struct record record;
    struct str frame;
    if (drop_rights(e) != 0 || fd_read_all(STDIN_FILENO, RECORD_FRAME_MAX + 4, &bytes, &len, e)) {
        return -1;
    }
    buf_add(&in, bytes, len);
    int whole = record_next(&in, &frame, e);
    if (whole <= 0) {
        return whole < 0 ? -1 : err_set(e, ERR_PROTOCOL, 0, "a request that is not whole");
    }
    if (record_parse(frame, &record, e) != 0 || read_request(&record, &r, e) != 0) {
        return -1;
    }
    return perform(&r.fetch, record_get_bool(&record, "cut", false), out, e);
}

int main(void)
{
    BUF_AUTO(out, MAIN_ANSWER_MAX + 4096);
    struct err e = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    if (serve(&out, &e) != 0) {
        buf_reset(&out);
        record_add_error(&out, &e);
    }
    int rc = record_send(STDOUT_FILENO, &out, clock_mono_ms() + MAIN_WRITE_MS, &e);
    /* Nothing is left to tidy; the memory with its secrets goes with the process. */
    _exit(rc == 0 ? 0 : 1);
}

/*
 * Running sandboxd-fetch. It must never put a secret into an argument or an environment, wait
 * longer than the request's own time and a little, or leave a process behind. Caller's thread.
 */
#include "control/vault/outgoing.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "lib/proc.h"
#include "lib/record.h"

#define OUTGOING_PROGRAM "sandboxd-fetch"
/* Each takes some MiB while it lives; API calls that hang must not become a herd of them. */
#define OUTGOING_MAX        8
#define OUTGOING_MORE_MS    2000 /* to start and to say what came of it */
#define OUTGOING_HEAD_BYTES 4096 /* of the record before the body */

static atomic_int outgoing_running;

static int outgoing_write(const struct outgoing_request *q, struct buf *out, struct err *e)
{
    struct record_writer w = record_begin(out, "fetch");
    record_adds(&w, "method", q->method);
    record_adds(&w, "url", q->url);
    for (const char *const *h = q->headers; h && *h; h++) {
        record_adds(&w, "header", *h);
    }
    if (q->body.ptr) {
        record_add(&w, "body", q->body);
    }
    record_addn(&w, "timeout_ms", q->timeout_ms);
    record_addn(&w, "connect_timeout_ms", q->timeout_ms / 3);
    record_addn(&w, "answer_max", (int64_t)q->answer_max);
    record_addb(&w, "cut", q->cut);
    return record_end(&w) ? 0 : err_set(e, ERR_LIMIT, 0, "the request is too large");
}

int outgoing_take(const struct buf *bytes, struct outgoing_answer *ret, struct err *e)
{
    struct record r;
    struct str frame;
    uint64_t status = 0;
    uint64_t len = 0;
    int whole = record_next(bytes, &frame, e);
    if (whole < 0 || (whole > 0 && record_parse(frame, &r, e) != 0)) {
        return err_wrap(e, "%s", OUTGOING_PROGRAM);
    }
    if (whole > 0 && record_is(&r, "error")) {
        (void)record_to_err(&r, e);
        e->code = e->code == ERR_LIMIT ? ERR_PROTOCOL : e->code; /* no fault of whom we answer */
        return -1;
    }
    struct str body = whole > 0 ? str_n(frame.ptr + frame.len,
                                        (size_t)(bytes->ptr + bytes->len - frame.ptr) - frame.len)
                                : STR("");
    if (whole == 0 || !record_is(&r, "answer") || !record_get_u64(&r, "status", 999, &status) ||
        !record_get_u64(&r, "body_bytes", ret->body.max, &len) || len != body.len) {
        return err_set(e, ERR_UNAVAILABLE, 0, "%s ended before its answer was whole",
                       OUTGOING_PROGRAM);
    }
    ret->status = (long)status;
    buf_add_str(&ret->body, body);
    return 0;
}

static int outgoing_run(const struct outgoing_request *q, const struct buf *in,
                        struct outgoing_answer *ret, struct err *e)
{
    static const char *const argv[] = {OUTGOING_PROGRAM, NULL};
    static const char *const envp[] = {NULL};
    char path[PROC_PATH_MAX];
    struct buf out;
    struct buf words;
    int status = 0;
    if (proc_beside(path, OUTGOING_PROGRAM, e) != 0) {
        return -1;
    }
    struct proc_options options = {.path = path,
                                   .argv = argv,
                                   .envp = envp,
                                   .input = buf_str(in),
                                   .timeout_ms = q->timeout_ms + OUTGOING_MORE_MS,
                                   .output_max = q->answer_max + OUTGOING_HEAD_BYTES};
    int rc = proc_run(&options, &out, &words, &status, e);
    if (rc != 0 && e->code == ERR_TIMEOUT) {
        (void)err_set(e, ERR_TIMEOUT, 0, "%s did not end in time", OUTGOING_PROGRAM);
    } else if (rc == 0 && WIFSIGNALED(status)) {
        rc = err_set(e, ERR_UNAVAILABLE, 0, "%s was ended by signal %d", OUTGOING_PROGRAM,
                     WTERMSIG(status));
    } else if (rc == 0) {
        rc = outgoing_take(&out, ret, e);
    }
    buf_wipe(&out);
    buf_done(&words);
    return rc;
}

int outgoing_perform(const struct outgoing_request *request, struct outgoing_answer *ret,
                     struct err *e)
{
    BUF_WIPED(in, RECORD_FRAME_MAX + 4);
    ret->status = 0;
    buf_init(&ret->body, request->answer_max);
    if (atomic_fetch_add(&outgoing_running, 1) >= OUTGOING_MAX) {
        (void)atomic_fetch_sub(&outgoing_running, 1);
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "%d requests to providers are under way; try again in some seconds",
                       OUTGOING_MAX);
    }
    int rc = outgoing_write(request, &in, e);
    rc = rc == 0 ? outgoing_run(request, &in, ret, e) : rc;
    (void)atomic_fetch_sub(&outgoing_running, 1);
    return rc;
}

void outgoing_done(struct outgoing_answer *a)
{
    buf_wipe(&a->body);
}

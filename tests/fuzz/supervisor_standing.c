/*
 * Fuzzes the records of the preview proxy on the standing connection. One thread.
 */
#include "supervisor/standing.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_on_open(void *ctx, uint64_t n, uint16_t port)
{
    (void)port;
    standing_say(ctx, "end", n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop loop;
    struct standing s;
    size_t len = size < STANDING_IN_BYTES_MAX ? size : STANDING_IN_BYTES_MAX;

    log_init("fuzz", LOG_ERROR + 1);
    if (loop_init(&loop, NULL) != 0) {
        return 0;
    }
    standing_init(&s, &loop, "boot", fuzz_on_open, &s);
    s.watch.fd = dup(0); /* something open, so that what is said is kept */
    buf_add(&s.in, data, len);
    (void)standing_take_frames(&s);
    standing_drop(&s);
    buf_done(&s.in);
    buf_done(&s.out);
    loop_done(&loop);
    return 0;
}

/*
 * Fuzz target: a record from the control plane, up to the point where Docker would be asked. One
 * thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "engine/verbs.h"
#include "lib/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record record;
    struct spec_request request;
    struct err e;
    BUF_AUTO(in, RECORD_FRAME_MAX + 8);
    struct str frame;
    buf_add(&in, data, size);
    if (!buf_ok(&in) || record_next(&in, &frame, &e) != 1 || record_parse(frame, &record, &e) < 0) {
        return 0;
    }
    (void)!verbs_check_hello(&record, &e);
    if (verbs_parse_create(&record, 2000000000, 8ULL << 30, &request, &e) == 0) {
        char label[SPEC_REQUEST_BYTES];
        struct spec_request back;
        spec_request_write(&request, label);
        /* An image name of the caller's may hold a blank; it never gets this far in life, and must
         * not confuse the label. */
        (void)spec_request_parse(str_of(label), &back);
    }
    return 0;
}

/*
 * The strict gate. Pure, on worker threads, before anything else looks at a request.
 */
#include "control/http/gate.h"

#include <stdbool.h>
#include <string.h>

#include <civetweb.h>

#include "lib/str.h"

/* civetweb drops whatever comes after its 64th header, silently. */
#define GATE_HEADERS_MAX       63
#define GATE_LENGTH_DIGITS_MAX 18

struct gate_seen {
    int lengths;
    int encodings;
    int hosts;
};

static int gate_length(struct str value, struct err *e)
{
    uint64_t n = 0;
    if (value.len > GATE_LENGTH_DIGITS_MAX || !str_to_u64(value, UINT64_MAX, &n)) {
        return err_set(e, ERR_INVALID, 0, "Content-Length is not a plain decimal number");
    }
    return 0;
}

static int gate_header(struct str name, struct str value, const char *version,
                       struct gate_seen *seen, struct err *e)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return err_set(e, ERR_INVALID, 0, "a control character in a header");
        }
    }
    if (name.len == 0 || str_find(name, ' ') >= 0 || str_find(name, '\t') >= 0) {
        return err_set(e, ERR_INVALID, 0, "a blank in a header's name");
    }
    if (str_eq_nocase(name, STR("content-length"))) {
        seen->lengths++;
        return gate_length(value, e);
    }
    if (str_eq_nocase(name, STR("transfer-encoding"))) {
        seen->encodings++;
        if (!str_eq_nocase(value, STR("chunked")) || strcmp(version, "1.1") != 0) {
            return err_set(e, ERR_INVALID, 0,
                           "only Transfer-Encoding: chunked in HTTP/1.1 is taken");
        }
    }
    seen->hosts += str_eq_nocase(name, STR("host")) ? 1 : 0;
    return 0;
}

/* After the last parsed value the blank line must follow: civetweb stops at a line it does not like
 * (folded, non-ASCII, bare LF) and forgets the rest. Its values point into one buffer; of the
 * "\r\n" that ended a line it made two NULs, and one of the very last LF. */
static bool gate_ends_well(const struct mg_request_info *info)
{
    if (info->num_headers == 0) {
        return true;
    }
    const char *value = info->http_headers[info->num_headers - 1].value;
    const char *end = value + strlen(value);
    return end[0] == '\0' && end[1] == '\0' && end[2] == '\r' && end[3] == '\0';
}

int gate_check(const struct mg_request_info *info, struct err *e)
{
    struct gate_seen seen = {0};
    if (info->num_headers > GATE_HEADERS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "more than %d headers", GATE_HEADERS_MAX);
    }
    if (!info->request_uri || info->request_uri[0] != '/') {
        return err_set(e, ERR_INVALID, 0, "the request target must begin with /");
    }
    for (int i = 0; i < info->num_headers; i++) {
        struct str name = str_of(info->http_headers[i].name);
        struct str value = str_of(info->http_headers[i].value);
        if (gate_header(name, value, info->http_version, &seen, e) != 0) {
            return -1;
        }
    }
    if (seen.lengths > 1 || seen.encodings > 1 || (seen.lengths && seen.encodings)) {
        return err_set(e, ERR_INVALID, 0, "the length of the body is ambiguous");
    }
    if (seen.hosts != 1) {
        return err_set(e, ERR_INVALID, 0, "exactly one Host header is wanted");
    }
    if (!gate_ends_well(info)) {
        return err_set(e, ERR_INVALID, 0, "a malformed header line");
    }
    return 0;
}

/*
 * Tests of the strict gate: what civetweb lets through and we do not. Requests are laid out as
 * civetweb's own parser leaves them: NULs in place of the line ends. One thread.
 */
#include <stdio.h>

#include <civetweb.h>

#include "control/http/gate.h"
#include "tests/unit/control/test.h"

static char parsed[16384];
static struct mg_request_info info;

/* Splits "Name: value\r\n" lines as civetweb does. rest: what stands behind the last line it liked.
 */
static void lay_out(const char *lines, const char *rest)
{
    static struct mg_request_info empty;
    char *at = parsed;
    memset(parsed, 0, sizeof(parsed));
    memcpy(parsed, lines, strlen(lines));
    memcpy(parsed + strlen(lines), rest, strlen(rest));
    info = empty;
    info.request_uri = "/v1/apps";
    info.http_version = "1.1";
    char *end = parsed + strlen(lines);
    while (at < end) {
        char *colon = strchr(at, ':');
        char *line_end = strstr(at, "\r\n");
        struct mg_header *h = &info.http_headers[info.num_headers++];
        assert_true(colon && line_end && info.num_headers <= 64);
        *colon = '\0';
        h->name = at;
        for (h->value = colon + 1; *h->value == ' '; h->value++) {
        }
        line_end[0] = '\0';
        line_end[1] = '\0';
        at = line_end + 2;
    }
}

static int check(const char *lines, struct err *e)
{
    lay_out(lines, "\r");
    return gate_check(&info, e);
}

static void passes(const char *lines)
{
    struct err e = {0};
    OK(check(lines, &e));
}

static void refused(const char *lines)
{
    struct err e = {0};
    REFUSED(check(lines, &e), ERR_INVALID);
    assert_true(e.msg[0]);
}

#define HOST "Host: 127.0.0.1:9090\r\n"

static void test_good(void **state)
{
    (void)state;
    passes(HOST);
    passes(HOST "Content-Length: 0\r\n");
    passes(HOST "Content-Length: 123456\r\nAuthorization: Bearer sk_x\r\n");
    passes(HOST "Transfer-Encoding: chunked\r\n");
    passes(HOST "X-Tab: a\tb\r\n");
    passes("host: x\r\n");
}

static void test_lengths(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",
                                      "+1",
                                      "0x10",
                                      "1e3",
                                      "1 2",
                                      "01",
                                      "",
                                      "1,1",
                                      "12a",
                                      "9999999999999999999",
                                      "18446744073709551616"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char lines[200];
        (void)snprintf(lines, sizeof(lines), HOST "Content-Length: %s\r\n", bad[i]);
        refused(lines);
    }
    refused(HOST "Content-Length: 5\r\nContent-Length: 5\r\n");
    refused(HOST "Content-Length: 5\r\ncontent-length: 6\r\n");
}

static void test_encodings(void **state)
{
    (void)state;
    refused(HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    refused(HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n");
    refused(HOST "Transfer-Encoding: gzip, chunked\r\n");
    refused(HOST "Transfer-Encoding: identity\r\n");
    refused(HOST "Transfer-Encoding: xchunked\r\n");
    struct err e = {0};
    lay_out(HOST "Transfer-Encoding: chunked\r\n", "\r");
    info.http_version = "1.0";
    REFUSED(gate_check(&info, &e), ERR_INVALID);
}

static void test_hosts(void **state)
{
    (void)state;
    refused("Accept: a\r\n");
    refused(HOST "Host: other\r\n");
    struct err e = {0};
    lay_out("", "\r");
    REFUSED(gate_check(&info, &e), ERR_INVALID);
}

static void test_names_and_values(void **state)
{
    (void)state;
    refused(HOST "Content-Length : 5\r\n");
    refused(HOST "X\tY: 5\r\n");
    refused(HOST "X: a\x01z\r\n");
    refused(HOST "X: a\x7Fz\r\n");
    refused(HOST "X: a\nz\r\n");
    refused(HOST ": empty\r\n");
}

static void test_targets(void **state)
{
    (void)state;
    static const char *const bad[] = {"http://127.0.0.1/v1/apps", "v1/apps", "*", "",
                                      "127.0.0.1:80"};
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        lay_out(HOST, "\r");
        info.request_uri = bad[i];
        REFUSED(gate_check(&info, &e), ERR_INVALID);
    }
    info.request_uri = NULL;
    REFUSED(gate_check(&info, &e), ERR_INVALID);
}

static void test_too_many(void **state)
{
    (void)state;
    static char lines[8192];
    struct err e = {0};
    size_t used = (size_t)snprintf(lines, sizeof(lines), HOST);
    for (int i = 0; i < 62; i++) {
        used += (size_t)snprintf(lines + used, sizeof(lines) - used, "X-%d: v\r\n", i);
    }
    passes(lines);
    (void)snprintf(lines + used, sizeof(lines) - used, "X-last: v\r\n");
    REFUSED(check(lines, &e), ERR_LIMIT);
}

/* civetweb stops at a line that it does not like and forgets the rest, which may hold a length. */
static void test_lines_it_dropped(void **state)
{
    (void)state;
    static const char *const rests[] = {" folded: yes\r\n\r",
                                        "\xC3\xA4: 1\r\n\r",
                                        "Content-Length: 5\n\r",
                                        "no colon\r\n\r",
                                        "",
                                        "\n"};
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        lay_out(HOST, rests[i]);
        REFUSED(gate_check(&info, &e), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_names_and_values),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_lines_it_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

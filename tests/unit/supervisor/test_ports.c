/*
 * Ports: the /proc parser, both ways of reading real listeners, and what of it is told.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/portwatch.h"
#include "supervisor/route.h"
#include "supervisor/sockets.h"
#include "tests/unit/supervisor/test.h"

static const char proc_tcp[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n"
    "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:0 0 0 0 1 1\n"
    "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:0 0 0 0 2 1\n"
    "   2: 0B00007F:A001 00000000:0000 0A 00000000:00000000 00:0 0 0 0 3 1\n"
    "   3: 0100007F:0BB9 0100007F:0BB8 01 00000000:00000000 00:0 0 0 0 4 1\n";
static const char proc_tcp6[] =
    "  sl  local_address                         remote_address                        st\n"
    "   0: 00000000000000000000000001000000:0BBA 00000000000000000000000000000000:0000 0A 0\n"
    "   1: 00000000000000000000000000000000:0BBB 00000000000000000000000000000000:0000 0A 0\n";

static void proc_is_parsed(void **state)
{
    static struct sockets_list list;
    struct sockaddr_storage to;

    (void)state;
    list.count = 0;
    sockets_parse_proc(str_of(proc_tcp), false, &list);
    sockets_parse_proc(str_of(proc_tcp6), true, &list);
    assert_int_equal(list.count, 5);
    assert_int_equal(list.items[0].port, 3000);
    assert_int_equal(list.items[0].address.v4.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(list.items[1].port, 8080);
    assert_int_equal(sockets_address(&list.items[1], &to), sizeof(struct sockaddr_in));
    assert_int_equal(((struct sockaddr_in *)&to)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_false(sockets_is_app(&list.items[2])); /* the engine's resolver, 127.0.0.11 */
    assert_true(list.items[3].is_v6);
    assert_true(IN6_IS_ADDR_LOOPBACK(&list.items[3].address.v6));
    assert_int_equal(sockets_address(&list.items[4], &to), sizeof(struct sockaddr_in6));
    assert_true(IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&to)->sin6_addr));
}

static void broken_lines_are_passed_over(void **state)
{
    static const char *const broken[] = {
        "0: 0100007F 0:0 0A",
        "0: 0100007F:GGGG 0:0 0A",
        "0: 0100007F:0000 0:0 0A",
        "0: 0100007F:1FFFF 0:0 0A",
        "0: 0100007:0BB8 0:0 0A",
        "0: 0100007F:0BB8 0:0",
        "0: 0100007F:0BB8 0:0 0a",
        "0: 0100007F:0BB8 0:0 00A0",
        ":",
        "",
        "0: :0BB8 0:0 0A",
    };
    static struct sockets_list list;

    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        list.count = 0;
        sockets_parse_proc(str_of(broken[i]), false, &list);
        assert_int_equal(list.count, 0);
    }
}

static void a_long_list_stops_at_its_limit(void **state)
{
    static struct sockets_list list;
    BUF_AUTO(text, 1 << 20);

    (void)state;
    for (int i = 0; i < SOCKETS_MAX + 100; i++) {
        buf_printf(&text, "%d: 00000000:%04X 00000000:0000 0A\n", i, (unsigned)i + 1000);
    }
    list.count = 0;
    sockets_parse_proc(buf_str(&text), false, &list);
    assert_int_equal(list.count, SOCKETS_MAX);
}

static int listen_on(int family, uint16_t *ret_port)
{
    struct sockaddr_storage at = {.ss_family = (sa_family_t)family};
    socklen_t len = sizeof(at);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (family == AF_INET) {
        ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        len = sizeof(struct sockaddr_in);
    } else {
        ((struct sockaddr_in6 *)&at)->sin6_addr = in6addr_loopback;
        len = sizeof(struct sockaddr_in6);
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, 8) != 0) {
        return -1;
    }
    len = sizeof(at);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(((struct sockaddr_in *)&at)->sin_port);
    return fd;
}

static bool list_has(const struct sockets_list *list, uint16_t port, bool is_v6)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].port == port && list->items[i].is_v6 == is_v6) {
            return true;
        }
    }
    return false;
}

static void finds_a_real_listener(bool proc_only)
{
    static struct sockets_list list;
    struct sockets s;
    uint16_t port = 0;
    int fd = listen_on(AF_INET, &port);

    assert_true(fd >= 0);
    sockets_init(&s);
    s.proc_only = proc_only;
    assert_true(sockets_read(&s, &list));
    assert_true(list_has(&list, port, false));
    (void)close(fd);
    assert_true(sockets_read(&s, &list));
    assert_false(list_has(&list, port, false));
    sockets_done(&s);
}

static void both_ways_find_a_real_listener(void **state)
{
    (void)state;
    finds_a_real_listener(false);
    finds_a_real_listener(true);
}

static void a_route_finds_the_listener_or_says_why_not(void **state)
{
    struct sockets s;
    uint16_t port = 0;
    int server = listen_on(AF_INET, &port);
    struct route r = {.port = port};
    int fd = -1;

    (void)state;
    sockets_init(&s);
    assert_int_equal(route_next(&r, &s, &fd), ROUTE_OK);
    (void)close(fd);
    (void)close(server);
    r = (struct route){.port = port};
    assert_int_equal(route_next(&r, &s, &fd), ROUTE_REFUSED);
    r = (struct route){.port = PORTWATCH_RELAY_PORT};
    assert_int_equal(route_next(&r, &s, &fd), ROUTE_REFUSED);
    server = listen_on(AF_INET6, &port);
    if (server >= 0) { /* a machine without IPv6 has nothing to find there */
        r = (struct route){.port = port};
        assert_int_equal(route_next(&r, &s, &fd), ROUTE_OK);
        (void)close(fd);
        (void)close(server);
    }
    sockets_done(&s);
}

/* ---- what is told ---- */

static void count_change(void *ctx)
{
    (*(int *)ctx)++;
}

static void assert_tells(struct portwatch *pw, const char *expected)
{
    BUF_AUTO(out, 65536);
    BUF_AUTO(said, 4096);
    struct str frame;

    portwatch_emit(pw, &out, 65536);
    while (record_next(&out, &frame, NULL) == 1) {
        struct record r;

        assert_int_equal(record_parse(frame, &r, NULL), 0);
        buf_printf(&said, "%.*s %.*s %.*s;", STR_FMT(r.kind), STR_FMT(record_get(&r, "port")),
                   STR_FMT(record_get(&r, "open")));
        record_skip(&out, frame);
    }
    assert_string_equal(said.ptr, expected);
}

static struct sockets_list list_of(uint16_t a, uint16_t b)
{
    struct sockets_list list = {.count = b ? 2 : 1};

    list.items[0].port = a;
    list.items[1].port = b;
    return list;
}

static void changes_are_told_once(void **state)
{
    static struct portwatch pw;
    static const uint16_t ports[] = {4000, 3000};
    int changes = 0;

    (void)state;
    portwatch_init(&pw, count_change, &changes);
    portwatch_declare(&pw, ports, 2, 3000);
    assert_tells(&pw, "port 3000 no;port 4000 no;");
    assert_tells(&pw, "");
    struct sockets_list list = list_of(3000, 5173);
    portwatch_apply(&pw, &list);
    assert_int_equal(changes, 1);
    assert_true(portwatch_is_open(&pw, 3000));
    assert_int_equal(portwatch_other(&pw), 5173);
    assert_tells(&pw, "port 3000 yes;other_port 5173 ;");
    portwatch_apply(&pw, &list);
    assert_int_equal(changes, 1);
    assert_tells(&pw, "");
    portwatch_tell_all(&pw);
    assert_tells(&pw, "port 3000 yes;port 4000 no;other_port 5173 ;");
    list = list_of(PORTWATCH_RELAY_PORT, 0);
    portwatch_apply(&pw, &list);
    assert_tells(&pw, "port 3000 no;");
    assert_int_equal(portwatch_other(&pw), 0);
    portwatch_done(&pw);
}

static void a_port_that_stays_declared_keeps_what_is_known(void **state)
{
    static struct portwatch pw;
    static const uint16_t more[] = {3000, 4000};
    struct sockets_list list = list_of(3000, 0);
    int changes = 0;

    (void)state;
    portwatch_init(&pw, count_change, &changes);
    portwatch_declare(&pw, NULL, 0, 3000);
    portwatch_apply(&pw, &list);
    assert_tells(&pw, "port 3000 yes;");
    portwatch_declare(&pw, more, 2, 3000);
    assert_tells(&pw, "port 4000 no;");
    assert_true(portwatch_is_open(&pw, 3000));
    portwatch_done(&pw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proc_is_parsed),
        cmocka_unit_test(broken_lines_are_passed_over),
        cmocka_unit_test(a_long_list_stops_at_its_limit),
        cmocka_unit_test(both_ways_find_a_real_listener),
        cmocka_unit_test(a_route_finds_the_listener_or_says_why_not),
        cmocka_unit_test(changes_are_told_once),
        cmocka_unit_test(a_port_that_stays_declared_keeps_what_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Listening TCP sockets. It must never trust a length in what it reads. One thread: PID 1's, or the
 * relay's.
 */
#include "supervisor/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/fd.h"

#define SOCKETS_STATE_LISTEN 10 /* TCP_LISTEN, "0A" in /proc */
#define SOCKETS_ANSWER_BYTES 16384
#define SOCKETS_PROC_BYTES   65536
#define SOCKETS_PROC_READS   64 /* 4 MiB of a table, then it is enough */
#define SOCKETS_LINE_BYTES   256

void sockets_init(struct sockets *s)
{
    *s = (struct sockets){.netlink_fd = -1};
}

void sockets_done(struct sockets *s)
{
    if (s->netlink_fd >= 0) {
        (void)close(s->netlink_fd);
    }
    s->netlink_fd = -1;
}

static struct sockets_listener *list_next(struct sockets_list *list)
{
    return list->count < SOCKETS_MAX ? &list->items[list->count++] : NULL;
}

/* ---- the kernel's diagnosis ---- */

static bool diag_open(struct sockets *s)
{
    struct timeval limit = {.tv_usec = 100000};

    if (s->netlink_fd >= 0) {
        return true;
    }
    s->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (s->netlink_fd < 0) {
        return false;
    }
    /* The answer is made inside the send; this is for a runtime that imitates it badly. */
    (void)setsockopt(s->netlink_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return true;
}

static bool diag_ask(int fd, uint8_t family)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 request;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                 .nlmsg_seq = family},
        .request = {.sdiag_family = family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = 1U << SOCKETS_STATE_LISTEN},
    };

    return send(fd, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask);
}

static void diag_take(const struct inet_diag_msg *m, struct sockets_list *list)
{
    struct sockets_listener *item = NULL;

    if (m->idiag_state != SOCKETS_STATE_LISTEN || !(item = list_next(list))) {
        return;
    }
    *item = (struct sockets_listener){.port = ntohs(m->id.idiag_sport),
                                      .is_v6 = m->idiag_family == AF_INET6};
    if (item->is_v6) {
        memcpy(&item->address.v6, m->id.idiag_src, sizeof(item->address.v6));
    } else {
        memcpy(&item->address.v4, m->id.idiag_src, sizeof(item->address.v4));
    }
}

/* One datagram of the answer: 1 more follow, 0 the end, -1 an error. */
static int diag_parse(const char *bytes, size_t len, struct sockets_list *list)
{
    size_t at = 0;

    while (len - at >= sizeof(struct nlmsghdr)) {
        struct nlmsghdr head;
        struct inet_diag_msg m;

        memcpy(&head, bytes + at, sizeof(head));
        if (head.nlmsg_type == NLMSG_DONE) {
            return 0;
        }
        if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_len < sizeof(head) ||
            head.nlmsg_len > len - at) {
            return -1;
        }
        if (head.nlmsg_len >= sizeof(head) + sizeof(m)) {
            memcpy(&m, bytes + at + sizeof(head), sizeof(m));
            diag_take(&m, list);
        }
        at += NLMSG_ALIGN((size_t)head.nlmsg_len) < len - at ? NLMSG_ALIGN((size_t)head.nlmsg_len)
                                                             : len - at;
    }
    return 1;
}

static bool diag_read_family(int fd, uint8_t family, struct sockets_list *list)
{
    static char bytes[SOCKETS_ANSWER_BYTES];
    int more = 1;

    if (!diag_ask(fd, family)) {
        return false;
    }
    while (more > 0) {
        ssize_t len = recv(fd, bytes, sizeof(bytes), 0);

        if (len <= 0) {
            return false;
        }
        more = diag_parse(bytes, (size_t)len, list);
    }
    return more == 0;
}

static bool diag_read(struct sockets *s, struct sockets_list *list)
{
    if (!diag_open(s) || !diag_read_family(s->netlink_fd, AF_INET, list)) {
        return false;
    }
    /* A kernel without IPv6 answers nothing or an error: then there are no listeners there. */
    size_t v4_count = list->count;
    if (!diag_read_family(s->netlink_fd, AF_INET6, list)) {
        list->count = v4_count;
        sockets_done(s);
    }
    return true;
}

/* ---- /proc ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

static bool hex_u32(struct str text, uint32_t *ret_value)
{
    uint32_t value = 0;

    if (text.len == 0 || text.len > 8) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_digit(text.ptr[i]);

        if (digit < 0) {
            return false;
        }
        value = value << 4 | (uint32_t)digit;
    }
    *ret_value = value;
    return true;
}

/* Takes the next word of a line; false at its end. */
static bool next_word(struct str *rest, struct str *ret_word)
{
    *rest = str_trim(*rest);
    if (rest->len == 0) {
        return false;
    }
    return str_split(rest, ' ', ret_word);
}

/* The kernel prints each 32 bits of an address as a number of its own byte order. */
static bool parse_address(struct str text, bool is_v6, struct sockets_listener *ret)
{
    uint32_t words[4] = {0};
    size_t count = is_v6 ? 4 : 1;

    if (text.len != count * 8) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!hex_u32(str_cut(text, i * 8, i * 8 + 8), &words[i])) {
            return false;
        }
    }
    ret->is_v6 = is_v6;
    memcpy(&ret->address, words, count * sizeof(words[0]));
    return true;
}

/* "  0: 0100007F:0BB8 00000000:0000 0A …" */
static bool parse_proc_line(struct str line, bool is_v6, struct sockets_listener *ret)
{
    struct str number;
    struct str local;
    struct str remote;
    struct str state;
    uint32_t value = 0;

    if (!next_word(&line, &number) || !next_word(&line, &local) || !next_word(&line, &remote) ||
        !next_word(&line, &state) || !hex_u32(state, &value) || value != SOCKETS_STATE_LISTEN) {
        return false;
    }
    ptrdiff_t colon = str_find(local, ':');
    if (colon < 0 || !parse_address(str_cut(local, 0, (size_t)colon), is_v6, ret) ||
        !hex_u32(str_cut(local, (size_t)colon + 1, local.len), &value) || value == 0 ||
        value > 65535) {
        return false;
    }
    ret->port = (uint16_t)value;
    return true;
}

void sockets_parse_proc(struct str text, bool is_v6, struct sockets_list *list)
{
    struct str line;

    while (str_split(&text, '\n', &line)) {
        struct sockets_listener found = {0};

        if (line.len <= SOCKETS_LINE_BYTES && parse_proc_line(line, is_v6, &found)) {
            struct sockets_listener *item = list_next(list);

            if (item) {
                *item = found;
            }
        }
    }
}

/* Reads in pieces that end at a line; what is behind the last newline waits for the next piece. */
static bool proc_read(const char *path, bool is_v6, struct sockets_list *list)
{
    static char bytes[SOCKETS_PROC_BYTES];
    int fd AUTOCLOSE = open(path, O_RDONLY | O_CLOEXEC);
    size_t held = 0;

    for (int i = 0; fd >= 0 && i < SOCKETS_PROC_READS; i++) {
        ssize_t len = read(fd, bytes + held, sizeof(bytes) - held);

        if (len <= 0) {
            return len == 0;
        }
        size_t all = held + (size_t)len;
        const char *end = memrchr(bytes, '\n', all);
        size_t whole = end ? (size_t)(end - bytes) + 1 : all;
        sockets_parse_proc(str_n(bytes, whole), is_v6, list);
        held = all - whole;
        memmove(bytes, bytes + whole, held);
    }
    return fd >= 0;
}

bool sockets_read(struct sockets *s, struct sockets_list *list)
{
    bool read_v4 = false;

    list->count = 0;
    if (!s->proc_only && diag_read(s, list)) {
        return true;
    }
    sockets_done(s);
    s->proc_only = true;
    list->count = 0;
    read_v4 = proc_read("/proc/net/tcp", false, list);
    (void)proc_read("/proc/net/tcp6", true, list);
    return read_v4;
}

/* ---- what a listener means ---- */

bool sockets_is_app(const struct sockets_listener *listener)
{
    static const unsigned char engine_resolver[4] = {127, 0, 0, 11};

    return listener->is_v6 ||
           memcmp(&listener->address.v4, engine_resolver, sizeof(engine_resolver)) != 0;
}

static socklen_t address_v6(const struct sockets_listener *listener, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)ret;

    to->sin6_family = AF_INET6;
    to->sin6_port = htons(listener->port);
    to->sin6_addr = listener->address.v6;
    if (IN6_IS_ADDR_UNSPECIFIED(&to->sin6_addr)) {
        to->sin6_addr = in6addr_loopback;
    }
    return sizeof(*to);
}

socklen_t sockets_address(const struct sockets_listener *listener, struct sockaddr_storage *ret)
{
    struct sockaddr_in *to = (struct sockaddr_in *)ret;

    memset(ret, 0, sizeof(*ret));
    if (listener->is_v6) {
        return address_v6(listener, ret);
    }
    to->sin_family = AF_INET;
    to->sin_port = htons(listener->port);
    to->sin_addr = listener->address.v4;
    if (to->sin_addr.s_addr == htonl(INADDR_ANY)) {
        to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    return sizeof(*to);
}

/*
 * Limits of wakes: one bucket per client and one for all, refilled evenly.
 *
 * Whoever connects to us is the edge or a program on this machine. The edge sets X-Forwarded-For
 * anew and puts the address that it saw last; a request without, or with a loopback address there,
 * is from this machine. Must never let a client choose its own bucket: only the last element
 * counts. Main thread.
 */
#include "proxy/preview_limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "lib/mem.h"
#include "proxy/limits.h"

#define MINUTE_MS 60000
#define WAYS      4

struct bucket {
    uint8_t address[16]; /* IPv4 as mapped; an IPv6 network of 64 bits */
    int64_t level;       /* starts left, in 1/MINUTE_MS */
    int64_t at_ms;       /* when level was right; 0: free */
};

static struct {
    int64_t per_client, per_minute;
    struct bucket all;
    struct bucket clients[LIMIT_WAKE_CLIENTS];
} limits;

void limit_set(uint64_t per_client, uint64_t per_minute)
{
    limits.per_client = (int64_t)per_client;
    limits.per_minute = (int64_t)per_minute;
}

static struct str last_forwarded(const struct head *h)
{
    struct str value = {NULL, 0};
    struct str part = {NULL, 0};

    for (unsigned i = 0; i < h->count && i < h->trailers_from; i++) {
        if (str_eq_nocase(head_name(h, i), STR("x-forwarded-for"))) {
            value = head_value(h, i);
        }
    }
    while (value.ptr && str_split(&value, ',', &part)) {
    }
    return str_trim(part);
}

/* False: a client on this machine. What is no address is one client, whoever it is. */
static bool client_of(const struct head *h, uint8_t ret[16])
{
    struct str last = last_forwarded(h);
    struct in6_addr v6 = IN6ADDR_ANY_INIT;
    struct in_addr v4;
    char text[INET6_ADDRSTRLEN] = "";

    memset(ret, 0, 16);
    if (last.len == 0) {
        return false;
    }
    if (last.len < sizeof text) {
        (void)snprintf(text, sizeof text, "%.*s", STR_FMT(last));
    }
    if (inet_pton(AF_INET, text, &v4) == 1) {
        ret[10] = ret[11] = 0xff;
        memcpy(ret + 12, &v4, 4);
        return ret[12] != 127;
    }
    if (inet_pton(AF_INET6, text, &v6) != 1) {
        return true;
    }
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(ret, &v6, 16);
        return ret[12] != 127;
    }
    /* Whoever has one address of IPv6 has its whole /64. */
    memcpy(ret, &v6, 8);
    return !IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Its bucket, or the one of its set that was not used for longest. */
static struct bucket *bucket_of(const uint8_t address[16], int64_t now_ms)
{
    uint64_t hash = 1469598103934665603ULL;
    struct bucket *set, *oldest;

    for (unsigned i = 0; i < 16; i++) {
        hash = (hash ^ address[i]) * 1099511628211ULL;
    }
    set = oldest = &limits.clients[hash % (LIMIT_WAKE_CLIENTS / WAYS) * WAYS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].at_ms > 0 && memcmp(set[i].address, address, 16) == 0) {
            return &set[i];
        }
        oldest = set[i].at_ms < oldest->at_ms ? &set[i] : oldest;
    }
    *oldest = (struct bucket){.level = limits.per_client * MINUTE_MS, .at_ms = now_ms};
    memcpy(oldest->address, address, 16);
    return oldest;
}

static void refill(struct bucket *b, int64_t per_minute, int64_t now_ms)
{
    int64_t full = per_minute * MINUTE_MS;

    if (b->at_ms == 0 || now_ms - b->at_ms >= MINUTE_MS) {
        b->level = full;
    } else {
        b->level += (now_ms - b->at_ms) * per_minute;
    }
    b->level = b->level < full ? b->level : full;
    b->at_ms = now_ms;
}

/* Seconds until there is one start in it; 0: now. */
static int64_t wait_s(const struct bucket *b, int64_t per_minute)
{
    int64_t missing = MINUTE_MS - b->level;

    return per_minute == 0 || missing <= 0 ? 0 : (missing / per_minute + 999) / 1000 + 1;
}

bool limit_take(const struct head *request, int64_t now_ms, int64_t *ret_retry_after_s)
{
    uint8_t address[16];
    struct bucket *client;
    int64_t client_s, all_s;

    if (!client_of(request, address)) {
        return true;
    }
    client = bucket_of(address, now_ms);
    refill(client, limits.per_client, now_ms);
    refill(&limits.all, limits.per_minute, now_ms);
    client_s = wait_s(client, limits.per_client);
    all_s = wait_s(&limits.all, limits.per_minute);
    *ret_retry_after_s = client_s > all_s ? client_s : all_s;
    if (*ret_retry_after_s > 0) {
        return false;
    }
    client->level -= MINUTE_MS;
    limits.all.level -= MINUTE_MS;
    return true;
}

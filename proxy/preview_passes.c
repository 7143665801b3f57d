/*
 * Passes of visitors.
 *
 * Must never believe a pass whose signature, sandbox or time is not right, or make a request wait
 * for a new one. A host that is reached by TLS takes the cookie under its __Host- name only, which
 * no other host can plant. Main thread.
 */
#include "proxy/preview_passes.h"

#include <stdio.h>

#include "lib/clock.h"
#include "lib/mem.h"
#include "proxy/limits.h"
#include "proxy/preview_place.h"
#include "proxy/preview_routes.h"

/* A request may carry many cookies of our name: hostile neighbours plant them. */
#define PASSES_TRIED_MAX 8

struct known_pass {
    char text[PASS_BYTES_MAX + 1]; /* "" when free */
    struct pass pass;
    uint64_t number;
    uint64_t renew_n; /* of the question that is out; 0: none */
    int64_t asked_ms;
    char renewed[PASS_BYTES_MAX + 1]; /* "" when there is none */
    int64_t renewed_until_s;
};

static struct {
    struct broker *broker;
    struct known_pass known[LIMIT_PASSES];
    uint64_t next_number, next_n;
} passes = {.next_number = 1, .next_n = 1};

void passes_init(struct broker *broker)
{
    passes.broker = broker;
}

static size_t slot_of(struct str text)
{
    uint64_t hash = 1469598103934665603ULL;

    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * 1099511628211ULL;
    }
    return hash % LIMIT_PASSES;
}

/* Only what was verified is remembered: rubbish cannot push a good one out. */
static struct known_pass *verify(struct str text, const struct ulid *sandbox)
{
    const struct routes_settings *s = routes_settings_get();
    struct known_pass *k = &passes.known[slot_of(text)];
    struct pass pass;

    if (k->text[0] && str_eq_secret(text, str_of(k->text))) {
        return ulid_eq(&k->pass.sandbox, sandbox) ? k : NULL;
    }
    /* The sandbox first: it costs nothing, a signature does. */
    if (text.len > PASS_BYTES_MAX || !s->has_pass_key || !pass_parse(text, &pass) ||
        !ulid_eq(&pass.sandbox, sandbox) || !pass_verify(text, s->pass_key, &pass)) {
        return NULL;
    }
    *k = (struct known_pass){.pass = pass, .number = passes.next_number++};
    (void)snprintf(k->text, sizeof k->text, "%.*s", STR_FMT(text));
    return k;
}

static void ask_renewal(struct known_pass *k)
{
    BUF_AUTO(out, 1024);
    int64_t now_ms = loop_now_ms();

    if (str_is(str_of(k->pass.session), PASS_NO_SESSION) ||
        (k->asked_ms > 0 && now_ms - k->asked_ms < LIMIT_PASS_RENEW_MS)) {
        return;
    }
    struct record_writer w = record_begin(&out, "renew");

    /* Even numbers, beside the odd ones of preview_enter.c. */
    record_addn(&w, "n", (int64_t)(passes.next_n * 2));
    record_adds(&w, "id", k->pass.sandbox.text);
    record_adds(&w, "pass", k->text);
    (void)record_end(&w);
    if (broker_send(passes.broker, &out)) {
        k->renew_n = passes.next_n++ * 2;
        k->asked_ms = now_ms;
    }
}

static bool is_good(struct known_pass *k, int64_t now_s)
{
    if (k->pass.expires_s <= now_s) {
        return false;
    }
    if (k->pass.expires_s - now_s < LIMIT_PASS_RENEW_BELOW_S && k->renewed_until_s <= now_s) {
        ask_renewal(k);
    }
    return true;
}

struct search {
    struct str name;
    const struct ulid *sandbox;
    int64_t now_s;
    unsigned tried;
};

static struct known_pass *find_in(struct str cookies, struct search *s)
{
    struct str part;

    while (s->tried < PASSES_TRIED_MAX && str_split(&cookies, ';', &part)) {
        part = str_trim(part);
        if (!str_starts(part, s->name) || part.len <= s->name.len || part.ptr[s->name.len] != '=') {
            continue;
        }
        s->tried++;
        struct known_pass *k = verify(str_cut(part, s->name.len + 1, part.len), s->sandbox);

        if (k && is_good(k, s->now_s)) {
            return k;
        }
    }
    return NULL;
}

bool passes_find(const struct head *request, const struct preview_host *host,
                 struct passes_found *ret)
{
    struct search s = {.name = str_of(place_cookie_name(host)),
                       .sandbox = &host->id,
                       .now_s = clock_unix_ms() / 1000};

    for (unsigned i = 0; i < request->count && i < request->trailers_from; i++) {
        if (!str_eq_nocase(head_name(request, i), STR("cookie"))) {
            continue;
        }
        const struct known_pass *k = find_in(head_value(request, i), &s);

        if (k) {
            *ret = (struct passes_found){.epoch = k->pass.epoch, .number = k->number};
            return true;
        }
    }
    return false;
}

static struct known_pass *numbered(uint64_t number)
{
    for (size_t i = 0; number > 0 && i < LIMIT_PASSES; i++) {
        if (passes.known[i].number == number) {
            return &passes.known[i];
        }
    }
    return NULL;
}

void passes_add_renewed(uint64_t number, const struct preview_host *host, struct buf *fields)
{
    const struct known_pass *k = numbered(number);
    int64_t left_s = k ? k->renewed_until_s - clock_unix_ms() / 1000 : 0;

    if (k && k->renewed[0] && left_s > 0) {
        (void)passes_add_cookie(str_of(k->renewed), left_s, host, fields);
    }
}

bool passes_add_cookie(struct str pass, int64_t max_age_s, const struct preview_host *host,
                       struct buf *fields)
{
    struct pass read;

    if (!pass_parse(pass, &read) || !ulid_eq(&read.sandbox, &host->id)) {
        return false;
    }
    buf_printf(fields, "Set-Cookie: %s=%.*s; Path=/; Max-Age=%lld; HttpOnly; %s\r\n",
               place_cookie_name(host), STR_FMT(pass), (long long)max_age_s,
               place_is_secure(host) ? "Secure; SameSite=None; Partitioned" : "SameSite=Lax");
    return true;
}

void passes_take(const struct record *r)
{
    struct str text = record_get(r, "pass");
    struct pass pass;
    uint64_t n;

    if (!record_get_u64(r, "n", INT64_MAX, &n) || n == 0) {
        return;
    }
    for (size_t i = 0; i < LIMIT_PASSES; i++) {
        struct known_pass *k = &passes.known[i];

        if (k->renew_n != n) {
            continue;
        }
        k->renew_n = 0;
        if (text.len <= PASS_BYTES_MAX && pass_parse(text, &pass) &&
            ulid_eq(&pass.sandbox, &k->pass.sandbox) && pass.expires_s > k->pass.expires_s) {
            (void)snprintf(k->renewed, sizeof k->renewed, "%.*s", STR_FMT(text));
            k->renewed_until_s = pass.expires_s;
        }
        return;
    }
}

/*
 * Classes of passive requests.
 *
 * Must never name what a person or a program of theirs could be waiting for. Pure functions.
 */
#include "proxy/preview_passive.h"

#include <stddef.h>

#include "lib/mem.h"

/* The needle begins with a small letter. A browser's agent is a hundred bytes long and looked
 * through for each crawler's name in each request: one comparison a byte, not one call. */
static bool contains_nocase(struct str text, struct str needle)
{
    for (size_t i = 0; i + needle.len <= text.len; i++) {
        if ((text.ptr[i] | ('a' ^ 'A')) == needle.ptr[0] &&
            str_eq_nocase(str_cut(text, i, i + needle.len), needle)) {
            return true;
        }
    }
    return false;
}

static struct str path_of(struct str target)
{
    ptrdiff_t query = str_find(target, '?');

    return query < 0 ? target : str_cut(target, 0, (size_t)query);
}

static bool is_favicon(struct str path)
{
    return str_eq(path, STR("/favicon.ico")) || str_starts(path, STR("/apple-touch-icon"));
}

/* Sockets and pings by which a page that was left open asks whether its dev server is back. */
static bool is_hot_reload(const struct head *h, struct str path)
{
    /* Ends of paths: an app may be served below a base path. */
    static const char *const paths[] = {"/__vite_ping", "/_next/webpack-hmr", "/_next/hmr",
                                        "/__webpack_hmr"};

    if (head_has_token(h, "sec-websocket-protocol", "vite-hmr") ||
        head_has_token(h, "sec-websocket-protocol", "vite-ping") ||
        head_has_token(h, "accept", "text/x-vite-ping")) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (str_ends(path, str_of(paths[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_prefetch(const struct head *h)
{
    static const char *const names[] = {"sec-purpose", "purpose", "x-moz"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str value = head_get(h, names[i]);

        if (value.ptr && contains_nocase(value, STR("prefetch"))) {
            return true;
        }
    }
    return false;
}

static bool is_crawler(const struct head *h)
{
    static const char *const marks[] = {
        "googlebot",   "bingbot",     "yandexbot",       "baiduspider",
        "duckduckbot", "applebot",    "petalbot",        "ahrefsbot",
        "semrushbot",  "mj12bot",     "gptbot",          "ccbot",
        "claudebot",   "bytespider",  "amazonbot",       "facebookexternalhit",
        "twitterbot",  "slackbot",    "discordbot",      "telegrambot",
        "whatsapp",    "linkedinbot", "skypeuripreview",
    };
    struct str agent = head_get(h, "user-agent");

    for (size_t i = 0; agent.ptr && i < ARRAY_LEN(marks); i++) {
        if (contains_nocase(agent, str_of(marks[i]))) {
            return true;
        }
    }
    return false;
}

enum passive_kind passive_kind_of(const struct head *request)
{
    struct str path = path_of(head_target(request));

    if (is_favicon(path)) {
        return PASSIVE_FAVICON;
    }
    if (is_hot_reload(request, path)) {
        return PASSIVE_HOT_RELOAD;
    }
    return is_prefetch(request) || is_crawler(request) ? PASSIVE_OTHER : PASSIVE_NOT;
}

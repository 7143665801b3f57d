/*
 * Traffic that nobody wants an app to be awake for: hot-reload sockets, pings, favicons,
 * prefetches, crawlers. Pure.
 */
#pragma once

#include "proxy/http_head.h"

enum passive_kind {
    PASSIVE_NOT,
    PASSIVE_FAVICON,
    PASSIVE_HOT_RELOAD, /* may stay open for ever */
    PASSIVE_OTHER
};

enum passive_kind passive_kind_of(const struct head *request);

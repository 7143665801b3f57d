/*
 * Route table: finds the handler of a method and path, decodes the path's parameters once.
 */
#pragma once

#include "control/http/http.h"

enum route_result {
    ROUTE_FOUND,
    ROUTE_NO_PATH,
    ROUTE_NO_METHOD,
    ROUTE_BAD_PATH
};

/* Fills request->params. HEAD finds GET routes. Pure. */
enum route_result route_find(const struct http_route *routes, size_t count, struct http_request *r,
                             const struct http_route **ret);
/* Methods that this path knows, "GET, POST", for an Allow header. Pure. */
void route_methods(const struct http_route *routes, size_t count, struct http_request *r,
                   struct buf *out);
/* Percent-decodes into the arena; false for a broken escape, NUL or control bytes. plus: '+' is a
 * blank. */
bool route_decode(struct arena *a, struct str s, bool plus, struct str *ret);

/*
 * Where a preview stands. Must never take a host or scheme from the request: only its port. Main
 * thread.
 */
#include "proxy/preview_place.h"

#include "proxy/preview_routes.h"

static bool is_local(struct str name)
{
    return str_is(name, "localhost") || str_ends(name, STR(".localhost"));
}

/* A localhost name where PREVIEW_DOMAIN is another: only a tunnel leads there. */
static bool is_beside(const struct preview_host *host)
{
    return host->is_localhost && !is_local(str_of(routes_settings_get()->domain));
}

bool place_is_tls(const struct preview_host *host)
{
    return routes_settings_get()->is_tls && !is_beside(host);
}

bool place_is_secure(const struct preview_host *host)
{
    return place_is_tls(host) || host->is_localhost;
}

const char *place_cookie_name(const struct preview_host *host)
{
    return place_is_tls(host) ? "__Host-sandboxd_pass" : "sandboxd_pass";
}

void place_add_console(const struct exchange *x, const struct preview_host *host, struct buf *out)
{
    const struct routes_settings *s = routes_settings_get();
    struct str name = head_get(&x->request, "host");
    ptrdiff_t colon = str_find(name, ':');

    buf_puts(out, place_is_tls(host) ? "https://" : "http://");
    buf_puts(out, is_beside(host) || !s->console_host[0] ? "console.localhost" : s->console_host);
    if (colon >= 0) {
        buf_add_str(out, str_cut(name, (size_t)colon, name.len));
    }
}

/*
 * Pages and JSON of the preview proxy.
 *
 * Must never show a log line to anyone but the owner (by a localhost name or a pass), be cached, be
 * indexed, or answer 200 in an app's place. Everything that comes from elsewhere is escaped. Main
 * thread.
 */
#include "proxy/preview_pages.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/json_write.h"

#define PAGE_BYTES_MAX 65536

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
    "<meta name=\"robots\" content=\"noindex\"><meta name=\"color-scheme\" content=\"light dark\">";

static const char page_style[] =
    "<style>"
    ":root{--bg:#f6f7f9;--card:#fff;--ink:#1c2430;--soft:#667085;--line:#e4e7ec;--hue:#3b6cf6;"
    "--bad:#c4320a}"
    "@media(prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#171d25;--ink:#e8ecf2;"
    "--soft:#93a0b4;"
    "--line:#263040;--hue:#6d95ff;--bad:#ff8a65}}"
    "*{box-sizing:border-box}html,body{height:100%;margin:0}"
    "body{background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,\"Segoe "
    "UI\",sans-serif;"
    "display:flex;align-items:center;justify-content:center;padding:24px}"
    "main{background:var(--card);border:1px solid var(--line);border-radius:14px;"
    "max-width:34rem;width:100%;"
    "padding:28px 30px;box-shadow:0 8px 30px rgba(16,24,40,.07)}"
    "h1{font-size:1.15rem;margin:0 0 .35rem;display:flex;align-items:center;gap:.65rem}"
    "p{margin:.25rem 0;color:var(--soft);overflow-wrap:anywhere}"
    ".dot{width:.7rem;height:.7rem;border-radius:50%;background:var(--hue);animation:beat 1.4s "
    "ease-in-out infinite}"
    ".bad .dot{background:var(--bad);animation:none}"
    ".bar{height:6px;border-radius:3px;background:var(--line);overflow:hidden;margin:1.1rem 0 "
    ".6rem}"
    ".bar i{display:block;height:100%;width:4%;border-radius:3px;background:var(--hue);"
    "transition:width .5s linear}"
    ".foot{display:flex;justify-content:space-between;gap:1rem;font-size:.86rem;"
    "font-variant-numeric:tabular-nums}"
    "pre{background:var(--bg);border:1px solid var(--line);border-radius:9px;padding:12px 14px;"
    "margin:1rem 0 0;"
    "font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;max-height:18rem;overflow:auto;"
    "white-space:pre-wrap;"
    "overflow-wrap:anywhere}"
    "button{margin-top:1.1rem;font:inherit;font-weight:600;color:#fff;background:var(--hue);"
    "border:0;border-radius:9px;"
    "padding:.55rem 1.1rem;cursor:pointer}"
    "@media(prefers-color-scheme:dark){button{color:#0f1318}}"
    "@keyframes beat{50%{opacity:.35;transform:scale(.8)}}"
    "@media(prefers-reduced-motion:reduce){.dot{animation:none}}"
    "</style>";

/* Asks where the start is, shows it, and loads the page again when there is something to load. A
 * service worker of the app may answer in our place, or never: the address is another each time, so
 * that no old answer fits, and after a few answers that are none the page is simply loaded again.
 */
static const char page_script[] =
    "<script>(function(){"
    "var d=document,m=d.querySelector('main'),p=d.getElementById('p'),e=d.getElementById('e'),"
    "b=d.getElementById('b'),"
    "t=Date.now()-(+m.dataset.elapsed),u=+m.dataset.usual,bad=0;"
    "function show(){var s=(Date.now()-t)/1000;e.textContent=s.toFixed(0)+' s';"
    "var w=u>0?s*1000/u:s/20;b.style.width=(4+92*(1-Math.exp(-1.6*w)))+'%';}"
    "function again(ms){setTimeout(ask,ms);}"
    "function ask(){var c=new AbortController(),l=setTimeout(function(){c.abort();},8000);"
    "fetch('/.sandboxd/wake?'+Date.now(),{cache:'no-store',signal:c.signal,"
    "headers:{accept:'application/json'}})"
    ".then(function(r){return r.json();}).then(function(s){clearTimeout(l);bad=0;"
    "if(s.state!=='waking'){location.reload();return;}"
    "var x=s.reason||s.text;if(x&&x!==p.textContent){p.textContent=x;}"
    "if(s.usual_ms){u=s.usual_ms;}again(400);})"
    "['catch'](function(){clearTimeout(l);if(++bad>=4){location.reload();return;}again(1000);});}"
    "setInterval(show,500);show();again(250);})();</script>";

/* ---- pieces ---- */

static void add_escaped(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];

        if (c == '<') {
            buf_puts(out, "&lt;");
        } else if (c == '>') {
            buf_puts(out, "&gt;");
        } else if (c == '&') {
            buf_puts(out, "&amp;");
        } else if (c == '"') {
            buf_puts(out, "&quot;");
        } else if (c == '\n' || c == '\t' || c >= 0x20) {
            buf_putc(out, (char)c);
        }
    }
}

static void fields_begin(struct buf *out, bool is_page, int64_t retry_after_s)
{
    buf_puts(out,
             is_page
                 ? "Content-Type: text/html; charset=utf-8\r\n"
                   "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
                   "script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'; base-uri "
                   "'none'\r\n"
                 : "Content-Type: application/json\r\n");
    /* With Vary: * a service worker's cache refuses it too, which heeds no Cache-Control. */
    buf_puts(out, "Cache-Control: no-store\r\nVary: *\r\nX-Robots-Tag: noindex\r\n"
                  "X-Content-Type-Options: nosniff\r\n"
                  "Referrer-Policy: same-origin\r\n");
    if (retry_after_s > 0) {
        buf_printf(out, "Retry-After: %" PRId64 "\r\n", retry_after_s);
    }
}

static void page_begin(struct buf *out, const char *title, const char *more)
{
    buf_puts(out, page_head);
    buf_puts(out, more);
    buf_puts(out, "<title>");
    add_escaped(out, str_of(title));
    buf_puts(out, "</title>");
    buf_puts(out, page_style);
    buf_puts(out, "</head><body>");
}

static void send_own(struct exchange *x, unsigned status, bool is_page, int64_t retry_after_s,
                     const struct buf *body)
{
    BUF_AUTO(fields, 2048);

    fields_begin(&fields, is_page, retry_after_s);
    front_answer(x, status, buf_str(&fields), buf_str(body));
}

/* ---- refusals ---- */

static void json_error(struct buf *out, const char *code, const char *message, bool retryable)
{
    buf_puts(out, "{\"error\":{\"code\":");
    json_escape(out, str_of(code));
    buf_puts(out, ",\"message\":");
    json_escape(out, str_of(message));
    buf_printf(out, ",\"retryable\":%s}", retryable ? "true" : "false");
}

static const char *title_of(unsigned status)
{
    return status == 404   ? "Nothing here"
           : status == 429 ? "Too many at once"
           : status < 500  ? "Not possible"
                           : "The app is not there right now";
}

void pages_refuse(struct exchange *x, unsigned status, const char *code, const char *message,
                  int64_t retry_after_s, bool is_page)
{
    BUF_AUTO(body, PAGE_BYTES_MAX);

    if (is_page) {
        page_begin(&body, title_of(status), "");
        buf_printf(&body, "<main class=\"bad\"><h1><span class=\"dot\"></span>%s</h1><p>",
                   title_of(status));
        add_escaped(&body, str_of(message));
        buf_puts(&body, "</p></main></body></html>\n");
    } else {
        json_error(&body, code, message, status >= 500 || status == 429);
        buf_puts(&body, "}\n");
    }
    send_own(x, status, is_page, retry_after_s, &body);
}

/* A tab of its own: the console is never framed. */
static void sign_in_page(struct buf *body, const char *message, const char *console)
{
    page_begin(body, "Sign in", "");
    buf_puts(body, "<main class=\"bad\"><h1><span class=\"dot\"></span>Sign in</h1><p>");
    add_escaped(body, str_of(message));
    buf_puts(body, " Its owner opens it with the console.</p><p><a target=\"_blank\" "
                   "rel=\"noopener noreferrer\" href=\"");
    add_escaped(body, str_of(console));
    buf_puts(body, "\">Open with the console</a></p></main></body></html>\n");
}

void pages_sign_in(struct exchange *x, const char *message, const char *console, bool is_page)
{
    BUF_AUTO(body, PAGE_BYTES_MAX);

    if (is_page) {
        sign_in_page(&body, message, console);
    } else {
        json_error(&body, "unauthorized", message, false);
        buf_puts(&body, "}\n");
    }
    send_own(x, 401, is_page, 0, &body);
}

void pages_late(struct exchange *x, const char *phase, const char *message, int64_t retry_after_s)
{
    BUF_AUTO(body, PAGE_BYTES_MAX);

    json_error(&body, "waking", message, true);
    buf_puts(&body, ",\"phase\":");
    json_escape(&body, str_of(phase));
    buf_printf(&body, ",\"retry_after\":%" PRId64 "}\n", retry_after_s);
    send_own(x, 503, false, retry_after_s, &body);
}

/* ---- waking ---- */

/* "45 % base: RUN …": how far, without the words of whoever builds. */
static const char *image_phase(const struct route *r, char text[PAGES_PHASE_BYTES])
{
    struct str rest = r->detail ? str_of(r->detail) : STR("");
    struct str percent;
    uint64_t number;

    if (!str_split(&rest, ' ', &percent) || !str_starts(rest, STR("%")) ||
        !str_to_u64(percent, 100, &number)) {
        return "Building its image";
    }
    (void)snprintf(text, PAGES_PHASE_BYTES, "Building its image: %u %%", (unsigned)number);
    return text;
}

const char *pages_phase(const struct route *r, uint16_t port, char text[PAGES_PHASE_BYTES])
{
    static const struct {
        const char *phase, *text;
    } phases[] = {
        {"queued", "Waiting for its turn to start"},
        {"starting", "Starting"},
        {"seeding", "Copying the template"},
        {"installing", "Installing packages"},
    };
    struct str phase = str_of(r->phase);

    if (r->state == ROUTE_STOPPING) {
        return "Was just being stopped; starting it again";
    }
    if (str_is(phase, "image")) {
        return image_phase(r, text);
    }
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        if (str_is(phase, phases[i].phase)) {
            return phases[i].text;
        }
    }
    if (r->state == ROUTE_RUNNING || str_is(phase, "waiting")) {
        (void)snprintf(text, PAGES_PHASE_BYTES, "Waiting for port %u", (unsigned)port);
        return text;
    }
    return "Starting";
}

void pages_warm_up(struct exchange *x, const struct route *r, const struct preview_host *host,
                   int64_t elapsed_ms)
{
    char text[PAGES_PHASE_BYTES];

    BUF_AUTO(body, PAGE_BYTES_MAX);

    page_begin(&body, "Starting the app",
               "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>");
    buf_printf(&body, "<main data-elapsed=\"%" PRId64 "\" data-usual=\"%" PRId64 "\">", elapsed_ms,
               r->usual_ms);
    buf_puts(&body,
             "<h1><span class=\"dot\"></span>Waking the app</h1><p id=\"p\" aria-live=\"polite\">");
    buf_puts(&body, pages_phase(r, host->port, text));
    buf_puts(&body, "</p><div class=\"bar\" role=\"progressbar\" aria-label=\"Start of the app\">"
                    "<i id=\"b\"></i>"
                    "</div><p class=\"foot\"><span id=\"e\">");
    buf_printf(&body, "%" PRId64 " s</span><span>", elapsed_ms / 1000);
    if (r->usual_ms > 0) {
        buf_printf(&body, "usually %.1f s", (double)r->usual_ms / 1000);
    }
    buf_puts(&body, "</span></p></main>");
    buf_puts(&body, page_script);
    buf_puts(&body, "</body></html>\n");
    send_own(x, 503, true, 2, &body);
}

/* Form and button work without script; the path is taken back to where it came from. */
static void add_retry(struct buf *out, struct str target)
{
    buf_puts(out, "<form method=\"post\" action=\"/.sandboxd/retry?to=");
    add_escaped(out, target);
    buf_puts(out, "\"><button>Try again</button></form>");
}

static void failed_page(struct exchange *x, const struct pages_failure *failure, const char *lines)
{
    BUF_AUTO(body, PAGE_BYTES_MAX);

    page_begin(&body, "The app did not start", "");
    buf_puts(&body,
             "<main class=\"bad\"><h1><span class=\"dot\"></span>The app did not start</h1><p>");
    add_escaped(&body, str_of(failure->message));
    buf_puts(&body, "</p>");
    if (lines && lines[0] != '\0') {
        buf_puts(&body, "<pre>");
        add_escaped(&body, str_of(lines));
        buf_puts(&body, "</pre>");
    }
    add_retry(&body, head_target(&x->request));
    buf_puts(&body, "</main></body></html>\n");
    send_own(x, 503, true, failure->retry_after_s, &body);
}

void pages_failed(struct exchange *x, const struct pages_failure *failure, bool is_page)
{
    const char *lines = failure->lines;

    BUF_AUTO(body, PAGE_BYTES_MAX);

    if (is_page) {
        failed_page(x, failure, lines);
        return;
    }
    json_error(&body, "wake_failed", failure->message, true);
    if (lines) {
        buf_puts(&body, ",\"lines\":");
        json_escape(&body, str_of(lines));
    }
    buf_puts(&body, "}\n");
    send_own(x, 503, false, failure->retry_after_s > 0 ? failure->retry_after_s : 5, &body);
}

/* While packages are installed nobody needs to be told that the port does not answer. */
static const char *poll_reason(const struct route *r)
{
    bool is_waiting = r->phase[0] == '\0' || str_is(str_of(r->phase), "waiting");

    return is_waiting && r->wake.status_message ? r->wake.status_message : "";
}

void pages_poll(struct exchange *x, const char *state, const struct route *r,
                const struct preview_host *host, int64_t elapsed_ms)
{
    char text[PAGES_PHASE_BYTES];

    BUF_AUTO(body, PAGE_BYTES_MAX);

    buf_printf(&body, "{\"state\":\"%s\",\"phase\":", state);
    json_escape(&body, str_of(r->phase));
    buf_puts(&body, ",\"text\":");
    json_escape(&body, str_of(pages_phase(r, host->port, text)));
    buf_puts(&body, ",\"reason\":");
    json_escape(&body, str_of(poll_reason(r)));
    buf_puts(&body, ",\"detail\":");
    json_escape(&body, str_of(host->is_localhost && r->detail ? r->detail : ""));
    buf_printf(&body, ",\"elapsed_ms\":%" PRId64 ",\"usual_ms\":%" PRId64 "}\n", elapsed_ms,
               r->usual_ms);
    send_own(x, 200, false, 0, &body);
}

/*
 * The body of a request to a provider: its beginning is read ahead, the rest streams.
 *
 * Must never let the last byte of a body go before what it asks for was admitted, or hold more of
 * all bodies together than the limit. Main thread.
 */
#include "lib/mem.h"
#include "proxy/credentials_call_private.h"

static size_t held_by_all;

void body_init(struct call *c)
{
    buf_init(&c->body.held, LIMIT_CREDENTIALS_HOLD_BYTES + 1);
    c->body.can_hold = true;
}

static void held_drop(struct call *c)
{
    struct call_body *b = &c->body;

    held_by_all -= b->held.len;
    mem_wipe(b->held.ptr, b->held.len);
    buf_done(&b->held);
    b->held_at = 0;
    b->can_hold = false;
}

void body_done(struct call *c)
{
    held_drop(c);
}

void body_forget(struct call *c)
{
    if (c->body.held_at == c->body.held.len) {
        held_drop(c);
    }
}

/* ---- what it asks for ---- */

/* The first `len` bytes that the front holds, each once. */
static void scan(struct call *c, size_t len)
{
    struct call_body *b = &c->body;
    struct str fresh = str_cut(buf_str(&c->x->body), b->scanned, len);

    if (fresh.len == 0) {
        return;
    }
    b->scanned += fresh.len;
    b->bytes += (int64_t)fresh.len;
    b->is_too_large = b->bytes > LIMIT_CREDENTIALS_BODY_BYTES;
    if (c->path->is_metered) {
        model_request_feed(&b->request, fresh);
    }
}

static void consume(struct call *c, size_t len)
{
    buf_consume(&c->x->body, len);
    c->body.scanned -= len;
}

static size_t hold_room(const struct call *c)
{
    size_t own = LIMIT_CREDENTIALS_HOLD_BYTES - c->body.held.len;
    size_t all = held_by_all < LIMIT_CREDENTIALS_HOLD_ALL_BYTES
                     ? LIMIT_CREDENTIALS_HOLD_ALL_BYTES - held_by_all
                     : 0;

    return own < all ? own : all;
}

/* Moves what has come to what is held, as far as there is room. */
static void hold(struct call *c)
{
    struct str part = str_cut(buf_str(&c->x->body), 0, hold_room(c));

    if (!c->body.can_hold || part.len == 0) {
        return;
    }
    scan(c, part.len);
    buf_add_str(&c->body.held, part);
    held_by_all += part.len;
    consume(c, part.len);
}

struct spend_request body_request(const struct call *c)
{
    const struct exchange *x = c->x;
    uint64_t bytes = (uint64_t)c->body.bytes + x->body.len - c->body.scanned;

    return (struct spend_request){
        .provider = c->provider->name,
        .model = c->body.request.model,
        .input_bytes = x->framing == HTTP_LENGTH ? x->length : bytes,
        .max_tokens = model_request_max_tokens(&c->body.request),
    };
}

bool body_read_ahead(struct call *c)
{
    const struct call_body *b = &c->body;
    bool is_all_known;

    hold(c);
    is_all_known =
        c->x->framing == HTTP_LENGTH && b->request.model[0] != '\0' && b->request.has_max;
    if ((c->x->request_whole && c->x->body.len == 0) || is_all_known || hold_room(c) == 0 ||
        b->is_too_large || b->request.problem) {
        return true;
    }
    front_want_body(c->x, true);
    return false;
}

/* ---- sending ---- */

/* Nothing of a body goes on that says something else than what was admitted. Its length counts at
 * its end: until then the provider cannot begin. */
static bool is_covered(const struct call *c)
{
    struct spend_request now = body_request(c);

    if (!c->path->is_metered) {
        return true;
    }
    if (!c->x->request_whole) {
        now.input_bytes = 0;
    }
    return admission_covers(&c->admission, &now);
}

static struct str next_part(struct call *c, size_t size)
{
    struct call_body *b = &c->body;
    struct str part;

    if (b->held_at == b->held.len) {
        hold(c);
    }
    if (b->held_at < b->held.len) {
        return str_cut(buf_str(&b->held), b->held_at, b->held_at + size);
    }
    if (b->can_hold && c->x->body.len > 0) {
        held_drop(c);
    }
    part = str_cut(buf_str(&c->x->body), 0, size);
    scan(c, part.len);
    return part;
}

static enum fetch_flow pause_it(struct call *c)
{
    c->body.is_paused = true;
    return FETCH_PAUSE;
}

enum fetch_flow body_next(void *ctx, char *room, size_t size, size_t *ret_len)
{
    struct call *c = ctx;
    struct call_body *b = &c->body;
    struct str part = next_part(c, size);

    *ret_len = 0;
    if (b->is_too_large || b->request.problem) {
        return FETCH_ABORT;
    }
    if (!is_covered(c)) {
        if (c->admission.state == ADMISSION_WAITING || !call_admit(c)) {
            return pause_it(c);
        }
    }
    if (part.len == 0) {
        front_want_body(c->x, true);
        return c->x->request_whole ? FETCH_GO : pause_it(c);
    }
    call_idle_wait(c);
    memcpy(room, part.ptr, part.len);
    *ret_len = part.len;
    if (b->held_at < b->held.len) {
        b->held_at += part.len;
    } else {
        consume(c, part.len);
    }
    if (c->x->body.len == 0) {
        front_want_body(c->x, true);
    }
    return FETCH_GO;
}

bool body_rewind(void *ctx)
{
    struct call *c = ctx;

    if (!c->body.can_hold) {
        return false;
    }
    c->body.held_at = 0;
    return true;
}

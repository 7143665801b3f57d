/*
 * Providers while we run: those of the files, and the owner's own, which come and go. What was
 * published is never changed or freed before the stop: others may look at it. Any thread.
 */
#include "control/store/providers.h"

#include <stdio.h>

#include "control/vault/vault_private.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define PROVIDERS_RETIRED_MAX 10000 /* changes between two starts */
#define PROVIDERS_URL_MAX     600
#define PROVIDERS_TEXT_MAX    200

/* ---- the table ---- */

int vault_slot_of(const struct vault *v, const char *provider)
{
    for (int i = 0; i < VAULT_PROVIDERS_MAX; i++) {
        if (v->slots[i].provider && strcmp(v->slots[i].provider->id, provider) == 0) {
            return i;
        }
    }
    return -1;
}

static void providers_retire(struct vault *v, const struct vault_provider *p)
{
    v->retired = mem_resize(v->retired, v->retired_count + 1, sizeof(v->retired[0]));
    v->retired[v->retired_count++] = (struct vault_provider *)(uintptr_t)p;
}

/* Where a provider of that id goes; -1: nowhere. The lock is held. */
static int providers_place(const struct vault *v, const char *id, struct err *e)
{
    int index = vault_slot_of(v, id);
    if (v->retired_count >= PROVIDERS_RETIRED_MAX) {
        return err_set(e, ERR_LIMIT, 0, "providers were changed %d times since the start; restart",
                       PROVIDERS_RETIRED_MAX);
    }
    for (int i = 0; index < 0 && i < VAULT_PROVIDERS_MAX; i++) {
        index = v->slots[i].provider ? -1 : i;
    }
    if (index < 0) {
        return err_set(e, ERR_LIMIT, 0, "there are %d providers already", VAULT_PROVIDERS_MAX);
    }
    return index;
}

int vault_publish(struct vault *v, struct vault_provider *take_p, struct err *e)
{
    LOCK_GUARD(&v->lock);
    int index = providers_place(v, take_p->id, e);
    if (index < 0) {
        return -1;
    }
    if (v->slots[index].provider) {
        providers_retire(v, v->slots[index].provider);
    }
    v->slots[index].provider = take_p;
    return 0;
}

static pthread_mutex_t *providers_lock(const struct vault *v)
{
    /* The table is looked at through a const vault; its lock is no part of what is constant. */
    return (pthread_mutex_t *)(uintptr_t)&v->lock;
}

static const struct vault_provider *providers_any(const struct vault *v, struct str id)
{
    LOCK_GUARD(providers_lock(v));
    for (size_t i = 0; i < VAULT_PROVIDERS_MAX; i++) {
        const struct vault_provider *p = v->slots[i].provider;
        if (p && str_is(id, p->id)) {
            return p;
        }
    }
    return NULL;
}

const struct vault_provider *vault_provider_find(const struct vault *v, struct str id)
{
    const struct vault_provider *p = providers_any(v, id);
    return p && !p->is_kind ? p : NULL;
}

size_t vault_provider_list(const struct vault *v,
                           const struct vault_provider *ret[VAULT_PROVIDERS_MAX])
{
    size_t count = 0;
    LOCK_GUARD(providers_lock(v));
    for (size_t i = 0; i < VAULT_PROVIDERS_MAX; i++) {
        if (v->slots[i].provider) {
            ret[count++] = v->slots[i].provider;
        }
    }
    return count;
}

/* ---- the owner's own ---- */

static const char *const *providers_copy(const char *const *list)
{
    const char **copy = mem_calloc(VAULT_LIST_MAX + 1, sizeof(*copy));
    for (size_t i = 0; list[i] && i < VAULT_LIST_MAX; i++) {
        copy[i] = mem_strdup(list[i]);
    }
    return copy;
}

static struct vault_provider *providers_make(const struct vault_provider *kind,
                                             const struct provider_row *row)
{
    struct vault_provider *p = mem_alloc(sizeof(*p));
    *p = (struct vault_provider){.id = mem_strdup(row->id),
                                 .label = mem_strdup(row->label),
                                 .base_url = mem_strdup(row->base_url),
                                 .header = mem_strdup(kind->header),
                                 .prefix = mem_strdup(kind->prefix),
                                 .paths = providers_copy(kind->paths),
                                 .usages = providers_copy(kind->usages),
                                 .costs = providers_copy(kind->costs),
                                 .check = mem_strdup(kind->check),
                                 .preferred = kind->preferred,
                                 .default_model = mem_strdup(row->default_model),
                                 .kind = mem_strdup(kind->id),
                                 .keyless = row->keyless};
    for (size_t i = 0; i < VAULT_DIALECTS; i++) {
        p->dialects[i] = kind->dialects[i] ? mem_strdup(kind->dialects[i]) : NULL;
    }
    return p;
}

static int providers_check_place(struct vault *v, const char *id, struct err *e)
{
    LOCK_GUARD(&v->lock);
    return providers_place(v, id, e) < 0 ? -1 : 0;
}

/* Publishes what the store has; with is_new puts it there first, so that a full disk changes
 * nothing. */
static int providers_take(struct vault *v, const struct provider_row *row, bool is_new,
                          struct err *e)
{
    const struct vault_provider *kind = providers_any(v, str_of(row->kind));
    if (!kind || !kind->is_kind) {
        return err_set(e, ERR_INVALID, 0,
                       "kind: there is no \"%.64s\"; GET /v1/providers lists them", row->kind);
    }
    if (providers_check_place(v, row->id, e) != 0 ||
        (is_new && providers_put(v->db, row, e) != 0)) {
        return -1;
    }
    struct vault_provider *p = providers_make(kind, row);
    if (vault_publish(v, p, e) != 0) {
        registry_provider_free(p);
        return -1;
    }
    return 0;
}

int vault_load_own_providers(struct vault *v, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(1024UL * 1024);
    struct provider_row *rows = NULL;
    size_t count = 0;
    struct err why;
    if (providers_list(v->db, a, &rows, &count, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        /* A file of a later version may have taken its id. */
        if (providers_any(v, str_of(rows[i].id)) || providers_take(v, &rows[i], false, &why) != 0) {
            log_warn("a provider of the owner's is left out", "provider", rows[i].id);
        }
    }
    return 0;
}

static int providers_check(struct vault *v, const struct vault_own_provider *own, struct buf *url,
                           struct err *e)
{
    const struct vault_provider *before = providers_any(v, str_of(own->id));
    struct str label = str_of(own->label);
    struct str model = str_of(own->default_model);
    if (!registry_is_id(str_of(own->id))) {
        return err_set(e, ERR_INVALID, 0,
                       "a provider's id has 1 to 32 small letters, digits and dashes");
    }
    if (before && !before->kind[0]) {
        return err_set(e, ERR_CONFLICT, 0, "%s is not a provider of your own; choose another id",
                       own->id);
    }
    if (label.len == 0 || label.len > PROVIDERS_TEXT_MAX || !str_is_text(label, false)) {
        return err_set(e, ERR_INVALID, 0, "label: 1 to %d characters are wanted",
                       PROVIDERS_TEXT_MAX);
    }
    if (model.len > 0 && !secret_is_plain(str_cut(model, 0, PROVIDERS_TEXT_MAX + 1))) {
        return err_set(e, ERR_INVALID, 0, "default_model: visible characters without blanks");
    }
    return vault_check_base_url(str_of(own->base_url), url, e);
}

/* Every grant is to be asked for again. */
static void providers_tell(struct vault *v)
{
    {
        LOCK_GUARD(&v->lock);
        v->changed = true;
    }
    vault_broker_wake(v);
}

int vault_provider_set(struct vault *v, const struct vault_own_provider *own, struct err *e)
{
    BUF_AUTO(url, PROVIDERS_URL_MAX);
    if (providers_check(v, own, &url, e) != 0) {
        return -1;
    }
    struct provider_row row = {.id = own->id,
                               .kind = own->kind,
                               .label = own->label,
                               .base_url = url.ptr,
                               .default_model = own->default_model,
                               .keyless = own->keyless};
    LOCK_GUARD(&v->keys_lock);
    if (providers_take(v, &row, true, e) != 0) {
        return -1;
    }
    providers_tell(v);
    return 0;
}

int vault_provider_remove(struct vault *v, const char *id, struct err *e)
{
    LOCK_GUARD(&v->keys_lock);
    const struct vault_provider *p = vault_provider_find(v, str_of(id));
    bool ignored = false;
    if (!p) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", id);
    }
    if (!p->kind[0]) {
        return err_set(e, ERR_CONFLICT, 0, "%s is not a provider of your own; it stays", id);
    }
    /* The key first: a box without its provider would be found by nobody. */
    if (secret_remove(v, id, &ignored, e) != 0 || providers_remove(v->db, id, e) != 0) {
        return -1;
    }
    {
        LOCK_GUARD(&v->lock);
        int index = vault_slot_of(v, id);
        if (index >= 0) {
            providers_retire(v, v->slots[index].provider);
            v->slots[index] = (struct vault_slot){0};
        }
    }
    providers_tell(v);
    return 0;
}

/*
 * Providers of a grant, read from its record.
 *
 * Must never leave a key in memory that is given back. Main thread.
 */
#include "proxy/credentials_keys.h"

#include <stdlib.h>

#include "lib/mem.h"
#include "proxy/credentials_path.h"

static void free_secret(char *text)
{
    if (text) {
        mem_wipe(text, strlen(text));
        free(text);
    }
}

static void provider_free(struct grant_provider *p)
{
    free(p->name);
    free(p->base_url);
    free(p->header);
    free(p->prefix);
    free(p->message);
    free_secret(p->key);
    mask_free(p->mask);
    for (unsigned i = 0; i < p->extra_count; i++) {
        free(p->extras[i]);
    }
    for (unsigned i = 0; i < p->path_count; i++) {
        free(p->paths[i].line);
        free(p->paths[i].cost);
    }
    free(p);
}

static void replace(char **text, struct str value)
{
    free_secret(*text);
    *text = mem_dup(value.ptr, value.len);
}

static void path_take(struct grant_provider *p, struct str key, struct str value)
{
    struct grant_path *last = p->path_count > 0 ? &p->paths[p->path_count - 1] : NULL;

    if (str_is(key, "path")) {
        if (p->path_count < LIMIT_GRANT_PATHS) {
            p->paths[p->path_count++].line = mem_dup(value.ptr, value.len);
        }
    } else if (str_is(key, "usage") && last) {
        /* A format of a later release costs all the same. */
        last->is_metered = true;
        last->format = model_format_named(value);
    } else if (str_is(key, "cost") && last) {
        replace(&last->cost, value);
    }
}

static void provider_take(struct grant_provider *p, struct str key, struct str value)
{
    if (str_is(key, "base_url")) {
        replace(&p->base_url, value);
    } else if (str_is(key, "header")) {
        replace(&p->header, value);
    } else if (str_is(key, "prefix")) {
        replace(&p->prefix, value);
    } else if (str_is(key, "key")) {
        replace(&p->key, value);
        mask_free(p->mask);
        p->mask = mask_new(&value, 1);
    } else if (str_is(key, "message")) {
        replace(&p->message, value);
    } else if (str_is(key, "state")) {
        p->must_reconnect = !str_is(value, "ok");
    } else if (str_is(key, "extra")) {
        if (p->extra_count < LIMIT_GRANT_EXTRAS) {
            p->extras[p->extra_count++] = mem_dup(value.ptr, value.len);
        }
    } else {
        path_take(p, key, value);
    }
}

static struct grant_provider *provider_new(struct grant_keys *k, struct str name)
{
    struct grant_provider *p = mem_alloc(sizeof(*p));
    char **const texts[] = {&p->base_url, &p->header, &p->prefix, &p->key, &p->message};

    p->name = mem_dup(name.ptr, name.len);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = mem_strdup("");
    }
    p->next = k->first;
    k->first = p;
    return p;
}

struct grant_keys *grant_keys_read(const struct record *r)
{
    struct grant_keys *k = mem_alloc(sizeof(*k));
    struct grant_provider *p = NULL;
    unsigned count = 0;
    struct str key;
    struct str value;
    size_t pos = 0;

    k->users = 1;
    while (record_each(r, &pos, &key, &value)) {
        if (str_is(key, "provider")) {
            p = count < LIMIT_GRANT_PROVIDERS ? provider_new(k, value) : NULL;
            count += p != NULL;
        } else if (p) {
            provider_take(p, key, value);
        }
    }
    return k;
}

struct grant_keys *grant_keys_keep(struct grant_keys *k)
{
    k->users++;
    return k;
}

void grant_keys_drop(struct grant_keys *k)
{
    if (!k || --k->users > 0) {
        return;
    }
    while (k->first) {
        struct grant_provider *p = k->first;

        k->first = p->next;
        provider_free(p);
    }
    free(k);
}

const struct grant_provider *grant_keys_find(const struct grant_keys *k, struct str name)
{
    for (const struct grant_provider *p = k->first; p; p = p->next) {
        if (str_is(name, p->name)) {
            return p;
        }
    }
    return NULL;
}

const struct grant_path *grant_provider_path(const struct grant_provider *p, struct str method,
                                             struct str path)
{
    for (unsigned i = 0; i < p->path_count; i++) {
        if (credentials_path_matches(str_of(p->paths[i].line), method, path)) {
            return &p->paths[i];
        }
    }
    return NULL;
}

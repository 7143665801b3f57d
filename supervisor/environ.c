/*
 * Environments. They must never carry HOSTNAME (dev servers bind to it) or a setting of ours. One
 * thread: PID 1's.
 */
#include "supervisor/environ.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mem.h"

struct list {
    char **vars;
    size_t count;
    bool failed;
};

/* Length of the key, or 0 when there is no valid one. */
static size_t environ_key_len(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

        if (c == '=') {
            return i;
        }
        if (!letter && !(i > 0 && c >= '0' && c <= '9')) {
            return 0;
        }
    }
    return 0;
}

bool environ_is_pair(struct str text)
{
    return environ_key_len(text) > 0 && memchr(text.ptr, '\0', text.len) == NULL;
}

/* Sets KEY=value; a later one of the same key wins. */
static void list_set(struct list *l, const char *pair)
{
    size_t key_len = environ_key_len(str_of(pair));
    size_t at = 0;
    char *copy = NULL;

    if (key_len == 0 || l->failed) {
        return;
    }
    while (at < l->count && strncmp(l->vars[at], pair, key_len + 1) != 0) {
        at++;
    }
    copy = at < ENVIRON_VARS_MAX ? strdup(pair) : NULL;
    if (!copy) {
        l->failed = true;
        return;
    }
    free(l->vars[at]);
    l->vars[at] = copy;
    l->count += at == l->count;
}

static void list_set_all(struct list *l, const char *const *pairs)
{
    for (size_t i = 0; pairs && pairs[i]; i++) {
        list_set(l, pairs[i]);
    }
}

static bool environ_is_inherited(const char *pair)
{
    struct str text = str_of(pair);

    return !str_starts(text, STR("HOSTNAME=")) && !str_starts(text, STR("SANDBOXD_"));
}

static void list_set_port(struct list *l, uint16_t port)
{
    char pair[16];

    (void)snprintf(pair, sizeof(pair), "PORT=%u", (unsigned)port);
    list_set(l, pair);
}

char **environ_build(const struct environ_options *options)
{
    struct list l = {.vars = calloc(ENVIRON_VARS_MAX + 1, sizeof(char *))};

    if (!l.vars) {
        return NULL;
    }
    list_set(&l, "PATH=/usr/local/bin:/usr/bin:/bin");
    list_set(&l, "LANG=C.UTF-8");
    for (size_t i = 0; options->base[i]; i++) {
        if (environ_is_inherited(options->base[i])) {
            list_set(&l, options->base[i]);
        }
    }
    list_set(&l, "HOME=/home/sandbox");
    list_set(&l, "USER=sandbox");
    list_set(&l, "TMPDIR=/home/sandbox/.tmp");
    if (options->port != 0) {
        list_set(&l, "HOST=0.0.0.0");
    }
    list_set_all(&l, options->settings);
    list_set_all(&l, options->config);
    list_set_all(&l, options->secrets);
    /* Last: a setting called PORT would leave the preview waiting for a port nobody opens. */
    if (options->port != 0) {
        list_set_port(&l, options->port);
    }
    if (l.failed) {
        environ_free(l.vars);
        return NULL;
    }
    return l.vars;
}

char **environ_copy(const struct record *r, const char *key, size_t max)
{
    char **list = calloc(max + 1, sizeof(char *));
    struct str value;
    size_t pos = 0;
    size_t count = 0;

    while (list && record_each_of(r, &pos, key, &value)) {
        bool fits = count < max && memchr(value.ptr, '\0', value.len) == NULL;

        list[count] = fits ? strndup(value.ptr, value.len) : NULL;
        if (!list[count]) {
            environ_free(list);
            return NULL;
        }
        count++;
    }
    return list;
}

void environ_wipe(char **env)
{
    for (size_t i = 0; env && env[i]; i++) {
        mem_wipe(env[i], strlen(env[i]));
    }
}

void environ_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++) {
        free(env[i]);
    }
    free(env);
}

void environ_free_cleanup(char ***env)
{
    environ_free(*env);
}

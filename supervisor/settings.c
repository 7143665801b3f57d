/*
 * A `configure` record into settings. It must never keep a pointer into the record. One thread: PID
 * 1's.
 */
#include "supervisor/settings.h"

#include <stdlib.h>
#include <string.h>

#include "supervisor/environ.h"
#include "supervisor/seed.h"

#define SETTINGS_ENV_MAX 256

static int parse_template(const struct record *r, struct app_settings *s, struct err *e)
{
    struct str name = record_get(r, "template");

    if (name.len == 0) {
        return 0;
    }
    if (!seed_is_template(name)) {
        return err_set(e, ERR_INVALID, 0, "configure: not a template's name");
    }
    memcpy(s->template_name, name.ptr, name.len);
    s->template_name[name.len] = '\0';
    return 0;
}

static int parse_ports(const struct record *r, struct app_settings *s, struct err *e)
{
    struct str value;
    size_t pos = 0;
    uint64_t port = 0;

    value = record_get(r, "web_port");
    if (value.len > 0 && !str_to_u64(value, 65535, &port)) {
        return err_set(e, ERR_INVALID, 0, "configure: web_port is not a port");
    }
    s->web_port = (uint16_t)port;
    while (record_each_of(r, &pos, "port", &value)) {
        if (!str_to_u64(value, 65535, &port) || port == 0) {
            return err_set(e, ERR_INVALID, 0, "configure: port is not a port");
        }
        if (s->port_count < PORTWATCH_DECLARED_MAX) {
            s->ports[s->port_count++] = (uint16_t)port;
        }
    }
    return 0;
}

static int parse_env(const struct record *r, struct app_settings *s, struct err *e)
{
    s->env = environ_copy(r, "env", SETTINGS_ENV_MAX);
    if (!s->env) {
        return err_set(e, ERR_INVALID, 0, "configure: env holds a NUL, or more than %d of them",
                       SETTINGS_ENV_MAX);
    }
    for (size_t i = 0; s->env[i]; i++) {
        if (!environ_is_pair(str_of(s->env[i]))) {
            return err_set(e, ERR_INVALID, 0, "configure: env is not KEY=value");
        }
    }
    return 0;
}

int settings_parse(const struct record *r, struct app_settings *ret, struct err *e)
{
    *ret = (struct app_settings){0};
    if (parse_template(r, ret, e) != 0 || parse_ports(r, ret, e) != 0 ||
        parse_env(r, ret, e) != 0) {
        settings_done(ret);
        return -1;
    }
    return 0;
}

void settings_done(struct app_settings *s)
{
    environ_free(s->env);
    *s = (struct app_settings){0};
}

bool settings_same_env(const struct app_settings *a, const struct app_settings *b)
{
    size_t i = 0;

    if (!a->env || !b->env) {
        return a->env == b->env;
    }
    while (a->env[i] && b->env[i] && strcmp(a->env[i], b->env[i]) == 0) {
        i++;
    }
    return !a->env[i] && !b->env[i];
}

/*
 * A `configure` record into settings. Pure but for memory. One thread.
 */
#pragma once

#include "supervisor/app.h"

/* Fills *ret (empty on failure); settings_done frees. ERR_INVALID names the field, ERR_UNAVAILABLE:
 * no memory. */
int settings_parse(const struct record *r, struct app_settings *ret, struct err *e) MUST_CHECK;
void settings_done(struct app_settings *s);
/* Whether a process that runs with one would run the same with the other. */
bool settings_same_env(const struct app_settings *a, const struct app_settings *b);
/* Wipes and frees; zeroed afterwards. */
void settings_config_done(struct app_config *c);

/*
 * What the owner gave the app, taken over from a `configure` record. One thread.
 */
#pragma once

#include "supervisor/app.h"

/*
 * The config of `next` is in force from now on, or the one of before when `next` does not speak of
 * any. True when processes that run have another one. Processes are not touched.
 */
bool app_config_take(struct app *a, struct app_settings *next);
/* Wipes and frees. */
void app_config_done(struct app *a);

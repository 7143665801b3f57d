/*
 * What the owner gave the app, taken over from a `configure` record. One thread.
 */
#pragma once

#include "supervisor/app.h"

/*
 * The config of `next` is in force from now on. The one of before stays when `next` does not speak
 * of any or is of the same version, which may then tell more that no output may show. True when
 * processes that run have another one. Processes are not touched.
 */
bool app_config_take(struct app *a, struct app_settings *next);
/* Wipes and frees. */
void app_config_done(struct app *a);

/*
 * Seeding: the first files of an app, copied from a template of the image. Runs in a process of its
 * own; may block.
 */
#pragma once

#include <stdbool.h>

#include "lib/str.h"

#define SEED_WORKSPACE "/home/sandbox/workspace"
#define SEED_APP       SEED_WORKSPACE "/app"
#define SEED_TEMPLATES "/opt/sandboxd/templates"

/* Letters, digits and -, at most 64. */
bool seed_is_template(struct str name);
/* Whether the app's directory holds nothing of the app's. Does not block but for the file system.
 */
bool seed_is_needed(const char *app_dir);
/*
 * The whole process: copies the template beside the app, then renames it into place, so that a kill
 * at any moment leaves either no app or a whole one. Says on stderr why it failed. Returns an exit
 * status.
 */
int seed_main(const char *template_name, const char *boot_id);

/*
 * Images: what is there, and builds in the background. One thread, "builder", builds; any thread
 * asks.
 */
#pragma once

#include <stdbool.h>

#include "engine/config.h"
#include "engine/docker.h"
#include "engine/presets.h"
#include "lib/err.h"

#define IMAGES_ID_BYTES    80
#define IMAGES_STEP_BYTES  256
#define IMAGES_ERROR_BYTES 1500

enum images_state {
    IMAGES_PRESENT,
    IMAGES_MISSING,
    IMAGES_BUILDING,
    IMAGES_FAILED
};

struct images_status {
    char tag[PRESETS_TAG_BYTES];
    char image_id[IMAGES_ID_BYTES]; /* "" unless present */
    enum images_state state;
    int percent;
    char step[IMAGES_STEP_BYTES];
    char error[IMAGES_ERROR_BYTES];
};

struct images;

/* Borrows both. presets_load's failure is kept and answered to whoever asks. Starts the thread.
 * Never NULL. */
struct images *images_start(const struct config *config, struct docker *docker);
/* Breaks a running build off and ends the thread. */
void images_stop(struct images *m);

/* Index of an image of ours. ERR_NOT_FOUND names the ones there are. */
int images_find(struct images *m, struct str name, int *ret_index, struct err *e) MUST_CHECK;
/* State now; asks Docker. */
int images_status(struct images *m, int index, struct images_status *ret, struct err *e) MUST_CHECK;
/* The same, and has it built when it is not there. */
int images_build(struct images *m, int index, struct images_status *ret, struct err *e) MUST_CHECK;
/* Borrowed, constant. */
const struct presets_image *images_get(const struct images *m, int index);

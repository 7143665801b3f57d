/*
 * The parts of the engine that one request may need, made once by main and constant afterwards.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "engine/config.h"
#include "engine/docker.h"
#include "engine/images.h"
#include "engine/runtime.h"
#include "engine/walls.h"

struct hub;
struct meter;

struct engine {
    const struct config *config;
    struct docker *docker;
    struct runtime *runtime;
    struct walls *walls;
    struct images *images;
    struct hub *hub;
    struct meter *meter;
    uint64_t memory_total_bytes;
    uint64_t memory_default_bytes;
    uint64_t nofile;               /* of our own hard limit, at most 65,536 */
    atomic_bool is_nofile_refused; /* the engine may not set it: containers keep the engine's own */
};

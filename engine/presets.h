/*
 * The images we know (presets/images.json), their build contexts and the hash that names them
 * (presets/README.md). Any thread.
 *
 * An image of ours is sandboxd-<name>:<first 12 hex digits of the hash of its parent's hash and its
 * context>: the same content is the same tag on every machine.
 */
#pragma once

#include <stddef.h>

#include "engine/config.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define PRESETS_IMAGES_MAX        32
#define PRESETS_NAME_BYTES        64
#define PRESETS_TAG_BYTES         96
#define PRESETS_HASH_BYTES        13
#define PRESETS_CONTEXT_BYTES_MAX (64UL << 20)
#define PRESETS_FILES_MAX         4096

struct presets_image {
    char name[PRESETS_NAME_BYTES];
    char context[PRESETS_NAME_BYTES]; /* folder of the presets directory */
    char hash[PRESETS_HASH_BYTES];
    char tag[PRESETS_TAG_BYTES];
    int parent; /* index of the image it starts from, or -1 */
};

struct presets {
    struct presets_image images[PRESETS_IMAGES_MAX]; /* a parent stands before its children */
    size_t count;
};

/* Reads images.json and hashes every context. ERR_INVALID, ERR_NOT_FOUND, ERR_IO. */
int presets_load(const struct config *config, struct presets *ret, struct err *e) MUST_CHECK;
/* Parses images.json only. Pure. */
int presets_parse(struct str text, struct presets *ret, struct err *e) MUST_CHECK;
/* Index, or -1. */
int presets_find(const struct presets *presets, struct str name);
/* Name of the image with that tag ("sandboxd-<name>:<hash>"), borrowed from the tag; empty when it
 * is none of ours. Pure. */
struct str presets_name_of_tag(struct str tag);

/* The build context as a tar archive. Appends. */
int presets_context(const struct config *config, const struct presets_image *image, struct buf *out,
                    struct err *e) MUST_CHECK;

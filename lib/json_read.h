/*
 * JSON reader: the one wrapper of yyjson. Strict (no comments, no trailing commas), duplicate keys
 * refused, depth at most 64.
 *
 * A document owns its values; strings are borrowed from it. Not shared between threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/mem.h"
#include "lib/str.h"

#define JSON_DEPTH_MAX 64

struct json_doc;
struct json_value; /* opaque; belongs to its document */

/* Parses whole text. ERR_INVALID with position and reason. Caller frees with json_doc_free. */
int json_parse(struct str text, struct json_doc **ret_doc, struct err *e) MUST_CHECK;
void json_doc_free(struct json_doc *doc);
const struct json_value *json_root(const struct json_doc *doc);

bool json_is_object(const struct json_value *v);
bool json_is_array(const struct json_value *v);
bool json_is_string(const struct json_value *v);
bool json_is_int(const struct json_value *v);
bool json_is_bool(const struct json_value *v);
bool json_is_null(const struct json_value *v);

/* Member of an object, or NULL. Accepts NULL. */
const struct json_value *json_get(const struct json_value *object, const char *key);
/* Path of members, ended by NULL: json_path(v, "State", "Pid", NULL). */
const struct json_value *json_path(const struct json_value *object, ...) __attribute__((sentinel));
/* Text of a string (borrowed); an empty slice with ptr NULL when it is none. */
struct str json_get_str(const struct json_value *object, const char *key);
struct str json_as_str(const struct json_value *v);
bool json_as_int(const struct json_value *v, int64_t *ret_value);
/* Integer or real number as double. */
bool json_as_double(const struct json_value *v, double *ret_value);
bool json_as_bool(const struct json_value *v, bool *ret_value);
bool json_get_int(const struct json_value *object, const char *key, int64_t *ret_value);
bool json_get_bool(const struct json_value *object, const char *key, bool *ret_value);

size_t json_count(const struct json_value *array_or_object);
const struct json_value *json_at(const struct json_value *array, size_t index);
/* Iterates an object: start with *pos = 0, an opaque position. */
bool json_each(const struct json_value *object, size_t *pos, struct str *ret_key,
               const struct json_value **ret_value);

AUTO_DEFINE(json_doc, json_doc_free);

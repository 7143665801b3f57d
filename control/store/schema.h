/*
 * Schema: migrations in order; the database's user_version says how many ran.
 */
#pragma once

extern const char *const schema_migrations[];
extern const int schema_version;

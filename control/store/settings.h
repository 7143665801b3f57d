/*
 * Settings kept in the database (the console's password, its one-time code) and console sessions.
 */
#pragma once

#include "control/store/access.h"
#include "control/store/db.h"

/* "" when unset. Text in the arena. */
int settings_get(struct db *db, const char *key, struct arena *a, const char **ret, struct err *e)
    MUST_CHECK;
/* NULL value removes. */
int settings_set(struct db *db, const char *key, const char *value, struct err *e) MUST_CHECK;
/* Removes key when it has exactly that value; *ret_taken says whether it did. For codes that count
 * once. */
int settings_take(struct db *db, const char *key, const char *value, bool *ret_taken, struct err *e)
    MUST_CHECK;

/* Sessions are known by the SHA-256 of their token. */
int sessions_add(struct db *db, const char *hash, int64_t expires_at, struct err *e) MUST_CHECK;
bool sessions_valid(struct db *db, const char *hash);
/* The name of a session that has not ended, for what must not know its token's hash. */
bool sessions_find(struct db *db, const char *hash, char ret_name[ACCESS_SESSION_BYTES]);
/* Ending a session also ends the previews that it opened. */
int sessions_remove(struct db *db, const char *hash, struct err *e) MUST_CHECK;
int sessions_remove_all(struct db *db, struct err *e) MUST_CHECK;

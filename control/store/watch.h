/*
 * Writes to the database by whatever process, as a descriptor to poll: `sandboxd console-code` ends
 * sessions while the service runs, and a service at rest need not ask again and again. One thread
 * per watch.
 */
#pragma once

/* -1 when the machine gives none: ask from time to time. The caller closes. */
int watch_open(const char *data_dir);
/* Takes what was told so far. */
void watch_drain(int fd);

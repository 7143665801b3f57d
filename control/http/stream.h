/*
 * The event thread: connections taken from their workers, one epoll loop for all of them.
 */
#pragma once

#include "control/http/http.h"

struct stream_loop;

struct stream_loop *stream_loop_start(void) __attribute__((returns_nonnull));
/* Ends every stream (what is queued is sent as far as the socket takes it) and the thread. */
void stream_loop_stop(struct stream_loop *take_loop);
/* Hands a connected descriptor over; false when HTTP_STREAMS_MAX are open (then nothing was taken).
 * Any thread. */
bool stream_loop_add(struct stream_loop *loop, int take_fd,
                     const struct http_stream_options *options);
/* Any thread. */
void stream_loop_kick(struct stream_loop *loop, const char *key);

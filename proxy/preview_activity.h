/*
 * Who is in use: open connections and the last byte per sandbox, told to sandboxd every two
 * seconds. Main thread.
 */
#pragma once

#include "proxy/broker.h"
#include "proxy/preview_routes.h"

void activity_init(struct broker *broker);
/* A connection that counts began, moved a byte, ended. */
void activity_open(struct route *r);
void activity_byte(struct route *r);
void activity_close(struct route *r);
/* Everything there is to tell, now: sandboxd is back. */
void activity_tell(void);
/* The row goes away. */
void activity_forget(struct route *r);

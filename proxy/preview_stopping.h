/*
 * What sandboxd asks before it stops a sandbox: is something at work in the app. Main thread.
 */
#pragma once

#include "proxy/broker.h"
#include "proxy/preview_visit.h"

void stopping_init(struct broker *broker);
/* Before anything else learns of the change: answers a question that is new. */
void stopping_route_changed(struct route *r);
/* A request is at work in the app no more: told when it was the last one and somebody asked. */
void stopping_visit_left(struct route *r);
/* sandboxd is gone with its question: no TERM was sent, the container is whole. */
void stopping_broker_down(void);

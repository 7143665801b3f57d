/*
 * Two symbols of the C library, replaced for civetweb, in one file: accept (which descriptor
 * belongs to which peer) and pthread_attr_setstacksize (civetweb asks for 100 KiB, too little).
 * Both are tested at start by a request to ourselves.
 */
#pragma once

#include <stdint.h>

/* Descriptor of the accepted loopback connection from that remote port to that local port, or -1.
 * Confirmed with getpeername, since ports are used again. Any thread. */
int interpose_find(int remote_port, int local_port);
/* Smallest stack the calling thread got, in bytes. */
unsigned long interpose_stack_bytes(void);

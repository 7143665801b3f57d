/*
 * Is the host short of memory: what the kernel says, and when to look again. Any thread; reads
 * /proc. Figures and parsers only: nothing here decides what has to go.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/str.h"

struct pressure_reading {
    uint64_t total_bytes;
    uint64_t available_bytes;
    bool has_stall;     /* the kernel counts stalls (PSI) */
    uint64_t stall_us;  /* time that some task waited for memory, since boot */
    uint64_t oom_kills; /* processes killed for memory on the whole host, since boot */
};

/* ERR_IO only when /proc/meminfo cannot be read: without it nothing is known. */
int pressure_read(struct pressure_reading *ret, struct err *e) MUST_CHECK;

/* "some avg10=0.12 avg60=… total=1234": *ret_us is the total. False for rubbish and for a kernel
 * that has PSI switched off (an empty file). Pure. */
bool pressure_parse_stall(struct str text, uint64_t *ret_us);

/* A trigger of the kernel: readable with POLLPRI once tasks waited 150 ms for memory within 2 s
 * (windows that are no multiple of 2 s want SYS_RESOURCE, which we do not have). -1: this kernel
 * has none, and MemAvailable alone is watched. The caller closes it. */
int pressure_open_trigger(void);

/* When to look again: soon enough that a program which fills memory as fast as memory can be filled
 * is seen within a tenth of a second of reaching the mark. Pure. */
int64_t pressure_next_ms(uint64_t available_bytes, uint64_t mark_bytes);

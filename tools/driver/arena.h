/* The memory of a kernel whose cost is measured: fast, and at equal addresses in each call.
 *
 * There is no poison and there are no red zones: memory.c has those, and finds what a kernel does wrong. A kernel that is
 * measured is taken to be right. */
#ifndef MATRIX_ARENA_H
#define MATRIX_ARENA_H

#include <stddef.h>

enum { ARENA_ALIGNMENT = 64 /* bytes, at least */ };

typedef struct {
  size_t allocations; /* by the kernel, since the last reset */
  size_t total_bytes; /* of all of them */
  size_t live_bytes;
  size_t peak_bytes; /* most live bytes at once */
} ArenaUsage;

/* Memory of the driver's, before the first reset: it stays. */
void *arena_lend(size_t bytes);

/* Frees all that the kernel has allocated, and counts anew. The next call gets the addresses of the last one. */
void arena_reset(void);

ArenaUsage arena_usage(void);

#endif

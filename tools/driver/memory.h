/* All memory that a kernel may touch: each buffer stands between red zones and is poisoned before use and after.
 *
 * Poison and red zones have two values. The first are NaN in every float type, so that what reads them shows, and shows the
 * same each time. But 0xff is -1 as an integer, and a maximum may drop NaN: the second are large and finite, of both signs.
 * What differs under the two has read what nothing had written.
 * A buffer has exactly the alignment that was asked for and not more, so that nothing works by luck. */
#ifndef MATRIX_MEMORY_H
#define MATRIX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Block Block;

typedef enum { POISON_NAN, POISON_FINITE } Poison;

typedef struct {
  size_t allocations;   /* by the kernel */
  size_t live_blocks;   /* of the kernel's, not freed now */
  size_t live_bytes;
  size_t peak_bytes;    /* most live bytes at once */
} Usage;

/* Chooses what memory holds before it is written, and around buffers: before the first buffer. */
void memory_poison(Poison poison);

enum { MAX_STACK = 256 << 10 };

/* Poisons so many bytes, at most MAX_STACK, of the stack that the next call will have. */
void memory_poison_stack(size_t bytes);

/* A buffer of the driver's, called `label` in messages; the label must outlive it. Alignment in bytes, a power of two. */
void *memory_lend(size_t bytes, size_t alignment, const char *label);

/* The block, live or freed, that an address lies in or begins; NULL for memory that is not ours (constants, stack). */
const Block *memory_find(const void *address);

/* Whether so many bytes from an address on lie in a block. */
bool memory_holds(const Block *block, const void *address, size_t bytes);

/* Fails where the bytes have changed by which a kernel aligned a buffer by itself: those around so many bytes from `start` on.
 * Does nothing for another block. */
void memory_check_padding(const Block *block, const void *start, size_t bytes, const char *name);

/* Whether the kernel has freed it. */
bool memory_freed(const Block *block);

/* Frees a buffer that the kernel handed over, if it is the kernel's and not freed yet; leaves everything else alone. */
void memory_hand_back(const void *start);

/* Fails where a byte outside of a buffer, or in a freed one, has changed. */
void memory_check(void);

Usage memory_usage(void);

/* Forgets everything, leaks too, and starts to count anew. */
void memory_reset(void);

#endif

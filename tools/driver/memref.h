/* Ranked memref descriptors, as MLIR's C interface passes them. */
#ifndef MATRIX_MEMREF_H
#define MATRIX_MEMREF_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  void *allocated; /* what to free */
  void *aligned;   /* what `offset` counts from */
  int64_t offset;  /* in elements, like the strides */
  int64_t dims[];  /* sizes[rank], strides[rank] */
} Memref;

/* Bytes of a descriptor. */
size_t memref_bytes(int rank);

/* Makes a descriptor of elements that lie row by row. */
void memref_describe(Memref *memref, int rank, const int64_t *sizes, void *elements);

/* The elements that a descriptor reaches: the first and the one behind the last, counted from `aligned`. Both 0 when there
 * are none. Returns 0 when they are no numbers: a descriptor that was never written. Sizes must not be negative. */
int memref_reach(const Memref *memref, int rank, int64_t *first, int64_t *last);

/* Copies the elements of a descriptor, `element` bytes each, to where they lie row by row. */
void memref_pack(const Memref *memref, int rank, size_t element, unsigned char *packed);

#endif

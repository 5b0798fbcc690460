#include "memref.h"

#include <string.h>

#include "spec.h"

size_t memref_bytes(int rank) { return sizeof(Memref) + 2 * (size_t)rank * sizeof(int64_t); }

/* Strides of elements that lie row by row. They are products of sizes also where a size is 0. */
static void row_by_row(int64_t rank, const int64_t *sizes, int64_t *strides) {
  int64_t stride = 1;
  for (int64_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
}

void memref_describe(Memref *memref, int rank, const int64_t *sizes, void *elements) {
  memref->allocated = memref->aligned = elements;
  memref->offset = 0;
  memcpy(memref->dims, sizes, (size_t)rank * sizeof *sizes);
  row_by_row(rank, sizes, memref->dims + rank);
}

int memref_reach(const Memref *memref, int rank, int64_t *first, int64_t *last) {
  const int64_t far = INT64_C(1) << 48; /* elements: more than any address space, and sums of 32 of them still fit */
  *first = *last = 0;
  for (int i = 0; i < rank; i++)
    if (memref->dims[i] == 0) return 1;
  if (memref->offset < -far || memref->offset > far) return 0;
  int64_t low = memref->offset, high = memref->offset;
  for (int i = 0; i < rank; i++) {
    int64_t steps = memref->dims[i] - 1, stride = memref->dims[rank + i];
    if (steps == 0) continue; /* the stride of a single element means nothing */
    if (stride < -far || stride > far || steps > far / (stride < 0 ? -stride : stride ? stride : 1)) return 0;
    *(stride < 0 ? &low : &high) += steps * stride;
  }
  *first = low;
  *last = high + 1;
  return 1;
}

static void copy(size_t element, int64_t rank, const int64_t *sizes, const unsigned char *from,
                 const int64_t *from_strides, unsigned char *to, const int64_t *to_strides) {
  if (rank == 0) {
    memmove(to, from, element);
    return;
  }
  if (*sizes <= 0) return;
  if (rank == 1 && *from_strides == 1 && *to_strides == 1) {
    memmove(to, from, (size_t)*sizes * element);
    return;
  }
  for (int64_t i = 0; i < *sizes; i++)
    copy(element, rank - 1, sizes + 1, from + i * *from_strides * (int64_t)element, from_strides + 1,
         to + i * *to_strides * (int64_t)element, to_strides + 1);
}

static unsigned char *origin(const Memref *memref, size_t element) {
  return (unsigned char *)memref->aligned + memref->offset * (int64_t)element;
}

/* Whether there is nothing to copy. Then the addresses may be anything. */
static int is_empty(int64_t rank, const int64_t *sizes) {
  for (int64_t i = 0; i < rank; i++)
    if (sizes[i] <= 0) return 1;
  return 0;
}

void memref_pack(const Memref *memref, int rank, size_t element, unsigned char *packed) {
  int64_t strides[MAX_RANK];
  if (is_empty(rank, memref->dims)) return;
  row_by_row(rank, memref->dims, strides);
  copy(element, rank, memref->dims, origin(memref, element), memref->dims + rank, packed, strides);
}

/* What kernels call for memref.copy between layouts: MLIR's runtime has a function of this name and meaning. */
typedef struct {
  int64_t rank;
  Memref *descriptor;
} UnrankedMemref;

void memrefCopy(int64_t element, const UnrankedMemref *from, const UnrankedMemref *to);

void memrefCopy(int64_t element, const UnrankedMemref *from, const UnrankedMemref *to) {
  const Memref *source = from->descriptor, *target = to->descriptor;
  if (is_empty(from->rank, source->dims)) return;
  size_t bytes = (size_t)element;
  copy(bytes, from->rank, source->dims, origin(source, bytes), source->dims + from->rank, origin(target, bytes),
       target->dims + from->rank);
}

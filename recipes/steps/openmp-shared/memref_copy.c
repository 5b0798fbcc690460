/* memrefCopy, which MLIR calls for copies of what is not contiguous. */
typedef __INT64_TYPE__ int64_t;

typedef struct {
  char *allocated, *aligned;
  int64_t offset, dims[]; /* sizes, then strides, in elements */
} Memref;

typedef struct {
  int64_t rank;
  Memref *memref;
} Unranked;

static void copy(int64_t bytes, int64_t left, const int64_t *from_dims, const int64_t *to_dims, int64_t rank, char *from,
                 char *to) {
  if (left == 0) {
    for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i < *from_dims; i++)
    copy(bytes, left - 1, from_dims + 1, to_dims + 1, rank, from + i * from_dims[rank] * bytes, to + i * to_dims[rank] * bytes);
}

void memrefCopy(int64_t bytes, Unranked *from, Unranked *to) {
  Memref *source = from->memref, *target = to->memref;
  copy(bytes, from->rank, source->dims, target->dims, from->rank, source->aligned + source->offset * bytes,
       target->aligned + target->offset * bytes);
}

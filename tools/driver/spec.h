/* What the command line says of a tensor: `f32:8x32:x.npy`, rank 0 `f32::s.npy`, open sizes `f32:?x16:y.npy`. */
#ifndef MATRIX_SPEC_H
#define MATRIX_SPEC_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 32, SHAPE_TEXT = MAX_RANK * 22 };

typedef struct {
  const char *name;  /* as in workload.yaml */
  const char *descr; /* as NumPy writes it; bf16 travels as its bit patterns */
  size_t bytes;
} Dtype;

typedef struct {
  char role[48];    /* «argument 0» or «result 2», for messages */
  const char *path; /* its .npy file */
  const Dtype *dtype;
  int rank;
  int64_t sizes[MAX_RANK]; /* elements, not bytes; OPEN where any size will do */
} Spec;

#define OPEN INT64_C(-1)

/* Reads a specification. `role` is «argument» or «result», `index` its position. Fails with FAIL_USAGE or FAIL_LIMIT. */
Spec spec_parse(const char *text, const char *role, int index);

/* Whether these sizes, rank many, are what the specification asks for. */
int spec_fits(const Spec *spec, int rank, const int64_t *sizes);

/* Bytes of a packed tensor of these sizes (which must not be negative); SIZE_MAX when that is no number. */
size_t spec_bytes(const Spec *spec, const int64_t *sizes);

/* Writes sizes as `8x?x3`, or `scalar`, to a buffer of SHAPE_TEXT characters, which it returns. */
const char *shape_text(char *buffer, int rank, const int64_t *sizes);

#endif

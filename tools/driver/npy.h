/* NumPy's .npy files: any of the three header versions in, what numpy.save writes out. */
#ifndef MATRIX_NPY_H
#define MATRIX_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "spec.h"

/* Reads the file of a specification and returns its elements, row by row, in memory of their own.
 * `sizes` gets the sizes (rank many). Fails where file and specification differ: dtype, rank, sizes, order, length. */
unsigned char *npy_read(const Spec *spec, int64_t *sizes);

/* Writes elements that lie row by row, byte for byte as numpy.save does. */
void npy_write(const Spec *spec, const int64_t *sizes, const unsigned char *elements);

#endif

/* Calls the kernel with as many pointers as its C interface takes. */
#ifndef MATRIX_CALL_H
#define MATRIX_CALL_H

enum { MAX_POINTERS = 2048 };

/* A kernel's C interface, `_mlir_ciface_main`, whatever it takes. */
typedef void Kernel(void);

/* Calls `kernel(pointers[0], …, pointers[count - 1])`; count is at most MAX_POINTERS. */
void call_kernel(Kernel *kernel, int count, void *const *pointers);

#endif

/* Calls a kernel: reads its arguments from .npy files, calls its C interface, checks what came back and writes the results.
 *
 *   kernel --in f32:8x32:x.npy --in i64:4:index.npy --out f32:8x?:y.npy [--repeat 10] [--second-within 5]
 *       [--timings timings.json]
 *
 * A second process, forked before the first call, calls the kernel once over other poison, and its results must be the same
 * bits: what differs has read memory that nothing had written. It does so where the first call took less than
 * --second-within seconds of CPU time, and where there is fork; "poisons" in the timings says whether it did.
 *
 * The same source for every CPU target, and whichever way the kernel comes: linked with it into one static executable
 * (main.c), or compiled in memory by a process that has loaded it as a shared library (jit.c). It prints nothing when all is
 * well. Exit codes and what they mean are in fail.h. Times include the poisoning of memory that the kernel asks for. */
#ifndef MATRIX_DRIVER_H
#define MATRIX_DRIVER_H

#include "call.h"

/* Does what the command line says; returns the exit code 0, or ends the process by another one. */
int drive(Kernel *kernel, int argc, char **argv);

#endif

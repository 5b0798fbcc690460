#include "call.h"

#include <string.h>

#include "fail.h"

/* C has no call with a number of arguments that is known only at run time, and a call with a wrong number is undefined (and
 * traps on WebAssembly). So there is one call per number, written by the preprocessor: numbers are 8 * eights + rest, the
 * rest 1 to 8. T… are the types of so many parameters, A… the arguments from a position on.
 *
 * More than EXACT are rare, and a call per number would be a megabyte. There the call has as many as the next power of two:
 * in the calling conventions of x86-64, AArch64 and RISC-V the caller takes arguments off the stack again, and a function
 * does not see those that it does not take. */
enum { EXACT = 64 };
#define T1 void *
#define T2 T1, T1
#define T3 T2, T1
#define T4 T3, T1
#define T5 T4, T1
#define T6 T5, T1
#define T7 T6, T1
#define T8 T7, T1
#define A1(i) p[(i)]
#define A2(i) A1(i), p[(i) + 1]
#define A3(i) A2(i), p[(i) + 2]
#define A4(i) A3(i), p[(i) + 3]
#define A5(i) A4(i), p[(i) + 4]
#define A6(i) A5(i), p[(i) + 5]
#define A7(i) A6(i), p[(i) + 6]
#define A8(i) A7(i), p[(i) + 7]
#define TE0
#define TE1 T8,
#define TE2 TE1 T8,
#define TE3 TE2 T8,
#define TE4 TE3 T8,
#define TE5 TE4 T8,
#define TE6 TE5 T8,
#define TE7 TE6 T8,
#define AE0
#define AE1 A8(0),
#define AE2 AE1 A8(8),
#define AE3 AE2 A8(16),
#define AE4 AE3 A8(24),
#define AE5 AE4 A8(32),
#define AE6 AE5 A8(40),
#define AE7 AE6 A8(48),

#define CALL(eights, rest)                                                   \
  case 8 * eights + rest:                                                    \
    ((void (*)(TE##eights T##rest))kernel)(AE##eights A##rest(8 * eights)); \
    return;
#define CALLS(eights)                                                     \
  CALL(eights, 1) CALL(eights, 2) CALL(eights, 3) CALL(eights, 4)         \
  CALL(eights, 5) CALL(eights, 6) CALL(eights, 7) CALL(eights, 8)

#ifndef __wasm__
#define T16 T8, T8
#define T32 T16, T16
#define T64 T32, T32
#define T128 T64, T64
#define T256 T128, T128
#define T512 T256, T256
#define T1024 T512, T512
#define T2048 T1024, T1024
#define A16(i) A8(i), A8((i) + 8)
#define A32(i) A16(i), A16((i) + 16)
#define A64(i) A32(i), A32((i) + 32)
#define A128(i) A64(i), A64((i) + 64)
#define A256(i) A128(i), A128((i) + 128)
#define A512(i) A256(i), A256((i) + 256)
#define A1024(i) A512(i), A512((i) + 512)
#define A2048(i) A1024(i), A1024((i) + 1024)
#define PADDED(number)                                     \
  if (count <= number) {                                   \
    ((void (*)(T##number))kernel)(A##number(0));           \
    return;                                                \
  }

static void call_padded(Kernel *kernel, int count, void *const *pointers) {
  static void *p[MAX_POINTERS];
  memcpy(p, pointers, (size_t)count * sizeof *p);
  PADDED(128) PADDED(256) PADDED(512) PADDED(1024) PADDED(2048)
}
#endif

void call_kernel(Kernel *kernel, int count, void *const *p) {
#ifndef __wasm__
  if (count > EXACT && count <= MAX_POINTERS) {
    call_padded(kernel, count, p);
    return;
  }
#endif
  switch (count) {
    case 0:
      kernel();
      return;
    CALLS(0) CALLS(1) CALLS(2) CALLS(3) CALLS(4) CALLS(5) CALLS(6) CALLS(7)
    default:
      fail(FAIL_LIMIT, "the kernel takes %d pointers; %d can be passed on this target", count, EXACT);
  }
}

#include "call.h"

#include "fail.h"

/* C has no call with a number of arguments that is known only at run time, and a call with a wrong number is undefined (and
 * traps on WebAssembly). So there is one call per number, written by the preprocessor: numbers are 8 * eights + rest, the
 * rest 1 to 8. T… are the types of so many parameters, A… the arguments from a position on. */
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

void call_kernel(Kernel *kernel, int count, void *const *p) {
  switch (count) {
    case 0:
      kernel();
      return;
    CALLS(0) CALLS(1) CALLS(2) CALLS(3) CALLS(4) CALLS(5) CALLS(6) CALLS(7)
    default:
      fail(FAIL_LIMIT, "the kernel takes %d pointers; %d can be passed", count, MAX_POINTERS);
  }
}

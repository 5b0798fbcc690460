/* What code generators and MLIR's lowerings call and neither musl nor Zig's compiler-rt has. Weak: theirs, once they do. */
#include <math.h>
#include <stdint.h>
#include <string.h>

double roundeven(double x);
float roundevenf(float x);

/* Nothing here ever changes the rounding mode, and that of the start is to nearest, ties to even. */
__attribute__((weak)) double roundeven(double x) { return rint(x); }
__attribute__((weak)) float roundevenf(float x) { return rintf(x); }

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)

__bf16 __truncsfbf2(float x);
__bf16 __truncdfbf2(double x);

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* The upper half of these bits of an f32, rounded to nearest, ties to even. NaN stays one, and quiet. */
static __bf16 upper_half(uint32_t bits) {
  uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  if ((bits & 0x7fffffff) > 0x7f800000) rounded = bits | 0x00400000;
  uint16_t half = (uint16_t)(rounded >> 16);
  __bf16 result;
  memcpy(&result, &half, sizeof result);
  return result;
}

__attribute__((weak)) __bf16 __truncsfbf2(float x) { return upper_half(bits_of(x)); }

/* By way of an f32 that is rounded to odd, so that the second rounding sees that the first one was not exact. */
__attribute__((weak)) __bf16 __truncdfbf2(double x) {
  float nearest = (float)x;
  uint32_t bits = bits_of(nearest);
  if (x == x && (double)nearest != x) {
    if (fabs((double)nearest) > fabs(x)) bits--;
    bits |= 1;
  }
  return upper_half(bits);
}

#endif

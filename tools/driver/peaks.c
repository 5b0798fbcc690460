/* Measures what one core of this machine can do at most, and prints it as JSON: arithmetic operations (a multiplication and an
   addition, fused where the CPU has that) and bytes from each level of the memory, both per nanosecond.

     peaks LEVEL:BYTES...    L1:24576 L2:524288 memory:67108864: buffers that fit into a level, and into no smaller one

   Other work on the machine only makes it slower, so that of many short rounds the best one counts. Vectors have all widths of the
   CPU, because the widest is not always the fastest. */

#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 40, REPEATS = 20000, LARGEST = 64 };

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void raise_to(double *best, double found) {
  if (found > *best) *best = found;
}

/* Chains of dependent operations: enough for latency 4 times throughput 2, or 4 on other CPUs, and as many as registers hold. */
#ifdef __x86_64__
enum { CHAINS = 12 };
#else
enum { CHAINS = 24 };
#endif

#define COMPUTE(NAME, TYPE, WIDTH)                                                                                  \
  typedef TYPE NAME##_vector __attribute__((vector_size(WIDTH)));                                                   \
  static volatile TYPE NAME##_sink;                                                                                 \
  static double NAME(void) {                                                                                        \
    NAME##_vector chains[CHAINS], factor, term;                                                                     \
    volatile TYPE half = (TYPE)0.5;                                                                                 \
    factor = (NAME##_vector){0} + half;                                                                             \
    term = factor + half;                                                                                           \
    for (int chain = 0; chain < CHAINS; chain++) chains[chain] = term + (TYPE)chain;                                \
    uint64_t begin = now();                                                                                         \
    for (int repeat = 0; repeat < REPEATS; repeat++) {                                                              \
      _Pragma("clang loop unroll(full)") for (int chain = 0; chain < CHAINS; chain++) chains[chain] =               \
          chains[chain] * factor + term;                                                                            \
    }                                                                                                               \
    uint64_t taken = now() - begin;                                                                                 \
    NAME##_vector sum = chains[0];                                                                                  \
    for (int chain = 1; chain < CHAINS; chain++) sum += chains[chain];                                              \
    NAME##_sink = sum[0];                                                                                           \
    return 2.0 * CHAINS * REPEATS * (WIDTH / sizeof(TYPE)) / (double)taken;                                         \
  }

/* Eight sums, so that loads do not wait for additions. */
#define READ(NAME, WIDTH)                                                                                           \
  typedef uint64_t NAME##_vector __attribute__((vector_size(WIDTH)));                                               \
  static volatile uint64_t NAME##_sink;                                                                             \
  static double NAME(const void *buffer, size_t bytes, size_t passes) {                                             \
    const NAME##_vector *data = buffer;                                                                             \
    NAME##_vector sums[8] = {{0}};                                                                                  \
    size_t count = bytes / WIDTH / 8 * 8;                                                                           \
    uint64_t begin = now();                                                                                         \
    for (size_t pass = 0; pass < passes; pass++) {                                                                  \
      for (size_t index = 0; index < count; index += 8)                                                             \
        _Pragma("clang loop unroll(full)") for (int each = 0; each < 8; each++) sums[each] += data[index + each];   \
      __asm__ volatile("" ::: "memory");                                                                            \
    }                                                                                                               \
    uint64_t taken = now() - begin;                                                                                 \
    NAME##_vector sum = sums[0];                                                                                    \
    for (int each = 1; each < 8; each++) sum += sums[each];                                                         \
    NAME##_sink = sum[0];                                                                                           \
    return (double)(count * WIDTH * passes) / (double)taken;                                                        \
  }

COMPUTE(f32_16, float, 16)
COMPUTE(f64_16, double, 16)
READ(read_16, 16)
#ifdef __AVX__
COMPUTE(f32_32, float, 32)
COMPUTE(f64_32, double, 32)
READ(read_32, 32)
#endif
#ifdef __AVX512F__
COMPUTE(f32_64, float, 64)
COMPUTE(f64_64, double, 64)
READ(read_64, 64)
#endif

static void compute(double *f32, double *f64) {
  for (int round = 0; round < ROUNDS; round++) {
    raise_to(f32, f32_16());
    raise_to(f64, f64_16());
#ifdef __AVX__
    raise_to(f32, f32_32());
    raise_to(f64, f64_32());
#endif
#ifdef __AVX512F__
    raise_to(f32, f32_64());
    raise_to(f64, f64_64());
#endif
  }
}

static double read_level(const void *buffer, size_t bytes) {
  /* About a millisecond a round at 16 bytes per nanosecond; memory is read once. */
  size_t passes = (size_t)16 * 1000000 / bytes + 1;
  int rounds = bytes > ((size_t)64 << 20) ? ROUNDS / 4 : ROUNDS;
  double best = 0;
  for (int round = 0; round < rounds; round++) {
    raise_to(&best, read_16(buffer, bytes, passes));
#ifdef __AVX__
    raise_to(&best, read_32(buffer, bytes, passes));
#endif
#ifdef __AVX512F__
    raise_to(&best, read_64(buffer, bytes, passes));
#endif
  }
  return best;
}

int main(int count, char **words) {
  double f32 = 0, f64 = 0;
  compute(&f32, &f64);
  printf("{\"gflops\": {\"f32\": %.4g, \"f64\": %.4g}, \"gbs\": {", f32, f64);
  for (int word = 1; word < count; word++) {
    char *colon = strchr(words[word], ':');
    size_t bytes = colon ? (size_t)strtoull(colon + 1, NULL, 10) / LARGEST * LARGEST : 0;
    void *buffer = bytes ? aligned_alloc(LARGEST, bytes) : NULL;
    if (!buffer) {
      fprintf(stderr, "peaks: %s: no LEVEL:BYTES, or there is no such memory\n", words[word]);
      return 1;
    }
    memset(buffer, 1, bytes);
    printf("%s\"%.*s\": %.4g", word > 1 ? ", " : "", (int)(colon - words[word]), words[word], read_level(buffer, bytes));
    free(buffer);
  }
  printf("}}\n");
  return 0;
}

/* Measures a kernel: reads its arguments from .npy files as driver.c does, and calls it many times over fast memory (arena.h).
 *
 *   kernel --in f32:8x32:x.npy --out f32:8x?:y.npy --timings costs.json [--calls 1000] [--batches 5]
 *   kernel --in f32:8x32:x.npy --out f32:8x?:y.npy --timings costs.json --count
 *
 * The first call is not timed: it warms caches and pages. Then it times batches of calls, each batch by two looks at the clock.
 * A kernel that writes into its arguments gets them anew before each call, outside of the clock. With --count there is one
 * more call instead, and Valgrind's Callgrind counts only this one, if it has been started with --collect-atstart=no.
 * The results are those of the last call, unchecked: driver.c says whether a kernel is right. Exit codes are in fail.h. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"
#include "call.h"
#include "fail.h"
#include "memref.h"
#include "npy.h"
#include "spec.h"

enum { MAX_CALLS = 1000000000, MAX_BATCHES = 100000, LOOKS = 100 };

typedef struct {
  Spec spec;
  int64_t sizes[MAX_RANK];
  unsigned char *elements; /* row by row, as the file has them */
  void *lent;              /* what the kernel gets */
  bool written;            /* by the kernel */
} Argument;

static Argument arguments[MAX_POINTERS];
static Spec results[MAX_POINTERS];
static void *pointers[MAX_POINTERS];
static int argument_count, result_count, pointer_count;
static long calls = 1, batches = 5;
static bool counts, restores;
static const char *timings;

Kernel _mlir_ciface_main;

static long parse_number(const char *option, const char *value, long most) {
  char *end;
  long number = strtol(value, &end, 10);
  if (*end || number < 1 || number > most) fail(FAIL_USAGE, "%s takes 1 to %ld, not '%s'", option, most, value);
  return number;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *option = argv[i];
    if (strcmp(option, "--count") == 0) {
      counts = true;
      continue;
    }
    const char *value = argv[++i];
    if (!value) fail(FAIL_USAGE, "'%s' needs a value", option);
    if (argument_count + result_count == MAX_POINTERS) fail(FAIL_LIMIT, "more than %d arguments and results", MAX_POINTERS);
    if (strcmp(option, "--in") == 0) {
      arguments[argument_count].spec = spec_parse(value, "argument", argument_count);
      argument_count++;
    } else if (strcmp(option, "--out") == 0) {
      results[result_count] = spec_parse(value, "result", result_count);
      result_count++;
    } else if (strcmp(option, "--calls") == 0) {
      calls = parse_number(option, value, MAX_CALLS);
    } else if (strcmp(option, "--batches") == 0) {
      batches = parse_number(option, value, MAX_BATCHES);
    } else if (strcmp(option, "--timings") == 0) {
      timings = value;
    } else {
      fail(FAIL_USAGE, "'%s' is none of --in, --out, --calls, --batches, --count, --timings", option);
    }
  }
  if (!timings) fail(FAIL_USAGE, "name a file for the costs with --timings");
}

/* Lays out what the kernel is called with: descriptors of the results, then arguments, as driver.c does. */
static void prepare(void) {
  size_t bytes = 0;
  for (int i = 0; i < result_count; i++) bytes += memref_bytes(results[i].rank);
  pointers[pointer_count++] = arena_lend(bytes);
  memset(pointers[0], 0, bytes);
  for (int i = 0; i < argument_count; i++) {
    Argument *argument = &arguments[i];
    argument->elements = npy_read(&argument->spec, argument->sizes);
    argument->lent = arena_lend(spec_bytes(&argument->spec, argument->sizes));
    memcpy(argument->lent, argument->elements, spec_bytes(&argument->spec, argument->sizes));
    Memref *memref = arena_lend(memref_bytes(argument->spec.rank));
    memref_describe(memref, argument->spec.rank, argument->sizes, argument->lent);
    pointers[pointer_count++] = memref;
  }
}

static void call(void) {
  arena_reset();
  call_kernel(_mlir_ciface_main, pointer_count, pointers);
}

static void note_written(void) {
  for (int i = 0; i < argument_count; i++) {
    Argument *argument = &arguments[i];
    argument->written = memcmp(argument->lent, argument->elements, spec_bytes(&argument->spec, argument->sizes)) != 0;
    restores |= argument->written;
  }
}

static void restore(void) {
  for (int i = 0; i < argument_count; i++)
    if (arguments[i].written)
      memcpy(arguments[i].lent, arguments[i].elements, spec_bytes(&arguments[i].spec, arguments[i].sizes));
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The least time that the clock can tell, in nanoseconds: a tick, or what looking at it takes. */
static int64_t resolution(void) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < LOOKS; i++) {
    int64_t start = now(), end = now();
    while (end == start) end = now();
    if (end - start < least) least = end - start;
  }
  return least;
}

/* Nanoseconds of `calls` calls. */
static int64_t time_batch(void) {
  int64_t sum = 0, start = now();
  if (!restores) {
    for (long i = 0; i < calls; i++) call();
    return now() - start;
  }
  for (long i = 0; i < calls; i++) {
    restore();
    start = now();
    call();
    sum += now() - start;
  }
  return sum;
}

/* Callgrind reads this sequence of instructions, which changes nothing, as a request to begin or to end counting. */
static void toggle_count(void) {
#ifdef __x86_64__
  uint64_t request[6] = {('C' << 24 | 'T' << 16) + 2}, answer = 0;
  __asm__ volatile(
      "rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(request)
      : "cc", "memory");
#endif
}

static void write_costs(const int64_t *durations, long count) {
  FILE *file = fopen(timings, "w");
  if (!file) fail(FAIL_IO, "%s cannot be opened: %s", timings, strerror(errno));
  fprintf(file, "{\"batch_ns\": [");
  for (long i = 0; i < count; i++) fprintf(file, "%s%" PRId64, i ? ", " : "", durations[i]);
  ArenaUsage usage = arena_usage();
  fprintf(file, "], \"calls\": %ld, \"clock_ns\": %" PRId64 ", \"allocations\": %zu, \"peak_bytes\": %zu, \"total_bytes\": %zu}\n",
          calls, counts ? 0 : resolution(), usage.allocations, usage.peak_bytes, usage.total_bytes);
  if (fclose(file) != 0) fail(FAIL_IO, "%s cannot be written: %s", timings, strerror(errno));
}

static void write_results(void) {
  const unsigned char *at = pointers[0];
  for (int i = 0; i < result_count; i++) {
    const Spec *spec = &results[i];
    const Memref *memref = (const Memref *)(const void *)at;
    if (!spec_fits(spec, spec->rank, memref->dims))
      fail(FAIL_RESULT, "%s: %s has another shape than declared", spec->role, spec->path);
    size_t bytes = spec_bytes(spec, memref->dims);
    unsigned char *packed = malloc(bytes + 1);
    if (!packed) fail(FAIL_NO_MEMORY, "there is no memory for %zu bytes", bytes);
    memref_pack(memref, spec->rank, spec->dtype->bytes, packed);
    npy_write(spec, memref->dims, packed);
    free(packed);
    at += memref_bytes(spec->rank);
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  prepare();
  long count = counts ? 0 : batches;
  int64_t *durations = calloc((size_t)batches, sizeof *durations);
  if (!durations) fail(FAIL_NO_MEMORY, "there is no memory for %ld numbers", batches);
  call();
  note_written();
  for (long i = 0; i < count; i++) durations[i] = time_batch();
  if (counts) {
    restore();
    toggle_count();
    call();
    toggle_count();
  }
  write_costs(durations, count);
  write_results();
  return 0;
}

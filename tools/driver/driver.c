#define _POSIX_C_SOURCE 200809L

#include "driver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "fail.h"
#include "memory.h"
#include "memref.h"
#include "npy.h"
#include "spec.h"

enum {
  ARGUMENT_ALIGNMENT = 64, /* bytes */
  MAX_REPEAT = 1000000
};

typedef struct {
  Spec spec;
  int64_t sizes[MAX_RANK];
  unsigned char *elements; /* row by row */
} Tensor;

typedef struct {
  int arguments, results;
  Tensor argument[MAX_POINTERS], result[MAX_POINTERS];
  long repeat;
  const char *timings;
} Command;

static void *allocate(size_t bytes) {
  void *memory = bytes == SIZE_MAX ? NULL : malloc(bytes + 1);
  if (!memory) fail(FAIL_NO_MEMORY, "there is no memory for %zu bytes", bytes);
  return memory;
}

static Tensor *next(Tensor *tensors, int *count, const char *role) {
  if (*count == MAX_POINTERS) fail(FAIL_LIMIT, "more than %d %ss", MAX_POINTERS, role);
  return &tensors[(*count)++];
}

static void parse(Command *command, int argc, char **argv) {
  command->repeat = 1;
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i], *value = argv[i + 1];
    if (!value) fail(FAIL_USAGE, "'%s' needs a value", option);
    if (strcmp(option, "--in") == 0) {
      Tensor *tensor = next(command->argument, &command->arguments, "argument");
      tensor->spec = spec_parse(value, "argument", command->arguments - 1);
    } else if (strcmp(option, "--out") == 0) {
      Tensor *tensor = next(command->result, &command->results, "result");
      tensor->spec = spec_parse(value, "result", command->results - 1);
    } else if (strcmp(option, "--repeat") == 0) {
      char *end;
      command->repeat = strtol(value, &end, 10);
      if (*end || command->repeat < 1 || command->repeat > MAX_REPEAT)
        fail(FAIL_USAGE, "--repeat takes 1 to %d, not '%s'", MAX_REPEAT, value);
    } else if (strcmp(option, "--timings") == 0) {
      command->timings = value;
    } else {
      fail(FAIL_USAGE, "'%s' is none of --in, --out, --repeat, --timings", option);
    }
  }
  if (command->arguments + (command->results > 0) > MAX_POINTERS)
    fail(FAIL_LIMIT, "the kernel takes %d pointers; %d can be passed", command->arguments + 1, MAX_POINTERS);
  if (command->results == 0) fail(FAIL_USAGE, "a kernel without results computes nothing: name one with --out");
}

/* Lends the kernel a copy of an argument, so that what it writes there ends with this call. */
static void *lend(const Tensor *tensor) {
  const Spec *spec = &tensor->spec;
  size_t bytes = spec_bytes(spec, tensor->sizes);
  void *elements = memory_lend(bytes, ARGUMENT_ALIGNMENT, spec->role);
  memcpy(elements, tensor->elements, bytes);
  Memref *memref = memory_lend(memref_bytes(spec->rank), sizeof(int64_t), "a descriptor of an argument");
  memref_describe(memref, spec->rank, tensor->sizes, elements);
  return memref;
}

/* Fails unless all elements that a result reaches are where they may be. */
static void check_place(const Spec *spec, const Memref *memref) {
  int64_t first, last;
  if (!memref_reach(memref, spec->rank, &first, &last))
    fail(FAIL_RESULT, "%s: %s has an offset or strides that make no sense", spec->role, spec->path);
  if (first == last) return;
  int64_t element = (int64_t)spec->dtype->bytes;
  /* By number, because a wrong descriptor points anywhere. */
  const void *start = (const void *)((uintptr_t)memref->aligned + (uintptr_t)(first * element));
  const Block *block = memory_find(memref->allocated);
  if (!block) block = memory_find(start);
  if (!block) return; /* a constant of the kernel's, which has no red zone */
  if (memory_freed(block)) fail(FAIL_AFTER_FREE, "%s: %s is in a buffer that the kernel has freed", spec->role, spec->path);
  if (!memory_holds(block, start, (size_t)((last - first) * element)))
    fail(FAIL_BOUNDS, "%s: %s reaches beyond its buffer", spec->role, spec->path);
}

static void check_booleans(const Spec *spec, const unsigned char *elements, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (elements[i] > 1)
      fail(FAIL_RESULT, "%s: element %zu of %s is %d, which is no boolean", spec->role, i, spec->path, elements[i]);
}

/* Takes one result out of the kernel's hands: checks it and packs it. The first call keeps it, later ones compare. */
static void collect(Tensor *tensor, const Memref *memref, long call) {
  const Spec *spec = &tensor->spec;
  if ((uintptr_t)memref->aligned == UINTPTR_MAX) /* still poison */
    fail(FAIL_RESULT, "%s: the kernel returned fewer results than declared: %s is missing", spec->role, spec->path);
  if (!spec_fits(spec, spec->rank, memref->dims)) {
    char wanted[SHAPE_TEXT], found[SHAPE_TEXT];
    fail(FAIL_RESULT, "%s: %s has shape %s, declared is %s", spec->role, spec->path,
         shape_text(found, spec->rank, memref->dims), shape_text(wanted, spec->rank, spec->sizes));
  }
  check_place(spec, memref);
  size_t bytes = spec_bytes(spec, memref->dims);
  unsigned char *packed = allocate(bytes);
  memref_pack(memref, spec->rank, spec->dtype->bytes, packed);
  if (strcmp(spec->dtype->name, "bool") == 0) check_booleans(spec, packed, bytes);
  if (call == 0) {
    memcpy(tensor->sizes, memref->dims, (size_t)spec->rank * sizeof(int64_t));
    tensor->elements = packed;
    return;
  }
  if (memcmp(tensor->sizes, memref->dims, (size_t)spec->rank * sizeof(int64_t)) != 0 ||
      memcmp(tensor->elements, packed, bytes) != 0)
    fail(FAIL_REPEAT, "%s: %s is another one in call %ld", spec->role, spec->path, call + 1);
  free(packed);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* One call from clean memory to collected results. Returns nanoseconds; `usage` is what is left then: the leaks. */
static int64_t call(Kernel *kernel, Command *command, long number, Usage *usage) {
  void *pointers[MAX_POINTERS];
  int count = 0;
  size_t bytes = 0;
  for (int i = 0; i < command->results; i++) bytes += memref_bytes(command->result[i].spec.rank);
  /* Between red zones, so that a result of a higher rank than declared is seen. */
  unsigned char *results = memory_lend(bytes, sizeof(int64_t), "the descriptors of the results");
  pointers[count++] = results;
  for (int i = 0; i < command->arguments; i++) pointers[count++] = lend(&command->argument[i]);

  int64_t start = now();
  call_kernel(kernel, count, pointers);
  int64_t duration = now() - start;

  memory_check();
  const unsigned char *at = results;
  for (int i = 0; i < command->results; i++) {
    collect(&command->result[i], (const Memref *)at, number);
    at += memref_bytes(command->result[i].spec.rank);
  }
  at = results;
  for (int i = 0; i < command->results; i++) {
    memory_hand_back(((const Memref *)at)->allocated);
    at += memref_bytes(command->result[i].spec.rank);
  }
  *usage = memory_usage();
  memory_reset();
  return duration;
}

static void write_timings(const Command *command, const int64_t *durations, const Usage *usage) {
  FILE *file = fopen(command->timings, "w");
  if (!file) fail(FAIL_IO, "%s cannot be opened: %s", command->timings, strerror(errno));
  fprintf(file, "{\"kernel_ns\": [");
  for (long i = 0; i < command->repeat; i++) fprintf(file, "%s%" PRId64, i ? ", " : "", durations[i]);
  fprintf(file, "], \"allocations\": %zu, \"peak_bytes\": %zu, \"leaked_blocks\": %zu, \"leaked_bytes\": %zu}\n",
          usage->allocations, usage->peak_bytes, usage->live_blocks, usage->live_bytes);
  if (fclose(file) != 0) fail(FAIL_IO, "%s cannot be written: %s", command->timings, strerror(errno));
}

int drive(Kernel *kernel, int argc, char **argv) {
  static Command command;
  Usage usage;
  /* What a kernel says before it aborts (a failed assertion) must not stay in a buffer. */
  setvbuf(stdout, NULL, _IONBF, 0);
  parse(&command, argc, argv);
  for (int i = 0; i < command.arguments; i++)
    command.argument[i].elements = npy_read(&command.argument[i].spec, command.argument[i].sizes);
  int64_t *durations = allocate((size_t)command.repeat * sizeof *durations);
  for (long i = 0; i < command.repeat; i++) {
    Usage this_call;
    durations[i] = call(kernel, &command, i, &this_call);
    if (i == 0) usage = this_call;
  }
  for (int i = 0; i < command.results; i++)
    npy_write(&command.result[i].spec, command.result[i].sizes, command.result[i].elements);
  if (command.timings) write_timings(&command, durations, &usage);
  return 0;
}

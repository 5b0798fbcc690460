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
#include "system.h"

enum {
  ARGUMENT_ALIGNMENT = 64, /* bytes */
  MAX_NUMBER = 1000000,
  CHUNK = 1 << 16,   /* bytes, a multiple of every dtype's */
  CLOCK_STACK = 4096 /* bytes: more than asking for the time takes */
};

/* What MLIR's descriptors of globals have for the address to free. */
static const uintptr_t GLOBAL = 0xdeadbeef;

typedef struct {
  Spec spec;
  int64_t sizes[MAX_RANK];
  unsigned char *elements; /* row by row */
} Tensor;

typedef struct {
  int arguments, results;
  Tensor argument[MAX_POINTERS], result[MAX_POINTERS];
  long repeat;
  long second_within; /* seconds of CPU time; without a second run 0 */
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

static long parse_number(const char *option, const char *value, long least) {
  char *end;
  long number = strtol(value, &end, 10);
  if (*end || number < least || number > MAX_NUMBER)
    fail(FAIL_USAGE, "%s takes %ld to %d, not '%s'", option, least, MAX_NUMBER, value);
  return number;
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
      command->repeat = parse_number(option, value, 1);
    } else if (strcmp(option, "--second-within") == 0) {
      command->second_within = parse_number(option, value, 0);
    } else if (strcmp(option, "--timings") == 0) {
      command->timings = value;
    } else {
      fail(FAIL_USAGE, "'%s' is none of --in, --out, --repeat, --second-within, --timings", option);
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

/* Fails unless a result that is in no buffer is a constant: memory that can be read, and not written.
 *
 * MLIR lets a kernel return a global that can be written, too, and marks it: what such a one holds is no matter of luck.
 * A stack frame is gone by now, and C's malloc has neither poison nor red zones. */
static void check_foreign(const Spec *spec, const Memref *memref, const void *start, size_t bytes) {
  Access access = system_access(start, bytes);
  if (access == NOT_MAPPED) fail(FAIL_RESULT, "%s: %s is at an address where there is no memory", spec->role, spec->path);
  if (access == WRITABLE && (uintptr_t)memref->allocated != GLOBAL)
    fail(FAIL_RESULT, "%s: %s is in memory that is no buffer, argument or constant, as the stack is; return a copy",
         spec->role, spec->path);
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
  if (!block) {
    check_foreign(spec, memref, start, (size_t)((last - first) * element));
    return;
  }
  if (memory_freed(block)) fail(FAIL_AFTER_FREE, "%s: %s is in a buffer that the kernel has freed", spec->role, spec->path);
  size_t bytes = (size_t)((last - first) * element);
  if (!memory_holds(block, start, bytes))
    fail(FAIL_BOUNDS, "%s: %s reaches beyond its buffer", spec->role, spec->path);
  if (first == 0) memory_check_padding(block, start, bytes, spec->role);
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

  memory_poison_stack(MAX_STACK);
  int64_t start = now();
  memory_poison_stack(CLOCK_STACK);
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

/* In the second process: calls the kernel over other poison, and answers its results. */
static _Noreturn void run_second(Kernel *kernel, Command *command) {
  Usage usage;
  fail_where = "under the second poison: ";
  memory_poison(POISON_FINITE);
  call(kernel, command, 0, &usage);
  for (int i = 0; i < command->results; i++) {
    const Tensor *tensor = &command->result[i];
    second_send(tensor->sizes, (size_t)tensor->spec.rank * sizeof(int64_t));
    second_send(tensor->elements, spec_bytes(&tensor->spec, tensor->sizes));
  }
  _Exit(0);
}

/* Writes an element as a number of base 16: of poison one sees that it is. Without 0x, which addresses have. */
static void bits_text(char *buffer, const unsigned char *element, size_t bytes) {
  while (bytes--) buffer += sprintf(buffer, "%02x", element[bytes]);
}

/* Fails where a result of the second process differs in a bit. */
static void compare_second(const Tensor *tensor) {
  static unsigned char other[CHUNK];
  const Spec *spec = &tensor->spec;
  int64_t sizes[MAX_RANK];
  second_receive(sizes, (size_t)spec->rank * sizeof *sizes);
  if (memcmp(sizes, tensor->sizes, (size_t)spec->rank * sizeof *sizes) != 0) {
    char one[SHAPE_TEXT], two[SHAPE_TEXT];
    fail(FAIL_UNWRITTEN, "%s: the shape of %s depends on memory that nothing has written: %s under one poison, %s under another",
         spec->role, spec->path, shape_text(one, spec->rank, tensor->sizes), shape_text(two, spec->rank, sizes));
  }
  size_t bytes = spec_bytes(spec, tensor->sizes), element = spec->dtype->bytes, wrong = 0, first = 0;
  char one[24], two[24];
  for (size_t at = 0; at < bytes; at += CHUNK) {
    size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
    second_receive(other, part);
    if (memcmp(tensor->elements + at, other, part) == 0) continue;
    for (size_t i = 0; i < part; i += element) {
      if (memcmp(tensor->elements + at + i, other + i, element) == 0 || wrong++) continue;
      first = (at + i) / element;
      bits_text(one, tensor->elements + at + i, element);
      bits_text(two, other + i, element);
    }
  }
  if (wrong)
    fail(FAIL_UNWRITTEN,
         "%s: %zu of %zu elements of %s depend on memory that nothing has written: element %zu has the bits %s "
         "under one poison, %s under another", spec->role, wrong, bytes / element, spec->path, first, one, two);
}

static void write_timings(const Command *command, const int64_t *durations, const Usage *usage, int poisons) {
  FILE *file = fopen(command->timings, "w");
  if (!file) fail(FAIL_IO, "%s cannot be opened: %s", command->timings, strerror(errno));
  fprintf(file, "{\"kernel_ns\": [");
  for (long i = 0; i < command->repeat; i++) fprintf(file, "%s%" PRId64, i ? ", " : "", durations[i]);
  fprintf(file, "], \"allocations\": %zu, \"peak_bytes\": %zu, \"leaked_blocks\": %zu, \"leaked_bytes\": %zu, ",
          usage->allocations, usage->peak_bytes, usage->live_blocks, usage->live_bytes);
  fprintf(file, "\"poisons\": %d}\n", poisons);
  if (fclose(file) != 0) fail(FAIL_IO, "%s cannot be written: %s", command->timings, strerror(errno));
}

int drive(Kernel *kernel, int argc, char **argv) {
  static Command command;
  Usage usage = {0};
  /* What a kernel says before it aborts (a failed assertion) must not stay in a buffer. */
  setvbuf(stdout, NULL, _IONBF, 0);
  parse(&command, argc, argv);
  for (int i = 0; i < command.arguments; i++)
    command.argument[i].elements = npy_read(&command.argument[i].spec, command.argument[i].sizes);
  int64_t *durations = allocate((size_t)command.repeat * sizeof *durations);
  if (command.second_within && second_fork(10 * command.second_within)) run_second(kernel, &command);
  memory_poison(POISON_NAN);
  bool soon = true;
  for (long i = 0; i < command.repeat; i++) {
    Usage this_call;
    double start = system_cpu_s();
    durations[i] = call(kernel, &command, i, &this_call);
    if (i > 0) continue;
    usage = this_call;
    soon = system_cpu_s() - start < (double)command.second_within;
  }
  int poisons = 1;
  if (command.second_within && soon && second_ask()) {
    poisons = 2;
    for (int i = 0; i < command.results; i++) compare_second(&command.result[i]);
  }
  for (int i = 0; i < command.results; i++)
    npy_write(&command.result[i].spec, command.result[i].sizes, command.result[i].elements);
  if (command.timings) write_timings(&command, durations, &usage, poisons);
  return 0;
}

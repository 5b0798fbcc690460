#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum {
  RED_ZONE = 128,        /* bytes before and after a buffer, at least: two of the widest vectors */
  MALLOC_ALIGNMENT = 16, /* what alloc without an alignment promises, as C's malloc does */
  OWN_ALIGNMENT = 64,    /* to which MLIR's lowering of memref.alloc aligns by itself: it asks for so many bytes more */
  BUCKETS = 1 << 16,
  PATTERN = 4096         /* bytes of poison that are copied at once */
};

/* Freed buffers are kept, poisoned, up to so many bytes, so that a use after free is seen and not a matter of luck. */
static const size_t QUARANTINE = (size_t)64 << 20;

struct Block {
  unsigned char *start; /* what the kernel sees */
  size_t bytes;
  unsigned char *raw; /* what malloc gave */
  size_t raw_bytes;
  size_t serial;     /* the how-manieth allocation: an order that does not depend on addresses */
  const char *label; /* the driver's name for it; NULL for the kernel's own */
  bool freed;
  Block *chain;   /* next in its bucket */
  Block *younger; /* freed next */
};

static unsigned char poison[PATTERN];
/* Of the halfwords in red zones, little-endian: 0x7ffa is NaN in f16 and bf16, and repeated it is NaN in f32 and f64; 0x7af9
 * is large and finite in all of them. */
static unsigned char red_low, red_high;

static Block *buckets[BUCKETS];
static Block *oldest_freed, *youngest_freed;
static size_t freed_bytes, serial;
static Usage usage;

/* A block's name for messages: «allocation 3 (32 bytes)». Valid until the next call. */
static const char *name_of(const Block *block) {
  static char text[128];
  if (block->label)
    snprintf(text, sizeof text, "%s (%zu bytes)", block->label, block->bytes);
  else
    snprintf(text, sizeof text, "allocation %zu (%zu bytes)", block->serial, block->bytes);
  return text;
}

static Block **bucket_of(const void *start) {
  return &buckets[((uintptr_t)start >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48 & (BUCKETS - 1)];
}

static Block *starting_at(const void *start) {
  Block *block = *bucket_of(start);
  while (block && block->start != start) block = block->chain;
  return block;
}

/* The byte that stands in a red zone at this distance from the buffer: 0, 1, … after its end, -1, -2, … before it. */
static unsigned char red(ptrdiff_t distance) { return distance & 1 ? red_high : red_low; }

void memory_poison(Poison chosen) {
  bool finite = chosen == POISON_FINITE;
  red_low = finite ? 0xf9 : 0xfa;
  red_high = finite ? 0x7a : 0x7f;
  /* Words of 8 bytes by turns: large and finite in f16, bf16, f32 and f64, of both signs, and no boolean. */
  for (size_t i = 0; i < PATTERN; i++) poison[i] = !finite ? 0xff : i & 8 ? 0xfa : 0x7b;
}

static void fill(unsigned char *start, size_t bytes) {
  for (size_t at = 0; at < bytes; at += PATTERN) memcpy(start + at, poison, bytes - at < PATTERN ? bytes - at : PATTERN);
}

__attribute__((noinline)) void memory_poison_stack(size_t bytes) {
  unsigned char below[MAX_STACK];
  fill(below + sizeof below - bytes, bytes);
  __asm__ volatile("" : : "r"(below) : "memory"); /* the compiler would leave out what nobody reads */
}

static Block *take(size_t bytes, size_t alignment, const char *label) {
  if (alignment < MALLOC_ALIGNMENT) alignment = MALLOC_ALIGNMENT;
  if (alignment & (alignment - 1)) fail(FAIL_ALLOCATION, "the kernel asks for an alignment of %zu bytes", alignment);
  Block *block = malloc(sizeof *block);
  size_t around = 2 * RED_ZONE + 2 * alignment;
  unsigned char *raw = alignment > SIZE_MAX / 8 || bytes > SIZE_MAX / 2 ? NULL : malloc(bytes + around);
  if (!block || !raw)
    fail(FAIL_NO_MEMORY, "%s asks for %zu bytes: there is no memory for them", label ? label : "the kernel", bytes);
  /* The first odd multiple of the alignment behind a red zone. */
  uintptr_t least = (uintptr_t)raw + RED_ZONE, start = (least & ~(uintptr_t)(2 * alignment - 1)) + alignment;
  if (start < least) start += 2 * alignment;
  *block = (Block){.raw = raw, .raw_bytes = bytes + around, .bytes = bytes, .label = label, .serial = ++serial};
  block->start = raw + (start - (uintptr_t)raw);
  fill(block->start, bytes);
  for (unsigned char *at = raw; at < block->start; at++) *at = red(at - block->start);
  for (unsigned char *at = block->start + bytes; at < raw + block->raw_bytes; at++)
    *at = red(at - (block->start + bytes));
  Block **bucket = bucket_of(block->start);
  block->chain = *bucket;
  *bucket = block;
  return block;
}

static void drop(Block *block) {
  Block **link = bucket_of(block->start);
  while (*link != block) link = &(*link)->chain;
  *link = block->chain;
  free(block->raw);
  free(block);
}

/* Whether a buffer has only poison in it. */
static bool poisoned(const Block *block) {
  unsigned char differs = 0;
  for (size_t at = 0; at < block->bytes; at += PATTERN) {
    size_t bytes = block->bytes - at < PATTERN ? block->bytes - at : PATTERN;
    for (size_t i = 0; i < bytes; i++) differs |= block->start[at + i] ^ poison[i];
  }
  return !differs;
}

/* Distance of the changed byte that is nearest to the buffer, on the side that `step` (1, -1) says; 0 for none. */
static size_t trespass(const Block *block, int step) {
  const unsigned char *edge = step > 0 ? block->start + block->bytes : block->start;
  size_t room = (size_t)(step > 0 ? block->raw + block->raw_bytes - edge : edge - block->raw);
  for (size_t i = 0; i < room; i++) {
    ptrdiff_t distance = step > 0 ? (ptrdiff_t)i : -(ptrdiff_t)i - 1;
    if (edge[distance] != red(distance)) return i + 1;
  }
  return 0;
}

static void check(const Block *block) {
  size_t after = trespass(block, 1), before = trespass(block, -1);
  if (after)
    fail(FAIL_BOUNDS, "the kernel wrote past the end of %s: byte %zu behind it", name_of(block), after);
  if (before)
    fail(FAIL_BOUNDS, "the kernel wrote before the start of %s: byte %zu in front of it", name_of(block), before);
  if (block->freed && !poisoned(block))
    fail(FAIL_AFTER_FREE, "the kernel wrote into %s after it had freed it", name_of(block));
}

static void release(Block *block) {
  check(block);
  fill(block->start, block->bytes);
  block->freed = true;
  usage.live_blocks--;
  usage.live_bytes -= block->bytes;
  *(oldest_freed ? &youngest_freed->younger : &oldest_freed) = block;
  youngest_freed = block;
  freed_bytes += block->raw_bytes;
  while (freed_bytes > QUARANTINE) {
    Block *old = oldest_freed;
    check(old);
    oldest_freed = old->younger;
    freed_bytes -= old->raw_bytes;
    drop(old);
  }
}

void *memory_lend(size_t bytes, size_t alignment, const char *label) { return take(bytes, alignment, label)->start; }

bool memory_holds(const Block *block, const void *address, size_t bytes) {
  uintptr_t start = (uintptr_t)block->start, at = (uintptr_t)address;
  return at >= start && at - start <= block->bytes && bytes <= block->bytes - (at - start);
}

const Block *memory_find(const void *address) {
  const Block *found = starting_at(address);
  for (size_t i = 0; !found && i < BUCKETS; i++)
    for (found = buckets[i]; found && !memory_holds(found, address, 1); found = found->chain) continue;
  return found;
}

void memory_check_padding(const Block *block, const void *start, size_t bytes, const char *name) {
  size_t before = (size_t)((const unsigned char *)start - block->start), end = before + bytes;
  bool is_padded = block->bytes == bytes + OWN_ALIGNMENT && before != 0 && before < OWN_ALIGNMENT;
  if (!is_padded || (uintptr_t)start % OWN_ALIGNMENT != 0) return;
  for (size_t at = end; at < block->bytes; at++)
    if (block->start[at] != poison[at % PATTERN])
      fail(FAIL_BOUNDS, "the kernel wrote past the end of %s (%zu bytes): byte %zu behind it", name, bytes, at - end + 1);
  for (size_t at = before; at-- > 0;)
    if (block->start[at] != poison[at % PATTERN])
      fail(FAIL_BOUNDS, "the kernel wrote before the start of %s (%zu bytes): byte %zu in front of it", name, bytes,
           before - at);
}

bool memory_freed(const Block *block) { return block->freed; }

void memory_hand_back(const void *start) {
  Block *block = starting_at(start);
  if (block && !block->label && !block->freed) release(block);
}

void memory_check(void) {
  /* The oldest of the buffers that are wrong is named, whatever order the addresses put them in. */
  const Block *wrong = NULL;
  for (size_t i = 0; i < BUCKETS; i++)
    for (const Block *block = buckets[i]; block; block = block->chain) {
      bool bad = trespass(block, 1) || trespass(block, -1) || (block->freed && !poisoned(block));
      if (bad && (!wrong || block->serial < wrong->serial)) wrong = block;
    }
  if (wrong) check(wrong);
}

Usage memory_usage(void) { return usage; }

void memory_reset(void) {
  for (size_t i = 0; i < BUCKETS; i++)
    while (buckets[i]) drop(buckets[i]);
  oldest_freed = youngest_freed = NULL;
  freed_bytes = serial = 0;
  usage = (Usage){0};
}

/* What kernels call: finalize-memref-to-llvm{use-generic-functions}. Its sizes have 64 bits on every target. */
void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes);
void *_mlir_memref_to_llvm_alloc(uint64_t bytes);
void _mlir_memref_to_llvm_free(void *start);

static size_t as_size(uint64_t number) {
#if SIZE_MAX < UINT64_MAX
  if (number > SIZE_MAX) return SIZE_MAX;
#endif
  return (size_t)number;
}

void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t size) {
  size_t bytes = as_size(size);
  Block *block = take(bytes, as_size(alignment), NULL);
  usage.allocations++;
  usage.live_blocks++;
  usage.live_bytes += bytes;
  if (usage.live_bytes > usage.peak_bytes) usage.peak_bytes = usage.live_bytes;
  return block->start;
}

void *_mlir_memref_to_llvm_alloc(uint64_t bytes) { return _mlir_memref_to_llvm_aligned_alloc(MALLOC_ALIGNMENT, bytes); }

void _mlir_memref_to_llvm_free(void *start) {
  if (!start) return;
  Block *block = starting_at(start);
  if (block && block->freed) fail(FAIL_ALLOCATION, "the kernel frees %s twice", name_of(block));
  if (block && block->label) fail(FAIL_ALLOCATION, "the kernel frees %s, which is not its own", name_of(block));
  if (block) {
    release(block);
    return;
  }
  const Block *around = memory_find(start);
  if (around) fail(FAIL_ALLOCATION, "the kernel frees an address inside of %s", name_of(around));
  fail(FAIL_ALLOCATION, "the kernel frees an address that no allocation gave");
}

/* The same before LLVM 16. */
void *_mlir_aligned_alloc(uint64_t alignment, uint64_t bytes);
void *_mlir_alloc(uint64_t bytes);
void _mlir_free(void *start);

void *_mlir_aligned_alloc(uint64_t alignment, uint64_t bytes) { return _mlir_memref_to_llvm_aligned_alloc(alignment, bytes); }

void *_mlir_alloc(uint64_t bytes) { return _mlir_memref_to_llvm_alloc(bytes); }

void _mlir_free(void *start) { _mlir_memref_to_llvm_free(start); }

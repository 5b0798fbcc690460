#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "fail.h"

enum {
  PAGE = 4096,          /* bytes: chunks begin at a page, so that sets of a cache do not depend on where they are */
  CHUNK = 16 << 20,     /* bytes, at least */
  CLASSES = 256         /* of sizes */
};

/* In front of each buffer, in a cache line of its own. */
typedef struct Header {
  size_t bytes, alignment;
  struct Header *next; /* freed before it, and in the same class */
} Header;

typedef struct Chunk {
  unsigned char *start;
  size_t bytes;
  struct Chunk *next;
} Chunk;

static Chunk *first, *current;
static size_t used;            /* bytes of the current chunk */
static Chunk *kept_chunk;      /* where the driver's memory ends and the kernel's begins */
static size_t kept_used;
/* What was freed in a call; what an earlier call has left there counts no more. */
static struct {
  uint64_t call;
  Header *last;
} freed[CLASSES];
static uint64_t call = 1;
static ArenaUsage usage;

static Chunk *new_chunk(size_t bytes) {
  Chunk *chunk = malloc(sizeof *chunk);
  size_t least = bytes < CHUNK ? CHUNK : bytes;
  unsigned char *raw = bytes > SIZE_MAX / 4 ? NULL : malloc(least + PAGE);
  if (!chunk || !raw) fail(FAIL_NO_MEMORY, "the kernel asks for %zu bytes: there is no memory for them", bytes);
  *chunk = (Chunk){.start = raw + (PAGE - (uintptr_t)raw % PAGE) % PAGE, .bytes = least};
  return chunk;
}

/* Takes memory behind all that is in use. Where a chunk has too little left, the next is used, or a new one put there. */
static unsigned char *bump(size_t bytes, size_t alignment) {
  for (;;) {
    if (current) {
      uintptr_t end = (uintptr_t)current->start + used;
      size_t gap = (size_t)(-end & (alignment - 1));
      if (gap <= current->bytes - used && bytes <= current->bytes - used - gap) {
        unsigned char *start = current->start + used + gap;
        used += gap + bytes;
        return start;
      }
    }
    Chunk **link = current ? &current->next : &first;
    if (!*link || (*link)->bytes < bytes + alignment) {
      Chunk *chunk = new_chunk(bytes + alignment);
      chunk->next = *link;
      *link = chunk;
    }
    current = *link;
    used = 0;
  }
}

static size_t rounded(size_t bytes) {
  if (bytes > SIZE_MAX / 4) fail(FAIL_NO_MEMORY, "the kernel asks for %zu bytes: there is no memory for them", bytes);
  return (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
}

static size_t class_of(size_t bytes) { return (size_t)(bytes * UINT64_C(0x9e3779b97f4a7c15) >> 56) % CLASSES; }

void *arena_lend(size_t bytes) {
  unsigned char *start = bump(rounded(bytes), ARENA_ALIGNMENT);
  kept_chunk = current;
  kept_used = used;
  return start;
}

void arena_reset(void) {
  call++;
  current = kept_chunk;
  used = kept_used;
  usage = (ArenaUsage){0};
}

ArenaUsage arena_usage(void) { return usage; }

/* Returns a freed buffer of exactly this size; NULL where there is none. The one that was freed last is still in the cache. */
static Header *recycled(size_t bytes, size_t alignment) {
  size_t class = class_of(bytes);
  if (freed[class].call != call) return NULL;
  Header **link = &freed[class].last;
  while (*link && ((*link)->bytes != bytes || (*link)->alignment < alignment)) link = &(*link)->next;
  Header *found = *link;
  if (found) *link = found->next;
  return found;
}

static void *take(uint64_t size, uint64_t wanted) {
  size_t bytes = size > SIZE_MAX ? SIZE_MAX : (size_t)size;
  size_t alignment = wanted < ARENA_ALIGNMENT ? ARENA_ALIGNMENT : (size_t)wanted;
  if (alignment & (alignment - 1)) fail(FAIL_ALLOCATION, "the kernel asks for an alignment of %zu bytes", alignment);
  size_t room = rounded(bytes);
  Header *header = recycled(bytes, alignment);
  if (!header) {
    /* The header is right below the buffer, which has the alignment. */
    unsigned char *start = bump(room + alignment, alignment) + alignment;
    header = (Header *)(void *)(start - ARENA_ALIGNMENT);
    *header = (Header){.bytes = bytes, .alignment = alignment};
  }
  usage.allocations++;
  usage.total_bytes += bytes;
  usage.live_bytes += bytes;
  if (usage.live_bytes > usage.peak_bytes) usage.peak_bytes = usage.live_bytes;
  return (unsigned char *)header + ARENA_ALIGNMENT;
}

static void give_back(void *start) {
  if (!start) return;
  Header *header = (Header *)(void *)((unsigned char *)start - ARENA_ALIGNMENT);
  size_t class = class_of(header->bytes);
  header->next = freed[class].call == call ? freed[class].last : NULL;
  freed[class].call = call;
  freed[class].last = header;
  usage.live_bytes -= header->bytes;
}

/* What kernels call: finalize-memref-to-llvm{use-generic-functions}. Its sizes have 64 bits on every target. */
void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes);
void *_mlir_memref_to_llvm_alloc(uint64_t bytes);
void _mlir_memref_to_llvm_free(void *start);

void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes) { return take(bytes, alignment); }

void *_mlir_memref_to_llvm_alloc(uint64_t bytes) { return take(bytes, ARENA_ALIGNMENT); }

void _mlir_memref_to_llvm_free(void *start) { give_back(start); }

/* The same before LLVM 16. */
void *_mlir_aligned_alloc(uint64_t alignment, uint64_t bytes);
void *_mlir_alloc(uint64_t bytes);
void _mlir_free(void *start);

void *_mlir_aligned_alloc(uint64_t alignment, uint64_t bytes) { return take(bytes, alignment); }

void *_mlir_alloc(uint64_t bytes) { return take(bytes, ARENA_ALIGNMENT); }

void _mlir_free(void *start) { give_back(start); }

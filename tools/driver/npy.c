#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum {
  HEADER_LIMIT = 1 << 16,
  ALIGNMENT = 64,    /* numpy.lib.format: the data starts at a multiple of this, */
  GROWTH_DIGITS = 21 /* and the header leaves room for the first size to grow to so many digits. */
};

static const char MAGIC[] = "\x93NUMPY";

/* Skips spaces, then `expected`. Returns what follows, or NULL where something else stands. */
static const char *skip(const char *at, const char *expected) {
  if (!at) return NULL;
  at += strspn(at, " ");
  size_t length = strlen(expected);
  return strncmp(at, expected, length) == 0 ? at + length : NULL;
}

/* Finds the value of a key of the header, which is a Python dictionary written by repr(). */
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  at = at ? skip(at + strlen(key), ":") : NULL;
  return at ? at + strspn(at, " ") : NULL;
}

/* Reads a tuple of sizes. Returns the rank, or -1 where it is none. */
static int parse_shape(const char *at, int64_t *sizes) {
  int rank = 0;
  at = skip(at, "(");
  while (at) {
    at += strspn(at, " ");
    if (*at == ')') return rank;
    char *end;
    errno = 0;
    long long size = strtoll(at, &end, 10);
    if (end == at || size < 0 || errno || rank == MAX_RANK) return -1;
    sizes[rank++] = size;
    end += strspn(end, " ");
    if (*end != ',' && *end != ')') return -1;
    at = *end == ',' ? end + 1 : end;
  }
  return -1;
}

/* Reads the part before the elements. Returns the header as text, in memory of its own. */
static char *read_header(FILE *file, const Spec *spec) {
  unsigned char start[12] = {0};
  if (fread(start, 1, 10, file) != 10 || memcmp(start, MAGIC, 6) != 0)
    fail(FAIL_INPUT, "%s: %s is no .npy file", spec->role, spec->path);
  size_t length = start[8] | (size_t)start[9] << 8;
  if (start[6] < 1 || start[6] > 3)
    fail(FAIL_INPUT, "%s: %s is .npy version %d; 1, 2 and 3 are read here", spec->role, spec->path, start[6]);
  if (start[6] > 1) {
    if (fread(start + 10, 1, 2, file) != 2) fail(FAIL_INPUT, "%s: %s ends early", spec->role, spec->path);
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  if (length > HEADER_LIMIT) fail(FAIL_INPUT, "%s: the header of %s is too long", spec->role, spec->path);
  char *header = calloc(length + 1, 1);
  if (!header) fail(FAIL_NO_MEMORY, "%s: no memory for a header", spec->role);
  if (fread(header, 1, length, file) != length) fail(FAIL_INPUT, "%s: %s ends early", spec->role, spec->path);
  return header;
}

static void check_header(const Spec *spec, const char *header, int64_t *sizes) {
  char wanted[SHAPE_TEXT], found[SHAPE_TEXT];
  const char *descr = value_of(header, "'descr'");
  const char *order = value_of(header, "'fortran_order'");
  int rank = parse_shape(value_of(header, "'shape'"), sizes);
  if (!descr || !order || rank < 0)
    fail(FAIL_INPUT, "%s: %s has a header that makes no sense", spec->role, spec->path);
  size_t quoted = *descr == '\'' ? strcspn(descr + 1, "'") : 0;
  if (quoted != strlen(spec->dtype->descr) || strncmp(descr + 1, spec->dtype->descr, quoted) != 0)
    fail(FAIL_INPUT, "%s: %s has elements '%.*s', but %s needs '%s'", spec->role, spec->path, (int)quoted, descr + 1,
         spec->dtype->name, spec->dtype->descr);
  if (!skip(order, "False"))
    fail(FAIL_INPUT, "%s: %s is in Fortran order; numpy.ascontiguousarray makes it right", spec->role, spec->path);
  if (!spec_fits(spec, rank, sizes))
    fail(FAIL_INPUT, "%s: %s has shape %s, declared is %s", spec->role, spec->path, shape_text(found, rank, sizes),
         shape_text(wanted, spec->rank, spec->sizes));
}

unsigned char *npy_read(const Spec *spec, int64_t *sizes) {
  FILE *file = fopen(spec->path, "rb");
  if (!file) fail(FAIL_IO, "%s: %s cannot be opened: %s", spec->role, spec->path, strerror(errno));
  char *header = read_header(file, spec);
  check_header(spec, header, sizes);
  free(header);
  size_t bytes = spec_bytes(spec, sizes);
  unsigned char *elements = bytes == SIZE_MAX ? NULL : malloc(bytes + 1);
  if (!elements) fail(FAIL_NO_MEMORY, "%s: no memory for %s", spec->role, spec->path);
  size_t read = fread(elements, 1, bytes, file);
  if (ferror(file)) fail(FAIL_IO, "%s: %s cannot be read: %s", spec->role, spec->path, strerror(errno));
  if (read != bytes || fgetc(file) != EOF)
    fail(FAIL_INPUT, "%s: %s is %s than its header says", spec->role, spec->path, read < bytes ? "shorter" : "longer");
  fclose(file);
  return elements;
}

/* Writes the header of numpy.save to a buffer and returns its length, which is a multiple of ALIGNMENT. */
static size_t make_header(const Spec *spec, const int64_t *sizes, char *buffer, size_t capacity) {
  char *at = buffer + 10, *end = buffer + capacity;
  at += snprintf(at, (size_t)(end - at), "{'descr': '%s', 'fortran_order': False, 'shape': (", spec->dtype->descr);
  int growth = 0;
  for (int i = 0; i < spec->rank; i++) {
    int digits = snprintf(at, (size_t)(end - at), "%" PRId64, sizes[i]);
    at += digits;
    if (i == 0) growth = GROWTH_DIGITS - digits;
    at += snprintf(at, (size_t)(end - at), i + 1 < spec->rank ? ", " : spec->rank == 1 ? "," : "");
  }
  at += snprintf(at, (size_t)(end - at), "), }%*s", growth, "");
  /* The newline counts, and a header that ends just at the boundary gets a whole block more: as in NumPy. */
  size_t length = (size_t)(at - buffer) + 1;
  size_t padding = ALIGNMENT - length % ALIGNMENT;
  memset(at, ' ', padding);
  at[padding] = '\n';
  memcpy(buffer, MAGIC, 6);
  buffer[6] = 1;
  buffer[7] = 0;
  size_t body = length + padding - 10;
  buffer[8] = (char)(body & 0xff);
  buffer[9] = (char)(body >> 8);
  return length + padding;
}

void npy_write(const Spec *spec, const int64_t *sizes, const unsigned char *elements) {
  char header[SHAPE_TEXT + 256];
  size_t length = make_header(spec, sizes, header, sizeof header - ALIGNMENT - 1);
  size_t bytes = spec_bytes(spec, sizes);
  FILE *file = fopen(spec->path, "wb");
  int wrong = !file || fwrite(header, 1, length, file) != length || fwrite(elements, 1, bytes, file) != bytes;
  if ((file && fclose(file) != 0) || wrong)
    fail(FAIL_IO, "%s: %s cannot be written: %s", spec->role, spec->path, strerror(errno));
}

#include "spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"

static const Dtype DTYPES[] = {
    {"f64", "<f8", 8}, {"f32", "<f4", 4}, {"f16", "<f2", 2}, {"bf16", "<u2", 2}, {"i64", "<i8", 8},
    {"i32", "<i4", 4}, {"i16", "<i2", 2}, {"i8", "|i1", 1},  {"u64", "<u8", 8},  {"u32", "<u4", 4},
    {"u16", "<u2", 2}, {"u8", "|u1", 1},  {"bool", "|b1", 1},
    {"c64", "<c8", 8},    {"c128", "<c16", 16},
};

static const Dtype *dtype_named(const char *name, size_t length, const char *text) {
  for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++)
    if (strlen(DTYPES[i].name) == length && strncmp(DTYPES[i].name, name, length) == 0) return &DTYPES[i];
  fail(FAIL_USAGE, "'%s': there is no dtype '%.*s'", text, (int)length, name);
}

/* Reads one size and returns what follows it. */
static const char *parse_size(const char *at, int64_t *size, const char *text) {
  if (*at == '?') {
    *size = OPEN;
    return at + 1;
  }
  if (*at < '0' || *at > '9') fail(FAIL_USAGE, "'%s': a size is a number or '?'", text);
  *size = 0;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (*size > (INT64_MAX - 9) / 10) fail(FAIL_USAGE, "'%s': a size is too large", text);
    *size = *size * 10 + (*at - '0');
  }
  return at;
}

Spec spec_parse(const char *text, const char *role, int index) {
  const char *shape = strchr(text, ':');
  const char *path = shape ? strchr(shape + 1, ':') : NULL;
  if (!path || !path[1]) fail(FAIL_USAGE, "'%s' should look like f32:8x32:x.npy", text);
  Spec spec = {.path = path + 1, .dtype = dtype_named(text, (size_t)(shape - text), text)};
  snprintf(spec.role, sizeof spec.role, "%s %d", role, index);
  if (shape + 1 == path) return spec;
  const char *at = shape;
  while (at != path) {
    if (spec.rank == MAX_RANK) fail(FAIL_LIMIT, "'%s': more than %d dimensions", text, MAX_RANK);
    at = parse_size(at + 1, &spec.sizes[spec.rank++], text);
    if (at != path && *at != 'x') fail(FAIL_USAGE, "'%s': sizes are separated by 'x'", text);
  }
  return spec;
}

int spec_fits(const Spec *spec, int rank, const int64_t *sizes) {
  if (rank != spec->rank) return 0;
  for (int i = 0; i < rank; i++)
    if (sizes[i] < 0 || (spec->sizes[i] != OPEN && spec->sizes[i] != sizes[i])) return 0;
  return 1;
}

size_t spec_bytes(const Spec *spec, const int64_t *sizes) {
  size_t bytes = spec->dtype->bytes;
  for (int i = 0; i < spec->rank; i++)
    if (sizes[i] == 0) return 0;
  for (int i = 0; i < spec->rank; i++) {
    if ((uint64_t)sizes[i] > SIZE_MAX / 2 / bytes) return SIZE_MAX;
    bytes *= (size_t)sizes[i];
  }
  return bytes;
}

const char *shape_text(char *buffer, int rank, const int64_t *sizes) {
  char *at = buffer;
  if (rank == 0) return strcpy(buffer, "scalar");
  for (int i = 0; i < rank; i++) {
    if (i) *at++ = 'x';
    if (sizes[i] == OPEN)
      *at++ = '?';
    else
      at += snprintf(at, 21, "%" PRId64, sizes[i]);
  }
  *at = '\0';
  return buffer;
}

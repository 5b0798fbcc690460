#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *fail_where = "";

_Noreturn void fail(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs(fail_where, stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  /* Not exit(): this may be called below the kernel, and nothing of the driver waits to be finished. */
  fflush(NULL);
  _Exit(code);
}

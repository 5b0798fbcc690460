/* The driver as a shared library: a process that compiles the kernel in memory loads it and calls it with the kernel's address. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fail.h"

enum { MAX_WORDS = 8 * MAX_POINTERS, MAX_TEXT = 1 << 20 };

/* Names the file with the driver's command line: words, the program's name first, each ended by a zero byte. */
static const char VARIABLE[] = "MATRIX_DRIVER_ARGUMENTS";

void matrix_drive(Kernel *kernel);

/* Reads the words, the last followed by NULL as main() has them, and returns how many there are. The file is removed: who
 * finds it later knows that the kernel's turn never came. */
static int read_words(char **words) {
  static char text[MAX_TEXT];
  const char *path = getenv(VARIABLE);
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file) fail(FAIL_IO, "the driver's command line cannot be opened: %s", path ? strerror(errno) : "it is not named");
  size_t length = fread(text, 1, sizeof text, file);
  if (ferror(file) || fclose(file) != 0 || remove(path) != 0)
    fail(FAIL_IO, "the driver's command line cannot be read: %s", strerror(errno));
  if (length == sizeof text || (length && text[length - 1])) fail(FAIL_USAGE, "the driver's command line is cut off");
  int count = 0;
  for (char *at = text; at < text + length; at += strlen(at) + 1) {
    if (count == MAX_WORDS) fail(FAIL_USAGE, "more than %d words", MAX_WORDS);
    words[count++] = at;
  }
  words[count] = NULL;
  return count;
}

/* A kernel that crashes ends the process by the signal alone, as one in a program of its own does: the compiler around it
 * would print its own stack, and addresses. */
static void forget_handlers(void) {
  const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
}

void matrix_drive(Kernel *kernel) {
  char *words[MAX_WORDS + 1];
  int count = read_words(words);
  forget_handlers();
  int code = drive(kernel, count, words);
  /* Not back to the compiler, whose own end is none of the kernel's. */
  fflush(NULL);
  _Exit(code);
}

#define _POSIX_C_SOURCE 200809L

#include "system.h"

#include "fail.h"

#ifdef __unix__

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { PAGE = 4096 /* bytes, the smallest there is */ };

static pid_t second;
static int asked[2], answered[2]; /* pipes: to read from, to write to */

static void open_pipe(int ends[2]) {
  if (pipe(ends) != 0) fail(FAIL_IO, "a pipe cannot be opened: %s", strerror(errno));
}

/* The kernel of the system looks instead of us: it says EFAULT where we would crash. A byte goes through a pipe and back to
 * where it was. Unlike /proc/self/maps that is there in every container and under every emulator. */
Access system_access(const void *start, size_t bytes) {
  Access least = WRITABLE;
  int ends[2];
  open_pipe(ends);
  uintptr_t address = (uintptr_t)start, last = address + bytes - 1;
  while (least != NOT_MAPPED) {
    unsigned char byte;
    if (write(ends[1], (const void *)address, 1) != 1)
      least = NOT_MAPPED;
    else if (read(ends[0], (void *)address, 1) != 1 && read(ends[0], &byte, 1) == 1)
      least = READ_ONLY;
    if (last / PAGE == address / PAGE) break;
    address = (address / PAGE + 1) * PAGE;
  }
  close(ends[0]);
  close(ends[1]);
  return least;
}

double system_cpu_s(void) {
  struct timespec time = {0};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool second_fork(long seconds) {
  open_pipe(asked);
  open_pipe(answered);
  pid_t first = getpid();
  second = fork();
  if (second < 0 && errno == ENOSYS) return false;
  /* Without a second process the check is weaker. A lack of processes is temporary, so the result must not be cached. */
  if (second < 0) fail(FAIL_IO, "a second process cannot be started: %s", strerror(errno));
  close(asked[second ? 0 : 1]);
  close(answered[second ? 1 : 0]);
  if (second) return false;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  char go;
  if (getppid() != first || read(asked[0], &go, 1) != 1) _exit(0);
  /* Where the size of a loop was never written, the second call has no end. */
  struct rlimit limit;
  if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur > (rlim_t)seconds) {
    limit.rlim_cur = (rlim_t)seconds;
    setrlimit(RLIMIT_CPU, &limit);
  }
  return true;
}

/* Ends as the second process did. */
static _Noreturn void end_as_second(void) {
  int status;
  while (waitpid(second, &status, 0) < 0)
    if (errno != EINTR) fail(FAIL_IO, "the second process is lost: %s", strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) >= FAIL_USAGE) _exit(WEXITSTATUS(status)); /* it has said why */
  /* Somebody else sends this one, mostly a machine that is out of memory. */
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) raise(SIGKILL);
  if (WIFSIGNALED(status))
    fail(FAIL_UNWRITTEN, "the kernel depends on memory that nothing has written: under the second poison it crashes (%s)",
         strsignal(WTERMSIG(status)));
  fail(FAIL_UNWRITTEN, "under the second poison the kernel ended by itself, with exit code %d", WEXITSTATUS(status));
}

bool second_ask(void) {
  if (second < 0) return false;
  signal(SIGPIPE, SIG_IGN); /* where it is gone already, second_receive says so */
  if (write(asked[1], "", 1) != 1 && errno != EPIPE)
    fail(FAIL_IO, "the second process cannot be asked: %s", strerror(errno));
  return true;
}

void second_send(const void *data, size_t bytes) {
  const unsigned char *at = data;
  while (bytes) {
    ssize_t sent = write(answered[1], at, bytes);
    if (sent < 0 && errno != EINTR) fail(FAIL_IO, "the second process cannot answer: %s", strerror(errno));
    if (sent < 0) continue;
    at += sent;
    bytes -= (size_t)sent;
  }
}

void second_receive(void *data, size_t bytes) {
  unsigned char *at = data;
  while (bytes) {
    ssize_t received = read(answered[0], at, bytes);
    if (received == 0) end_as_second();
    if (received < 0 && errno != EINTR) fail(FAIL_IO, "the second process cannot be read: %s", strerror(errno));
    if (received < 0) continue;
    at += received;
    bytes -= (size_t)received;
  }
}

#else

Access system_access(const void *start, size_t bytes) {
  (void)start, (void)bytes;
  return UNKNOWN_ACCESS;
}

double system_cpu_s(void) { return 0; }

bool second_fork(long seconds) {
  (void)seconds;
  return false;
}

bool second_ask(void) { return false; }

void second_send(const void *data, size_t bytes) { (void)data, (void)bytes; }

void second_receive(void *data, size_t bytes) {
  (void)data, (void)bytes;
  fail(FAIL_IO, "there is no second process");
}

#endif

/* How the driver says that something is wrong: one sentence on stderr and an exit code of its own.
 *
 * Sentences hold no addresses and no times: the failure of a test is kept and compared like any other result.
 * tools/mlir_matrix/actions/tools/run.py turns them into outcomes. */
#ifndef MATRIX_FAIL_H
#define MATRIX_FAIL_H

enum {
  FAIL_USAGE = 64,       /* the command line */
  FAIL_INPUT = 65,       /* an input file is not what the command line says */
  FAIL_LIMIT = 70,       /* more arguments or dimensions than the driver can pass */
  FAIL_NO_MEMORY = 71,   /* memory that this machine does not have */
  FAIL_IO = 74,          /* a file that cannot be opened, read or written: not the kernel's fault */
  FAIL_RESULT = 80,      /* a result that is not what was declared */
  FAIL_ALLOCATION = 81,  /* a wrong call of alloc or free */
  FAIL_BOUNDS = 82,      /* a write outside of a buffer */
  FAIL_AFTER_FREE = 83,  /* a write into, or a result in, a buffer that was freed */
  FAIL_REPEAT = 84,      /* another result when called again */
  FAIL_UNWRITTEN = 85    /* a result that depends on memory that nothing has written */
};

/* Begins every sentence. */
extern const char *fail_where;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
_Noreturn void fail(int code, const char *format, ...);

#endif

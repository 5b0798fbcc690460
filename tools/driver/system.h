/* What the driver needs an operating system with processes for. Where there is none (WebAssembly) it does without. */
#ifndef MATRIX_SYSTEM_H
#define MATRIX_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { NOT_MAPPED, READ_ONLY, WRITABLE, UNKNOWN_ACCESS } Access;

/* What may be done with so many bytes from an address on; the least of it where that differs. */
Access system_access(const void *start, size_t bytes);

/* Seconds of CPU time that this process has taken; 0 where that is not known. */
double system_cpu_s(void);

/* Forks a second process, which has the inputs and the kernel's variables as they are now.
 *
 * It waits. Returns true there once the first process asks for its results, and it may then take `seconds` of CPU time; it
 * ends there when the first ends or has no need of it. Returns false in the first process. */
bool second_fork(long seconds);

/* Asks the second process to go on. Returns false where there is none, because this system has no fork. */
bool second_ask(void);

/* The second process answers so many bytes. */
void second_send(const void *data, size_t bytes);

/* The first process receives so many bytes. Fails as the second did, where that ended without an answer. */
void second_receive(void *data, size_t bytes);

#endif

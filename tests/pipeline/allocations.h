/* Counts calls of malloc and its family, of all threads, by the file that makes them: this program, or a library.
 *
 * The program's own definitions take the place of libc's, for the libraries too. Programs with a sanitizer keep the
 * sanitizer's, and count nothing. One count at a time; the main thread begins and ends it. */
#ifndef GP_TESTS_PIPELINE_ALLOCATIONS_H
#define GP_TESTS_PIPELINE_ALLOCATIONS_H

#include <stdbool.h>

#include "pipeline/harness.h"

/* false: a sanitizer has its own malloc. */
bool allocations_are_counted(void);
void allocations_begin(void);
void allocations_end(void);
/* Calls of the last count: of this program; of the library whose file name begins with `name`; of all files. */
long allocations_of_program(void);
long allocations_of(const char *name);
long allocations_of_all(void);
/* Prints each file with its calls; of this program, each address that called, for addr2line. */
void allocations_print(void);
/* What the calling thread does from here on is not counted, if `excused`. */
void allocations_excuse(bool excused);

/* The runs whose steps must not allocate: one and two stages, all checkpoint modes, with and without lockstep, three
 * micro-batches, a last mini-batch, evaluations, clipping. */
enum { ALLOCATIONS_WAYS = 12, BATCH = 9, LAST = 5, EVALUATED = 4 };
harness_options allocations_way(int way, const gp_device_kind *kind);

#endif

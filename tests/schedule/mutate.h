/* Random changes of programs, for the tests that ask the validator what it thinks of them. Main thread only. */
#ifndef GP_TESTS_SCHEDULE_MUTATE_H
#define GP_TESTS_SCHEDULE_MUTATE_H

#include "schedule/program.h"

gp_programs *mutate_copy(const gp_programs *from);

/* One change: an instruction dropped, repeated, moved, or swapped with a neighbour or with any; a field of it; a slot
 * of one micro-batch renamed throughout a worker; the declared order. Slots stay below the interpreter's. */
void mutate(gp_programs *programs, const gp_stages *stages, uint64_t *random);

#endif

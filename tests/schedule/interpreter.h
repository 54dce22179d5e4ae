/* Executes programs symbolically: which micro-batch each value in each slot belongs to. The oracle of the validator's
 * test. It shares no code with validator, waits and player: what it knows is program.h, that a receive waits for its
 * send, and that who writes into a slot waits until what another micro-batch sent from it has been pulled. */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include "base/status.h"
#include "schedule/program.h"

enum { INTERPRETER_SLOTS = 16 }; /* programs that name more are not for it */

typedef enum interleaving { LOWEST_WORKER_FIRST, HIGHEST_WORKER_FIRST, RANDOM_WORKER } interleaving;

/* GP_PROGRAM with what went wrong, where the programs read what is not there, lose or repeat something, or hang. */
GP_MUST_USE gp_status interpret(const gp_stages *stages, const gp_programs *programs, interleaving how,
                                uint64_t *random, gp_error *err);

#endif

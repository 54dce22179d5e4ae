/* What the program says while its first step takes long: preparing, waiting for data, computing.
 *
 * A thread prints while the trainer's thread is blocked: nothing in the first seconds, then on a terminal a line that
 * is rewritten, in a pipe a line now and then. The trainer's thread calls the functions below. */
#ifndef GP_TRAIN_FIRST_STEP_H
#define GP_TRAIN_FIRST_STEP_H

#include <stdio.h>

#include "session/session.h"

typedef struct gp_first_step gp_first_step;

/* `patience`: seconds before the first line; 0: 3 on a terminal, else 10. Borrows the session until the end. NULL if
 * `to` is NULL, or if there is no memory or thread for it: then nothing is said. */
gp_first_step *gp_first_step_watch(const gp_session *session, FILE *to, double patience);
/* What the program does from now on. `watch` may be NULL. */
void gp_first_step_waits(gp_first_step *watch);
void gp_first_step_computes(gp_first_step *watch);
/* Clears the thread's line on a terminal: the trainer's thread prints. */
void gp_first_step_clear(gp_first_step *watch);
/* The first step is over, or the run: joins the thread and clears its line. *watch may be NULL. */
void gp_first_step_end(gp_first_step **watch);

#endif

/* How a run reads its data: the options of its loaders, from the configuration and the plan.
 *
 * Of several processes each reads what its own stages load (plan/loads.h). A loader borrows the session's plan.
 *
 * A run that trains has a loader for training and, if it evaluates, a second one, which rests between evaluations.
 * Both stand from before the first step to the end: all buffers are reserved before the run begins, and training's
 * mini-batches stay ahead while an evaluation runs. (One set of buffers for both would save up to four
 * mini-batches; but each evaluation would throw away what was read ahead, and then wait for the data twice.)
 * Pure; any thread. */
#ifndef GP_SESSION_LOADERS_H
#define GP_SESSION_LOADERS_H

#include "data/loader.h"
#include "session/session.h"
#include "trace/trace_options.h"

enum { GP_PREFETCH = 3 }; /* mini-batches that are read ahead */

/* How many steps of a timeline train, and how many mini-batches of evaluations that follow one of them it has at most.
 * trace NULL, or without a path: none. */
void gp_loaders_count_traced(const gp_session *session, const gp_trace_options *trace, int64_t *steps,
                             int64_t *evaluated);

/* For the training data, which the session has; after `step` steps. `trace`: the timeline that records
 * their reading; NULL, or without a path: none. */
gp_loader_options gp_loaders_training(const gp_session *session, int64_t step, const gp_trace_options *trace);
/* For passes over the evaluation data, which the session has. */
gp_loader_options gp_loaders_evaluation(const gp_session *session, const gp_trace_options *trace);

#endif

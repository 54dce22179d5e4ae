/* Improves cuts for workers with several stages. It begins with a cut in which each stage is as cheap as it can be,
 * and makes the stages of each worker together cheaper, until they fit.
 *
 * Part of the solver; owns nothing. One thread. */
#ifndef GP_CUT_CUT_WORKERS_H
#define GP_CUT_CUT_WORKERS_H

#include "cut/cut_span.h"

/* Moves single cuts of layers[stage] as long as that makes the dearer of the two workers concerned cheaper, or what
 * they take beyond their memory less. *bottleneck is that of the cut. GP_CONFIG where the stages of some worker still
 * do not fit together; which does not prove that no cut does. */
GP_MUST_USE gp_status gp_cut_share_workers(const gp_span_index *index, gp_span *span, int64_t *layers,
                                           int64_t *bottleneck, gp_error *err);

#endif

/* What a user should know of a plan before it runs: rows of the plan's report (`report`), or lines.
 *
 * Each prints nothing if there is nothing to say. One thread per stream. */
#ifndef GP_REPORT_WARNINGS_H
#define GP_REPORT_WARNINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "session/session.h"

/* If a stage is on a GPU, the configuration has no train.precision, and TF32 would change something: what it would
 * change, and how to ask for it. */
void gp_precision_advise(const gp_session *session, bool report, FILE *out);
/* If more threads compute than there are processors. */
void gp_processors_warn(const gp_plan *plan, bool report, FILE *out);
/* If the configuration has more micro-batches than the largest mini-batch has samples. */
void gp_micro_batches_warn(const gp_plan *plan, bool report, FILE *out);
/* If the warm-up of the learning rate does not end within the run, or the run ends before the rate falls. */
void gp_rate_warn(const gp_session *session, bool report, FILE *out);
/* If mean or std of bytes were measured in 0 … 255. */
void gp_normalize_warn(const gp_session *session, bool report, FILE *out);
/* If replicas have no sample of the largest mini-batch. */
void gp_idle_warn(const gp_plan *plan, bool report, FILE *out);
/* If statistics of batch norm are of fewer samples than this in the largest mini-batch: how many, and the way out. */
enum { GP_NORM_FEW_SAMPLES = 16 };
void gp_norm_warn(const gp_plan *plan, bool report, FILE *out);
void gp_norm_warn_of(gp_norm_samples norm, int64_t batch, int micro_batches, bool report, FILE *out);
/* If processes have no worker. */
void gp_idle_process_warn(const gp_plan *plan, bool report, FILE *out);

#endif

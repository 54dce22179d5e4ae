/* Parameters of a run, read or written through a buffer as large as the largest of them: in groups, a command for each.
 *
 * The thread that calls gp_run_*. */
#ifndef GP_STORE_PARAMS_H
#define GP_STORE_PARAMS_H

#include "pipeline/run.h"

/* Called for copies[index], whose `host` has the tensor's `bytes`: after it was read, or to fill it before it is
 * written. A failure ends the whole. */
typedef gp_status (*gp_params_visit)(void *context, int index, void *host, size_t bytes, gp_error *err);

/* Gives places in a buffer of gp_run_largest_param bytes to copies from `first` on, as many as fit; returns the index
 * after them. */
int gp_params_group(const gp_plan *plan, gp_tensor_copy *copies, int first, int count, char *buffer);

/* All parameters, in the order of the graph. */
GP_MUST_USE gp_status gp_params_read(gp_run *run, const gp_plan *plan, gp_params_visit visit, void *context,
                                     gp_error *err);
/* Their order is kept; each `host` is set here. NULL: all parameters, in the order of the graph. Then brings the
 * working copies up to date. */
GP_MUST_USE gp_status gp_params_write(gp_run *run, const gp_plan *plan, gp_tensor_copy *copies, int count,
                                      gp_params_visit visit, void *context, gp_error *err);

#endif

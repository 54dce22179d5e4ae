/* Parameters and running statistics of a run, to and from safetensors files in PyTorch's names and layouts. The thread
 * that calls gp_run_*. */
#ifndef GP_STORE_WEIGHTS_H
#define GP_STORE_WEIGHTS_H

#include <stdint.h>

#include "base/status.h"
#include "pipeline/run.h"
#include "settings/config.h"

/* Initial values by PyTorch's defaults, from the seed. */
GP_MUST_USE gp_status gp_weights_initialise(gp_run *run, const gp_plan *plan, uint64_t seed, gp_error *err);
/* train.init: demands every name and shape (F32), and finite values; `….num_batches_tracked` is ignored, as are a
 * snapshot's optimizer states; any other surplus tensor is an error. What train.init.skip names, and all below, keeps
 * its initial values and may be anything in the file. GP_DATA with the file; GP_CONFIG with the place of a name that
 * skips nothing.
 */
GP_MUST_USE gp_status gp_weights_load(gp_run *run, const gp_plan *plan, const gp_train_config *train, gp_error *err);
/* The same check, without a run: what --plan can say, and before a run. Of files with a checksum, it reads all bytes.
 */
GP_MUST_USE gp_status gp_weights_check(const gp_graph *graph, const gp_train_config *train, gp_error *err);

#endif

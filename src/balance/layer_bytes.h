/* What layers take of a device's memory: read off plans in which each layer is a stage of its own.
 *
 * Touches no device. One thread. */
#ifndef GP_BALANCE_LAYER_BYTES_H
#define GP_BALANCE_LAYER_BYTES_H

#include "cut/cut_problem.h"
#include "plan/plan.h"

/* Raises bytes[layer] to what the layers take on the device of worker `worker` of a plan. At most GP_MAX_STAGES layers.
 */
GP_MUST_USE gp_status gp_layer_bytes(const gp_plan_request *request, int worker, gp_cut_bytes *bytes, gp_error *err);

#endif

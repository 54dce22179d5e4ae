/* The times of layers within instructions: how many an instruction records, and which layer each belongs to.
 *
 * For each of its routines an instruction records one time at the beginning, then one after each op that it runs: an
 * op lasts from the time before it to its own. What the ops are follows from the plan. An instruction that was carried
 * out within a backward before records as many times, all alike. Pure; any thread. */
#ifndef GP_PLAN_LAYER_TICKS_H
#define GP_PLAN_LAYER_TICKS_H

#include <stddef.h>

#include "plan/plan.h"

/* Times that an instruction records. */
size_t gp_instr_ticks(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr);
/* Times that a worker records in a mini-batch; 0 if its device works on its own. */
size_t gp_mini_ticks(const gp_plan *plan, const gp_mini_plan *mini, int worker);

/* The layers whose work an op does: "conv1", or "bn1 + relu1" if the device does several as one; of an update, the
 * layer of its parameter; else the op's own name. Buffer is returned; a text that is too long is cut. */
enum { GP_LAYER_TEXT = 512 };
const char *gp_layer_text(char buffer[GP_LAYER_TEXT], const gp_graph *graph, const gp_exec_op *op);

#endif

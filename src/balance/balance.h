/* The balance of a plan: how many layers each stage has, from the costs of layers and copies on each device, and the
 * memory of the plan.
 *
 * Makes problems for the solver (cut.h), and plans of the cuts that it finds. The plan, not the solver's estimate, says
 * whether a cut fits. Touches no device. One thread. */
#ifndef GP_BALANCE_BALANCE_H
#define GP_BALANCE_BALANCE_H

#include "balance/balance_problem.h"

/* layers[stage], as gp_cut_solve documents, and the plan of that cut; the plan of the one that came nearest to fitting
 * where none was found that does. The first cut is the best without regard to memory: where its plan fits, that is all.
 * Else the solver looks at memory too, in layers' bytes as plans of single layers have them and with as many
 * micro-batches alive as the first plan has; it is corrected by what the plans of its cuts take, a few times. missing:
 * why the solver found no cut that fits; "": it did.
 * GP_CONFIG where rules allow no cut, and as gp_plan_create. */
GP_MUST_USE gp_status gp_balance_find(const gp_balance_request *request, int64_t *layers, gp_plan **plan,
                                      char missing[GP_ERROR_TEXT], gp_error *err);

#endif

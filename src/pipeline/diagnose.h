/* Where a mini-batch stops being finite: a second pass of it, in which every worker looks at what each of its ops
 * wrote.
 *
 * Order of the search: each micro-batch forward, the data first, then layer by layer, its parameters before what it
 * computes; then each micro-batch backward, in the order in which gradients add up, from the last layer to the first.
 * What is named does not depend on the cut. Without a second pass, nothing of this costs anything.
 *
 * gp_run_diagnose is called like gp_run_step; gp_watch_* are the workers'.
 */
#ifndef GP_PIPELINE_DIAGNOSE_H
#define GP_PIPELINE_DIAGNOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/finite.h"
#include "base/status.h"
#include "pipeline/run.h"

/* The first tensor that is not finite. */
typedef struct gp_finding {
    bool found;
    bool backward;
    int turn; /* of the micro-batch in the order of its pass */
    int micro;
    int node; /* of the graph; −1: the input */
    gp_operand_role role;
    gp_finite first; /* what its first element that is not finite is */
    int64_t bad, elements;
} gp_finding;

/* Repeats mini-batch plan `mini`, an evaluation or a step that was not applied, with the same input: the same bits, and
 * again nothing is applied. */
GP_MUST_USE gp_status gp_run_diagnose(gp_run *run, int mini, const gp_step_input *input, gp_finding *out,
                                      gp_error *err);
/* micro-batch 2 of 4, conv "a": output: 3 of 512 elements, the first is inf */
enum { GP_FINDING_TEXT = 640 };
const char *gp_finding_text(char buffer[GP_FINDING_TEXT], const gp_plan *plan, int mini, const gp_finding *finding);

typedef struct gp_worker gp_worker;

/* Whether a finding comes before another one in the order of the search. */
bool gp_finding_is_before(const gp_finding *a, const gp_finding *b);
/* Worker's thread: looks at its parameters, at data that it loaded, at what an op wrote. */
GP_MUST_USE gp_status gp_watch_params(gp_worker *worker, gp_error *err);
GP_MUST_USE gp_status gp_watch_load(gp_worker *worker, const gp_instr *instr, int value, const void *address,
                                    size_t bytes, gp_error *err);
GP_MUST_USE gp_status gp_watch_op(gp_worker *worker, const gp_exec_op *op, void *const operands[],
                                  const gp_instr *instr, gp_error *err);

#endif

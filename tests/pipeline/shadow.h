/* A second opinion on memory: for every byte of every arena, whose it is and whether it was written. Stands in the
 * hooks of a run and in those of the wrapper around its devices. One at a time in a process.
 *
 * Before an instruction every byte that is nobody's is overwritten with a pattern, so that a run that reads one ends
 * with other bits; what the instruction reads, by the plan's word (touches_list), must be its own and written; what
 * it writes must be its own or nobody's. After it, no byte but those may have changed. The same for each op. When a
 * byte is nobody's again follows from the program by rules of the shadow's own, not the planner's:
 *   a stash ends with its micro-batch's backward (in evaluation: forward), a saved slot with its backward, an outbox
 * and a gradient slot when the last of what is sent from it was pulled; transients with the instruction; gradients of
 *   parameters, statistics and scalars with the mini-batch, and so what replicas copy of one another; a term that an
 *   empty share would have is never written. What enters backward as a gradient ends with it.
 *
 * A worker's part is its thread's alone; but for the flags that say what was pulled, which are atomic. */
#ifndef GP_TESTS_PIPELINE_SHADOW_H
#define GP_TESTS_PIPELINE_SHADOW_H

#include "pipeline/harness.h"
#include "pipeline/wrapper.h"

typedef struct shadow shadow;

/* The hooks for wrapper_kind: to be given before the plan is made. */
wrapper_hooks shadow_device_hooks(void);
/* Once the plan is made. `pattern`: the byte that stands for what nobody wrote. */
shadow *shadow_create(harness *h, unsigned char pattern);
/* The hooks for harness_start. */
gp_hooks shadow_run_hooks(shadow *s);
void shadow_destroy(shadow **s);

#endif

/* The CUDA device as workers see it, which tells the recorder for each op whose layers' it is: found by counting the
 * ops of the instruction's routines, where the program tells by what queues have noted. */
#ifndef GP_TESTS_CUDA_LABELS_H
#define GP_TESTS_CUDA_LABELS_H

#include "pipeline/run.h"

/* In the place of gp_cuda_kind. A label is `layer "x"` or `layers "x" to "y"`: of the op, and of those beside it that
 * are the same layer's; "" where they are no layer's. */
const gp_device_kind *labels_kind(void);
/* A worker's thread, before each instruction. */
void labels_come_to(const gp_plan *plan, const gp_site *site);

#endif

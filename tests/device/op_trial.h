/* One case of op_cases.h with its operands in host memory: run on a device kind, and compared with another's. cmocka
 * asserts inside, so main thread only. */
#ifndef GP_TESTS_DEVICE_OP_TRIAL_H
#define GP_TESTS_DEVICE_OP_TRIAL_H

#include "device/device.h"
#include "device/op_cases.h"

typedef struct trial {
    gp_op_case op_case;
    void *host[GP_MAX_OPERANDS];
} trial;

/* Operands as the case has them; op_case is set. */
void trial_fill(trial *t);
void trial_fini(trial *t);
void trial_run(const gp_device_kind *kind, trial *t);
/* What was written is the same, but for `tolerance` of the largest element (0: equal bits, but for NaN's), and nothing
 * was written between its rows. */
void trial_compare(const trial *got, const trial *want, double tolerance);

#endif

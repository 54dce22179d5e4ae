/* Runs a case of op_cases.h on a device kind: opens a device, carries operands there, runs, carries them back. */
#ifndef GP_TESTS_DEVICE_OP_RUN_H
#define GP_TESTS_DEVICE_OP_RUN_H

#include "device/device.h"
#include "device/op_cases.h"

/* host[i]: gp_tensor_bytes of operand i in the plain format, NULL where it is absent. All are carried in; those that
 * are written, or added to, are carried back. An operand whose format the descriptor leaves open is reordered to what
 * the kind chooses, and back. Everything on the device lies at its own address. GP_INTERNAL where bytes around an
 * operand or the workspace on the device were overwritten. */
GP_MUST_USE gp_status gp_op_case_run(const gp_device_kind *kind, const gp_op_case *op_case,
                                     void *const host[GP_MAX_OPERANDS], gp_error *err);

#endif

/* Inside the device room: the rules of op_table.inc. A rule checks the attributes of a descriptor, and computes the
 * sizes that no operand sets. Pure; any thread; refusals are GP_INTERNAL. */
#ifndef GP_DEVICE_OP_RULES_H
#define GP_DEVICE_OP_RULES_H

#include "device/op_shape.h"

GP_MUST_USE gp_status gp_op_apply_rule(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err);

#endif

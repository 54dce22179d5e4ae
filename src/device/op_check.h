/* Inside the device room: the two halves of gp_op_desc_check. Pure functions; any thread.
 *
 * op_check.c knows what holds for every op: operands, ranks, strides, dtypes, formats, unused bytes. op_check_kinds.c
 * knows how the dimensions of each kind of op fit each other, and may rely on the first half.
 */
#ifndef GP_DEVICE_OP_CHECK_H
#define GP_DEVICE_OP_CHECK_H

#include <stddef.h>

#include "base/status.h"
#include "device/op.h"

/* GP_INTERNAL with "op conv_forward: …". */
gp_status gp_op_refuse(const gp_op_desc *desc, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);
/* Dimensions that fit each other, attributes in range. `desc` has passed the checks of op_check.c. */
GP_MUST_USE gp_status gp_op_check_kind(const gp_op_desc *desc, gp_error *err);
/* Bytes of desc->attributes that the kind has a meaning for. */
size_t gp_op_attribute_bytes(gp_op_kind kind);

#endif

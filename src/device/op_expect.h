/* Inside the device room: what the checks of descriptors ask of dimensions, and say where they differ. Pure functions;
 * any thread; refusals are gp_op_refuse's. */
#ifndef GP_DEVICE_OP_EXPECT_H
#define GP_DEVICE_OP_EXPECT_H

#include "base/shape.h"
#include "device/op_check.h"

/* In tables of positions of operands. */
enum { GP_OP_ABSENT = -1 };

const char *gp_op_dims_text(char buffer[GP_SHAPE_TEXT], const gp_tensor *tensor);
int64_t gp_op_last_dim(const gp_tensor *tensor);

/* Operand i has least … most dimensions. */
GP_MUST_USE gp_status gp_op_expect_rank(const gp_op_desc *desc, int i, int least, int most, gp_error *err);
/* These dimensions; an absent operand fits, here and below. */
GP_MUST_USE gp_status gp_op_expect_dims(const gp_op_desc *desc, int i, int rank, const int64_t *dim, gp_error *err);
/* Those of operand `as`. */
GP_MUST_USE gp_status gp_op_expect_same(const gp_op_desc *desc, int i, int as, gp_error *err);
GP_MUST_USE gp_status gp_op_expect_vector(const gp_op_desc *desc, int i, int64_t width, gp_error *err);
/* Both values of a window's attribute, of which `what` is the name, lie in least … INT32_MAX. */
GP_MUST_USE gp_status gp_op_expect_range(const gp_op_desc *desc, const char *what, const int64_t value[2],
                                         int64_t least, gp_error *err);

#endif

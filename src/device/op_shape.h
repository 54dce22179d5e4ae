/* Inside the device room: the shapes and rules of op_table.inc, held against a descriptor. Pure functions; any thread;
 * refusals are GP_INTERNAL. */
#ifndef GP_DEVICE_OP_SHAPE_H
#define GP_DEVICE_OP_SHAPE_H

#include "base/shape.h"
#include "device/op.h"

/* The sizes of one descriptor. The rule of an op may read what operands set, and sets the rest. */
typedef struct gp_op_sizes {
    int64_t of[26]; /* by letter; 0: nothing set it */
    gp_shape rest;  /* the dimensions of '*' */
} gp_op_sizes;

/* "op conv_forward: …" */
gp_status gp_op_refuse(const gp_op_desc *desc, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);
const char *gp_op_dims_text(char buffer[GP_SHAPE_TEXT], const gp_tensor *tensor);

/* Takes what the operands set; refuses a rank at which they could not. */
GP_MUST_USE gp_status gp_op_sizes_take(const gp_op_desc *desc, gp_op_sizes *out, gp_error *err);
/* The rule of the op: checks attributes, and computes the sizes that no operand sets. In op_rules.c. */
GP_MUST_USE gp_status gp_op_apply_rule(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err);
/* Compares every operand with the sizes. */
GP_MUST_USE gp_status gp_op_sizes_check(const gp_op_desc *desc, const gp_op_sizes *sizes, gp_error *err);

static inline int64_t *gp_op_size(gp_op_sizes *sizes, char letter) {
    return &sizes->of[(letter | ' ') - 'a'];
}

#endif

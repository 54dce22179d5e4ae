/* Counts operations and bytes of an op. */
#include "device/op.h"

static double elements(const gp_op_desc *desc, int operand) {
    return (double)gp_tensor_elements(&desc->operand[operand]);
}

/* Of one element: an exponential is some 15 operations, leaky_relu has none. */
static double activation(const gp_op_desc *desc) {
    switch ((gp_activation)desc->attributes.activation.function) {
    case GP_LEAKY_RELU: return 1;
    case GP_GELU:
    case GP_GELU_TANH: return 30;
    case GP_SIGMOID:
    case GP_TANH: return desc->kind == GP_OP_ACTIVATION_FORWARD ? 20 : 3;
    case GP_SILU:
    case GP_ACTIVATIONS: break;
    }
    return 20;
}

/* Twice the multiplications for each element of a product with the weights [out, in, …], one of each pair being an
 * addition; padding is counted as if it were there. */
static double product(const gp_op_desc *desc, int weights) {
    return 2 * elements(desc, weights) / (double)desc->operand[weights].dim[0];
}

static double has(const gp_op_desc *desc, int operand) {
    return desc->operand[operand].present ? 1 : 0;
}

static double window(const gp_op_desc *desc) {
    return (double)(desc->attributes.pool.kernel[0] * desc->attributes.pool.kernel[1]);
}

static double count_flops(const gp_op_desc *desc) {
    /* clang-format off */
    switch (desc->kind) {
#define GP_OP(NAME, name, attributes, rule, flags, operations, operand, ...)                                  \
    case GP_OP_##NAME: return (operations) * elements(desc, GP_##NAME##_##operand);
#include "device/op_table.inc"
    case GP_OP_KINDS: break;
    }
    /* clang-format on */
    return 0;
}

void gp_op_count(const gp_op_desc *desc, double *flops, double *bytes) {
    double moved = 0;
    for (int i = 0; i < (int)desc->operands; i++) {
        double size = elements(desc, i) * (double)gp_dtype_size(desc->operand[i].dtype);
        bool written = gp_op_writes(desc->kind, i);
        bool read = gp_op_reads(desc->kind, i) || (written && desc->flags & GP_OP_ACCUMULATE);
        moved += size * ((read ? 1 : 0) + (written ? 1 : 0));
    }
    *flops = count_flops(desc);
    *bytes = moved;
}

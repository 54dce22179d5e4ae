/* The sizes of a convolution, the same for its forward op and its two backward ops, and which taps of its kernel a
 * place of the output sees. Internal to device/cpu. Pure functions of the descriptor; any thread. */
#ifndef GP_DEVICE_CPU_CPU_CONV_SHAPE_H
#define GP_DEVICE_CPU_CPU_CONV_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/op.h"

typedef struct gp_conv_shape { /* [0] is height, [1] is width */
    int64_t n, in, out, groups;
    int64_t size[2], outputs[2];
    int64_t kernel[2], stride[2], pad[2], dilation[2];
} gp_conv_shape;

/* Of conv_forward, conv_backward_data or conv_backward_weights. */
gp_conv_shape gp_conv_shape_of(const gp_op_desc *desc);

/* Taps [begin, end) of the kernel, along one side. */
typedef struct gp_taps {
    int64_t begin, end;
} gp_taps;
/* The taps that see the input, and not padding, at output `place` along side d. May be empty. */
gp_taps gp_conv_taps(const gp_conv_shape *shape, int d, int64_t place);

/* Samples times places of the output of each. */
int64_t gp_conv_rows(const gp_conv_shape *shape);
/* Elements of the weights that one output channel has. */
int64_t gp_conv_depth(const gp_conv_shape *shape);
/* Multiplications and additions of one of the three ops, padding included. */
double gp_conv_flops(const gp_conv_shape *shape);
/* The same without taps that see padding. */
double gp_conv_visible_flops(const gp_conv_shape *shape);
/* 1x1, stride 1, no padding, one group: the output is a product of matrices. */
bool gp_conv_is_product(const gp_conv_shape *shape);

#endif

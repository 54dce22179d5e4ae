#include "device/op_check_parts.h"
#include "device/op_expect.h"

static gp_status check_pool_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_pool_attributes *pool = &desc->attributes.pool;
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "kernel", pool->kernel, 1, err));
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "stride", pool->stride, 1, err));
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "pad", pool->pad, 0, err));
    if (pool->kernel[0] * pool->kernel[1] > GP_POOL_MAX_PLACES) {
        return gp_op_refuse(desc, err, "kernel %lldx%lld has more than %d elements, the most that an index can hold",
                            (long long)pool->kernel[0], (long long)pool->kernel[1], GP_POOL_MAX_PLACES);
    }
    bool average = desc->kind == GP_OP_AVG_POOL_FORWARD || desc->kind == GP_OP_AVG_POOL_BACKWARD;
    if (pool->count_pad < 0 || pool->count_pad > (average ? 1 : 0)) {
        return gp_op_refuse(desc, err, "count_pad is %lld, which must be 0%s", (long long)pool->count_pad,
                            average ? " or 1" : "");
    }
    if (2 * pool->pad[0] > pool->kernel[0] || 2 * pool->pad[1] > pool->kernel[1]) {
        return gp_op_refuse(desc, err, "pad %lldx%lld is more than half of kernel %lldx%lld", (long long)pool->pad[0],
                            (long long)pool->pad[1], (long long)pool->kernel[0], (long long)pool->kernel[1]);
    }
    return GP_OK;
}

/* The output may be that of either rounding (ceil mode), as long as every window begins inside the input or its first
 * padding, so that it holds an element of the input. */
gp_status gp_op_check_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    const gp_pool_attributes *pool = &desc->attributes.pool;
    GP_RETURN_IF_FAILED(check_pool_attributes(desc, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_x, 4, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_y, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x], *y = &desc->operand[at_y];
    for (int d = 0; d < 2; d++) {
        int64_t height = x->dim[1 + d], padded = height + 2 * pool->pad[d], stride = pool->stride[d];
        int64_t least = gp_pool_outputs(height, pool->kernel[d], stride, pool->pad[d], false);
        int64_t most = gp_pool_outputs(height, pool->kernel[d], stride, pool->pad[d], true);
        if (most < 1) {
            return gp_op_refuse(desc, err, "kernel %lld is larger than the padded input of %lld",
                                (long long)pool->kernel[d], (long long)padded);
        }
        if (y->dim[1 + d] != least && y->dim[1 + d] != most) {
            return gp_op_refuse(desc, err, "%lld windows over %lld elements, which must be %lld%s",
                                (long long)y->dim[1 + d], (long long)height, (long long)(least < 1 ? most : least),
                                least >= 1 && most > least ? ", or one more" : "");
        }
    }
    int64_t dim[4] = {x->dim[0], y->dim[1], y->dim[2], x->dim[3]};
    return gp_op_expect_dims(desc, at_y, 4, dim, err);
}

gp_status gp_op_check_max_pool(const gp_op_desc *desc, gp_error *err) {
    bool forward = desc->kind == GP_OP_MAX_POOL_FORWARD;
    int at_y = forward ? GP_MAX_POOL_FORWARD_Y : GP_MAX_POOL_BACKWARD_DY;
    GP_RETURN_IF_FAILED(gp_op_check_pool(desc, forward ? GP_MAX_POOL_FORWARD_X : GP_MAX_POOL_BACKWARD_DX, at_y, err));
    return gp_op_expect_same(desc, forward ? GP_MAX_POOL_FORWARD_INDEX : GP_MAX_POOL_BACKWARD_INDEX, at_y, err);
}

gp_status gp_op_check_upsample(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_x, 4, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_y, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x], *y = &desc->operand[at_y];
    for (int d = 1; d <= 2; d++) {
        if (y->dim[d] % x->dim[d]) {
            return gp_op_refuse(desc, err, "dimension %d of %s is %lld, which must be a multiple of %lld", d,
                                gp_op_operand_name(desc->kind, at_y), (long long)y->dim[d], (long long)x->dim[d]);
        }
    }
    return gp_op_expect_dims(desc, at_y, 4, (const int64_t[]){x->dim[0], y->dim[1], y->dim[2], x->dim[3]}, err);
}

gp_status gp_op_check_mean_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_x, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x];
    return gp_op_expect_dims(desc, at_y, 4, (const int64_t[]){x->dim[0], 1, 1, x->dim[3]}, err);
}

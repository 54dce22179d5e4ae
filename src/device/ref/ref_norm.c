#include "device/ref/ref_ops.h"

#include <math.h>

gp_status ref_norm_statistics(const ref_call *call) {
    const ref_view *x = &call->operand[GP_NORM_STATISTICS_X], *stats = &call->operand[GP_NORM_STATISTICS_STATS];
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t c = 0; c < stats->tensor->dim[1]; c++) {
        double sum = 0, squares = 0;
        for (int64_t row = 0; row < rows; row++) sum += ref_get(x, ref_row(x->tensor, row) + c);
        double mean = sum / (double)rows;
        for (int64_t row = 0; row < rows; row++) {
            double difference = ref_get(x, ref_row(x->tensor, row) + c) - mean;
            squares += difference * difference;
        }
        ref_put(stats, ref_at2(stats, 0, c), mean);
        ref_put(stats, ref_at2(stats, 2, c), mean - ref_get(stats, ref_at2(stats, 0, c)));
        ref_put(stats, ref_at2(stats, 1, c), squares / (double)rows);
    }
    return GP_OK;
}

double ref_inverse_deviation(const ref_call *call, int variance, int64_t c) {
    return 1 / sqrt(ref_get(&call->operand[variance], c) + call->desc->attributes.norm.eps);
}

gp_status ref_norm_apply(const ref_call *call) {
    const ref_view *x = &call->operand[GP_NORM_APPLY_X], *y = &call->operand[GP_NORM_APPLY_Y];
    const ref_view *mean = &call->operand[GP_NORM_APPLY_MEAN];
    const ref_view *gamma = &call->operand[GP_NORM_APPLY_GAMMA], *beta = &call->operand[GP_NORM_APPLY_BETA];
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t row = 0; row < rows; row++) {
        int64_t from = ref_row(x->tensor, row), to = ref_row(y->tensor, row);
        for (int64_t c = 0; c < mean->tensor->dim[0]; c++) {
            double value =
                (ref_get(x, from + c) - ref_get(mean, c)) * ref_inverse_deviation(call, GP_NORM_APPLY_VARIANCE, c);
            if (gamma->data) value *= ref_get(gamma, c);
            if (beta->data) value += ref_get(beta, c);
            ref_put(y, to + c, value);
        }
    }
    return GP_OK;
}

gp_status ref_norm_backward_reduce(const ref_call *call) {
    const ref_view *x = &call->operand[GP_NORM_BACKWARD_REDUCE_X], *dy = &call->operand[GP_NORM_BACKWARD_REDUCE_DY];
    const ref_view *mean = &call->operand[GP_NORM_BACKWARD_REDUCE_MEAN];
    const ref_view *sums = &call->operand[GP_NORM_BACKWARD_REDUCE_SUMS];
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t c = 0; c < mean->tensor->dim[0]; c++) {
        double inverse = ref_inverse_deviation(call, GP_NORM_BACKWARD_REDUCE_VARIANCE, c), products = 0, sum = 0;
        for (int64_t row = 0; row < rows; row++) {
            double gradient = ref_get(dy, ref_row(dy->tensor, row) + c);
            products += gradient * (ref_get(x, ref_row(x->tensor, row) + c) - ref_get(mean, c)) * inverse;
            sum += gradient;
        }
        ref_put(sums, ref_at2(sums, 0, c), products);
        ref_put(sums, ref_at2(sums, 1, c), sum);
    }
    return GP_OK;
}

gp_status ref_norm_backward_data(const ref_call *call) {
    const ref_view *x = &call->operand[GP_NORM_BACKWARD_DATA_X], *dy = &call->operand[GP_NORM_BACKWARD_DATA_DY];
    const ref_view *mean = &call->operand[GP_NORM_BACKWARD_DATA_MEAN];
    const ref_view *gamma = &call->operand[GP_NORM_BACKWARD_DATA_GAMMA];
    const ref_view *sums = &call->operand[GP_NORM_BACKWARD_DATA_SUMS], *dx = &call->operand[GP_NORM_BACKWARD_DATA_DX];
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at_x = ref_row(x->tensor, row), at_dy = ref_row(dy->tensor, row), to = ref_row(dx->tensor, row);
        for (int64_t c = 0; c < mean->tensor->dim[0]; c++) {
            double inverse = ref_inverse_deviation(call, GP_NORM_BACKWARD_DATA_VARIANCE, c);
            double normal = (ref_get(x, at_x + c) - ref_get(mean, c)) * inverse;
            double products = ref_get(sums, ref_at2(sums, 0, c)), sum = ref_get(sums, ref_at2(sums, 1, c));
            double value = inverse * (ref_get(dy, at_dy + c) - (sum + normal * products) / (double)rows);
            if (gamma->data) value *= ref_get(gamma, c);
            ref_put(dx, to + c, value);
        }
    }
    return GP_OK;
}

/* Mean and sum of squared differences of some rows of one channel. */
typedef struct moments {
    double rows, mean, squares;
} moments;

static moments merge_moments(moments a, moments b) {
    double rows = a.rows + b.rows, difference = b.mean - a.mean;
    return (moments){rows, a.mean + difference * b.rows / rows,
                     a.squares + b.squares + difference * difference * a.rows * b.rows / rows};
}

static moments merged_pieces(const ref_view *stats, const gp_norm_attributes *norm, int64_t c) {
    const int64_t *stride = stats->tensor->stride;
    int64_t pieces = stats->tensor->dim[0];
    moments all = {0, 0, 0};
    for (int64_t p = 0; p < pieces; p++) {
        double rows = (double)(p == pieces - 1 ? norm->rows_last : norm->rows_full);
        int64_t at = p * stride[0] + c;
        moments piece = {rows, ref_get(stats, at) + ref_get(stats, at + 2 * stride[1]),
                         ref_get(stats, at + stride[1]) * rows};
        all = p == 0 ? piece : merge_moments(all, piece);
    }
    return all;
}

gp_status ref_norm_commit(const ref_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_NORM_COMMIT_SCALARS].data;
    const ref_view *stats = &call->operand[GP_NORM_COMMIT_STATS];
    const ref_view *mean = &call->operand[GP_NORM_COMMIT_MEAN], *variance = &call->operand[GP_NORM_COMMIT_VARIANCE];
    const gp_norm_attributes *norm = &call->desc->attributes.norm;
    if (!scalars->finite) return GP_OK;
    for (int64_t c = 0; c < mean->tensor->dim[0]; c++) {
        moments all = merged_pieces(stats, norm, c);
        double unbiased = all.squares / (all.rows - 1);
        ref_put(mean, c, (1 - norm->momentum) * ref_get(mean, c) + norm->momentum * all.mean);
        ref_put(variance, c, (1 - norm->momentum) * ref_get(variance, c) + norm->momentum * unbiased);
    }
    return GP_OK;
}

/* Batch norm, alone and with the addition and the relu after it. Between the parts a value is rounded as it would be
 * in memory. */
#include "device/ref/ref_ops.h"

#include <math.h>

void ref_norm_statistics(const ref_call *call) {
    const ref_view *x = &call->x, *stats = &call->stats;
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t c = 0; c < stats->tensor->dim[1]; c++) {
        double sum = 0, squares = 0;
        for (int64_t row = 0; row < rows; row++) sum += ref_get_row(x, row, c);
        double mean = sum / (double)rows;
        for (int64_t row = 0; row < rows; row++) {
            double difference = ref_get_row(x, row, c) - mean;
            squares += difference * difference;
        }
        ref_put(stats, ref_at2(stats, 0, c), mean);
        ref_put(stats, ref_at2(stats, 2, c), mean - ref_get(stats, ref_at2(stats, 0, c)));
        ref_put(stats, ref_at2(stats, 1, c), squares / (double)rows);
    }
}

static double inverse_deviation(const ref_call *call, int64_t c) {
    return 1 / sqrt(ref_get(&call->variance, c) + call->desc->attributes.norm.eps);
}

/* x[row, c] − mean[c] */
static double difference(const ref_call *call, int64_t row, int64_t c) {
    return ref_get_row(&call->x, row, c) - ref_get(&call->mean, c);
}

/* What norm_apply makes of x[row, c]. */
static double applied(const ref_call *call, int64_t row, int64_t c) {
    double value = difference(call, row, c) * inverse_deviation(call, c);
    if (call->gamma.data) value *= ref_get(&call->gamma, c);
    if (call->beta.data) value += ref_get(&call->beta, c);
    return ref_round(call->x.tensor->dtype, value);
}

static void apply(const ref_call *call, bool relu) {
    const ref_view *addend = &call->addend, *y = &call->y;
    int64_t rows = gp_tensor_rows(y->tensor), width = y->tensor->dim[y->tensor->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < width; c++) {
            double value = applied(call, row, c);
            if (addend->data) value += ref_get_row(addend, row, c);
            if (relu && value <= 0) value = 0;
            ref_put(y, ref_row(y->tensor, row) + c, value);
        }
    }
}

void ref_norm_apply(const ref_call *call) {
    apply(call, false);
}

void ref_norm_apply_relu(const ref_call *call) {
    apply(call, true);
}

/* The gradient before the relu: what norm_backward_reduce and norm_backward_data take for dy. */
static double gradient_of(const ref_call *call, int64_t row, int64_t c) {
    gp_op_kind kind = call->desc->kind;
    bool passes = true;
    if (kind == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE) passes = ref_get_row(&call->y, row, c) > 0;
    if (kind == GP_OP_NORM_RELU_BACKWARD_REDUCE || kind == GP_OP_NORM_RELU_BACKWARD_DATA)
        passes = applied(call, row, c) > 0;
    if (!passes) return 0;
    double gradient = ref_get_row(&call->dy, row, c);
    if (call->addend.data) gradient = ref_round(call->dy.tensor->dtype, gradient + ref_get_row(&call->addend, row, c));
    return gradient;
}

void ref_norm_backward_reduce(const ref_call *call) {
    const ref_view *sums = &call->sums, *dz = &call->dz;
    int64_t rows = gp_tensor_rows(call->dy.tensor);
    for (int64_t c = 0; c < sums->tensor->dim[1]; c++) {
        double products = 0, sum = 0;
        for (int64_t row = 0; row < rows; row++) {
            double gradient = gradient_of(call, row, c);
            products += gradient * difference(call, row, c) * inverse_deviation(call, c);
            sum += gradient;
            if (dz->data) ref_put(dz, ref_row(dz->tensor, row) + c, gradient);
        }
        ref_put(sums, ref_at2(sums, 0, c), products);
        ref_put(sums, ref_at2(sums, 1, c), sum);
    }
}

void ref_norm_relu_backward_reduce(const ref_call *call) {
    ref_norm_backward_reduce(call);
}

void ref_norm_add_relu_backward_reduce(const ref_call *call) {
    ref_norm_backward_reduce(call);
}

void ref_norm_backward_data(const ref_call *call) {
    const ref_view *sums = &call->sums, *dx = &call->dx;
    int64_t rows = gp_tensor_rows(call->dy.tensor), summed = call->desc->attributes.norm.rows_summed;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < sums->tensor->dim[1]; c++) {
            double gradient = gradient_of(call, row, c), inverse = inverse_deviation(call, c);
            double normal = difference(call, row, c) * inverse;
            double products = ref_get(sums, ref_at2(sums, 0, c)), sum = ref_get(sums, ref_at2(sums, 1, c));
            double value = inverse * (gradient - (sum + normal * products) / (double)(summed ? summed : rows));
            if (call->gamma.data) value *= ref_get(&call->gamma, c);
            ref_put(dx, ref_row(dx->tensor, row) + c, value);
        }
    }
}

void ref_norm_relu_backward_data(const ref_call *call) {
    ref_norm_backward_data(call);
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
        double rows = (double)gp_norm_rows(norm, pieces, p);
        if (rows == 0) continue;
        int64_t at = p * stride[0] + c;
        moments piece = {rows, ref_get(stats, at) + ref_get(stats, at + 2 * stride[1]),
                         ref_get(stats, at + stride[1]) * rows};
        all = all.rows == 0 ? piece : merge_moments(all, piece);
    }
    return all;
}

void ref_norm_merge(const ref_call *call) {
    for (int64_t c = 0; c < call->mean.tensor->dim[0]; c++) {
        moments all = merged_pieces(&call->stats, &call->desc->attributes.norm, c);
        ref_put(&call->mean, c, all.mean);
        ref_put(&call->variance, c, all.squares / all.rows);
    }
}

void ref_norm_merge_sums(const ref_call *call) {
    const ref_view *parts = &call->parts, *sums = &call->sums;
    const int64_t *dim = parts->tensor->dim, *stride = parts->tensor->stride;
    for (int64_t which = 0; which < 2; which++) {
        for (int64_t c = 0; c < dim[2]; c++) {
            double sum = 0;
            for (int64_t p = 0; p < dim[0]; p++) sum += ref_get(parts, p * stride[0] + which * stride[1] + c);
            ref_put(sums, ref_at2(sums, which, c), sum);
        }
    }
}

void ref_norm_commit(const ref_call *call) {
    const gp_step_scalars *scalars = call->scalars.data;
    const ref_view *mean = &call->mean, *variance = &call->variance;
    const gp_norm_attributes *norm = &call->desc->attributes.norm;
    if (!scalars->finite) return;
    for (int64_t c = 0; c < mean->tensor->dim[0]; c++) {
        moments all = merged_pieces(&call->stats, norm, c);
        double unbiased = all.squares / (all.rows - 1);
        ref_put(mean, c, (1 - norm->momentum) * ref_get(mean, c) + norm->momentum * all.mean);
        ref_put(variance, c, (1 - norm->momentum) * ref_get(variance, c) + norm->momentum * unbiased);
    }
}

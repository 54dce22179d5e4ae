/* Batch norm with the addition and the relu behind it. Between the parts a value is rounded as it would be in memory.
 */
#include <math.h>

#include "device/ref/ref_ops.h"

/* Where x, mean, variance, gamma and beta stand in an op. */
typedef struct norm_places {
    int x, mean, variance, gamma, beta;
} norm_places;

/* x[row, c] − mean[c] */
static double difference(const ref_call *call, norm_places at, int64_t row, int64_t c) {
    const ref_view *x = &call->operand[at.x];
    return ref_get(x, ref_row(x->tensor, row) + c) - ref_get(&call->operand[at.mean], c);
}

/* What norm_apply makes of x[row, c]. */
static double applied(const ref_call *call, norm_places at, int64_t row, int64_t c) {
    const ref_view *x = &call->operand[at.x], *gamma = &call->operand[at.gamma], *beta = &call->operand[at.beta];
    double value = difference(call, at, row, c) * ref_inverse_deviation(call, at.variance, c);
    if (gamma->data) value *= ref_get(gamma, c);
    if (beta->data) value += ref_get(beta, c);
    return ref_round(x->tensor->dtype, value);
}

gp_status ref_norm_apply_relu(const ref_call *call) {
    const norm_places at = {GP_NORM_APPLY_RELU_X, GP_NORM_APPLY_RELU_MEAN, GP_NORM_APPLY_RELU_VARIANCE,
                            GP_NORM_APPLY_RELU_GAMMA, GP_NORM_APPLY_RELU_BETA};
    const ref_view *addend = &call->operand[GP_NORM_APPLY_RELU_ADDEND], *y = &call->operand[GP_NORM_APPLY_RELU_Y];
    int64_t rows = gp_tensor_rows(y->tensor), width = y->tensor->dim[y->tensor->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < width; c++) {
            double value = applied(call, at, row, c);
            if (addend->data) value += ref_get(addend, ref_row(addend->tensor, row) + c);
            ref_put(y, ref_row(y->tensor, row) + c, value > 0 || isnan(value) ? value : 0);
        }
    }
    return GP_OK;
}

gp_status ref_norm_relu_backward_reduce(const ref_call *call) {
    const norm_places at = {GP_NORM_RELU_BACKWARD_REDUCE_X, GP_NORM_RELU_BACKWARD_REDUCE_MEAN,
                            GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA,
                            GP_NORM_RELU_BACKWARD_REDUCE_BETA};
    const ref_view *dy = &call->operand[GP_NORM_RELU_BACKWARD_REDUCE_DY];
    const ref_view *sums = &call->operand[GP_NORM_RELU_BACKWARD_REDUCE_SUMS];
    int64_t rows = gp_tensor_rows(dy->tensor);
    for (int64_t c = 0; c < sums->tensor->dim[1]; c++) {
        double products = 0, sum = 0;
        for (int64_t row = 0; row < rows; row++) {
            double gradient = applied(call, at, row, c) > 0 ? ref_get(dy, ref_row(dy->tensor, row) + c) : 0;
            products += gradient * difference(call, at, row, c) * ref_inverse_deviation(call, at.variance, c);
            sum += gradient;
        }
        ref_put(sums, ref_at2(sums, 0, c), products);
        ref_put(sums, ref_at2(sums, 1, c), sum);
    }
    return GP_OK;
}

gp_status ref_norm_relu_backward_data(const ref_call *call) {
    const norm_places at = {GP_NORM_RELU_BACKWARD_DATA_X, GP_NORM_RELU_BACKWARD_DATA_MEAN,
                            GP_NORM_RELU_BACKWARD_DATA_VARIANCE, GP_NORM_RELU_BACKWARD_DATA_GAMMA,
                            GP_NORM_RELU_BACKWARD_DATA_BETA};
    const ref_view *dy = &call->operand[GP_NORM_RELU_BACKWARD_DATA_DY], *gamma = &call->operand[at.gamma];
    const ref_view *sums = &call->operand[GP_NORM_RELU_BACKWARD_DATA_SUMS];
    const ref_view *dx = &call->operand[GP_NORM_RELU_BACKWARD_DATA_DX];
    int64_t rows = gp_tensor_rows(dy->tensor);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < sums->tensor->dim[1]; c++) {
            double gradient = applied(call, at, row, c) > 0 ? ref_get(dy, ref_row(dy->tensor, row) + c) : 0;
            double inverse = ref_inverse_deviation(call, at.variance, c),
                   normal = difference(call, at, row, c) * inverse;
            double products = ref_get(sums, ref_at2(sums, 0, c)), sum = ref_get(sums, ref_at2(sums, 1, c));
            double value = inverse * (gradient - (sum + normal * products) / (double)rows);
            if (gamma->data) value *= ref_get(gamma, c);
            ref_put(dx, ref_row(dx->tensor, row) + c, value);
        }
    }
    return GP_OK;
}

gp_status ref_norm_add_relu_backward_reduce(const ref_call *call) {
    const norm_places at = {GP_NORM_ADD_RELU_BACKWARD_REDUCE_X, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN,
                            GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE, -1, -1};
    const ref_view *y = &call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y];
    const ref_view *dy = &call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY];
    const ref_view *dz = &call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ];
    const ref_view *sums = &call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS];
    int64_t rows = gp_tensor_rows(y->tensor);
    for (int64_t c = 0; c < sums->tensor->dim[1]; c++) {
        double products = 0, sum = 0;
        for (int64_t row = 0; row < rows; row++) {
            bool passes = ref_get(y, ref_row(y->tensor, row) + c) > 0;
            double gradient = passes ? ref_get(dy, ref_row(dy->tensor, row) + c) : 0;
            products += gradient * difference(call, at, row, c) * ref_inverse_deviation(call, at.variance, c);
            sum += gradient;
            ref_put(dz, ref_row(dz->tensor, row) + c, gradient);
        }
        ref_put(sums, ref_at2(sums, 0, c), products);
        ref_put(sums, ref_at2(sums, 1, c), sum);
    }
    return GP_OK;
}

#include "device/ref/ref_ops.h"

#include <math.h>

enum { IGNORED = -100 };

static gp_status check_target(const ref_call *call, int64_t target, int64_t row, int64_t classes) {
    if (target == IGNORED || (target >= 0 && target < classes)) return GP_OK;
    return gp_fail(call->err, GP_DATA, "%s: target %lld of row %lld is no class: these are 0 to %lld, and %d to ignore",
                   gp_op_name(call->desc->kind), (long long)target, (long long)row, (long long)(classes - 1), IGNORED);
}

static int64_t largest(const ref_view *x, int64_t from, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++) {
        if (ref_get(x, from + c) > ref_get(x, from + best)) best = c;
    }
    return best;
}

/* log Σ exp x of one row, from its maximum so that nothing overflows. */
static double log_sum_exp(const ref_view *x, int64_t from, int64_t classes) {
    double most = ref_get(x, from + largest(x, from, classes)), sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += exp(ref_get(x, from + c) - most);
    return most + log(sum);
}

gp_status ref_cross_entropy_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_CROSS_ENTROPY_FORWARD_X];
    const int64_t *target = call->operand[GP_CROSS_ENTROPY_FORWARD_TARGET].data;
    double *partial = call->operand[GP_CROSS_ENTROPY_FORWARD_PARTIAL].data;
    int64_t rows = gp_tensor_rows(x->tensor), classes = x->tensor->dim[x->tensor->rank - 1];
    double loss = 0, right = 0;
    for (int64_t row = 0; row < rows; row++) {
        GP_RETURN_IF_FAILED(check_target(call, target[row], row, classes));
        if (target[row] == IGNORED) continue;
        int64_t from = ref_row(x->tensor, row);
        loss += log_sum_exp(x, from, classes) - ref_get(x, from + target[row]);
        if (largest(x, from, classes) == target[row]) right += 1;
    }
    partial[0] = loss;
    partial[1] = right;
    return GP_OK;
}

gp_status ref_cross_entropy_backward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_CROSS_ENTROPY_BACKWARD_X], *dx = &call->operand[GP_CROSS_ENTROPY_BACKWARD_DX];
    const int64_t *target = call->operand[GP_CROSS_ENTROPY_BACKWARD_TARGET].data;
    const gp_step_scalars *scalars = call->operand[GP_CROSS_ENTROPY_BACKWARD_SCALARS].data;
    int64_t rows = gp_tensor_rows(x->tensor), classes = x->tensor->dim[x->tensor->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        GP_RETURN_IF_FAILED(check_target(call, target[row], row, classes));
        int64_t from = ref_row(x->tensor, row), to = ref_row(dx->tensor, row);
        double total = log_sum_exp(x, from, classes);
        for (int64_t c = 0; c < classes; c++) {
            double gradient = exp(ref_get(x, from + c) - total) - (c == target[row] ? 1 : 0);
            ref_put(dx, to + c, target[row] == IGNORED ? 0 : gradient / scalars->divisor);
        }
    }
    return GP_OK;
}

gp_status ref_loss_total(const ref_call *call) {
    const ref_view *partial = &call->operand[GP_LOSS_TOTAL_PARTIAL];
    gp_step_scalars *scalars = call->operand[GP_LOSS_TOTAL_SCALARS].data;
    double loss = 0, right = 0;
    for (int64_t p = 0; p < partial->tensor->dim[0]; p++) {
        loss += ref_get(partial, ref_at2(partial, p, 0));
        right += ref_get(partial, ref_at2(partial, p, 1));
    }
    scalars->loss_sum = loss;
    scalars->right = right;
    scalars->finite = isfinite(loss) ? 1 : 0;
    return GP_OK;
}

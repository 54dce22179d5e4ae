/* Cross-entropy, losses of single elements, total of the loss. */
#include "device/ref/ref_ops.h"

#include <math.h>

static bool check_target(const ref_call *call, int64_t target, int64_t row, int64_t classes) {
    int64_t ignore = call->desc->attributes.cross_entropy.ignore;
    if (target == ignore || (target >= 0 && target < classes)) return true;
    *call->status = gp_fail(
        call->err, GP_DATA, "%s: target %lld of row %lld is not a class: classes are 0 to %lld, and %lld is ignored",
        gp_op_name(call->desc->kind), (long long)target, (long long)row, (long long)(classes - 1), (long long)ignore);
    return false;
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

/* A sum that is left out where its weight is 0: an infinite logit must not make it NaN. */
static double row_loss(const ref_view *x, int64_t from, int64_t classes, int64_t target, double smoothing) {
    double total = log_sum_exp(x, from, classes), loss = 0, spread = 0;
    if (smoothing < 1) loss += (1 - smoothing) * (total - ref_get(x, from + target));
    if (smoothing == 0) return loss;
    for (int64_t c = 0; c < classes; c++) spread += total - ref_get(x, from + c);
    return loss + smoothing / (double)classes * spread;
}

void ref_cross_entropy_forward(const ref_call *call) {
    const ref_view *x = &call->x;
    const int64_t *target = call->target.data;
    double *partial = call->partial.data;
    int64_t rows = gp_tensor_rows(x->tensor), classes = x->tensor->dim[x->tensor->rank - 1];
    const gp_cross_entropy_attributes *attributes = &call->desc->attributes.cross_entropy;
    double loss = 0, right = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (!check_target(call, target[row], row, classes)) return;
        if (target[row] == attributes->ignore) continue;
        int64_t from = ref_row(x->tensor, row);
        loss += row_loss(x, from, classes, target[row], attributes->smoothing);
        if (largest(x, from, classes) == target[row]) right += 1;
    }
    partial[0] = loss;
    partial[1] = right;
}

void ref_cross_entropy_backward(const ref_call *call) {
    const ref_view *x = &call->x, *dx = &call->dx;
    const int64_t *target = call->target.data;
    const gp_step_scalars *scalars = call->scalars.data;
    int64_t rows = gp_tensor_rows(x->tensor), classes = x->tensor->dim[x->tensor->rank - 1];
    const gp_cross_entropy_attributes *attributes = &call->desc->attributes.cross_entropy;
    double smoothing = attributes->smoothing, share = smoothing / (double)classes;
    for (int64_t row = 0; row < rows; row++) {
        if (!check_target(call, target[row], row, classes)) return;
        int64_t from = ref_row(x->tensor, row), to = ref_row(dx->tensor, row);
        double total = log_sum_exp(x, from, classes);
        for (int64_t c = 0; c < classes; c++) {
            double wanted = (c == target[row] ? 1 - smoothing : 0) + share;
            double gradient = exp(ref_get(x, from + c) - total) - wanted;
            ref_put(dx, to + c, target[row] == attributes->ignore ? 0 : gradient / scalars->divisor);
        }
    }
}

static double element_loss(uint32_t function, double x, double target) {
    if (function == GP_ELEMENT_MSE) return (x - target) * (x - target);
    return log1p(exp(-fabs(x))) + fmax(x, 0) - x * target;
}

static double element_gradient(uint32_t function, double x, double target) {
    if (function == GP_ELEMENT_MSE) return 2 * (x - target);
    return (x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x))) - target;
}

void ref_element_loss_forward(const ref_call *call) {
    double *partial = call->partial.data;
    int64_t elements = gp_tensor_elements(call->x.tensor);
    partial[0] = partial[1] = 0;
    for (int64_t i = 0; i < elements; i++)
        partial[0] += element_loss(call->desc->attributes.element_loss.function, ref_get_element(&call->x, i),
                                   ref_get_element(&call->target, i));
}

static double backward_element(const ref_call *call, int64_t i) {
    const gp_step_scalars *scalars = call->scalars.data;
    double gradient = element_gradient(call->desc->attributes.element_loss.function, ref_get_element(&call->x, i),
                                       ref_get_element(&call->target, i));
    return gradient / scalars->divisor;
}

void ref_element_loss_backward(const ref_call *call) {
    ref_write(call, &call->dx, backward_element);
}

void ref_loss_total(const ref_call *call) {
    const ref_view *partial = &call->partial;
    gp_step_scalars *scalars = call->scalars.data;
    double loss = 0, right = 0;
    int64_t pieces = partial->tensor->dim[0];
    for (int64_t p = 0; p < pieces; p++) {
        if (!gp_loss_total_has(&call->desc->attributes.loss_total, pieces, p)) continue;
        loss += ref_get(partial, ref_at2(partial, p, 0));
        right += ref_get(partial, ref_at2(partial, p, 1));
    }
    scalars->loss_sum = loss;
    scalars->right = right;
    scalars->finite = scalars->finite && isfinite(loss);
}

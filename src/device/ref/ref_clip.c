/* Squares of gradients, their norm, and the factor that clips them. */
#include "device/ref/ref_ops.h"

#include <math.h>

void ref_square_sum(const ref_call *call) {
    int64_t elements = gp_tensor_elements(call->x.tensor);
    double sum = 0;
    for (int64_t i = 0; i < elements; i++) sum += ref_get_element(&call->x, i) * ref_get_element(&call->x, i);
    ref_put(&call->sum, 0, sum);
}

void ref_clip_total(const ref_call *call) {
    const ref_view *squares = &call->squares;
    gp_step_scalars *scalars = call->scalars.data;
    double sum = 0, most = call->desc->attributes.clip.max_norm;
    for (int64_t i = 0; i < squares->tensor->dim[0]; i++) sum += ref_get(squares, i);
    scalars->grad_norm = sqrt(sum);
    scalars->clip = 1;
    if (most > 0 && most < scalars->grad_norm + 1e-6) scalars->clip = most / (scalars->grad_norm + 1e-6);
    if (most > 0 && !isfinite(sum)) scalars->finite = 0;
}

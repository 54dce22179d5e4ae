#include "device/ref/ref_ops.h"

#include <math.h>

gp_status ref_square_sum(const ref_call *call) {
    const ref_view *x = &call->operand[GP_SQUARE_SUM_X];
    double sum = 0;
    for (int64_t i = 0, elements = gp_tensor_elements(x->tensor); i < elements; i++) {
        double value = ref_get(x, ref_element(x->tensor, i));
        sum += value * value;
    }
    ref_put(&call->operand[GP_SQUARE_SUM_SUM], 0, sum);
    return GP_OK;
}

gp_status ref_clip_total(const ref_call *call) {
    const ref_view *squares = &call->operand[GP_CLIP_TOTAL_SQUARES];
    gp_step_scalars *scalars = call->operand[GP_CLIP_TOTAL_SCALARS].data;
    double sum = 0, most = call->desc->attributes.clip.max_norm;
    for (int64_t i = 0; i < squares->tensor->dim[0]; i++) sum += ref_get(squares, i);
    scalars->grad_norm = sqrt(sum);
    scalars->clip = 1;
    if (most > 0 && most < scalars->grad_norm + 1e-6) scalars->clip = most / (scalars->grad_norm + 1e-6);
    if (most > 0 && !isfinite(sum)) scalars->finite = 0;
    return GP_OK;
}

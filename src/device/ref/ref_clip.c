/* Squares of gradients, their norm, and the factor that clips them. */
#include "device/ref/ref_ops.h"

#include <math.h>

/* Of elements [first, first + count), or as many as there are. */
static double block_sum(const ref_view *x, int64_t first, int64_t count) {
    int64_t elements = gp_tensor_elements(x->tensor);
    double sum = 0;
    for (int64_t i = first; i < first + count && i < elements; i++)
        sum += ref_get_element(x, i) * ref_get_element(x, i);
    return sum;
}

void ref_square_sum(const ref_call *call) {
    int64_t elements = gp_tensor_elements(call->x.tensor);
    double sum = 0;
    for (int64_t i = 0; i < elements; i += REF_SQUARE_BLOCK) sum += block_sum(&call->x, i, REF_SQUARE_BLOCK);
    ref_put(&call->sum, 0, sum);
}

void ref_square_blocks(const ref_call *call) {
    int64_t elements = call->desc->attributes.blocks.elements;
    for (int64_t k = 0; k < call->sums.tensor->dim[0]; k++)
        ref_put(&call->sums, k, block_sum(&call->x, k * elements, elements));
}

void ref_blocks_total(const ref_call *call) {
    double sum = 0;
    for (int64_t k = 0; k < call->sums.tensor->dim[0]; k++) sum += ref_get(&call->sums, k);
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

#include "device/ref/ref_ops.h"

/* As torch.optim.SGD, each product and sum rounded to the parameter's precision as PyTorch does: two f32 multiplied or
 * added in f64 and then rounded give the f32 result exactly. */
gp_status ref_sgd(const ref_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_SGD_SCALARS].data;
    const ref_view *grad = &call->operand[GP_SGD_GRAD], *state = &call->operand[GP_SGD_MOMENTUM];
    const ref_view *param = &call->operand[GP_SGD_PARAM];
    const gp_sgd_attributes *sgd = &call->desc->attributes.sgd;
    gp_dtype dtype = param->tensor->dtype;
    double rate = ref_round(dtype, scalars->rate), momentum = ref_round(dtype, sgd->momentum);
    double decay = ref_round(dtype, sgd->decay), clip = ref_round(dtype, scalars->clip);
    int64_t elements = gp_tensor_elements(param->tensor);
    if (!scalars->finite) return GP_OK;
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = ref_element(param->tensor, i);
        double value = ref_get(param, at), step = ref_round(dtype, clip * ref_get(grad, ref_element(grad->tensor, i)));
        if (sgd->decay != 0) step = ref_round(dtype, step + ref_round(dtype, decay * value));
        if (state->data) {
            int64_t at_state = ref_element(state->tensor, i);
            double velocity = ref_round(dtype, ref_round(dtype, momentum * ref_get(state, at_state)) + step);
            ref_put(state, at_state, velocity);
            step = sgd->nesterov ? ref_round(dtype, step + ref_round(dtype, momentum * velocity)) : velocity;
        }
        ref_put(param, at, value - ref_round(dtype, rate * step));
    }
    return GP_OK;
}

/* SGD, Adam. */
#include <math.h>

#include "device/ref/ref_ops.h"

/* As torch.optim.SGD, each product and sum rounded to the parameter's precision as PyTorch does: two f32 multiplied or
 * added in f64 and then rounded give the f32 result exactly. */
void ref_sgd(const ref_call *call) {
    const gp_step_scalars *scalars = call->scalars.data;
    const ref_view *grad = &call->grad, *state = &call->momentum, *param = &call->param;
    const gp_sgd_attributes *sgd = &call->desc->attributes.sgd;
    gp_dtype dtype = param->tensor->dtype;
    double rate = ref_round(dtype, scalars->rate), momentum = ref_round(dtype, sgd->momentum);
    double decay = ref_round(dtype, sgd->decay), clip = ref_round(dtype, scalars->clip);
    int64_t elements = gp_tensor_elements(param->tensor);
    if (!scalars->finite) return;
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
}

/* The numbers of a step, in the parameter's precision; bias corrections in f64, as PyTorch has them. */
typedef struct adam_numbers {
    double clip, decay, shrink, share, rest, beta2, square, root, eps, step;
    bool small_share;
} adam_numbers;

static adam_numbers numbers_of(const gp_adam_attributes *adam, const gp_step_scalars *scalars, gp_dtype dtype) {
    double correction1 = 1 - pow(adam->beta1, scalars->step), correction2 = 1 - pow(adam->beta2, scalars->step);
    double share = ref_round(dtype, 1 - adam->beta1);
    return (adam_numbers){.clip = ref_round(dtype, scalars->clip),
                          .decay = ref_round(dtype, adam->decoupled ? 0 : adam->decay),
                          .shrink = ref_round(dtype, adam->decoupled ? 1 - scalars->rate * adam->decay : 1),
                          .share = share,
                          .rest = ref_round(dtype, 1 - share),
                          .small_share = share < 0.5,
                          .beta2 = ref_round(dtype, adam->beta2),
                          .square = ref_round(dtype, 1 - adam->beta2),
                          .root = ref_round(dtype, sqrt(correction2)),
                          .eps = ref_round(dtype, adam->eps),
                          .step = ref_round(dtype, -(scalars->rate / correction1))};
}

/* torch.lerp: from whichever end is nearer. */
static double lerp(gp_dtype dtype, const adam_numbers *n, double from, double to) {
    double way = ref_round(dtype, to - from);
    if (n->small_share) return ref_round(dtype, from + ref_round(dtype, n->share * way));
    return ref_round(dtype, to - ref_round(dtype, way * n->rest));
}

/* As torch.optim.Adam and AdamW, one tensor at a time, not fused: each operation rounded as there. */
void ref_adam(const ref_call *call) {
    const gp_step_scalars *scalars = call->scalars.data;
    const ref_view *grad = &call->grad, *param = &call->param, *m = &call->m, *v = &call->v;
    gp_dtype dtype = param->tensor->dtype;
    adam_numbers n = numbers_of(&call->desc->attributes.adam, scalars, dtype);
    int64_t elements = gp_tensor_elements(param->tensor);
    if (!scalars->finite) return;
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = ref_element(param->tensor, i), at_m = ref_element(m->tensor, i), at_v = ref_element(v->tensor, i);
        double value = ref_round(dtype, ref_get(param, at) * n.shrink);
        double gradient = ref_round(dtype, n.clip * ref_get(grad, ref_element(grad->tensor, i)));
        if (n.decay != 0) gradient = ref_round(dtype, gradient + ref_round(dtype, n.decay * value));
        double mean = lerp(dtype, &n, ref_get(m, at_m), gradient);
        double square = ref_round(dtype, ref_round(dtype, n.square * gradient) * gradient);
        square = ref_round(dtype, ref_round(dtype, ref_get(v, at_v) * n.beta2) + square);
        double root = ref_round(dtype, ref_round(dtype, sqrt(square)) / n.root);
        double step = ref_round(dtype, ref_round(dtype, n.step * mean) / ref_round(dtype, root + n.eps));
        ref_put(m, at_m, mean);
        ref_put(v, at_v, square);
        ref_put(param, at, value + step);
    }
}

/* SGD. */
#include "device/cpu/loops/loops.h"

typedef struct sgd_numbers {
    float rate, momentum, decay, clip;
    bool nesterov;
} sgd_numbers;

static float with_decay(const sgd_numbers *sgd, float gradient, float param) {
    float clipped = sgd->clip * gradient;
    return sgd->decay > 0 ? clipped + sgd->decay * param : clipped;
}

static void sgd_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const sgd_numbers sgd = *(const sgd_numbers *)context;
    float *param = at[GP_SGD_PARAM];
    const float *gradient = at[GP_SGD_GRAD];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) param[i] -= sgd.rate * with_decay(&sgd, gradient[i], param[i]);
}

static void sgd_momentum_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const sgd_numbers sgd = *(const sgd_numbers *)context;
    float *param = at[GP_SGD_PARAM], *momentum = at[GP_SGD_MOMENTUM];
    const float *gradient = at[GP_SGD_GRAD];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        float step = with_decay(&sgd, gradient[i], param[i]);
        float velocity = sgd.momentum * momentum[i] + step;
        momentum[i] = velocity;
        param[i] -= sgd.rate * (sgd.nesterov ? step + sgd.momentum * velocity : velocity);
    }
}

static void run_sgd(const gp_cpu_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_SGD_SCALARS];
    const gp_sgd_attributes *attributes = &call->prepared->desc.attributes.sgd;
    if (!scalars->finite) return;
    sgd_numbers sgd = {(float)scalars->rate, (float)attributes->momentum, (float)attributes->decay,
                       (float)scalars->clip, attributes->nesterov != 0};
    gp_cpu_spans(call, call->operand[GP_SGD_MOMENTUM] ? sgd_momentum_span : sgd_span, &sgd);
}

const gp_cpu_loop GP_CPU_LOOP(sgd) = {.compute = run_sgd};

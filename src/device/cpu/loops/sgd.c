/* SGD, running statistics. */
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

/* Mean and unbiased variance of one channel over all pieces: Chan, Golub, LeVeque 1979, in order of index. */
static void merge_pieces(const gp_op_desc *desc, const float *stats, int64_t channel, double *mean, double *variance) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    const gp_tensor *tensor = &desc->operand[GP_NORM_COMMIT_STATS];
    double rows = 0, merged = 0, squares = 0;
    for (int64_t p = 0; p < tensor->dim[0]; p++) {
        const float *piece = stats + p * tensor->stride[0] + channel;
        double more = (double)gp_norm_rows(norm, tensor->dim[0], p);
        if (more == 0) continue;
        double mean_of_piece = (double)piece[0] + (double)piece[2 * tensor->stride[1]];
        double all = rows + more, difference = mean_of_piece - merged;
        merged += difference * more / all;
        squares += (double)piece[tensor->stride[1]] * more + difference * difference * rows * more / all;
        rows = all;
    }
    *mean = merged;
    *variance = squares / (rows - 1);
}

static void run_norm_commit(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_step_scalars *scalars = call->operand[GP_NORM_COMMIT_SCALARS];
    if (!scalars->finite) return;
    float *mean = call->operand[GP_NORM_COMMIT_MEAN], *variance = call->operand[GP_NORM_COMMIT_VARIANCE];
    double momentum = desc->attributes.norm.momentum;
    for (int64_t c = 0; c < desc->operand[GP_NORM_COMMIT_MEAN].dim[0]; c++) {
        double new_mean, new_variance;
        merge_pieces(desc, call->operand[GP_NORM_COMMIT_STATS], c, &new_mean, &new_variance);
        mean[c] = (float)((1 - momentum) * (double)mean[c] + momentum * new_mean);
        variance[c] = (float)((1 - momentum) * (double)variance[c] + momentum * new_variance);
    }
}

const gp_cpu_loop GP_CPU_LOOP(norm_commit) = {.compute = run_norm_commit};

/* Adam, AdamW. */
#include <math.h>

#include "device/cpu/loops/loops.h"

/* What a step multiplies with; rounded to f32 once, as PyTorch's loops round their scalars. */
typedef struct adam_numbers {
    float clip;
    float decay;       /* added to the gradient */
    float shrink;      /* of the parameter */
    float share, rest; /* of the new gradient in the mean: 1 − beta1, and 1 less that */
    float beta2, square;
    float root; /* of the second bias correction */
    float eps;
    float step; /* −rate / the first bias correction */
} adam_numbers;

static adam_numbers numbers_of(const gp_adam_attributes *adam, const gp_step_scalars *scalars) {
    double correction1 = 1 - pow(adam->beta1, scalars->step), correction2 = 1 - pow(adam->beta2, scalars->step);
    float share = (float)(1 - adam->beta1);
    return (adam_numbers){.clip = (float)scalars->clip,
                          .decay = adam->decoupled ? 0 : (float)adam->decay,
                          .shrink = adam->decoupled ? (float)(1 - scalars->rate * adam->decay) : 1,
                          .share = share,
                          .rest = 1 - share,
                          .beta2 = (float)adam->beta2,
                          .square = (float)(1 - adam->beta2),
                          .root = (float)sqrt(correction2),
                          .eps = (float)adam->eps,
                          .step = (float)-(scalars->rate / correction1)};
}

enum { PARAM = GP_ADAM_PARAM, GRAD = GP_ADAM_GRAD, MEAN = GP_ADAM_M, SQUARE = GP_ADAM_V };

static inline void adam_element(const adam_numbers *n, float *const at[GP_SPAN_OPERANDS], int64_t i, float gradient,
                                float value, float mean) {
    float square = at[SQUARE][i] * n->beta2 + n->square * gradient * gradient;
    at[MEAN][i] = mean;
    at[SQUARE][i] = square;
    at[PARAM][i] = value + n->step * mean / (sqrtf(square) / n->root + n->eps);
}

static inline float decayed(const adam_numbers *n, float gradient, float value) {
    return n->decay > 0 ? n->clip * gradient + n->decay * value : n->clip * gradient;
}

static void adam_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const adam_numbers n = *(const adam_numbers *)context;
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        float value = at[PARAM][i] * n.shrink, gradient = decayed(&n, at[GRAD][i], value), mean = at[MEAN][i];
        adam_element(&n, at, i, gradient, value, mean + n.share * (gradient - mean));
    }
}

/* torch.lerp starts from the gradient where that is nearer. */
static void adam_span_of_large_share(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const adam_numbers n = *(const adam_numbers *)context;
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        float value = at[PARAM][i] * n.shrink, gradient = decayed(&n, at[GRAD][i], value), mean = at[MEAN][i];
        adam_element(&n, at, i, gradient, value, gradient - (gradient - mean) * n.rest);
    }
}

static void run_adam(const gp_cpu_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_ADAM_SCALARS];
    if (!scalars->finite) return;
    const adam_numbers n = numbers_of(&call->prepared->desc.attributes.adam, scalars);
    gp_cpu_spans(call, n.share < 0.5F ? adam_span : adam_span_of_large_share, &n);
}

const gp_cpu_loop GP_CPU_LOOP(adam) = {.compute = run_adam};

/* The losses mse and bce_logits. */
#include <math.h>

#include "device/cpu/cpu_blocks.h"
#include "device/cpu/loops/loops.h"

typedef struct element_loop {
    gp_element_loss function;
    gp_cpu_views at;
} element_loop;

static double sum_squares(const float *x, const float *target, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)x[i] - (double)target[i];
        sum += difference * difference;
    }
    return sum;
}

/* Neither form of the exponential overflows, and no difference of large numbers is left. */
static double sum_bce(const float *x, const float *target, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double rest = (double)log1pf(expf(-fabsf(x[i])));
        sum += rest + ((double)(x[i] > 0 ? x[i] : 0) - (double)x[i] * (double)target[i]);
    }
    return sum;
}

/* A block goes on from row to row. */
static double block_sum(const void *context, int64_t begin, int64_t end) {
    const element_loop *loop = context;
    double sum = 0;
    for (int64_t i = begin; i < end;) {
        int64_t width = loop->at.x.rows.width, row = i / width, column = i % width;
        int64_t count = width - column < end - i ? width - column : end - i;
        const float *x = loop->at.x.at + row * loop->at.x.rows.pitch + column;
        const float *target = loop->at.target.at + row * loop->at.target.rows.pitch + column;
        sum += loop->function == GP_ELEMENT_MSE ? sum_squares(x, target, count) : sum_bce(x, target, count);
        i += count;
    }
    return sum;
}

static void run_element_loss_forward(const gp_cpu_call *call) {
    element_loop loop = {.function = (gp_element_loss)call->prepared->desc.attributes.element_loss.function};
    gp_cpu_find_views(call, &loop.at);
    double *partial = call->operand[GP_ELEMENT_LOSS_FORWARD_PARTIAL];
    partial[0] = gp_cpu_sum_blocks(call, loop.at.x.rows, 1, block_sum, &loop);
    partial[1] = 0;
}

const gp_cpu_loop GP_CPU_LOOP(element_loss_forward) = {.compute = run_element_loss_forward};

static void mse_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const double scale = 2 / *(const double *)context;
    float *dx = at[GP_ELEMENT_LOSS_BACKWARD_DX];
    const float *x = at[GP_ELEMENT_LOSS_BACKWARD_X], *target = at[GP_ELEMENT_LOSS_BACKWARD_TARGET];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) dx[i] = (float)(((double)x[i] - (double)target[i]) * scale);
}

static void bce_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const double divisor = *(const double *)context;
    float *dx = at[GP_ELEMENT_LOSS_BACKWARD_DX];
    const float *x = at[GP_ELEMENT_LOSS_BACKWARD_X], *target = at[GP_ELEMENT_LOSS_BACKWARD_TARGET];
    for (int64_t i = 0; i < count; i++) {
        double small = (double)expf(-fabsf(x[i]));
        double sigmoid = (x[i] >= 0 ? 1 : small) / (1 + small);
        dx[i] = (float)((sigmoid - (double)target[i]) / divisor);
    }
}

static void run_element_loss_backward(const gp_cpu_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_ELEMENT_LOSS_BACKWARD_SCALARS];
    bool mse = call->prepared->desc.attributes.element_loss.function == GP_ELEMENT_MSE;
    gp_cpu_spans(call, mse ? mse_span : bce_span, &scalars->divisor);
}

const gp_cpu_loop GP_CPU_LOOP(element_loss_backward) = {.compute = run_element_loss_backward};

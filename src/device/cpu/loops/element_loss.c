/* The losses mse and bce_logits. */
#include <math.h>
#include <string.h>

#include "device/cpu/cpu_blocks.h"
#include "device/cpu/loops/double_sum.h"
#include "device/cpu/loops/exponential.h"
#include "device/cpu/loops/loops.h"

typedef struct element_loop {
    gp_element_loss function;
    gp_cpu_views at;
} element_loop;

/* Elements that are added in one go: whole GP_SUM_LANES, the last ones padded with what adds 0. */
enum { RUN = 512 };

static void add_squares(gp_double_sum *sum, const float *x, const float *target, int64_t count) {
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        for (int64_t v = 0; v < GP_F64_VECTORS; v++) {
            gp_wide_doubles difference =
                gp_widen_half(x + i + v * GP_F64_LANES) - gp_widen_half(target + i + v * GP_F64_LANES);
            sum->part[v] += difference * difference;
        }
    }
}

/* log(1 + e^−|x|) + (max(x, 0) − x·target): the exponential does not overflow, and no difference of large numbers is
 * left. */
static void add_bce(gp_double_sum *sum, const float *x, const float *target, int64_t count) {
    float rest[RUN];
    for (int64_t i = 0; i < count; i++) rest[i] = gp_log_of_one_and(gp_exponential(-fabsf(x[i])));
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        for (int64_t v = 0; v < GP_F64_VECTORS; v++) {
            int64_t at = i + v * GP_F64_LANES;
            gp_wide_doubles logit = gp_widen_half(x + at), positive = gp_wide_doubles_positive(logit);
            sum->part[v] += gp_widen_half(rest + at) + (positive - logit * gp_widen_half(target + at));
        }
    }
}

/* Nothing is left of its exponential. */
static const float padding = -128;

/* `count` elements from `begin` on, row after row: which part of a sum an element belongs to does not depend on gaps
 * between rows. */
static const float *find_run(const gp_cpu_view *view, int64_t begin, int64_t count, float room[RUN], float fill) {
    gp_rows rows = view->rows;
    int64_t row = begin / rows.width, column = begin % rows.width, done = 0;
    if (count % GP_SUM_LANES == 0) {
        if (gp_rows_dense(rows)) return view->at + begin;
        if (column + count <= rows.width) return view->at + row * rows.pitch + column;
    }
    for (; done < count; row++, column = 0) {
        int64_t some = rows.width - column < count - done ? rows.width - column : count - done;
        memcpy(room + done, view->at + row * rows.pitch + column, (size_t)some * sizeof *room);
        done += some;
    }
    for (; done % GP_SUM_LANES != 0; done++) room[done] = fill;
    return room;
}

static double block_sum(const void *context, int64_t begin, int64_t end) {
    const element_loop *loop = context;
    gp_double_sum sum = {{{0}}};
    for (int64_t i = begin; i < end; i += RUN) {
        int64_t count = end - i < RUN ? end - i : RUN,
                padded = (count + GP_SUM_LANES - 1) / GP_SUM_LANES * GP_SUM_LANES;
        float room[2][RUN];
        bool mse = loop->function == GP_ELEMENT_MSE;
        const float *x = find_run(&loop->at.x, i, count, room[0], mse ? 0 : padding);
        const float *target = find_run(&loop->at.target, i, count, room[1], 0);
        if (mse)
            add_squares(&sum, x, target, padded);
        else
            add_bce(&sum, x, target, padded);
    }
    return gp_double_total(&sum, NULL, 0);
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

/* e^−|x|; the same, or 1 where x is not negative; and 1/(1 + e^−|x|) in f32. */
typedef struct bce_run {
    float small[RUN], above[RUN], inverse[RUN];
} bce_run;

static void find_bce_run(const float *x, int64_t count, bce_run *out) {
    for (int64_t i = 0; i < count; i++) {
        float small = gp_exponential(-fabsf(x[i]));
        out->small[i] = small;
        out->above[i] = x[i] >= 0 ? 1 : small;
        out->inverse[i] = 1 / (1 + small);
    }
}

/* A step of Newton's makes f64 of the inverse, to 1e-13: a division in f64 costs more. The sigmoid is not rounded
 * before the target is taken from it. */
static void bce_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    const double scale = 1 / *(const double *)context;
    bce_run run;
    for (int64_t begin = 0; begin < count; begin += RUN) {
        int64_t some = count - begin < RUN ? count - begin : RUN;
        float *dx = at[GP_ELEMENT_LOSS_BACKWARD_DX] + begin;
        const float *target = at[GP_ELEMENT_LOSS_BACKWARD_TARGET] + begin;
        find_bce_run(at[GP_ELEMENT_LOSS_BACKWARD_X] + begin, some, &run);
        GP_INDEPENDENT
        for (int64_t i = 0; i < some; i++) {
            double near = (double)run.inverse[i], inverse = near * (2 - (1 + (double)run.small[i]) * near);
            dx[i] = (float)(((double)run.above[i] * inverse - (double)target[i]) * scale);
        }
    }
}

static void run_element_loss_backward(const gp_cpu_call *call) {
    const gp_step_scalars *scalars = call->operand[GP_ELEMENT_LOSS_BACKWARD_SCALARS];
    bool mse = call->prepared->desc.attributes.element_loss.function == GP_ELEMENT_MSE;
    gp_cpu_spans(call, mse ? mse_span : bce_span, &scalars->divisor);
}

const gp_cpu_loop GP_CPU_LOOP(element_loss_backward) = {.compute = run_element_loss_backward};

/* Norms of gradients, and what they are clipped by. */
#include <math.h>

#include "device/cpu/cpu_blocks.h"
#include "device/cpu/loops/loops.h"

enum { LANES = 16 }; /* sums within a block, which the compiler may keep in vectors */

typedef struct square_loop {
    gp_rows x;
    const float *x_at;
    int64_t block, elements; /* square_blocks: of a block; of x */
    double *sums;
} square_loop;

static void add_squares(double lanes[LANES], const float *x, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < count; i++, l++) lanes[l] += (double)x[i] * (double)x[i];
}

static double block_sum(const void *context, int64_t begin, int64_t end) {
    const square_loop *loop = context;
    double lanes[LANES] = {0};
    for (int64_t at = begin; at < end;) {
        int64_t row = at / loop->x.width, column = at % loop->x.width, count = loop->x.width - column;
        if (gp_rows_dense(loop->x)) count = end - at;
        if (count > end - at) count = end - at;
        add_squares(lanes, loop->x_at + row * loop->x.pitch + column, count);
        at += count;
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

static void run_square_sum(const gp_cpu_call *call) {
    square_loop loop = {.x = gp_cpu_rows(call, GP_SQUARE_SUM_X), .x_at = call->operand[GP_SQUARE_SUM_X]};
    double sum = gp_cpu_sum_blocks(call, loop.x, gp_cpu_grain(GP_CPU_BLOCK), block_sum, &loop);
    *(double *)call->operand[GP_SQUARE_SUM_SUM] = sum;
}

const gp_cpu_loop GP_CPU_LOOP(square_sum) = {.compute = run_square_sum};

static void sum_each(void *context, int64_t begin, int64_t end) {
    const square_loop *loop = context;
    for (int64_t k = begin; k < end; k++) {
        int64_t last = (k + 1) * loop->block;
        loop->sums[k] = block_sum(loop, k * loop->block, last < loop->elements ? last : loop->elements);
    }
}

static void run_square_blocks(const gp_cpu_call *call) {
    square_loop loop = {.x = gp_cpu_rows(call, GP_SQUARE_BLOCKS_X),
                        .x_at = call->operand[GP_SQUARE_BLOCKS_X],
                        .block = call->prepared->desc.attributes.blocks.elements,
                        .sums = call->operand[GP_SQUARE_BLOCKS_SUMS]};
    loop.elements = loop.x.count * loop.x.width;
    int64_t blocks = call->prepared->desc.operand[GP_SQUARE_BLOCKS_SUMS].dim[0];
    gp_cpu_pool_for(call->pool, blocks, gp_cpu_grain(loop.block), sum_each, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(square_blocks) = {.compute = run_square_blocks};

static void run_blocks_total(const gp_cpu_call *call) {
    const double *sums = call->operand[GP_BLOCKS_TOTAL_SUMS];
    double sum = 0;
    for (int64_t k = 0; k < call->prepared->desc.operand[GP_BLOCKS_TOTAL_SUMS].dim[0]; k++) sum += sums[k];
    *(double *)call->operand[GP_BLOCKS_TOTAL_SUM] = sum;
}

const gp_cpu_loop GP_CPU_LOOP(blocks_total) = {.compute = run_blocks_total};

/* torch.nn.utils.clip_grad_norm_ has the same small number in its divisor. */
static void run_clip_total(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const double *squares = call->operand[GP_CLIP_TOTAL_SQUARES];
    gp_step_scalars *scalars = call->operand[GP_CLIP_TOTAL_SCALARS];
    double sum = 0, most = desc->attributes.clip.max_norm;
    for (int64_t i = 0; i < desc->operand[GP_CLIP_TOTAL_SQUARES].dim[0]; i++) sum += squares[i];
    scalars->grad_norm = sqrt(sum);
    double clip = most / (scalars->grad_norm + 1e-6);
    scalars->clip = most > 0 && clip < 1 ? clip : 1;
    if (most > 0 && !isfinite(scalars->grad_norm)) scalars->finite = 0;
}

const gp_cpu_loop GP_CPU_LOOP(clip_total) = {.compute = run_clip_total};

/* Norms of gradients, and what they are clipped by. */
#include "device/cpu/cpu_ops.h"

#include <math.h>

enum {
    BLOCK = 4096, /* elements that are summed together; the blocks are added in their order */
    LANES = 16,   /* sums within a block, which the compiler may keep in vectors */
};

typedef struct square_loop {
    gp_rows x;
    const float *x_at;
    double *sums; /* of each block */
} square_loop;

static int64_t blocks_of(gp_rows x) {
    return (x.count * x.width + BLOCK - 1) / BLOCK;
}

gp_status gp_cpu_square_sum_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cpu_prepare_plain(prepared, "fd", err));
    gp_rows x = gp_rows_of(&prepared->desc.operand[GP_SQUARE_SUM_X]);
    gp_cpu_book(prepared, (size_t)blocks_of(x) * sizeof(double));
    return GP_OK;
}

static void add_squares(double lanes[LANES], const float *x, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < count; i++, l++) lanes[l] += (double)x[i] * (double)x[i];
}

static double block_sum(const square_loop *loop, int64_t begin, int64_t end) {
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

static void sum_blocks(void *context, int64_t begin, int64_t end) {
    const square_loop *loop = context;
    int64_t elements = loop->x.count * loop->x.width;
    for (int64_t block = begin; block < end; block++) {
        int64_t last = (block + 1) * BLOCK < elements ? (block + 1) * BLOCK : elements;
        loop->sums[block] = block_sum(loop, block * BLOCK, last);
    }
}

gp_status gp_cpu_square_sum_run(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    square_loop loop = {gp_cpu_rows(call, GP_SQUARE_SUM_X), call->operand[GP_SQUARE_SUM_X], call->workspace};
    int64_t blocks = blocks_of(loop.x);
    gp_cpu_pool_for(call->pool, blocks, gp_cpu_grain(BLOCK), sum_blocks, &loop);
    double sum = 0;
    for (int64_t block = 0; block < blocks; block++) sum += loop.sums[block];
    *(double *)call->operand[GP_SQUARE_SUM_SUM] = sum;
    return GP_OK;
}

gp_status gp_cpu_clip_total_prepare(gp_prepared *prepared, gp_error *err) {
    return gp_cpu_prepare_plain(prepared, "ds", err);
}

/* torch.nn.utils.clip_grad_norm_ has the same small number in its divisor. */
gp_status gp_cpu_clip_total_run(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    const gp_op_desc *desc = &call->prepared->desc;
    const double *squares = call->operand[GP_CLIP_TOTAL_SQUARES];
    gp_step_scalars *scalars = call->operand[GP_CLIP_TOTAL_SCALARS];
    double sum = 0, most = desc->attributes.clip.max_norm;
    for (int64_t i = 0; i < desc->operand[GP_CLIP_TOTAL_SQUARES].dim[0]; i++) sum += squares[i];
    scalars->grad_norm = sqrt(sum);
    double clip = most / (scalars->grad_norm + 1e-6);
    scalars->clip = most > 0 && clip < 1 ? clip : 1;
    if (most > 0 && !isfinite(scalars->grad_norm)) scalars->finite = 0;
    return GP_OK;
}

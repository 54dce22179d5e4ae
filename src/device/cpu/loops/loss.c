/* Cross-entropy, total of the loss. */
#include "device/cpu/loops/loops.h"

#include <math.h>

typedef struct loss_loop {
    gp_rows x, dx;
    const float *x_at;
    float *dx_at;
    const int64_t *target;
    double (*partial)[2]; /* of each block: Σ loss, number right */
    double divisor;
    gp_cross_entropy_attributes attributes;
} loss_loop;

/* Before anything is computed: threads of the pool have no way to fail. */
static gp_status check_targets(const gp_cpu_call *call, const int64_t *target, gp_rows x, gp_error *err) {
    int64_t ignore = call->prepared->desc.attributes.cross_entropy.ignore;
    for (int64_t row = 0; row < x.count; row++) {
        if (target[row] == ignore || (target[row] >= 0 && target[row] < x.width)) continue;
        return gp_fail(err, GP_DATA,
                       "%s: target %lld of row %lld is not a class: classes are 0 to %lld, and %lld is ignored",
                       gp_op_name(call->prepared->desc.kind), (long long)target[row], (long long)row,
                       (long long)(x.width - 1), (long long)ignore);
    }
    return GP_OK;
}

static loss_loop loop_of(const gp_cpu_call *call) {
    gp_cpu_views at;
    gp_cpu_find_views(call, &at);
    return (loss_loop){.x = at.x.rows,
                       .dx = at.dx.rows,
                       .x_at = at.x.at,
                       .dx_at = at.dx.at,
                       .target = (const int64_t *)(const void *)at.target.at,
                       .partial = call->workspace,
                       .attributes = call->prepared->desc.attributes.cross_entropy};
}

/* The first of the largest. */
static int64_t largest(const float *x, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (x[c] > x[best]) best = c;
    return best;
}

static double exp_sum(const float *x, int64_t classes, float most) {
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += (double)expf(x[c] - most);
    return sum;
}

/* A sum that is left out where its weight is 0: an infinite logit must not make it NaN. */
static double row_loss(const float *x, int64_t classes, int64_t target, int64_t best, double smoothing) {
    double most = (double)x[best], rest = log(exp_sum(x, classes, x[best])), loss = 0, spread = 0;
    if (smoothing < 1) loss += (1 - smoothing) * (rest + (most - (double)x[target]));
    if (smoothing == 0) return loss;
    for (int64_t c = 0; c < classes; c++) spread += rest + (most - (double)x[c]);
    return loss + smoothing / (double)classes * spread;
}

static void forward_blocks(void *context, int64_t begin, int64_t end) {
    const loss_loop *loop = context;
    for (int64_t block = begin; block < end; block++) {
        double loss = 0, right = 0;
        int64_t last = (block + 1) * GP_CPU_LOSS_ROWS < loop->x.count ? (block + 1) * GP_CPU_LOSS_ROWS : loop->x.count;
        for (int64_t row = block * GP_CPU_LOSS_ROWS; row < last; row++) {
            int64_t target = loop->target[row];
            if (target == loop->attributes.ignore) continue;
            const float *x = loop->x_at + row * loop->x.pitch;
            int64_t best = largest(x, loop->x.width);
            loss += row_loss(x, loop->x.width, target, best, loop->attributes.smoothing);
            if (best == target) right += 1;
        }
        loop->partial[block][0] = loss;
        loop->partial[block][1] = right;
    }
}

static gp_status run_cross_entropy_forward(const gp_cpu_call *call, gp_error *err) {
    loss_loop loop = loop_of(call);
    GP_RETURN_IF_FAILED(check_targets(call, loop.target, loop.x, err));
    int64_t blocks = gp_cpu_loss_blocks(loop.x);
    gp_cpu_pool_for(call->pool, blocks, 1, forward_blocks, &loop);
    double loss = 0, right = 0;
    for (int64_t block = 0; block < blocks; block++) {
        loss += loop.partial[block][0];
        right += loop.partial[block][1];
    }
    double *partial = call->operand[GP_CROSS_ENTROPY_FORWARD_PARTIAL];
    partial[0] = loss;
    partial[1] = right;
    return GP_OK;
}

const gp_cpu_loop GP_CPU_LOOP(cross_entropy_forward) = {.run = run_cross_entropy_forward};

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const loss_loop *loop = context;
    double smoothing = loop->attributes.smoothing, share = smoothing / (double)loop->x.width;
    for (int64_t row = begin; row < end; row++) {
        const float *x = loop->x_at + row * loop->x.pitch;
        float *dx = loop->dx_at + row * loop->dx.pitch;
        int64_t target = loop->target[row], classes = loop->x.width;
        if (target == loop->attributes.ignore) {
            for (int64_t c = 0; c < classes; c++) dx[c] = 0;
            continue;
        }
        float most = x[largest(x, classes)];
        double sum = 0;
        for (int64_t c = 0; c < classes; c++) { /* x may lie where dx does */
            dx[c] = expf(x[c] - most);
            sum += (double)dx[c];
        }
        for (int64_t c = 0; c < classes; c++)
            dx[c] = (float)(((double)dx[c] / sum - ((c == target ? 1 - smoothing : 0) + share)) / loop->divisor);
    }
}

static gp_status run_cross_entropy_backward(const gp_cpu_call *call, gp_error *err) {
    const gp_step_scalars *scalars = call->operand[GP_CROSS_ENTROPY_BACKWARD_SCALARS];
    loss_loop loop = loop_of(call);
    loop.divisor = scalars->divisor;
    GP_RETURN_IF_FAILED(check_targets(call, loop.target, loop.x, err));
    /* An exponential costs some ten times a copy. */
    gp_cpu_pool_for(call->pool, loop.x.count, gp_cpu_grain(10 * loop.x.width), backward_rows, &loop);
    return GP_OK;
}

const gp_cpu_loop GP_CPU_LOOP(cross_entropy_backward) = {.run = run_cross_entropy_backward};

static void run_loss_total(const gp_cpu_call *call) {
    gp_rows pieces = gp_cpu_rows(call, GP_LOSS_TOTAL_PARTIAL);
    const double *partial = call->operand[GP_LOSS_TOTAL_PARTIAL];
    gp_step_scalars *scalars = call->operand[GP_LOSS_TOTAL_SCALARS];
    double loss = 0, right = 0;
    for (int64_t piece = 0; piece < pieces.count; piece++) {
        loss += partial[piece * pieces.pitch];
        right += partial[piece * pieces.pitch + 1];
    }
    scalars->loss_sum = loss;
    scalars->right = right;
    scalars->finite = scalars->finite && isfinite(loss);
}

const gp_cpu_loop GP_CPU_LOOP(loss_total) = {.compute = run_loss_total};

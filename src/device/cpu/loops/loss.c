/* Cross-entropy, total of the loss. */
#include <math.h>
#include <string.h>

#include "device/cpu/loops/double_sum.h"
#include "device/cpu/loops/exponential.h"
#include "device/cpu/loops/loops.h"

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

/* The largest value; the first one if that is NaN, as no other is larger then. */
static float largest_value(const float *x, int64_t classes) {
    enum { VECTORS = 4, ELEMENTS = VECTORS * (int)GP_LANES };
    gp_floats most[VECTORS];
    float each[GP_LANES];
    int64_t c = 0;
    for (int64_t v = 0; v < VECTORS; v++) most[v] = gp_all(x[0]);
    for (; c + ELEMENTS <= classes; c += ELEMENTS)
        for (int64_t v = 0; v < VECTORS; v++) most[v] = gp_larger(gp_load(x + c + v * GP_LANES), most[v]);
    for (; c + GP_LANES <= classes; c += GP_LANES) most[0] = gp_larger(gp_load(x + c), most[0]);
    gp_store(each, gp_larger(gp_larger(most[0], most[1]), gp_larger(most[2], most[3])));
    float value = each[0];
    for (int64_t l = 1; l < GP_LANES; l++) value = each[l] > value ? each[l] : value;
    for (; c < classes; c++) value = x[c] > value ? x[c] : value;
    return value;
}

enum { SEARCHED = 4 * (int)GP_SUM_LANES };

static bool has(const float *x, float value) {
    gp_ints found = {0};
    int32_t each[GP_LANES], any = 0;
    for (int64_t i = 0; i < SEARCHED; i += GP_LANES) found |= gp_load(x + i) == gp_all(value);
    memcpy(each, &found, sizeof each);
    for (int64_t l = 0; l < GP_LANES; l++) any |= each[l];
    return any != 0;
}

/* The first of the largest. */
static int64_t largest(const float *x, int64_t classes) {
    float value = largest_value(x, classes);
    int64_t c = 0;
    while (c + SEARCHED <= classes && !has(x + c, value)) c += SEARCHED;
    for (; c < classes; c++)
        if (x[c] == value) return c;
    return 0;
}

/* Classes whose exponentials are added in one go. */
enum { RUN = 512 };

static double exp_sum(const float *x, int64_t classes, float most) {
    gp_double_sum sum = {{{0}}};
    float room[GP_SUM_LANES], e[RUN];
    for (int64_t c = 0; c < classes; c += RUN) {
        int64_t count = classes - c < RUN ? classes - c : RUN, whole = count / GP_SUM_LANES * GP_SUM_LANES;
        for (int64_t i = 0; i < whole; i++) e[i] = gp_exponential(x[c + i] - most);
        if (whole < count) {
            gp_padded(x + c + whole, count - whole, room, -INFINITY);
            for (int64_t i = 0; i < GP_SUM_LANES; i++) e[whole + i] = gp_exponential(room[i] - most);
        }
        for (int64_t i = 0; i < count; i += GP_SUM_LANES)
            for (int64_t v = 0; v < GP_F64_VECTORS; v++) sum.part[v] += gp_widen_half(e + i + v * GP_F64_LANES);
    }
    return gp_double_total(&sum, NULL, 0);
}

/* Σ −log of the probability of each class: `rest` is the logarithm of exp_sum. */
static double spread_sum(const float *x, int64_t classes, double most, double rest) {
    gp_double_sum sum = {{{0}}};
    double last[GP_SUM_LANES];
    int64_t c = 0;
    for (; c + GP_SUM_LANES <= classes; c += GP_SUM_LANES)
        for (int64_t v = 0; v < GP_F64_VECTORS; v++)
            sum.part[v] +=
                gp_wide_doubles_all(rest) + (gp_wide_doubles_all(most) - gp_widen_half(x + c + v * GP_F64_LANES));
    for (int64_t i = 0; c + i < classes; i++) last[i] = rest + (most - (double)x[c + i]);
    return gp_double_total(&sum, last, classes - c);
}

/* A sum that is left out where its weight is 0: an infinite logit must not make it NaN. */
static double row_loss(const float *x, int64_t classes, int64_t target, int64_t best, double smoothing) {
    double most = (double)x[best], rest = log(exp_sum(x, classes, x[best])), loss = 0;
    if (smoothing < 1) loss += (1 - smoothing) * (rest + (most - (double)x[target]));
    if (smoothing == 0) return loss;
    return loss + smoothing / (double)classes * spread_sum(x, classes, most, rest);
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

static double sum_of(const float *x, int64_t count) {
    gp_double_sum sum = {{{0}}};
    float room[GP_SUM_LANES];
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        const float *at = count - i < GP_SUM_LANES ? gp_padded(x + i, count - i, room, 0) : x + i;
        for (int64_t v = 0; v < GP_F64_VECTORS; v++) sum.part[v] += gp_widen_half(at + v * GP_F64_LANES);
    }
    return gp_double_total(&sum, NULL, 0);
}

/* x may lie where dx does. */
static void row_gradient(const float *x, float *dx, int64_t classes, int64_t target, double smoothing, double divisor) {
    const float most = largest_value(x, classes);
    GP_INDEPENDENT
    for (int64_t c = 0; c < classes; c++) dx[c] = gp_exponential(x[c] - most);
    const double share = smoothing / (double)classes, factor = 1 / sum_of(dx, classes), scale = 1 / divisor;
    const double right = ((double)dx[target] * factor - (1 - smoothing + share)) * scale;
    const double slope = factor * scale, offset = share * scale;
    for (int64_t c = 0; c < classes; c++) dx[c] = (float)((double)dx[c] * slope - offset);
    dx[target] = (float)right;
}

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const loss_loop *loop = context;
    for (int64_t row = begin; row < end; row++) {
        float *dx = loop->dx_at + row * loop->dx.pitch;
        int64_t target = loop->target[row], classes = loop->x.width;
        if (target == loop->attributes.ignore)
            memset(dx, 0, (size_t)classes * sizeof *dx);
        else
            row_gradient(loop->x_at + row * loop->x.pitch, dx, classes, target, loop->attributes.smoothing,
                         loop->divisor);
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
    const gp_loss_total_attributes *total = &call->prepared->desc.attributes.loss_total;
    for (int64_t piece = 0; piece < pieces.count; piece++) {
        if (!gp_loss_total_has(total, pieces.count, piece)) continue;
        loss += partial[piece * pieces.pitch];
        right += partial[piece * pieces.pitch + 1];
    }
    scalars->loss_sum = loss;
    scalars->right = right;
    scalars->finite = scalars->finite && isfinite(loss);
}

const gp_cpu_loop GP_CPU_LOOP(loss_total) = {.compute = run_loss_total};

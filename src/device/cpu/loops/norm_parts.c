/* Batch norm over several parts of the samples: those of replicas that synchronise, and all parts of a mini-batch for
 * the running statistics. Parts come in the order of their index, so that the bits do not depend on who has them. */
#include "device/cpu/loops/loops.h"

/* Of some rows of one channel: mean, and sum of squared differences from it. */
typedef struct moments {
    double rows, mean, squares;
} moments;

/* Of all parts: Chan, Golub, LeVeque 1979. stats: [parts, 3, channels]. */
static moments merge_parts(const gp_norm_attributes *norm, const gp_tensor *tensor, const float *stats,
                           int64_t channel) {
    moments all = {0, 0, 0};
    for (int64_t p = 0; p < tensor->dim[0]; p++) {
        const float *part = stats + p * tensor->stride[0] + channel;
        double more = (double)gp_norm_rows(norm, tensor->dim[0], p);
        if (more == 0) continue;
        double mean_of_part = (double)part[0] + (double)part[2 * tensor->stride[1]];
        double rows = all.rows + more, difference = mean_of_part - all.mean;
        all.mean += difference * more / rows;
        all.squares += (double)part[tensor->stride[1]] * more + difference * difference * all.rows * more / rows;
        all.rows = rows;
    }
    return all;
}

static void run_norm_merge(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_tensor *stats = &desc->operand[GP_NORM_MERGE_STATS];
    float *mean = call->operand[GP_NORM_MERGE_MEAN], *variance = call->operand[GP_NORM_MERGE_VARIANCE];
    for (int64_t c = 0; c < stats->dim[2]; c++) {
        moments all = merge_parts(&desc->attributes.norm, stats, call->operand[GP_NORM_MERGE_STATS], c);
        mean[c] = (float)all.mean;
        variance[c] = (float)(all.squares / all.rows);
    }
}

const gp_cpu_loop GP_CPU_LOOP(norm_merge) = {.compute = run_norm_merge};

static void run_norm_merge_sums(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_tensor *parts = &desc->operand[GP_NORM_MERGE_SUMS_PARTS];
    for (int64_t which = 0; which < 2; which++) {
        const float *first = (const float *)call->operand[GP_NORM_MERGE_SUMS_PARTS] + which * parts->stride[1];
        float *sums =
            (float *)call->operand[GP_NORM_MERGE_SUMS_SUMS] + which * desc->operand[GP_NORM_MERGE_SUMS_SUMS].stride[0];
        for (int64_t c = 0; c < parts->dim[2]; c++) {
            double sum = 0;
            for (int64_t p = 0; p < parts->dim[0]; p++) sum += (double)first[p * parts->stride[0] + c];
            sums[c] = (float)sum;
        }
    }
}

const gp_cpu_loop GP_CPU_LOOP(norm_merge_sums) = {.compute = run_norm_merge_sums};

static void run_norm_commit(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_step_scalars *scalars = call->operand[GP_NORM_COMMIT_SCALARS];
    const gp_tensor *stats = &desc->operand[GP_NORM_COMMIT_STATS];
    if (!scalars->finite) return;
    float *mean = call->operand[GP_NORM_COMMIT_MEAN], *variance = call->operand[GP_NORM_COMMIT_VARIANCE];
    double momentum = desc->attributes.norm.momentum;
    for (int64_t c = 0; c < stats->dim[2]; c++) {
        moments all = merge_parts(&desc->attributes.norm, stats, call->operand[GP_NORM_COMMIT_STATS], c);
        mean[c] = (float)((1 - momentum) * (double)mean[c] + momentum * all.mean);
        variance[c] = (float)((1 - momentum) * (double)variance[c] + momentum * (all.squares / (all.rows - 1)));
    }
}

const gp_cpu_loop GP_CPU_LOOP(norm_commit) = {.compute = run_norm_commit};

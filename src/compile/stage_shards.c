/* The shards of a stage's replicas: which part of the gradients each of them adds up, and which part of the parameters
 * it updates if they share out the optimizer.
 *
 * A shard is an equal part of each bucket, so that all replicas send and receive as much of it. If it decides who
 * updates what, it is one stretch of the stage's gradients, in the order of its parameters. It begins where a parameter
 * does, or a block of its squares: so the sums of blocks, and with them norms, do not depend on the number of replicas.
 * A parameter whose gradient or master has a format of the device is not cut. */
#include "base/memory.h"
#include "compile/stage_internal.h"

/* Of a gradient's first `bytes`. */
static size_t count_blocks(const gp_stage_plan *plan, size_t bytes) {
    return (bytes + plan->square_block - 1) / plan->square_block;
}

static bool is_cut(const gp_param_plan *param) {
    return param->format == GP_FORMAT_PLAIN && param->grad_format == GP_FORMAT_PLAIN &&
           param->stored == param->grad_bytes;
}

/* Before a parameter; param_count: behind the last one. */
static gp_shard_cut cut_before(const gp_stage_plan *plan, int param) {
    while (param < plan->param_count && !plan->params[param].trained) param++;
    if (param == plan->param_count) return (gp_shard_cut){param, 0, plan->grads_bytes};
    return (gp_shard_cut){param, 0, plan->params[param].grad - plan->grads};
}

/* The place nearest to byte `ideal` of the gradients at which a shard may begin. */
static gp_shard_cut nearest_cut(const gp_stage_plan *plan, size_t ideal) {
    gp_shard_cut before = cut_before(plan, 0), after = before;
    while (before.param < plan->param_count) {
        after = cut_before(plan, before.param + 1);
        if (ideal < after.grad) break;
        before = after;
    }
    if (before.param == plan->param_count) return before;
    const gp_param_plan *param = &plan->params[before.param];
    size_t within = ideal - before.grad;
    if (!is_cut(param)) return 2 * within < after.grad - before.grad ? before : after;
    size_t first = (within + plan->square_block / 2) / plan->square_block * plan->square_block;
    if (first >= param->grad_bytes) return after;
    return (gp_shard_cut){before.param, first, before.grad + first};
}

/* What lies of a parameter between two cuts. */
static gp_share between(const gp_stage_plan *plan, int param, gp_shard_cut from, gp_shard_cut to) {
    size_t stored = plan->params[param].stored;
    if (param < from.param || param > to.param) return (gp_share){0, 0};
    size_t first = param == from.param ? from.first : 0, end = param == to.param ? to.first : stored;
    return (gp_share){(int64_t)first, (int64_t)(end - first)};
}

gp_status gp_stage_place_shards(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    plan->shards = gp_stage_shards(request->stages, plan->stage);
    for (int p = 0; p < plan->param_count; p++) plan->params[p].own = (gp_share){0, (int64_t)plan->params[p].stored};
    if (!plan->shards) return GP_OK;
    plan->square_block = (size_t)plan->spec.kind->square_block * gp_dtype_size(request->types.accumulate);
    GP_RETURN_IF_FAILED(GP_NEW(&plan->cuts, stage->replicas + 1, err));
    for (int r = 0; r <= stage->replicas; r++)
        plan->cuts[r] = nearest_cut(plan, plan->grads_bytes * (size_t)r / (size_t)stage->replicas);
    for (int p = 0; p < plan->param_count; p++)
        plan->params[p].own = between(plan, p, plan->cuts[stage->replica], plan->cuts[stage->replica + 1]);
    for (int p = 0; p < plan->param_count; p++) {
        if (!plan->params[p].trained) continue;
        plan->params[p].block = plan->block_count;
        plan->block_count += count_blocks(plan, plan->params[p].grad_bytes);
    }
    return GP_OK;
}

gp_share gp_stage_plan_shard(const gp_stage_plan *plan, int replica) {
    size_t first = plan->cuts[replica].grad;
    return (gp_share){(int64_t)first, (int64_t)(plan->cuts[replica + 1].grad - first)};
}

gp_share gp_stage_plan_bucket(const gp_stage_plan *plan, int bucket, int buckets) {
    int64_t units = (int64_t)(plan->grads_bytes / GP_ALIGNMENT);
    int64_t first = units * (buckets - 1 - bucket) / buckets, end = units * (buckets - bucket) / buckets;
    return (gp_share){first * GP_ALIGNMENT, (end - first) * GP_ALIGNMENT};
}

gp_share gp_stage_plan_part(const gp_stage_plan *plan, const gp_stages *stages, int bucket, int replica) {
    const gp_stage *stage = &stages->stage[plan->stage];
    gp_share its = gp_stage_plan_bucket(plan, bucket, stage->buckets);
    if (plan->shards) return gp_share_common(its, gp_stage_plan_shard(plan, replica));
    gp_share units = gp_share_of(its.count / GP_ALIGNMENT, stage->replicas, replica);
    return (gp_share){its.first + units.first * GP_ALIGNMENT, units.count * GP_ALIGNMENT};
}

size_t gp_stage_plan_others(const gp_stage_plan *plan, const gp_stages *stages, int bucket, int replica, int other) {
    size_t others = (size_t)stages->stage[plan->stage].replicas - 1, before = (size_t)(other - (other > replica));
    size_t at = plan->parts + before * (size_t)gp_stage_plan_part(plan, stages, bucket, replica).count;
    for (int b = 0; b < bucket; b++) at += others * (size_t)gp_stage_plan_part(plan, stages, b, replica).count;
    return at;
}

static size_t master_of(const gp_stage_plan *plan, gp_shard_cut cut) {
    return cut.param == plan->param_count ? plan->trained_end : plan->params[cut.param].master + cut.first;
}

gp_share gp_stage_plan_masters(const gp_stage_plan *plan, int replica) {
    size_t first = master_of(plan, plan->cuts[replica]);
    return (gp_share){(int64_t)first, (int64_t)(master_of(plan, plan->cuts[replica + 1]) - first)};
}

static size_t block_at(const gp_stage_plan *plan, gp_shard_cut cut) {
    if (cut.param == plan->param_count) return plan->block_count;
    return plan->params[cut.param].block + cut.first / plan->square_block;
}

gp_share gp_stage_plan_blocks(const gp_stage_plan *plan, int replica) {
    size_t first = block_at(plan, plan->cuts[replica]), end = block_at(plan, plan->cuts[replica + 1]);
    return (gp_share){(int64_t)(plan->blocks + first * sizeof(double)), (int64_t)((end - first) * sizeof(double))};
}

/* The commands of a run: steps and their halves, and copies of parameters, predictions and squares. The trainer's
 * thread. */
#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/follow.h"
#include "pipeline/run_internal.h"
#include "pipeline/team.h"

/* A run that has failed returns its cause; a step must not be under way. */
static gp_status check_rest(gp_run *run, gp_error *err) {
    gp_status cause = gp_cancel_cause(&run->cancel, err);
    if (cause != GP_OK || run->under_way == 0) return cause;
    return gp_fail(err, GP_INTERNAL, "a step is under way");
}

static gp_status copy_blocks(gp_run *run, bool in, const gp_block *blocks, size_t count, gp_error *err) {
    GP_RETURN_IF_FAILED(check_rest(run, err));
    return gp_team_settle(run, gp_team_copy(run, in, blocks, count, 0, err), err);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The first of its replicas. */
static const gp_stage_plan *last_stage(const gp_run *run) {
    return &run->plan->stage[gp_stages_root(run->plan->stages)];
}

static gp_block report_block(gp_run *run, int turn) {
    const gp_stage_plan *last = last_stage(run);
    return (gp_block){last->worker, last->base + last->scalars, sizeof run->report[turn], &run->report[turn], NULL};
}

static gp_step_result result_of(const gp_step_scalars *report) {
    return (gp_step_result){report->loss_sum, report->right, report->finite != 0, report->grad_norm, report->clip};
}

static gp_status post_step(gp_run *run, gp_command command, int turn, gp_error *err) {
    const gp_block report = report_block(run, turn);
    command.kind = GP_COMMAND_STEP;
    command.mini = run->mini;
    command.blocks = &report;
    command.block_count = 1;
    return gp_run_post(run, &command, err);
}

gp_status gp_run_step(gp_run *run, int mini, const gp_step_input *input, gp_step_result *result, gp_error *err) {
    GP_RETURN_IF_FAILED(check_rest(run, err));
    GP_RETURN_IF_FAILED(gp_team_call(run, run->watches ? GP_CALL_DIAGNOSE : GP_CALL_STEP, mini, input, NULL, 0, err));
    run->mini = mini;
    run->turn = 0;
    const gp_command command = {.begins = true, .ends = true, .input = input};
    GP_RETURN_IF_FAILED(post_step(run, command, run->turn, err));
    gp_status status = gp_team_report(run, &run->report[run->turn], err);
    if (status == GP_OK) status = gp_team_gather_spans(run, mini, err);
    GP_RETURN_IF_FAILED(gp_team_settle(run, status, err));
    *result = result_of(&run->report[run->turn]);
    return GP_OK;
}

gp_status gp_run_begin(gp_run *run, int mini, const gp_step_input *input, gp_error *err) {
    bool behind = run->under_way > 0;
    if (behind && (run->under_way == 2 || mini != run->mini || !gp_plan_overlaps(run->plan, mini) || run->recorder))
        return gp_fail(err, GP_INTERNAL, "a step cannot begin: the step that is running must end first");
    run->mini = mini;
    run->turn = behind ? 1 - run->turn : 0;
    const gp_command command = {.begins = true, .behind = behind, .input = input};
    GP_RETURN_IF_FAILED(post_step(run, command, run->turn, err));
    run->under_way++;
    return GP_OK;
}

gp_status gp_run_end(gp_run *run, gp_step_result *result, gp_error *err) {
    if (run->under_way == 0) return gp_fail(err, GP_INTERNAL, "no step is under way");
    int turn = run->under_way == 2 ? 1 - run->turn : run->turn;
    const gp_command command = {.ends = true, .before = run->under_way == 2};
    GP_RETURN_IF_FAILED(post_step(run, command, turn, err));
    run->under_way--;
    *result = result_of(&run->report[turn]);
    return GP_OK;
}

/* ---- what the last stage has after a step ------------------------------------------------------------------------ */

static const gp_stats_plan *find_prediction(const gp_plan *plan, const gp_stage_plan *stage) {
    for (size_t i = 0; i < stage->stats_count; i++)
        if (stage->stats[i].node == plan->graph->node_count - 1 && stage->stats[i].index == GP_LOSS_STATS_PREDICTION)
            return &stage->stats[i];
    return NULL;
}

/* Of each micro-batch, from each replica of the last stage that has samples of it. */
gp_status gp_run_prediction(gp_run *run, int mini, void *out, gp_error *err) {
    const gp_plan *plan = run->plan;
    const gp_mini_plan *its = &plan->minis[mini];
    const gp_stats_plan *stats = find_prediction(plan, last_stage(run));
    int root = gp_stages_root(plan->stages), replicas = plan->stages->stage[root].replicas;
    gp_block *blocks = NULL;
    int64_t elements;
    if (!stats || !gp_shape_elements(plan->graph->nodes[stats->node].layer->inputs[0], &elements))
        return gp_fail(err, GP_INTERNAL, "the plan keeps no prediction");
    size_t sample = (size_t)elements * gp_dtype_size(plan->types.storage);
    int count = its->pieces * replicas, used = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&blocks, count, err));
    for (int b = 0; b < count; b++) {
        const gp_stage_plan *last = &plan->stage[root + b % replicas];
        gp_share share = gp_mini_share(its, &plan->stages->stage[last->stage], b / replicas);
        if (share.count == 0) continue;
        stats = find_prediction(plan, last);
        blocks[used++] = (gp_block){.worker = last->worker,
                                    .offset = last->base + stats->offset + (size_t)(b / replicas) * stats->stride,
                                    .bytes = (size_t)share.count * sample,
                                    .host = (char *)out + (size_t)share.first * sample};
    }
    gp_status status = copy_blocks(run, false, blocks, (size_t)used, err);
    free(blocks);
    return status;
}

gp_status gp_run_squares(gp_run *run, double *out, gp_error *err) {
    const gp_stage_plan *last = last_stage(run);
    if (!run->plan->stages->norms) return gp_fail(err, GP_INTERNAL, "the plan computes no norms");
    const gp_block block = {.worker = last->worker,
                            .offset = last->base + last->squares,
                            .bytes = (last->squares_before + last->square_count) * sizeof(double),
                            .host = out};
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_SQUARES, 0, NULL, NULL, 0, err));
    return copy_blocks(run, false, &block, 1, err);
}

void gp_run_record(gp_run *run, gp_recorder *recorder) {
    run->recorder = recorder;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static int stage_of_param(const gp_plan *plan, int param) {
    return plan->stages->stage_of_node[plan->graph->params[param].node];
}

/* What a replica has of a tensor: all of a parameter, and of a state what belongs to its own part of the parameter. A
 * parameter of which it has a part lies in PyTorch's order. */
static gp_block param_block(const gp_stage_plan *stage, const gp_tensor_copy *copy) {
    const gp_param_plan *its = gp_stage_plan_param(stage, copy->param);
    if (copy->state < 0) return (gp_block){stage->worker, stage->base + its->master, its->bytes, copy->host, its};
    size_t offset = stage->base + its->state[copy->state];
    if (its->own.count == (int64_t)its->stored) return (gp_block){stage->worker, offset, its->bytes, copy->host, its};
    char *host = copy->host ? (char *)copy->host + its->own.first : NULL; /* another process has it */
    return (gp_block){stage->worker, offset, (size_t)its->own.count, host, NULL};
}

/* The first replica of a stage in the process `home`, or the first one. */
static int replica_near(const gp_plan *plan, int first, int home) {
    int replicas = plan->stages->stage[first].replicas;
    for (int r = 0; r < replicas; r++)
        if (plan->process[plan->stage[first + r].worker] == home) return r;
    return 0;
}

/* Replicas have the same parameters: reads are from one of process `home`, if it has one; writes go to all. A state
 * that they share out lies in parts on some of them. */
static gp_status list_blocks(const gp_run *run, bool in, const gp_tensor_copy *copies, int count, int home,
                             gp_block **out, size_t *block_count, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_block *blocks = NULL;
    size_t most = 0, used = 0;
    for (int i = 0; i < count; i++) most += (size_t)plan->stages->stage[stage_of_param(plan, copies[i].param)].replicas;
    GP_RETURN_IF_FAILED(GP_NEW(&blocks, most, err));
    for (int i = 0; i < count; i++) {
        int first = stage_of_param(plan, copies[i].param), replicas = plan->stages->stage[first].replicas;
        bool shared = copies[i].state >= 0 && plan->stage[first].shards;
        int near = in || shared ? 0 : replica_near(plan, first, home);
        for (int r = 0; r < (in || shared ? replicas : 1); r++) {
            blocks[used] = param_block(&plan->stage[first + near + r], &copies[i]);
            used += blocks[used].bytes > 0;
        }
    }
    *out = blocks;
    *block_count = used;
    return GP_OK;
}

/* The replicas of a stage share out its parameters in their order, by bytes: each has one whose first byte lies in its
 * part. */
int gp_run_home(const gp_plan *plan, int param) {
    const gp_stage_plan *stage = &plan->stage[stage_of_param(plan, param)];
    int replicas = plan->stages->stage[stage->stage].replicas;
    size_t before = 0, all = 0;
    for (int p = 0; p < stage->param_count; p++) {
        if (stage->params[p].param < param) before += stage->params[p].bytes;
        all += stage->params[p].bytes;
    }
    int replica = before < all ? (int)(before * (size_t)replicas / all) : 0;
    return plan->process[plan->stage[stage->stage + replica].worker];
}

static gp_status copy_with(gp_run *run, bool in, const gp_tensor_copy *copies, int count, int home, gp_error *err) {
    gp_block *blocks = NULL;
    size_t used = 0;
    GP_RETURN_IF_FAILED(check_rest(run, err));
    gp_status status = list_blocks(run, in, copies, count, home, &blocks, &used, err);
    if (status == GP_OK) status = gp_team_copy(run, in, blocks, used, home, err);
    free(blocks);
    return gp_team_settle(run, status, err);
}

gp_status gp_run_gather(gp_run *run, const gp_tensor_copy *copies, int count, int home, gp_error *err) {
    return copy_with(run, false, copies, count, home, err);
}

gp_status gp_run_spread(gp_run *run, const gp_tensor_copy *copies, int count, int home, gp_error *err) {
    return copy_with(run, true, copies, count, home, err);
}

static gp_status copy_params(gp_run *run, bool in, const gp_tensor_copy *copies, int count, gp_error *err) {
    gp_block *blocks = NULL;
    size_t used = 0;
    gp_status status = list_blocks(run, in, copies, count, 0, &blocks, &used, err);
    if (status == GP_OK) status = copy_blocks(run, in, blocks, used, err);
    free(blocks);
    return gp_team_settle(run, status, err);
}

gp_status gp_run_read(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_READ, 0, NULL, copies, count, err));
    return copy_params(run, false, copies, count, err);
}

gp_status gp_run_write(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_WRITE, 0, NULL, copies, count, err));
    return copy_params(run, true, copies, count, err);
}

gp_status gp_run_refresh(gp_run *run, gp_error *err) {
    const gp_command command = {.kind = GP_COMMAND_REFRESH};
    GP_RETURN_IF_FAILED(check_rest(run, err));
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_REFRESH, 0, NULL, NULL, 0, err));
    return gp_run_post(run, &command, err);
}

/* Each process clears what its own workers have. */
static gp_status clear(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err) {
    gp_command command = {.kind = GP_COMMAND_WRITE};
    gp_block *blocks = NULL;
    GP_RETURN_IF_FAILED(list_blocks(run, true, copies, count, 0, &blocks, &command.block_count, err));
    command.blocks = blocks;
    gp_status status = gp_run_post(run, &command, err);
    free(blocks);
    return status;
}

/* All parameters and states from one block of zeros. */
static int list_zeros(const gp_plan *plan, void *zeros, gp_tensor_copy *out) {
    int count = 0;
    for (int p = 0; p < plan->graph->param_count; p++) {
        const gp_stage_plan *stage = &plan->stage[stage_of_param(plan, p)];
        int states = gp_stage_plan_param(stage, p)->trained ? plan->update.states : 0;
        for (int s = -1; s < states; s++) out[count++] = (gp_tensor_copy){p, s, zeros};
    }
    return count;
}

gp_status gp_run_clear(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_tensor_copy *copies = NULL;
    void *zeros = NULL;
    gp_status status = GP_NEW(&copies, plan->graph->param_count * (1 + plan->update.states), err);
    if (status == GP_OK) status = gp_new_array(&zeros, 1, gp_run_largest_param(plan), err);
    if (status == GP_OK) status = clear(run, copies, list_zeros(plan, zeros, copies), err);
    free(zeros);
    free(copies);
    return status;
}

size_t gp_run_largest_param(const gp_plan *plan) {
    size_t most = 0;
    for (int s = 0; s < plan->stages->count; s++)
        for (int p = 0; p < plan->stage[s].param_count; p++)
            if (plan->stage[s].params[p].bytes > most) most = plan->stage[s].params[p].bytes;
    return most;
}

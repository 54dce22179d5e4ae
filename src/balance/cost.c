#include "balance/cost.h"

#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/play.h"

double gp_counted_seconds(double flops, double bytes, int threads) {
    double computing = flops / (GP_COUNTED_FLOPS_PER_SECOND * threads);
    double moving = bytes / (GP_COUNTED_BYTES_PER_SECOND * threads);
    return computing > moving ? computing : moving;
}

static gp_status refuse_sum(const gp_graph *graph, int node, const char *what, gp_error *err) {
    gp_status status = gp_fail(err, GP_UNSUPPORTED, "the %s counted up to here exceed what 64 bits can hold", what);
    gp_node_error(&graph->nodes[node], err);
    return status;
}

static gp_status count_node(const gp_graph *graph, int node, int64_t samples, double *seconds, gp_error *err) {
    const gp_node *its = &graph->nodes[node];
    gp_lowering lowering;
    gp_lowering_init(&lowering, GP_F32, samples, (uint32_t)node);
    lowering.evaluate_only = true; /* what training forbids is the plan's to refuse */
    gp_status status = its->layer->type->lower(its->layer, &lowering, err);
    if (status != GP_OK) gp_node_error(its, err);
    *seconds = 0;
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++) {
        const gp_lowered_op *op = &lowering.ops[o];
        if (op->pass != GP_PASS_FORWARD && op->pass != GP_PASS_BACKWARD) continue;
        if (gp_lowered_is_dead(graph, node, op)) continue;
        double flops, bytes;
        gp_op_count(&op->desc, &flops, &bytes);
        *seconds += gp_counted_seconds(flops, bytes, 1);
    }
    gp_lowering_fini(&lowering);
    return status;
}

gp_status gp_cost_by_time(const gp_graph *graph, int64_t samples, int64_t *cost, gp_error *err) {
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) cost[i] = 0;
    for (int n = 0; n < graph->node_count; n++) {
        double seconds;
        GP_RETURN_IF_FAILED(count_node(graph, n, samples, &seconds, err));
        double picoseconds = seconds * 1e12;
        if (picoseconds >= 0x1p62 || !gp_int64_add(total, (int64_t)picoseconds, &total))
            return refuse_sum(graph, n, "picoseconds", err);
        cost[graph->nodes[n].unit] += (int64_t)picoseconds;
    }
    return GP_OK;
}

/* Elements × bytes each, added to *sum; false where that does not fit. */
static bool add_bytes(gp_shape shape, size_t dtype_size, int64_t times, int64_t *sum) {
    int64_t elements, bytes;
    return gp_shape_elements(shape, &elements) && gp_int64_mul(elements, (int64_t)dtype_size, &bytes) &&
           gp_int64_mul(bytes, times, &bytes) && gp_int64_add(*sum, bytes, sum);
}

static bool size_of_node(const gp_graph *graph, int node, int64_t samples, int states, int64_t *bytes) {
    const gp_node *its = &graph->nodes[node];
    if (its->output >= 0) {
        const gp_value *value = &graph->values[its->output];
        if (!add_bytes(value->shape, gp_dtype_size(value->dtype), samples, bytes)) return false;
    }
    for (int i = 0; i < its->param_count; i++) {
        const gp_param *param = &graph->params[its->first_param + i];
        if (!add_bytes(param->spec.shape, gp_dtype_size(GP_F32), param->trained ? 2 + states : 1, bytes)) return false;
    }
    return true;
}

gp_status gp_cost_by_size(const gp_graph *graph, int64_t samples, int optimizer_states, int64_t *cost, gp_error *err) {
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) cost[i] = 0;
    for (int n = 0; n < graph->node_count; n++) {
        int64_t bytes = 0;
        if (!size_of_node(graph, n, samples, optimizer_states, &bytes) || !gp_int64_add(total, bytes, &total))
            return refuse_sum(graph, n, "bytes", err);
        cost[graph->nodes[n].unit] += bytes;
    }
    return GP_OK;
}

typedef struct counter {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    double *busy; /* [worker] */
} counter;

/* One run of a routine on a stage; of ops that differ between the first backward and the rest, those of its kind. */
static double routine_seconds(const gp_stage_plan *stage, const gp_routine *routine, bool first) {
    double seconds = 0;
    for (size_t o = 0; o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        if (op->when == (first ? GP_WHEN_REST : GP_WHEN_FIRST)) continue;
        seconds += gp_counted_seconds(op->prepared->flops, op->prepared->bytes, stage->spec.threads);
    }
    return seconds;
}

static double computing_seconds(const counter *c, const gp_instr *instr) {
    const gp_stage_plan *stage = &c->plan->stage[instr->stage];
    if (instr->op == GP_INSTR_STEP) return routine_seconds(stage, &c->mini->step[instr->stage], false);
    const gp_routine *routine = gp_instr_routine(c->mini, stage, instr);
    if (!routine) return 0;
    double seconds = routine_seconds(stage, routine, (instr->flags & GP_INSTR_FIRST) != 0);
    if (instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST)
        seconds += routine_seconds(stage, &c->mini->total[instr->stage], false);
    return seconds;
}

static double copying_seconds(const counter *c, const gp_instr *instr) {
    size_t offset, bytes, sum = 0;
    if (instr->op == GP_INSTR_LOAD) {
        for (int value = GP_VALUE_INPUT; value <= GP_VALUE_TARGET; value++)
            if (gp_instr_load(c->plan, c->mini, instr, value, &offset, &bytes)) sum += bytes;
    } else if (instr->op == GP_INSTR_RECV) {
        gp_instr_copy(c->plan, c->mini, instr, &offset, &bytes);
        sum = bytes;
    }
    return (double)sum / GP_COUNTED_BYTES_PER_SECOND;
}

static double count_instr(const void *context, int worker, size_t pc, const gp_instr *instr) {
    const counter *c = context;
    (void)pc;
    double computing = computing_seconds(c, instr);
    c->busy[worker] += computing;
    return computing + copying_seconds(c, instr);
}

gp_status gp_expect(const gp_plan *plan, int mini, gp_expectation *out, gp_error *err) {
    counter c = {plan, &plan->minis[mini], NULL};
    gp_play *play = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&c.busy, plan->workers, err));
    gp_status status = gp_play_create(plan->stages, c.mini->programs, c.mini->waits, count_instr, &c, &play, err);
    if (status != GP_OK) {
        free(c.busy);
        return status;
    }
    double busy = 0;
    for (int w = 0; w < plan->workers; w++) busy += c.busy[w];
    out->seconds = play->length;
    out->bubble = play->length > 0 ? 1 - busy / (play->length * plan->workers) : 0;
    out->busy = c.busy;
    gp_play_destroy(&play);
    return GP_OK;
}

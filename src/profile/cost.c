#include "profile/cost.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_plan.h"

static gp_status refuse_sum(const gp_graph *graph, int node, const char *what, gp_error *err) {
    gp_status status =
        gp_fail(err, GP_UNSUPPORTED, "the %s up to this layer add up to more than 64 bits can hold", what);
    gp_node_error(&graph->nodes[node], err);
    return status;
}

static gp_status count_ops(const gp_cost_request *of, int node, double *seconds, gp_error *err) {
    const gp_node *its = &of->graph->nodes[node];
    gp_lowering lowering;
    gp_lowering_init(&lowering, of->graph->types, of->samples, (uint32_t)node);
    lowering.evaluate_only = true; /* what training forbids is the plan's to refuse */
    gp_status status = its->layer->type->lower(its->layer, &lowering, err);
    if (status != GP_OK) gp_node_error(its, err);
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++) {
        gp_lowered_op *op = &lowering.ops[o];
        if (op->pass != GP_PASS_FORWARD && op->pass != GP_PASS_BACKWARD) continue;
        if (gp_lowered_is_dead(of->graph, node, op)) continue;
        double flops, bytes;
        op->desc.threads = (uint32_t)of->threads;
        gp_device_count(of->kind, &op->desc, &flops, &bytes);
        bool repeats = op->pass == GP_PASS_FORWARD && !(op->flags & GP_LOWERED_ONCE);
        *seconds += gp_rates_seconds(&of->rates, flops, bytes) * (repeats ? 1 + of->recomputes : 1);
    }
    gp_lowering_fini(&lowering);
    return status;
}

/* The parameter and its optimizer states are read and written, the gradient is read. */
static double update_seconds(const gp_cost_request *of, const gp_param *param) {
    const gp_tensor tensor = gp_tensor_param(of->graph->types.master, param->spec.shape);
    double bytes = (double)gp_tensor_elements(&tensor) * (double)gp_dtype_size(tensor.dtype);
    return param->trained ? gp_rates_seconds(&of->rates, 0, (3 + 2 * (double)of->optimizer_states) * bytes) : 0;
}

gp_status gp_cost_by_time(const gp_cost_request *of, int64_t *cost, gp_error *err) {
    const gp_graph *graph = of->graph;
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) cost[i] = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const gp_node *its = &graph->nodes[n];
        double seconds = 0;
        GP_RETURN_IF_FAILED(count_ops(of, n, &seconds, err));
        for (int i = 0; i < its->param_count && of->updates > 0; i++)
            seconds += of->updates * update_seconds(of, &graph->params[its->first_param + i]);
        double picoseconds = seconds * 1e12;
        if (picoseconds >= 0x1p62 || !gp_int64_add(total, (int64_t)picoseconds, &total))
            return refuse_sum(graph, n, "picoseconds", err);
        cost[its->unit] += (int64_t)picoseconds;
    }
    return GP_OK;
}

gp_cost_request gp_cost_assumed(const gp_graph *graph, int64_t samples) {
    return (gp_cost_request){.graph = graph, .samples = samples, .threads = 1, .rates = gp_rates_assumed(1)};
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
        if (!add_bytes(param->spec.shape, gp_dtype_size(graph->types.master), param->trained ? 2 + states : 1, bytes))
            return false;
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

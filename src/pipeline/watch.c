/* What a worker looks at in a second pass of a mini-batch, for pipeline/diagnose.h. */
#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/run_internal.h"

/* The loss ends a forward pass and begins a backward pass; the input comes before all layers. Within a node what was
 * seen first stays: a node's ops are one worker's, in order. */
bool gp_finding_is_before(const gp_finding *a, const gp_finding *b) {
    if (a->found != b->found) return a->found;
    if (a->backward != b->backward) return b->backward;
    if (a->turn != b->turn) return a->turn < b->turn;
    return a->backward ? a->node > b->node : a->node < b->node;
}

/* What an instruction of this pass has found, but for the tensor. */
static gp_finding at(const gp_worker *worker, const gp_instr *instr, int node, gp_operand_role role) {
    const gp_programs *programs = worker->run->plan->minis[worker->run->command.mini].programs;
    bool backward = gp_instr_is_backward(instr);
    int turn = backward && programs->descending ? programs->pieces - 1 - instr->micro : instr->micro;
    return (gp_finding){.backward = backward, .turn = turn, .micro = instr->micro, .node = node, .role = role};
}

static void look_at_row(gp_finding *finding, gp_dtype dtype, const void *values, int64_t first, int64_t count) {
    const char *row = (const char *)values + (size_t)first * gp_dtype_size(dtype);
    gp_nonfinite found = gp_nonfinite_find(dtype, row, count);
    if (finding->bad == 0) finding->first = found.first;
    finding->bad += found.count;
}

/* Only its own elements: what lies between them is another's, and may not be written yet. */
static void look_at_plain(gp_finding *finding, const gp_tensor *tensor, const void *values) {
    int64_t rows = gp_tensor_rows(tensor), width = tensor->rank ? tensor->dim[tensor->rank - 1] : 1;
    for (int64_t row = 0; row < rows; row++) {
        int64_t first = 0, rest = row;
        for (int d = tensor->rank - 2; d >= 0; d--) {
            first += rest % tensor->dim[d] * tensor->stride[d];
            rest /= tensor->dim[d];
        }
        look_at_row(finding, tensor->dtype, values, first, width);
    }
}

/* Where a tensor lies in the arena: `queue` wrote it; a parameter may have a format of its own there. */
typedef struct source {
    gp_queue queue;
    const gp_param_plan *param; /* NULL: no parameter */
    const void *address;
    size_t bytes;
} source;

/* To `values`; a parameter in PyTorch's order. */
static gp_status fetch(gp_worker *worker, void *values, const source *from, gp_error *err) {
    gp_stream *queue = worker->queue[from->queue];
    size_t offset = (size_t)((const char *)from->address - (const char *)worker->arena);
    const gp_block block = {worker->index, offset, from->bytes, values, from->param};
    const gp_device_kind *kind = gp_worker_kind(worker);
    GP_RETURN_IF_FAILED(from->param ? gp_worker_copy_block(worker, &block, false, err)
                                    : kind->copy_out(queue, values, from->address, from->bytes, err));
    return kind->stream_finish(queue, &worker->run->cancel, err);
}

/* `place` says where the tensor stands. What is no parameter is looked at as it lies. */
static gp_status look(gp_worker *worker, gp_finding place, const gp_tensor *tensor, const source *from, gp_error *err) {
    gp_finding *first = &worker->run->watches[worker->index];
    void *values = NULL;
    place.found = true;
    if (!gp_finding_is_before(&place, first)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_new_array(&values, from->bytes, 1, err));
    gp_status status = fetch(worker, values, from, err);
    if (status == GP_OK && tensor->format == GP_FORMAT_PLAIN)
        look_at_plain(&place, tensor, values);
    else if (status == GP_OK)
        look_at_row(&place, tensor->dtype, values, 0, (int64_t)(from->bytes / gp_dtype_size(tensor->dtype)));
    place.elements = gp_tensor_elements(tensor);
    if (place.bad > 0) *first = place;
    free(values);
    return status;
}

gp_status gp_watch_params(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    bool training = plan->minis[worker->run->command.mini].training;
    for (int s = 0; s < plan->stages->count; s++) {
        const gp_stage_plan *stage = &plan->stage[s];
        for (int i = 0; i < stage->param_count && stage->worker == worker->index; i++) {
            const gp_param *param = &plan->graph->params[stage->params[i].param];
            /* Training uses running statistics only of frozen layers. */
            if (param->spec.buffer && training && !plan->graph->nodes[param->node].layer->frozen) continue;
            gp_finding place = {.node = param->node, .role = {GP_ROLE_PARAM, param->index}};
            gp_tensor tensor = gp_tensor_param(plan->types.master, param->spec.shape);
            const source from = {GP_QUEUE_COMPUTE, &stage->params[i],
                                 worker->arena + stage->base + stage->params[i].master, stage->params[i].bytes};
            GP_RETURN_IF_FAILED(look(worker, place, &tensor, &from, err));
        }
    }
    return GP_OK;
}

gp_status gp_watch_load(gp_worker *worker, const gp_instr *instr, int value, const void *address, size_t bytes,
                        gp_error *err) {
    const gp_graph *graph = worker->run->plan->graph;
    gp_dtype dtype = graph->values[value].dtype;
    if (!gp_dtype_is_real(dtype)) return GP_OK;
    int node = value == GP_VALUE_INPUT ? -1 : graph->node_count - 1;
    int64_t elements = (int64_t)(bytes / gp_dtype_size(dtype));
    const gp_tensor tensor = gp_tensor_plain(dtype, 1, &elements);
    const source from = {GP_QUEUE_IN, NULL, address, bytes};
    return look(worker, at(worker, instr, node, (gp_operand_role){GP_ROLE_INPUT, value}), &tensor, &from, err);
}

gp_status gp_watch_op(gp_worker *worker, const gp_exec_op *op, void *const operands[], const gp_instr *instr,
                      gp_error *err) {
    if (op->node < 0 || (instr->op != GP_INSTR_FORWARD && !gp_instr_is_backward(instr))) return GP_OK;
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++) {
        const gp_tensor *tensor = &op->prepared->desc.operand[i];
        if (!operands[i] || !gp_dtype_is_real(tensor->dtype) || !gp_op_writes(op->prepared->desc.kind, (int)i))
            continue;
        const source from = {GP_QUEUE_COMPUTE, NULL, operands[i], op->prepared->operand[i].bytes};
        GP_RETURN_IF_FAILED(look(worker, at(worker, instr, op->node, op->role[i]), tensor, &from, err));
        gp_pulse_go_on(&worker->pulse); /* to look takes longer than to compute */
    }
    return GP_OK;
}

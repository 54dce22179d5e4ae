/* What a worker looks at in a second pass of a mini-batch, for pipeline/diagnose.h. */
#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/run_internal.h"

/* ---- what comes first -------------------------------------------------------------------------------------------- */

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

/* ---- looking at values ------------------------------------------------------------------------------------------- */

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

static gp_status fetch(gp_worker *worker, gp_queue queue, gp_watch *watch, const void *address, size_t bytes,
                       gp_error *err) {
    const gp_device_kind *kind = worker->run->plan->devices[worker->index].kind;
    if (bytes > watch->capacity) {
        free(watch->values);
        watch->values = NULL;
        watch->capacity = 0;
        GP_RETURN_IF_FAILED(gp_new_array(&watch->values, bytes, 1, err));
        watch->capacity = bytes;
    }
    GP_RETURN_IF_FAILED(kind->copy_out(worker->queue[queue], watch->values, address, bytes, err));
    return kind->stream_finish(worker->queue[queue], &worker->run->cancel, err);
}

/* `queue` is where it was written. `place` says where the tensor stands; a device's own format is looked at as it lies,
 * and its padding is zeros. */
static gp_status look(gp_worker *worker, gp_queue queue, gp_finding place, const gp_tensor *tensor, const void *address,
                      size_t bytes, gp_error *err) {
    gp_watch *watch = &worker->run->watches[worker->index];
    place.found = true;
    if (!gp_finding_is_before(&place, &watch->finding)) return GP_OK;
    GP_RETURN_IF_FAILED(fetch(worker, queue, watch, address, bytes, err));
    if (tensor->format == GP_FORMAT_PLAIN)
        look_at_plain(&place, tensor, watch->values);
    else
        look_at_row(&place, tensor->dtype, watch->values, 0, (int64_t)(bytes / gp_dtype_size(tensor->dtype)));
    place.elements = gp_tensor_elements(tensor);
    if (place.bad > 0) watch->finding = place;
    return GP_OK;
}

static gp_status look_flat(gp_worker *worker, gp_queue queue, gp_finding place, gp_dtype dtype, const void *address,
                           size_t bytes, gp_error *err) {
    int64_t elements = (int64_t)(bytes / gp_dtype_size(dtype));
    gp_tensor tensor = gp_tensor_plain(dtype, 1, &elements);
    return look(worker, queue, place, &tensor, address, bytes, err);
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
            tensor.format = stage->params[i].format;
            GP_RETURN_IF_FAILED(look(worker, GP_QUEUE_COMPUTE, place, &tensor,
                                     worker->arena + stage->base + stage->params[i].master, stage->params[i].stored,
                                     err));
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
    return look_flat(worker, GP_QUEUE_IN, at(worker, instr, node, (gp_operand_role){GP_ROLE_INPUT, value}), dtype,
                     address, bytes, err);
}

gp_status gp_watch_op(gp_worker *worker, const gp_exec_op *op, void *const operands[], const gp_instr *instr,
                      gp_error *err) {
    if (op->node < 0 || (instr->op != GP_INSTR_FORWARD && !gp_instr_is_backward(instr))) return GP_OK;
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++) {
        const gp_tensor *tensor = &op->prepared->desc.operand[i];
        if (!operands[i] || !gp_dtype_is_real(tensor->dtype) || !gp_op_writes(op->prepared->desc.kind, (int)i))
            continue;
        GP_RETURN_IF_FAILED(look(worker, GP_QUEUE_COMPUTE, at(worker, instr, op->node, op->role[i]), tensor,
                                 operands[i], op->prepared->operand[i].bytes, err));
    }
    return GP_OK;
}

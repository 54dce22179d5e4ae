#include "cuda/labels.h"

#include <stdio.h>

#include "cuda/recorder.h"
#include "device/cuda/cuda.h"

enum { MOST_OPS = 256 };

/* The instruction that the thread is at, and how many of its ops the device was given. */
static _Thread_local struct {
    const gp_plan *plan;
    gp_site site;
    size_t given;
} here;

void labels_come_to(const gp_plan *plan, const gp_site *site) {
    here.plan = plan;
    here.site = *site;
    here.given = 0;
}

static size_t add_ops(const gp_routine *routine, size_t count, const gp_exec_op *ops[MOST_OPS]) {
    gp_when skipped = here.site.instr->flags & GP_INSTR_FIRST ? GP_WHEN_REST : GP_WHEN_FIRST;
    for (size_t o = 0; routine && o < routine->count && count < MOST_OPS; o++)
        if (routine->ops[o].when != skipped) ops[count++] = &routine->ops[o];
    return count;
}

static size_t list_ops(const gp_exec_op *ops[MOST_OPS]) {
    const gp_instr *instr = here.site.instr;
    const gp_mini_plan *mini = &here.plan->minis[here.site.mini];
    if (instr->op == GP_INSTR_STEP) return add_ops(&mini->step[instr->stage], 0, ops);
    size_t count = add_ops(gp_instr_routine(mini, &here.plan->stage[instr->stage], instr), 0, ops);
    bool total = instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST;
    return total ? add_ops(&mini->total[instr->stage], count, ops) : count;
}

static void widen(const gp_exec_op *op, int *first, int *last) {
    if (op->node < *first) *first = op->node;
    if (op->node + op->beyond > *last) *last = op->node + op->beyond;
    for (int p = 0; p < op->part_count; p++)
        if (op->part[p].node < *first) *first = op->part[p].node;
}

static void write_label(char *text, size_t bytes) {
    const gp_exec_op *ops[MOST_OPS];
    size_t count = here.plan ? list_ops(ops) : 0, at = here.given;
    text[0] = '\0';
    if (at >= count || ops[at]->node < 0) return;
    int node = ops[at]->node, first = node, last = node;
    size_t from = at, to = at + 1;
    while (from > 0 && ops[from - 1]->node == node) from--;
    while (to < count && ops[to]->node == node) to++;
    for (size_t o = from; o < to; o++) widen(ops[o], &first, &last);
    const gp_node *nodes = here.plan->graph->nodes;
    if (first == last)
        snprintf(text, bytes, "layer \"%s\"", nodes[first].name);
    else
        snprintf(text, bytes, "layers \"%s\" to \"%s\"", nodes[first].name, nodes[last].name);
}

static gp_status run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    char label[RECORDER_LABEL];
    write_label(label, sizeof label);
    recorder_label(label);
    gp_status status = gp_cuda_kind.run(stream, op, args, err);
    recorder_label("");
    here.given++;
    return status;
}

static gp_status run_many(gp_stream *stream, const gp_device_op *ops, int count, const gp_op_args *args,
                          gp_error *err) {
    here.given += (size_t)count;
    return gp_cuda_kind.run_many(stream, ops, count, args, err);
}

const gp_device_kind *labels_kind(void) {
    static gp_device_kind kind;
    kind = gp_cuda_kind;
    kind.run = run;
    kind.run_many = run_many;
    return &kind;
}

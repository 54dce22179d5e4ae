#include "pipeline/notes.h"

double gp_note_seconds = 30e-6;

static const double launch = 2e-6, flops = 100e12, flops_tf32 = 500e12, bytes = 5e12;

double gp_note_estimate(const gp_prepared *prepared) {
    double computes = prepared->flops / (prepared->desc.flags & GP_OP_TF32 ? flops_tf32 : flops);
    double moves = prepared->bytes / bytes;
    return launch + (computes > moves ? computes : moves);
}

bool gp_note_behind(const gp_routine *routine, size_t op, gp_when skipped, double *since) {
    const gp_exec_op *ops = routine->ops;
    if (ops[op].when == skipped) return false;
    *since += gp_note_estimate(ops[op].prepared);
    if (*since < gp_note_seconds) return false;
    size_t next = op + 1;
    while (next < routine->count && ops[next].when == skipped) next++;
    if (next == routine->count || ops[next].node == ops[op].node) return false;
    *since = 0;
    return true;
}

bool gp_note_nodes(const gp_exec_op *op, int *first, int *last) {
    if (op->node < 0) return false;
    *first = op->node;
    *last = op->node + op->beyond;
    for (int p = 0; p < op->part_count; p++) {
        if (op->part[p].node < *first) *first = op->part[p].node;
        if (op->part[p].node > *last) *last = op->part[p].node;
    }
    return true;
}

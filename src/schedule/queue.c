#include "schedule/queue.h"

gp_queue gp_instr_queue(const gp_stages *stages, const gp_instr *instr) {
    if (instr->op == GP_INSTR_LOAD) return GP_QUEUE_IN;
    if (instr->op != GP_INSTR_RECV || gp_edge_is_fixed(&stages->edges[instr->edge])) return GP_QUEUE_COMPUTE;
    return stages->edges[instr->edge].kind == GP_EDGE_GRADIENT ? GP_QUEUE_BACK : GP_QUEUE_IN;
}

#include "schedule/lives.h"

#include "schedule/waits.h"

static unsigned end_gradient(const gp_stage *stage, const gp_life *life) {
    return life->weight && life->grads_sent == stage->grad_out.count ? 1U << GP_FRAME_GRAD : 0;
}

static unsigned end_sent(const gp_stages *stages, const gp_instr *instr, gp_life *life) {
    const gp_stage *stage = &stages->stage[instr->stage];
    if (gp_edge_is_fixed(&stages->edges[instr->edge])) return 0;
    if (stages->edges[instr->edge].kind == GP_EDGE_GRADIENT) {
        life->grads_sent++;
        return end_gradient(stage, life);
    }
    return ++life->sent == stage->out.count ? 1U << GP_FRAME_OUTBOX : 0;
}

unsigned gp_life_end(const gp_stages *stages, bool training, const gp_instr *instr, gp_life *life) {
    switch (instr->op) {
    case GP_INSTR_FORWARD: return training ? 0 : 1U << GP_FRAME_STASH;
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_WEIGHT:
        life->weight = true;
        return 1U << GP_FRAME_STASH | 1U << GP_FRAME_SAVED | end_gradient(&stages->stage[instr->stage], life);
    case GP_INSTR_SEND: return end_sent(stages, instr, life);
    default: return 0;
    }
}

/* Addresses of instructions: the functions of plan.h about offsets in an arena. */
#include <stddef.h>

#include "plan/plan.h"

gp_slot_choice gp_instr_slots(const gp_stages *stages, const gp_instr *instr) {
    const gp_accesses its = gp_instr_accesses(stages, instr);
    gp_slot_choice choice = {{0}};
    for (int f = 0; f < GP_FRAMES; f++)
        if (its.frame[f].uses) choice.slot[f] = gp_instr_get_slot(instr, its.frame[f]);
    return choice;
}

size_t gp_plan_offset(const gp_plan *plan, const gp_stage_plan *stage, const gp_slot_choice *slots, int micro,
                      gp_address address) {
    switch (address.area) {
    case GP_AREA_STASH:
    case GP_AREA_SAVED:
    case GP_AREA_OUTBOX:
    case GP_AREA_GRAD: {
        gp_frame frame = (gp_frame)(address.area - 1);
        return stage->base + stage->frame_base[frame] + slots->slot[frame] * stage->frame_stride[frame] +
               address.offset;
    }
    case GP_AREA_FIXED: return stage->base + address.offset + address.per_micro * (size_t)micro;
    case GP_AREA_TRANSIENT: return plan->transient_base[stage->worker] + address.offset;
    case GP_AREA_EVALUATE: return plan->evaluation_base[stage->worker] + address.offset;
    case GP_AREA_NONE:
    case GP_AREAS: break;
    }
    return 0;
}

bool gp_instr_routine_kind(bool training, const gp_instr *instr, gp_routine_kind *kind) {
    switch (instr->op) {
    case GP_INSTR_FORWARD:
        *kind = instr->flags & GP_INSTR_KEEP ? GP_ROUTINE_KEEP : GP_ROUTINE_DISCARD;
        if (!training) *kind = GP_ROUTINE_EVALUATE;
        return true;
    case GP_INSTR_RECOMPUTE: *kind = GP_ROUTINE_RECOMPUTE; return true;
    case GP_INSTR_BACKWARD: *kind = GP_ROUTINE_BACKWARD; return true;
    case GP_INSTR_BACKWARD_INPUT: *kind = GP_ROUTINE_BACKWARD_INPUT; return true;
    case GP_INSTR_BACKWARD_WEIGHT: *kind = GP_ROUTINE_BACKWARD_WEIGHT; return true;
    default: return false;
    }
}

const gp_routine *gp_instr_routine(const gp_mini_plan *mini, const gp_stage_plan *stage, const gp_instr *instr) {
    gp_routine_kind kind;
    if (gp_instr_routine_kind(mini->training, instr, &kind))
        return &gp_mini_sized(mini, stage, instr->micro)->routine[kind];
    switch (instr->op) {
    case GP_INSTR_NORM: return &stage->norm;
    case GP_INSTR_CLIP: return &stage->clip;
    default: return NULL;
    }
}

int gp_instr_routines(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr,
                      const gp_routine *out[GP_INSTR_ROUTINES]) {
    out[0] = instr->op == GP_INSTR_STEP ? &mini->step[instr->stage]
                                        : gp_instr_routine(mini, &plan->stage[instr->stage], instr);
    if (!out[0]) return 0;
    if (instr->op != GP_INSTR_FORWARD || !(instr->flags & GP_INSTR_LAST)) return 1;
    out[1] = &mini->total[instr->stage];
    return 2;
}

static gp_address copy_address(const gp_plan *plan, const gp_sized *sized, const gp_instr *instr) {
    const gp_edge *edge = &plan->stages->edges[instr->edge];
    const gp_stage *stage = &plan->stages->stage[instr->stage];
    const gp_stage_plan *its = &plan->stage[instr->stage];
    bool send = instr->op == GP_INSTR_SEND;
    if (edge->kind == GP_EDGE_GRADIENT) {
        const gp_indices *edges = send ? &stage->grad_out : &stage->grad_in;
        const size_t *offsets = send ? its->grad_out : its->grad_in;
        return (gp_address){GP_AREA_GRAD, offsets[gp_indices_find(edges, (int)instr->edge)], 0};
    }
    if (!send) return (gp_address){GP_AREA_STASH, its->takes[gp_indices_find(&stage->takes, edge->value)], 0};
    int give = gp_indices_find(&stage->gives, edge->value);
    if (instr->flags & GP_INSTR_KEEP) return (gp_address){GP_AREA_SAVED, sized->gives_saved[give], 0};
    return (gp_address){GP_AREA_OUTBOX, sized->gives_outbox[give], 0};
}

/* Where the part that stage `from` contributes lies on stage `at`. */
static gp_move part_move(const gp_plan *plan, const gp_collective *collective, int from, int at) {
    const gp_stage_plan *stage = &plan->stage[at], *its = &plan->stage[from];
    gp_move move = {.from = from, .value = -1, .offset = stage->base};
    if (collective->part == GP_PART_SCALARS) {
        size_t first = offsetof(gp_step_scalars, loss_sum);
        move.offset += stage->scalars + first;
        move.bytes = sizeof(gp_step_scalars) - first;
        return move;
    }
    size_t before = at == collective->root ? its->squares_before : 0;
    move.offset += stage->squares + before * sizeof(double);
    move.bytes = its->square_count * sizeof(double);
    return move;
}

static gp_move value_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int from, int value,
                          gp_address address) {
    const gp_slot_choice slots = gp_instr_slots(plan->stages, instr);
    return (gp_move){.from = from,
                     .value = value,
                     .offset = gp_plan_offset(plan, &plan->stage[instr->stage], &slots, instr->micro, address),
                     .bytes = gp_value_bytes(plan->graph, value, gp_mini_samples(mini, instr->micro))};
}

/* Input and target, if the stage takes them. */
static bool load_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int i, gp_move *out) {
    for (int value = GP_VALUE_INPUT; value <= GP_VALUE_TARGET; value++) {
        int take = gp_indices_find(&plan->stages->stage[instr->stage].takes, value);
        if (take < 0 || i-- > 0) continue;
        gp_address address = {GP_AREA_STASH, plan->stage[instr->stage].takes[take], 0};
        *out = value_move(plan, mini, instr, -1, value, address);
        return true;
    }
    return false;
}

bool gp_instr_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int i, gp_move *out) {
    const gp_stages *stages = plan->stages;
    if (instr->op == GP_INSTR_LOAD) return load_move(plan, mini, instr, i, out);
    if (gp_instr_has_edge(instr)) {
        const gp_edge *edge = &stages->edges[instr->edge];
        const gp_sized *sized = gp_mini_sized(mini, &plan->stage[instr->stage], instr->micro);
        if (i == 0) *out = value_move(plan, mini, instr, edge->from, edge->value, copy_address(plan, sized, instr));
        return i == 0;
    }
    if (!gp_instr_has_collective(instr)) return false;
    const gp_collective *its = &stages->collectives[instr->collective];
    bool posts = instr->op == GP_INSTR_POST;
    if (i >= (posts ? 1 : (int)its->contributors.count)) return false;
    *out = part_move(plan, its, posts ? instr->stage : its->contributors.items[i], instr->stage);
    return true;
}

size_t gp_instr_bytes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    gp_move move;
    size_t sum = 0;
    for (int i = 0; gp_instr_move(plan, mini, instr, i, &move); i++) sum += move.bytes;
    return sum;
}

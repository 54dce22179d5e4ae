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
    case GP_INSTR_REDUCE: return &mini->reduce[instr->stage][instr->collective - stage->scatter];
    case GP_INSTR_UPDATE: return &stage->update;
    case GP_INSTR_TOTAL: return &mini->total[instr->stage];
    default: return NULL;
    }
}

int gp_instr_routines(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr,
                      const gp_routine *out[GP_INSTR_ROUTINES]) {
    out[0] = instr->op == GP_INSTR_STEP ? &mini->step[instr->stage]
                                        : gp_instr_routine(mini, &plan->stage[instr->stage], instr);
    if (!out[0]) return 0;
    if (instr->op != GP_INSTR_FORWARD || !(instr->flags & GP_INSTR_LAST)) return 1;
    if (plan->stages->stage[instr->stage].replicas > 1) return 1;
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

/* Statistics that a collective carries. */
static bool carries(const gp_plan *plan, const gp_collective *collective, const gp_stats_plan *stats) {
    return stats->flags & GP_STATS_MERGED &&
           (stats->node == plan->graph->node_count - 1) == (collective->part == GP_PART_LOSSES);
}

/* Ranges of memory that a contributor's part is made of. A replica without samples has found nothing; but its sums of
 * gradients are there. */
static int count_ranges(const gp_plan *plan, const gp_mini_plan *mini, const gp_collective *its, int from) {
    const gp_stage_plan *stage = &plan->stage[from];
    int micros = gp_micros_count(gp_micros_of_stage(gp_mini_pieces(mini), &plan->stages->stage[from])), count = 0;
    if (its->part == GP_PART_GRADIENTS && its->kind == GP_COLLECTIVE_SCATTER) return micros > 0;
    if (its->part != GP_PART_LOSSES && its->part != GP_PART_STATISTICS) return 1;
    for (size_t i = 0; i < stage->stats_count; i++) count += carries(plan, its, &stage->stats[i]);
    return count * micros;
}

/* Where the n-th range of the part of stage `from`, a replica, lies on a stage. */
static size_t stats_offset(const gp_plan *plan, const gp_mini_plan *mini, const gp_collective *its,
                           const gp_stage_plan *stage, int from, int n, size_t *bytes) {
    const gp_stage *sender = &plan->stages->stage[from];
    gp_micros micros = gp_micros_of_stage(gp_mini_pieces(mini), sender);
    int skip = n / gp_micros_count(micros), micro = micros.first + n % gp_micros_count(micros);
    const gp_stats_plan *stats = stage->stats;
    while (!carries(plan, its, stats) || skip-- > 0) stats++;
    *bytes = stats->bytes;
    return stats->offset + (size_t)micro * stats->stride + (size_t)sender->replica * stats->bytes;
}

/* What goes of a bucket from one replica to another: of a scatter the receiver's part, or to a post all of the bucket;
 * of an exchange the sender's part. Those of others lie apart until they are added up. */
static void gradient_move(const gp_plan *plan, const gp_collective *its, int from, int at, gp_move *move) {
    const gp_stage_plan *stage = &plan->stage[at], *sender = &plan->stage[from];
    int sends = plan->stages->stage[from].replica, receives = plan->stages->stage[at].replica;
    bool scatters = its->kind == GP_COLLECTIVE_SCATTER;
    gp_share part = gp_stage_plan_part(stage, plan->stages, its->bucket, scatters ? receives : sends);
    if (scatters && from == at) part = gp_stage_plan_bucket(stage, its->bucket, its->buckets);
    move->bytes = (size_t)part.count;
    move->source = sender->grads + (size_t)part.first;
    move->offset = stage->grads + (size_t)part.first;
    if (scatters && from != at && part.count > 0)
        move->offset = gp_stage_plan_others(stage, plan->stages, its->bucket, receives, sends);
}

/* The n-th range of the part that stage `from` contributes, on stage `at`, which may be the same. */
static gp_move part_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_collective *its, int from, int at,
                         int n) {
    const gp_stage_plan *stage = &plan->stage[at], *sender = &plan->stage[from];
    const size_t first = offsetof(gp_step_scalars, loss_sum);
    gp_move move = {.from = from, .value = -1};
    switch (its->part) {
    case GP_PART_SCALARS:
        move.offset = stage->scalars + first;
        move.source = sender->scalars + first;
        move.bytes = sizeof(gp_step_scalars) - first;
        break;
    case GP_PART_SQUARES:
        move.offset = stage->squares + (at == its->root ? sender->squares_before : 0) * sizeof(double);
        move.source = sender->squares;
        move.bytes = sender->square_count * sizeof(double);
        break;
    case GP_PART_LOSSES:
    case GP_PART_STATISTICS:
        move.offset = stats_offset(plan, mini, its, stage, from, n, &move.bytes);
        move.source = stats_offset(plan, mini, its, sender, from, n, &move.bytes);
        break;
    case GP_PART_GRADIENTS: gradient_move(plan, its, from, at, &move); break;
    case GP_PART_BLOCKS:
    case GP_PART_PARAMETERS: {
        gp_share (*find)(const gp_stage_plan *, int) =
            its->part == GP_PART_BLOCKS ? gp_stage_plan_blocks : gp_stage_plan_masters;
        int replica = plan->stages->stage[from].replica;
        gp_share there = find(sender, replica);
        move.offset = (size_t)find(stage, replica).first;
        move.source = (size_t)there.first;
        move.bytes = (size_t)there.count;
        break;
    }
    }
    move.offset += stage->base;
    move.source += sender->base;
    return move;
}

/* A stage need not copy from itself. */
static bool next_part(gp_moves *its, gp_move *out) {
    const gp_collective *collective = &its->plan->stages->collectives[its->instr->collective];
    bool posts = its->instr->op == GP_INSTR_POST;
    for (; its->contributor < collective->contributors.count; its->contributor++) {
        int from = collective->contributors.items[its->contributor];
        if ((from == its->instr->stage) != posts) continue;
        if (its->ranges < 0) its->ranges = count_ranges(its->plan, its->mini, collective, from);
        if (its->next < its->ranges) {
            *out = part_move(its->plan, its->mini, collective, from, its->instr->stage, its->next++);
            return true;
        }
        its->next = 0;
        its->ranges = -1;
    }
    return false;
}

/* A stage's samples of a value from `first` on, in the mini-batch. */
static gp_move value_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int from, int value,
                          gp_share samples, gp_address address) {
    const gp_slot_choice slots = gp_instr_slots(plan->stages, instr);
    gp_share own = gp_mini_share(mini, &plan->stages->stage[instr->stage], instr->micro);
    size_t sample = gp_value_bytes(plan->graph, value, 1);
    size_t before = samples.count ? (size_t)(samples.first - own.first) * sample : 0;
    return (gp_move){.from = from,
                     .value = value,
                     .offset = gp_plan_offset(plan, &plan->stage[instr->stage], &slots, instr->micro, address) + before,
                     .bytes = (size_t)samples.count * sample,
                     .first = samples.first};
}

/* Input and target, if the stage takes them. */
static bool load_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int i, gp_move *out) {
    const gp_stage *stage = &plan->stages->stage[instr->stage];
    for (int value = GP_VALUE_INPUT; value <= GP_VALUE_TARGET; value++) {
        int take = gp_indices_find(&stage->takes, value);
        if (take < 0 || i-- > 0) continue;
        gp_address address = {GP_AREA_STASH, plan->stage[instr->stage].takes[take], 0};
        *out = value_move(plan, mini, instr, -1, value, gp_mini_share(mini, stage, instr->micro), address);
        return true;
    }
    return false;
}

static gp_move copy_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_edge *edge = &plan->stages->edges[instr->edge];
    const gp_sized *sized = gp_mini_sized(mini, &plan->stage[instr->stage], instr->micro);
    gp_share common = gp_share_common(gp_mini_share(mini, &plan->stages->stage[edge->from], instr->micro),
                                      gp_mini_share(mini, &plan->stages->stage[edge->to], instr->micro));
    return value_move(plan, mini, instr, edge->from, edge->value, common, copy_address(plan, sized, instr));
}

bool gp_moves_next(gp_moves *its, gp_move *out) {
    if (gp_instr_joins(its->instr)) return next_part(its, out);
    if (its->instr->op == GP_INSTR_LOAD) return load_move(its->plan, its->mini, its->instr, its->next++, out);
    if (!gp_instr_has_edge(its->instr) || its->next++ > 0) return false;
    *out = copy_move(its->plan, its->mini, its->instr);
    return true;
}

bool gp_instr_move(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, int i, gp_move *out) {
    gp_moves moves = gp_moves_of(plan, mini, instr);
    while (gp_moves_next(&moves, out))
        if (i-- == 0) return true;
    return false;
}

/* Where the part of a replica lies on a stage. */
static size_t part_offset(const gp_stage_plan *stage, const gp_exchange *exchange, int replica, int micro) {
    const gp_stats_plan *stats = &stage->stats[exchange->stats];
    return stage->base + stats->offset + (size_t)micro * stats->stride + (size_t)replica * stats->bytes;
}

bool gp_exchange_move(const gp_plan *plan, const gp_stage_plan *stage, const gp_exchange *exchange, int micro, int i,
                      gp_move *out) {
    int own = plan->stages->stage[stage->stage].replica;
    int replica = exchange->first + i + (exchange->first + i >= own);
    if (replica >= exchange->first + exchange->count) return false;
    int from = stage->stage - own + replica;
    *out = (gp_move){.from = from,
                     .value = -1,
                     .offset = part_offset(stage, exchange, replica, micro),
                     .source = part_offset(&plan->stage[from], exchange, replica, micro),
                     .bytes = stage->stats[exchange->stats].bytes};
    return true;
}

size_t gp_exchange_own(const gp_plan *plan, const gp_stage_plan *stage, const gp_exchange *exchange, int micro) {
    return part_offset(stage, exchange, plan->stages->stage[stage->stage].replica, micro);
}

size_t gp_instr_bytes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    gp_moves moves = gp_moves_of(plan, mini, instr);
    gp_move move;
    size_t sum = 0;
    while (gp_moves_next(&moves, &move)) sum += move.bytes;
    return sum;
}

/* What an instruction may touch: the rules of program.h and stage_plan.h, read by somebody else. */
#include <string.h>

#include "pipeline/shadow_internal.h"

/* Which slot of a frame an instruction has, by program.h's table; −1: none. */
static int slot_of(const gp_plan *plan, const gp_instr *instr, gp_frame frame) {
    bool keep = instr->flags & GP_INSTR_KEEP;
    bool computes = instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE || gp_instr_is_backward(instr);
    bool copies = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
    bool gradient = copies && plan->stages->edges[instr->edge].kind == GP_EDGE_GRADIENT, value = copies && !gradient;
    switch (frame) {
    case GP_FRAME_STASH:
        if (computes || instr->op == GP_INSTR_LOAD || (value && instr->op == GP_INSTR_RECV)) return instr->slot;
        break;
    case GP_FRAME_SAVED:
        if (computes && (instr->op != GP_INSTR_FORWARD || keep)) return instr->work;
        if (value && instr->op == GP_INSTR_SEND && keep) return instr->slot;
        break;
    case GP_FRAME_OUTBOX:
        if (instr->op == GP_INSTR_FORWARD && !keep) return instr->work;
        if (value && instr->op == GP_INSTR_SEND && !keep) return instr->slot;
        break;
    case GP_FRAME_GRAD:
        if (gp_instr_is_backward(instr)) return instr->grad;
        if (gradient) return instr->slot;
        break;
    case GP_FRAMES: break;
    }
    return -1;
}

static bool may_write_frame(const gp_instr *instr, gp_frame frame) {
    switch (frame) {
    case GP_FRAME_STASH: /* a forward adds what is kept although its stage recomputes */
        return instr->op == GP_INSTR_LOAD || instr->op == GP_INSTR_RECV || instr->op == GP_INSTR_FORWARD;
    case GP_FRAME_SAVED: return instr->op != GP_INSTR_SEND; /* backward may overwrite what it reads last */
    case GP_FRAME_OUTBOX: return instr->op == GP_INSTR_FORWARD;
    case GP_FRAME_GRAD: return instr->op == GP_INSTR_RECV || gp_instr_is_backward(instr);
    case GP_FRAMES: break;
    }
    return false;
}

/* A stretch of the fixed part with one purpose. */
typedef struct part {
    uint32_t owner;          /* once written */
    bool writable, readable; /* by the instruction */
} part;

static bool within(size_t offset, size_t bytes, size_t first, size_t length) {
    return offset >= first && offset + bytes <= first + length;
}

/* Whether the instruction posts or collects parts of that kind. */
static bool carries(const gp_plan *plan, const gp_instr *instr, gp_instr_op op, gp_part_kind kind) {
    return instr->op == op && plan->stages->collectives[instr->collective].part == kind;
}

static bool posts(const gp_plan *plan, const gp_instr *instr, gp_part_kind kind) {
    return carries(plan, instr, GP_INSTR_POST, kind);
}

static bool collects(const gp_plan *plan, const gp_instr *instr, gp_part_kind kind) {
    return carries(plan, instr, GP_INSTR_COLLECT, kind);
}

static bool finds_total(const gp_instr *instr) {
    return instr->op == GP_INSTR_TOTAL || (instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST);
}

static bool find_squares(const gp_plan *plan, const gp_stage_plan *stage, const gp_instr *instr, size_t at,
                         size_t bytes, part *out) {
    bool last = stage->stage == gp_stages_root(plan->stages), norm = instr->op == GP_INSTR_NORM;
    size_t others = last ? stage->squares_before * sizeof(double) : 0, own = stage->square_count * sizeof(double);
    if (!plan->stages->norms || bytes == 0 || !within(at, bytes, stage->squares, others + own)) return false;
    bool its = within(at, bytes, stage->squares + others, own), before = within(at, bytes, stage->squares, others);
    *out = (part){.owner = MINI_BATCH,
                  .writable = its ? norm : before && collects(plan, instr, GP_PART_SQUARES),
                  .readable = instr->op == GP_INSTR_CLIP || (its && posts(plan, instr, GP_PART_SQUARES))};
    return true;
}

/* A replica's own of this micro-batch, or what others have found. */
static bool find_stats(const gp_plan *plan, const gp_stage_plan *stage, int pieces, const gp_instr *instr, size_t at,
                       size_t bytes, part *out) {
    size_t replica = (size_t)plan->stages->stage[stage->stage].replica;
    bool computes = gp_instr_computes(instr) && gp_instr_has_micro(instr);
    for (size_t i = 0; i < stage->stats_count; i++) {
        const gp_stats_plan *stats = &stage->stats[i];
        if (!within(at, bytes, stats->offset, stats->stride * (size_t)pieces)) continue;
        gp_part_kind kind = stats->node == plan->graph->node_count - 1 ? GP_PART_LOSSES : GP_PART_STATISTICS;
        size_t in_micro = (at - stats->offset) % stats->stride, micro = (at - stats->offset) / stats->stride;
        bool own = within(in_micro, bytes, stats->flags & GP_STATS_PARTS ? replica * stats->bytes : 0, stats->bytes);
        bool mine = own && computes && micro == instr->micro;
        bool ends = finds_total(instr) || instr->op == GP_INSTR_STEP;
        *out = (part){.owner = MINI_BATCH,
                      .writable = (mine && instr->op == GP_INSTR_FORWARD) || (!own && collects(plan, instr, kind)),
                      .readable = mine || ends || (own && posts(plan, instr, kind))};
        return true;
    }
    return false;
}

/* Of replicas: gradients with what lies between them, the others' parts of a shard, and the sums of blocks of squares.
 */
static bool find_shard(const gp_plan *plan, const gp_stage_plan *stage, const gp_instr *instr, size_t at, size_t bytes,
                       part *out) {
    const gp_stage *its = &plan->stages->stage[stage->stage];
    size_t parts = 0;
    for (int b = 0; b < its->buckets; b++)
        parts += (size_t)gp_stage_plan_part(stage, plan->stages, b, its->replica).count * (size_t)(its->replicas - 1);
    bool reduces = instr->op == GP_INSTR_REDUCE, norm = instr->op == GP_INSTR_NORM;
    bool updates = instr->op == GP_INSTR_STEP || instr->op == GP_INSTR_UPDATE;
    bool collected = collects(plan, instr, GP_PART_GRADIENTS);
    *out = (part){.owner = MINI_BATCH};
    if (its->replicas == 1) return false;
    if (within(at, bytes, stage->grads, stage->grads_bytes)) {
        bool scatters = collected && plan->stages->collectives[instr->collective].kind == GP_COLLECTIVE_SCATTER;
        out->writable = gp_instr_is_backward(instr) || reduces || (collected && !scatters);
        out->readable =
            gp_instr_is_backward(instr) || reduces || norm || updates || posts(plan, instr, GP_PART_GRADIENTS);
        return true;
    }
    if (within(at, bytes, stage->parts, parts)) {
        out->writable = reduces || collected;
        out->readable = reduces;
        return true;
    }
    if (!within(at, bytes, stage->blocks, stage->block_count * sizeof(double)) || bytes == 0) return false;
    out->writable = reduces || collects(plan, instr, GP_PART_BLOCKS);
    out->readable = norm || posts(plan, instr, GP_PART_BLOCKS);
    return true;
}

/* Masters of replicas that share out the updates: of several parameters at once. */
static bool find_masters(const gp_plan *plan, const gp_stage_plan *stage, const gp_instr *instr, size_t at,
                         size_t bytes, part *out) {
    bool collected = collects(plan, instr, GP_PART_PARAMETERS), posted = posts(plan, instr, GP_PART_PARAMETERS);
    if (!collected && !posted) return false;
    *out = (part){.owner = KEPT, .writable = collected, .readable = posted};
    for (int r = 0; r < plan->stages->stage[stage->stage].replicas; r++) {
        gp_share its = gp_stage_plan_masters(stage, r);
        bool own = r == plan->stages->stage[stage->stage].replica;
        if (own == posted && within(at, bytes, (size_t)its.first, (size_t)its.count)) return true;
    }
    return false;
}

static bool find_param(const gp_plan *plan, const gp_stage_plan *stage, const gp_instr *instr, size_t at, size_t bytes,
                       part *out) {
    bool step = instr->op == GP_INSTR_STEP || instr->op == GP_INSTR_UPDATE, norm = instr->op == GP_INSTR_NORM;
    bool updates = step || (stage->consumes && instr->op == GP_INSTR_BACKWARD);
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        bool kept = within(at, bytes, param->master, param->stored);
        kept = kept || within(at, bytes, param->copy.offset, param->copy.bytes);
        for (int i = 0; i < plan->update.states && param->trained; i++)
            kept = kept || within(at, bytes, param->state[i], (size_t)param->own.count);
        bool grad = within(at, bytes, param->grad, param->grad_bytes);
        if (!kept && !grad) continue;
        *out = (part){.owner = kept ? KEPT : MINI_BATCH,
                      .writable = kept ? updates : gp_instr_is_backward(instr),
                      .readable = kept || step || norm || gp_instr_is_backward(instr)};
        return true;
    }
    return false;
}

/* What the fixed part of a stage is to an instruction: false where the stretch belongs to nothing. */
static bool find_part(const gp_plan *plan, const gp_stage_plan *stage, int pieces, const gp_instr *instr, size_t offset,
                      size_t bytes, part *out) {
    size_t at = offset - stage->base;
    if (within(at, bytes, stage->scalars, sizeof(gp_step_scalars))) {
        bool found = finds_total(instr) || instr->op == GP_INSTR_CLIP || collects(plan, instr, GP_PART_SCALARS);
        *out = (part){.owner = MINI_BATCH, .writable = found, .readable = true};
        return true;
    }
    return find_squares(plan, stage, instr, at, bytes, out) || find_stats(plan, stage, pieces, instr, at, bytes, out) ||
           find_shard(plan, stage, instr, at, bytes, out) || find_masters(plan, stage, instr, at, bytes, out) ||
           find_param(plan, stage, instr, at, bytes, out);
}

/* Whether others pull bytes of the stretch from the micro-batch's saved slot: they may still do so in its backward. */
static bool is_sent(const shadow *s, const worker_shadow *w, const arena_touch *touch) {
    const gp_mini_plan *mini = &plan_of(s)->minis[w->site.mini];
    const gp_program *program = &mini->programs->worker[w->site.worker];
    for (size_t pc = 0; pc < w->site.pc; pc++) {
        const gp_instr *send = &program->instrs[pc];
        gp_move move;
        if (send->op != GP_INSTR_SEND || send->stage != w->site.instr->stage || send->micro != w->site.instr->micro ||
            shadow_send_frame(plan_of(s), send) != GP_FRAME_SAVED)
            continue;
        gp_instr_move(plan_of(s), mini, send, 0, &move);
        if (touch->offset < move.offset + move.bytes && move.offset < touch->offset + touch->bytes) return true;
    }
    return false;
}

/* Whose a stretch is that the instruction touches; refuses where it is none of its business. */
static gp_status judge(const shadow *s, worker_shadow *w, const arena_touch *touch, uint32_t *owner, gp_error *err) {
    const gp_plan *plan = plan_of(s);
    const gp_instr *instr = w->site.instr;
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    const char *what = touch->write ? "writes" : "reads";
    size_t arena = plan->arena[w->site.worker], transient = shadow_transients(plan, &w->site);
    if (touch->offset > arena || touch->bytes > arena - touch->offset)
        return shadow_refuse(w, err, "%s %zu bytes at %zu of an arena of %zu", what, touch->bytes, touch->offset,
                             arena);
    if (touch->offset >= transient) {
        *owner = INSTRUCTION;
        return GP_OK;
    }
    if (within(touch->offset, touch->bytes, stage->base, stage->fixed)) {
        part its;
        if (!find_part(plan, stage, s->pieces, instr, touch->offset, touch->bytes, &its))
            return shadow_refuse(w, err, "%s %zu bytes at %zu, which are nothing's", what, touch->bytes, touch->offset);
        if (!(touch->write ? its.writable : its.readable))
            return shadow_refuse(w, err, "%s %zu bytes at %zu, which it may not", what, touch->bytes, touch->offset);
        *owner = its.owner;
        return GP_OK;
    }
    for (int f = 0; f < GP_FRAMES; f++) {
        int slot = slot_of(plan, instr, (gp_frame)f);
        if (slot < 0 || slot >= stage->slots[f]) continue;
        size_t first = stage->base + stage->frame_base[f] + (size_t)slot * stage->frame_stride[f];
        if (!within(touch->offset, touch->bytes, first, stage->frame_stride[f])) continue;
        if (touch->write && !may_write_frame(instr, (gp_frame)f))
            return shadow_refuse(w, err, "writes its %s slot", gp_frame_name((gp_frame)f));
        if (touch->write && f == GP_FRAME_SAVED && is_sent(s, w, touch))
            return shadow_refuse(w, err, "writes byte %zu of what was sent", touch->offset);
        life *its = shadow_life(s, w, instr->stage, (gp_frame)f, instr->micro);
        if (its->alive && its->slot != slot)
            return shadow_refuse(w, err, "its micro-batch has %s slot %d already", gp_frame_name((gp_frame)f),
                                 its->slot);
        if (touch->write) {
            its->alive = true;
            its->slot = (uint16_t)slot;
        }
        *owner = shadow_life_owner(w, its);
        return GP_OK;
    }
    return shadow_refuse(w, err, "%s %zu bytes at %zu, outside its slots", what, touch->bytes, touch->offset);
}

gp_status shadow_check_touches(const shadow *s, worker_shadow *w, gp_error *err) {
    for (size_t t = 0; t < w->touches.count; t++) {
        const arena_touch *touch = &w->touches.items[t];
        uint32_t owner = NOBODY;
        GP_RETURN_IF_FAILED(judge(s, w, touch, &owner, err));
        for (size_t i = touch->offset, end = i + touch->bytes; i < end; i = shadow_owner_end(w, i, end)) {
            if (!touch->write && w->owner[i] != owner)
                return shadow_refuse(w, err, "reads byte %zu, which %s", i,
                                     w->owner[i] == NOBODY ? "nobody wrote" : "another wrote");
            if (touch->write && w->owner[i] != owner && w->owner[i] != NOBODY)
                return shadow_refuse(w, err, "writes byte %zu, which another still needs", i);
        }
        if (!touch->write) continue;
        shadow_set_owner(w, touch->offset, touch->bytes, owner);
        memset(w->marks + touch->offset, MAY_WRITE, touch->bytes);
    }
    return GP_OK;
}

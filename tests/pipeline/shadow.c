#include "pipeline/shadow.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Owners of bytes; a slot's are LIFE + its number. */
enum { NOBODY, KEPT /* from step to step */, MINI_BATCH /* until the program's end */, INSTRUCTION, LIFE };

/* One frame of one micro-batch on one stage, from its first byte to its last use. */
typedef struct life {
    bool alive, done; /* done: its own stage has no more use for it */
    uint16_t slot;
    int sends_left, pulls_pending;
} life;

typedef struct worker_shadow {
    uint32_t *owner;               /* [byte] */
    unsigned char *before, *marks; /* [byte] copy of the arena; MAY_READ, MAY_WRITE */
    unsigned char *op_before, *op_marks;
    gp_touches touches;
    life *lives;      /* [(stage·frames + frame)·pieces + micro] */
    gp_wait *pending; /* sent and perhaps not yet pulled */
    size_t pending_count, pending_capacity;
    gp_site site;
} worker_shadow;

struct shadow {
    harness *h;
    unsigned char pattern;
    int pieces; /* of the longest program */
    worker_shadow *workers;
    atomic_int *pulled; /* [edge·pieces + micro] */
};

enum { MAY_READ = 1, MAY_WRITE = 2, OTHER = 4 };

static shadow *current;                   /* for the hooks of devices */
static _Thread_local worker_shadow *mine; /* of this thread's worker, within an instruction */

static const gp_plan *plan_of(const shadow *s) {
    return s->h->plan;
}

static gp_status refuse(const worker_shadow *w, gp_error *err, const char *format, ...) GP_PRINTF(3, 4);
static gp_status refuse(const worker_shadow *w, gp_error *err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_fail(err, GP_INTERNAL, "shadow: instruction %zu: %s", w->site.pc, text);
}

static life *life_of(const shadow *s, worker_shadow *w, int stage, gp_frame frame, int micro) {
    return &w->lives[((size_t)stage * GP_FRAMES + frame) * (size_t)s->pieces + (size_t)micro];
}

static uint32_t life_owner(const worker_shadow *w, const life *its) {
    return LIFE + (uint32_t)(its - w->lives);
}

static unsigned char *arena_of(const shadow *s, int worker) {
    return gp_run_arena(s->h->run, worker);
}

static void set_owner(worker_shadow *w, size_t offset, size_t bytes, uint32_t owner) {
    for (size_t i = offset; i < offset + bytes; i++) w->owner[i] = owner;
}

/* Which slot of a frame an instruction has, by program.h's table; −1: none. */
static int slot_of(const gp_plan *plan, const gp_instr *instr, gp_frame frame) {
    bool keep = instr->flags & GP_INSTR_KEEP;
    bool computes = instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE || instr->op == GP_INSTR_BACKWARD;
    bool copies = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
    gp_edge_kind edge = copies ? plan->stages->edges[instr->edge].kind : GP_EDGE_FLAG;
    bool value = copies && (edge == GP_EDGE_ACTIVATION || edge == GP_EDGE_SKIP);
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
        if (instr->op == GP_INSTR_BACKWARD) return instr->grad;
        if (copies && edge == GP_EDGE_GRADIENT) return instr->slot;
        break;
    case GP_FRAMES: break;
    }
    return -1;
}

static bool may_write_frame(const gp_instr *instr, gp_frame frame) {
    switch (frame) {
    case GP_FRAME_STASH: return instr->op == GP_INSTR_LOAD || instr->op == GP_INSTR_RECV;
    case GP_FRAME_SAVED: return instr->op != GP_INSTR_SEND; /* backward may overwrite what it reads last */
    case GP_FRAME_OUTBOX: return instr->op == GP_INSTR_FORWARD;
    case GP_FRAME_GRAD: return instr->op == GP_INSTR_RECV || instr->op == GP_INSTR_BACKWARD;
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

/* What the fixed part of a stage is to an instruction: false where the stretch belongs to nothing. */
static bool find_part(const gp_stage_plan *stage, int pieces, const gp_instr *instr, size_t offset, size_t bytes,
                      part *out) {
    bool step = instr->op == GP_INSTR_STEP, total = instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST;
    size_t at = offset - stage->base;
    if (within(at, bytes, stage->scalars, sizeof(gp_step_scalars))) {
        *out = (part){.owner = MINI_BATCH, .writable = total || instr->op == GP_INSTR_RECV, .readable = true};
        return true;
    }
    for (size_t i = 0; i < stage->stats_count; i++) {
        const gp_stats_plan *stats = &stage->stats[i];
        if (!within(at, bytes, stats->offset, stats->bytes * (size_t)pieces)) continue;
        bool own = within(at, bytes, stats->offset + stats->bytes * instr->micro, stats->bytes);
        *out = (part){
            .owner = MINI_BATCH, .writable = own && instr->op == GP_INSTR_FORWARD, .readable = own || total || step};
        return true;
    }
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        bool kept = within(at, bytes, param->master, param->bytes);
        for (int c = 0; c < param->copy_count; c++)
            kept = kept || within(at, bytes, param->copies[c].offset, param->copies[c].bytes);
        for (int i = 0; i < GP_UPDATE_MAX_STATES && param->trained; i++)
            kept = kept || (param->state[i] && within(at, bytes, param->state[i], param->bytes));
        bool grad = param->trained && within(at, bytes, param->grad, param->grad_bytes);
        if (!kept && !grad) continue;
        *out = (part){.owner = kept ? KEPT : MINI_BATCH,
                      .writable = kept ? step : instr->op == GP_INSTR_BACKWARD,
                      .readable = kept || step || instr->op == GP_INSTR_BACKWARD};
        return true;
    }
    return false;
}

static gp_frame frame_of_send(const gp_plan *plan, const gp_instr *send) {
    if (plan->stages->edges[send->edge].kind == GP_EDGE_GRADIENT) return GP_FRAME_GRAD;
    return send->flags & GP_INSTR_KEEP ? GP_FRAME_SAVED : GP_FRAME_OUTBOX;
}

static bool is_value_send(const gp_plan *plan, const gp_instr *instr) {
    return instr->op == GP_INSTR_SEND && plan->stages->edges[instr->edge].kind != GP_EDGE_FLAG;
}

/* Whether others pull bytes of the stretch from the micro-batch's saved slot: they may still do so in its backward. */
static bool is_sent(const shadow *s, const worker_shadow *w, const gp_touch *touch) {
    const gp_mini_plan *mini = &plan_of(s)->minis[w->site.mini];
    const gp_program *program = &mini->programs->worker[w->site.worker];
    for (size_t pc = 0; pc < w->site.pc; pc++) {
        const gp_instr *send = &program->instrs[pc];
        size_t offset, bytes;
        if (!is_value_send(plan_of(s), send) || send->stage != w->site.instr->stage ||
            send->micro != w->site.instr->micro || frame_of_send(plan_of(s), send) != GP_FRAME_SAVED)
            continue;
        gp_instr_copy(plan_of(s), mini, send, &offset, &bytes);
        if (touch->offset < offset + bytes && offset < touch->offset + touch->bytes) return true;
    }
    return false;
}

/* Whose a stretch is that the instruction touches; refuses where it is none of its business. */
static gp_status judge(const shadow *s, worker_shadow *w, const gp_touch *touch, uint32_t *owner, gp_error *err) {
    const gp_plan *plan = plan_of(s);
    const gp_instr *instr = w->site.instr;
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    const char *what = touch->write ? "writes" : "reads";
    size_t arena = plan->arena[w->site.worker], transient = plan->transient_base[w->site.worker];
    if (touch->offset > arena || touch->bytes > arena - touch->offset)
        return refuse(w, err, "%s %zu bytes at %zu of an arena of %zu", what, touch->bytes, touch->offset, arena);
    if (touch->offset >= transient) {
        *owner = INSTRUCTION;
        return GP_OK;
    }
    if (within(touch->offset, touch->bytes, stage->base, stage->fixed)) {
        part its;
        if (!find_part(stage, s->pieces, instr, touch->offset, touch->bytes, &its))
            return refuse(w, err, "%s %zu bytes at %zu, which are nothing's", what, touch->bytes, touch->offset);
        if (!(touch->write ? its.writable : its.readable))
            return refuse(w, err, "%s %zu bytes at %zu, which it may not", what, touch->bytes, touch->offset);
        *owner = its.owner;
        return GP_OK;
    }
    for (int f = 0; f < GP_FRAMES; f++) {
        int slot = slot_of(plan, instr, (gp_frame)f);
        if (slot < 0 || slot >= stage->slots[f]) continue;
        size_t first = stage->base + stage->frame_base[f] + (size_t)slot * stage->frame_stride[f];
        if (!within(touch->offset, touch->bytes, first, stage->frame_stride[f])) continue;
        if (touch->write && !may_write_frame(instr, (gp_frame)f))
            return refuse(w, err, "writes its %s slot", gp_frame_name((gp_frame)f));
        if (touch->write && f == GP_FRAME_SAVED && is_sent(s, w, touch))
            return refuse(w, err, "writes byte %zu of what was sent", touch->offset);
        life *its = life_of(s, w, instr->stage, (gp_frame)f, instr->micro);
        if (its->alive && its->slot != slot)
            return refuse(w, err, "its micro-batch has %s slot %d already", gp_frame_name((gp_frame)f), its->slot);
        if (touch->write) {
            its->alive = true;
            its->slot = (uint16_t)slot;
        }
        *owner = life_owner(w, its);
        return GP_OK;
    }
    return refuse(w, err, "%s %zu bytes at %zu, outside its slots", what, touch->bytes, touch->offset);
}

/* In the order of the touches: what is read was written by its owner; what is written was its owner's, or nobody's.
 * Writes take effect at once: nobody looks at the arena in between. */
static gp_status check_touches(const shadow *s, worker_shadow *w, gp_error *err) {
    for (size_t t = 0; t < w->touches.count; t++) {
        const gp_touch *touch = &w->touches.items[t];
        uint32_t owner = NOBODY;
        GP_RETURN_IF_FAILED(judge(s, w, touch, &owner, err));
        for (size_t i = touch->offset; i < touch->offset + touch->bytes; i++) {
            if (!touch->write && w->owner[i] != owner)
                return refuse(w, err, "reads byte %zu, which %s", i,
                              w->owner[i] == NOBODY ? "nobody wrote" : "another wrote");
            if (touch->write && w->owner[i] != owner && w->owner[i] != NOBODY)
                return refuse(w, err, "writes byte %zu, which another still needs", i);
            if (touch->write) w->owner[i] = owner;
        }
        if (touch->write) memset(w->marks + touch->offset, MAY_WRITE, touch->bytes);
    }
    return GP_OK;
}

static size_t slot_start(const gp_stage_plan *stage, gp_frame frame, uint16_t slot) {
    return stage->base + stage->frame_base[frame] + slot * stage->frame_stride[frame];
}

static void end_life(const shadow *s, worker_shadow *w, int stage, gp_frame frame, life *its) {
    if (!its->alive || !its->done || its->sends_left > 0 || its->pulls_pending > 0) return;
    const gp_stage_plan *plan = &plan_of(s)->stage[stage];
    set_owner(w, slot_start(plan, frame, its->slot), plan->frame_stride[frame], NOBODY);
    its->alive = false;
}

/* What was pulled since the last look. */
static void note_pulls(const shadow *s, worker_shadow *w) {
    const gp_plan *plan = plan_of(s);
    size_t left = 0;
    for (size_t i = 0; i < w->pending_count; i++) {
        const gp_wait sent = w->pending[i];
        if (!atomic_load(&s->pulled[(size_t)sent.edge * (size_t)s->pieces + sent.micro])) {
            w->pending[left++] = sent;
            continue;
        }
        int stage = plan->stages->edges[sent.edge].from;
        life *its = life_of(s, w, stage, (gp_frame)sent.kind, sent.micro);
        its->pulls_pending--;
        end_life(s, w, stage, (gp_frame)sent.kind, its);
    }
    w->pending_count = left;
}

static gp_status note_send(const shadow *s, worker_shadow *w, gp_error *err) {
    const gp_instr *instr = w->site.instr;
    gp_frame frame = frame_of_send(plan_of(s), instr);
    life *its = life_of(s, w, instr->stage, frame, instr->micro);
    its->sends_left--;
    its->pulls_pending++;
    GP_RETURN_IF_FAILED(GP_GROW(&w->pending, &w->pending_capacity, w->pending_count + 1, err));
    w->pending[w->pending_count++] = (gp_wait){instr->edge, instr->micro, (uint16_t)frame};
    return GP_OK;
}

/* The instruction's own stage needs the slot no more: all of it is nobody's but what others pull from it. */
static void finish(const shadow *s, worker_shadow *w, gp_frame frame) {
    const gp_plan *plan = plan_of(s);
    const gp_mini_plan *mini = &plan->minis[w->site.mini];
    const gp_instr *instr = w->site.instr;
    const gp_program *program = &mini->programs->worker[w->site.worker];
    life *its = life_of(s, w, instr->stage, frame, instr->micro);
    if (!its->alive) return;
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    uint32_t owner = life_owner(w, its);
    its->done = true;
    set_owner(w, slot_start(stage, frame, its->slot), stage->frame_stride[frame], NOBODY);
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *send = &program->instrs[pc];
        size_t offset, bytes;
        if (!is_value_send(plan, send) || send->stage != instr->stage || send->micro != instr->micro ||
            frame_of_send(plan, send) != frame)
            continue;
        gp_instr_copy(plan, mini, send, &offset, &bytes);
        set_owner(w, offset, bytes, owner);
    }
    end_life(s, w, instr->stage, frame, its);
}

static void begin_program(const shadow *s, worker_shadow *w) {
    const gp_plan *plan = plan_of(s);
    const gp_mini_plan *mini = &plan->minis[w->site.mini];
    const gp_program *program = &mini->programs->worker[w->site.worker];
    memset(w->owner, 0, plan->arena[w->site.worker] * sizeof *w->owner);
    memset(w->lives, 0, (size_t)plan->stages->count * GP_FRAMES * (size_t)s->pieces * sizeof *w->lives);
    w->pending_count = 0;
    for (int i = 0; i < plan->stages->count; i++) {
        const gp_stage_plan *stage = &plan->stage[i];
        if (stage->worker != w->site.worker) continue;
        set_owner(w, stage->base + stage->scalars, sizeof(gp_step_scalars), MINI_BATCH);
        for (int p = 0; p < stage->param_count; p++) {
            const gp_param_plan *param = &stage->params[p];
            set_owner(w, stage->base + param->master, param->bytes, KEPT);
            for (int c = 0; c < param->copy_count; c++)
                set_owner(w, stage->base + param->copies[c].offset, param->copies[c].bytes, KEPT);
            for (int n = 0; n < plan->update.states && param->trained; n++)
                set_owner(w, stage->base + param->state[n], param->bytes, KEPT);
        }
    }
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (is_value_send(plan, instr))
            life_of(s, w, instr->stage, frame_of_send(plan, instr), instr->micro)->sends_left++;
    }
}

static gp_status before_instr(void *context, const gp_site *site, gp_error *err) {
    shadow *s = context;
    worker_shadow *w = &s->workers[site->worker];
    const gp_plan *plan = plan_of(s);
    unsigned char *arena = arena_of(s, site->worker);
    size_t bytes = plan->arena[site->worker];
    w->site = *site;
    if (site->pc == 0) begin_program(s, w);
    note_pulls(s, w);
    for (size_t i = 0; i < bytes; i++)
        if (w->owner[i] == NOBODY) arena[i] = s->pattern;
    memcpy(w->before, arena, bytes);
    memset(w->marks, 0, bytes);
    w->touches.count = 0;
    GP_RETURN_IF_FAILED(gp_plan_touches(plan, &plan->minis[site->mini], site->worker, site->pc, &w->touches, err));
    GP_RETURN_IF_FAILED(check_touches(s, w, err));
    if (is_value_send(plan, site->instr)) {
        atomic_store(&s->pulled[(size_t)site->instr->edge * (size_t)s->pieces + site->instr->micro], 0);
        GP_RETURN_IF_FAILED(note_send(s, w, err));
    }
    mine = w;
    return GP_OK;
}

static gp_status after_instr(void *context, const gp_site *site, gp_error *err) {
    shadow *s = context;
    worker_shadow *w = &s->workers[site->worker];
    const gp_plan *plan = plan_of(s);
    const unsigned char *arena = arena_of(s, site->worker);
    bool training = plan->minis[site->mini].training;
    size_t transient = plan->transient_base[site->worker];
    mine = NULL;
    for (size_t i = 0; i < plan->arena[site->worker]; i++)
        if (!w->marks[i] && arena[i] != w->before[i])
            return refuse(w, err, "changed byte %zu, which is not its own", i);
    set_owner(w, transient, plan->arena[site->worker] - transient, NOBODY);
    switch (site->instr->op) {
    case GP_INSTR_FORWARD:
        if (!training) finish(s, w, GP_FRAME_STASH);
        finish(s, w, GP_FRAME_OUTBOX);
        break;
    case GP_INSTR_BACKWARD:
        finish(s, w, GP_FRAME_STASH);
        finish(s, w, GP_FRAME_SAVED);
        finish(s, w, GP_FRAME_GRAD);
        break;
    default: break;
    }
    return GP_OK;
}

typedef struct marking {
    unsigned char *marks;
    size_t start;
    unsigned char mark;
} marking;

static void mark(void *context, size_t offset, size_t bytes) {
    const marking *m = context;
    for (size_t i = 0; i < bytes; i++) m->marks[m->start + offset + i] |= m->mark;
}

typedef struct search {
    const unsigned char *marks;
    size_t start;
    bool found;
} search;

static void find_other(void *context, size_t offset, size_t bytes) {
    search *its = context;
    for (size_t i = 0; i < bytes; i++) its->found = its->found || its->marks[its->start + offset + i] & OTHER;
}

/* Two operands of an op share bytes only where the device said that the result may have that address. */
static gp_status check_overlap(worker_shadow *w, const wrapper_call *call, int result, int other, gp_error *err) {
    const gp_prepared *prepared = call->prepared;
    const unsigned char *y = call->operands[result], *x = call->operands[other];
    if (!x || result == other || y + prepared->operand[result].bytes <= x || x + prepared->operand[other].bytes <= y)
        return GP_OK;
    if (x == y && prepared->in_place[result] >> other & 1) return GP_OK;
    marking m = {w->op_marks, (size_t)(x - call->arena), OTHER};
    wrapper_stretches(prepared, other, mark, &m);
    search its = {w->op_marks, (size_t)(y - call->arena), false};
    wrapper_stretches(prepared, result, find_other, &its);
    for (size_t i = 0; i < prepared->operand[other].bytes; i++) w->op_marks[m.start + i] &= (unsigned char)~OTHER;
    if (!its.found) return GP_OK;
    return refuse(w, err, "%s: its %s overwrites its %s", gp_op_name(prepared->desc.kind),
                  gp_op_operand_name(prepared->desc.kind, result), gp_op_operand_name(prepared->desc.kind, other));
}

static gp_status check_overlaps(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++)
        for (int j = 0; j < (int)desc->operands && call->operands[i] && gp_op_writes(desc->kind, i); j++)
            GP_RETURN_IF_FAILED(check_overlap(w, call, i, j, err));
    return GP_OK;
}

/* What an op reads and writes, and its workspace, as marks over the arena. */
static gp_status mark_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    const gp_prepared *prepared = call->prepared;
    memset(w->op_marks, 0, call->arena_bytes);
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const unsigned char *operand = call->operands[i];
        if (!operand) continue;
        size_t start = (size_t)(operand - call->arena);
        if (operand < call->arena || start + prepared->operand[i].bytes > call->arena_bytes)
            return refuse(w, err, "%s: an operand outside the arena", gp_op_name(prepared->desc.kind));
        bool writes = gp_op_writes(prepared->desc.kind, i);
        bool reads = gp_op_reads(prepared->desc.kind, i) || (writes && (prepared->desc.flags & GP_OP_ACCUMULATE) != 0);
        marking m = {w->op_marks, start, (unsigned char)((reads ? MAY_READ : 0) | (writes ? MAY_WRITE : 0))};
        wrapper_stretches(prepared, i, mark, &m);
    }
    GP_RETURN_IF_FAILED(check_overlaps(w, call, err));
    if (!prepared->workspace) return GP_OK;
    size_t start = (size_t)(call->workspace - call->arena);
    if (call->workspace < call->arena || start + prepared->workspace > call->arena_bytes)
        return refuse(w, err, "%s: its workspace is outside the arena", gp_op_name(prepared->desc.kind));
    for (size_t i = start; i < start + prepared->workspace; i++) {
        if (w->op_marks[i])
            return refuse(w, err, "%s: its workspace is an operand's place, too", gp_op_name(prepared->desc.kind));
        w->op_marks[i] = MAY_WRITE;
    }
    return GP_OK;
}

/* What the op only writes holds the pattern before. */
static gp_status before_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    if (call->arena != arena_of(current, w->site.worker) ||
        call->arena_bytes != plan_of(current)->arena[w->site.worker])
        return refuse(w, err, "%zu bytes were reserved, the plan says %zu", call->arena_bytes,
                      plan_of(current)->arena[w->site.worker]);
    GP_RETURN_IF_FAILED(mark_op(w, call, err));
    for (size_t i = 0; i < call->arena_bytes; i++)
        if (w->op_marks[i] == MAY_WRITE) call->arena[i] = current->pattern;
    memcpy(w->op_before, call->arena, call->arena_bytes);
    return GP_OK;
}

static gp_status after_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    for (size_t i = 0; i < call->arena_bytes; i++)
        if (!(w->op_marks[i] & MAY_WRITE) && call->arena[i] != w->op_before[i])
            return refuse(w, err, "%s changed byte %zu, which is no result's", gp_op_name(call->prepared->desc.kind),
                          i);
    if (call->prepared->workspace) memset(call->workspace, current->pattern, call->prepared->workspace);
    return GP_OK;
}

static gp_status before_call(void *context, const wrapper_call *call, gp_error *err) {
    (void)context;
    return mine && call->kind == WRAPPER_RUN ? before_op(mine, call, err) : GP_OK;
}

static gp_status after_call(void *context, const wrapper_call *call, gp_error *err) {
    (void)context;
    if (!mine) return GP_OK;
    if (call->kind == WRAPPER_RUN) return after_op(mine, call, err);
    const gp_instr *instr = mine->site.instr;
    if (call->kind == WRAPPER_PULL)
        atomic_store(&current->pulled[(size_t)instr->edge * (size_t)current->pieces + instr->micro], 1);
    return GP_OK;
}

wrapper_hooks shadow_device_hooks(void) {
    return (wrapper_hooks){NULL, before_call, after_call};
}

gp_hooks shadow_run_hooks(shadow *s) {
    return (gp_hooks){s, before_instr, after_instr};
}

static void *room(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    if (!block) abort();
    return block;
}

shadow *shadow_create(harness *h, unsigned char pattern) {
    const gp_plan *plan = h->plan;
    shadow *s = room(1, sizeof *s);
    s->h = h;
    s->pattern = pattern;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > s->pieces) s->pieces = plan->minis[m].pieces;
    s->pulled = room(plan->stages->edge_count * (size_t)s->pieces, sizeof *s->pulled);
    s->workers = room((size_t)plan->workers, sizeof *s->workers);
    for (int i = 0; i < plan->workers; i++) {
        worker_shadow *w = &s->workers[i];
        w->owner = room(plan->arena[i], sizeof *w->owner);
        w->before = room(plan->arena[i], 1);
        w->marks = room(plan->arena[i], 1);
        w->op_before = room(plan->arena[i], 1);
        w->op_marks = room(plan->arena[i], 1);
        w->lives = room((size_t)plan->stages->count * GP_FRAMES * (size_t)s->pieces, sizeof *w->lives);
    }
    current = s;
    return s;
}

void shadow_destroy(shadow **s) {
    shadow *it = *s;
    for (int i = 0; i < it->h->plan->workers; i++) {
        worker_shadow *w = &it->workers[i];
        free(w->owner);
        free(w->before);
        free(w->marks);
        free(w->op_before);
        free(w->op_marks);
        free(w->touches.items);
        free(w->lives);
        free(w->pending);
    }
    free(it->workers);
    free(it->pulled);
    free(it);
    current = NULL;
    *s = NULL;
}

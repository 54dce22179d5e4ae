#include "pipeline/shadow_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

shadow *shadow_current;
_Thread_local worker_shadow *shadow_mine;

gp_status shadow_refuse(const worker_shadow *w, gp_error *err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_fail(err, GP_INTERNAL, "shadow: instruction %zu: %s", w->site.pc, text);
}

life *shadow_life(const shadow *s, worker_shadow *w, int stage, gp_frame frame, int micro) {
    return &w->lives[((size_t)stage * GP_FRAMES + frame) * (size_t)s->pieces + (size_t)micro];
}

uint32_t shadow_life_owner(const worker_shadow *w, const life *its) {
    return LIFE + (uint32_t)(its - w->lives);
}

OWN_MAP void shadow_set_owner(worker_shadow *w, size_t offset, size_t bytes, uint32_t owner) {
    for (size_t i = offset; i < offset + bytes; i++) w->owner[i] = owner;
}

/* Eight bytes at a time where they are all alike: every instruction looks at every byte. */
OWN_MAP size_t shadow_owner_end(const worker_shadow *w, size_t i, size_t end) {
    uint32_t owner = w->owner[i];
    uint64_t alike = (uint64_t)owner << 32 | owner, now = alike;
    for (; i + 2 <= end && now == alike; i += 2) memcpy(&now, &w->owner[i], sizeof now);
    if (now != alike) i -= 2;
    while (i < end && w->owner[i] == owner) i++;
    return i;
}

OWN_MAP size_t shadow_mark_end(const unsigned char *marks, size_t i, size_t end) {
    unsigned char its = marks[i];
    uint64_t alike = its * UINT64_C(0x0101010101010101), now = alike;
    for (; i + 8 <= end && now == alike; i += 8) memcpy(&now, &marks[i], sizeof now);
    if (now != alike) i -= 8;
    while (i < end && marks[i] == its) i++;
    return i;
}

size_t shadow_find_change(const unsigned char *arena, const unsigned char *before, const unsigned char *marks,
                          size_t bytes) {
    for (size_t i = 0, end; i < bytes; i = end) {
        end = shadow_mark_end(marks, i, bytes);
        if (marks[i] & MAY_WRITE || memcmp(arena + i, before + i, end - i) == 0) continue;
        while (arena[i] == before[i]) i++;
        return i;
    }
    return bytes;
}

gp_frame shadow_send_frame(const gp_plan *plan, const gp_instr *send) {
    if (plan->stages->edges[send->edge].kind == GP_EDGE_GRADIENT) return GP_FRAME_GRAD;
    return send->flags & GP_INSTR_KEEP ? GP_FRAME_SAVED : GP_FRAME_OUTBOX;
}

static size_t slot_start(const gp_stage_plan *stage, gp_frame frame, uint16_t slot) {
    return stage->base + stage->frame_base[frame] + slot * stage->frame_stride[frame];
}

static void end_life(const shadow *s, worker_shadow *w, int stage, gp_frame frame, life *its) {
    if (!its->alive || !its->done || its->sends_left > 0 || its->pulls_pending > 0) return;
    const gp_stage_plan *plan = &plan_of(s)->stage[stage];
    size_t start = slot_start(plan, frame, its->slot);
    /* The next life may have received something already, beside it. */
    for (size_t i = start; i < start + plan->frame_stride[frame]; i++)
        if (w->owner[i] == shadow_life_owner(w, its)) w->owner[i] = NOBODY;
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
        life *its = shadow_life(s, w, stage, (gp_frame)sent.kind, sent.micro);
        its->pulls_pending--;
        end_life(s, w, stage, (gp_frame)sent.kind, its);
    }
    w->pending_count = left;
}

static gp_status note_send(const shadow *s, worker_shadow *w, gp_error *err) {
    const gp_instr *instr = w->site.instr;
    gp_frame frame = shadow_send_frame(plan_of(s), instr);
    life *its = shadow_life(s, w, instr->stage, frame, instr->micro);
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
    life *its = shadow_life(s, w, instr->stage, frame, instr->micro);
    if (!its->alive) return;
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    uint32_t owner = shadow_life_owner(w, its);
    its->done = true;
    shadow_set_owner(w, slot_start(stage, frame, its->slot), stage->frame_stride[frame], NOBODY);
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *send = &program->instrs[pc];
        gp_move move;
        if (send->op != GP_INSTR_SEND || send->stage != instr->stage || send->micro != instr->micro ||
            shadow_send_frame(plan, send) != frame)
            continue;
        gp_instr_move(plan, mini, send, 0, &move);
        shadow_set_owner(w, move.offset, move.bytes, owner);
    }
    end_life(s, w, instr->stage, frame, its);
}

/* Replicas copy whole shards, with what lies between gradients and between masters. */
static void own_padding(const gp_plan *plan, worker_shadow *w, const gp_stage_plan *stage) {
    if (plan->stages->stage[stage->stage].replicas == 1) return;
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        size_t grad = gp_align_up(param->grad_bytes, GP_ALIGNMENT) - param->grad_bytes;
        size_t master = gp_align_up(param->stored, GP_ALIGNMENT) - param->stored;
        if (!param->trained) continue;
        shadow_set_owner(w, stage->base + param->grad + param->grad_bytes, grad, MINI_BATCH);
        shadow_set_owner(w, stage->base + param->master + param->stored, master, KEPT);
    }
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
        shadow_set_owner(w, stage->base + stage->scalars, sizeof(gp_step_scalars), MINI_BATCH);
        own_padding(plan, w, stage);
        for (int p = 0; p < stage->param_count; p++) {
            const gp_param_plan *param = &stage->params[p];
            shadow_set_owner(w, stage->base + param->master, param->stored, KEPT);
            shadow_set_owner(w, stage->base + param->copy.offset, param->copy.bytes, KEPT);
            for (int n = 0; n < plan->update.states && param->trained; n++)
                shadow_set_owner(w, stage->base + param->state[n], (size_t)param->own.count, KEPT);
        }
    }
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (instr->op == GP_INSTR_SEND)
            shadow_life(s, w, instr->stage, shadow_send_frame(plan, instr), instr->micro)->sends_left++;
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
    for (size_t i = 0, end; i < bytes; i = end) {
        end = shadow_owner_end(w, i, bytes);
        if (w->owner[i] == NOBODY) memset(arena + i, s->pattern, end - i);
    }
    memcpy(w->before, arena, bytes);
    memset(w->marks, 0, bytes);
    w->touches.count = 0;
    GP_RETURN_IF_FAILED(touches_list(plan, &plan->minis[site->mini], site->worker, site->pc, &w->touches, err));
    GP_RETURN_IF_FAILED(shadow_check_touches(s, w, err));
    if (site->instr->op == GP_INSTR_SEND) {
        atomic_store(&s->pulled[(size_t)site->instr->edge * (size_t)s->pieces + site->instr->micro], 0);
        GP_RETURN_IF_FAILED(note_send(s, w, err));
    }
    shadow_mine = w;
    return GP_OK;
}

static gp_status after_instr(void *context, const gp_site *site, gp_error *err) {
    shadow *s = context;
    worker_shadow *w = &s->workers[site->worker];
    const gp_plan *plan = plan_of(s);
    const unsigned char *arena = arena_of(s, site->worker);
    bool training = plan->minis[site->mini].training;
    size_t transient = shadow_transients(plan, site);
    shadow_mine = NULL;
    size_t bytes = plan->arena[site->worker], change = shadow_find_change(arena, w->before, w->marks, bytes);
    if (change < bytes) return shadow_refuse(w, err, "changed byte %zu, which is not its own", change);
    shadow_set_owner(w, transient, bytes - transient, NOBODY);
    switch (site->instr->op) {
    case GP_INSTR_FORWARD:
        if (!training) finish(s, w, GP_FRAME_STASH);
        finish(s, w, GP_FRAME_OUTBOX);
        break;
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_WEIGHT:
        finish(s, w, GP_FRAME_STASH);
        finish(s, w, GP_FRAME_SAVED);
        finish(s, w, GP_FRAME_GRAD);
        break;
    default: break;
    }
    return GP_OK;
}
wrapper_hooks shadow_device_hooks(void) {
    return (wrapper_hooks){NULL, shadow_before_call, shadow_after_call};
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
    shadow_current = s;
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
    shadow_current = NULL;
    *s = NULL;
}

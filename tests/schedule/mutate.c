#include "schedule/mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/toy_graph.h"
#include "schedule/waits.h"

enum { NEAR_SLOTS = 6 };

gp_programs *mutate_copy(const gp_programs *from) {
    gp_programs *to = NULL;
    gp_error err = {0};
    assert_int_equal(gp_programs_create(from->workers, from->worker_of_stage, from->stages, from->pieces,
                                        from->training, from->descending, &to, &err),
                     GP_OK);
    to->piece = from->piece;
    to->last = from->last;
    for (int w = 0; w < from->workers; w++)
        for (size_t pc = 0; pc < from->worker[w].count; pc++)
            assert_int_equal(gp_program_add(&to->worker[w], from->worker[w].instrs[pc], &err), GP_OK);
    return to;
}

/* Mostly a near number, now and then any. */
static uint16_t mutate_number(uint16_t value, uint16_t bound, uint64_t *random) {
    switch (toy_random(random, 8)) {
    case 0: return UINT16_MAX;
    case 1:
    case 2: return (uint16_t)(value + 1);
    case 3: return (uint16_t)(value - 1);
    default: return (uint16_t)toy_random(random, bound);
    }
}

static bool is_copy(const gp_instr *instr) {
    return instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
}

static void mutate_field(gp_instr *instr, const gp_stages *stages, int pieces, uint64_t *random) {
    switch (toy_random(random, 9)) {
    case 0: instr->op = (uint8_t)toy_random(random, GP_INSTR_OPS + 1); break;
    case 1: instr->flags ^= (uint8_t)(1U << toy_random(random, 4)); break;
    case 2: instr->stage = mutate_number(instr->stage, (uint16_t)stages->count, random); break;
    case 3: instr->micro = mutate_number(instr->micro, (uint16_t)pieces, random); break;
    case 4: instr->clock++; break;
    case 5:
    case 6:
        if (instr->op == GP_INSTR_POST || instr->op == GP_INSTR_COLLECT)
            instr->collective =
                mutate_number((uint16_t)instr->collective, (uint16_t)(stages->collective_count + 1), random);
        else if (is_copy(instr))
            instr->edge = mutate_number((uint16_t)instr->edge, (uint16_t)stages->edge_count, random);
        else if (toy_random(random, 2))
            instr->work = (uint16_t)toy_random(random, NEAR_SLOTS);
        else
            instr->grad = (uint16_t)toy_random(random, NEAR_SLOTS);
        break;
    default: instr->slot = (uint16_t)toy_random(random, NEAR_SLOTS);
    }
}

static void move_instr(gp_program *program, size_t from, size_t to) {
    gp_instr instr = program->instrs[from];
    for (size_t i = from; i < to; i++) program->instrs[i] = program->instrs[i + 1];
    for (size_t i = from; i > to; i--) program->instrs[i] = program->instrs[i - 1];
    program->instrs[to] = instr;
}

static void swap_instrs(gp_program *program, size_t a, size_t b) {
    gp_instr instr = program->instrs[a];
    program->instrs[a] = program->instrs[b];
    program->instrs[b] = instr;
}

/* Where an instruction names its slot of a frame, by program.h's table; NULL: nowhere. */
static uint16_t *slot_of(gp_instr *instr, const gp_stages *stages, gp_frame frame) {
    bool keeps = instr->op != GP_INSTR_FORWARD || instr->flags & GP_INSTR_KEEP;
    switch (instr->op) {
    case GP_INSTR_LOAD: return frame == GP_FRAME_STASH ? &instr->slot : NULL;
    case GP_INSTR_FORWARD:
    case GP_INSTR_RECOMPUTE:
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT:
        if (frame == GP_FRAME_STASH) return &instr->slot;
        if (frame == GP_FRAME_GRAD) return gp_instr_is_backward(instr) ? &instr->grad : NULL;
        return frame == (keeps ? GP_FRAME_SAVED : GP_FRAME_OUTBOX) ? &instr->work : NULL;
    case GP_INSTR_SEND:
    case GP_INSTR_RECV: {
        if (instr->edge >= stages->edge_count) return NULL;
        gp_edge_kind kind = stages->edges[instr->edge].kind;
        gp_frame its = instr->op == GP_INSTR_RECV     ? GP_FRAME_STASH
                       : instr->flags & GP_INSTR_KEEP ? GP_FRAME_SAVED
                                                      : GP_FRAME_OUTBOX;
        return frame == (kind == GP_EDGE_GRADIENT ? GP_FRAME_GRAD : its) ? &instr->slot : NULL;
    }
    default: return NULL;
    }
}

/* A slot of the instruction's micro-batch becomes another one wherever the micro-batch names it: where nobody else has
 * that one meanwhile, nothing changes but addresses. */
static void rename_slot(gp_program *program, const gp_instr of, const gp_stages *stages, uint64_t *random) {
    gp_frame frame = (gp_frame)toy_random(random, GP_FRAMES);
    uint16_t to = (uint16_t)toy_random(random, NEAR_SLOTS);
    for (size_t pc = 0; pc < program->count; pc++) {
        gp_instr *instr = &program->instrs[pc];
        if (instr->stage != of.stage || instr->micro != of.micro) continue;
        uint16_t *slot = slot_of(instr, stages, frame);
        if (slot) *slot = to;
    }
}

void mutate(gp_programs *programs, const gp_stages *stages, uint64_t *random) {
    gp_program *program = &programs->worker[toy_random(random, (uint32_t)programs->workers)];
    if (program->count < 2) return;
    size_t at = toy_random(random, (uint32_t)program->count), to = toy_random(random, (uint32_t)program->count);
    gp_error err = {0};
    switch (toy_random(random, 16)) {
    case 0:
        move_instr(program, at, program->count - 1);
        program->count--;
        break;
    case 1:
        assert_int_equal(gp_program_add(program, program->instrs[at], &err), GP_OK);
        move_instr(program, program->count - 1, toy_random(random, 2) ? at : to);
        break;
    case 2:
    case 3:
    case 4:
    case 5: swap_instrs(program, at, at + 1 < program->count ? at + 1 : 0); break;
    case 6: swap_instrs(program, at, to); break;
    case 7: move_instr(program, at, to); break;
    case 8: programs->descending = !programs->descending; break;
    case 9:
    case 10: rename_slot(program, program->instrs[at], stages, random); break;
    default: mutate_field(&program->instrs[at], stages, programs->pieces, random);
    }
}

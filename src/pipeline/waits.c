#include "pipeline/waits.h"

#include <stdlib.h>

#include "base/memory.h"

const char *gp_frame_name(gp_frame frame) {
    switch (frame) {
    case GP_FRAME_STASH: return "stash";
    case GP_FRAME_SAVED: return "saved";
    case GP_FRAME_OUTBOX: return "outbox";
    case GP_FRAME_GRAD: return "gradient";
    case GP_FRAMES: break;
    }
    return "?";
}

static bool set_begin(gp_frame which, uint16_t number, gp_frame *frame, uint16_t *slot) {
    *frame = which;
    *slot = number;
    return true;
}

bool gp_instr_begins(const gp_stages *stages, const gp_instr *instr, gp_frame *frame, uint16_t *slot) {
    switch (instr->op) {
    case GP_INSTR_LOAD: return set_begin(GP_FRAME_STASH, instr->slot, frame, slot);
    case GP_INSTR_FORWARD:
        if (instr->flags & GP_INSTR_KEEP) return set_begin(GP_FRAME_SAVED, instr->work, frame, slot);
        return stages->stage[instr->stage].out.count > 0 && set_begin(GP_FRAME_OUTBOX, instr->work, frame, slot);
    case GP_INSTR_RECOMPUTE: return set_begin(GP_FRAME_SAVED, instr->work, frame, slot);
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT: return set_begin(GP_FRAME_GRAD, instr->grad, frame, slot);
    case GP_INSTR_RECV:
        switch (stages->edges[instr->edge].kind) {
        case GP_EDGE_ACTIVATION:
        case GP_EDGE_SKIP: return set_begin(GP_FRAME_STASH, instr->slot, frame, slot);
        case GP_EDGE_GRADIENT: return set_begin(GP_FRAME_GRAD, instr->slot, frame, slot);
        case GP_EDGE_FLAG:
        case GP_EDGE_NORM: return false;
        }
        return false;
    default: return false;
    }
}

void gp_instr_sends_from(const gp_stages *stages, const gp_instr *instr, gp_frame *frame, uint16_t *slot) {
    *slot = instr->slot;
    if (stages->edges[instr->edge].kind == GP_EDGE_GRADIENT)
        *frame = GP_FRAME_GRAD;
    else
        *frame = instr->flags & GP_INSTR_KEEP ? GP_FRAME_SAVED : GP_FRAME_OUTBOX;
}

/* The life of one slot as its worker's program goes on. */
typedef struct slot_life {
    uint64_t stage_slot; /* stage·65536 + slot, +1; 0: no life yet */
    int micro;
    gp_wait *sent; /* from this life */
    size_t count, capacity;
} slot_life;

/* Lives of one worker, open addressing by (stage, slot), one table per frame. */
typedef struct life_table {
    slot_life *items;
    size_t size; /* a power of two */
} life_table;

static slot_life *find_life(life_table *table, uint16_t stage, uint16_t slot) {
    uint64_t key = ((uint64_t)stage << 16 | slot) + 1;
    /* The product's high bits: the low ones know no stage, and all stages' slot 0 would collide. */
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15U >> 32) & (table->size - 1);
    while (table->items[at].stage_slot && table->items[at].stage_slot != key) at = (at + 1) & (table->size - 1);
    if (!table->items[at].stage_slot) {
        table->items[at].stage_slot = key;
        table->items[at].micro = -1;
    }
    return &table->items[at];
}

static gp_status add_wait(gp_worker_waits *waits, gp_wait wait, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&waits->items, &waits->capacity, waits->count + 1, err));
    waits->items[waits->count++] = wait;
    return GP_OK;
}

static gp_status follow_slots(const gp_stages *stages, const gp_instr *instr, life_table *tables,
                              gp_worker_waits *waits, gp_error *err) {
    gp_frame frame;
    uint16_t slot;
    /* What arrives in a gradient slot lies beside what was sent from it, which only the backward overwrites. */
    bool beside = instr->op == GP_INSTR_RECV && stages->edges[instr->edge].kind == GP_EDGE_GRADIENT;
    if (!beside && gp_instr_begins(stages, instr, &frame, &slot)) {
        slot_life *life = find_life(&tables[frame], instr->stage, slot);
        if (life->micro != instr->micro) {
            for (size_t i = 0; i < life->count; i++) GP_RETURN_IF_FAILED(add_wait(waits, life->sent[i], err));
            life->count = 0;
            life->micro = instr->micro;
        }
    }
    if (instr->op == GP_INSTR_SEND && !gp_edge_is_fixed(&stages->edges[instr->edge])) {
        gp_instr_sends_from(stages, instr, &frame, &slot);
        slot_life *life = find_life(&tables[frame], instr->stage, slot);
        GP_RETURN_IF_FAILED(GP_GROW(&life->sent, &life->capacity, life->count + 1, err));
        life->sent[life->count++] = (gp_wait){instr->edge, instr->micro, GP_WAIT_PULLED};
    }
    return GP_OK;
}

/* Instructions that may name a slot: a bound on how many slots a program has. Barriers, the most in long pipelines, do
 * not. */
static size_t count_slot_instrs(const gp_program *program) {
    size_t count = 0;
    for (size_t pc = 0; pc < program->count; pc++) count += program->instrs[pc].op != GP_INSTR_BARRIER;
    return count;
}

static gp_status derive_worker(const gp_stages *stages, const gp_program *program, bool slots, gp_worker_waits *waits,
                               gp_error *err) {
    life_table tables[GP_FRAMES] = {{0}};
    size_t size = 16, touching = count_slot_instrs(program);
    while (size < 2 * touching) size *= 2;
    gp_status status = GP_NEW(&waits->first, program->count + 1, err);
    for (int f = 0; f < GP_FRAMES && slots && status == GP_OK; f++) {
        tables[f].size = size;
        status = GP_NEW(&tables[f].items, size, err);
    }
    for (size_t pc = 0; pc < program->count && status == GP_OK; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        waits->first[pc] = waits->count;
        if (instr->op == GP_INSTR_RECV)
            status = add_wait(waits, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, err);
        if (slots && status == GP_OK) status = follow_slots(stages, instr, tables, waits, err);
        waits->first[pc + 1] = waits->count;
    }
    for (int f = 0; f < GP_FRAMES; f++) {
        for (size_t i = 0; tables[f].items && i < size; i++) free(tables[f].items[i].sent);
        free(tables[f].items);
    }
    return status;
}

gp_status gp_waits_create(const gp_stages *stages, const gp_programs *programs, bool slots, gp_waits **out,
                          gp_error *err) {
    gp_waits *waits = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&waits, 1, err));
    waits->workers = programs->workers;
    gp_status status = GP_NEW(&waits->worker, programs->workers, err);
    for (int w = 0; w < programs->workers && status == GP_OK; w++)
        status = derive_worker(stages, &programs->worker[w], slots, &waits->worker[w], err);
    if (status != GP_OK) {
        gp_waits_destroy(&waits);
        return status;
    }
    *out = waits;
    return GP_OK;
}

void gp_waits_destroy(gp_waits **waits) {
    gp_waits *it = *waits;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].first);
        free(it->worker[w].items);
    }
    free(it->worker);
    free(it);
    *waits = NULL;
}

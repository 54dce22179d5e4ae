#include "schedule/waits.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

/* ---- events ------------------------------------------------------------------------------------------------------ */

bool gp_instr_event(const gp_instr *instr, gp_wait *out) {
    switch (instr->op) {
    case GP_INSTR_SEND: *out = (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}; return true;
    case GP_INSTR_RECV: *out = (gp_wait){instr->edge, instr->micro, GP_WAIT_PULLED}; return true;
    case GP_INSTR_POST: *out = (gp_wait){instr->collective, instr->stage, GP_WAIT_POSTED}; return true;
    case GP_INSTR_COLLECT: *out = (gp_wait){instr->collective, instr->stage, GP_WAIT_COLLECTED}; return true;
    default: return false;
    }
}

int gp_event_stage(const gp_stages *stages, const gp_wait *event) {
    if (gp_wait_is_joint(event)) return event->micro;
    const gp_edge *edge = &stages->edges[event->edge];
    return event->kind == GP_WAIT_SENT ? edge->from : edge->to;
}

size_t gp_event_number(const gp_stages *stages, int pieces, const gp_wait *event) {
    size_t copies = stages->edge_count * (size_t)pieces;
    if (gp_wait_is_joint(event)) {
        size_t place = gp_stages_place(stages, event->edge, event->micro);
        return 2 * (copies + place) + (event->kind == GP_WAIT_COLLECTED);
    }
    return event->kind * copies + (size_t)event->edge * (size_t)pieces + event->micro;
}

size_t gp_event_count(const gp_stages *stages, int pieces) {
    return 2 * (stages->edge_count * (size_t)pieces + stages->places);
}

const char *gp_event_text(char buffer[GP_EVENT_TEXT], const gp_wait *event) {
    if (gp_wait_is_joint(event))
        snprintf(buffer, GP_EVENT_TEXT, "stage %u %s collective %u", event->micro,
                 event->kind == GP_WAIT_POSTED ? "posts in" : "collects in", event->edge);
    else
        snprintf(buffer, GP_EVENT_TEXT, "micro-batch %u is %s on edge %u", event->micro,
                 event->kind == GP_WAIT_SENT ? "sent" : "received", event->edge);
    return buffer;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

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

/* Waits of an instruction that begins the slot's lifetime. Before that, all that was sent from the previous lifetime
 * must be pulled. */
static gp_status begin_life(slot_life *life, const gp_instr *instr, gp_worker_waits *waits, gp_error *err) {
    if (life->micro == instr->micro) return GP_OK;
    for (size_t i = 0; i < life->count; i++) GP_RETURN_IF_FAILED(add_wait(waits, life->sent[i], err));
    life->count = 0;
    life->micro = instr->micro;
    return GP_OK;
}

/* `waits`: of the instruction. `sends`: also notes what it sends. */
static gp_status follow_slots(const gp_stages *stages, const gp_instr *instr, life_table *tables, bool sends,
                              gp_worker_waits *waits, gp_error *err) {
    const gp_accesses its = gp_instr_accesses(stages, instr);
    for (int f = 0; f < GP_FRAMES; f++) {
        unsigned uses = its.frame[f].uses;
        if (!(uses & (GP_BEGINS | GP_SENDS)) || uses & GP_BESIDE) continue;
        slot_life *life = find_life(&tables[f], instr->stage, gp_instr_get_slot(instr, its.frame[f]));
        if (uses & GP_BEGINS) GP_RETURN_IF_FAILED(begin_life(life, instr, waits, err));
        if (!sends || !(uses & GP_SENDS)) continue;
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

static gp_status open_tables(const gp_program *program, life_table tables[GP_FRAMES], gp_error *err) {
    size_t size = 16, touching = count_slot_instrs(program);
    while (size < 2 * touching) size *= 2;
    for (int f = 0; f < GP_FRAMES; f++) {
        tables[f].size = size;
        GP_RETURN_IF_FAILED(GP_NEW(&tables[f].items, size, err));
    }
    return GP_OK;
}

static void close_tables(life_table tables[GP_FRAMES]) {
    for (int f = 0; f < GP_FRAMES; f++) {
        for (size_t i = 0; tables[f].items && i < tables[f].size; i++) free(tables[f].items[i].sent);
        free(tables[f].items);
    }
}

/* For all but the stage itself. */
static gp_status wait_for_members(const gp_indices *members, uint32_t collective, gp_wait_kind kind, int stage,
                                  gp_worker_waits *waits, gp_error *err) {
    for (size_t i = 0; i < members->count; i++) {
        const gp_wait wait = {collective, (uint16_t)members->items[i], (uint16_t)kind};
        if (wait.micro != stage) GP_RETURN_IF_FAILED(add_wait(waits, wait, err));
    }
    return GP_OK;
}

/* `tables`: NULL: no worker waits for slots. */
static gp_status derive_worker(const gp_stages *stages, const gp_program *program, life_table *tables,
                               gp_worker_waits *waits, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&waits->first, program->count + 1, err));
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        waits->first[pc] = (uint32_t)waits->count;
        if (instr->op == GP_INSTR_RECV)
            GP_RETURN_IF_FAILED(add_wait(waits, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, err));
        if (instr->op == GP_INSTR_COLLECT)
            GP_RETURN_IF_FAILED(wait_for_members(&stages->collectives[instr->collective].contributors,
                                                 instr->collective, GP_WAIT_POSTED, instr->stage, waits, err));
        if (tables) GP_RETURN_IF_FAILED(follow_slots(stages, instr, tables, true, waits, err));
        waits->first[pc + 1] = (uint32_t)waits->count;
    }
    return GP_OK;
}

/* ---- behind another mini-batch ----------------------------------------------------------------------------------- */

/* Every slot begins a new lifetime, even if the micro-batch has the same number as before. */
static void end_lives(life_table tables[GP_FRAMES]) {
    for (int f = 0; f < GP_FRAMES; f++)
        for (size_t i = 0; i < tables[f].size; i++) tables[f].items[i].micro = -1;
}

/* Whether the instruction is the first that writes what such a part is made of. */
static bool begins_part(const gp_stages *stages, const gp_instr *instr, gp_part_kind part) {
    bool alone = stages->stage[instr->stage].replicas == 1;
    switch (part) {
    case GP_PART_SQUARES: return instr->op == GP_INSTR_NORM;
    case GP_PART_SCALARS:
        return alone ? instr->op == GP_INSTR_FORWARD && instr->flags & GP_INSTR_LAST : instr->op == GP_INSTR_TOTAL;
    case GP_PART_LOSSES:
    case GP_PART_STATISTICS: return instr->op == GP_INSTR_FORWARD;
    case GP_PART_GRADIENTS: return gp_instr_is_backward(instr) && instr->flags & GP_INSTR_FIRST;
    case GP_PART_BLOCKS: return instr->op == GP_INSTR_REDUCE;
    case GP_PART_PARAMETERS: return instr->op == GP_INSTR_UPDATE;
    }
    return false;
}

static gp_status follow_parts(const gp_stages *stages, const gp_instr *instr, gp_worker_waits *waits, gp_error *err) {
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        if (!begins_part(stages, instr, its->part) || gp_indices_find(&its->contributors, instr->stage) < 0) continue;
        GP_RETURN_IF_FAILED(
            wait_for_members(&its->collectors, (uint32_t)c, GP_WAIT_COLLECTED, instr->stage, waits, err));
    }
    return GP_OK;
}

/* `tables` as the mini-batch before leaves them. */
static gp_status derive_behind(const gp_stages *stages, const gp_program *program, life_table *tables,
                               gp_worker_waits *waits, gp_error *err) {
    end_lives(tables);
    GP_RETURN_IF_FAILED(GP_NEW(&waits->first, program->count + 1, err));
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        waits->first[pc] = (uint32_t)waits->count;
        GP_RETURN_IF_FAILED(follow_slots(stages, instr, tables, false, waits, err));
        GP_RETURN_IF_FAILED(follow_parts(stages, instr, waits, err));
        waits->first[pc + 1] = (uint32_t)waits->count;
    }
    return GP_OK;
}

/* ---- all workers ------------------------------------------------------------------------------------------------- */

/* `behind`: NULL: is not asked for. */
static gp_status derive(const gp_stages *stages, const gp_programs *programs, int worker, bool slots,
                        gp_worker_waits *within, gp_worker_waits *behind, gp_error *err) {
    const gp_program *program = &programs->worker[worker];
    life_table tables[GP_FRAMES] = {{0}};
    gp_status status = slots ? open_tables(program, tables, err) : GP_OK;
    if (status == GP_OK) status = derive_worker(stages, program, slots ? tables : NULL, within, err);
    if (status == GP_OK && behind) status = derive_behind(stages, program, tables, behind, err);
    close_tables(tables);
    gp_shrink_array((void **)&within->items, &within->capacity, within->count, sizeof *within->items);
    return status;
}

static void free_worker(gp_worker_waits *waits) {
    free(waits->first);
    free(waits->items);
}

static gp_status create(const gp_stages *stages, const gp_programs *programs, bool slots, bool behind, gp_waits **out,
                        gp_error *err) {
    gp_waits *waits = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&waits, 1, err));
    waits->workers = programs->workers;
    gp_status status = GP_NEW(&waits->worker, programs->workers, err);
    for (int w = 0; w < programs->workers && status == GP_OK; w++) {
        gp_worker_waits base = {0}, *its = &waits->worker[w];
        status = derive(stages, programs, w, slots, behind ? &base : its, behind ? its : NULL, err);
        free_worker(&base);
    }
    if (status == GP_OK)
        *out = waits;
    else
        gp_waits_destroy(&waits);
    return status;
}

gp_status gp_waits_create(const gp_stages *stages, const gp_programs *programs, bool slots, gp_waits **out,
                          gp_error *err) {
    return create(stages, programs, slots, false, out, err);
}

gp_status gp_waits_create_behind(const gp_stages *stages, const gp_programs *programs, gp_waits **out, gp_error *err) {
    return create(stages, programs, true, true, out, err);
}

void gp_waits_destroy(gp_waits **waits) {
    gp_waits *it = *waits;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) free_worker(&it->worker[w]);
    free(it->worker);
    free(it);
    *waits = NULL;
}

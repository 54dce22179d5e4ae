#include "plan/program_index.h"

#include <stdlib.h>

#include "base/memory.h"

size_t gp_program_count(const gp_program *program, gp_instr_op op) {
    size_t count = 0;
    for (size_t pc = 0; pc < program->count; pc++) count += program->instrs[pc].op == op;
    return count;
}

static gp_status list_program(const gp_program *program, gp_program_index *out, int worker, gp_error *err) {
    size_t capacity = 0, *count = &out->barrier_count[worker];
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        gp_wait event;
        if (gp_instr_event(instr, &event)) out->places[gp_event_number(out->stages, out->pieces, &event)] = pc + 1;
        if (instr->op != GP_INSTR_BARRIER) continue;
        GP_RETURN_IF_FAILED(GP_GROW(&out->barriers[worker], &capacity, *count + 1, err));
        out->barriers[worker][(*count)++] = pc;
    }
    return GP_OK;
}

gp_status gp_program_index_init(const gp_stages *stages, const gp_programs *programs, gp_program_index *out,
                                gp_error *err) {
    size_t events = gp_event_count(stages, programs->pieces);
    *out = (gp_program_index){.stages = stages, .workers = programs->workers, .pieces = programs->pieces};
    GP_RETURN_IF_FAILED(GP_NEW(&out->places, events, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->barriers, programs->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->barrier_count, programs->workers, err));
    for (int w = 0; w < programs->workers; w++) GP_RETURN_IF_FAILED(list_program(&programs->worker[w], out, w, err));
    return GP_OK;
}

void gp_program_index_fini(gp_program_index *index) {
    for (int w = 0; index->barriers && w < index->workers; w++) free(index->barriers[w]);
    free(index->barriers);
    free(index->barrier_count);
    free(index->places);
    *index = (gp_program_index){0};
}

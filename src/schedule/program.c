#include "schedule/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/share.h"

static gp_micros range_of(gp_pieces pieces, bool full, bool last) {
    gp_micros its = {full ? 0 : pieces.count - 1, last ? pieces.count : pieces.count - 1};
    return its.first < its.end ? its : (gp_micros){0, 0};
}

static bool has(int64_t samples, const gp_stage *stage) {
    return gp_share_of(samples, stage->replicas, stage->replica).count > 0;
}

static bool meet(int64_t samples, const gp_stage *a, const gp_stage *b) {
    return gp_share_common(gp_share_of(samples, a->replicas, a->replica), gp_share_of(samples, b->replicas, b->replica))
               .count > 0;
}

gp_micros gp_micros_of_stage(gp_pieces pieces, const gp_stage *stage) {
    if (pieces.samples == 0) return (gp_micros){0, pieces.count};
    return range_of(pieces, has(pieces.samples, stage), has(pieces.last, stage));
}

gp_micros gp_micros_of_edge(gp_pieces pieces, const gp_stages *stages, size_t edge) {
    const gp_stage *from = &stages->stage[stages->edges[edge].from], *to = &stages->stage[stages->edges[edge].to];
    if (pieces.samples == 0) return (gp_micros){0, pieces.count};
    return range_of(pieces, meet(pieces.samples, from, to), meet(pieces.last, from, to));
}

size_t gp_edges_carrying(gp_pieces pieces, const gp_stages *stages, const gp_indices *edges, int micro) {
    size_t count = 0;
    for (size_t i = 0; i < edges->count; i++)
        count += gp_micros_have(gp_micros_of_edge(pieces, stages, (size_t)edges->items[i]), micro);
    return count;
}

int gp_replicas_with_samples(gp_pieces pieces, const gp_stage *stage) {
    if (pieces.samples == 0) return stage->replicas;
    int full = pieces.count > 1 ? gp_share_takers(pieces.samples, stage->replicas) : 0;
    int last = gp_share_takers(pieces.last, stage->replicas);
    return full > last ? full : last;
}

gp_status gp_programs_create(int workers, const int *worker_of_stage, int stages, int pieces, bool training,
                             bool descending, gp_programs **out, gp_error *err) {
    gp_programs *programs = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&programs, 1, err));
    *programs = (gp_programs){
        .workers = workers, .stages = stages, .pieces = pieces, .training = training, .descending = descending};
    gp_status status = GP_NEW(&programs->worker, workers, err);
    if (status == GP_OK) status = GP_NEW(&programs->worker_of_stage, stages, err);
    if (status != GP_OK) {
        gp_programs_destroy(&programs);
        return status;
    }
    memcpy(programs->worker_of_stage, worker_of_stage, (size_t)stages * sizeof *worker_of_stage);
    *out = programs;
    return GP_OK;
}

void gp_programs_destroy(gp_programs **programs) {
    gp_programs *it = *programs;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].instrs);
        free(it->worker[w].lines);
    }
    free(it->source);
    free(it->worker);
    free(it->worker_of_stage);
    free(it);
    *programs = NULL;
}

static gp_status copy_worker(const gp_program *program, gp_program *to, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&to->instrs, program->count, err));
    to->count = to->capacity = program->count;
    if (program->count) memcpy(to->instrs, program->instrs, program->count * sizeof *to->instrs);
    if (!program->lines) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&to->lines, program->count, err));
    to->lines_capacity = program->count;
    if (program->count) memcpy(to->lines, program->lines, program->count * sizeof *to->lines);
    return GP_OK;
}

gp_status gp_programs_copy(const gp_programs *programs, gp_programs **out, gp_error *err) {
    gp_programs *copy = NULL;
    GP_RETURN_IF_FAILED(gp_programs_create(programs->workers, programs->worker_of_stage, programs->stages,
                                           programs->pieces, programs->training, programs->descending, &copy, err));
    copy->piece = programs->piece;
    copy->last = programs->last;
    gp_status status = programs->source ? gp_copy_text(&copy->source, programs->source, err) : GP_OK;
    for (int w = 0; w < programs->workers && status == GP_OK; w++)
        status = copy_worker(&programs->worker[w], &copy->worker[w], err);
    if (status != GP_OK)
        gp_programs_destroy(&copy);
    else
        *out = copy;
    return status;
}

gp_status gp_programs_refuse(const gp_programs *programs, int worker, size_t pc, gp_error *err, const char *format,
                             ...) {
    const gp_program *program = &programs->worker[worker];
    char what[512], text[GP_INSTR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    gp_place place = {programs->source, program->lines ? (int)program->lines[pc] : 0, program->lines ? 1 : 0};
    gp_instr_text(text, &program->instrs[pc]);
    if (!place.line) return gp_fail(err, GP_PROGRAM, "worker %d, instruction %zu (%s): %s", worker, pc, text, what);
    return gp_fail_at(err, GP_PROGRAM, place, "worker %d, instruction %zu (%s): %s", worker, pc, text, what);
}

gp_status gp_program_add(gp_program *program, gp_instr instr, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&program->instrs, &program->capacity, program->count + 1, err));
    program->instrs[program->count++] = instr;
    return GP_OK;
}

void gp_program_trim(gp_program *program) {
    gp_shrink_array((void **)&program->instrs, &program->capacity, program->count, sizeof *program->instrs);
}

bool gp_programs_have_norms(const gp_programs *programs) {
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            if (programs->worker[w].instrs[pc].op == GP_INSTR_NORM) return true;
    return false;
}

const char *gp_instr_op_name(int op) {
    return op >= 0 && op < GP_INSTR_OPS ? gp_instr_rows[op].name : "?";
}

const char *gp_instr_text(char buffer[GP_INSTR_TEXT], const gp_instr *instr) {
    const char *name = gp_instr_op_name(instr->op);
    unsigned traits = instr->op < GP_INSTR_OPS ? gp_instr_rows[instr->op].traits : GP_HAS_MICRO;
    if (instr->op == GP_INSTR_BARRIER)
        snprintf(buffer, GP_INSTR_TEXT, "%s, clock %u", name, instr->clock);
    else if (traits & GP_HAS_EDGE)
        snprintf(buffer, GP_INSTR_TEXT, "%s s%u m%u e%u", name, instr->stage, instr->micro, instr->edge);
    else if (traits & GP_HAS_COLLECTIVE)
        snprintf(buffer, GP_INSTR_TEXT, "%s s%u c%u", name, instr->stage, instr->collective);
    else if (traits & GP_HAS_MICRO)
        snprintf(buffer, GP_INSTR_TEXT, "%s s%u m%u", name, instr->stage, instr->micro);
    else
        snprintf(buffer, GP_INSTR_TEXT, "%s s%u", name, instr->stage);
    return buffer;
}

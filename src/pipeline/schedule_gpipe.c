#include "pipeline/schedule.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct generator {
    const gp_schedule_request *request;
    gp_program *program;
    const gp_stage *stage;
    int s;
    uint32_t clock;
} generator;

static gp_status emit(generator *g, gp_instr_op op, int micro, unsigned flags, gp_error *err) {
    gp_instr instr = {.op = (uint8_t)op,
                      .flags = (uint8_t)flags,
                      .stage = (uint16_t)g->s,
                      .micro = (uint16_t)micro,
                      .clock = g->clock};
    return gp_program_add(g->program, instr, err);
}

static gp_status emit_copies(generator *g, gp_instr_op op, const gp_indices *edges, int micro, unsigned flags,
                             gp_error *err) {
    for (size_t i = 0; i < edges->count; i++) {
        GP_RETURN_IF_FAILED(emit(g, op, micro, flags, err));
        g->program->instrs[g->program->count - 1].edge = (uint32_t)edges->items[i];
    }
    return GP_OK;
}

static bool keeps(const generator *g, int micro) {
    return g->request->training && gp_checkpoint_keeps(g->request->checkpoint, micro, g->request->pieces);
}

static gp_status emit_recompute(generator *g, int micro, gp_error *err) {
    if (micro < 0 || keeps(g, micro)) return GP_OK;
    return emit(g, GP_INSTR_RECOMPUTE, micro, 0, err);
}

static gp_status emit_barrier(generator *g, gp_error *err) {
    return g->request->lockstep ? emit(g, GP_INSTR_BARRIER, 0, 0, err) : GP_OK;
}

static gp_status forward_clock(generator *g, int micro, gp_error *err) {
    bool works = micro >= 0 && micro < g->request->pieces;
    bool last = micro == g->request->pieces - 1;
    if (works) {
        if (g->stage->loads_input || g->stage->loads_target) GP_RETURN_IF_FAILED(emit(g, GP_INSTR_LOAD, micro, 0, err));
        GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_RECV, &g->stage->in, micro, 0, err));
    }
    GP_RETURN_IF_FAILED(emit_barrier(g, err));
    if (!works) return GP_OK;
    unsigned keep = keeps(g, micro) ? GP_INSTR_KEEP : 0;
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_FORWARD, micro, keep | (last ? GP_INSTR_LAST : 0), err));
    GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_SEND, &g->stage->out, micro, keep, err));
    if (last && g->request->training && !g->request->stages->norms)
        GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_SEND, &g->stage->flag_out, micro, 0, err));
    return GP_OK;
}

static gp_status emit_norm(generator *g, int micro, gp_error *err) {
    int edge = g->stage->norm_out;
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_NORM, 0, 0, err));
    return edge < 0 ? GP_OK : emit_copies(g, GP_INSTR_SEND, &(gp_indices){&edge, 1, 1}, micro, 0, err);
}

static gp_status backward_clock(generator *g, int micro, gp_error *err) {
    int pieces = g->request->pieces;
    bool works = micro >= 0 && micro < pieces;
    if (works) GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_RECV, &g->stage->grad_in, micro, 0, err));
    GP_RETURN_IF_FAILED(emit_barrier(g, err));
    if (works) {
        GP_RETURN_IF_FAILED(emit(g, GP_INSTR_BACKWARD, micro, micro == pieces - 1 ? GP_INSTR_FIRST : 0, err));
        GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_SEND, &g->stage->grad_out, micro, 0, err));
        if (micro == 0 && g->request->stages->norms) GP_RETURN_IF_FAILED(emit_norm(g, pieces - 1, err));
    }
    /* The clock before micro-batch `next`'s backward: its recompute need not wait for the gradient. */
    int next = micro - 1;
    return next < pieces ? emit_recompute(g, next, err) : GP_OK;
}

static gp_status emit_clip(generator *g, int micro, gp_error *err) {
    GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_RECV, &g->stage->norm_in, micro, 0, err));
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_CLIP, 0, 0, err));
    return emit_copies(g, GP_INSTR_SEND, &g->stage->flag_out, micro, 0, err);
}

static gp_status generate_stage(generator *g, gp_error *err) {
    int stages = g->request->stages->count, pieces = g->request->pieces;
    int half = pieces + stages - 1; /* clocks forward, and as many backward */
    for (int k = 0; k < half; k++, g->clock++) GP_RETURN_IF_FAILED(forward_clock(g, k - g->s, err));
    if (!g->request->training) return GP_OK;
    /* The last stage's first backward follows at once: its recompute belongs to the last clock of the forward half. */
    if (g->s == stages - 1) {
        g->clock--;
        GP_RETURN_IF_FAILED(emit_recompute(g, pieces - 1, err));
        g->clock++;
    }
    for (int k = 0; k < half; k++, g->clock++)
        GP_RETURN_IF_FAILED(backward_clock(g, pieces - 1 - (k - (stages - 1 - g->s)), err));
    g->clock--;
    if (g->request->stages->norms && g->s == stages - 1) GP_RETURN_IF_FAILED(emit_clip(g, pieces - 1, err));
    if (g->stage->flag_in >= 0) {
        int edge = g->stage->flag_in;
        GP_RETURN_IF_FAILED(emit_copies(g, GP_INSTR_RECV, &(gp_indices){&edge, 1, 1}, pieces - 1, 0, err));
    }
    return emit(g, GP_INSTR_STEP, 0, 0, err);
}

gp_status gp_schedule_gpipe(const gp_schedule_request *request, gp_programs **out, gp_error *err) {
    int stages = request->stages->count;
    gp_programs *programs = NULL;
    int *worker_of_stage = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&worker_of_stage, stages, err));
    for (int s = 0; s < stages; s++) worker_of_stage[s] = s;
    gp_status status =
        gp_programs_create(stages, worker_of_stage, stages, request->pieces, request->training, true, &programs, err);
    free(worker_of_stage);
    for (int s = 0; s < stages && status == GP_OK; s++) {
        generator g = {request, &programs->worker[s], &request->stages->stage[s], s, 0};
        status = generate_stage(&g, err);
    }
    if (status != GP_OK) {
        gp_programs_destroy(&programs);
        return status;
    }
    *out = programs;
    return GP_OK;
}

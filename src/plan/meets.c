#include "plan/meets.h"

#include <stdlib.h>

#include "base/memory.h"

/* Goes through all receives of activations, skips and gradients from another worker that stand before some barrier. */
typedef struct walk {
    const gp_stages *stages;
    const gp_programs *programs;
    int worker;
    size_t pc;
    size_t barrier; /* passed by this worker */
} walk;

static size_t count_barriers(const gp_program *program) {
    size_t count = 0;
    for (size_t pc = 0; pc < program->count; pc++) count += program->instrs[pc].op == GP_INSTR_BARRIER;
    return count;
}

/* The next receive, which stands after `w->barrier` barriers of its program; NULL: there are no more. *from: the
 * worker that it copies from. */
static const gp_instr *next_copy(walk *w, int *from) {
    for (; w->worker < w->programs->workers; w->worker++, w->pc = w->barrier = 0) {
        const gp_program *program = &w->programs->worker[w->worker];
        while (w->pc < program->count) {
            const gp_instr *instr = &program->instrs[w->pc++];
            w->barrier += instr->op == GP_INSTR_BARRIER;
            if (instr->op != GP_INSTR_RECV) continue;
            *from = w->programs->worker_of_stage[w->stages->edges[instr->edge].from];
            if (*from != w->worker) return instr;
        }
    }
    return NULL;
}

static bool share_device(const gp_device_spec *a, const gp_device_spec *b) {
    return !a->kind->on_host && a->kind == b->kind && a->index == b->index;
}

static bool any_share(const gp_device_spec *devices, int workers) {
    for (int a = 0; a < workers; a++)
        for (int b = a + 1; b < workers; b++)
            if (share_device(&devices[a], &devices[b])) return true;
    return false;
}

static gp_status reserve(gp_waits *meets, size_t barriers, gp_error *err) {
    for (int w = 0; w < meets->workers; w++) {
        gp_worker_waits *its = &meets->worker[w];
        for (size_t b = 0; b < barriers; b++) its->first[b + 1] += its->first[b];
        its->count = its->capacity = its->first[barriers];
        GP_RETURN_IF_FAILED(GP_NEW(&its->items, its->count, err));
    }
    return GP_OK;
}

/* Once to count them, once to put them where their barrier's begin; `first` moves on meanwhile. */
static gp_status fill(const gp_stages *stages, const gp_programs *programs, size_t barriers, gp_waits *meets,
                      gp_error *err) {
    const gp_instr *copy;
    int from;
    for (walk w = {.stages = stages, .programs = programs}; next_copy(&w, &from);)
        if (w.barrier < barriers) meets->worker[from].first[w.barrier + 1]++;
    GP_RETURN_IF_FAILED(reserve(meets, barriers, err));
    for (walk w = {.stages = stages, .programs = programs}; (copy = next_copy(&w, &from));) {
        gp_worker_waits *its = &meets->worker[from];
        if (w.barrier < barriers)
            its->items[its->first[w.barrier]++] = (gp_wait){copy->edge, copy->micro, GP_WAIT_PULLED};
    }
    for (int w = 0; w < meets->workers; w++) {
        uint32_t *first = meets->worker[w].first;
        for (size_t b = barriers; b > 0; b--) first[b] = first[b - 1];
        first[0] = 0;
    }
    return GP_OK;
}

gp_status gp_meets_create(const gp_stages *stages, const gp_programs *programs, const gp_device_spec *devices,
                          gp_waits **out, gp_error *err) {
    size_t barriers = count_barriers(&programs->worker[0]);
    gp_waits *meets = NULL;
    if (barriers == 0 || any_share(devices, programs->workers)) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&meets, 1, err));
    meets->workers = programs->workers;
    gp_status status = GP_NEW(&meets->worker, programs->workers, err);
    for (int w = 0; w < programs->workers && status == GP_OK; w++)
        status = GP_NEW(&meets->worker[w].first, barriers + 1, err);
    if (status == GP_OK) status = fill(stages, programs, barriers, meets, err);
    if (status == GP_OK)
        *out = meets;
    else
        gp_waits_destroy(&meets);
    return status;
}

#include "plan/meets.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/program_index.h"

static bool share_device(const gp_device_spec *a, const gp_device_spec *b) {
    return !a->kind->on_host && a->kind == b->kind && a->index == b->index;
}

static bool any_share(const gp_device_spec *devices, int workers) {
    for (int a = 0; a < workers; a++)
        for (int b = a + 1; b < workers; b++)
            if (share_device(&devices[a], &devices[b])) return true;
    return false;
}

/* A receive of an activation, skip or gradient from another worker is that worker's to wait for. */
static gp_status add_receive(const gp_stages *stages, const gp_programs *programs, int worker, const gp_instr *instr,
                             gp_waits *meets, gp_error *err) {
    if (instr->op != GP_INSTR_RECV) return GP_OK;
    int from = gp_programs_worker(programs, stages->edges[instr->edge].from);
    gp_worker_waits *its = &meets->worker[from];
    if (from == worker) return GP_OK;
    GP_RETURN_IF_FAILED(GP_GROW(&its->items, &its->capacity, its->count + 1, err));
    its->items[its->count++] = (gp_wait){instr->edge, instr->micro, GP_WAIT_PULLED};
    return GP_OK;
}

/* Barrier by barrier. `next`: of each worker, the instruction after the barrier before. */
static gp_status fill(const gp_stages *stages, const gp_programs *programs, size_t barriers, size_t *next,
                      gp_waits *meets, gp_error *err) {
    for (size_t b = 0; b < barriers; b++) {
        for (int w = 0; w < meets->workers; w++) {
            const gp_instr *instr = &programs->worker[w].instrs[next[w]];
            for (; instr->op != GP_INSTR_BARRIER; instr++)
                GP_RETURN_IF_FAILED(add_receive(stages, programs, w, instr, meets, err));
            next[w] = (size_t)(instr + 1 - programs->worker[w].instrs);
        }
        for (int w = 0; w < meets->workers; w++) meets->worker[w].first[b + 1] = (uint32_t)meets->worker[w].count;
    }
    for (int w = 0; w < meets->workers; w++)
        gp_shrink_array((void **)&meets->worker[w].items, &meets->worker[w].capacity, meets->worker[w].count,
                        sizeof *meets->worker[w].items);
    return GP_OK;
}

gp_status gp_meets_create(const gp_stages *stages, const gp_programs *programs, const gp_device_spec *devices,
                          gp_waits **out, gp_error *err) {
    size_t barriers = gp_program_count(&programs->worker[0], GP_INSTR_BARRIER), *next = NULL;
    gp_waits *meets = NULL;
    if (barriers == 0 || any_share(devices, programs->workers)) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&meets, 1, err));
    meets->workers = programs->workers;
    gp_status status = GP_NEW(&meets->worker, programs->workers, err);
    for (int w = 0; w < programs->workers && status == GP_OK; w++)
        status = GP_NEW(&meets->worker[w].first, barriers + 1, err);
    if (status == GP_OK) status = GP_NEW(&next, programs->workers, err);
    if (status == GP_OK) status = fill(stages, programs, barriers, next, meets, err);
    free(next);
    if (status == GP_OK)
        *out = meets;
    else
        gp_waits_destroy(&meets);
    return status;
}

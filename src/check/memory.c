/* Where memory lies: nothing over anything else, all within the arena, and what the plan says is in use is at least
 * what the lives say. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check/facts.h"

/* A stretch of a worker's arena. */
typedef struct region {
    int64_t first, end;
    char name[120];
} region;

static int compare_regions(const void *a, const void *b) {
    const region *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static size_t find_regions(const gp_claim *claim, int worker, region *out) {
    size_t count = 0;
    for (size_t s = 0; s < claim->stage_count; s++) {
        const gp_claim_stage *stage = &claim->stages[s];
        if (stage->worker != worker) continue;
        for (size_t b = 0; b < stage->buffer_count; b++) {
            region *to = &out[count++];
            *to =
                (region){.first = stage->buffers[b].offset, .end = stage->buffers[b].offset + stage->buffers[b].bytes};
            snprintf(to->name, sizeof to->name, "%.80s of stage %zu", stage->buffers[b].name, s);
        }
        for (int f = 0; f < GP_CLAIM_FRAMES; f++) {
            region *to = &out[count++];
            *to = (region){.first = stage->slots[f].offset,
                           .end = stage->slots[f].offset + stage->slots[f].bytes * stage->slots[f].count};
            snprintf(to->name, sizeof to->name, "the %s slots of stage %zu", gp_claim_frames[f], s);
        }
    }
    const gp_claim_buffer *transient = &claim->workers[worker].transient;
    out[count] = (region){.first = transient->offset, .end = transient->offset + transient->bytes};
    snprintf(out[count++].name, sizeof out->name, "the transient area");
    return count;
}

/* An evaluation saves nothing: its transients may lie on saved slots and on those of training, and on nothing else. */
static gp_status check_evaluation(const gp_claim *claim, int worker, const region *it, gp_error *err) {
    const gp_claim_buffer *area = &claim->workers[worker].evaluation;
    bool may = strstr(it->name, "the saved slots of") == it->name || !strcmp(it->name, "the transient area");
    if (may || area->bytes == 0 || it->end == it->first || it->end <= area->offset ||
        it->first >= area->offset + area->bytes)
        return GP_OK;
    return gp_fail(err, GP_PROGRAM, "worker %d: %s and the transients of evaluations lie on the same bytes", worker,
                   it->name);
}

static gp_status check_regions_of(const gp_claim *claim, int worker, region *regions, gp_error *err) {
    size_t count = find_regions(claim, worker, regions);
    int64_t arena = claim->workers[worker].arena;
    qsort(regions, count, sizeof *regions, compare_regions);
    const region *before = NULL;
    const gp_claim_buffer *area = &claim->workers[worker].evaluation;
    if (area->offset + area->bytes > arena)
        return gp_fail(err, GP_PROGRAM, "worker %d: the transients of evaluations end beyond the arena", worker);
    for (size_t i = 0; i < count; i++) {
        const region *it = &regions[i];
        if (it->end > arena)
            return gp_fail(err, GP_PROGRAM,
                           "worker %d: %s ends at byte %" PRId64 ", but the arena has %" PRId64 " bytes", worker,
                           it->name, it->end, arena);
        GP_RETURN_IF_FAILED(check_evaluation(claim, worker, it, err));
        if (it->end == it->first) continue;
        if (before && before->end > it->first)
            return gp_fail(err, GP_PROGRAM, "worker %d: %s and %s lie on the same bytes, from %" PRId64 " on", worker,
                           before->name, it->name, it->first);
        before = it;
    }
    return GP_OK;
}

/* A parameter has four bytes at least (f32), whatever it is computed in. */
static gp_status check_room(const gp_claim *claim, size_t s, gp_error *err) {
    int64_t sum = 0;
    for (size_t b = 0; b < claim->stages[s].buffer_count; b++) sum += claim->stages[s].buffers[b].bytes;
    if (sum / 4 >= claim->stages[s].parameters) return GP_OK;
    return gp_fail(err, GP_PROGRAM, "stage %zu has buffers of %" PRId64 " bytes for %" PRId64 " parameters", s, sum,
                   claim->stages[s].parameters);
}

gp_status gp_check_regions(const gp_claim *claim, gp_error *err) {
    size_t most = 0;
    region *regions = NULL;
    gp_status status = GP_OK;
    for (size_t s = 0; s < claim->stage_count; s++) {
        GP_RETURN_IF_FAILED(check_room(claim, s, err));
        most += claim->stages[s].buffer_count + GP_CLAIM_FRAMES;
    }
    GP_RETURN_IF_FAILED(GP_NEW(&regions, most + 1, err));
    for (int w = 0; w < (int)claim->worker_count && status == GP_OK; w++)
        status = check_regions_of(claim, w, regions, err);
    free(regions);
    return status;
}

/* Bytes of what outlives the step on a worker. */
static int64_t fixed_bytes(const gp_claim *claim, int worker) {
    int64_t sum = 0;
    for (size_t s = 0; s < claim->stage_count; s++)
        for (size_t b = 0; b < claim->stages[s].buffer_count && claim->stages[s].worker == worker; b++)
            sum += claim->stages[s].buffers[b].bytes;
    return sum;
}

/* What lives in slots is in use, besides what outlives the step. Transients come on top: how many, the plan says. */
gp_status gp_check_memory(const gp_facts *f, int64_t *peak) {
    for (int w = 0; w < (int)f->claim->worker_count; w++) {
        int64_t least = f->claim->slots ? fixed_bytes(f->claim, w) : 0;
        for (size_t pc = 0; pc < f->program->worker[w].count; pc++) {
            const gp_claim_instr *instr = &f->program->worker[w].instrs[pc];
            if (f->grows) least += f->grows[w][pc];
            if (instr->alive > f->claim->workers[w].arena)
                return gp_facts_refuse(f, instr->stage, (int64_t)pc,
                                       "has %" PRId64 " bytes in use, but the arena has %" PRId64, instr->alive,
                                       f->claim->workers[w].arena);
            if (instr->alive >= 0 && instr->alive < least)
                return gp_facts_refuse(f, instr->stage, (int64_t)pc,
                                       "is said to have %" PRId64
                                       " bytes in use, but what stays and all slots in use take %" PRId64,
                                       instr->alive, least);
            if (instr->alive > peak[w]) peak[w] = instr->alive;
        }
    }
    return GP_OK;
}

/* The memory of a plan: how slots and stages share each worker's arena, and where its use peaks. Part of making a plan;
 * pure. */
#ifndef GP_PLAN_MEMORY_H
#define GP_PLAN_MEMORY_H

#include "base/status.h"
#include "plan/plan.h"

/* Lays out the arenas: fixed parts and slots of a worker's stages one after another, then the transient area that they
 * share. Saved slots are a stage's last. An evaluation saves nothing, so its transients begin where those of the last
 * stage do. Needs slots assigned in all programs and the stages' frames. */
GP_MUST_USE gp_status gp_memory_lay_out(gp_plan *plan, gp_error *err);

/* Bytes of a worker's transient area: `training` of a pass that trains, or what an `evaluation` needs beyond the
 * `saved` bytes of the worker's last stage. */
size_t gp_memory_transients(size_t training, size_t evaluation, size_t saved);

/* Bytes alive on a worker while each instruction of mini-batch plan `mini` runs, its transients included: as many as
 * the worker's program has instructions. */
GP_MUST_USE gp_status gp_memory_follow(const gp_plan *plan, int mini, int worker, size_t *bytes, gp_error *err);

/* The most bytes that are alive at once on a worker, over all mini-batches, and when. */
typedef struct gp_memory_peak {
    size_t bytes;
    int mini;
    size_t pc;
} gp_memory_peak;
GP_MUST_USE gp_status gp_memory_find_peak(const gp_plan *plan, int worker, gp_memory_peak *out, gp_error *err);

/* Bytes of the host's memory that a worker's device pins, about: for what a step loads, for what it receives from
 * devices of other kinds or over the wire, for the largest message that it sends over the wire, and for the largest
 * parameter that is read or written. */
size_t gp_memory_pinned(const gp_plan *plan, int worker);

/* GP_MEMORY where a worker's arena, and what its device takes beside it, exceed the device's `memory`: the numbers,
 * kind by kind. The caller gives it a place and what would make it fit. *worker is the first such worker. */
GP_MUST_USE gp_status gp_memory_check(const gp_plan *plan, int *worker, gp_error *err);

#endif

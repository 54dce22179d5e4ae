/* A run: the plan's workers at work, one thread each from create to destroy.
 *
 * Each worker opens its device, reserves its arena once, and then carries out its programs. Workers share nothing but
 * signals, the barrier and the cancel flag; a worker's memory is read by others only through a pull of what it sent.
 * The first error cancels the run: every wait ends, every worker stops, every later call returns the cause.
 *
 * The functions below are called by one thread (the trainer's), one at a time; they block until the workers are done,
 * but for gp_run_begin. While a step is under way only gp_run_begin, gp_run_end and gp_run_destroy may be called.
 */
#ifndef GP_PIPELINE_RUN_H
#define GP_PIPELINE_RUN_H

#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"
#include "process/wire.h"
#include "trace/recorder.h"

/* Where a worker is. */
typedef struct gp_site {
    int worker;
    int mini; /* index in plan->minis */
    uint64_t step;
    size_t pc;
    const gp_instr *instr;
} gp_site;

/* Called by each worker's thread around each instruction; for tests (delays, faults, inspection of memory). Either may
 * be NULL. A failure is the instruction's. */
typedef struct gp_hooks {
    void *context;
    gp_status (*before)(void *context, const gp_site *site, gp_error *err);
    gp_status (*after)(void *context, const gp_site *site, gp_error *err);
} gp_hooks;

typedef struct gp_run gp_run;

/* Starts the workers. The plan is borrowed until destroy. Parameters, states and statistics are zero until written. */
GP_MUST_USE gp_status gp_run_create(const gp_plan *plan, const gp_hooks *hooks, gp_run **out, gp_error *err);
/* The part of this process (plan->rank) in a run of several. The wire is borrowed until destroy; NULL: it is alone, and
 * has all workers. All processes make the same plan, but for its rank. Process 0 calls the functions below; the others
 * call gp_run_follow (pipeline/team.h). */
GP_MUST_USE gp_status gp_run_create_team(const gp_plan *plan, const gp_hooks *hooks, gp_wire *wire, gp_run **out,
                                         gp_error *err);
/* Raised when the run fails. A caller may raise it, which ends the run. Any thread. */
gp_cancel *gp_run_cancel(gp_run *run);
/* Whether the queues of devices write progress notes, so that a late failure is placed; at first they do not. Between
 * steps. */
void gp_run_note(gp_run *run, bool notes);
/* Joins all workers, whatever happened. */
void gp_run_destroy(gp_run **run);

/* Bytes of the host's memory that a run takes beside the arenas: workers, and channels with room for the copies that
 * can be in flight. GP_MEMORY. */
GP_MUST_USE gp_status gp_run_bytes(const gp_plan *plan, size_t *out, gp_error *err);

/* One mini-batch. Input and target stay untouched until the call returns. */
typedef struct gp_step_input {
    const void *input; /* [samples, …] in the order of memory */
    const void *target;
    uint64_t seed;
    uint32_t step; /* from 1; dropout draws by it */
    double rate;
    double divisor;       /* targets that count; ≥ 1 */
    int64_t epoch, index; /* of the mini-batch in its data, for the other processes that load it */
} gp_step_input;

typedef struct gp_step_result {
    double loss_sum;        /* over the targets that count */
    double right;           /* predictions that were */
    bool finite;            /* false: the update changed nothing */
    double grad_norm, clip; /* of all gradients, and what they were multiplied by; 0 and 1 where norms are not asked */
} gp_step_result;

GP_MUST_USE gp_status gp_run_step(gp_run *run, int mini, const gp_step_input *input, gp_step_result *result,
                                  gp_error *err);

/* The step's two halves: everything is enqueued; it has come to its end. Where devices work on their own, the next step
 * can be begun behind one that is under way (two at most), so that no device waits for the host between them: one of
 * the same mini-batch plan, which trains, and none is recorded. From a step that was not finite on, updates change
 * nothing until one is begun when none is under way. gp_run_end: of the step that was begun first. */
GP_MUST_USE gp_status gp_run_begin(gp_run *run, int mini, const gp_step_input *input, gp_error *err);
GP_MUST_USE gp_status gp_run_end(gp_run *run, gp_step_result *result, gp_error *err);

/* What the loss was given by the evaluation that ran last, of mini-batch plan `mini`: [samples, …] in the order of
 * memory, of plan->types.storage. The plan was made with `predict`. */
GP_MUST_USE gp_status gp_run_prediction(gp_run *run, int mini, void *out, gp_error *err);

/* Squares of the gradients of trained parameters, in the order of the graph, of the step that ran last. The plan was
 * made with `norms`. */
GP_MUST_USE gp_status gp_run_squares(gp_run *run, double *out, gp_error *err);

/* From the next step on, worker w adds a span for each instruction to lane w (group: index in plan->minis; index: in
 * its program). The caller has reserved room for the step's programs. NULL: nothing is recorded. */
void gp_run_record(gp_run *run, gp_recorder *recorder);

/* A tensor of a parameter, in PyTorch's order, of plan->types.master; `host` is what it is copied to or from. */
typedef struct gp_tensor_copy {
    int param, state; /* state −1: the parameter itself; else the optimizer's */
    void *host;
} gp_tensor_copy;

/* One command for the whole list. It wakes only the workers that have one of these parameters. */
GP_MUST_USE gp_status gp_run_read(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err);
GP_MUST_USE gp_status gp_run_write(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err);
/* Bytes of the plan's largest parameter. Pure. */
size_t gp_run_largest_param(const gp_plan *plan);
/* Brings the working copies up to date after writes. */
GP_MUST_USE gp_status gp_run_refresh(gp_run *run, gp_error *err);

/* Whether each worker on the host has processors of its own: the plan asks for it, and there are enough. */
bool gp_run_is_pinned(const gp_run *run);

/* Microseconds for which workers spin before they sleep; 0: the process has too few processors for the threads of CPU
 * workers and one thread of each GPU's worker. */
uint32_t gp_run_spin(const gp_run *run);

/* How often commands woke a worker so far, for tests. Between calls. */
uint64_t gp_run_wakes(const gp_run *run);
/* A worker's arena, for tests: exactly plan->arena[worker] bytes. Only from hooks of that worker, or between calls. */
void *gp_run_arena(const gp_run *run, int worker);

#endif

#include "plan/plan_size.h"

#include <inttypes.h>

#include "base/memory.h"
#include "checkpoint/policy.h"
#include "schedule/emit.h"
#include "schedule/schedule_file.h"

/* One mini-batch's. */
typedef struct amount {
    uint64_t instrs;
    uint64_t copies; /* micro-batches that go over an edge, and parts of collectives */
    uint64_t places; /* micro-batches times edges: what tables by edge and micro-batch have */
} amount;

/* Of the micro-batches of which the stage has samples. */
static uint64_t count_recomputes(gp_checkpoint_mode mode, gp_micros micros, int pieces) {
    uint64_t count = 0;
    for (int m = micros.first; m < micros.end; m++) count += !gp_checkpoint_keeps(mode, m, pieces);
    return count;
}

static uint64_t count_copies(const gp_stages *stages, gp_pieces pieces, const gp_indices *edges) {
    uint64_t count = 0;
    for (size_t i = 0; i < edges->count; i++)
        count += (uint64_t)gp_micros_count(gp_micros_of_edge(pieces, stages, (size_t)edges->items[i]));
    return count;
}

/* What a stage does with micro-batches but for recomputing and backward for weights. */
static uint64_t count_passes(const gp_stages *stages, const gp_stage *stage, gp_pieces pieces, bool training) {
    uint64_t micros = (uint64_t)gp_micros_count(gp_micros_of_stage(pieces, stage));
    uint64_t copies = count_copies(stages, pieces, &stage->in) + count_copies(stages, pieces, &stage->out);
    uint64_t count = copies + micros + (stage->loads_input || stage->loads_target ? micros : 0);
    if (!training) return count;
    copies = count_copies(stages, pieces, &stage->grad_in) + count_copies(stages, pieces, &stage->grad_out);
    return count + micros + copies;
}

/* Losses of replicas, and their total. */
static uint64_t count_for_losses(const gp_stages *stages) {
    int replicas = stages->stage[gp_stages_root(stages)].replicas;
    return replicas > 1 ? (uint64_t)replicas + 1 : 0;
}

/* Once in a mini-batch that trains: the step, the norm, what travels with them. */
static uint64_t count_once(const gp_stages *stages) {
    uint64_t count = (uint64_t)stages->count + count_for_losses(stages);
    for (size_t c = 0; c < stages->collective_count; c++)
        if (stages->collectives[c].part != GP_PART_LOSSES)
            count += stages->collectives[c].contributors.count + stages->collectives[c].collectors.count;
    for (int s = 0; s < stages->count; s++) {
        count += (uint64_t)stages->stage[s].buckets; /* reduce */
        count += gp_stage_shards(stages, s);         /* update */
    }
    return count + (stages->norms ? (uint64_t)stages->numbers + 1 : 0);
}

/* All workers have each clock's barrier; only gpipe has them, with a stage on each worker. */
static uint64_t count_barriers(const gp_plan *plan, const gp_mini_plan *mini) {
    uint64_t clocks = (uint64_t)mini->pieces + (uint64_t)plan->stages->numbers - 1;
    if (!plan->lockstep || plan->schedule.kind != GP_SCHEDULE_GPIPE) return 0;
    return (uint64_t)plan->workers * clocks * (mini->training ? 2 : 1);
}

static uint64_t count_generated(const gp_plan *plan, const gp_mini_plan *mini) {
    const gp_stages *stages = plan->stages;
    const gp_pieces pieces = gp_mini_pieces(mini);
    uint64_t count = count_barriers(plan, mini);
    for (int s = 0; s < stages->count; s++) {
        gp_micros micros = gp_micros_of_stage(pieces, &stages->stage[s]);
        count += count_passes(stages, &stages->stage[s], pieces, mini->training);
        if (!mini->training) continue;
        count += count_recomputes(plan->checkpoints[stages->stage[s].number], micros, mini->pieces);
        if (gp_schedule_splits_backward(&plan->schedule)) count += (uint64_t)gp_micros_count(micros);
    }
    return count + (mini->training ? count_once(stages) : count_for_losses(stages));
}

/* The programs or the order of a file: backward is whole or in two parts as each task says. */
static uint64_t count_of_file(const gp_plan *plan, const gp_mini_plan *mini) {
    const gp_schedule_file *file = plan->schedule.file;
    uint64_t count = 0, weights = 0;
    if (gp_schedule_has_programs(&plan->schedule, mini->training, mini->pieces)) {
        for (int w = 0; w < file->programs->workers; w++) count += file->programs->worker[w].count;
        return count;
    }
    for (int w = 0; w < file->order->workers && mini->training; w++)
        for (size_t i = 0; i < file->order->worker[w].count; i++) {
            const gp_task *task = &file->order->worker[w].tasks[i];
            weights += task->op == GP_TASK_BACKWARD_WEIGHT && task->micro < mini->pieces;
        }
    return count_generated(plan, mini) + weights;
}

static amount amount_of(const gp_plan *plan, const gp_mini_plan *mini) {
    const gp_stages *stages = plan->stages;
    uint64_t pieces = (uint64_t)mini->pieces;
    bool file = plan->schedule.kind == GP_SCHEDULE_FILE;
    amount its = {.instrs = file ? count_of_file(plan, mini) : count_generated(plan, mini),
                  .places = pieces * stages->edge_count};
    for (size_t e = 0; e < stages->edge_count; e++) {
        bool forward = stages->edges[e].kind == GP_EDGE_ACTIVATION || stages->edges[e].kind == GP_EDGE_SKIP;
        if (forward || mini->training)
            its.copies += (uint64_t)gp_micros_count(gp_micros_of_edge(gp_mini_pieces(mini), stages, e));
    }
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *collective = &stages->collectives[c];
        uint64_t members = collective->contributors.count;
        if (mini->training || collective->part == GP_PART_LOSSES)
            its.copies += members * collective->collectors.count - (gp_collective_is_mutual(collective) ? members : 0);
    }
    return its;
}

/* What a mini-batch keeps: its programs, and for each copy the wait for what is sent and the one for its slot. */
static uint64_t kept_bytes(const gp_plan *plan, const gp_mini_plan *mini, const amount *its) {
    bool queues = gp_plan_has_queues(plan), behind = mini->training && gp_plan_works_on(plan);
    uint64_t each = sizeof(gp_instr) + sizeof(*mini->waits->worker->first);
    uint64_t copy = (plan->lockstep ? 3 : 2) * sizeof(gp_wait);
    if (queues) each += sizeof(*mini->queues->worker->mark) + sizeof(*mini->queues->worker->within.first);
    if (queues) copy += 2 * sizeof(*mini->queues->worker->within.known);
    if (behind) each += sizeof(*mini->behind->worker->first) + sizeof(*mini->queues->worker->behind.first);
    return its->instrs * each + its->copies * copy;
}

/* What queues know behind each instruction: of all workers where that is little, else of their own one. */
static uint64_t known_bytes(const gp_plan *plan, const gp_mini_plan *mini, const amount *its) {
    uint64_t rounds = mini->training && gp_plan_works_on(plan) ? 2 : 1;
    uint64_t own = rounds * GP_QUEUES * sizeof(uint32_t);
    uint64_t all = (its->instrs + 2 * its->places) * own * (uint64_t)plan->workers;
    if (!gp_plan_has_queues(plan)) return 0;
    return all <= GP_QUEUES_MEMORY ? all : its->instrs * own;
}

/* What is there besides for a while: a play's times of instructions and copies, and either what is found out while
 * slots are assigned and programs are checked, or what queues know. The order of tasks and the room in which programs
 * grow take less. */
static uint64_t passing_bytes(const gp_plan *plan, const gp_mini_plan *mini, const amount *its) {
    uint64_t played = its->instrs * 2 * sizeof(double) + its->places * sizeof(double);
    uint64_t found = played + its->instrs * (sizeof(uint32_t) + sizeof(double)) + its->places * sizeof(double);
    uint64_t knows = known_bytes(plan, mini, its);
    return found > knows ? found : knows;
}

gp_plan_size gp_plan_estimate(const gp_plan *plan) {
    gp_plan_size size = {0};
    uint64_t passing = 0;
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_mini_plan *mini = &plan->minis[m];
        const amount its = amount_of(plan, mini);
        uint64_t now = passing_bytes(plan, mini, &its);
        size.instructions += its.instrs;
        size.bytes += kept_bytes(plan, mini, &its);
        if (now > passing) passing = now;
    }
    size.bytes += passing;
    return size;
}

gp_status gp_plan_check_size(const gp_plan *plan, const gp_machine_memory *machine, gp_error *err) {
    char needed[32], all[32], left[32];
    if (!machine) return GP_OK;
    const gp_plan_size size = gp_plan_estimate(plan);
    gp_memory_limit limit = gp_machine_memory_least(machine);
    if (size.bytes <= gp_machine_memory_left(machine, limit)) return GP_OK;
    return gp_fail(err, GP_UNSUPPORTED,
                   "planning %d micro-batches on %d stages needs %s more memory for %" PRIu64
                   " instructions, but %s, %s in all, has %s left; fewer micro-batches or stages need less",
                   plan->micro_batches, plan->stages->count, gp_bytes_text(needed, (size_t)size.bytes),
                   size.instructions, gp_memory_limit_name(limit), gp_bytes_text(all, machine->limit[limit]),
                   gp_bytes_text(left, gp_machine_memory_left(machine, limit)));
}

#include "schedule/emit.h"

#include <stdlib.h>

#include "base/memory.h"
#include "schedule/schedule_file.h"
#include "schedule/validate.h"

/* How far a stage's tasks have come. */
typedef struct progress {
    int forwards, inputs, weights;
    bool forwarded; /* all its forwards are over */
} progress;

typedef struct generator {
    const gp_emit_request *request;
    const gp_order *order;
    gp_programs *programs;
    gp_program *program; /* of the current worker */
    int worker;
    int place, replica; /* the worker of the order that it is a replica of */
    progress *stages;   /* [stage] */
    uint32_t clock;
} generator;

static gp_status emit(generator *g, gp_instr_op op, int stage, int micro, unsigned flags, gp_error *err) {
    gp_instr instr = {.op = (uint8_t)op,
                      .flags = (uint8_t)flags,
                      .stage = (uint16_t)stage,
                      .micro = (uint16_t)micro,
                      .clock = g->clock};
    return gp_program_add(g->program, instr, err);
}

/* Of the edges that carry the micro-batch. */
static gp_status emit_copies(generator *g, gp_instr_op op, const gp_indices *edges, int stage, int micro,
                             unsigned flags, gp_error *err) {
    for (size_t i = 0; i < edges->count; i++) {
        size_t edge = (size_t)edges->items[i];
        if (!gp_micros_have(gp_micros_of_edge(g->request->pieces, g->request->stages, edge), micro)) continue;
        GP_RETURN_IF_FAILED(emit(g, op, stage, micro, flags, err));
        g->program->instrs[g->program->count - 1].edge = (uint32_t)edge;
    }
    return GP_OK;
}

static gp_status emit_member(generator *g, gp_instr_op op, size_t collective, int stage, gp_error *err) {
    const gp_collective *its = &g->request->stages->collectives[collective];
    const gp_indices *members = op == GP_INSTR_POST ? &its->contributors : &its->collectors;
    if (gp_indices_find(members, stage) < 0) return GP_OK;
    GP_RETURN_IF_FAILED(emit(g, op, stage, 0, 0, err));
    g->program->instrs[g->program->count - 1].collective = (uint32_t)collective;
    return GP_OK;
}

/* The stage's posts, or collects, of collectives that carry such parts. */
static gp_status emit_collectives(generator *g, gp_instr_op op, gp_part_kind part, int stage, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    for (size_t c = 0; c < stages->collective_count; c++)
        if (stages->collectives[c].part == part) GP_RETURN_IF_FAILED(emit_member(g, op, c, stage, err));
    return GP_OK;
}

/* Whether it stands between the last backward and the step's scalars or update, besides gradients. */
static bool is_exchanged(const gp_collective *its) {
    return its->part == GP_PART_STATISTICS || its->part == GP_PART_BLOCKS;
}

/* A bucket of the stage's gradients: its sums, which the other replicas get unless they share out the optimizer. */
static gp_status emit_sums(generator *g, size_t scatter, int stage, gp_error *err) {
    GP_RETURN_IF_FAILED(emit_member(g, GP_INSTR_COLLECT, scatter, stage, err));
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_REDUCE, stage, 0, 0, err));
    g->program->instrs[g->program->count - 1].collective = (uint32_t)scatter;
    size_t exchange = gp_stages_exchange(g->request->stages, scatter);
    return exchange == scatter ? GP_OK : emit_member(g, GP_INSTR_POST, exchange, stage, err);
}

/* The stage's gradients from `scatter`, the collective of its first bucket, on. While one bucket is added up, others
 * travel. */
static gp_status emit_gradients(generator *g, size_t scatter, int stage, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    size_t end = scatter + (size_t)stages->collectives[scatter].buckets;
    for (size_t c = scatter; c < end; c++) GP_RETURN_IF_FAILED(emit_member(g, GP_INSTR_POST, c, stage, err));
    for (size_t c = scatter; c < end; c++) GP_RETURN_IF_FAILED(emit_sums(g, c, stage, err));
    for (size_t c = scatter; c < end && gp_stages_exchange(stages, c) != c; c++)
        GP_RETURN_IF_FAILED(emit_member(g, GP_INSTR_COLLECT, gp_stages_exchange(stages, c), stage, err));
    return GP_OK;
}

/* What a stage has found, and what its other replicas have. */
static gp_status emit_exchange(generator *g, int stage, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        bool first = its->kind == GP_COLLECTIVE_SCATTER && its->bucket == 0;
        if (first && gp_indices_find(&its->collectors, stage) >= 0)
            GP_RETURN_IF_FAILED(emit_gradients(g, c, stage, err));
        if (!is_exchanged(its)) continue;
        GP_RETURN_IF_FAILED(emit_member(g, GP_INSTR_POST, c, stage, err));
        GP_RETURN_IF_FAILED(emit_member(g, GP_INSTR_COLLECT, c, stage, err));
    }
    return GP_OK;
}

static const gp_stage *stage_of(const generator *g, const gp_task *task) {
    return &g->request->stages->stage[task->stage];
}

/* A task of the order, for the current replica. */
static gp_task task_at(const generator *g, size_t i) {
    gp_task task = g->order->worker[g->place].tasks[i];
    task.stage = (uint16_t)(g->request->stages->first[task.stage] + g->replica);
    return task;
}

static bool keeps(const generator *g, const gp_task *task) {
    const gp_emit_request *request = g->request;
    gp_checkpoint_mode mode =
        request->checkpoints ? request->checkpoints[stage_of(g, task)->number] : request->checkpoint;
    return request->training && gp_checkpoint_keeps(mode, task->micro, request->pieces.count);
}

static gp_micros micros_of(const generator *g, const gp_task *task) {
    return gp_micros_of_stage(g->request->pieces, stage_of(g, task));
}

/* Whether the stage has samples of the task's micro-batch; else it leaves the task out. */
static bool has_samples(const generator *g, const gp_task *task) {
    return gp_micros_have(micros_of(g, task), task->micro);
}

static bool begins_backward(const gp_task *task) {
    return task->op == GP_TASK_BACKWARD || task->op == GP_TASK_BACKWARD_INPUT;
}

static gp_status emit_recompute(generator *g, const gp_task *task, gp_error *err) {
    if (!begins_backward(task) || keeps(g, task) || !has_samples(g, task)) return GP_OK;
    g->clock = task->clock - 1;
    return emit(g, GP_INSTR_RECOMPUTE, task->stage, task->micro, 0, err);
}

static gp_status emit_receives(generator *g, const gp_task *task, gp_error *err) {
    const gp_stage *stage = stage_of(g, task);
    if (!has_samples(g, task)) return GP_OK;
    if (begins_backward(task)) return emit_copies(g, GP_INSTR_RECV, &stage->grad_in, task->stage, task->micro, 0, err);
    if (task->op != GP_TASK_FORWARD) return GP_OK;
    if (stage->loads_input || stage->loads_target)
        GP_RETURN_IF_FAILED(emit(g, GP_INSTR_LOAD, task->stage, task->micro, 0, err));
    return emit_copies(g, GP_INSTR_RECV, &stage->in, task->stage, task->micro, 0, err);
}

static gp_status emit_forward(generator *g, const gp_task *task, gp_error *err) {
    bool last = ++g->stages[task->stage].forwards == gp_micros_count(micros_of(g, task));
    unsigned keep = keeps(g, task) ? GP_INSTR_KEEP : 0;
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_FORWARD, task->stage, task->micro, keep | (last ? GP_INSTR_LAST : 0), err));
    return emit_copies(g, GP_INSTR_SEND, &stage_of(g, task)->out, task->stage, task->micro, keep, err);
}

/* After the last of the stage's forwards; if it has none, as soon as others have one. */
static gp_status emit_after_forwards(generator *g, const gp_task *task, gp_error *err) {
    progress *its = &g->stages[task->stage];
    if (its->forwarded || its->forwards < gp_micros_count(micros_of(g, task))) return GP_OK;
    its->forwarded = true;
    GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_POST, GP_PART_LOSSES, task->stage, err));
    if (task->stage == gp_stages_root(g->request->stages) && stage_of(g, task)->replicas > 1) {
        GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_COLLECT, GP_PART_LOSSES, task->stage, err));
        GP_RETURN_IF_FAILED(emit(g, GP_INSTR_TOTAL, task->stage, 0, 0, err));
    }
    if (!g->request->training || g->request->stages->norms) return GP_OK;
    return emit_collectives(g, GP_INSTR_POST, GP_PART_SCALARS, task->stage, err);
}

static gp_status emit_norm(generator *g, int stage, gp_error *err) {
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_NORM, stage, 0, 0, err));
    return emit_collectives(g, GP_INSTR_POST, GP_PART_SQUARES, stage, err);
}

/* The norm of a stage's gradients follows the last task that adds to them, or the exchange with other replicas. */
static gp_status emit_backward(generator *g, const gp_task *task, gp_error *err) {
    static const gp_instr_op ops[] = {[GP_TASK_BACKWARD] = GP_INSTR_BACKWARD,
                                      [GP_TASK_BACKWARD_INPUT] = GP_INSTR_BACKWARD_INPUT,
                                      [GP_TASK_BACKWARD_WEIGHT] = GP_INSTR_BACKWARD_WEIGHT};
    progress *stage = &g->stages[task->stage];
    bool input = begins_backward(task), weight = task->op != GP_TASK_BACKWARD_INPUT;
    bool first = (!input || stage->inputs == 0) && (!weight || stage->weights == 0);
    GP_RETURN_IF_FAILED(emit(g, ops[task->op], task->stage, task->micro, first ? GP_INSTR_FIRST : 0, err));
    stage->inputs += input;
    stage->weights += weight;
    if (input)
        GP_RETURN_IF_FAILED(
            emit_copies(g, GP_INSTR_SEND, &stage_of(g, task)->grad_out, task->stage, task->micro, 0, err));
    if (!weight || stage->weights < gp_micros_count(micros_of(g, task)) || !g->request->stages->norms) return GP_OK;
    return stage_of(g, task)->replicas == 1 ? emit_norm(g, task->stage, err) : GP_OK;
}

static gp_status emit_task(generator *g, const gp_task *task, gp_error *err) {
    if (task->op != GP_TASK_FORWARD) return has_samples(g, task) ? emit_backward(g, task, err) : GP_OK;
    if (has_samples(g, task)) GP_RETURN_IF_FAILED(emit_forward(g, task, err));
    return emit_after_forwards(g, task, err);
}

static gp_status emit_tasks(generator *g, gp_error *err) {
    const gp_worker_order *its = &g->order->worker[g->place];
    for (size_t i = 0; i < its->count; i++) {
        const gp_task task = task_at(g, i);
        GP_RETURN_IF_FAILED(emit_recompute(g, &task, err));
        g->clock = task.clock;
        GP_RETURN_IF_FAILED(emit_receives(g, &task, err));
        GP_RETURN_IF_FAILED(emit_task(g, &task, err));
    }
    return GP_OK;
}

static gp_status emit_clocks(generator *g, gp_error *err) {
    const gp_worker_order *its = &g->order->worker[g->place];
    int first = 0; /* of the worker's stages: any one will do */
    while (gp_programs_worker(g->programs, first) != g->worker) first++;
    size_t next = 0;
    uint32_t clocks = gp_order_clocks(g->order);
    for (uint32_t clock = 0; clock < clocks; clock++) {
        bool has = next < its->count && its->tasks[next].clock == clock;
        const gp_task task = has ? task_at(g, next++) : (gp_task){0};
        g->clock = clock;
        if (has) GP_RETURN_IF_FAILED(emit_receives(g, &task, err));
        GP_RETURN_IF_FAILED(emit(g, GP_INSTR_BARRIER, first, 0, 0, err));
        if (has) GP_RETURN_IF_FAILED(emit_task(g, &task, err));
        if (next >= its->count || its->tasks[next].clock != clock + 1) continue;
        const gp_task after = task_at(g, next);
        GP_RETURN_IF_FAILED(emit_recompute(g, &after, err));
    }
    return GP_OK;
}

static gp_status emit_clip(generator *g, int s, gp_error *err) {
    GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_COLLECT, GP_PART_SQUARES, s, err));
    GP_RETURN_IF_FAILED(emit(g, GP_INSTR_CLIP, s, 0, 0, err));
    return emit_collectives(g, GP_INSTR_POST, GP_PART_SCALARS, s, err);
}

/* What the worker's stages find together with their other replicas. */
static gp_status emit_exchanges(generator *g, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    for (int s = stages->count - 1; s >= 0; s--) {
        if (gp_programs_worker(g->programs, s) != g->worker || stages->stage[s].replicas == 1) continue;
        GP_RETURN_IF_FAILED(emit_exchange(g, s, err));
    }
    return GP_OK;
}

/* Of gradients that are summed up by now. */
static gp_status emit_norms_of_replicas(generator *g, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    for (int s = 0; s < stages->count; s++) {
        const gp_stage *stage = &stages->stage[s];
        if (gp_programs_worker(g->programs, s) == g->worker && stage->replicas > 1 && stage->replica == 0)
            GP_RETURN_IF_FAILED(emit_norm(g, s, err));
    }
    return GP_OK;
}

/* What the worker's stages update of their parameters, and what their other replicas do. */
static gp_status emit_updates(generator *g, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    for (int s = stages->count - 1; s >= 0; s--) {
        if (gp_programs_worker(g->programs, s) != g->worker || !gp_stage_shards(stages, s)) continue;
        GP_RETURN_IF_FAILED(emit(g, GP_INSTR_UPDATE, s, 0, 0, err));
        GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_POST, GP_PART_PARAMETERS, s, err));
        GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_COLLECT, GP_PART_PARAMETERS, s, err));
    }
    return GP_OK;
}

static gp_status emit_end(generator *g, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    int root = gp_stages_root(stages);
    g->clock = gp_order_clocks(g->order) - 1;
    if (stages->norms) GP_RETURN_IF_FAILED(emit_exchanges(g, err));
    if (stages->norms) GP_RETURN_IF_FAILED(emit_norms_of_replicas(g, err));
    if (stages->norms && gp_programs_worker(g->programs, root) == g->worker)
        GP_RETURN_IF_FAILED(emit_clip(g, root, err));
    for (int s = 0; s < stages->count; s++)
        if (gp_programs_worker(g->programs, s) == g->worker)
            GP_RETURN_IF_FAILED(emit_collectives(g, GP_INSTR_COLLECT, GP_PART_SCALARS, s, err));
    if (!stages->norms) GP_RETURN_IF_FAILED(emit_exchanges(g, err));
    GP_RETURN_IF_FAILED(emit_updates(g, err));
    for (int s = 0; s < stages->count; s++)
        if (gp_programs_worker(g->programs, s) == g->worker) GP_RETURN_IF_FAILED(emit(g, GP_INSTR_STEP, s, 0, 0, err));
    return GP_OK;
}

static gp_status generate_worker(generator *g, gp_error *err) {
    g->program = &g->programs->worker[g->worker];
    GP_RETURN_IF_FAILED(g->request->lockstep ? emit_clocks(g, err) : emit_tasks(g, err));
    if (g->request->training) GP_RETURN_IF_FAILED(emit_end(g, err));
    gp_program_trim(g->program);
    return GP_OK;
}

/* How many replicas each worker of the order has: as many as each of its stages. */
static gp_status find_replicas(const gp_stages *stages, const gp_order *order, int *replicas, gp_error *err) {
    for (int n = 0; n < stages->numbers; n++) {
        int *its = &replicas[order->worker_of_stage[n]], wanted = stages->stage[stages->first[n]].replicas;
        if (*its && *its != wanted)
            return gp_fail(err, GP_PROGRAM, "worker %d has a stage with %d replicas and one with %d",
                           order->worker_of_stage[n], *its, wanted);
        *its = wanted;
    }
    return GP_OK;
}

static gp_status generate_all(generator *g, const int *replicas, gp_error *err) {
    for (g->place = 0, g->worker = 0; g->place < g->order->workers; g->place++)
        for (g->replica = 0; g->replica < replicas[g->place]; g->replica++, g->worker++)
            GP_RETURN_IF_FAILED(generate_worker(g, err));
    return GP_OK;
}

/* Workers in order of the schedule's, each with its replicas. `worker`: [stage] room for which one each is on. */
static gp_status create_programs(generator *g, const int *replicas, int *worker, gp_error *err) {
    const gp_stages *stages = g->request->stages;
    const gp_order *order = g->order;
    int workers = 0;
    for (int p = 0; p < order->workers; p++) {
        for (int s = 0; s < stages->count; s++)
            if (order->worker_of_stage[stages->stage[s].number] == p) worker[s] = workers + stages->stage[s].replica;
        workers += replicas[p];
    }
    const gp_pieces *pieces = &g->request->pieces;
    GP_RETURN_IF_FAILED(gp_programs_create(workers, worker, stages->count, pieces->count, g->request->training,
                                           order->descending, &g->programs, err));
    if (stages->count == stages->numbers) return GP_OK;
    g->programs->piece = pieces->samples;
    g->programs->last = pieces->last;
    return GP_OK;
}

static gp_status generate(generator *g, gp_error *err) {
    int *replicas = NULL, *worker = NULL;
    gp_status status = GP_NEW(&replicas, g->order->workers, err);
    if (status == GP_OK) status = GP_NEW(&worker, g->request->stages->count, err);
    if (status == GP_OK) status = find_replicas(g->request->stages, g->order, replicas, err);
    if (status == GP_OK) status = create_programs(g, replicas, worker, err);
    if (status == GP_OK) status = generate_all(g, replicas, err);
    free(replicas);
    free(worker);
    return status;
}

static bool computes(const gp_instr *instr) {
    return instr->op == GP_INSTR_FORWARD || gp_instr_is_backward(instr);
}

/* Those of the order, in place of what the file says: what stands between two tasks belongs to the first. */
static void set_clocks(const gp_worker_order *its, gp_program *program) {
    size_t task = 0;
    uint32_t clock = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        if (computes(&program->instrs[pc])) clock = its->tasks[task++].clock;
        program->instrs[pc].clock = clock;
    }
}

/* As the file has them; later steps may trust their numbers. */
static gp_status copy_programs(const gp_stages *stages, const gp_schedule_file *file, gp_programs **out,
                               gp_error *err) {
    GP_RETURN_IF_FAILED(gp_programs_check_parts(stages, file->programs, err));
    GP_RETURN_IF_FAILED(gp_programs_copy(file->programs, out, err));
    for (int s = 0; s < stages->count; s++) {
        int place = file->order->worker_of_stage[stages->stage[s].number];
        set_clocks(&file->order->worker[place], &(*out)->worker[gp_programs_worker(*out, s)]);
    }
    return GP_OK;
}

gp_status gp_programs_emit(const gp_emit_request *request, gp_programs **out, gp_error *err) {
    if (gp_schedule_has_programs(&request->schedule, request->training, request->pieces.count))
        return copy_programs(request->stages, request->schedule.file, out, err);
    generator g = {.request = request};
    gp_order *order = NULL;
    int workers = gp_schedule_workers(&request->schedule, request->stages->numbers);
    GP_RETURN_IF_FAILED(gp_schedule_order(&request->schedule, workers, request->pieces.count, &order, err));
    g.order = order;
    gp_status status = request->training ? GP_OK : gp_order_keep_forwards(order, err);
    if (status == GP_OK) status = GP_NEW(&g.stages, request->stages->count, err);
    if (status == GP_OK) status = generate(&g, err);
    free(g.stages);
    gp_order_destroy(&order);
    if (status != GP_OK)
        gp_programs_destroy(&g.programs);
    else
        *out = g.programs;
    return status;
}

#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/bound.h"
#include "plan/lines.h"
#include "plan/meets.h"
#include "plan/memory.h"
#include "plan/plan_size.h"
#include "plan/staging.h"
#include "schedule/emit.h"
#include "schedule/schedule_file.h"
#include "schedule/slots.h"
#include "schedule/validate.h"

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static gp_status check_request(const gp_plan *plan, const gp_plan_request *request, gp_error *err) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_device_spec *spec = &request->devices[w];
        const gp_types *types = &request->graph->types;
        const gp_dtype all[] = {types->master, types->storage, types->compute, types->accumulate};
        for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
            if (!(spec->kind->computes >> all[t] & 1))
                return gp_fail(err, GP_UNSUPPORTED, "device %s does not compute in %s", spec->kind->name,
                               gp_dtype_name(all[t]));
    }
    return GP_OK;
}

static gp_status cut_mini_batches(gp_plan *plan, const gp_plan_request *request, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&plan->minis, request->size_count, err));
    for (int i = 0; i < request->size_count; i++) {
        const gp_mini_size *size = &request->sizes[i];
        if (gp_plan_find(plan, size->training, size->samples) >= 0) continue;
        gp_mini_plan *mini = &plan->minis[plan->mini_count++];
        mini->training = size->training;
        mini->samples = size->samples;
        mini->piece = divide_up(size->samples, request->micro_batches);
        mini->pieces = (int)divide_up(size->samples, mini->piece);
        mini->last = size->samples - mini->piece * (mini->pieces - 1);
    }
    return GP_OK;
}

/* The number of replicas of each stage: that of its worker. */
static gp_status find_replicas(const gp_plan_request *request, int *out, gp_error *err) {
    int workers = gp_schedule_workers(&request->schedule, request->stages), *worker = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&worker, request->stages, err));
    gp_schedule_place(&request->schedule, workers, worker);
    for (int n = 0; n < request->stages; n++) out[n] = request->replicas[worker[n]];
    free(worker);
    return GP_OK;
}

static gp_status make_stages(gp_plan *plan, const gp_plan_request *request, gp_error *err) {
    gp_stages_request its = {.graph = request->graph,
                             .layers = request->layers,
                             .numbers = request->stages,
                             .shards = request->shard_optimizer,
                             .bucket = request->bucket};
    int *replicas = NULL;
    int64_t *samples = NULL;
    gp_status status = GP_NEW(&samples, 2 * plan->mini_count, err);
    if (status == GP_OK && request->replicas) status = GP_NEW(&replicas, request->stages, err);
    if (status == GP_OK && request->replicas) status = find_replicas(request, replicas, err);
    for (int m = 0; m < plan->mini_count && status == GP_OK; m++) {
        samples[its.sample_count++] = plan->minis[m].piece;
        samples[its.sample_count++] = plan->minis[m].last;
    }
    its.replicas = replicas;
    its.samples = samples;
    if (status == GP_OK) status = gp_stages_create(&its, &plan->stages, err);
    free(replicas);
    free(samples);
    return status;
}

static gp_status assign_slots(const gp_plan *plan, const gp_mini_plan *mini, gp_error *err) {
    bool *ahead = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&ahead, plan->workers, err));
    for (int w = 0; w < plan->workers; w++) ahead[w] = !plan->devices[w].kind->on_host;
    gp_status status = gp_slots_assign(plan->stages, mini->programs, ahead, err);
    free(ahead);
    return status;
}

/* What a file says is the configuration's fault, and the file is named. */
static gp_status blame_file(const gp_plan *plan, gp_status status, gp_error *err) {
    const gp_schedule_file *file = plan->schedule.file;
    if (status != GP_PROGRAM || plan->schedule.kind != GP_SCHEDULE_FILE) return status;
    const char *name = file->programs ? file->programs->source : NULL;
    if (name && strncmp(err->text, name, strlen(name)) != 0) gp_error_context(err, "%s: ", name);
    return err->status = GP_CONFIG;
}

static gp_status schedule_mini(const gp_plan *plan, gp_mini_plan *mini, gp_error *err) {
    gp_emit_request request = {.stages = plan->stages,
                               .pieces = gp_mini_pieces(mini),
                               .checkpoints = plan->checkpoints,
                               .lockstep = plan->lockstep,
                               .training = mini->training,
                               .schedule = plan->schedule};
    GP_RETURN_IF_FAILED(gp_programs_emit(&request, &mini->programs, err));
    GP_RETURN_IF_FAILED(assign_slots(plan, mini, err));
    return gp_programs_validate(plan->stages, mini->programs, err);
}

static gp_status make_programs(gp_plan *plan, gp_mini_plan *mini, gp_error *err) {
    gp_status status = schedule_mini(plan, mini, err);
    if (status != GP_OK) return blame_file(plan, status, err);
    GP_RETURN_IF_FAILED(gp_waits_create(plan->stages, mini->programs, true, &mini->waits, err));
    GP_RETURN_IF_FAILED(gp_meets_create(plan->stages, mini->programs, plan->devices, &mini->meets, err));
    /* Process 0 calls for each step, and the others answer when it is over. */
    if (!mini->training || !gp_plan_works_on(plan) || plan->processes > 1) return GP_OK;
    return gp_waits_create_behind(plan->stages, mini->programs, &mini->behind, err);
}

bool gp_plan_overlaps(const gp_plan *plan, int mini) {
    return plan->minis[mini].behind != NULL;
}

/* Over a line a send may be gone before the receiver has come to its receive. So no queue knows from a wait for another
 * process what has happened there, and each queue follows its own worker only. */
gp_status gp_mini_queues(const gp_plan *plan, gp_mini_plan *mini, size_t memory, gp_error *err) {
    gp_queues_request request = {.stages = plan->stages,
                                 .programs = mini->programs,
                                 .waits = mini->waits,
                                 .behind = mini->behind,
                                 .early = mini->early,
                                 .plans = plan->stage,
                                 .piece_sized = mini->piece_sized,
                                 .last_sized = mini->last_sized,
                                 .memory = plan->processes > 1 ? 0 : memory};
    return gp_queues_create(&request, &mini->queues, err);
}

/* The index of that size in the list, which has each size once. */
static int add_size(gp_stage_request *list, gp_micro_size *sizes, int64_t samples, bool training) {
    int i = 0;
    while (i < list->size_count && sizes[i].samples != samples) i++;
    if (i == list->size_count) sizes[list->size_count++].samples = samples;
    *(training ? &sizes[i].training : &sizes[i].evaluation) = true;
    return i;
}

/* Which kinds of instructions a stage has in training. A program from a file may have other forwards than its mode
 * says. */
typedef struct stage_ops {
    bool keeps, discards; /* forwards */
    bool whole, split;    /* backwards */
} stage_ops;

static void note_op(stage_ops *its, const gp_instr *instr) {
    switch (instr->op) {
    case GP_INSTR_FORWARD: *(instr->flags & GP_INSTR_KEEP ? &its->keeps : &its->discards) = true; break;
    case GP_INSTR_BACKWARD: its->whole = true; break;
    case GP_INSTR_BACKWARD_INPUT: its->split = true; break;
    default: break;
    }
}

/* Of all stages, in one walk; the caller frees it. */
static gp_status find_ops(const gp_plan *plan, stage_ops **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, plan->stages->count, err));
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_programs *programs = plan->minis[m].programs;
        for (int w = 0; w < programs->workers && plan->minis[m].training; w++)
            for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
                const gp_instr *instr = &programs->worker[w].instrs[pc];
                note_op(&(*out)[instr->stage], instr);
            }
    }
    return GP_OK;
}

/* Whether the backward pass may have the updates: nothing adds up gradients or looks at them, and the loss is known
 * before. A device that updates many parameters in one launch keeps them for that. */
static bool consumes_gradients(const gp_plan *plan, const gp_stage_request *request) {
    return request->trains && !request->repeats && !request->any_split && plan->stages->count == 1 &&
           !plan->stages->norms && !plan->devices[0].kind->run_many;
}

/* What all stages have in common. `sizes` has room for two of each mini-batch. */
static gp_stage_request describe(gp_plan *plan, const gp_plan_request *request, const stage_ops *ops,
                                 gp_micro_size *sizes) {
    gp_stage_request its = {.stages = plan->stages,
                            .cache = plan->cache,
                            .types = plan->types,
                            .update = plan->update,
                            .clip_norm = plan->clip_norm,
                            .predict = request->predict,
                            .unfused = request->unfused,
                            .unshared = request->unshared,
                            .keeps = request->keeps,
                            .full_samples = divide_up(request->batch, request->micro_batches),
                            .sizes = sizes};
    for (int s = 0; s < plan->stages->count; s++) {
        its.any_whole = its.any_whole || ops[s].whole;
        its.any_split = its.any_split || ops[s].split;
    }
    for (int m = 0; m < plan->mini_count; m++) {
        gp_mini_plan *mini = &plan->minis[m];
        if (mini->training) its.trains = true;
        if (mini->training && mini->pieces > 1) its.repeats = true;
        if (mini->pieces > its.max_pieces) its.max_pieces = mini->pieces;
        mini->last_sized = add_size(&its, sizes, mini->last, mini->training);
        mini->piece_sized = mini->pieces > 1 ? add_size(&its, sizes, mini->piece, mini->training) : mini->last_sized;
    }
    its.consumes = consumes_gradients(plan, &its);
    return its;
}

/* A routine for each bucket. */
static gp_status plan_reduces(gp_stage_plan *stage, const gp_stage_request *request, gp_mini_plan *mini,
                              gp_error *err) {
    const gp_stage *its = &request->stages->stage[stage->stage];
    int terms = gp_replicas_with_samples(gp_mini_pieces(mini), its);
    if (its->buckets == 0) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&mini->reduce[stage->stage], its->buckets, err));
    for (int b = 0; b < its->buckets; b++) {
        gp_routine *reduce = &mini->reduce[stage->stage][b];
        GP_RETURN_IF_FAILED(gp_stage_reduce(stage, request, b, terms, reduce, err));
        gp_stage_plan_fit(stage, reduce);
    }
    return GP_OK;
}

static gp_status plan_stages(gp_plan *plan, gp_stage_request stage_request, const stage_ops *ops, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&plan->stage, plan->stages->count, err));
    for (int s = 0; s < plan->stages->count; s++) {
        gp_stage_plan *stage = &plan->stage[s];
        stage->stage = s;
        stage->worker = gp_programs_worker(plan->minis[0].programs, s);
        stage->spec = plan->devices[stage->worker];
        stage_request.any_keep = ops[s].keeps;
        stage_request.any_discard = ops[s].discards;
        GP_RETURN_IF_FAILED(gp_stage_plan_init(stage, &stage_request, err));
        stage_request.squares_before += stage->square_count;
        for (int m = 0; m < plan->mini_count; m++) {
            gp_mini_plan *mini = &plan->minis[m];
            GP_RETURN_IF_FAILED(gp_stage_mini_batch(stage, &stage_request, mini->pieces, mini->piece, mini->last,
                                                    mini->training, &mini->total[s], &mini->step[s], err));
            if (mini->training) GP_RETURN_IF_FAILED(plan_reduces(stage, &stage_request, mini, err));
            gp_stage_plan_fit(stage, &mini->total[s]);
            gp_stage_plan_fit(stage, &mini->step[s]);
        }
    }
    return GP_OK;
}

/* Room for what the instructions of training run. A routine that no instruction runs needs none. With except_last, for
 * example, the last micro-batch is always kept. If it is smaller, the routine that keeps nothing is never run with its
 * size, and may have a larger workspace. */
static void fit_routines(gp_plan *plan) {
    const gp_routine *routines[GP_INSTR_ROUTINES];
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_mini_plan *mini = &plan->minis[m];
        for (int w = 0; w < mini->programs->workers && mini->training; w++) {
            const gp_program *program = &mini->programs->worker[w];
            for (size_t pc = 0; pc < program->count; pc++) {
                const gp_instr *instr = &program->instrs[pc];
                for (int r = gp_instr_routines(plan, mini, instr, routines) - 1; r >= 0; r--)
                    gp_stage_plan_fit(&plan->stage[instr->stage], routines[r]);
            }
        }
    }
}

static int process_of(const gp_plan *plan, int stage) {
    return plan->process[plan->stage[stage].worker];
}

static bool spans_processes(const gp_plan *plan, const gp_indices *members, int process) {
    for (size_t i = 0; i < members->count; i++)
        if (process_of(plan, members->items[i]) != process) return true;
    return false;
}

static bool has_lines_only(const gp_plan *plan, const gp_collective *its) {
    for (size_t i = 0; i < its->contributors.count * its->collectors.count; i++)
        if (gp_plan_route(plan, its->contributors.items[i / its->collectors.count],
                          its->collectors.items[i % its->collectors.count]) == GP_ROUTE_WIRE)
            return false;
    return true;
}

/* Of collectives. Those within a process need no messages. */
static void set_transports(gp_plan *plan) {
    for (size_t c = 0; c < plan->stages->collective_count; c++) {
        gp_collective *its = &plan->stages->collectives[c];
        int process = process_of(plan, its->contributors.items[0]);
        if (spans_processes(plan, &its->contributors, process) || spans_processes(plan, &its->collectors, process))
            its->transport = has_lines_only(plan, its) ? GP_TRANSPORT_NCCL : GP_TRANSPORT_MPI;
    }
}

static gp_status connect_processes(gp_plan *plan, gp_carrier carrier, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_lines_choose(plan, carrier, err));
    set_transports(plan);
    return GP_OK;
}

static gp_status make_plan(gp_plan *plan, const gp_plan_request *request, gp_micro_size **sizes, gp_error *err) {
    GP_RETURN_IF_FAILED(check_request(plan, request, err));
    GP_RETURN_IF_FAILED(cut_mini_batches(plan, request, err));
    GP_RETURN_IF_FAILED(make_stages(plan, request, err));
    if (request->norms || request->clip_norm > 0) GP_RETURN_IF_FAILED(gp_stages_add_norms(plan->stages, err));
    GP_RETURN_IF_FAILED(gp_op_cache_create(&plan->cache, err));
    GP_RETURN_IF_FAILED(GP_NEW(&plan->checkpoints, request->stages, err));
    for (int s = 0; s < request->stages; s++)
        plan->checkpoints[s] = request->checkpoints ? request->checkpoints[s] : request->checkpoint;
    GP_RETURN_IF_FAILED(GP_NEW(&plan->devices, plan->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&plan->arena, plan->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&plan->transient_base, plan->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&plan->evaluation_base, plan->workers, err));
    memcpy(plan->devices, request->devices, (size_t)plan->workers * sizeof *plan->devices);
    GP_RETURN_IF_FAILED(GP_NEW(&plan->process, plan->workers, err));
    if (request->process) memcpy(plan->process, request->process, (size_t)plan->workers * sizeof *plan->process);
    if (request->links) GP_RETURN_IF_FAILED(gp_links_copy(request->links, &plan->links, err));
    GP_RETURN_IF_FAILED(gp_plan_check_size(plan, request->host_memory, err));
    for (int m = 0; m < plan->mini_count; m++) {
        GP_RETURN_IF_FAILED(make_programs(plan, &plan->minis[m], err));
        GP_RETURN_IF_FAILED(GP_NEW(&plan->minis[m].total, plan->stages->count, err));
        GP_RETURN_IF_FAILED(GP_NEW(&plan->minis[m].reduce, plan->stages->count, err));
        GP_RETURN_IF_FAILED(GP_NEW(&plan->minis[m].step, plan->stages->count, err));
    }
    GP_RETURN_IF_FAILED(GP_NEW(sizes, 2 * plan->mini_count, err));
    stage_ops *ops = NULL;
    gp_status status = find_ops(plan, &ops, err);
    if (status == GP_OK) status = plan_stages(plan, describe(plan, request, ops, *sizes), ops, err);
    free(ops);
    GP_RETURN_IF_FAILED(status);
    GP_RETURN_IF_FAILED(connect_processes(plan, request->carrier, err));
    fit_routines(plan);
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].training)
            GP_RETURN_IF_FAILED(gp_early_posts_create(plan, &plan->minis[m], &plan->minis[m].early, err));
    GP_RETURN_IF_FAILED(gp_bindings_plan(plan, err));
    for (int m = 0; m < plan->mini_count && gp_plan_has_queues(plan); m++)
        GP_RETURN_IF_FAILED(gp_mini_queues(plan, &plan->minis[m], GP_QUEUES_MEMORY, err));
    return gp_memory_lay_out(plan, err);
}

int gp_plan_request_worker(const gp_plan_request *request, int of_schedule) {
    int count = 0;
    for (int w = 0; w < of_schedule; w++) count += request->replicas ? request->replicas[w] : 1;
    return count;
}

static int count_workers(const gp_plan_request *request) {
    return gp_plan_request_worker(request, gp_schedule_workers(&request->schedule, request->stages));
}

gp_status gp_plan_create(const gp_plan_request *request, gp_plan **out, gp_error *err) {
    gp_plan *plan = NULL;
    gp_micro_size *sizes = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&plan, 1, err));
    plan->graph = request->graph;
    plan->types = request->graph->types;
    plan->update = request->update;
    plan->clip_norm = request->clip_norm;
    plan->micro_batches = request->micro_batches;
    plan->lockstep = request->lockstep;
    plan->processors = request->processors;
    plan->pin = request->pin;
    plan->processes = request->process ? request->processes : 1;
    plan->rank = request->process ? request->rank : 0;
    plan->schedule = request->schedule;
    plan->workers = count_workers(request);
    gp_status status = make_plan(plan, request, &sizes, err);
    free(sizes);
    if (status != GP_OK)
        gp_plan_destroy(&plan);
    else
        *out = plan;
    return status;
}

void gp_plan_destroy(gp_plan **plan) {
    gp_plan *it = *plan;
    if (!it) return;
    int stages = it->stages ? it->stages->count : 0;
    for (int m = 0; m < it->mini_count; m++) {
        gp_mini_plan *mini = &it->minis[m];
        for (int s = 0; s < stages; s++) {
            if (mini->total) gp_routine_fini(&mini->total[s]);
            for (int b = 0; mini->reduce && mini->reduce[s] && b < it->stages->stage[s].buckets; b++)
                gp_routine_fini(&mini->reduce[s][b]);
            if (mini->reduce) free(mini->reduce[s]);
            if (mini->step) gp_routine_fini(&mini->step[s]);
        }
        free(mini->total);
        free(mini->reduce);
        free(mini->step);
        gp_early_posts_destroy(&mini->early, it->workers);
        gp_waits_destroy(&mini->waits);
        gp_waits_destroy(&mini->meets);
        gp_waits_destroy(&mini->behind);
        gp_queues_destroy(&mini->queues);
        gp_programs_destroy(&mini->programs);
    }
    for (int s = 0; it->stage && s < stages; s++) gp_stage_plan_fini(&it->stage[s]);
    free(it->stage);
    free(it->minis);
    free(it->checkpoints);
    free(it->devices);
    free(it->process);
    gp_links_destroy(&it->links);
    free(it->arena);
    free(it->transient_base);
    free(it->evaluation_base);
    free(it->bound);
    gp_op_cache_destroy(&it->cache);
    gp_stages_destroy(&it->stages);
    free(it);
    *plan = NULL;
}

#include "balance/balance_problem.h"

#include <stdio.h>
#include <stdlib.h>

#include "balance/keeping.h"
#include "base/memory.h"
#include "profile/profile.h"

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Layers behind the producer's that use a value, each once, into users; how many. */
static int list_users(const gp_graph *graph, const gp_value *value, int producer, int *users) {
    int count = 0, last = producer;
    for (int u = 0; u < value->use_count; u++) {
        int layer = graph->nodes[value->uses[u].node].unit;
        if (layer == last) continue;
        users[count++] = last = layer;
    }
    return count;
}

static gp_status list_values(gp_balance_problem *problem, const gp_balance_request *request, gp_error *err) {
    const gp_graph *graph = request->plan.graph;
    int64_t samples = problem->cut.samples;
    size_t uses = 0;
    for (int v = 0; v < graph->value_count; v++) uses += (size_t)graph->values[v].use_count;
    GP_RETURN_IF_FAILED(GP_NEW(&problem->values, graph->value_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&problem->users, uses, err));
    int *users = problem->users;
    for (int v = 0; v < graph->value_count; v++) {
        const gp_value *its = &graph->values[v];
        int producer = its->producer < 0 ? -1 : graph->nodes[its->producer].unit;
        int count = list_users(graph, its, producer, users);
        if (count == 0) continue;
        int64_t bytes = (int64_t)gp_align_up(gp_value_bytes(graph, v, samples), GP_ALIGNMENT);
        problem->values[problem->cut.value_count++] =
            (gp_cut_value){producer, users, count, bytes, its->needs_grad ? bytes : 0};
        users += count;
    }
    return GP_OK;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static bool costs_equal(const gp_balance_device *a, const gp_balance_device *b) {
    return a->layers == b->layers && !(a->copy_latency < b->copy_latency || a->copy_latency > b->copy_latency) &&
           !(a->copy_per_byte < b->copy_per_byte || a->copy_per_byte > b->copy_per_byte) &&
           !(a->load_latency < b->load_latency || a->load_latency > b->load_latency) &&
           !(a->load_per_byte < b->load_per_byte || a->load_per_byte > b->load_per_byte) && a->samples == b->samples;
}

static gp_status fill_kind(gp_balance_problem *problem, const gp_balance_device *device, gp_error *err) {
    int count = problem->cut.value_count, kind = problem->cut.kind_count++;
    int64_t *copies = problem->copies + (size_t)kind * (size_t)count;
    double share = (double)device->samples / (double)problem->cut.samples;
    for (int v = 0; v < count; v++) {
        const gp_cut_value *value = &problem->values[v];
        bool loaded = value->producer < 0;
        double bytes = share * (double)value->bytes;
        double once = loaded ? device->load_latency + device->load_per_byte * bytes
                             : device->copy_latency + device->copy_per_byte * bytes;
        double all = value->gradients > 0 ? 2 * once : once;
        if (!(all < 0x1p62))
            return gp_fail(err, GP_UNSUPPORTED, "balance: the cost of a copy exceeds the range of 64-bit integers");
        copies[v] = (int64_t)all;
    }
    problem->kinds[kind] = (gp_cut_kind){device->layers, copies, NULL};
    return GP_OK;
}

/* What differs of what devices cost, each once. */
typedef struct kind_list {
    gp_balance_device *items;
    int *workers; /* the problem's kind_workers */
    int count;
} kind_list;

static int add_kind(kind_list *kinds, const gp_balance_device *device, int worker) {
    int k = 0;
    while (k < kinds->count && !costs_equal(&kinds->items[k], device)) k++;
    if (k == kinds->count) {
        kinds->workers[kinds->count] = worker;
        kinds->items[kinds->count++] = *device;
    }
    return k;
}

static gp_status fill_kinds(gp_balance_problem *problem, const kind_list *kinds, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&problem->kinds, kinds->count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&problem->copies, (size_t)kinds->count * (size_t)problem->cut.value_count, err));
    for (int k = 0; k < kinds->count; k++) GP_RETURN_IF_FAILED(fill_kind(problem, &kinds->items[k], err));
    return GP_OK;
}

/* Of the replicas of a worker of the schedule, that with the least: which one; 0: no limit is known. */
static int64_t least_room(const gp_plan_request *plan, int worker, int *which) {
    int end = gp_plan_request_worker(plan, worker + 1);
    int64_t least = 0;
    *which = gp_plan_request_worker(plan, worker);
    for (int w = *which; w < end; w++) {
        size_t room = gp_device_room(&plan->devices[w]);
        int64_t memory = room > INT64_MAX ? INT64_MAX : (int64_t)room;
        if (memory == 0 || (least > 0 && memory >= least)) continue;
        least = memory;
        *which = w;
    }
    return least;
}

/* Workers count replicas, the devices of the list do not. */
static void name_worker(const gp_plan_request *plan, int device, int worker, char *out, size_t bytes) {
    int first = gp_plan_request_worker(plan, device);
    if (gp_plan_request_worker(plan, device + 1) > first + 1)
        snprintf(out, bytes, "worker %d (replica %d of device %d)", worker, worker - first, device);
    else if (worker != device)
        snprintf(out, bytes, "worker %d (device %d)", worker, device);
    else
        snprintf(out, bytes, "worker %d", worker);
}

static gp_status list_workers(gp_balance_problem *problem, const gp_balance_request *request, int workers,
                              gp_error *err) {
    int stages = request->plan.stages;
    kind_list kinds = {0};
    GP_RETURN_IF_FAILED(GP_NEW(&problem->workers, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&problem->stage_kinds, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&problem->kind_workers, workers + stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&kinds.items, workers + stages, err));
    kinds.workers = problem->kind_workers;
    for (int w = 0; w < workers; w++) {
        int first = gp_plan_request_worker(&request->plan, w), least;
        int64_t memory = least_room(&request->plan, w, &least);
        problem->workers[w] = (gp_cut_worker){.kind = add_kind(&kinds, &request->devices[first], w), .memory = memory};
        name_worker(&request->plan, w, least, problem->workers[w].name, sizeof problem->workers[w].name);
    }
    for (int s = 0; s < stages && request->stage_layers; s++) {
        gp_balance_device device = request->devices[gp_plan_request_worker(&request->plan, problem->stages[s].worker)];
        device.layers = request->stage_layers[s];
        problem->stage_kinds[s] = add_kind(&kinds, &device, problem->stages[s].worker);
    }
    gp_status status = fill_kinds(problem, &kinds, err);
    free(kinds.items);
    return status;
}

static gp_status list_stages(gp_balance_problem *problem, const gp_balance_request *request, int workers,
                             gp_error *err) {
    int stages = request->plan.stages, *worker_of_stage = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&problem->stages, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&worker_of_stage, stages, err));
    gp_schedule_place(&request->plan.schedule, workers, worker_of_stage);
    for (int s = 0; s < stages; s++) {
        problem->stages[s].worker = worker_of_stage[s];
        problem->stages[s].samples =
            request->devices[gp_plan_request_worker(&request->plan, worker_of_stage[s])].samples;
    }
    free(worker_of_stage);
    return GP_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int64_t largest_share(const gp_balance_request *request, int workers) {
    int64_t most = 0;
    for (int w = 0; w < workers; w++)
        most = largest(most, request->devices[gp_plan_request_worker(&request->plan, w)].samples);
    return most;
}

static gp_status fill(gp_balance_problem *problem, const gp_balance_request *request, gp_error *err) {
    const gp_graph *graph = request->plan.graph;
    int workers = gp_schedule_workers(&request->plan.schedule, request->plan.stages);
    GP_RETURN_IF_FAILED(GP_NEW(&problem->names, graph->layer_count, err));
    for (int i = 0; i < graph->layer_count; i++) problem->names[i] = gp_layer_name(graph, i);
    problem->cut.samples = largest_share(request, workers);
    GP_RETURN_IF_FAILED(list_values(problem, request, err));
    GP_RETURN_IF_FAILED(list_stages(problem, request, workers, err));
    GP_RETURN_IF_FAILED(list_workers(problem, request, workers, err));
    problem->cut.layer_count = graph->layer_count;
    problem->cut.layer_names = problem->names;
    problem->cut.rules = request->rules;
    problem->cut.values = problem->values;
    problem->cut.kinds = problem->kinds;
    problem->cut.workers = problem->workers;
    problem->cut.worker_count = workers;
    problem->cut.stages = problem->stages;
    problem->cut.stage_count = request->plan.stages;
    if (request->stage_layers) problem->cut.stage_kinds = problem->stage_kinds;
    return GP_OK;
}

gp_status gp_balance_problem_init(gp_balance_problem *problem, const gp_balance_request *request, gp_error *err) {
    *problem = (gp_balance_problem){0};
    gp_status status = fill(problem, request, err);
    if (status != GP_OK) gp_balance_problem_fini(problem);
    return status;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What replicas take besides, about: places for the others' parts of a shard. They may share out the optimizer. */
static int64_t replicas_take(const gp_stage_plan *stage, int replicas, bool shards) {
    int64_t more = (int64_t)stage->memory[GP_MEMORY_GRADIENTS];
    if (shards) more -= (int64_t)stage->memory[GP_MEMORY_OPTIMIZER];
    return more / replicas * (replicas - 1);
}

/* A stage of its own keeps each value that it gives away; as a part of a stage a layer keeps those that some backward
 * pass reads. read: of each node's output. Its worker has no other stage. */
static void read_stage(const gp_plan *plan, int s, const gp_plan_request *request, int replicas, int64_t samples,
                       const bool *read, gp_cut_bytes *out) {
    const gp_stage_plan *stage = &plan->stage[s];
    const gp_stage *its = &plan->stages->stage[s];
    int64_t fixed = (int64_t)stage->fixed + replicas_take(stage, replicas, request->shard_optimizer);
    int64_t saved = (int64_t)stage->frame_stride[GP_FRAME_SAVED];
    for (size_t i = 0; i < stage->stats_count; i++)
        fixed += (int64_t)stage->stats[i].stride * (request->micro_batches - plan->minis[0].pieces);
    for (size_t i = 0; i < its->gives.count && saved > 0; i++) {
        int value = its->gives.items[i];
        if (read[plan->graph->values[value].producer]) continue;
        saved -= (int64_t)gp_align_up(gp_value_bytes(plan->graph, value, samples), GP_ALIGNMENT);
    }
    *out = (gp_cut_bytes){fixed, saved, (int64_t)(plan->arena[stage->worker] - stage->bytes)};
}

static gp_status plan_layers(const gp_plan_request *request, int worker, int64_t samples, gp_plan **out,
                             gp_error *err) {
    int count = request->graph->layer_count;
    int64_t *ones = NULL;
    gp_device_spec *devices = NULL;
    gp_status status = GP_NEW(&ones, count, err);
    if (status == GP_OK) status = GP_NEW(&devices, count, err);
    for (int i = 0; i < count && status == GP_OK; i++) {
        ones[i] = 1;
        devices[i] = request->devices[gp_plan_request_worker(request, worker)];
    }
    /* Two micro-batches are enough for one that is kept and one that is not. */
    gp_mini_size size = {.training = false};
    for (int i = 0; i < request->size_count; i++) size.training |= request->sizes[i].training;
    gp_plan_request alone = *request;
    alone.layers = ones;
    alone.stages = count;
    alone.devices = devices;
    alone.replicas = NULL;
    alone.links = NULL;
    alone.process = NULL;
    alone.processes = alone.rank = 0;
    alone.micro_batches = request->micro_batches < 2 ? request->micro_batches : 2;
    alone.batch = size.samples = samples * alone.micro_batches;
    alone.schedule = (gp_schedule){.kind = GP_SCHEDULE_GPIPE, .chunks = 1};
    if (alone.checkpoints) alone.checkpoint = GP_CHECKPOINT_EXCEPT_LAST; /* has every routine */
    alone.checkpoints = NULL;
    alone.lockstep = false;
    alone.sizes = &size;
    alone.size_count = 1;
    if (status == GP_OK) status = gp_plan_create(&alone, out, err);
    free(ones);
    free(devices);
    return status;
}

static int replicas_of(const gp_balance_request *request, int worker) {
    return request->plan.replicas ? request->plan.replicas[worker] : 1;
}

/* Sets bytes[layer] to what the layers take on the device of a worker: read off a plan in which each layer is a stage
 * of its own. At most GP_MAX_STAGES layers. */
static gp_status find_layer_bytes(const gp_balance_request *request, int worker, gp_cut_bytes *bytes, gp_error *err) {
    const gp_graph *graph = request->plan.graph;
    int64_t samples = request->devices[gp_plan_request_worker(&request->plan, worker)].samples;
    gp_plan *plan = NULL;
    bool *read = NULL;
    GP_RETURN_IF_FAILED(plan_layers(&request->plan, worker, samples, &plan, err));
    gp_status status = GP_NEW(&read, graph->node_count, err);
    if (status == GP_OK && plan->minis[0].training) status = gp_keeping_read(graph, samples, read, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        read_stage(plan, i, &request->plan, replicas_of(request, worker), samples, read, &bytes[i]);
    free(read);
    gp_plan_destroy(&plan);
    return status;
}

/* Layers take as much on one as on the other. */
static bool bytes_equal(const gp_balance_request *request, int worker, int other) {
    int a = gp_plan_request_worker(&request->plan, worker), b = gp_plan_request_worker(&request->plan, other);
    gp_device_spec both[2] = {request->plan.devices[a], request->plan.devices[b]}, distinct[2];
    return request->devices[a].samples == request->devices[b].samples &&
           replicas_of(request, worker) == replicas_of(request, other) && gp_profile_distinct(both, 2, distinct) == 1;
}

static gp_status find_bytes(gp_balance_problem *problem, const gp_balance_request *request, gp_error *err) {
    size_t layers = (size_t)problem->cut.layer_count;
    GP_RETURN_IF_FAILED(GP_NEW(&problem->bytes, (size_t)problem->cut.kind_count * layers, err));
    for (int k = 0; k < problem->cut.kind_count; k++) {
        int same = 0;
        while (!bytes_equal(request, problem->kind_workers[same], problem->kind_workers[k])) same++;
        gp_cut_bytes *bytes = problem->bytes + (size_t)same * layers;
        if (same == k) GP_RETURN_IF_FAILED(find_layer_bytes(request, problem->kind_workers[k], bytes, err));
        problem->kinds[k].bytes = bytes;
    }
    return GP_OK;
}

gp_status gp_balance_problem_add_memory(gp_balance_problem *problem, const gp_balance_request *request,
                                        const gp_plan *plan, gp_error *err) {
    for (int s = 0; s < problem->cut.stage_count; s++) {
        const int *slots = plan->stage[plan->stages->first[s]].slots;
        gp_cut_stage *stage = &problem->stages[s];
        stage->stash = slots[GP_FRAME_STASH];
        stage->saved = slots[GP_FRAME_SAVED];
        stage->outbox = slots[GP_FRAME_OUTBOX];
        stage->gradient = slots[GP_FRAME_GRAD];
    }
    return find_bytes(problem, request, err);
}

void gp_balance_problem_fini(gp_balance_problem *problem) {
    free(problem->names);
    free(problem->values);
    free(problem->users);
    free(problem->kinds);
    free(problem->copies);
    free(problem->workers);
    free(problem->stages);
    free(problem->stage_kinds);
    free(problem->kind_workers);
    free(problem->bytes);
    *problem = (gp_balance_problem){0};
}

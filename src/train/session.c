#include "train/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/cost.h"
#include "balance/partition.h"
#include "base/memory.h"
#include "data/loader.h"
#include "pipeline/memory.h"
#include "train/devices.h"
#include "train/rate.h"

static void describe_samples(gp_session *session) {
    const gp_graph *graph = session->graph;
    const gp_layer *loss = graph->nodes[graph->node_count - 1].layer;
    session->spec = (gp_sample_spec){.input = graph->values[GP_VALUE_INPUT].shape,
                                     .input_dtype = graph->values[GP_VALUE_INPUT].dtype,
                                     .target = graph->values[GP_VALUE_TARGET].shape,
                                     .target_dtype = graph->values[GP_VALUE_TARGET].dtype,
                                     .classes = loss->type->classes ? loss->type->classes(loss) : 0,
                                     .ignore = -100};
}

static gp_status open_data(gp_session *session, gp_error *err) {
    const gp_data_config *data = &session->config->data;
    if (data->train.kind != GP_SOURCE_NONE)
        GP_RETURN_IF_FAILED(gp_dataset_open(&data->train, &session->spec, &session->train, err));
    if (data->eval.kind != GP_SOURCE_NONE)
        GP_RETURN_IF_FAILED(gp_dataset_open(&data->eval, &session->spec, &session->eval, err));
    return GP_OK;
}

static gp_status count_steps(gp_session *session, gp_error *err) {
    const gp_train_config *train = &session->config->train;
    const gp_data_config *data = &session->config->data;
    if (session->train)
        session->epoch_steps = gp_loader_batches(gp_dataset_count(session->train), data->batch, data->drop_last);
    session->steps = train->steps < 0 ? INT64_MAX : train->steps;
    if (train->epochs.count > 0) {
        int64_t steps = gp_time_steps(train->epochs, session->epoch_steps);
        if (steps < session->steps) session->steps = steps;
    }
    if (session->steps == 0 && !session->eval)
        return gp_fail_at(err, GP_CONFIG, data->batch_place, "steps: 0 only evaluates, but there is no data.eval");
    if (session->steps > 0 && session->epoch_steps == 0)
        return gp_fail_at(err, GP_CONFIG, data->batch_place,
                          "drop_last: the %" PRId64 " training samples make no full mini-batch of %" PRId64,
                          gp_dataset_count(session->train), data->batch);
    if (session->steps > UINT32_MAX)
        return gp_fail_at(err, GP_CONFIG, data->batch_place, "%" PRId64 " steps are more than the %u of one run",
                          session->steps, UINT32_MAX);
    return GP_OK;
}

static gp_status find_devices(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(GP_NEW(&session->devices, pipeline->device_count, err));
    for (int d = 0; d < pipeline->device_count; d++)
        GP_RETURN_IF_FAILED(gp_device_spec_find(&pipeline->devices[d], &session->devices[d], err));
    return GP_OK;
}

static int64_t full_piece(const gp_session *session) {
    int64_t micro = session->config->pipeline.micro_batches;
    return (session->config->data.batch + micro - 1) / micro;
}

static gp_update make_update(const gp_optimizer_config *optimizer) {
    return (gp_update){
        .op = GP_OP_SGD,
        .states = optimizer->momentum > 0 ? 1 : 0,
        .sgd = {.momentum = optimizer->momentum, .decay = optimizer->decay, .nesterov = optimizer->nesterov ? 1 : 0}};
}

static gp_status find_balance(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int layers = session->graph->layer_count;
    GP_RETURN_IF_FAILED(GP_NEW(&session->layers, pipeline->device_count, err));
    if (pipeline->balance == GP_BALANCE_LAYERS) {
        int64_t sum = 0;
        for (int s = 0; s < pipeline->layers_count; s++) sum += session->layers[s] = pipeline->layers[s];
        if (sum == layers) return GP_OK;
        return gp_fail_at(err, GP_CONFIG, pipeline->balance_place,
                          "balance: the entries add up to %" PRId64 " layers, but the model has %d", sum, layers);
    }
    if (pipeline->device_count > layers)
        return gp_fail_at(err, GP_CONFIG, pipeline->devices[layers].place,
                          "devices: %d stages are more than the model's %d layers", pipeline->device_count, layers);
    int64_t *cost = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&cost, layers, err));
    gp_status status = pipeline->balance == GP_BALANCE_AUTO
                           ? gp_cost_by_time(session->graph, full_piece(session), cost, err)
                           : gp_cost_by_size(session->graph, full_piece(session),
                                             make_update(&session->config->optimizer).states, cost, err);
    if (status == GP_OK) status = gp_partition_min_max(cost, layers, pipeline->device_count, session->layers, err);
    free(cost);
    return status;
}

/* Sizes of the mini-batches of `count` samples. */
static int add_sizes(gp_mini_size *sizes, int64_t count, int64_t batch, bool drop_last, bool training) {
    int added = 0;
    if (count >= batch) sizes[added++] = (gp_mini_size){batch, training};
    if (count % batch && !drop_last) sizes[added++] = (gp_mini_size){count % batch, training};
    return added;
}

static gp_status make_plan(const gp_session *session, int micro_batches, gp_checkpoint_mode checkpoint, gp_plan **out,
                           gp_error *err) {
    const gp_config *config = session->config;
    gp_mini_size sizes[4];
    int count = 0;
    if (session->steps > 0)
        count += add_sizes(sizes, gp_dataset_count(session->train), config->data.batch, config->data.drop_last, true);
    if (session->eval)
        count += add_sizes(sizes + count, gp_dataset_count(session->eval), config->data.batch, false, false);
    gp_plan_request request = {.graph = session->graph,
                               .layers = session->layers,
                               .stages = config->pipeline.device_count,
                               .devices = session->devices,
                               .real = GP_F32,
                               .update = make_update(&config->optimizer),
                               .batch = config->data.batch,
                               .micro_batches = micro_batches,
                               .checkpoint = checkpoint,
                               .lockstep = config->pipeline.lockstep,
                               .sizes = sizes,
                               .size_count = count};
    return gp_plan_create(&request, out, err);
}

/* Whether the plan would fit with these choices. */
static bool would_fit(const gp_session *session, int micro_batches, gp_checkpoint_mode checkpoint) {
    gp_plan *plan = NULL;
    gp_error ignored = {0};
    int worker;
    if (make_plan(session, micro_batches, checkpoint, &plan, &ignored) != GP_OK) return false;
    bool fits = gp_memory_check(plan, &worker, &ignored) == GP_OK;
    gp_plan_destroy(&plan);
    return fits;
}

/* The sentence that refuses a plan goes on with what would make it fit: recomputing, or smaller micro-batches. */
static gp_status refuse_plan(const gp_session *session, int worker, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    char remedy[160] =
        "neither checkpoint: always nor more micro-batches make it fit; more stages, or a smaller batch, may";
    bool found = pipeline->checkpoint != GP_CHECKPOINT_ALWAYS &&
                 would_fit(session, pipeline->micro_batches, GP_CHECKPOINT_ALWAYS);
    if (found) snprintf(remedy, sizeof remedy, "it fits with checkpoint: always");
    for (int64_t m = 2 * (int64_t)pipeline->micro_batches;
         !found && m <= session->config->data.batch && m <= GP_MAX_MICRO_BATCHES; m *= 2) {
        for (int always = 0; always < 2 && !found; always++) {
            found = would_fit(session, (int)m, always ? GP_CHECKPOINT_ALWAYS : pipeline->checkpoint);
            if (found)
                snprintf(remedy, sizeof remedy, "it fits with micro_batches: %" PRId64 "%s", m,
                         always ? " and checkpoint: always" : "");
        }
    }
    gp_error cause = *err;
    return gp_fail_at(err, GP_CONFIG, pipeline->devices[worker].place, "the plan does not fit: %s; %s", cause.text,
                      remedy);
}

static gp_status check_memory(const gp_session *session, gp_error *err) {
    int worker = 0;
    if (gp_memory_check(session->plan, &worker, err) != GP_OK) return refuse_plan(session, worker, err);
    size_t sum = 0, machine = gp_machine_memory();
    for (int w = 0; w < session->plan->workers; w++)
        if (!gp_size_add(sum, session->plan->arena[w], &sum)) sum = SIZE_MAX;
    char needed[32], there[32];
    if (machine && sum > machine)
        return gp_fail(err, GP_MEMORY, "the plan needs %s for its %d workers, but the machine has %s",
                       gp_bytes_text(needed, sum), session->plan->workers, gp_bytes_text(there, machine));
    return GP_OK;
}

static gp_status open_session(gp_session *session, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_graph_build(session->config->model, &session->graph, err));
    describe_samples(session);
    GP_RETURN_IF_FAILED(find_devices(session, err));
    GP_RETURN_IF_FAILED(open_data(session, err));
    GP_RETURN_IF_FAILED(count_steps(session, err));
    GP_RETURN_IF_FAILED(find_balance(session, err));
    return make_plan(session, session->config->pipeline.micro_batches, session->config->pipeline.checkpoint,
                     &session->plan, err);
}

gp_status gp_session_open(gp_config **config, gp_session **out, gp_error *err) {
    gp_session *session = NULL;
    gp_status status = GP_NEW(&session, 1, err);
    if (status != GP_OK) {
        gp_config_destroy(config);
        return status;
    }
    session->config = *config;
    *config = NULL;
    status = open_session(session, err);
    if (status == GP_OK) status = check_memory(session, err);
    if (status != GP_OK)
        gp_session_close(&session);
    else
        *out = session;
    return status;
}

void gp_session_close(gp_session **session) {
    gp_session *it = *session;
    if (!it) return;
    gp_plan_destroy(&it->plan);
    free(it->layers);
    free(it->devices);
    gp_dataset_close(&it->eval);
    gp_dataset_close(&it->train);
    gp_graph_destroy(&it->graph);
    gp_config_destroy(&it->config);
    free(it);
    *session = NULL;
}

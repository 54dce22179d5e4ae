/* Makes the configuration that holds ready: graph, data, devices, schedule, profile, plan. */
#include "session/session_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "balance/rules.h"
#include "base/memory.h"
#include "plan/loads.h"
#include "plan/memory.h"
#include "session/devices.h"
#include "session/placement.h"
#include "session/linking.h"
#include "store/weights.h"

static void describe_samples(gp_session *session) {
    const gp_graph *graph = session->graph;
    const gp_layer *loss = graph->nodes[graph->node_count - 1].layer;
    session->spec = (gp_sample_spec){.input = graph->values[GP_VALUE_INPUT].shape,
                                     .input_dtype = graph->values[GP_VALUE_INPUT].dtype,
                                     .target = graph->values[GP_VALUE_TARGET].shape,
                                     .target_dtype = graph->values[GP_VALUE_TARGET].dtype,
                                     .classes = loss->type->classes ? loss->type->classes(loss) : 0,
                                     .ignore = loss->type->ignore ? loss->type->ignore(loss) : 0,
                                     .target_optional = session->options.weights != NULL};
}

/* What a file said of itself, with the place that named the file before it. */
static gp_status named_at(gp_place place, gp_error *err) {
    const gp_error cause = *err;
    /* What is neither has a place already, or needs none. */
    if (cause.status != GP_DATA && cause.status != GP_IO) return cause.status;
    return gp_fail_at(err, cause.status, place, "%s", cause.text);
}

static gp_status open_source(const gp_session *session, const gp_source_config *source, gp_dataset **out,
                             gp_error *err) {
    return gp_dataset_open(source, &session->spec, out, err) == GP_OK ? GP_OK : named_at(source->place, err);
}

/* A run that only evaluates needs no training data, and does not look for them. */
static gp_status open_data(gp_session *session, gp_error *err) {
    const gp_data_config *data = &session->config->data;
    if (data->train.kind != GP_SOURCE_NONE && session->config->train.steps != 0)
        GP_RETURN_IF_FAILED(open_source(session, &data->train, &session->train, err));
    if (data->eval.kind != GP_SOURCE_NONE) GP_RETURN_IF_FAILED(open_source(session, &data->eval, &session->eval, err));
    session->train_samples = session->train ? gp_dataset_count(session->train) : 0;
    session->eval_samples = session->eval ? gp_dataset_count(session->eval) : 0;
    return GP_OK;
}

/* All processes must have the same data. */
static gp_status check_samples(const gp_source_config *source, int64_t samples, int64_t expected, gp_error *err) {
    if (samples == expected) return GP_OK;
    return gp_fail_at(err, GP_DATA, source->place,
                      "the data have %" PRId64 " samples for this process, but %" PRId64 " for process 0", samples,
                      expected);
}

/* A process that follows knows its stages by now. */
static gp_status open_own_data(gp_session *session, gp_error *err) {
    const int64_t train = session->train_samples, eval = session->eval_samples;
    if (!gp_plan_loads_any(session->plan, session->plan->rank)) return GP_OK;
    GP_RETURN_IF_FAILED(open_data(session, err));
    GP_RETURN_IF_FAILED(check_samples(&session->config->data.train, session->train_samples, train, err));
    return check_samples(&session->config->data.eval, session->eval_samples, eval, err);
}

static void take_samples(gp_session *session) {
    session->train_samples = session->options.data_samples[0];
    session->eval_samples = session->options.data_samples[1];
}

static gp_place train_place(const gp_session *session) {
    const gp_yaml *train = gp_yaml_get(gp_yaml_root(session->config->document), "train");
    return train ? train->place : (gp_place){.path = session->config->path};
}

static gp_status count_steps(gp_session *session, gp_error *err) {
    const gp_train_config *train = &session->config->train;
    const gp_data_config *data = &session->config->data;
    int64_t samples = session->train_samples;
    if (samples == 0) return GP_OK;
    session->epoch_steps = gp_loader_batches(samples, data->batch, data->drop_last);
    if (session->epoch_steps == 0)
        return gp_fail_at(err, GP_CONFIG, data->batch_place,
                          "data.batch: %" PRId64 " is more than the %" PRId64
                          " training samples, and drop_last leaves out what is not full: nothing is left to train on",
                          data->batch, samples);
    session->steps = train->steps < 0 ? INT64_MAX : train->steps;
    GP_RETURN_IF_FAILED(gp_session_find_epochs(session, err));
    if (train->epochs.count > 0) {
        int64_t steps = gp_epochs_steps(&session->epochs, train->epochs.count);
        if (steps < session->steps) session->steps = steps;
    }
    if (session->steps > UINT32_MAX)
        return gp_fail_at(err, GP_CONFIG, train_place(session),
                          "train: %" PRId64 " steps are more than the %" PRIu32 " of one run", session->steps,
                          UINT32_MAX);
    return GP_OK;
}

static gp_status number_devices(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int *index = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&index, pipeline->device_count, err));
    gp_status status = gp_placement_number(pipeline, session->options.processes, session->process,
                                           session->options.machines, index, err);
    for (int d = 0; d < pipeline->device_count && status == GP_OK; d++) session->devices[d].index = index[d];
    free(index);
    return status;
}

static bool is_own(const gp_session *session, int worker) {
    return session->options.processes <= 1 || session->process[worker] == session->options.rank;
}

/* For each kind, its first device of this process. */
static void plan_for_own(const gp_session *session) {
    int count = session->config->pipeline.device_count;
    for (int d = 0; d < count; d++) {
        const gp_device_kind *kind = session->devices[d].kind;
        int first = 0, own = 0;
        while (session->devices[first].kind != kind) first++;
        while (own < count && (session->devices[own].kind != kind || !is_own(session, own))) own++;
        if (first == d && kind->plan_for) kind->plan_for(own < count ? session->devices[own].index : -1);
    }
}

static gp_link_places places_of(const gp_session *session) {
    return (gp_link_places){session->options.processes, session->process, session->options.machines, session->devices};
}

/* A resumed run has the devices of its snapshot, whatever the configuration's file says. */
static gp_status place_workers(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int processes = session->options.processes;
    gp_status status = gp_placement_find(pipeline, processes, session->process, err);
    if (status == GP_OK || !session->options.resumes || processes <= pipeline->device_count) return status;
    const gp_error cause = *err;
    return gp_fail(err, cause.status,
                   "%s; --resume goes on with the devices of the snapshot: to change them, give them with --set "
                   "pipeline.devices=[…]",
                   cause.text);
}

static gp_status find_devices(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(GP_NEW(&session->devices, pipeline->device_count, err));
    for (int d = 0; d < pipeline->device_count; d++)
        GP_RETURN_IF_FAILED(gp_device_spec_find(&pipeline->devices[d], &session->devices[d], err));
    GP_RETURN_IF_FAILED(GP_NEW(&session->process, pipeline->device_count, err));
    if (session->options.processes == 0) session->options.processes = gp_placement_processes(pipeline);
    if (session->options.weights) session->options.processes = 1; /* whatever the ranks: one process predicts */
    if (!session->options.weights) GP_RETURN_IF_FAILED(place_workers(session, err));
    GP_RETURN_IF_FAILED(number_devices(session, err));
    plan_for_own(session);
    const gp_link_places places = places_of(session);
    return gp_links_find(pipeline, &places, &session->links, err);
}

/* Only GPUs of several processes can be shared. */
static bool may_share(const gp_session *session) {
    int process = -1;
    for (int d = 0; d < session->config->pipeline.device_count; d++) {
        if (!session->devices[d].kind->bus_address) continue;
        if (process >= 0 && session->process[d] != process) return true;
        process = session->process[d];
    }
    return false;
}

static gp_status find_sharers(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    const gp_helpers *helpers = session->options.helpers;
    const gp_bus_addresses *all = NULL;
    int other;
    if (!helpers || !helpers->addresses || session->options.processes <= 1 || !may_share(session)) return GP_OK;
    GP_RETURN_IF_FAILED(helpers->addresses(helpers->context, &all, err));
    int worker = gp_sharing_find(session->devices, pipeline->device_count, session->process, session->options.machines,
                                 all, &other);
    session->options.shares = worker >= 0;
    if (worker < 0 || pipeline->transport != GP_TRANSPORT_CHOICE_NCCL) return GP_OK;
    int process = session->process[worker];
    return gp_fail_at(
        err, GP_CONFIG, pipeline->transport_place,
        "pipeline.transport: nccl connects no processes on one GPU, but worker %d of process %d and worker "
        "%d of process %d are both on %s; give each process a GPU of its own, or use auto or mpi",
        worker, process, other, session->process[other], all[process].of[session->devices[worker].index]);
}

/* NCCL connects GPUs only. */
static gp_status check_carried(const gp_session *session, int worker, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    const gp_device_kind *kind = session->devices[worker].kind;
    if (pipeline->transport == GP_TRANSPORT_CHOICE_NCCL && kind->on_host)
        return gp_fail_at(err, GP_CONFIG, pipeline->transport_place,
                          "pipeline.transport: nccl connects GPUs of several processes, but worker %d is on %s; use "
                          "auto or mpi",
                          worker, kind->name);
    return GP_OK;
}

/* What carries data between processes. A plan needs none of it: MPI is opened by a run of several processes. */
static gp_status check_transport(const gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int processes = session->options.processes;
    if (pipeline->transport == GP_TRANSPORT_CHOICE_THREADS && processes > 1)
        return gp_fail_at(err, GP_CONFIG, pipeline->transport_place,
                          "pipeline.transport: threads connect the workers of one process, but there are %d processes",
                          processes);
    for (int d = 0; d < pipeline->device_count && processes > 1; d++)
        GP_RETURN_IF_FAILED(check_carried(session, d, err));
    return GP_OK;
}

static gp_update make_update(const gp_optimizer_config *optimizer) {
    gp_update update = {.no_decay = optimizer->no_decay};
    if (optimizer->kind == GP_OPTIMIZER_SGD) {
        update.op = GP_OP_SGD;
        update.states = optimizer->momentum > 0 ? 1 : 0;
        update.sgd = (gp_sgd_attributes){
            .momentum = optimizer->momentum, .decay = optimizer->decay, .nesterov = optimizer->nesterov ? 1 : 0};
    } else {
        update.op = GP_OP_ADAM;
        update.states = 2;
        update.adam = (gp_adam_attributes){.beta1 = optimizer->beta1,
                                           .beta2 = optimizer->beta2,
                                           .eps = optimizer->eps,
                                           .decay = optimizer->decay,
                                           .decoupled = optimizer->kind == GP_OPTIMIZER_ADAMW ? 1 : 0};
    }
    return update;
}

/* Where too many stages were asked for: the first device too many, or the schedule that has several on each. */
static gp_place stages_place(const gp_pipeline_config *pipeline, int layers) {
    bool one_each = pipeline->stages == pipeline->entry_count;
    int device = 0;
    for (int e = 0; e < layers && one_each; e++) device += pipeline->replicas[e];
    return one_each ? pipeline->devices[device].place : pipeline->schedule.place;
}

static gp_status check_layers(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int layers = session->graph->layer_count;
    int64_t sum = 0;
    for (int s = 0; s < pipeline->layers_count; s++) sum += pipeline->layers[s];
    bool suits = pipeline->balance != GP_BALANCE_LAYERS || sum == layers;
    if (!suits && session->options.balances) session->config->pipeline.balance = GP_BALANCE_AUTO;
    if (pipeline->balance != GP_BALANCE_LAYERS && pipeline->stages > layers)
        return gp_fail_at(err, GP_CONFIG, stages_place(pipeline, layers),
                          "%s: %d stages are more than the model's %d layer%s",
                          pipeline->stages == pipeline->entry_count ? "pipeline.devices" : "pipeline.schedule",
                          pipeline->stages, layers, layers == 1 ? "" : "s");
    if (suits || session->options.balances) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, pipeline->balance_place,
                      "pipeline.balance: the entries add up to %" PRId64 ", but the model has %d layer%s", sum, layers,
                      layers == 1 ? "" : "s");
}

/* A plan has instructions for each stage and micro-batch: what is far too many is refused before any is made. */
static gp_status check_planned(const gp_session *session, FILE *notice, gp_error *err) {
    enum { MANY = 1 << 21 }; /* from here on planning takes more than a few seconds */
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int64_t batch = session->config->data.batch, piece = gp_session_piece(session);
    int64_t pieces = (batch + piece - 1) / piece, all = pieces * pipeline->stages;
    if (all > GP_MAX_PLANNED)
        return gp_fail_at(err, GP_CONFIG, pipeline->micro_batches_place,
                          "pipeline.micro_batches: %" PRId64 " micro-batches times %d stages are more than %d", pieces,
                          pipeline->stages, (int)GP_MAX_PLANNED);
    if (notice && all > MANY) {
        fprintf(notice,
                "planning %" PRId64 " micro-batches on %d stages: %" PRId64
                " forward and as many backward passes; this can take minutes and gigabytes\n",
                pieces, pipeline->stages, all);
        fflush(notice);
    }
    return GP_OK;
}

static gp_status find_rules(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(GP_NEW(&session->rules, session->graph->layer_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&session->keeps, session->graph->node_count, err));
    gp_layer_rules asked = gp_pipeline_rules(pipeline), without = asked;
    GP_RETURN_IF_FAILED(gp_balance_keeps(session->graph, &asked, session->keeps, err));
    without.keep_count = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&session->own_keeps, session->graph->node_count, err));
    GP_RETURN_IF_FAILED(gp_balance_keeps(session->graph, &without, session->own_keeps, err));
    GP_RETURN_IF_FAILED(gp_balance_rules(session->graph, &asked, pipeline->stages, session->rules, err));
    return session->options.balances ? GP_OK : gp_balance_check_together(session->graph, &asked, session->rules, err);
}

/* Training that changes no parameter is a mistake. */
static gp_status check_trained(const gp_session *session, gp_error *err) {
    bool frozen = false;
    for (int p = 0; p < session->graph->param_count; p++) {
        if (session->graph->params[p].trained) return GP_OK;
        if (!session->graph->params[p].spec.buffer) frozen = true;
    }
    if (session->config->train.steps == 0) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, session->config->model->place,
                      "model: %s, and there is nothing to train; train.steps: 0 evaluates, and --predict predicts",
                      frozen ? "every layer with parameters is frozen" : "no layer has parameters");
}

static gp_status refuse_workers(const gp_pipeline_config *pipeline, int workers, gp_error *err) {
    int devices = pipeline->device_count;
    if (pipeline->replicated)
        return gp_fail_at(err, GP_CONFIG, pipeline->schedule.place,
                          "pipeline.schedule.file: is for %d worker%s, but pipeline.devices has %d entr%s, and %d "
                          "replicas in all; the file must be for one or the other",
                          workers, workers == 1 ? "" : "s", pipeline->entry_count,
                          pipeline->entry_count == 1 ? "y" : "ies", devices);
    return gp_fail_at(err, GP_CONFIG, pipeline->schedule.place,
                      "pipeline.schedule.file: is for %d worker%s, but there %s %d device%s", workers,
                      workers == 1 ? "" : "s", devices == 1 ? "is" : "are", devices, devices == 1 ? "" : "s");
}

/* A file says how many stages there are, for how many devices and micro-batches. */
static gp_status open_schedule_file(gp_session *session, gp_error *err) {
    gp_pipeline_config *pipeline = &session->config->pipeline;
    gp_place place = pipeline->schedule.place;
    const gp_replicas replicas = {pipeline->replicas, pipeline->entry_count};
    GP_RETURN_IF_FAILED(gp_schedule_file_read(pipeline->schedule.file, place, &replicas, &session->schedule_file, err));
    const gp_order *order = session->schedule_file->order;
    if (order->workers != pipeline->entry_count) return refuse_workers(pipeline, order->workers, err);
    if (order->pieces < pipeline->micro_batches)
        return gp_fail_at(err, GP_CONFIG, place,
                          "pipeline.schedule.file: is for %d micro-batch%s, fewer than micro_batches: %d",
                          order->pieces, order->pieces == 1 ? "" : "es", pipeline->micro_batches);
    bool suits = pipeline->balance != GP_BALANCE_LAYERS || pipeline->layers_count == order->stages;
    if (!suits && session->options.balances) pipeline->balance = GP_BALANCE_AUTO;
    if (!suits && !session->options.balances)
        return gp_fail_at(err, GP_CONFIG, pipeline->balance_place,
                          "pipeline.balance: has %d %s, but the schedule's file has %d stages; each needs one, which "
                          "pipeline.balance=auto finds",
                          pipeline->layers_count, pipeline->layers_count == 1 ? "entry" : "entries", order->stages);
    if (pipeline->checkpoints && pipeline->checkpoint_count != order->stages)
        return gp_fail_at(err, GP_CONFIG, pipeline->checkpoint_place,
                          "pipeline.checkpoint: has %d %s, but the schedule's file has %d stages; each needs one, or "
                          "one stands for all",
                          pipeline->checkpoint_count, pipeline->checkpoint_count == 1 ? "entry" : "entries",
                          order->stages);
    pipeline->stages = order->stages;
    return GP_OK;
}

static gp_status find_schedule(gp_session *session, gp_error *err) {
    const gp_schedule_config *schedule = &session->config->pipeline.schedule;
    if (schedule->kind == GP_SCHEDULE_FILE) GP_RETURN_IF_FAILED(open_schedule_file(session, err));
    session->schedule =
        (gp_schedule){.kind = schedule->kind, .chunks = schedule->chunks, .file = session->schedule_file};
    /* Programs are carried out as they stand: whether there are norms they say. */
    if (session->schedule_file && session->schedule_file->programs)
        session->options.norms = gp_programs_have_norms(session->schedule_file->programs);
    return GP_OK;
}

gp_status gp_session_prepare(gp_session *session, gp_error *err) {
    const gp_session_options *options = &session->options;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    const gp_plan_choice now = gp_planning_configured(session);
    char missing[GP_ERROR_TEXT];
    int worker = 0;
    GP_RETURN_IF_FAILED(gp_graph_build(session->config->model, &session->graph, err));
    if (session->config->train.precision == GP_PRECISION_TF32) gp_graph_allow_tf32(session->graph);
    GP_RETURN_IF_FAILED(check_trained(session, err));
    describe_samples(session);
    GP_RETURN_IF_FAILED(find_devices(session, err));
    GP_RETURN_IF_FAILED(check_transport(session, err));
    GP_RETURN_IF_FAILED(find_sharers(session, err));
    GP_RETURN_IF_FAILED(find_schedule(session, err));
    GP_RETURN_IF_FAILED(check_layers(session, err));
    GP_RETURN_IF_FAILED(check_planned(session, options->notice, err));
    GP_RETURN_IF_FAILED(find_rules(session, err));
    if (options->data_samples)
        take_samples(session);
    else if (!options->balances)
        GP_RETURN_IF_FAILED(open_data(session, err));
    GP_RETURN_IF_FAILED(count_steps(session, err));
    if (options->trace && !options->resumes)
        GP_RETURN_IF_FAILED(gp_trace_options_check(options->trace, 0, session->steps, err));
    const gp_train_config *train = &session->config->train;
    if (train->init && !options->resumes && !options->balances && gp_weights_check(session->graph, train, err) != GP_OK)
        return named_at(train->init_place, err);
    session->update = make_update(&session->config->optimizer);
    GP_RETURN_IF_FAILED(gp_profiling_find(session, err));
    const gp_link_places places = places_of(session);
    GP_RETURN_IF_FAILED(gp_links_add_measured(pipeline, &places, session->profile, &session->links, err));
    if (options->orders) GP_RETURN_IF_FAILED(gp_planning_order_devices(session, err));
    GP_RETURN_IF_FAILED(GP_NEW(&session->layers, pipeline->stages, err));
    GP_RETURN_IF_FAILED(gp_planning_make(session, &now, session->layers, &session->plan, missing, err));
    if (options->data_samples) GP_RETURN_IF_FAILED(open_own_data(session, err));
    if (!options->balances) GP_RETURN_IF_FAILED(gp_host_memory_plan(session, options->trace, &session->host, err));
    if (gp_memory_check(session->plan, &worker, &session->unfit) == GP_OK || options->tries) return GP_OK;
    *err = session->unfit;
    return gp_remedy_refuse(session, &now, worker, missing, err);
}

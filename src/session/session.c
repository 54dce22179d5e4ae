#include "session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/cost.h"
#include "balance/rules.h"
#include "base/memory.h"
#include "data/loader.h"
#include "pipeline/memory.h"
#include "session/balancing.h"
#include "session/devices.h"
#include "session/ordering.h"
#include "session/profiling.h"
#include "session/rate.h"
#include "session/session_internal.h"
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
                                     .target_optional = session->predicts};
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
    return GP_OK;
}

static gp_place train_place(const gp_session *session) {
    const gp_yaml *train = gp_yaml_get(gp_yaml_root(session->config->document), "train");
    return train ? train->place : (gp_place){.path = session->config->path};
}

static gp_status count_steps(gp_session *session, gp_error *err) {
    const gp_train_config *train = &session->config->train;
    const gp_data_config *data = &session->config->data;
    if (!session->train) return GP_OK;
    int64_t samples = gp_dataset_count(session->train);
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

static gp_status find_devices(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    GP_RETURN_IF_FAILED(GP_NEW(&session->devices, pipeline->device_count, err));
    for (int d = 0; d < pipeline->device_count; d++)
        GP_RETURN_IF_FAILED(gp_device_spec_find(&pipeline->devices[d], &session->devices[d], err));
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

/* What a plan can be made with in place of what the configuration says. */
typedef struct choice {
    int64_t micro_batches;
    bool always; /* recomputing everywhere */
    gp_balance_mode balance;
} choice;

/* Where too many stages were asked for: the first device too many, or the schedule that has several on each. */
static gp_place stages_place(const gp_pipeline_config *pipeline, int layers) {
    bool one_each = pipeline->stages == pipeline->device_count;
    return one_each ? pipeline->devices[layers].place : pipeline->schedule.place;
}

static gp_status check_layers(gp_session *session, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int layers = session->graph->layer_count;
    int64_t sum = 0;
    for (int s = 0; s < pipeline->layers_count; s++) sum += pipeline->layers[s];
    bool suits = pipeline->balance != GP_BALANCE_LAYERS || sum == layers;
    if (!suits && session->balances) session->config->pipeline.balance = GP_BALANCE_AUTO;
    if (pipeline->balance != GP_BALANCE_LAYERS && pipeline->stages > layers)
        return gp_fail_at(err, GP_CONFIG, stages_place(pipeline, layers),
                          "%s: %d stages are more than the model's %d layer%s",
                          pipeline->stages == pipeline->device_count ? "pipeline.devices" : "pipeline.schedule",
                          pipeline->stages, layers, layers == 1 ? "" : "s");
    if (suits || session->balances) return GP_OK;
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
    GP_RETURN_IF_FAILED(gp_balance_keeps(session->graph, pipeline, session->keeps, err));
    gp_pipeline_config without = *pipeline;
    without.keep_count = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&session->own_keeps, session->graph->node_count, err));
    GP_RETURN_IF_FAILED(gp_balance_keeps(session->graph, &without, session->own_keeps, err));
    GP_RETURN_IF_FAILED(gp_balance_rules(session->graph, pipeline, pipeline->stages, session->rules, err));
    return session->balances ? GP_OK : gp_balance_check_together(session->graph, pipeline, session->rules, err);
}

enum { MOST_SIZES = 6 };

/* Sizes of mini-batches that `steps` steps over `count` samples meet. */
static int add_sizes(gp_mini_size *sizes, int64_t count, int64_t batch, int64_t steps, bool training) {
    int added = 0;
    if (count >= batch) sizes[added++] = (gp_mini_size){batch, training};
    if (count % batch && steps > count / batch) sizes[added++] = (gp_mini_size){count % batch, training};
    return added;
}

/* What an epoch that begins within, after a change, adds to the sizes. */
static int add_head(const gp_session *session, gp_mini_size *sizes, int count) {
    const gp_data_config *data = &session->config->data;
    const gp_epoch_part *part = &session->epochs.part[session->epochs.count - 1];
    int64_t left = session->epochs.samples - part->taken, last = left % data->batch;
    const int64_t wanted[2] = {left >= data->batch ? data->batch : 0, data->drop_last ? 0 : last};
    if (part->taken == 0) return 0;
    int added = 0;
    for (int i = 0; i < 2; i++) {
        bool has = wanted[i] == 0;
        for (int k = 0; k < count + added; k++) has = has || (sizes[k].training && sizes[k].samples == wanted[i]);
        if (!has) sizes[count + added++] = (gp_mini_size){wanted[i], true};
    }
    return added;
}

static int list_sizes(const gp_session *session, gp_mini_size sizes[MOST_SIZES]) {
    const gp_data_config *data = &session->config->data;
    int count = 0;
    if (session->balances) sizes[count++] = (gp_mini_size){data->batch, true};
    /* The data are not looked at then; a full mini-batch takes the most. */
    if (session->balances && data->eval.kind != GP_SOURCE_NONE) sizes[count++] = (gp_mini_size){data->batch, false};
    if (session->steps > 0) {
        int64_t met = session->steps < session->epoch_steps ? session->steps : session->epoch_steps;
        count += add_sizes(sizes, gp_dataset_count(session->train), data->batch, met, true);
        count += add_head(session, sizes, count);
    }
    if (session->eval)
        count += add_sizes(sizes + count, gp_dataset_count(session->eval), data->batch, INT64_MAX, false);
    return count;
}

/* What a request points to, as long as it is used. */
typedef struct requested {
    gp_mini_size sizes[MOST_SIZES];
    gp_machine_memory machine;
} requested;

static gp_plan_request request_plan(const gp_session *session, const choice *with, requested *to) {
    if (session->limited)
        to->machine = session->given;
    else
        gp_machine_memory_read("", &to->machine);
    const gp_config *config = session->config;
    return (gp_plan_request){.graph = session->graph,
                             .stages = config->pipeline.stages,
                             .schedule = session->schedule,
                             .devices = session->devices,
                             .real = GP_F32,
                             .update = session->update,
                             .clip_norm = config->optimizer.clip_norm,
                             .predict = session->predicts,
                             .norms = session->norms,
                             .batch = config->data.batch,
                             .micro_batches = (int)with->micro_batches,
                             .checkpoint = with->always ? GP_CHECKPOINT_ALWAYS : config->pipeline.checkpoint,
                             .checkpoints = with->always ? NULL : config->pipeline.checkpoints,
                             .keeps = with->always ? session->own_keeps : session->keeps,
                             .lockstep = config->pipeline.lockstep,
                             .sizes = to->sizes,
                             .size_count = list_sizes(session, to->sizes),
                             .processors = session->processors,
                             .host_memory = &to->machine};
}

static gp_status make_cut(const gp_session *session, const choice *with, const int64_t *layers, gp_plan **out,
                          gp_error *err) {
    requested to;
    gp_plan_request request = request_plan(session, with, &to);
    request.layers = layers;
    return gp_plan_create(&request, out, err);
}

/* The balance that is asked for, and its plan. Where the plan does not fit: what the solver says of it. */
static gp_status make_plan(const gp_session *session, const choice *with, int64_t *layers, gp_plan **out,
                           char missing[GP_ERROR_TEXT], gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int64_t piece = (session->config->data.batch + with->micro_batches - 1) / with->micro_batches;
    requested to;
    gp_balancing_costs costs;
    gp_balance balance;
    missing[0] = '\0';
    if (with->balance == GP_BALANCE_LAYERS) {
        memcpy(layers, pipeline->layers, (size_t)pipeline->layers_count * sizeof *layers);
        return make_cut(session, with, layers, out, err);
    }
    GP_RETURN_IF_FAILED(gp_balancing_costs_init(
        &costs, session,
        &(gp_balancing_choice){piece, with->micro_batches, with->always, with->balance == GP_BALANCE_SIZE}, err));
    const gp_balance_request request = {request_plan(session, with, &to), costs.devices, costs.stage_layers,
                                        session->rules};
    gp_status status = gp_balance_find(&request, layers, out, &balance, err);
    if (status == GP_OK) memcpy(missing, balance.missing, sizeof balance.missing);
    if (status == GP_OK) gp_balance_fini(&balance);
    gp_balancing_costs_fini(&costs);
    return status;
}

/* The order of the devices is found by time, whatever the configuration says of the balance. */
static gp_status order_devices(gp_session *session, const choice *with, gp_error *err) {
    requested to;
    gp_balancing_costs costs;
    GP_RETURN_IF_FAILED(gp_balancing_costs_init(
        &costs, session, &(gp_balancing_choice){gp_session_piece(session), with->micro_batches, with->always, false},
        err));
    const gp_balance_request request = {request_plan(session, with, &to), costs.devices, costs.stage_layers,
                                        session->rules};
    gp_status status = gp_ordering_apply(session, &request, err);
    gp_balancing_costs_fini(&costs);
    return status;
}

static choice configured(const gp_session *session) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    return (choice){pipeline->micro_batches, false, session->balances ? GP_BALANCE_AUTO : pipeline->balance};
}

int64_t gp_session_piece(const gp_session *session) {
    int64_t pieces = session->config->pipeline.micro_batches;
    return (session->config->data.batch + pieces - 1) / pieces;
}

gp_status gp_session_plan_cut(const gp_session *session, const int64_t *layers, gp_plan **out, gp_error *err) {
    const choice now = configured(session);
    return make_cut(session, &now, layers, out, err);
}

gp_status gp_session_plan_policy(const gp_session *session, const gp_checkpoint_mode *modes, const bool *keeps,
                                 gp_plan **out, gp_error *err) {
    const choice now = configured(session);
    requested to;
    gp_plan_request request = request_plan(session, &now, &to);
    request.layers = session->layers;
    request.checkpoints = modes;
    request.keeps = keeps;
    return gp_plan_create(&request, out, err);
}

static bool would_fit(const gp_session *session, const choice *with) {
    gp_plan *plan = NULL;
    int64_t *layers = NULL;
    gp_error ignored = {0};
    char missing[GP_ERROR_TEXT];
    int worker;
    if (GP_NEW(&layers, session->config->pipeline.stages, &ignored) != GP_OK) return false;
    bool fits = make_plan(session, with, layers, &plan, missing, &ignored) == GP_OK &&
                gp_memory_check(plan, &worker, &ignored) == GP_OK;
    gp_plan_destroy(&plan);
    free(layers);
    return fits;
}

/* What planning a choice takes, in instructions and ops: the search for a remedy has a budget of it, a few seconds.
 * Finding a balance plans each layer as a stage, and some cuts. */
static int64_t planning_work(const gp_session *session, const choice *with) {
    int64_t stages = session->config->pipeline.stages;
    int64_t layers = session->graph->layer_count;
    int64_t once = session->graph->node_count + stages * (stages + with->micro_batches);
    return with->balance == GP_BALANCE_LAYERS ? once : layers * layers + 13 * once;
}

static bool is_always(const gp_session *session) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    for (int s = 0; s < pipeline->stages; s++)
        if (gp_pipeline_checkpoint(pipeline, s) != GP_CHECKPOINT_ALWAYS) return false;
    return pipeline->keep_count == 0;
}

/* The search for a remedy under way. */
typedef struct remedy_search {
    int64_t budget; /* of planning_work; below 0: some choices were not tried */
} remedy_search;

/* The first of a few changes that makes the plan fit, the cheapest ones to live with first: another balance,
 * recomputing, smaller micro-batches, all of them. `refused`: `now` itself is known not to fit. */
static bool find_remedy(const gp_session *session, const choice *now, bool refused, remedy_search *search,
                        choice *out) {
    const gp_balance_mode balances[] = {now->balance, GP_BALANCE_AUTO, GP_BALANCE_SIZE};
    int64_t most =
        session->config->data.batch < GP_MAX_MICRO_BATCHES ? session->config->data.batch : GP_MAX_MICRO_BATCHES;
    for (int64_t m = now->micro_batches; m == now->micro_batches || m <= most; m *= 2) {
        for (int always = 0; always < (is_always(session) ? 1 : 2); always++) {
            for (int b = 0; b < 3; b++) {
                if (b > 0 && balances[b] == now->balance) continue;
                if (refused && b == 0 && !always && m == now->micro_batches) continue;
                *out = (choice){m, always > 0, balances[b]};
                search->budget -= planning_work(session, out);
                if (search->budget >= 0 && would_fit(session, out)) return true;
            }
        }
    }
    return false;
}

/* Whether the leanest plan fits: one sample for each micro-batch, all recomputed. */
static bool leanest_fits(const gp_session *session, remedy_search *search) {
    int64_t batch = session->config->data.batch;
    const choice by_time = {batch < GP_MAX_MICRO_BATCHES ? batch : GP_MAX_MICRO_BATCHES, true, GP_BALANCE_AUTO};
    const choice by_size = {by_time.micro_batches, true, GP_BALANCE_SIZE};
    search->budget -= planning_work(session, &by_time);
    return search->budget >= 0 && (would_fit(session, &by_time) || would_fit(session, &by_size));
}

/* The same with a smaller batch: a half, a quarter … of it. *batch: the first that fits. */
static bool find_smaller_batch(const gp_session *session, const choice *now, remedy_search *search, int64_t *batch,
                               choice *out) {
    gp_config config = *session->config;
    gp_session smaller = *session;
    smaller.config = &config;
    config.data.batch = 1;
    if (session->config->data.batch == 1 || !leanest_fits(&smaller, search)) return false;
    config.data.batch = session->config->data.batch / 2;
    while (config.data.batch > 1 && !leanest_fits(&smaller, search)) config.data.batch /= 2;
    *batch = config.data.batch;
    return find_remedy(&smaller, now, false, search, out);
}

/* Whether one layer alone is too large for every device, with the smallest micro-batches and all recomputed. `missing`:
 * which one. */
static bool is_one_layer(const gp_session *session, char missing[GP_ERROR_TEXT]) {
    int64_t most =
        session->config->data.batch < GP_MAX_MICRO_BATCHES ? session->config->data.batch : GP_MAX_MICRO_BATCHES;
    gp_plan *plan = NULL;
    int64_t *layers = NULL;
    gp_error ignored = {0};
    gp_status status = GP_CONFIG;
    missing[0] = '\0';
    if (GP_NEW(&layers, session->config->pipeline.stages, &ignored) != GP_OK) return false;
    /* Batch norm refuses a micro-batch of one value for each channel: then twice as large ones are the smallest. */
    for (int64_t m = most; m > 0 && status == GP_CONFIG; m /= 2) {
        const choice least = {m, true, GP_BALANCE_AUTO};
        missing[0] = '\0';
        status = make_plan(session, &least, layers, &plan, missing, &ignored);
    }
    if (status != GP_OK) missing[0] = '\0';
    gp_plan_destroy(&plan);
    free(layers);
    return strncmp(missing, "layer ", 6) == 0;
}

enum { REMEDY_TEXT = 400, REMEDY_BUDGET = 1500000 };

/* "micro_batches: 8 and checkpoint: always"; `batch` 0: as it is. */
static void describe_remedy(char text[REMEDY_TEXT], const choice *now, const choice *then, int64_t batch) {
    size_t used = 0;
    text[0] = '\0';
    if (batch > 0) used = (size_t)snprintf(text, REMEDY_TEXT, "data.batch: %" PRId64, batch);
    if (then->micro_batches != now->micro_batches)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%smicro_batches: %" PRId64, used ? " and " : "",
                                 then->micro_batches);
    if (then->always)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%scheckpoint: always", used ? " and " : "");
    if (then->balance != now->balance)
        snprintf(text + used, REMEDY_TEXT - used, "%sbalance: %s", used ? " and " : "",
                 then->balance == GP_BALANCE_SIZE ? "size" : "auto");
}

/* What is left if no change to the pipeline helps: only what can help is named. `said`: the sentence names such a layer
 * already. */
static void find_last_resort(const gp_session *session, const choice *now, remedy_search *search, bool said,
                             char text[REMEDY_TEXT]) {
    char missing[GP_ERROR_TEXT];
    int64_t batch = 0;
    choice then;
    if (search->budget < 0) {
        snprintf(text, REMEDY_TEXT,
                 "checkpoint: always, more micro-batches and other balances were tried for a few seconds, and none of "
                 "them makes it fit");
    } else if (find_smaller_batch(session, now, search, &batch, &then)) {
        char remedy[REMEDY_TEXT];
        describe_remedy(remedy, now, &then, batch);
        snprintf(text, REMEDY_TEXT, "with this batch nothing makes it fit; it fits with %.120s", remedy);
    } else if (is_one_layer(session, missing)) {
        snprintf(text, REMEDY_TEXT,
                 "%.240s%sneither more stages nor a smaller batch help; its device needs more memory",
                 said ? "" : missing, said ? "" : "; ");
    } else {
        snprintf(text, REMEDY_TEXT,
                 "neither checkpoint: always nor more micro-batches nor another balance nor a smaller batch make it "
                 "fit; more %smemory may",
                 session->config->pipeline.stages < session->graph->layer_count ? "stages or more " : "");
    }
}

/* The sentence that refuses a plan goes on with what would make it fit. */
static gp_status refuse_plan(const gp_session *session, const choice *now, int worker, const char *missing,
                             gp_error *err) {
    gp_place place = session->config->pipeline.devices[worker].place;
    gp_error cause = *err;
    remedy_search search = {REMEDY_BUDGET};
    char why[GP_ERROR_TEXT / 2] = "", text[REMEDY_TEXT];
    if (missing[0]) snprintf(why, sizeof why, "; by the sizes of single layers: %.900s", missing);
    choice then;
    bool found = find_remedy(session, now, true, &search, &then);
    if (found)
        describe_remedy(text, now, &then, 0);
    else
        find_last_resort(session, now, &search, strncmp(missing, "layer ", 6) == 0, text);
    return gp_fail_at(err, GP_CONFIG, place, "the plan does not fit: %s%s; %s%s", cause.text, why,
                      found ? "it fits with " : "", text);
}

gp_status gp_session_check_machine(gp_session *session, gp_error *err) {
    gp_machine_memory machine;
    gp_host_memory_measure(&session->host);
    gp_machine_memory_read("", &machine);
    GP_RETURN_IF_FAILED(gp_host_memory_check(&session->host, &machine, err));
    for (int i = 0; i < session->later_count; i++) {
        const gp_change *change = &session->whole->changes[session->changes + i];
        if (gp_host_memory_check(&session->later[i], &machine, err) != GP_OK)
            return gp_error_context(err, "from step %" PRId64 " on, ", change->step);
    }
    return GP_OK;
}

gp_status gp_session_find_mini(const gp_session *session, bool training, int64_t samples, int *out, gp_error *err) {
    *out = gp_plan_find(session->plan, training, samples);
    return *out >= 0 ? GP_OK : gp_fail(err, GP_INTERNAL, "no plan for a mini-batch of %" PRId64, samples);
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

/* A file says how many stages there are, for how many devices and micro-batches. */
static gp_status open_schedule_file(gp_session *session, gp_error *err) {
    gp_pipeline_config *pipeline = &session->config->pipeline;
    gp_place place = pipeline->schedule.place;
    GP_RETURN_IF_FAILED(gp_schedule_file_read(pipeline->schedule.file, &session->schedule_file, err));
    const gp_order *order = session->schedule_file->order;
    if (order->workers != pipeline->device_count)
        return gp_fail_at(err, GP_CONFIG, place, "pipeline.schedule.file: is for %d worker%s, but there %s %d device%s",
                          order->workers, order->workers == 1 ? "" : "s", pipeline->device_count == 1 ? "is" : "are",
                          pipeline->device_count, pipeline->device_count == 1 ? "" : "s");
    if (order->pieces < pipeline->micro_batches)
        return gp_fail_at(err, GP_CONFIG, place,
                          "pipeline.schedule.file: is for %d micro-batch%s, fewer than micro_batches: %d",
                          order->pieces, order->pieces == 1 ? "" : "es", pipeline->micro_batches);
    bool suits = pipeline->balance != GP_BALANCE_LAYERS || pipeline->layers_count == order->stages;
    if (!suits && session->balances) pipeline->balance = GP_BALANCE_AUTO;
    if (!suits && !session->balances)
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
        session->norms = gp_programs_have_norms(session->schedule_file->programs);
    return GP_OK;
}

static gp_status open_session(gp_session *session, const gp_session_options *options, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    const choice now = configured(session);
    char missing[GP_ERROR_TEXT];
    int worker = 0;
    GP_RETURN_IF_FAILED(gp_graph_build(session->config->model, &session->graph, err));
    if (session->config->train.precision == GP_PRECISION_TF32) gp_graph_allow_tf32(session->graph);
    GP_RETURN_IF_FAILED(check_trained(session, err));
    describe_samples(session);
    GP_RETURN_IF_FAILED(find_devices(session, err));
    GP_RETURN_IF_FAILED(find_schedule(session, err));
    GP_RETURN_IF_FAILED(check_layers(session, err));
    GP_RETURN_IF_FAILED(check_planned(session, options->notice, err));
    GP_RETURN_IF_FAILED(find_rules(session, err));
    if (!session->balances) GP_RETURN_IF_FAILED(open_data(session, err));
    GP_RETURN_IF_FAILED(count_steps(session, err));
    if (options->trace && !session->resumes)
        GP_RETURN_IF_FAILED(gp_trace_options_check(options->trace, 0, session->steps, err));
    const gp_train_config *train = &session->config->train;
    if (train->init && !session->resumes && !session->balances && gp_weights_check(session->graph, train, err) != GP_OK)
        return named_at(train->init_place, err);
    session->update = make_update(&session->config->optimizer);
    GP_RETURN_IF_FAILED(gp_profiling_find(session, options, err));
    if (options->orders) GP_RETURN_IF_FAILED(order_devices(session, &now, err));
    GP_RETURN_IF_FAILED(GP_NEW(&session->layers, pipeline->stages, err));
    GP_RETURN_IF_FAILED(make_plan(session, &now, session->layers, &session->plan, missing, err));
    if (!session->balances) gp_host_memory_plan(session, options->trace, &session->host);
    if (gp_memory_check(session->plan, &worker, &session->unfit) == GP_OK || session->tries) return GP_OK;
    *err = session->unfit;
    return refuse_plan(session, &now, worker, missing, err);
}

static gp_status set_weights(gp_session *session, const char *weights, gp_error *err) {
    gp_train_config *train = &session->config->train;
    session->predicts = true;
    train->steps = 0;
    free(train->init);
    train->init = NULL;
    train->init_place = (gp_place){0};
    train->init_skip_count = 0;
    return gp_copy_text(&train->init, weights, err);
}

gp_status gp_session_open(gp_config **config, gp_session **out, gp_error *err) {
    return gp_session_open_for(config, &(gp_session_options){0}, out, err);
}

static gp_status open_whole(gp_session *session, const gp_session_options *options, gp_error *err) {
    const gp_config *whole = session->whole;
    bool alone = options->balances || options->tries; /* only the first configuration is looked at */
    int changes = alone ? 0 : options->weights ? whole->change_count : gp_config_changes_until(whole, options->step);
    gp_session_set_phase(session, changes);
    if (options->weights) GP_RETURN_IF_FAILED(set_weights(session, options->weights, err));
    GP_RETURN_IF_FAILED(open_session(session, options, err));
    if (alone || options->weights) session->until = INT64_MAX;
    return alone || options->weights ? GP_OK : gp_session_check_changes(session, err);
}

gp_status gp_session_open_for(gp_config **config, const gp_session_options *options, gp_session **out, gp_error *err) {
    gp_session *session = NULL;
    gp_status status = GP_NEW(&session, 1, err);
    if (status != GP_OK) {
        gp_config_destroy(config);
        return status;
    }
    session->whole = *config;
    *config = NULL;
    session->norms = options->norms;
    session->resumes = options->resumes;
    session->balances = options->balances;
    session->tries = options->tries;
    session->profiling = options->profiling;
    session->trace = options->trace;
    session->limited = options->machine != NULL;
    if (session->limited) session->given = *options->machine;
    session->processors = options->processors > 0 ? options->processors : gp_machine_processors();
    status = open_whole(session, options, err);
    if (status != GP_OK && options->given && session->profile) {
        *options->given = session->profile;
        session->profile = NULL;
    }
    if (status != GP_OK)
        gp_session_close(&session);
    else
        *out = session;
    return status;
}

gp_status gp_session_open_phase(const gp_session *like, int changes, gp_session **out, gp_error *err) {
    const gp_session_options options = {.norms = like->norms,
                                        .resumes = true, /* weights are the run's own */
                                        .profiling = like->profiling,
                                        .machine = like->limited ? &like->given : NULL,
                                        .trace = like->trace};
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&session, 1, err));
    session->whole = like->whole;
    session->norms = options.norms;
    session->resumes = true;
    session->profiling = options.profiling;
    session->trace = options.trace;
    session->limited = like->limited;
    session->given = like->given;
    session->processors = like->processors;
    gp_session_set_phase(session, changes);
    gp_status status = open_session(session, &options, err);
    session->whole = NULL;
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
    gp_profile_destroy(&it->profile);
    free(it->profile_difference);
    gp_schedule_file_destroy(&it->schedule_file);
    free(it->layers);
    free(it->order);
    free(it->rules);
    free(it->keeps);
    free(it->own_keeps);
    free(it->devices);
    gp_dataset_close(&it->eval);
    gp_dataset_close(&it->train);
    gp_graph_destroy(&it->graph);
    gp_epochs_fini(&it->epochs);
    free(it->later);
    gp_config_destroy(&it->whole);
    free(it);
    *session = NULL;
}

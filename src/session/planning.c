/* Plans of a session, also with other choices than the configuration's. */
#include "session/session_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/lines.h"

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
    if (session->options.balances) sizes[count++] = (gp_mini_size){data->batch, true};
    /* The data are not looked at then; a full mini-batch takes the most. */
    if (session->options.balances && data->eval.kind != GP_SOURCE_NONE)
        sizes[count++] = (gp_mini_size){data->batch, false};
    if (session->steps > 0) {
        int64_t met = session->steps < session->epoch_steps ? session->steps : session->epoch_steps;
        count += add_sizes(sizes, session->train_samples, data->batch, met, true);
        count += add_head(session, sizes, count);
    }
    if (session->eval_samples > 0)
        count += add_sizes(sizes + count, session->eval_samples, data->batch, INT64_MAX, false);
    return count;
}

/* What a request points to, as long as it is used. */
typedef struct requested {
    gp_mini_size sizes[MOST_SIZES];
    gp_machine_memory machine;
    gp_balancing_costs costs;
} requested;

static gp_carrier find_carrier(const gp_session *session) {
    switch (session->config->pipeline.transport) {
    case GP_TRANSPORT_CHOICE_MPI: return GP_CARRIER_WIRE;
    case GP_TRANSPORT_CHOICE_NCCL: return GP_CARRIER_LINES;
    default: return session->options.shares ? GP_CARRIER_WIRE : GP_CARRIER_AUTO;
    }
}

static gp_plan_request request_plan(const gp_session *session, const gp_plan_choice *with, requested *to) {
    if (session->options.machine)
        to->machine = *session->options.machine;
    else
        gp_machine_memory_read("", &to->machine);
    const gp_config *config = session->config;
    return (gp_plan_request){.graph = session->graph,
                             .stages = config->pipeline.stages,
                             .schedule = session->schedule,
                             .devices = session->devices,
                             .links = session->links,
                             .replicas = config->pipeline.replicated ? config->pipeline.replicas : NULL,
                             .replicas_place = config->pipeline.devices[0].place,
                             .process = session->process,
                             .processes = session->options.processes,
                             .rank = session->options.rank,
                             .carrier = find_carrier(session),
                             .shard_optimizer = config->pipeline.shard_optimizer,
                             .update = session->update,
                             .clip_norm = config->optimizer.clip_norm,
                             .predict = session->options.weights != NULL,
                             .norms = session->options.norms,
                             .batch = config->data.batch,
                             .micro_batches = (int)with->micro_batches,
                             .checkpoint = with->always ? GP_CHECKPOINT_ALWAYS : config->pipeline.checkpoint,
                             .checkpoints = with->always ? NULL : config->pipeline.checkpoints,
                             .keeps = with->always ? session->own_keeps : session->keeps,
                             .lockstep = config->pipeline.lockstep,
                             .sizes = to->sizes,
                             .size_count = list_sizes(session, to->sizes),
                             .processors = session->options.processors,
                             .pin = config->pipeline.pin,
                             .host_memory = &to->machine};
}

static gp_status make_cut(const gp_session *session, const gp_plan_choice *with, const int64_t *layers, gp_plan **out,
                          gp_error *err) {
    requested to;
    gp_plan_request request = request_plan(session, with, &to);
    request.layers = layers;
    return gp_plan_create(&request, out, err);
}

/* The caller calls gp_balancing_costs_fini(&to->costs). */
static gp_status request_balance(const gp_session *session, const gp_plan_choice *with, requested *to,
                                 gp_balance_request *out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_balancing_costs_init(&to->costs, session, with, err));
    *out = (gp_balance_request){request_plan(session, with, to), to->costs.devices, to->costs.stage_layers,
                                session->rules};
    return GP_OK;
}

static gp_status make_plan(const gp_session *session, const gp_plan_choice *with, int64_t *layers, gp_plan **out,
                           char missing[GP_ERROR_TEXT], gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    requested to;
    gp_balance_request request;
    missing[0] = '\0';
    if (with->balance == GP_BALANCE_LAYERS) {
        memcpy(layers, pipeline->layers, (size_t)pipeline->layers_count * sizeof *layers);
        return make_cut(session, with, layers, out, err);
    }
    GP_RETURN_IF_FAILED(request_balance(session, with, &to, &request, err));
    gp_status status = gp_balance_find(&request, layers, out, missing, err);
    gp_balancing_costs_fini(&to.costs);
    return status;
}

/* Whether the GPUs of all processes can have the lines that the plan needs. Process 0 looks, and tells the others. */
static gp_status check_lines(const gp_plan *plan, gp_error *err) {
    for (int p = 0; plan->rank == 0 && gp_lines_numbers(plan) > 0 && p < plan->processes; p++) {
        gp_lines *lines = NULL;
        GP_RETURN_IF_FAILED(gp_lines_create(plan, p, &lines, err));
        gp_lines_destroy(&lines);
    }
    return GP_OK;
}

gp_status gp_planning_make(const gp_session *session, const gp_plan_choice *with, int64_t *layers, gp_plan **out,
                           char missing[GP_ERROR_TEXT], gp_error *err) {
    gp_plan *plan = NULL;
    GP_RETURN_IF_FAILED(make_plan(session, with, layers, &plan, missing, err));
    gp_status status = check_lines(plan, err);
    if (status == GP_OK)
        *out = plan;
    else
        gp_plan_destroy(&plan);
    return status;
}

static gp_status permute(void *items, size_t size, const int *order, int count, gp_error *err) {
    char *placed = NULL, *given = items;
    GP_RETURN_IF_FAILED(GP_NEW(&placed, size * (size_t)count, err));
    for (int d = 0; d < count; d++) memcpy(placed + size * (size_t)d, given + size * (size_t)order[d], size);
    memcpy(items, placed, size * (size_t)count);
    free(placed);
    return GP_OK;
}

gp_status gp_planning_order_devices(gp_session *session, gp_error *err) {
    gp_pipeline_config *pipeline = &session->config->pipeline;
    const gp_plan_choice by_time = {pipeline->micro_batches, false, GP_BALANCE_AUTO};
    int count = pipeline->device_count;
    requested to;
    gp_balance_request request;
    if (pipeline->replicated)
        return gp_fail_at(err, GP_CONFIG, pipeline->devices[0].place,
                          "pipeline.devices: an order of stages with replicas cannot be looked for yet");
    GP_RETURN_IF_FAILED(GP_NEW(&session->order, count, err));
    GP_RETURN_IF_FAILED(request_balance(session, &by_time, &to, &request, err));
    gp_status status = gp_device_order_find(&request, session->order, &session->orders, err);
    gp_balancing_costs_fini(&to.costs);
    for (int d = 0; d < count && status == GP_OK; d++) session->moved = session->moved || session->order[d] != d;
    if (status == GP_OK) status = permute(session->devices, sizeof *session->devices, session->order, count, err);
    if (status == GP_OK) status = permute(pipeline->devices, sizeof *pipeline->devices, session->order, count, err);
    return status;
}

gp_plan_choice gp_planning_configured(const gp_session *session) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    return (gp_plan_choice){pipeline->micro_batches, false,
                            session->options.balances ? GP_BALANCE_AUTO : pipeline->balance};
}

gp_status gp_session_plan_cut(const gp_session *session, const int64_t *layers, gp_plan **out, gp_error *err) {
    const gp_plan_choice now = gp_planning_configured(session);
    return make_cut(session, &now, layers, out, err);
}

gp_status gp_session_plan_policy(const gp_session *session, const gp_checkpoint_mode *modes, const bool *keeps,
                                 gp_plan **out, gp_error *err) {
    const gp_plan_choice now = gp_planning_configured(session);
    requested to;
    gp_plan_request request = request_plan(session, &now, &to);
    request.layers = session->layers;
    request.checkpoints = modes;
    request.keeps = keeps;
    return gp_plan_create(&request, out, err);
}

#include "session/balancing.h"

#include <stdlib.h>

#include "balance/keeping.h"
#include "base/memory.h"
#include "profile/cost.h"

double gp_balancing_recomputes(gp_checkpoint_mode checkpoint, int64_t micro_batches) {
    return checkpoint == GP_CHECKPOINT_NEVER         ? 0
           : checkpoint == GP_CHECKPOINT_EXCEPT_LAST ? 1 - 1 / (double)micro_batches
                                                     : 1;
}

/* Samples of a micro-batch. */
static int64_t piece_of(const gp_session *session, const gp_plan_choice *with) {
    return (session->config->data.batch + with->micro_batches - 1) / with->micro_batches;
}

static gp_status refuse_sum(const gp_profile *profile, const gp_graph *graph, int layer, gp_error *err) {
    return gp_fail(err, GP_DATA, "%s: the times up to layer \"%s\" exceed the range of 64-bit picoseconds",
                   profile->path ? profile->path : "the profile", gp_layer_name(graph, layer));
}

static gp_status profiled_layers(const gp_session *session, const gp_device_spec *spec, const gp_plan_choice *with,
                                 double recomputes, const double *share, int64_t *cost, gp_error *err) {
    const gp_profile *profile = session->profile;
    const gp_graph *graph = session->graph;
    const gp_profile_device *row = gp_profile_find(profile, spec);
    double scale = 1e12 * row->slowdown * (double)piece_of(session, with) / (double)profile->identity.samples;
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        const double *time = row->layers[i].time;
        double picoseconds =
            scale * (time[GP_PROFILE_TIME_FORWARD] + recomputes * share[i] * time[GP_PROFILE_TIME_RECOMPUTE] +
                     time[GP_PROFILE_TIME_BACKWARD_INPUT] + time[GP_PROFILE_TIME_BACKWARD_WEIGHT]) +
            1e12 * row->slowdown * time[GP_PROFILE_TIME_UPDATE] / (double)with->micro_batches;
        if (picoseconds >= 0x1p62 || !gp_int64_add(total, (int64_t)picoseconds, &total))
            return refuse_sum(profile, graph, i, err);
        cost[i] = (int64_t)picoseconds;
    }
    return GP_OK;
}

static gp_status counted_layers(const gp_session *session, const gp_device_spec *spec, const gp_plan_choice *with,
                                double recomputes, const double *share, int64_t *cost, gp_error *err) {
    const gp_graph *graph = session->graph;
    gp_cost_request request = {.graph = graph,
                               .samples = piece_of(session, with),
                               .updates = 1 / (double)with->micro_batches,
                               .optimizer_states = session->update.states,
                               .kind = spec->kind,
                               .threads = spec->threads > 1 ? spec->threads : 1,
                               .rates = gp_profile_rates(session->profile, spec)};
    int64_t *once = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&once, graph->layer_count, err));
    gp_status status = gp_cost_by_time(&request, once, err);
    request.recomputes = recomputes;
    if (status == GP_OK) status = gp_cost_by_time(&request, cost, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        if (share[i] < 1) cost[i] = once[i] + (int64_t)(share[i] * (double)(cost[i] - once[i]));
    free(once);
    return status;
}

/* Of the kinds that the pipeline's devices are, the one from which copies take longest. */
static void find_copies(const gp_session *session, const gp_device_spec *to, gp_balance_device *out) {
    const gp_profile_copy *load =
        session->profile ? gp_profile_find_copy(session->profile, "host", to->kind->name) : NULL;
    const gp_rates rates = gp_profile_rates(session->profile, to);
    out->load_latency = 1e12 * (load ? load->latency : rates.copy_latency);
    out->load_per_byte = load ? 1e12 * load->per_byte : 1e12 / rates.copy_bytes;
    out->copy_latency = 1e12 * rates.copy_latency;
    out->copy_per_byte = 1e12 / rates.copy_bytes;
    bool found = false;
    for (int d = 0; d < session->config->pipeline.device_count && session->profile; d++) {
        const char *from = session->devices[d].kind->name;
        const gp_profile_copy *copy = gp_profile_find_copy(session->profile, from, to->kind->name);
        if (!copy || (found && 1e12 * copy->per_byte <= out->copy_per_byte)) continue;
        found = true;
        out->copy_latency = 1e12 * copy->latency;
        out->copy_per_byte = 1e12 * copy->per_byte;
    }
}

static int find_spec(const gp_device_spec *distinct, int count, const gp_device_spec *spec) {
    gp_device_spec pair[2];
    int d = 0;
    while (d < count - 1 && gp_profile_distinct((gp_device_spec[]){distinct[d], *spec}, 2, pair) == 2) d++;
    return d;
}

static gp_checkpoint_mode mode_of(const gp_session *session, const gp_plan_choice *with, int stage) {
    return with->always ? GP_CHECKPOINT_ALWAYS : gp_pipeline_checkpoint(&session->config->pipeline, stage);
}

enum { MODES = GP_CHECKPOINT_ALWAYS + 1 };

/* Layers under a mode on one of the distinct devices. */
static int64_t *costs_of(const gp_session *session, const gp_balancing_costs *costs, int device,
                         gp_checkpoint_mode mode) {
    return costs->layers + ((size_t)device * MODES + (size_t)mode) * (size_t)session->graph->layer_count;
}

static gp_status cost_devices(const gp_session *session, const gp_plan_choice *with, const gp_device_spec *specs,
                              int count, gp_balancing_costs *out, gp_error *err) {
    bool used[MODES] = {false};
    double *share = NULL;
    for (int s = 0; s < session->config->pipeline.stages; s++) used[mode_of(session, with, s)] = true;
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, (size_t)count * MODES * (size_t)session->graph->layer_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&share, session->graph->layer_count, err));
    gp_status status = GP_OK;
    for (int d = 0; d < count && status == GP_OK; d++) {
        status = gp_keeping_shares(session->graph, piece_of(session, with), session->keeps, &specs[d], share, err);
        for (int mode = 0; mode < MODES && status == GP_OK; mode++) {
            int64_t *cost = costs_of(session, out, d, (gp_checkpoint_mode)mode);
            double recomputes = gp_balancing_recomputes((gp_checkpoint_mode)mode, with->micro_batches);
            if (!used[mode]) continue;
            status = (gp_profile_is_counted(session->profile) ? counted_layers : profiled_layers)(
                session, &specs[d], with, recomputes, share, cost, err);
        }
    }
    free(share);
    return status;
}

/* Where the modes of stages differ, so do the costs of layers on them. */
static gp_status cost_stages(const gp_session *session, const gp_plan_choice *with, const gp_device_spec *specs,
                             int count, gp_balancing_costs *out, gp_error *err) {
    int stages = session->config->pipeline.stages, same = 1, *workers = NULL;
    while (same < stages && mode_of(session, with, same) == mode_of(session, with, 0)) same++;
    if (same == stages) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&out->stage_layers, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&workers, stages, err));
    gp_schedule_place(&session->schedule, session->config->pipeline.entry_count, workers);
    for (int s = 0; s < stages; s++) {
        int first = 0;
        for (int e = 0; e < workers[s]; e++) first += session->config->pipeline.replicas[e];
        int d = find_spec(specs, count, &session->devices[first]);
        out->stage_layers[s] = costs_of(session, out, d, mode_of(session, with, s));
    }
    free(workers);
    return GP_OK;
}

static gp_status cost_by_time(const gp_session *session, const gp_plan_choice *with, gp_balancing_costs *out,
                              gp_error *err) {
    int workers = session->config->pipeline.device_count;
    gp_device_spec *distinct = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&distinct, workers, err));
    int count = gp_profile_distinct(session->devices, workers, distinct);
    gp_status status = cost_devices(session, with, distinct, count, out, err);
    for (int w = 0; w < workers && status == GP_OK; w++) {
        int d = find_spec(distinct, count, &session->devices[w]);
        out->devices[w].layers = costs_of(session, out, d, mode_of(session, with, 0));
        find_copies(session, &session->devices[w], &out->devices[w]);
    }
    if (status == GP_OK) status = cost_stages(session, with, distinct, count, out, err);
    free(distinct);
    return status;
}

static gp_status cost_by_size(const gp_session *session, const gp_plan_choice *with, gp_balancing_costs *out,
                              gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, session->graph->layer_count, err));
    for (int w = 0; w < session->config->pipeline.device_count; w++) out->devices[w].layers = out->layers;
    return gp_cost_by_size(session->graph, piece_of(session, with), session->update.states, out->layers, err);
}

gp_status gp_balancing_costs_init(gp_balancing_costs *costs, const gp_session *session, const gp_plan_choice *with,
                                  gp_error *err) {
    *costs = (gp_balancing_costs){0};
    gp_status status = GP_NEW(&costs->devices, session->config->pipeline.device_count, err);
    if (status == GP_OK)
        status = with->balance == GP_BALANCE_SIZE ? cost_by_size(session, with, costs, err)
                                                  : cost_by_time(session, with, costs, err);
    if (status != GP_OK) gp_balancing_costs_fini(costs);
    return status;
}

void gp_balancing_costs_fini(gp_balancing_costs *costs) {
    free(costs->devices);
    free(costs->stage_layers);
    free(costs->layers);
    *costs = (gp_balancing_costs){0};
}

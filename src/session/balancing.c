#include "session/balancing.h"

#include <stdlib.h>

#include "balance/keeping.h"
#include "base/memory.h"
#include "base/share.h"
#include "profile/cost.h"
#include "profile/profile_words.h"

double gp_balancing_recomputes(gp_checkpoint_mode checkpoint, int64_t micro_batches) {
    return checkpoint == GP_CHECKPOINT_NEVER         ? 0
           : checkpoint == GP_CHECKPOINT_EXCEPT_LAST ? 1 - 1 / (double)micro_batches
                                                     : 1;
}

/* Devices of one kind that have as many samples of a micro-batch: layers cost the same on them. */
typedef struct variant {
    gp_device_spec spec;
    int64_t samples;
} variant;

/* Costs that are looked for. A profile has the times of one number of samples, which stand for the pipeline's largest
 * share; smaller shares take less in proportion to assumed costs. */
typedef struct coster {
    const gp_session *session;
    const gp_plan_choice *with;
    variant *variants;
    int count;
    int64_t largest;
    double *keeps;  /* [layer] share that is recomputed */
    double *factor; /* [layer] of a variant's samples to the largest share */
} coster;

static int64_t samples_of(const gp_session *session, const gp_plan_choice *with, int replicas) {
    int64_t piece = (session->config->data.batch + with->micro_batches - 1) / with->micro_batches;
    return gp_share_of(piece, replicas, 0).count;
}

static gp_status refuse_sum(const gp_profile *profile, const gp_graph *graph, int layer, gp_error *err) {
    return gp_fail(err, GP_DATA, "%s: the times up to layer \"%s\" exceed the range of 64-bit picoseconds",
                   profile->path ? profile->path : "the profile", gp_layer_name(graph, layer));
}

static gp_status find_factors(coster *c, int64_t samples, gp_error *err) {
    const gp_graph *graph = c->session->graph;
    int64_t *cost = NULL, *its, *largest;
    for (int i = 0; i < graph->layer_count; i++) c->factor[i] = 1;
    if (samples == c->largest) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&cost, 2 * (size_t)graph->layer_count, err));
    its = cost;
    largest = cost + graph->layer_count;
    gp_cost_request request = gp_cost_assumed(graph, samples);
    gp_status status = gp_cost_by_time(&request, its, err);
    request.samples = c->largest;
    if (status == GP_OK) status = gp_cost_by_time(&request, largest, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        c->factor[i] = largest[i] > 0 ? (double)its[i] / (double)largest[i] : (double)samples / (double)c->largest;
    free(cost);
    return status;
}

static gp_status profiled_layers(const coster *c, const variant *on, double recomputes, int64_t *cost, gp_error *err) {
    const gp_profile *profile = c->session->profile;
    const gp_graph *graph = c->session->graph;
    const gp_profile_device *row = gp_profile_find(profile, &on->spec);
    double scale = 1e12 * row->slowdown * (double)c->largest / (double)profile->identity.samples;
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        const double *time = row->layers[i].time;
        double picoseconds =
            scale * c->factor[i] *
                (time[GP_PROFILE_TIME_FORWARD] + recomputes * c->keeps[i] * time[GP_PROFILE_TIME_RECOMPUTE] +
                 time[GP_PROFILE_TIME_BACKWARD_INPUT] + time[GP_PROFILE_TIME_BACKWARD_WEIGHT]) +
            1e12 * row->slowdown * time[GP_PROFILE_TIME_UPDATE] / (double)c->with->micro_batches;
        if (picoseconds >= 0x1p62 || !gp_int64_add(total, (int64_t)picoseconds, &total))
            return refuse_sum(profile, graph, i, err);
        cost[i] = (int64_t)picoseconds;
    }
    return GP_OK;
}

/* NULL: choices count with assumed rates. A disturbed profile chooses nothing. */
static const gp_profile *choosing_profile(const gp_session *session) {
    const gp_profile *profile = session->profile;
    return profile && gp_profile_is_disturbed(profile) && !profile->named ? NULL : profile;
}

static gp_status counted_layers(const coster *c, const variant *on, double recomputes, int64_t *cost, gp_error *err) {
    const gp_graph *graph = c->session->graph;
    gp_cost_request request = {.graph = graph,
                               .samples = on->samples,
                               .updates = 1 / (double)c->with->micro_batches,
                               .optimizer_states = c->session->update.states,
                               .kind = on->spec.kind,
                               .threads = on->spec.threads > 1 ? on->spec.threads : 1,
                               .rates = gp_profile_choosing_rates(choosing_profile(c->session), &on->spec)};
    int64_t *once = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&once, graph->layer_count, err));
    gp_status status = gp_cost_by_time(&request, once, err);
    request.recomputes = recomputes;
    if (status == GP_OK) status = gp_cost_by_time(&request, cost, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        if (c->keeps[i] < 1) cost[i] = once[i] + (int64_t)(c->keeps[i] * (double)(cost[i] - once[i]));
    free(once);
    return status;
}

/* Of the kinds that the pipeline's devices are, the one from which copies take longest. */
static void find_copies(const gp_session *session, const gp_device_spec *to, gp_balance_device *out) {
    const gp_profile *profile = choosing_profile(session);
    const gp_profile_copy *load = profile ? gp_profile_find_copy(profile, "host", to->kind->name) : NULL;
    const gp_rates rates = gp_profile_choosing_rates(profile, to);
    out->load_latency = 1e12 * (load ? load->latency : rates.copy_latency);
    out->load_per_byte = load ? 1e12 * load->per_byte : 1e12 / rates.copy_bytes;
    out->copy_latency = 1e12 * rates.copy_latency;
    out->copy_per_byte = 1e12 / rates.copy_bytes;
    bool found = false;
    for (int d = 0; d < session->config->pipeline.device_count && profile; d++) {
        const char *from = session->devices[d].kind->name;
        const gp_profile_copy *copy = gp_profile_find_copy(profile, from, to->kind->name);
        if (!copy || (found && 1e12 * copy->per_byte <= out->copy_per_byte)) continue;
        found = true;
        out->copy_latency = 1e12 * copy->latency;
        out->copy_per_byte = 1e12 * copy->per_byte;
    }
}

/* Values come from the stage before, over a link if one is given. Messages travel while workers compute: their latency
 * keeps no worker busy. */
static void find_links(const gp_session *session, gp_balance_device *devices) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int entries = pipeline->entry_count, before = pipeline->device_count - pipeline->replicas[entries - 1];
    for (int e = 0, w = 0; e < entries; before = w, w += pipeline->replicas[e++]) {
        const gp_link *link = gp_links_between(session->links, before, w);
        double latency = link && !gp_links_are_messages(session->links, before, w) ? link->latency : 0;
        for (int r = 0; r < pipeline->replicas[e] && link; r++) {
            devices[w + r].copy_latency = 1e12 * latency;
            devices[w + r].copy_per_byte = 1e12 / link->bandwidth;
        }
    }
}

/* The variant with that many samples on a device, which is new if there is none. */
static int find_variant(coster *c, const gp_device_spec *spec, int64_t samples) {
    gp_device_spec pair[2];
    int v = 0;
    while (v < c->count && (c->variants[v].samples != samples ||
                            gp_profile_distinct((gp_device_spec[]){c->variants[v].spec, *spec}, 2, pair) == 2))
        v++;
    if (v == c->count) c->variants[c->count++] = (variant){*spec, samples};
    return v;
}

static gp_checkpoint_mode mode_of(const coster *c, int stage) {
    return c->with->always ? GP_CHECKPOINT_ALWAYS : gp_pipeline_checkpoint(&c->session->config->pipeline, stage);
}

enum { MODES = GP_CHECKPOINT_ALWAYS + 1 };

/* Layers under a mode on a variant. */
static int64_t *costs_of(const coster *c, const gp_balancing_costs *costs, int v, gp_checkpoint_mode mode) {
    return costs->layers + ((size_t)v * MODES + (size_t)mode) * (size_t)c->session->graph->layer_count;
}

static gp_status cost_variant(coster *c, int v, const bool used[MODES], gp_balancing_costs *out, gp_error *err) {
    const variant *on = &c->variants[v];
    bool counted = gp_profile_is_counted(choosing_profile(c->session));
    GP_RETURN_IF_FAILED(gp_keeping_shares(c->session->graph, on->samples, c->session->keeps, &on->spec, c->keeps, err));
    if (!counted) GP_RETURN_IF_FAILED(find_factors(c, on->samples, err));
    for (int mode = 0; mode < MODES; mode++) {
        int64_t *cost = costs_of(c, out, v, (gp_checkpoint_mode)mode);
        double recomputes = gp_balancing_recomputes((gp_checkpoint_mode)mode, c->with->micro_batches);
        if (!used[mode]) continue;
        GP_RETURN_IF_FAILED((counted ? counted_layers : profiled_layers)(c, on, recomputes, cost, err));
    }
    return GP_OK;
}

/* Where the modes of stages differ, so do the costs of layers on them. */
static gp_status cost_stages(coster *c, const int *variant_of, gp_balancing_costs *out, gp_error *err) {
    const gp_pipeline_config *pipeline = &c->session->config->pipeline;
    int stages = pipeline->stages, same = 1, *workers = NULL;
    while (same < stages && mode_of(c, same) == mode_of(c, 0)) same++;
    if (same == stages) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&out->stage_layers, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&workers, stages, err));
    gp_schedule_place(&c->session->schedule, pipeline->entry_count, workers);
    for (int s = 0; s < stages; s++) {
        int first = 0;
        for (int e = 0; e < workers[s]; e++) first += pipeline->replicas[e];
        out->stage_layers[s] = costs_of(c, out, variant_of[first], mode_of(c, s));
    }
    free(workers);
    return GP_OK;
}

static gp_status cost_by_time(coster *c, const int *variant_of, gp_balancing_costs *out, gp_error *err) {
    const gp_session *session = c->session;
    size_t layers = (size_t)session->graph->layer_count;
    bool used[MODES] = {false};
    for (int s = 0; s < session->config->pipeline.stages; s++) used[mode_of(c, s)] = true;
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, (size_t)c->count * MODES * layers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->keeps, layers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->factor, layers, err));
    for (int v = 0; v < c->count; v++) GP_RETURN_IF_FAILED(cost_variant(c, v, used, out, err));
    for (int w = 0; w < session->config->pipeline.device_count; w++) {
        out->devices[w].layers = costs_of(c, out, variant_of[w], mode_of(c, 0));
        find_copies(session, &session->devices[w], &out->devices[w]);
    }
    find_links(session, out->devices);
    return cost_stages(c, variant_of, out, err);
}

static gp_status cost_by_size(coster *c, const int *variant_of, gp_balancing_costs *out, gp_error *err) {
    const gp_session *session = c->session;
    size_t layers = (size_t)session->graph->layer_count;
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, (size_t)c->count * layers, err));
    for (int v = 0; v < c->count; v++)
        GP_RETURN_IF_FAILED(gp_cost_by_size(session->graph, c->variants[v].samples, session->update.states,
                                            out->layers + (size_t)v * layers, err));
    for (int w = 0; w < session->config->pipeline.device_count; w++)
        out->devices[w].layers = out->layers + (size_t)variant_of[w] * layers;
    return GP_OK;
}

static gp_status find_costs(coster *c, int *variant_of, gp_balancing_costs *out, gp_error *err) {
    const gp_pipeline_config *pipeline = &c->session->config->pipeline;
    GP_RETURN_IF_FAILED(GP_NEW(&c->variants, pipeline->device_count, err));
    for (int e = 0, w = 0; e < pipeline->entry_count; e++) {
        int64_t samples = samples_of(c->session, c->with, pipeline->replicas[e]);
        if (samples > c->largest) c->largest = samples;
        for (int end = w + pipeline->replicas[e]; w < end; w++) {
            variant_of[w] = find_variant(c, &c->session->devices[w], samples);
            out->devices[w].samples = samples;
        }
    }
    return (c->with->balance == GP_BALANCE_SIZE ? cost_by_size : cost_by_time)(c, variant_of, out, err);
}

gp_status gp_balancing_costs_init(gp_balancing_costs *costs, const gp_session *session, const gp_plan_choice *with,
                                  gp_error *err) {
    coster c = {.session = session, .with = with};
    int *variant_of = NULL;
    *costs = (gp_balancing_costs){0};
    gp_status status = GP_NEW(&costs->devices, session->config->pipeline.device_count, err);
    if (status == GP_OK) status = GP_NEW(&variant_of, session->config->pipeline.device_count, err);
    if (status == GP_OK) status = find_costs(&c, variant_of, costs, err);
    free(variant_of);
    free(c.variants);
    free(c.keeps);
    free(c.factor);
    if (status != GP_OK) gp_balancing_costs_fini(costs);
    return status;
}

void gp_balancing_costs_fini(gp_balancing_costs *costs) {
    free(costs->devices);
    free(costs->stage_layers);
    free(costs->layers);
    *costs = (gp_balancing_costs){0};
}

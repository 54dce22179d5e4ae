#include "train/balancing.h"

#include <stdlib.h>

#include "balance/cost.h"
#include "balance/keeping.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "train/devices.h"

/* Before a run, profiling may take this share of what the run should take, and no more than so many seconds; where that
 * is less than the least, there is nothing to gain. */
static const double share_of_run = 0.05, least_seconds = 0.5, most_seconds = 10;

/* What finding a profile goes by. */
typedef struct search {
    gp_session *session;
    const gp_session_options *options;
    gp_device_spec *devices; /* that differ */
    int count;
    gp_device_spec *company; /* of the host, equal to some of those */
    int company_count;
    bool at_once;
    gp_identity_request request;
    gp_profile_identity now;
    char *path; /* where it is kept; NULL: nowhere */
} search;

static bool is_first_of_its_kind(const gp_device_spec *devices, int at) {
    gp_device_spec pair[2];
    for (int d = 0; d < at; d++)
        if (gp_profile_distinct((gp_device_spec[]){devices[d], devices[at]}, 2, pair) == 1) return false;
    return true;
}

static int threads_of(const gp_device_spec *spec) {
    return spec->threads > 1 ? spec->threads : 1;
}

/* Devices of the host work at the same time, as in training, as far as the machine has processors for all: with fewer
 * they would wait for one another more than stages do, which wait for copies too. */
static gp_status find_company(search *s, gp_error *err) {
    const gp_device_spec *devices = s->session->devices;
    int count = s->session->config->pipeline.device_count, processors = gp_machine_processors();
    for (int d = 0; d < s->count; d++)
        if (s->devices[d].kind->on_host) processors -= threads_of(&s->devices[d]);
    s->at_once = processors >= 0;
    GP_RETURN_IF_FAILED(GP_NEW(&s->company, count, err));
    for (int d = 0; d < count; d++) {
        if (!devices[d].kind->on_host || is_first_of_its_kind(devices, d)) continue;
        processors -= threads_of(&devices[d]);
        if (processors < 0) continue;
        s->company[s->company_count] = devices[d];
        s->company[s->company_count++].memory = 0; /* a bound on plans */
    }
    return GP_OK;
}

static int count_on_host(const search *s) {
    int on_host = s->company_count;
    for (int d = 0; d < s->count; d++) on_host += s->devices[d].kind->on_host;
    return on_host;
}

static gp_status begin(search *s, gp_error *err) {
    const gp_session *session = s->session;
    const gp_config *config = session->config;
    int devices = config->pipeline.device_count;
    GP_RETURN_IF_FAILED(GP_NEW(&s->devices, devices, err));
    s->count = gp_profile_distinct(session->devices, devices, s->devices);
    GP_RETURN_IF_FAILED(find_company(s, err));
    s->request = (gp_identity_request){.graph = session->graph,
                                       .devices = s->devices,
                                       .device_count = s->count,
                                       .update = &session->update,
                                       .tf32 = config->train.precision == GP_PRECISION_TF32,
                                       .norms = config->optimizer.clip_norm > 0,
                                       .samples = gp_session_piece(session),
                                       .together = s->at_once || count_on_host(s) == 0 ? count_on_host(s) : 1};
    GP_RETURN_IF_FAILED(gp_profile_identify(&s->request, &s->now, err));
    return gp_profile_path(&s->now, s->devices, s->count, &s->path, err);
}

/* What somebody names is used, whatever it is of: that is how plans for other machines are made. */
static gp_status take_named(search *s, gp_error *err) {
    gp_profile *profile = NULL;
    char *difference = NULL;
    GP_RETURN_IF_FAILED(gp_profile_read(s->options->profile, &profile, err));
    gp_status status = gp_profile_check(profile, s->session->graph, &s->now, s->devices, s->count, err);
    if (status == GP_OK) status = gp_profile_describe_difference(&profile->identity, &s->now, &difference, err);
    if (status != GP_OK) {
        gp_profile_destroy(&profile);
        return status;
    }
    s->session->profile = profile;
    s->session->profile_difference = difference;
    return GP_OK;
}

static gp_status count_seconds(const gp_session *session, double *out, gp_error *err) {
    int64_t *cost = NULL;
    double sum = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&cost, session->graph->layer_count, err));
    gp_status status = gp_cost_by_time(session->graph, gp_session_piece(session), 0, cost, err);
    for (int i = 0; i < session->graph->layer_count && status == GP_OK; i++) sum += (double)cost[i] * 1e-12;
    free(cost);
    *out = sum;
    return status;
}

/* 0: the run is too short to be worth it. */
static gp_status seconds_before_run(const gp_session *session, double *out, gp_error *err) {
    double micro_batch = 0;
    GP_RETURN_IF_FAILED(count_seconds(session, &micro_batch, err));
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    double seconds =
        share_of_run * micro_batch * pipeline->micro_batches * (double)session->steps / pipeline->device_count;
    *out = seconds < least_seconds ? 0 : seconds > most_seconds ? most_seconds : seconds;
    return GP_OK;
}

/* Of what one host device may take where it does not say. */
static size_t memory_at_a_time(const search *s) {
    int on_host = count_on_host(s);
    size_t left = gp_machine_memory_free();
    return on_host && left < SIZE_MAX ? left / 2 / (size_t)on_host + 1 : 0;
}

static double recomputed_share(gp_checkpoint_mode checkpoint, int64_t micro_batches) {
    return checkpoint == GP_CHECKPOINT_NEVER         ? 0
           : checkpoint == GP_CHECKPOINT_EXCEPT_LAST ? 1 - 1 / (double)micro_batches
                                                     : 1;
}

static gp_status measure(search *s, double seconds, gp_error *err) {
    gp_session *session = s->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    double micro_batches = pipeline->micro_batches;
    double recomputes = 0; /* mean of the stages */
    for (int i = 0; i < pipeline->stages; i++)
        recomputes += recomputed_share(gp_pipeline_checkpoint(pipeline, i), pipeline->micro_batches) / pipeline->stages;
    const gp_measure_request request = {.graph = session->graph,
                                        .devices = s->devices,
                                        .device_count = s->count,
                                        .at_once = s->at_once,
                                        .company = s->company,
                                        .company_count = s->company_count,
                                        .update = session->update,
                                        .clip_norm = session->config->optimizer.clip_norm,
                                        .samples = s->request.samples,
                                        .mix = {1 - recomputes, 1 / micro_batches},
                                        .seconds = seconds,
                                        .memory = memory_at_a_time(s)};
    gp_profile *profile = NULL;
    GP_RETURN_IF_FAILED(gp_profile_create(&s->now, session->graph, s->devices, s->count, &profile, err));
    gp_status status = gp_profile_measure(&request, profile, &session->measured, err);
    if (status != GP_OK) {
        gp_profile_destroy(&profile);
        return status;
    }
    session->profile = profile;
    return GP_OK;
}

/* A cache that cannot be written loses time, and nothing else. */
static gp_status keep(search *s, gp_error *err) {
    gp_error ignored = {0};
    const char *path = s->options->profile_out ? s->options->profile_out : s->path;
    if (s->options->profile_out) GP_RETURN_IF_FAILED(gp_profile_write(s->session->profile, path, err));
    if (!s->options->profile_out && (!path || gp_profile_keep(s->session->profile, path, &ignored) != GP_OK))
        return GP_OK;
    return gp_copy_text(&s->session->profile->path, path, err);
}

static gp_status measure_and_keep(search *s, gp_error *err) {
    double seconds = s->options->seconds;
    if (!(seconds > 0)) GP_RETURN_IF_FAILED(seconds_before_run(s->session, &seconds, err));
    if (!(seconds > 0)) return GP_OK;
    if (s->options->notice && seconds >= 1) {
        fprintf(s->options->notice, "timing the layers, for the balance: at most %.0f s\n", seconds);
        fflush(s->options->notice);
    }
    GP_RETURN_IF_FAILED(measure(s, seconds, err));
    return keep(s, err);
}

/* Nothing is to be chosen on one stage, or where every layer is one, or where every stage's first is named; a run
 * without steps has no time to save. */
static bool is_worth_measuring(const gp_session *session, const gp_session_options *options) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    if (options->profiling != GP_PROFILING_MEASURE || options->balances) return options->balances;
    return pipeline->balance == GP_BALANCE_AUTO && pipeline->first_count < pipeline->stages - 1 &&
           session->graph->layer_count > pipeline->stages && session->steps > 0;
}

static gp_status find(search *s, gp_error *err) {
    GP_RETURN_IF_FAILED(begin(s, err));
    if (s->options->profile) return take_named(s, err);
    if (!s->options->again)
        GP_RETURN_IF_FAILED(
            gp_profile_find_kept(s->path, &s->now, s->session->graph, s->devices, s->count, &s->session->profile, err));
    return s->session->profile || !is_worth_measuring(s->session, s->options) ? GP_OK : measure_and_keep(s, err);
}

gp_status gp_balancing_find_profile(gp_session *session, const gp_session_options *options, gp_error *err) {
    search s = {.session = session, .options = options};
    if (options->profiling == GP_PROFILING_NONE) return GP_OK;
    if (options->given && *options->given) {
        session->profile = *options->given;
        *options->given = NULL;
        return GP_OK;
    }
    gp_status status = find(&s, err);
    gp_profile_identity_fini(&s.now);
    free(s.devices);
    free(s.company);
    free(s.path);
    return status;
}

static gp_status refuse_sum(const gp_profile *profile, const gp_graph *graph, int layer, gp_error *err) {
    return gp_fail(err, GP_DATA, "%s: the times up to layer \"%s\" exceed what 64 bits of picoseconds can hold",
                   profile->path ? profile->path : "the profile", gp_layer_name(graph, layer));
}

static gp_status profiled_layers(const gp_profile *profile, const gp_graph *graph, const gp_device_spec *spec,
                                 const gp_balancing_choice *with, double recomputes, const double *share, int64_t *cost,
                                 gp_error *err) {
    const gp_profile_device *row = gp_profile_find(profile, spec);
    double scale = 1e12 * row->slowdown * (double)with->samples / (double)profile->identity.samples;
    int64_t total = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        const gp_estimate *time = row->layers[i].time;
        double picoseconds =
            scale *
            (time[GP_PROFILE_TIME_FORWARD].median + recomputes * share[i] * time[GP_PROFILE_TIME_RECOMPUTE].median +
             time[GP_PROFILE_TIME_BACKWARD_INPUT].median + time[GP_PROFILE_TIME_BACKWARD_WEIGHT].median);
        if (picoseconds >= 0x1p62 || !gp_int64_add(total, (int64_t)picoseconds, &total))
            return refuse_sum(profile, graph, i, err);
        cost[i] = (int64_t)picoseconds;
    }
    return GP_OK;
}

static gp_status counted_layers(const gp_graph *graph, const gp_device_spec *spec, const gp_balancing_choice *with,
                                double recomputes, const double *share, int64_t *cost, gp_error *err) {
    int64_t *once = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&once, graph->layer_count, err));
    gp_status status = gp_cost_by_time(graph, with->samples, 0, once, err);
    if (status == GP_OK) status = gp_cost_by_time(graph, with->samples, recomputes, cost, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++) {
        if (share[i] < 1) cost[i] = once[i] + (int64_t)(share[i] * (double)(cost[i] - once[i]));
        cost[i] /= spec->threads > 1 ? spec->threads : 1;
    }
    free(once);
    return status;
}

/* Of the kinds that the pipeline's devices are, the one from which copies take longest. */
static void find_copies(const gp_session *session, const gp_device_spec *to, gp_balance_device *out) {
    const gp_profile_copy *load =
        session->profile ? gp_profile_find_copy(session->profile, "host", to->kind->name) : NULL;
    out->load_latency = load ? 1e12 * load->latency : 0;
    out->load_per_byte = load ? 1e12 * load->per_byte : 1e12 / GP_COUNTED_BYTES_PER_SECOND;
    out->copy_per_byte = 1e12 / GP_COUNTED_BYTES_PER_SECOND;
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

static gp_checkpoint_mode mode_of(const gp_session *session, const gp_balancing_choice *with, int stage) {
    return with->always ? GP_CHECKPOINT_ALWAYS : gp_pipeline_checkpoint(&session->config->pipeline, stage);
}

enum { MODES = GP_CHECKPOINT_ALWAYS + 1 };

/* Layers under a mode on one of the distinct devices. */
static int64_t *costs_of(const gp_session *session, const gp_balancing_costs *costs, int device,
                         gp_checkpoint_mode mode) {
    return costs->layers + ((size_t)device * MODES + (size_t)mode) * (size_t)session->graph->layer_count;
}

static gp_status cost_devices(const gp_session *session, const gp_balancing_choice *with, const gp_device_spec *specs,
                              int count, gp_balancing_costs *out, gp_error *err) {
    bool used[MODES] = {false};
    double *share = NULL;
    for (int s = 0; s < session->config->pipeline.stages; s++) used[mode_of(session, with, s)] = true;
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, (size_t)count * MODES * (size_t)session->graph->layer_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&share, session->graph->layer_count, err));
    gp_status status = gp_keeping_shares(session->graph, with->samples, session->keeps, share, err);
    for (int d = 0; d < count; d++)
        for (int mode = 0; mode < MODES && status == GP_OK; mode++) {
            int64_t *cost = costs_of(session, out, d, (gp_checkpoint_mode)mode);
            double recomputes = recomputed_share((gp_checkpoint_mode)mode, with->micro_batches);
            if (!used[mode]) continue;
            status = session->profile ? profiled_layers(session->profile, session->graph, &specs[d], with, recomputes,
                                                        share, cost, err)
                                      : counted_layers(session->graph, &specs[d], with, recomputes, share, cost, err);
        }
    free(share);
    return status;
}

/* Where the modes of stages differ, so do the costs of layers on them. */
static gp_status cost_stages(const gp_session *session, const gp_balancing_choice *with, const gp_device_spec *specs,
                             int count, gp_balancing_costs *out, gp_error *err) {
    int stages = session->config->pipeline.stages, same = 1, *workers = NULL;
    while (same < stages && mode_of(session, with, same) == mode_of(session, with, 0)) same++;
    if (same == stages) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&out->stage_layers, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&workers, stages, err));
    gp_schedule_place(&session->schedule, session->config->pipeline.device_count, workers);
    for (int s = 0; s < stages; s++) {
        int d = find_spec(specs, count, &session->devices[workers[s]]);
        out->stage_layers[s] = costs_of(session, out, d, mode_of(session, with, s));
    }
    free(workers);
    return GP_OK;
}

static gp_status cost_by_time(const gp_session *session, const gp_balancing_choice *with, gp_balancing_costs *out,
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

static gp_status cost_by_size(const gp_session *session, const gp_balancing_choice *with, gp_balancing_costs *out,
                              gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&out->layers, session->graph->layer_count, err));
    for (int w = 0; w < session->config->pipeline.device_count; w++) out->devices[w].layers = out->layers;
    return gp_cost_by_size(session->graph, with->samples, session->update.states, out->layers, err);
}

gp_status gp_balancing_costs_init(gp_balancing_costs *costs, const gp_session *session, const gp_balancing_choice *with,
                                  gp_error *err) {
    *costs = (gp_balancing_costs){0};
    gp_status status = GP_NEW(&costs->devices, session->config->pipeline.device_count, err);
    if (status == GP_OK)
        status = with->by_size ? cost_by_size(session, with, costs, err) : cost_by_time(session, with, costs, err);
    if (status != GP_OK) gp_balancing_costs_fini(costs);
    return status;
}

void gp_balancing_costs_fini(gp_balancing_costs *costs) {
    free(costs->devices);
    free(costs->stage_layers);
    free(costs->layers);
    *costs = (gp_balancing_costs){0};
}

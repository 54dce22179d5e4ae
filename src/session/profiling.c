/* Where a session's times come from: a profile named, kept, measured or scaled, or rates to count with. */
#include "session/session_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/machine_processors.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/text_stream.h"
#include "profile/profile_file.h"
#include "profile/profile_kept.h"
#include "profile/profile_words.h"
#include "profile/rounds.h"
#include "session/balancing.h"
#include "session/devices.h"
#include "session/linking.h"
#include "session/profiling_internal.h"

/* Before a run, profiling takes these seconds at most; if its share of the run is less than the least, there is nothing
 * to gain. */
static const double least_seconds = 0.5, most_seconds = 10;

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
static gp_status find_company(gp_profile_search *s, gp_error *err) {
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

static int count_on_host(const gp_profile_search *s) {
    int on_host = s->company_count;
    for (int d = 0; d < s->count; d++) on_host += s->devices[d].kind->on_host;
    return on_host;
}

static gp_status begin(gp_profile_search *s, gp_error *err) {
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
                                       .samples = gp_session_share(session),
                                       .together = s->at_once || count_on_host(s) == 0 ? count_on_host(s) : 1};
    GP_RETURN_IF_FAILED(gp_profile_identify(&s->request, &s->now, err));
    return gp_profile_path("profiles", &s->now, s->devices, s->count, &s->path, err);
}

/* A profile that the user names is used, also of another machine: that is how plans for other machines are made. */
static gp_status take_named(gp_profile_search *s, gp_error *err) {
    gp_profile *profile = NULL;
    char *difference = NULL;
    GP_RETURN_IF_FAILED(gp_profile_read(s->options->profile, &profile, err));
    gp_status status = gp_profile_check(profile, s->session->graph, &s->now, s->devices, s->count, err);
    if (status == GP_OK) status = gp_profile_describe_difference(&profile->identity, &s->now, &difference, err);
    if (status != GP_OK) {
        gp_profile_destroy(&profile);
        return status;
    }
    profile->named = true;
    s->session->profile = profile;
    s->session->profile_difference = difference;
    return GP_OK;
}

static gp_status find_seconds(gp_profile_search *s, gp_error *err) {
    s->seconds = s->options->seconds;
    if (s->seconds > 0) return GP_OK;
    GP_RETURN_IF_FAILED(gp_counting_share_of_run(s->session, &s->seconds, err));
    s->seconds = s->seconds < least_seconds ? 0 : s->seconds > most_seconds ? most_seconds : s->seconds;
    return GP_OK;
}

/* Of what one host device may take where it does not say. */
static size_t memory_at_a_time(const gp_profile_search *s) {
    int on_host = count_on_host(s);
    size_t left = gp_machine_memory_free();
    return on_host && left < SIZE_MAX ? left / 2 / (size_t)on_host + 1 : 0;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void tell_progress(void *context, double seconds, int rounds) {
    gp_profile_search *s = context;
    if (!s->timing && (s->seconds >= 1 || s->ticker.terminal)) /* in a pipe a short measurement needs no line */
        gp_ticker_say(&s->ticker, "timing %s: at most %.0f s", s->what, s->seconds);
    s->timing = true;
    if (!gp_ticker_is_due(&s->ticker)) return;
    gp_ticker_say(&s->ticker, "timing %s: round %d, %.0f s of at most %.0f s%s", s->what, rounds + 1, seconds,
                  s->seconds,
                  seconds <= s->seconds            ? ""
                  : rounds < GP_MEASURE_FEW_ROUNDS ? "; few rounds were timed, so that it takes longer"
                                                   : "; a time stands out, so that it takes longer");
}

/* "71 layers on cpu and cpu, 2 threads, micro-batches of 8 samples" */
static gp_status describe(gp_profile_search *s, gp_error *err) {
    int layers = s->session->graph->layer_count;
    gp_text_stream stream;
    char text[48];
    free(s->what);
    s->what = NULL;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "what is timed", err));
    fprintf(stream.file, "%d layer%s on ", layers, layers == 1 ? "" : "s");
    for (int d = 0; d < s->count; d++) {
        const gp_device_spec *spec = &s->devices[d];
        fprintf(stream.file, "%s%s", d ? " and " : "",
                gp_device_text(text, spec->kind->name, spec->index, spec->threads));
    }
    fprintf(stream.file, ", micro-batches of %" PRId64 " sample%s", s->request.samples,
            s->request.samples == 1 ? "" : "s");
    return gp_text_end(&stream, GP_OK, &s->what, err);
}

static gp_status measure(gp_profile_search *s, gp_error *err) {
    gp_session *session = s->session;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    double micro_batches = pipeline->micro_batches;
    double recomputes = 0; /* mean of the stages */
    for (int i = 0; i < pipeline->stages; i++)
        recomputes +=
            gp_balancing_recomputes(gp_pipeline_checkpoint(pipeline, i), pipeline->micro_batches) / pipeline->stages;
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
                                        .seconds = s->seconds,
                                        .memory = memory_at_a_time(s),
                                        .watch = {tell_progress, s}};
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

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* NULL: no links are measured. */
static const gp_helpers *find_helpers(const gp_profile_search *s) {
    return gp_links_are_of_hosts(s->devices, s->count) ? s->options->helpers : NULL;
}

/* Between the processes of this launch there is a kind of link that the session's profile lacks. */
static bool lacks_links(const gp_profile_search *s) {
    const gp_helpers *helpers = find_helpers(s);
    bool lacks = false;
    for (int k = 0; k < GP_LINK_KINDS && helpers; k++)
        lacks = lacks || (helpers->has[k] && !s->session->profile->links[k].known);
    return lacks;
}

static void add_links_of(const gp_profile_link from[GP_LINK_KINDS], gp_profile *to) {
    for (int k = 0; k < GP_LINK_KINDS; k++)
        if (from[k].known) to->links[k] = from[k];
}

/* Into the session's profile. A kind that is not measured now stays as it is. */
static gp_status measure_links(gp_profile_search *s, gp_error *err) {
    const gp_helpers *helpers = find_helpers(s);
    gp_profile *profile = s->session->profile;
    gp_profile_link found[GP_LINK_KINDS] = {{0}};
    if (!helpers) return GP_OK;
    GP_RETURN_IF_FAILED(helpers->measure(helpers->context, found, err));
    add_links_of(found, profile);
    gp_profile_round(profile);
    return GP_OK;
}

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

/* A cache that cannot be written loses time, and nothing else. */
static gp_status keep(gp_profile_search *s, gp_error *err) {
    gp_error ignored = {0};
    const char *path = s->options->profile_out ? s->options->profile_out : s->path;
    if (s->options->profile_out) GP_RETURN_IF_FAILED(gp_profile_write(s->session->profile, path, err));
    if (!s->options->profile_out && (!path || gp_profile_keep(s->session->profile, path, &ignored) != GP_OK))
        return GP_OK;
    char *own = NULL;
    GP_RETURN_IF_FAILED(gp_copy_text(&own, path, err));
    free(s->session->profile->path);
    s->session->profile->path = own;
    return GP_OK;
}

static gp_status measure_and_tell(gp_profile_search *s, gp_error *err) {
    GP_RETURN_IF_FAILED(describe(s, err));
    gp_status status = measure(s, err);
    gp_ticker_end(&s->ticker);
    return status;
}

/* `kept`: NULL: none; it stays if measuring fails. */
static gp_status measure_and_keep(gp_profile_search *s, gp_profile *kept, gp_error *err) {
    gp_session *session = s->session;
    session->profile = NULL;
    gp_status status = measure_and_tell(s, err);
    if (status == GP_OK && kept) add_links_of(kept->links, session->profile);
    if (status == GP_OK) status = measure_links(s, err);
    if (status == GP_OK) {
        gp_profile_destroy(&kept);
        return keep(s, err);
    }
    gp_profile_destroy(&session->profile);
    session->profile = kept;
    return status;
}

/* Only the links of the kept profile are measured. */
static gp_status add_links(gp_profile_search *s, gp_error *err) {
    GP_RETURN_IF_FAILED(measure_links(s, err));
    return keep(s, err);
}

static bool is_spoilt(const gp_profile *kept) {
    return kept && gp_profile_is_spoilt(kept, (int64_t)time(NULL));
}

static gp_status measure_spoilt(gp_profile_search *s, gp_profile *kept, gp_error *err) {
    char how[GP_DISTURBANCE_TEXT];
    if (s->options->notice)
        gp_print(s->options->notice,
                 "other programs disturbed the profile %s when it was measured (%s): it is "
                 "measured again\n",
                 kept->path, gp_profile_disturbance(how, kept));
    return measure_and_keep(s, kept, err);
}

/* A profile that nothing may use, and that is not measured again now. */
static void set_aside(gp_profile_search *s) {
    if (!is_spoilt(s->session->profile)) return;
    (void)gp_profile_disturbance(s->set_aside, s->session->profile);
    gp_profile_destroy(&s->session->profile);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Nothing is to be chosen on one stage, or where every layer is one, or where every stage's first is named; a run
 * without steps has no time to save. */
static bool is_worth_measuring(const gp_session *session, const gp_session_options *options) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    if (options->profiling != GP_PROFILING_MEASURE || options->balances) return options->balances;
    return pipeline->balance == GP_BALANCE_AUTO && pipeline->first_count < pipeline->stages - 1 &&
           session->graph->layer_count > pipeline->stages && session->steps > 0;
}

static gp_status measure_what_lacks(gp_profile_search *s, gp_error *err) {
    gp_profile *kept = s->session->profile;
    if (is_spoilt(kept)) return measure_spoilt(s, kept, err);
    if (!kept) return measure_and_keep(s, kept, err);
    return lacks_links(s) ? add_links(s, err) : GP_OK;
}

static gp_status find_profile(gp_profile_search *s, gp_error *err) {
    gp_session *session = s->session;
    if (!s->options->again)
        GP_RETURN_IF_FAILED(
            gp_profile_find_kept(s->path, &s->now, session->graph, s->devices, s->count, &session->profile, err));
    bool worth = is_worth_measuring(session, s->options);
    if (worth) GP_RETURN_IF_FAILED(find_seconds(s, err));
    if (worth && s->seconds > 0) GP_RETURN_IF_FAILED(measure_what_lacks(s, err));
    set_aside(s);
    if (session->profile) return GP_OK;
    return gp_profile_find_near(s->path, &s->now, session->graph, s->devices, s->count, &session->profile, err);
}

static gp_status find(gp_profile_search *s, gp_error *err) {
    GP_RETURN_IF_FAILED(begin(s, err));
    if (s->options->profile) return take_named(s, err);
    GP_RETURN_IF_FAILED(find_profile(s, err));
    return gp_counting_find_rates(s, err);
}

gp_status gp_profiling_find(gp_session *session, gp_error *err) {
    const gp_session_options *options = &session->options;
    gp_profile_search s = {.session = session, .options = options, .ticker = gp_ticker_on(options->notice)};
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
    free(s.what);
    return status;
}

/* Rates that a session counts costs with: kept ones, or measured now if it is worth it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "profile/cost.h"
#include "profile/rates_measure.h"
#include "session/devices.h"
#include "session/profiling_internal.h"

/* Of the time that a run should take, measuring may take this share. */
static const double share_of_run = 0.05;

gp_status gp_counting_share_of_run(const gp_session *session, double *out, gp_error *err) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int layers = session->graph->layer_count;
    int64_t *cost = NULL;
    double micro_batch = 0; /* seconds */
    GP_RETURN_IF_FAILED(GP_NEW(&cost, layers, err));
    const gp_cost_request request = gp_cost_assumed(session->graph, gp_session_piece(session));
    gp_status status = gp_cost_by_time(&request, cost, err);
    for (int i = 0; i < layers && status == GP_OK; i++) micro_batch += (double)cost[i] * 1e-12;
    free(cost);
    *out = share_of_run * micro_batch * pipeline->micro_batches * (double)session->steps / pipeline->device_count;
    return status;
}

/* Rates that are older are measured again when a profile is taken. */
enum { RATES_LAST = 3600 };

static gp_status rates_are_worth_it(const gp_profile_search *s, int missing, bool *out, gp_error *err) {
    double seconds = 0;
    *out = s->options->balances;
    if (*out || s->options->profiling != GP_PROFILING_MEASURE || s->session->steps == 0) return GP_OK;
    GP_RETURN_IF_FAILED(gp_counting_share_of_run(s->session, &seconds, err));
    *out = seconds >= GP_RATES_SECONDS * missing;
    return GP_OK;
}

/* Before every run that shows a prediction there is time for brief ones, on the host. */
static bool brief_ones_are_worth_it(const gp_profile_search *s, const gp_device_spec *spec) {
    return s->options->profiling == GP_PROFILING_MEASURE && s->session->steps > 0 && spec->kind->on_host &&
           gp_profile_is_counted(s->session->profile);
}

/* Without rates, plans assume some: a device that cannot be measured does not fail the session. */
static gp_status measure_rates(gp_profile_search *s, const gp_device_spec *spec, bool brief, gp_rates *rates,
                               bool *measured, gp_error *err) {
    gp_error why = {0};
    char text[48];
    double share = share_of_run * s->options->seconds;
    double seconds = share > 0 && share < GP_RATES_SECONDS ? share : GP_RATES_SECONDS;
    if (brief) seconds = GP_RATES_BRIEF_SECONDS;
    if (s->ticker.terminal && !brief)
        gp_ticker_say(&s->ticker, "measuring the rates of %s, once for this machine: about a second",
                      gp_device_text(text, spec->kind->name, spec->index, spec->threads));
    gp_status status = gp_rates_measure(spec, brief, seconds, NULL, rates, &why);
    if (status == GP_OK) *measured = true;
    gp_ticker_end(&s->ticker);
    return status == GP_MEMORY ? gp_fail(err, status, "%s", why.text) : GP_OK;
}

/* A session that has just measured a profile takes no old rates. */
static gp_status find_rates(gp_profile_search *s, int d, gp_rates *rates, bool *found, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_rates_find(&s->devices[d], rates, found, err));
    int64_t age = (int64_t)time(NULL) - rates->taken;
    if (s->session->measured.rounds > 0 && (age < 0 || age > RATES_LAST)) *found = false;
    return GP_OK;
}

/* Rows keep the rates that are assumed, if none are found or measured. */
static gp_status fill_rates(gp_profile_search *s, gp_profile *counted, bool *any, gp_error *err) {
    bool *found = NULL, worth = false;
    int missing = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&found, s->count, err));
    gp_status status = GP_OK;
    for (int d = 0; d < s->count && status == GP_OK; d++) {
        status = find_rates(s, d, &counted->devices[d].rates, &found[d], err);
        missing += !found[d] || counted->devices[d].rates.brief;
    }
    if (status == GP_OK) status = rates_are_worth_it(s, missing, &worth, err);
    for (int d = 0; d < s->count && status == GP_OK; d++) {
        gp_rates *rates = &counted->devices[d].rates;
        bool whole = worth && (!found[d] || rates->brief);
        if (whole || (!found[d] && brief_ones_are_worth_it(s, &s->devices[d])))
            status = measure_rates(s, &s->devices[d], !whole, rates, &found[d], err);
        *any = *any || found[d];
    }
    free(found);
    return status;
}

gp_status gp_counting_find_rates(gp_profile_search *s, gp_error *err) {
    gp_session *session = s->session;
    gp_profile *counted = NULL;
    bool any = false;
    if (session->profile && s->options->profiling == GP_PROFILING_FIND) return GP_OK;
    GP_RETURN_IF_FAILED(gp_profile_create_counted(s->devices, s->count, &counted, err));
    gp_status status = fill_rates(s, counted, &any, err);
    if (status == GP_OK) memcpy(counted->set_aside, s->set_aside, sizeof s->set_aside);
    if (status == GP_OK && (any || s->set_aside[0]) && !session->profile)
        session->profile = counted;
    else
        gp_profile_destroy(&counted);
    return status;
}

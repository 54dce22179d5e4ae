#include "train/tracing.h"

#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/timeline.h"

struct gp_tracing {
    gp_trace_options options;
    const gp_plan *plan;
    gp_chrome *chrome; /* NULL: written */
    gp_recorder *recorder;
    bool recording;      /* the mini-batch that runs */
    int64_t evaluations; /* mini-batches recorded */
    gp_error failed;     /* what went wrong with the file */
};

gp_status gp_tracing_open(const gp_trace_options *options, const gp_plan *plan, gp_tracing **out, gp_error *err) {
    gp_tracing *tracing = NULL;
    *out = NULL;
    if (!options->path) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&tracing, 1, err));
    tracing->options = *options;
    tracing->plan = plan;
    gp_status status = gp_recorder_create(plan->workers, &tracing->recorder, err);
    if (status == GP_OK) status = gp_chrome_open(options->path, &tracing->chrome, err);
    if (status != GP_OK) {
        gp_recorder_destroy(&tracing->recorder);
        free(tracing);
        return status;
    }
    *out = tracing;
    return GP_OK;
}

static void write_file(gp_tracing *tracing) {
    gp_error later = {0};
    gp_status status = gp_timeline_write(tracing->plan, tracing->recorder, tracing->chrome, &tracing->failed);
    gp_status closed = gp_chrome_close(&tracing->chrome, status == GP_OK ? &tracing->failed : &later);
    tracing->failed.status = status == GP_OK ? closed : status;
    gp_recorder_destroy(&tracing->recorder);
}

bool gp_tracing_records(const gp_tracing *tracing, int64_t step) {
    return tracing && tracing->chrome && step >= tracing->options.first && step <= tracing->options.last;
}

static bool wanted(gp_tracing *tracing, int mini, int64_t step) {
    const gp_trace_options *options = &tracing->options;
    if (tracing->plan->minis[mini].training) return gp_tracing_records(tracing, step);
    if (!tracing->chrome || step > options->last) return false;
    /* A run that only evaluates is at step 0. */
    bool follows = step >= options->first || (step == 0 && options->first == 1);
    return follows && tracing->evaluations++ <= options->last - options->first;
}

gp_status gp_tracing_before(gp_tracing *tracing, gp_run *run, int mini, int64_t step, gp_error *err) {
    if (!tracing || !wanted(tracing, mini, step)) return GP_OK;
    for (int w = 0; w < tracing->plan->workers; w++)
        GP_RETURN_IF_FAILED(
            gp_lane_reserve(&tracing->recorder->lanes[w], tracing->plan->minis[mini].programs->worker[w].count, err));
    gp_run_record(run, tracing->recorder);
    tracing->recording = true;
    return GP_OK;
}

gp_recorder *gp_tracing_recorder(const gp_tracing *tracing) {
    return tracing && tracing->recording ? tracing->recorder : NULL;
}

/* The evaluation that follows the last step is part of the timeline: the file is written by the step after it. */
void gp_tracing_after(gp_tracing *tracing, gp_run *run, int64_t step) {
    if (!tracing || !tracing->chrome) return;
    gp_run_record(run, NULL);
    tracing->recording = false;
    if (step > tracing->options.last) write_file(tracing);
}

gp_status gp_tracing_close(gp_tracing **tracing, gp_error *err) {
    gp_tracing *it = *tracing;
    if (!it) return GP_OK;
    if (it->chrome) write_file(it);
    gp_status status = it->failed.status;
    if (status != GP_OK) *err = it->failed;
    free(it);
    *tracing = NULL;
    return status;
}

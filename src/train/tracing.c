#include "train/tracing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "timeline/timeline.h"
#include "timeline/steps.h"
#include "plan/layer_ticks.h"
#include "report/plan_json.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

enum { TEXT = 128, SHORT_WAIT = 1000 /* nanoseconds: a mini-batch that is there is taken in less */ };

struct gp_tracing {
    gp_trace_options options;
    const gp_session *session;
    const gp_plan *plan;   /* of the session */
    gp_chrome *chrome;     /* NULL: written */
    gp_recorder *recorder; /* a lane for each worker, and one more for the waits for data */
    gp_lane *waits;        /* that lane: from `issued` to `ended`; group 1: for a training step, 0: for an evaluation */
    gp_loader *training, *evaluation; /* NULL: none */
    gp_tracing_steps steps;
    bool taking;          /* the take that is under way is recorded */
    bool recording;       /* the mini-batch that runs */
    int64_t mini_batches; /* recorded */
    int64_t evaluations;  /* of them, of evaluations */
    gp_error failed;      /* what went wrong with the file */
};

gp_status gp_tracing_open(const gp_trace_options *options, const gp_session *session, gp_tracing **out, gp_error *err) {
    gp_tracing *tracing = NULL;
    *out = NULL;
    if (!options->path) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&tracing, 1, err));
    tracing->options = *options;
    tracing->session = session;
    tracing->plan = session->plan;
    gp_status status = gp_recorder_create(tracing->plan->workers + 1, &tracing->recorder, err);
    if (status == GP_OK && options->layers) status = gp_recorder_add_ticks(tracing->recorder, err);
    if (status == GP_OK) status = gp_chrome_open(options->path, &tracing->chrome, err);
    if (status != GP_OK) {
        gp_recorder_destroy(&tracing->recorder);
        free(tracing);
        return status;
    }
    tracing->waits = &tracing->recorder->lanes[tracing->plan->workers];
    *out = tracing;
    return GP_OK;
}

void gp_tracing_loaders(gp_tracing *tracing, gp_loader *training, gp_loader *evaluation) {
    if (!tracing) return;
    tracing->training = training;
    tracing->evaluation = evaluation;
}

/* ---- how data came: tracks for the waits of the pipeline, and for each thread of the loaders ----------------------
 */

static uint64_t first_read(const gp_loader *loader) {
    uint64_t first = UINT64_MAX;
    for (int i = 0; loader && i < gp_loader_threads(loader); i++) {
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, i, &count);
        if (count > 0 && spans[0].started < first) first = spans[0].started;
    }
    return first;
}

/* The earliest time that the tracks show (gp_clock); UINT64_MAX: they show nothing. */
static uint64_t first_time(const gp_tracing *tracing) {
    uint64_t first = tracing->waits->count > 0 ? tracing->waits->spans[0].issued : UINT64_MAX;
    uint64_t training = first_read(tracing->training), evaluation = first_read(tracing->evaluation);
    if (training < first) first = training;
    return evaluation < first ? evaluation : first;
}

static void write_waits(const gp_tracing *tracing, int track, gp_chrome *chrome) {
    gp_chrome_name_track(chrome, track, track, "pipeline: waits for data");
    for (size_t i = 0; i < tracing->waits->count; i++) {
        const gp_span *span = &tracing->waits->spans[i];
        char args[TEXT];
        if (span->ended - span->issued <= SHORT_WAIT) continue;
        snprintf(args, sizeof args, "\"step\":%" PRIu32 ",\"pass\":\"%s\"", span->step,
                 span->group ? "training" : "evaluation");
        gp_chrome_span(chrome, track, "wait", "wait for data", span->issued, span->ended, args);
    }
}

static void write_span(const gp_loader_span *span, const char *pass, int track, gp_chrome *chrome) {
    char name[TEXT], args[TEXT];
    snprintf(name, sizeof name, "read mini-batch %" PRId64, span->index + 1);
    snprintf(args, sizeof args, "\"pass\":\"%s\",\"epoch\":%" PRId64 ",\"mini_batch\":%" PRId64 ",\"samples\":%" PRId64,
             pass, span->epoch, span->index + 1, span->samples);
    gp_chrome_span(chrome, track, "data", name, span->started, span->ended, args);
}

/* The first track that is free afterwards. */
static int write_loader(const gp_loader *loader, const char *pass, int track, gp_chrome *chrome) {
    for (int i = 0; loader && i < gp_loader_threads(loader); i++) {
        char name[TEXT];
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, i, &count);
        if (gp_loader_threads(loader) == 1)
            snprintf(name, sizeof name, "loader (%s)", pass);
        else
            snprintf(name, sizeof name, "loader (%s), thread %d", pass, i);
        gp_chrome_name_track(chrome, track, track, name);
        for (size_t s = 0; s < count; s++) write_span(&spans[s], pass, track, chrome);
        track++;
    }
    return track;
}

static void write_tracks(const gp_tracing *tracing, int track, gp_chrome *chrome) {
    write_waits(tracing, track++, chrome);
    track = write_loader(tracing->training, "training", track, chrome);
    write_loader(tracing->evaluation, "evaluation", track, chrome);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void write_file(gp_tracing *tracing) {
    gp_error later = {0};
    if (tracing->training) gp_loader_record(tracing->training, false);
    if (tracing->evaluation) gp_loader_record(tracing->evaluation, false);
    gp_status status =
        gp_timeline_write(tracing->plan, tracing->recorder, first_time(tracing), tracing->chrome, &tracing->failed);
    int next = gp_timeline_next_track(tracing->plan);
    if (status == GP_OK)
        status = gp_tracing_steps_write(&tracing->steps, tracing->plan, tracing->recorder, next, tracing->chrome,
                                        &tracing->failed);
    write_tracks(tracing, next + 1, tracing->chrome);
    const gp_plan_json json = gp_plan_json_of(tracing->session);
    if (status == GP_OK) status = gp_plan_json_write(&json, gp_chrome_data(tracing->chrome, "plan"), &tracing->failed);
    gp_status closed = gp_chrome_close(&tracing->chrome, status == GP_OK ? &tracing->failed : &later);
    tracing->failed.status = status == GP_OK ? closed : status;
    gp_recorder_destroy(&tracing->recorder);
    gp_tracing_steps_fini(&tracing->steps);
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

bool gp_tracing_is_empty(const gp_tracing *tracing) {
    return tracing && tracing->mini_batches == 0;
}

bool gp_tracing_records(const gp_tracing *tracing, int64_t step) {
    return tracing && tracing->chrome && step >= tracing->options.first && step <= tracing->options.last;
}

static bool wanted(const gp_tracing *tracing, bool training, int64_t step) {
    const gp_trace_options *options = &tracing->options;
    if (training) return gp_tracing_records(tracing, step);
    if (!tracing->chrome || step > options->last) return false;
    /* A run that only evaluates is at step 0. */
    bool follows = step >= options->first || (step == 0 && options->first == 1);
    return follows && tracing->evaluations <= options->last - options->first;
}

void gp_tracing_before_evaluation(gp_tracing *tracing, int64_t step) {
    if (tracing && tracing->chrome) gp_loader_record(tracing->evaluation, wanted(tracing, false, step));
}

/* The loaders record while the trainer works on mini-batches of the timeline. */
gp_status gp_tracing_before_take(gp_tracing *tracing, bool training, int64_t step, gp_error *err) {
    if (!tracing || !tracing->chrome) return GP_OK;
    gp_loader *loader = training ? tracing->training : tracing->evaluation;
    tracing->taking = wanted(tracing, training, step);
    if (loader) gp_loader_record(loader, tracing->taking);
    return tracing->taking ? gp_lane_reserve(tracing->waits, 1, err) : GP_OK;
}

void gp_tracing_after_take(gp_tracing *tracing, bool training, int64_t step, uint64_t began, uint64_t ended) {
    if (!tracing || !tracing->taking) return;
    tracing->taking = false;
    gp_lane_add(
        tracing->waits,
        (gp_span){.issued = began, .started = ended, .ended = ended, .step = (uint32_t)step, .group = training});
}

static gp_status reserve(gp_tracing *tracing, const gp_mini_plan *mini, int worker, gp_error *err) {
    gp_recorder *recorder = tracing->recorder;
    GP_RETURN_IF_FAILED(gp_lane_reserve(&recorder->lanes[worker], mini->programs->worker[worker].count, err));
    if (!recorder->ticks) return GP_OK;
    return gp_ticks_reserve(&recorder->ticks[worker], gp_mini_ticks(tracing->plan, mini, worker), err);
}

gp_status gp_tracing_before(gp_tracing *tracing, gp_run *run, int mini, int64_t step, gp_error *err) {
    if (!tracing || !wanted(tracing, tracing->plan->minis[mini].training, step)) return GP_OK;
    const gp_mini_plan *its = &tracing->plan->minis[mini];
    tracing->mini_batches++;
    tracing->evaluations += !its->training;
    GP_RETURN_IF_FAILED(gp_tracing_steps_add(&tracing->steps, its->training, step, its->samples, err));
    for (int w = 0; w < tracing->plan->workers; w++) GP_RETURN_IF_FAILED(reserve(tracing, its, w, err));
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

void gp_tracing_result(gp_tracing *tracing, bool training, int64_t step, int64_t epoch, double loss) {
    if (tracing && tracing->chrome) gp_tracing_steps_end(&tracing->steps, training, step, epoch, loss);
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

/* The trainer's steps. Where the plan has it so, one is begun behind the one before, which is still under way on its
 * devices: what that one came to is read, and said, a step late. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/diagnose.h"
#include "train/norms.h"
#include "train/trainer_internal.h"

static bool norms_are_due(const gp_trainer *t, int64_t step) {
    if (t->options->verbosity != GP_VERBOSE || !t->session->options.norms) return false;
    return step == 1 || step == t->session->steps ||
           gp_time_is_due(t->session->config->train.eval_every, t->length, step);
}

/* ---- what a step came to ----------------------------------------------------------------------------------------- */

/* The step that is under way was begun behind one that is not finite, and changes nothing. */
static gp_status drop_step(gp_trainer *t, gp_error *err) {
    gp_step_result ignored;
    t->under_way.step = 0;
    return gp_run_end(t->run, &ignored, err);
}

const char *gp_trainer_origin(char buffer[GP_ORIGIN_TEXT], const gp_trainer *t, const gp_loader *loader,
                              const gp_batch *batch, int mini, const gp_finding *finding) {
    char flaw[GP_FLAW_TEXT] = "";
    gp_error ignored = {0};
    buffer[0] = '\0';
    if (!finding->found) return buffer;
    gp_finding_text(buffer, t->session->plan, mini, finding);
    if (finding->role.role != GP_ROLE_INPUT) return buffer; /* only values of the data are looked at as inputs */
    bool target = finding->role.index == GP_VALUE_TARGET;
    if (gp_loader_explain(loader, batch, target, flaw, &ignored) != GP_OK || !flaw[0]) return buffer;
    size_t used = strlen(buffer);
    snprintf(buffer + used, GP_ORIGIN_TEXT - used, "; %s", flaw);
    return buffer;
}

/* The sentence goes on with the tensor where it began, which a second pass names. */
static gp_status refuse_step(gp_trainer *t, const gp_trainer_work *work, const gp_step_record *record, gp_error *err) {
    bool loss = !isfinite(record->loss);
    gp_finding finding = {0};
    gp_error failure = {0};
    gp_status second = GP_OK;
    char text[GP_ORIGIN_TEXT] = "";
    if (t->under_way.step > 0) second = drop_step(t, &failure);
    if (second == GP_OK) second = gp_run_diagnose(t->run, work->mini, &work->input, &finding, &failure);
    if (second == GP_OK) gp_trainer_origin(text, t, t->training, &work->batch, work->mini, &finding);
    bool data = finding.found && finding.role.role == GP_ROLE_INPUT;
    return gp_fail(err, GP_NUMERIC,
                   "step %" PRId64 ": the %s is %s: the update was not applied, and the run stops%s%s%s", record->step,
                   loss ? "loss" : "norm of the gradients",
                   isnan(loss ? record->loss : record->grad_norm) ? "not a number" : "infinite",
                   data ? "" : "; a lower learning rate or a warm-up may help",
                   second != GP_OK ? "; a second pass, to find where it began, failed: "
                   : *text         ? "; first not finite: "
                                   : "",
                   second != GP_OK ? failure.text : text);
}

/* From when it began, or the one before it had ended, until now that it has. */
static double take_seconds(gp_trainer *t, const gp_trainer_work *work) {
    double now = gp_now(), began = work->began > t->ended ? work->began : t->ended;
    t->ended = now;
    return now - began;
}

static gp_status settle(gp_trainer *t, const gp_trainer_work *work, const gp_step_result *result, double seconds,
                        gp_error *err) {
    gp_step_record record = {.step = work->step,
                             .epoch = work->batch.epoch,
                             .loss = result->loss_sum / work->input.divisor,
                             .rate = work->input.rate,
                             .accuracy =
                                 t->session->spec.classes > 0 ? result->right / work->input.divisor : (double)NAN,
                             .samples = work->batch.samples,
                             .seconds = seconds,
                             .data_seconds = work->data_seconds,
                             .normed = t->session->options.norms || t->session->config->optimizer.clip_norm > 0,
                             .grad_norm = result->grad_norm};
    gp_first_step_end(&t->progress.watch);
    gp_tracing_result(t->tracing, true, record.step, record.epoch, record.loss);
    t->reached.epoch = work->batch.epoch;
    if (result->finite) {
        t->reached.step = work->step;
        t->reached.loss = record.loss;
    }
    GP_RETURN_IF_FAILED(gp_metrics_step(t->metrics, &record, err));
    if (!result->finite) return refuse_step(t, work, &record, err);
    t->reached.metrics_bytes = gp_metrics_bytes(t->metrics);
    gp_account_add(t->account, seconds, work->data_seconds);
    gp_progress_step(&t->progress, &record);
    if (!norms_are_due(t, t->reached.step)) return GP_OK;
    return gp_norms_print(&t->progress, t->run, t->session->plan, t->reached.step, err);
}

/* ---- one behind the other ---------------------------------------------------------------------------------------- */

static bool is_recorded(const gp_trainer *t, int mini, int64_t step) {
    int64_t more = t->under_way.step > 0 && t->under_way.mini == mini;
    return gp_tracing_records(t->tracing, step) || gp_capture_has(&t->capture, step) ||
           gp_account_records(t->account, mini, more);
}

/* The workers have ended: no step is under way. What fails on a device comes out later: it may have been the step
 * behind. */
static gp_status name_steps(gp_trainer *t, int64_t step, int64_t behind, gp_error *err) {
    t->under_way.step = 0;
    if (behind == 0 || err->status != GP_DEVICE) return gp_error_context(err, "step %" PRId64 ": ", step);
    return gp_error_context(err, "step %" PRId64 " or %" PRId64 ": ", step, behind);
}

static gp_status end_work(gp_trainer *t, const gp_trainer_work *work, gp_error *err) {
    gp_step_result result;
    if (gp_run_end(t->run, &result, err) != GP_OK) return name_steps(t, work->step, t->under_way.step, err);
    double seconds = take_seconds(t, work);
    gp_account_after(t->account, t->run, work->mini, seconds);
    gp_tracing_after(t->tracing, t->run, work->step);
    return settle(t, work, &result, seconds, err);
}

static gp_status end_step(gp_trainer *t, gp_error *err) {
    const gp_trainer_work work = t->under_way;
    t->under_way.step = 0;
    return end_work(t, &work, err);
}

gp_status gp_trainer_abandon(gp_trainer *t, gp_error *err) {
    gp_error first = {0};
    if (t->under_way.step > 0 && end_step(t, &first) != GP_OK) *err = first;
    return err->status;
}

/* An evaluation or a snapshot needs the state after this step. */
static bool is_waited_for(const gp_trainer *t) {
    int64_t step = t->under_way.step;
    return step == gp_session_last(t->session) || step == t->session->steps || gp_trainer_stopping(t) ||
           gp_trainer_evaluates(t, step) || gp_trainer_saves(t, step) || norms_are_due(t, step);
}

gp_status gp_trainer_catch_up(gp_trainer *t, gp_loader *loader, gp_error *err) {
    if (t->under_way.step == 0 || (gp_loader_ready(loader) && !is_waited_for(t))) return GP_OK;
    return end_step(t, err);
}

static gp_status run_alone(gp_trainer *t, const gp_trainer_work *work, gp_error *err) {
    gp_step_result result;
    if (gp_capture_before(&t->capture, t->session->plan, work->step, err) != GP_OK ||
        gp_trainer_batch(t, work->mini, &work->input, &result, err) != GP_OK ||
        gp_capture_after(&t->capture, t->session->plan, work->step, err) != GP_OK)
        return gp_error_context(err, "step %" PRId64 ": ", work->step);
    return settle(t, work, &result, take_seconds(t, work), err);
}

static gp_status begin_behind(gp_trainer *t, const gp_trainer_work *work, gp_error *err) {
    const gp_trainer_work before = t->under_way;
    if (gp_run_begin(t->run, work->mini, &work->input, err) != GP_OK) {
        bool either = before.step > 0 && err->status == GP_DEVICE;
        return name_steps(t, either ? before.step : work->step, either ? work->step : 0, err);
    }
    t->under_way = *work;
    return before.step > 0 ? end_work(t, &before, err) : GP_OK;
}

/* Schedules multiply: a gamma above 1 ends here. */
static gp_status check_rate(const gp_trainer_work *work, gp_error *err) {
    if (work->input.rate <= (double)FLT_MAX) return GP_OK;
    return gp_fail(err, GP_NUMERIC,
                   "step %" PRId64
                   ": the learning rate is %.4g, but the largest f32 number is 3.4e+38: the step was not run, and "
                   "the run stops; lower the optimizer's lr, or lr_schedule's gamma",
                   work->step, work->input.rate);
}

gp_status gp_trainer_step(gp_trainer *t, const gp_batch *batch, gp_error *err) {
    gp_trainer_work work = {.batch = *batch, .began = gp_now(), .data_seconds = t->data_seconds};
    work.step = t->reached.step + (t->under_way.step > 0) + 1;
    work.input = gp_trainer_input(t, batch, work.step);
    GP_RETURN_IF_FAILED(check_rate(&work, err));
    GP_RETURN_IF_FAILED(gp_session_find_mini(t->session, true, batch->samples, &work.mini, err));
    bool alone = !gp_plan_overlaps(t->session->plan, work.mini) || is_recorded(t, work.mini, work.step);
    if (t->under_way.step > 0 && (alone || work.mini != t->under_way.mini)) GP_RETURN_IF_FAILED(end_step(t, err));
    return alone ? run_alone(t, &work, err) : begin_behind(t, &work, err);
}

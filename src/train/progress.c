#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/finite.h"
#include "base/memory.h"
#include "base/printable.h"
#include "profile/profile_words.h"
#include "report/plan_report.h"
#include "report/warnings.h"
#include "report/workers_text.h"

enum { WARNING = 8000 };

const char *gp_loss_text(char buffer[GP_LOSS_TEXT], double loss) {
    const double least = 0.1, most = 1e6;
    if (!isfinite(loss)) /* a sign of nan means nothing */
        snprintf(buffer, GP_LOSS_TEXT, "%s", gp_finite_name(gp_finite_of(loss)));
    else if (fabs(loss) >= least && fabs(loss) < most)
        snprintf(buffer, GP_LOSS_TEXT, "%.4f", loss);
    else
        snprintf(buffer, GP_LOSS_TEXT, "%.4g", loss);
    return buffer;
}

static void end_line(gp_progress *progress) {
    gp_first_step_clear(progress->watch);
    gp_ticker_keep(&progress->ticker);
}

/* The profile that predictions stand on, with its age. If that cannot be said, the run goes on. */
static void print_source(const gp_session *session) {
    char *source = NULL, taking[GP_TAKING_TEXT];
    gp_error ignored = {0};
    if (gp_profile_is_counted(session->profile) || gp_profile_source(session->profile, &source, &ignored) != GP_OK)
        return;
    gp_print(stdout, "predicted times: %s; %s\n", source,
             gp_profile_taking(taking, session->profile, (int64_t)time(NULL)));
    free(source);
}

/* Of many processes the first few. */
static void print_processes(const gp_plan *plan, const gp_processes *processes) {
    enum { MOST = 8 };
    printf("%d processes, connected by %s\n", plan->processes, gp_processes_library());
    for (int p = 0; p < plan->processes && p < MOST; p++)
        printf("  process %d (host %s): worker%s %s\n", p, gp_processes_host(processes, p),
               gp_workers_count(plan, p) == 1 ? "" : "s", gp_workers_text(plan, p).text);
    if (plan->processes > MOST) printf("  …\n");
}

static void print_stages(const gp_session *session) {
    enum { MOST = 16 };
    const gp_stages *stages = session->plan->stages;
    const char *more = stages->numbers > MOST ? ", …" : "";
    printf("; %d stage%s [", stages->numbers, stages->numbers == 1 ? "" : "s");
    for (int n = 0; n < stages->numbers && n < MOST; n++) printf("%s%" PRId64, n ? ", " : "", session->layers[n]);
    printf("%s]", more);
    if (stages->count == stages->numbers) return;
    printf(", replicas [");
    for (int n = 0; n < stages->numbers && n < MOST; n++)
        printf("%s%d", n ? ", " : "", stages->stage[stages->first[n]].replicas);
    printf("%s]", more);
}

void gp_progress_start(gp_progress *progress, gp_verbosity verbosity, const gp_session *session,
                       const gp_processes *processes, const char *folder) {
    *progress = (gp_progress){
        .verbosity = verbosity, .ticker = gp_ticker_on(stdout), .steps = session->steps, .began = gp_now()};
    if (verbosity == GP_QUIET) return;
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    /* A mini-batch of fewer samples has fewer micro-batches than the configuration allows. */
    int micro_batches = session->plan->minis[gp_plan_largest_mini(session->plan)].pieces;
    size_t arena = 0;
    char bytes[32], checkpoint[GP_PLAN_CHECKPOINT_TEXT];
    for (int w = 0; w < session->plan->workers; w++)
        if (session->plan->arena[w] > arena) arena = session->plan->arena[w];
    int64_t frozen = gp_graph_frozen_elements(session->graph);
    printf("%d layers, %" PRId64 " parameters", session->graph->layer_count, gp_graph_param_elements(session->graph));
    if (frozen > 0) printf(", %" PRId64 " of them frozen", frozen);
    print_stages(session);
    printf(", schedule %s, %d micro-batch%s, checkpoint %s; at most %s per %s\n",
           gp_schedule_kind_name(pipeline->schedule.kind), micro_batches, micro_batches == 1 ? "" : "es",
           gp_plan_checkpoint_text(checkpoint, session->plan), gp_bytes_text(bytes, arena),
           pipeline->stages == session->plan->workers ? "stage" : "worker");
    if (processes) print_processes(session->plan, processes);
    print_source(session);
    gp_precision_advise(session, false, stdout);
    gp_normalize_warn(session, false, stdout);
    if (verbosity != GP_VERBOSE) { /* else the plan says it */
        gp_processors_warn(session->plan, false, stdout);
        gp_micro_batches_warn(session->plan, false, stdout);
        gp_rate_warn(session, false, stdout);
        gp_idle_warn(session->plan, false, stdout);
        gp_norm_warn(session->plan, false, stdout);
        gp_idle_process_warn(session->plan, false, stdout);
    }
    gp_print(stdout, "run folder: %s\n", folder);
    fflush(stdout);
}

void gp_progress_resume(gp_progress *progress, int64_t step, const char *path) {
    progress->from = step;
    if (progress->verbosity == GP_QUIET) return;
    end_line(progress);
    gp_print(stdout, "going on after step %" PRId64 ", from %s\n", step, path);
    fflush(stdout);
}

static void duration_text(char buffer[32], double seconds) {
    int64_t whole = (int64_t)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(buffer, 32, "%" PRId64 "h%02dm", whole / 3600, (int)(whole / 60 % 60));
    else
        snprintf(buffer, 32, "%dm%02ds", (int)(whole / 60), (int)(whole % 60));
}

void gp_progress_step(gp_progress *progress, const gp_step_record *record) {
    progress->samples += record->samples;
    if (progress->verbosity == GP_QUIET || !gp_ticker_is_due(&progress->ticker)) return;
    double now = gp_now(), rate = (double)progress->samples / (now - progress->ticker.said);
    char left[32], loss[GP_LOSS_TEXT], accuracy[32] = "";
    if (!isnan(record->accuracy)) snprintf(accuracy, sizeof accuracy, "  accuracy %.4f", record->accuracy);
    duration_text(left, (now - progress->began) / (double)(record->step - progress->from) *
                            (double)(progress->steps - record->step));
    gp_ticker_say(&progress->ticker,
                  "step %" PRId64 "/%" PRId64 "  epoch %" PRId64 "  loss %s%s  %.0f samples/s  %s left", record->step,
                  progress->steps, record->epoch, gp_loss_text(loss, record->loss), accuracy, rate, left);
    progress->samples = 0;
}

void gp_progress_eval(gp_progress *progress, const gp_eval_record *record) {
    char text[GP_LOSS_TEXT];
    if (progress->verbosity == GP_QUIET) return;
    gp_first_step_clear(progress->watch);
    gp_ticker_end(&progress->ticker);
    if (record->step > 0)
        printf("step %" PRId64 "/%" PRId64 "  epoch %" PRId64 "  ", record->step, progress->steps, record->epoch);
    printf("eval loss %s", gp_loss_text(text, record->loss));
    if (!isnan(record->accuracy)) printf("  accuracy %.4f", record->accuracy);
    printf("\n");
    fflush(stdout);
}

void gp_progress_warn(gp_progress *progress, const char *format, ...) {
    char text[WARNING];
    end_line(progress);
    fflush(stdout);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gp_print(stderr, "gpipe-train: warning: %s\n", text);
}

FILE *gp_progress_out(gp_progress *progress) {
    if (progress->verbosity == GP_QUIET) return NULL;
    end_line(progress);
    return stdout;
}

void gp_progress_line(gp_progress *progress, const char *format, ...) {
    if (progress->verbosity == GP_QUIET) return;
    end_line(progress);
    va_list args;
    va_start(args, format);
    gp_print_list(stdout, format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

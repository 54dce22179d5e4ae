#include "report/plan_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/printable.h"
#include "profile/profile_words.h"
#include "report/plan_report_parts.h"
#include "report/warnings.h"

int64_t gp_plan_stage_parameters(const gp_plan *plan, int s) {
    int64_t sum = 0, elements;
    for (int i = 0; i < plan->stage[s].param_count; i++) {
        const gp_param_plan *param = &plan->stage[s].params[i];
        if (!plan->graph->params[param->param].spec.buffer &&
            gp_shape_elements(plan->graph->params[param->param].spec.shape, &elements))
            sum += elements;
    }
    return sum;
}

static void find_extremes(gp_report *report) {
    const gp_plan *plan = report->plan;
    for (int s = 1; s < plan->stages->count; s++) {
        if (plan->arena[plan->stage[s].worker] > plan->arena[plan->stage[report->largest].worker]) report->largest = s;
        if (report->expected.busy[plan->stage[s].worker] > report->expected.busy[plan->stage[report->busiest].worker])
            report->busiest = s;
    }
}

/* All stages, or the first, the last and the extremes. */
static void choose_shown(gp_report *report) {
    int stages = report->plan->stages->count;
    for (int s = 0; s < stages; s++)
        if (stages <= GP_REPORT_ALL_STAGES || s <= 1 || s == stages - 1 || s == report->largest || s == report->busiest)
            report->shown[report->shown_count++] = s;
}

static void write_size(const gp_report *report, const gp_mini_plan *mini) {
    fprintf(report->out, "%-10s %s: ", mini->training ? "training" : "evaluation",
            gp_report_count(mini->samples, "sample").text);
    if (mini->last != mini->piece)
        fprintf(report->out, "%d micro-batch%s of %s, one of %s\n", mini->pieces - 1, mini->pieces == 2 ? "" : "es",
                gp_report_number(mini->piece).text, gp_report_number(mini->last).text);
    else
        fprintf(report->out, "%d micro-batch%s of %s\n", mini->pieces, mini->pieces == 1 ? "" : "es",
                gp_report_number(mini->piece).text);
}

/* The first few stages' numbers of replicas. */
static void write_replicas(const gp_report *report) {
    enum { MOST = 16 };
    const gp_stages *stages = report->plan->stages;
    if (stages->count == stages->numbers) return;
    fputs("replicas     of each stage: ", report->out);
    for (int n = 0; n < stages->numbers && n < MOST; n++)
        fprintf(report->out, "%s%d", n ? ", " : "", stages->stage[stages->first[n]].replicas);
    fprintf(report->out, "%s; below, each replica is a stage of its own\n", stages->numbers > MOST ? ", …" : "");
}

static void write_header(const gp_report *report) {
    const gp_plan *plan = report->plan;
    char checkpoint[GP_PLAN_CHECKPOINT_TEXT];
    int64_t frozen = gp_graph_frozen_elements(plan->graph);
    fprintf(report->out, "model        %s and %s, %s", gp_report_count(plan->graph->layer_count, "layer").text,
            plan->graph->nodes[plan->graph->node_count - 1].layer->type->name,
            gp_report_count(gp_graph_param_elements(plan->graph), "parameter").text);
    if (frozen > 0) fprintf(report->out, ", %s of them frozen,", gp_report_number(frozen).text);
    fprintf(report->out, " in %s\n", gp_dtype_name(plan->types.master));
    int kept = 0;
    for (int s = 0; s < plan->stages->count; s++) kept += plan->stage[s].kept;
    fprintf(report->out, "pipeline     %s, schedule %s, lockstep %s, checkpoint %s",
            gp_report_count(plan->stages->numbers, "stage").text, gp_schedule_kind_name(plan->schedule.kind),
            gp_plan_has_barriers(plan) ? "on" : "off", gp_plan_checkpoint_text(checkpoint, plan));
    if (kept) fprintf(report->out, ", %s kept", gp_report_count(kept, "output").text);
    fputs("\n", report->out);
    write_replicas(report);
    for (int m = 0; m < plan->mini_count; m++) {
        fputs(m ? "             " : "mini-batches ", report->out);
        write_size(report, &plan->minis[m]);
    }
    gp_norm_samples norm = gp_plan_norm_samples(plan);
    if (norm.least == 0) return;
    fprintf(report->out, "batch norm   sees %s", gp_report_number(norm.least).text);
    if (norm.most > norm.least) fprintf(report->out, " to %s", gp_report_number(norm.most).text);
    fprintf(report->out, " sample%s at a time\n", norm.most == 1 ? "" : "s");
}

/* "conv 0 … relu a" */
static void write_layers(const gp_report *report, const gp_stage *stage) {
    const gp_graph *graph = report->plan->graph;
    int last = stage->first_node + stage->node_count - 1;
    if (graph->nodes[last].output < 0) last--; /* the loss */
    const gp_node *from = &graph->nodes[stage->first_node], *to = &graph->nodes[last];
    fprintf(report->out, "%7s  ", gp_report_number(to->unit - from->unit + 1).text);
    if (from == to)
        gp_report_format_cell(report->out, 28, "%s %s", from->layer->type->name, from->name);
    else
        gp_report_format_cell(report->out, 28, "%s %s … %s %s", from->layer->type->name, from->name,
                              to->layer->type->name, to->name);
}

static void write_stage(const gp_report *report, int s) {
    const gp_plan *plan = report->plan;
    double busy =
        report->expected.seconds > 0 ? report->expected.busy[plan->stage[s].worker] / report->expected.seconds : 0;
    fprintf(report->out, "  %5d  ", s);
    gp_report_cell(report->out, gp_report_device(&plan->devices[plan->stage[s].worker]).text, 16, false);
    write_layers(report, &plan->stages->stage[s]);
    gp_report_cell(report->out, gp_report_number(gp_plan_stage_parameters(plan, s)).text, 15, true);
    fprintf(report->out, "%6.0f%%", 100 * busy);
    if (plan->stages->count > GP_REPORT_ALL_STAGES) {
        if (s == report->largest) fputs(" largest", report->out);
        if (s == report->busiest) fputs(" busiest", report->out);
    }
    fputs("\n", report->out);
}

static void write_stages(const gp_report *report) {
    const gp_plan *plan = report->plan;
    fprintf(report->out, "\nstages\n  %5s  %-16s%7s  %-28s%15s%7s\n", "stage", "device", "layers", "from … to",
            "parameters", "busy");
    for (int i = 0; i < report->shown_count; i++) {
        if (i > 0 && report->shown[i] > report->shown[i - 1] + 1) fputs("      …\n", report->out);
        write_stage(report, report->shown[i]);
    }
    if (plan->stages->count == 1) return;
    fprintf(report->out, "  %5s  %-16s%7s  %-28s", "all", "", gp_report_number(plan->graph->layer_count).text, "");
    gp_report_cell(report->out, gp_report_number(gp_graph_param_elements(plan->graph)).text, 15, true);
    fprintf(report->out, "%6.0f%%\n", 100 * (1 - report->expected.bubble));
}

static void write_expected(const gp_report *report) {
    double spread = gp_profile_spread(report->profile);
    const gp_mini_plan *mini = &report->plan->minis[report->mini];
    const gp_expectation *expected = &report->expected;
    fprintf(report->out, "\npredicted    %s of %s: %s", mini->training ? "a step" : "an evaluation",
            gp_report_count(mini->samples, "sample").text, gp_report_predicted(expected->seconds, spread).text);
    if (expected->seconds > 0)
        fprintf(
            report->out, " (%s samples/s)",
            gp_report_number((int64_t)gp_report_keep_within((double)mini->samples / expected->seconds, spread)).text);
    fprintf(report->out, ", bubble %.0f%%\n             ", 100 * expected->bubble);
}

/* Where the predicted time comes from. */
static gp_status write_source(const gp_report *report, gp_error *err) {
    char *source = NULL, taking[GP_TAKING_TEXT];
    GP_RETURN_IF_FAILED(gp_profile_source(report->profile, &source, err));
    gp_print(report->out, "%s\n", source);
    free(source);
    if (*gp_profile_taking(taking, report->profile, (int64_t)time(NULL)))
        fprintf(report->out, "             %s\n", taking);
    return GP_OK;
}

static gp_status write_report(gp_report *report, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_expect(report->plan, report->mini, report->profile, &report->expected, err));
    find_extremes(report);
    choose_shown(report);
    write_header(report);
    write_stages(report);
    GP_RETURN_IF_FAILED(gp_report_processes(report, err));
    gp_report_copies(report);
    GP_RETURN_IF_FAILED(gp_report_links(report, err));
    GP_RETURN_IF_FAILED(gp_report_memory(report, err));
    if (report->host) gp_report_host(report);
    gp_report_schedule(report);
    write_expected(report);
    GP_RETURN_IF_FAILED(write_source(report, err));
    gp_processors_warn(report->plan, true, report->out);
    gp_micro_batches_warn(report->plan, true, report->out);
    gp_idle_warn(report->plan, true, report->out);
    gp_norm_warn(report->plan, true, report->out);
    gp_idle_process_warn(report->plan, true, report->out);
    return gp_report_end(report->out, "the report of the plan", err);
}

gp_status gp_plan_report(const gp_plan *plan, const gp_profile *profile, const gp_host_memory *host,
                         const size_t *memory, FILE *out, gp_error *err) {
    gp_report report = {.plan = plan,
                        .profile = profile,
                        .host = host,
                        .memory = memory,
                        .out = out,
                        .mini = gp_plan_largest_mini(plan)};
    gp_status status = write_report(&report, err);
    free(report.expected.busy);
    return status;
}

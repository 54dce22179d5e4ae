#include "report/warnings.h"

#include <inttypes.h>
#include <math.h>

#include "report/workers_text.h"

static bool has_gpu(const gp_session *session) {
    for (int d = 0; d < session->config->pipeline.device_count; d++)
        if (!session->devices[d].kind->on_host) return true;
    return false;
}

/* Weights of convolutions and products have two dimensions or more, those of other layers have one. */
static bool has_products(const gp_graph *graph) {
    for (int p = 0; p < graph->param_count; p++)
        if (graph->params[p].spec.shape.rank >= 2) return true;
    return false;
}

void gp_precision_advise(const gp_session *session, bool report, FILE *out) {
    if (session->config->train.precision_given || !has_gpu(session) || !has_products(session->graph)) return;
    fprintf(out,
            "precision %sf32: TF32 would make convolutions and products on GPUs about 2x faster,%s"
            "but with 10 bits of mantissa instead of 23; set train.precision: tf32 to use it\n",
            report ? "   " : "", report ? "\n             " : " ");
}

void gp_processors_warn(const gp_plan *plan, bool report, FILE *out) {
    if (!gp_plan_shares(plan)) return;
    bool hosts = plan->links && plan->links->hosts > 1;
    fprintf(out, "%s %d threads compute on %d processor%s%s, so they take turns%s",
            report ? "warning     " : "warning:", gp_plan_host_threads(plan), plan->processors,
            plan->processors == 1 ? "" : "s", hosts ? " of a host" : "",
            report ? "; the prediction includes this\n             " : "; ");
    if (plan->workers == 1)
        fprintf(out, "give the device at most %d\n", plan->processors);
    else
        fprintf(out, "list fewer devices in pipeline.devices, or give them fewer threads: at most %d in all%s\n",
                plan->processors, hosts ? " on a host" : "");
}

void gp_micro_batches_warn(const gp_plan *plan, bool report, FILE *out) {
    int64_t samples = plan->minis[gp_plan_largest_mini(plan)].samples;
    if (plan->micro_batches <= samples) return;
    fprintf(out,
            "%s pipeline.micro_batches: %d is more than the %" PRId64 " sample%s of a mini-batch, which has %" PRId64
            " micro-batch%s of 1 sample\n",
            report ? "warning     " : "warning:", plan->micro_batches, samples, samples == 1 ? "" : "s", samples,
            samples == 1 ? "" : "es");
}

/* Falls of the learning rate that the run does not reach. */
static void warn_of_falls(const gp_session *session, gp_run_length run, bool report, FILE *out) {
    const gp_optimizer_config *optimizer = &session->config->optimizer;
    const char *start = report ? "warning     " : "warning:";
    int64_t steps = session->steps, every = gp_time_end(optimizer->lr_every, run);
    int beyond = 0;
    if (optimizer->lr_schedule == GP_LR_STEP && every >= steps)
        fprintf(out,
                "%s optimizer.lr_schedule.step.every: the learning rate would first fall after step %" PRId64
                ", and the run has %" PRId64 " step%s\n",
                start, every, steps, steps == 1 ? "" : "s");
    for (int i = 0; optimizer->lr_schedule == GP_LR_MULTISTEP && i < optimizer->lr_milestone_count; i++)
        beyond += gp_time_end(optimizer->lr_milestones[i], run) >= steps;
    if (beyond > 0)
        fprintf(out,
                "%s optimizer.lr_schedule.multistep: %d of %d milestones lie%s at or after the end of the run, step "
                "%" PRId64 "\n",
                start, beyond, optimizer->lr_milestone_count, beyond == 1 ? "s" : "", steps);
}

void gp_rate_warn(const gp_session *session, bool report, FILE *out) {
    const gp_optimizer_config *optimizer = &session->config->optimizer;
    const gp_run_length run = gp_session_length(session);
    int64_t length = gp_time_end(optimizer->warmup, run);
    if (session->steps < 1) return;
    warn_of_falls(session, run, report, out);
    if (length <= session->steps) return;
    fprintf(out,
            "%s optimizer.warmup: %" PRId64 " steps are more than the %" PRId64
            " step%s of the run, so the learning rate ends at %g, not at %g\n",
            report ? "warning     " : "warning:", length, session->steps, session->steps == 1 ? "" : "s",
            gp_rate(optimizer, run, session->steps), optimizer->lr);
}

static double largest(gp_channel_values of) {
    double value = of.value[0];
    for (int i = 1; i < of.count; i++) value = fmax(value, of.value[i]);
    return value;
}

/* Values in 0 … 1 have no mean above 1, and a std of at most 0.5; 1 is for a std that changes nothing. */
static void warn_of_range(const char *key, const char *what, double mean, double std, bool report, FILE *out) {
    if (mean <= 1 && std <= 1) return;
    fprintf(
        out,
        "%s %s%s has mean %g and std %g, as if values were 0 … 255; bytes are scaled to 0 … 1 before: divide mean and "
        "std by 255\n",
        report ? "warning     " : "warning:", key, what, mean, std);
}

static void warn_of_source(const char *key, const gp_source_config *source, bool report, FILE *out) {
    if (source->kind == GP_SOURCE_IDX && source->normalise)
        warn_of_range(key, ".idx", source->mean, source->std, report, out);
    for (int i = 0; i < source->transform_count; i++) {
        const gp_transform_config *its = &source->transforms[i];
        if (its->kind != GP_TRANSFORM_NORMALIZE) continue;
        if (!source->normalise)
            warn_of_range(key, ".transform: normalize", largest(its->mean), largest(its->std), report, out);
        break; /* values are no longer in 0 … 1 */
    }
}

void gp_normalize_warn(const gp_session *session, bool report, FILE *out) {
    const gp_data_config *data = &session->config->data;
    if (session->train && gp_dataset_has_bytes(session->train)) warn_of_source("data.train", &data->train, report, out);
    if (session->eval && gp_dataset_has_bytes(session->eval)) warn_of_source("data.eval", &data->eval, report, out);
}

void gp_idle_warn(const gp_plan *plan, bool report, FILE *out) {
    const gp_mini_plan *mini = &plan->minis[gp_plan_largest_mini(plan)];
    int first = -1, count = 0;
    for (int s = 0; s < plan->stages->count; s++) {
        if (gp_micros_count(gp_micros_of_stage(gp_mini_pieces(mini), &plan->stages->stage[s])) > 0) continue;
        if (count++ == 0) first = s;
    }
    if (count == 0) return;
    const gp_stage *its = &plan->stages->stage[first];
    fprintf(out, "%s stage %d", report ? "warning     " : "warning:", first);
    if (count > 1) fprintf(out, " and %d other%s", count - 1, count == 2 ? "" : "s");
    fprintf(out,
            " %s idle: replica %d of %d has no sample of a mini-batch of %" PRId64
            "; take fewer replicas, fewer micro_batches, or mini-batches of another size\n",
            count == 1 ? "is" : "are", its->replica, its->replicas, mini->samples);
}

void gp_norm_warn_of(gp_norm_samples norm, int64_t batch, int micro_batches, bool report, FILE *out) {
    if (norm.least == 0 || norm.least >= GP_NORM_FEW_SAMPLES) return;
    fprintf(out, "%s batch norm sees %" PRId64 " sample%s of a mini-batch of %" PRId64 " at a time;%s",
            report ? "warning     " : "warning:", norm.least, norm.least == 1 ? "" : "s", batch,
            report ? "\n             " : " ");
    fprintf(out, "below %d its statistics are rough: ", (int)GP_NORM_FEW_SAMPLES);
    if (norm.joined > norm.least)
        fprintf(out, "model.rules: {batch_norm: {sync: true}} shows it %" PRId64 "\n", norm.joined);
    else
        fprintf(out, "take %s, or group_norm in its place\n",
                micro_batches > 1 ? "fewer micro_batches" : "a larger data.batch");
}

void gp_norm_warn(const gp_plan *plan, bool report, FILE *out) {
    const gp_mini_plan *mini = &plan->minis[gp_plan_largest_mini(plan)];
    gp_norm_warn_of(gp_plan_norm_samples(plan), mini->samples, mini->pieces, report, out);
}

void gp_idle_process_warn(const gp_plan *plan, bool report, FILE *out) {
    int first = -1, count = 0;
    for (int p = gp_plan_processes(plan) - 1; p >= 0; p--) {
        if (gp_workers_count(plan, p) > 0) continue;
        first = p;
        count++;
    }
    if (count == 0) return;
    fprintf(out, "%s process %d", report ? "warning     " : "warning:", first);
    if (count > 1) fprintf(out, " and %d other%s", count - 1, count == 2 ? "" : "s");
    fprintf(out, " %s no worker; start fewer, or give devices other ranks\n", count == 1 ? "has" : "have");
}

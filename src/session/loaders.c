#include "session/loaders.h"

#include "plan/loads.h"
#include "settings/rate.h"

/* Whether a step may begin while the one before is under way: then its mini-batch is held, too. */
static bool may_overlap(const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++)
        if (gp_plan_overlaps(plan, m)) return true;
    return false;
}

void gp_loaders_count_traced(const gp_session *session, const gp_trace_options *trace, int64_t *steps,
                             int64_t *evaluated) {
    *steps = *evaluated = 0;
    if (!trace || !trace->path) return;
    int64_t last = trace->last < session->steps ? trace->last : session->steps;
    int64_t every = gp_time_steps(session->config->train.eval_every, session->epoch_steps ? session->epoch_steps : 1);
    int64_t passes = 1; /* after the last step, or without any */
    if (every > 0 && last >= trace->first) passes += last / every - (trace->first - 1) / every;
    if (last >= trace->first) *steps = last - trace->first + 1;
    if (session->eval_samples == 0) return;
    int64_t batches = gp_loader_batches(session->eval_samples, session->config->data.batch, false);
    int64_t most = trace->last - trace->first + 1;
    *evaluated = passes <= most / batches ? passes * batches : most;
}

/* Mini-batches that are read while `traced` of them are used: those ahead, and those in use, too. 0: none are traced.
 */
static int64_t count_read(const gp_loader_options *options, int64_t traced) {
    int64_t others = 1 + options->depth + (options->held < 1 ? 1 : options->held);
    return traced > 0 ? traced + others : 0;
}

/* A size that is not planned is one that the run does not come to. */
static gp_share next_load(const gp_plan *plan, bool training, int64_t samples, bool target, int64_t from) {
    int mini = gp_plan_find(plan, training, samples);
    if (mini < 0) return (gp_share){samples, 0};
    return gp_mini_loads(plan, &plan->minis[mini], plan->rank, target ? GP_VALUE_TARGET : GP_VALUE_INPUT, from);
}

static gp_share next_of_training(const void *plan, int64_t samples, bool target, int64_t from) {
    return next_load(plan, true, samples, target, from);
}

static gp_share next_of_evaluation(const void *plan, int64_t samples, bool target, int64_t from) {
    return next_load(plan, false, samples, target, from);
}

/* A process that is alone reads all. */
static gp_needs needs_of(const gp_plan *plan, bool training) {
    if (plan->processes == 1) return (gp_needs){NULL, NULL};
    return (gp_needs){training ? next_of_training : next_of_evaluation, plan};
}

gp_loader_options gp_loaders_training(const gp_session *session, int64_t step, const gp_trace_options *trace) {
    const gp_config *config = session->config;
    int64_t steps, evaluated;
    const gp_epoch_place place = gp_epochs_place(&session->epochs, step);
    gp_loaders_count_traced(session, trace, &steps, &evaluated);
    gp_loader_options options = {.batch = config->data.batch,
                                 .shuffle = config->data.shuffle,
                                 .drop_last = config->data.drop_last,
                                 .seed = config->train.seed,
                                 .first_epoch = place.epoch,
                                 .first_sample = place.taken,
                                 .depth = GP_PREFETCH,
                                 .threads = config->data.threads,
                                 .held = may_overlap(session->plan) ? 2 : 1,
                                 .needs = needs_of(session->plan, true),
                                 .records = steps > 0 && step + 1 >= trace->first && step < trace->last};
    options.recorded = count_read(&options, steps);
    return options;
}

gp_loader_options gp_loaders_evaluation(const gp_session *session, const gp_trace_options *trace) {
    const gp_config *config = session->config;
    int64_t steps, evaluated;
    gp_loaders_count_traced(session, trace, &steps, &evaluated);
    gp_loader_options options = {.batch = config->data.batch,
                                 .seed = config->train.seed,
                                 .first_epoch = 1,
                                 .epochs = 1,
                                 .depth = GP_PREFETCH,
                                 .threads = config->data.threads,
                                 .rests = true,
                                 .needs = needs_of(session->plan, false)};
    options.recorded = count_read(&options, evaluated);
    return options;
}

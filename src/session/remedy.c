/* What would make a plan fit that does not. */
#include "session/session_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory.h"

/* Plans a choice. *fits: whether its plan fits. `missing`: as gp_planning_make; "" if there is no plan. */
static gp_status try(const gp_session *session, const gp_plan_choice *with, bool *fits, char missing[GP_ERROR_TEXT]) {
    gp_plan *plan = NULL;
    int64_t *layers = NULL;
    gp_error ignored = {0};
    int worker;
    missing[0] = '\0';
    gp_status status = GP_NEW(&layers, session->config->pipeline.stages, &ignored);
    if (status == GP_OK) status = gp_planning_make(session, with, layers, &plan, missing, &ignored);
    *fits = status == GP_OK && gp_memory_check(plan, &worker, &ignored) == GP_OK;
    if (status != GP_OK) missing[0] = '\0';
    gp_plan_destroy(&plan);
    free(layers);
    return status;
}

static bool would_fit(const gp_session *session, const gp_plan_choice *with) {
    char missing[GP_ERROR_TEXT];
    bool fits;
    return try(session, with, &fits, missing) == GP_OK && fits;
}

/* What planning a choice takes, in instructions and ops: the search for a remedy has a budget of it, a few seconds.
 * Finding a balance plans each layer as a stage, and some cuts. */
static int64_t planning_work(const gp_session *session, const gp_plan_choice *with) {
    int64_t stages = session->config->pipeline.stages;
    int64_t layers = session->graph->layer_count;
    int64_t once = session->graph->node_count + stages * (stages + with->micro_batches);
    return with->balance == GP_BALANCE_LAYERS ? once : layers * layers + 13 * once;
}

static bool is_always(const gp_session *session) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    for (int s = 0; s < pipeline->stages; s++)
        if (gp_pipeline_checkpoint(pipeline, s) != GP_CHECKPOINT_ALWAYS) return false;
    return pipeline->keep_count == 0;
}

/* The first of a few changes that makes the plan fit, the cheapest ones to live with first: another balance,
 * recomputing, smaller micro-batches, all of them. `refused`: `now` itself is known not to fit. *budget of
 * planning_work: below 0, some choices were not tried. */
static bool find_remedy(const gp_session *session, const gp_plan_choice *now, bool refused, int64_t *budget,
                        gp_plan_choice *out) {
    const gp_balance_mode balances[] = {now->balance, GP_BALANCE_AUTO, GP_BALANCE_SIZE};
    int64_t most =
        session->config->data.batch < GP_MAX_MICRO_BATCHES ? session->config->data.batch : GP_MAX_MICRO_BATCHES;
    for (int64_t m = now->micro_batches; m == now->micro_batches || m <= most; m *= 2) {
        for (int always = 0; always < (is_always(session) ? 1 : 2); always++) {
            for (int b = 0; b < 3; b++) {
                if (b > 0 && balances[b] == now->balance) continue;
                if (refused && b == 0 && !always && m == now->micro_batches) continue;
                *out = (gp_plan_choice){m, always > 0, balances[b]};
                *budget -= planning_work(session, out);
                if (*budget >= 0 && would_fit(session, out)) return true;
            }
        }
    }
    return false;
}

/* Whether a lean plan fits: micro-batches of one sample, or of two, or as few as there can be; all recomputed. The
 * workspace of one sample may be the larger one. */
static bool lean_fits(const gp_session *session, int64_t *budget) {
    int64_t batch = session->config->data.batch;
    for (int64_t samples = 1; samples <= 2 && samples <= batch; samples++) {
        int64_t all = (batch + samples - 1) / samples, pieces = all < GP_MAX_MICRO_BATCHES ? all : GP_MAX_MICRO_BATCHES;
        const gp_plan_choice by_time = {pieces, true, GP_BALANCE_AUTO}, by_size = {pieces, true, GP_BALANCE_SIZE};
        *budget -= planning_work(session, &by_time);
        if (*budget < 0) return false;
        if (would_fit(session, &by_time) || would_fit(session, &by_size)) return true;
    }
    return false;
}

/* The same with a smaller batch: a half, a quarter … of it. *batch: the first that fits. */
static bool find_smaller_batch(const gp_session *session, const gp_plan_choice *now, int64_t *budget, int64_t *batch,
                               gp_plan_choice *out) {
    gp_config config = *session->config;
    gp_session smaller = *session;
    smaller.config = &config;
    for (*batch = config.data.batch / 2; *batch > 0; *batch /= 2) {
        config.data.batch = *batch;
        if (lean_fits(&smaller, budget) && find_remedy(&smaller, now, false, budget, out)) return true;
    }
    return false;
}

/* Whether one layer alone is too large for every device, with the smallest micro-batches and all recomputed. `missing`:
 * which one. */
static bool is_one_layer(const gp_session *session, char missing[GP_ERROR_TEXT]) {
    int64_t most =
        session->config->data.batch < GP_MAX_MICRO_BATCHES ? session->config->data.batch : GP_MAX_MICRO_BATCHES;
    gp_status status = GP_CONFIG;
    bool fits;
    missing[0] = '\0';
    /* Batch norm refuses a micro-batch of one value for each channel: then twice as large ones are the smallest. */
    for (int64_t m = most; m > 0 && status == GP_CONFIG; m /= 2)
        status = try(session, &(gp_plan_choice){m, true, GP_BALANCE_AUTO}, &fits, missing);
    return strncmp(missing, "layer ", 6) == 0;
}

enum { REMEDY_TEXT = 400, REMEDY_BUDGET = 1500000 };

/* "micro_batches: 8 and checkpoint: always"; `batch` 0: as it is. */
static void describe_remedy(char text[REMEDY_TEXT], const gp_plan_choice *now, const gp_plan_choice *then,
                            int64_t batch) {
    size_t used = 0;
    text[0] = '\0';
    if (batch > 0) used = (size_t)snprintf(text, REMEDY_TEXT, "data.batch: %" PRId64, batch);
    if (then->micro_batches != now->micro_batches)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%smicro_batches: %" PRId64, used ? " and " : "",
                                 then->micro_batches);
    if (then->always)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%scheckpoint: always", used ? " and " : "");
    if (then->balance != now->balance)
        snprintf(text + used, REMEDY_TEXT - used, "%sbalance: %s", used ? " and " : "",
                 then->balance == GP_BALANCE_SIZE ? "size" : "auto");
}

/* What is left if no change to the pipeline helps: only what can help is named. `said`: the sentence names such a layer
 * already. */
static void find_last_resort(const gp_session *session, const gp_plan_choice *now, int64_t *budget, bool said,
                             char text[REMEDY_TEXT]) {
    char missing[GP_ERROR_TEXT];
    int64_t batch = 0;
    gp_plan_choice then;
    if (*budget >= 0 && find_smaller_batch(session, now, budget, &batch, &then)) {
        char remedy[REMEDY_TEXT];
        describe_remedy(remedy, now, &then, batch);
        snprintf(text, REMEDY_TEXT, "with this batch nothing makes it fit; it fits with %.120s", remedy);
    } else if ((said || *budget >= 0) && is_one_layer(session, missing)) {
        snprintf(text, REMEDY_TEXT,
                 "%.240s%sneither more stages nor a smaller batch help; its device needs more memory",
                 said ? "" : missing, said ? "" : "; ");
    } else if (*budget < 0) {
        snprintf(text, REMEDY_TEXT,
                 "checkpoint: always, more micro-batches, other balances and smaller batches were tried for a few "
                 "seconds, and none of them makes it fit");
    } else {
        snprintf(text, REMEDY_TEXT,
                 "neither checkpoint: always nor more micro-batches nor another balance nor a smaller batch make it "
                 "fit; more %smemory may",
                 session->config->pipeline.stages < session->graph->layer_count ? "stages or more " : "");
    }
}

/* The sentence that refuses a plan goes on with what would make it fit. */
gp_status gp_remedy_refuse(const gp_session *session, const gp_plan_choice *now, int worker, const char *missing,
                           gp_error *err) {
    gp_place place = session->config->pipeline.devices[worker].place;
    gp_error cause = *err;
    int64_t budget = REMEDY_BUDGET;
    char why[GP_ERROR_TEXT / 2] = "", text[REMEDY_TEXT];
    if (missing[0]) snprintf(why, sizeof why, "; by the sizes of single layers: %.900s", missing);
    gp_plan_choice then;
    bool found = find_remedy(session, now, true, &budget, &then);
    if (found)
        describe_remedy(text, now, &then, 0);
    else
        find_last_resort(session, now, &budget, strncmp(missing, "layer ", 6) == 0, text);
    return gp_fail_at(err, GP_CONFIG, place, "the plan does not fit: %s%s; %s%s", cause.text, why,
                      found ? "it fits with " : "", text);
}

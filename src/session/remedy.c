/* What would make a plan fit that does not. */
#include "session/session_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory.h"

/* What batch norm needs of a number of micro-batches that a remedy proposes: so many samples for its statistics. */
enum { NORM_SAMPLES = 16 };

/* Plans a choice. *fits: whether its plan fits, and leaves batch norm enough samples if it has other micro-batches than
 * configured. `norm`: samples of its statistics. `missing`: as gp_planning_make; "" if there is no plan. */
static gp_status try(const gp_session *session, const gp_plan_choice *with, bool *fits, int64_t *norm,
                     char missing[GP_ERROR_TEXT]) {
    gp_plan *plan = NULL;
    int64_t *layers = NULL;
    gp_error ignored = {0};
    int worker;
    missing[0] = '\0';
    gp_status status = GP_NEW(&layers, session->config->pipeline.stages, &ignored);
    if (status == GP_OK) status = gp_planning_make(session, with, layers, &plan, missing, &ignored);
    *fits = status == GP_OK && gp_memory_check(plan, &worker, &ignored) == GP_OK;
    *norm = status == GP_OK ? gp_plan_norm_samples(plan).least : 0;
    if (*norm > 0 && *norm < NORM_SAMPLES && with->micro_batches != session->config->pipeline.micro_batches)
        *fits = false;
    if (status != GP_OK) missing[0] = '\0';
    gp_plan_destroy(&plan);
    free(layers);
    return status;
}

static bool would_fit(const gp_session *session, const gp_plan_choice *with, int64_t *norm) {
    char missing[GP_ERROR_TEXT];
    bool fits;
    return try(session, with, &fits, norm, missing) == GP_OK && fits;
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

/* The number of micro-batches changes what batch norm computes. */
static bool trains_norms(const gp_session *session) {
    for (int n = 0; n < session->graph->node_count; n++) {
        const gp_layer *layer = session->graph->nodes[n].layer;
        if (layer->type->batch_statistics && !layer->frozen) return true;
    }
    return false;
}

static int64_t most_micro_batches(const gp_session *session) {
    int64_t batch = session->config->data.batch;
    return batch < GP_MAX_MICRO_BATCHES ? batch : GP_MAX_MICRO_BATCHES;
}

/* The first of a few changes that makes the plan fit, the cheapest ones to live with first: another balance,
 * recomputing, smaller micro-batches (of `first` in number and more, up to `most`), all of them. `refused`: `now`
 * itself is known not to fit. *budget of planning_work: below 0, some choices were not tried. `norm`: samples of batch
 * norm's statistics then. */
static bool find_remedy(const gp_session *session, const gp_plan_choice *now, int64_t first, int64_t most, bool refused,
                        int64_t *budget, gp_plan_choice *out, int64_t *norm) {
    const gp_balance_mode balances[] = {now->balance, GP_BALANCE_AUTO, GP_BALANCE_SIZE};
    for (int64_t m = first; m == now->micro_batches || m <= most; m *= 2) {
        for (int always = 0; always < (is_always(session) ? 1 : 2); always++) {
            for (int b = 0; b < 3; b++) {
                if (b > 0 && balances[b] == now->balance) continue;
                if (refused && b == 0 && !always && m == now->micro_batches) continue;
                *out = (gp_plan_choice){m, always > 0, balances[b]};
                *budget -= planning_work(session, out);
                if (*budget >= 0 && would_fit(session, out, norm)) return true;
            }
        }
    }
    return false;
}

/* Whether a lean plan fits: micro-batches of one sample, or of two, or as few as there can be (batch norm: as many
 * micro-batches as now); all recomputed. The workspace of one sample may be the larger one. */
static bool lean_fits(const gp_session *session, bool keeps, int64_t *budget) {
    int64_t batch = session->config->data.batch, norm;
    for (int64_t samples = 1; samples <= 2 && samples <= batch; samples++) {
        int64_t all = (batch + samples - 1) / samples, pieces = all < GP_MAX_MICRO_BATCHES ? all : GP_MAX_MICRO_BATCHES;
        if (keeps) pieces = session->config->pipeline.micro_batches;
        const gp_plan_choice by_time = {pieces, true, GP_BALANCE_AUTO}, by_size = {pieces, true, GP_BALANCE_SIZE};
        *budget -= planning_work(session, &by_time);
        if (*budget < 0) return false;
        if (would_fit(session, &by_time, &norm) || would_fit(session, &by_size, &norm)) return true;
    }
    return false;
}

/* The same with a smaller batch: a half, a quarter … of it. *batch: the first that fits. */
static bool find_smaller_batch(const gp_session *session, const gp_plan_choice *now, bool keeps, int64_t *budget,
                               int64_t *batch, gp_plan_choice *out, int64_t *norm) {
    gp_config config = *session->config;
    gp_session smaller = *session;
    smaller.config = &config;
    for (*batch = config.data.batch / 2; *batch > 0; *batch /= 2) {
        config.data.batch = *batch;
        smaller.epoch_steps =
            session->train_samples / *batch + (!config.data.drop_last && session->train_samples % *batch > 0);
        if (session->steps > 0) smaller.steps = smaller.epoch_steps;
        int64_t most = keeps ? now->micro_batches : most_micro_batches(&smaller);
        if (lean_fits(&smaller, keeps, budget) &&
            find_remedy(&smaller, now, now->micro_batches, most, false, budget, out, norm))
            return true;
    }
    return false;
}

/* Whether one layer alone is too large for every device, with the smallest micro-batches and all recomputed. `missing`:
 * which one. */
static bool is_one_layer(const gp_session *session, char missing[GP_ERROR_TEXT]) {
    int64_t most = most_micro_batches(session), norm;
    gp_status status = GP_CONFIG;
    bool fits;
    missing[0] = '\0';
    /* Batch norm refuses a micro-batch of one value for each channel: then twice as large ones are the smallest. */
    for (int64_t m = most; m > 0 && status == GP_CONFIG; m /= 2)
        status = try(session, &(gp_plan_choice){m, true, GP_BALANCE_AUTO}, &fits, &norm, missing);
    return strncmp(missing, "layer ", 6) == 0;
}

enum { REMEDY_TEXT = 400, REMEDY_BUDGET = 1500000 };

/* "micro_batches: 8 and checkpoint: always"; `batch` 0: as it is. `norm`: samples of batch norm's statistics now, and
 * then. */
static void describe_remedy(char text[REMEDY_TEXT], const gp_plan_choice *now, const gp_plan_choice *then,
                            int64_t batch, const int64_t norm[2]) {
    size_t used = 0;
    text[0] = '\0';
    if (batch > 0) used = (size_t)snprintf(text, REMEDY_TEXT, "data.batch: %" PRId64, batch);
    if (then->micro_batches != now->micro_batches)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%smicro_batches: %" PRId64, used ? " and " : "",
                                 then->micro_batches);
    if (then->always)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%scheckpoint: always", used ? " and " : "");
    if (then->balance != now->balance)
        used += (size_t)snprintf(text + used, REMEDY_TEXT - used, "%sbalance: %s", used ? " and " : "",
                                 then->balance == GP_BALANCE_SIZE ? "size" : "auto");
    if (norm[0] != norm[1])
        snprintf(text + used, REMEDY_TEXT - used,
                 " (batch norm then sees %" PRId64 " sample%s at a time, not %" PRId64 ")", norm[1],
                 norm[1] == 1 ? "" : "s", norm[0]);
}

/* What is left if no change to the pipeline helps that keeps what batch norm computes: only what can help is named.
 * `said`: the sentence names such a layer already. norm[0]: samples of batch norm's statistics now; 0: none trains. */
static void find_last_resort(const gp_session *session, const gp_plan_choice *now, int64_t *budget, bool said,
                             int64_t norm[2], char text[REMEDY_TEXT]) {
    char missing[GP_ERROR_TEXT], remedy[REMEDY_TEXT];
    bool keeps = trains_norms(session);
    int64_t batch = 0;
    gp_plan_choice then;
    if (keeps && *budget >= 0 &&
        find_remedy(session, now, 2 * now->micro_batches, session->config->data.batch / NORM_SAMPLES, false, budget,
                    &then, &norm[1])) {
        describe_remedy(remedy, now, &then, 0, norm);
        snprintf(text, REMEDY_TEXT, "with as many micro-batches nothing makes it fit; it fits with %.200s", remedy);
    } else if (*budget >= 0 && find_smaller_batch(session, now, keeps, budget, &batch, &then, &norm[1])) {
        describe_remedy(remedy, now, &then, batch, norm);
        snprintf(text, REMEDY_TEXT, "with this batch nothing makes it fit; it fits with %.200s", remedy);
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
                 "neither checkpoint: always nor more micro-batches%s nor another balance nor a smaller batch make it "
                 "fit; more %smemory may",
                 keeps ? " that show batch norm 16 samples at a time" : "",
                 session->config->pipeline.stages < session->graph->layer_count ? "stages or more " : "");
    }
}

/* ---- the least memory -------------------------------------------------------------------------------------------- */

enum { LEAST_BUDGET = 900000, LEAST_TRIES = 40, MOST_GROWTH = 6 };

/* The most that an arena takes beyond the memory that its device has. */
static size_t excess_of(const gp_plan *plan, const gp_device_spec *devices) {
    size_t most = 0;
    for (int w = 0; w < plan->workers; w++) {
        size_t room = gp_device_room(&devices[w]);
        if (devices[w].memory > 0 && plan->arena[w] > room && plan->arena[w] - room > most)
            most = plan->arena[w] - room;
    }
    return most;
}

/* Whether a plan is found that fits if each limit of memory grows by `more`. *needs: by how much it uses that. */
static bool fits_with_more(const gp_session *session, const gp_plan_choice *now, size_t more, size_t *needs) {
    gp_session roomier = *session;
    gp_plan *plan = NULL;
    int64_t *layers = NULL;
    gp_error ignored = {0};
    char missing[GP_ERROR_TEXT];
    int count = session->config->pipeline.device_count;
    bool fits = false;
    if (GP_NEW(&roomier.devices, count, &ignored) != GP_OK) return false;
    for (int d = 0; d < count; d++) {
        roomier.devices[d] = session->devices[d];
        if (session->devices[d].memory > 0) roomier.devices[d].memory += more;
    }
    if (GP_NEW(&layers, session->config->pipeline.stages, &ignored) == GP_OK &&
        gp_planning_make(&roomier, now, layers, &plan, missing, &ignored) == GP_OK) {
        fits = excess_of(plan, roomier.devices) == 0;
        *needs = excess_of(plan, session->devices);
    }
    gp_plan_destroy(&plan);
    free(layers);
    free(roomier.devices);
    return fits;
}

/* The least bytes by which each limit must grow for a balance to fit: with them it is found, with one less it is not.
 * What a plan needs is tried next: with less memory another plan may be found. Not exact: the budget ended before, and
 * with them one is found. False: the budget ended before any was. */
static bool find_least(const gp_session *session, const gp_plan_choice *now, size_t *out, bool *exact) {
    size_t enough = excess_of(session->plan, session->devices), little = 0, needs = 0;
    int64_t budget = LEAST_BUDGET;
    for (int i = 0; (budget -= planning_work(session, now)) >= 0 && !fits_with_more(session, now, enough, &needs);
         i++) {
        if (i == MOST_GROWTH) return false;
        little = enough;
        enough += enough / 2 + 1;
    }
    if (budget < 0) return false;
    for (int i = 0; i < LEAST_TRIES && enough - little > 1 && (budget -= planning_work(session, now)) >= 0; i++) {
        bool untried = needs > little && needs < enough, close = enough - little <= enough / 64 && needs == enough;
        size_t more = untried ? needs : close ? enough - 1 : little + (enough - little) / 2;
        if (fits_with_more(session, now, more, &needs))
            enough = more;
        else
            little = more;
    }
    *out = enough;
    *exact = enough - little == 1;
    return true;
}

static size_t common_limit(const gp_session *session) {
    for (int d = 1; d < session->config->pipeline.device_count; d++)
        if (session->devices[d].memory != session->devices[0].memory) return 0;
    return session->devices[0].memory;
}

/* Which memory a balance needs: the solver's own numbers are sums over single layers, of which plans may need less. One
 * stage has no other balance. */
static void describe_least(const gp_session *session, const gp_plan_choice *now, const char *missing, char *text,
                           size_t bytes) {
    size_t more = 0, limit = common_limit(session);
    char least[32], over[32], has[32];
    int stages = session->config->pipeline.stages;
    static const char each[] = " for each limit";
    const char *limits = strstr(missing, each); /* and which ones those are */
    bool ruled = strstr(missing, "; it fits without the layers named in balance") != NULL;
    text[0] = '\0';
    bool exact = false;
    if (stages == 1 || !find_least(session, now, &more, &exact)) return;
    if (limit > 0 && !exact)
        snprintf(text, bytes, "; %d stages fit with %s each (%zu bytes)", stages, gp_bytes_text(least, limit + more),
                 limit + more);
    else if (limit > 0)
        snprintf(text, bytes, "; the least memory with which %d stages fit is %s each (%zu bytes), %s more than %s%s",
                 stages, gp_bytes_text(least, limit + more), limit + more, gp_bytes_text(over, more),
                 gp_bytes_text(has, limit), ruled ? ", with the layers named in balance, and with together" : "");
    else
        snprintf(text, bytes, "; %d stages fit with %s%s (%zu bytes) more for each limit%s", stages,
                 exact ? "at least " : "", gp_bytes_text(over, more), more, limits ? limits + strlen(each) : "");
}

/* The sentence that refuses a plan goes on with what would make it fit. */
gp_status gp_remedy_refuse(const gp_session *session, const gp_plan_choice *now, int worker, const char *missing,
                           gp_error *err) {
    gp_place place = session->config->pipeline.devices[worker].place;
    gp_error cause = *err;
    int64_t budget = REMEDY_BUDGET, norm[2] = {gp_plan_norm_samples(session->plan).least};
    char why[GP_ERROR_TEXT / 2] = "", text[REMEDY_TEXT];
    bool layer = strncmp(missing, "layer ", 6) == 0;
    if (layer) snprintf(why, sizeof why, "; by the sizes of single layers: %.900s", missing);
    gp_plan_choice then;
    int64_t most = trains_norms(session) ? now->micro_batches : most_micro_batches(session);
    bool found = find_remedy(session, now, now->micro_batches, most, true, &budget, &then, &norm[1]);
    if (!found && missing[0] && !layer) describe_least(session, now, missing, why, sizeof why);
    if (found)
        describe_remedy(text, now, &then, 0, norm);
    else
        find_last_resort(session, now, &budget, layer, norm, text);
    return gp_fail_at(err, GP_CONFIG, place, "the plan does not fit: %s%s; %s%s", cause.text, why,
                      found ? "it fits with " : "", text);
}

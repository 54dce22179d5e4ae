#include "tune/search.h"

#include <stdlib.h>
#include <string.h>

#include "balance/expect.h"
#include "base/machine_processors.h"
#include "base/memory.h"
#include "base/share.h"
#include "base/ticker.h"
#include "model/graph.h"
#include "profile/profile_file.h"
#include "profile/profile_words.h"
#include "session/devices.h"
#include "session/session.h"
#include "tune/search_stages.h"

enum { MOST_SIZES = 14, OWN_OVERRIDES = 7, OVERRIDE_TEXT = 80, MORE_MEASUREMENTS = 2 };

static const char *const schedules[] = {"gpipe", "1f1b", "{interleaved: {chunks: 2}}", "zb_h1", "zb_h2", "zb_v"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules, ON_ONE_DEVICE = 2 };

/* Of so many samples of a micro-batch, on devices with so many threads. */
typedef struct kept_profile {
    int64_t samples;
    int threads;         /* gp_search_way.threads */
    gp_profile *profile; /* NULL: none yet */
} kept_profile;

typedef struct searcher {
    const gp_search_request *request;
    gp_search *search;
    const char **overrides; /* the request's, then its own */
    char own[OWN_OVERRIDES - 2][OVERRIDE_TEXT];
    const gp_search_way *way; /* that is tried now */
    double seconds;           /* that measuring one number of samples may take */
    kept_profile *profiles;   /* of all that are met */
    size_t profile_count, profile_capacity;
    int sizes[MOST_SIZES];
    int size_count;
    bool limited; /* some device has a memory */
    gp_ticker ticker;
    int begun; /* plans, for the ticker */
} searcher;

static void set_overrides(searcher *s, int micro_batches, const char *schedule, gp_checkpoint_mode checkpoint) {
    snprintf(s->own[0], OVERRIDE_TEXT, "pipeline.micro_batches=%d", micro_batches);
    snprintf(s->own[1], OVERRIDE_TEXT, "pipeline.balance=auto");
    snprintf(s->own[2], OVERRIDE_TEXT, "pipeline.schedule=%s", schedule);
    snprintf(s->own[3], OVERRIDE_TEXT, "pipeline.checkpoint=%s", gp_checkpoint_mode_name(checkpoint));
    snprintf(s->own[4], OVERRIDE_TEXT, "pipeline.lockstep=auto");
    const char **at = s->overrides + s->request->override_count;
    for (int i = 0; i < OWN_OVERRIDES - 2; i++) *at++ = s->own[i];
    *at++ = "pipeline.replicas=1";
    *at = s->way->set;
}

gp_status gp_search_load(const char *path, const char *const *overrides, int override_count, gp_config **out,
                         gp_error *err) {
    static const char *const aside[] = {"pipeline.balance=auto", "pipeline.schedule=gpipe",
                                        "pipeline.checkpoint=never"};
    enum { ASIDE = sizeof aside / sizeof *aside };
    const char **all = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&all, (size_t)override_count + ASIDE, err));
    for (int i = 0; i < override_count; i++) all[i] = overrides[i];
    for (int i = 0; i < ASIDE; i++) all[override_count + i] = aside[i];
    gp_status status = gp_config_load(GP_TO_RUN, path, all, override_count + ASIDE, out, err);
    free(all);
    return status;
}

static void fini_candidate(gp_candidate *it) {
    free(it->checkpoint);
    free(it->layers);
    free(it->arena);
}

static gp_status take_plan(const gp_session *session, const gp_plan *plan, gp_candidate *it, gp_error *err) {
    gp_expectation expected = {0};
    int mini = gp_plan_find(plan, true, session->config->data.batch);
    if (mini < 0) return gp_fail(err, GP_INTERNAL, "no plan for a full mini-batch");
    it->stages = plan->stages->numbers;
    it->workers = plan->workers;
    it->threads = gp_plan_host_threads(plan);
    GP_RETURN_IF_FAILED(GP_NEW(&it->layers, it->stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&it->arena, it->workers, err));
    memcpy(it->layers, session->layers, (size_t)it->stages * sizeof *it->layers);
    memcpy(it->arena, plan->arena, (size_t)it->workers * sizeof *it->arena);
    for (int w = 0; w < it->workers; w++)
        if (it->arena[w] > it->memory) it->memory = it->arena[w];
    GP_RETURN_IF_FAILED(gp_expect(plan, mini, session->profile, &expected, err));
    it->seconds = expected.seconds;
    it->norm = gp_plan_norm_samples(plan);
    it->bubble = expected.bubble;
    free(expected.busy);
    return GP_OK;
}

/* Samples of the largest share of a micro-batch. */
static int64_t samples_of(const gp_search *search, const gp_search_way *way, int micro_batches) {
    int64_t piece = (search->config->data.batch + micro_batches - 1) / micro_batches;
    return gp_share_of(piece, way->replicas, 0).count;
}

/* Whether the last replica would have no sample of a full mini-batch. What is configured is tried nevertheless. */
static bool leaves_idle(const gp_search *search, const gp_search_way *way, int micro_batches) {
    int64_t piece = (search->config->data.batch + micro_batches - 1) / micro_batches;
    return !way->configured && gp_share_takers(piece, way->replicas) < way->replicas;
}

static kept_profile *find_profile(const searcher *s, const gp_search_way *way, int micro_batches) {
    int64_t samples = samples_of(s->search, way, micro_batches);
    for (size_t i = 0; i < s->profile_count; i++)
        if (s->profiles[i].samples == samples && s->profiles[i].threads == way->threads) return &s->profiles[i];
    return NULL;
}

static gp_status open_once(searcher *s, int micro_batches, bool again, gp_session **out, gp_error *err) {
    const gp_search_request *request = s->request;
    kept_profile *kept = find_profile(s, s->way, micro_batches);
    gp_config *config = NULL;
    GP_RETURN_IF_FAILED(gp_config_load(GP_TO_RUN, request->config, s->overrides,
                                       request->override_count + OWN_OVERRIDES - 2 * s->way->configured, &config, err));
    const gp_session_options options = {.balances = true,
                                        .tries = true,
                                        .processes = request->processes,
                                        .machines = request->machines,
                                        .profiling = GP_PROFILING_MEASURE,
                                        .helpers = request->helpers,
                                        .profile = request->profile,
                                        .given = request->profile ? NULL : &kept->profile,
                                        .again = again || request->again,
                                        .seconds = s->seconds,
                                        .processors = request->processors,
                                        .notice = again && !s->ticker.terminal ? NULL : request->notice,
                                        .machine = request->machine};
    return gp_session_open(&config, &options, out, err);
}

/* With a profile that was disturbed, another one is measured. */
static gp_status open_candidate(searcher *s, int micro_batches, gp_session **out, gp_error *err) {
    kept_profile *kept = find_profile(s, s->way, micro_batches);
    bool has = s->request->profile || kept->profile;
    GP_RETURN_IF_FAILED(open_once(s, micro_batches, false, out, err));
    for (int i = 0; i < MORE_MEASUREMENTS && !has && gp_profile_is_disturbed((*out)->profile); i++) {
        gp_session_close(out);
        GP_RETURN_IF_FAILED(open_once(s, micro_batches, true, out, err));
    }
    return GP_OK;
}

static void note_why(gp_search *search, const gp_candidate *it, const char *checkpoint, const char *why) {
    if (search->why[0]) return;
    snprintf(search->why, sizeof search->why, "%d micro-batch%s, schedule %s, checkpoint %s: %s", it->micro_batches,
             it->micro_batches == 1 ? "" : "es", it->schedule, checkpoint, why);
}

/* What a plan cannot be is remembered, not an error; what would stop any run is one, as memory that has run out. A plan
 * that is too large for what is left is GP_UNSUPPORTED (plan/plan_size.h). */
static bool is_refusal(gp_status status) {
    return status == GP_CONFIG || status == GP_UNSUPPORTED;
}

/* *it is taken over, whatever happens. */
static gp_status add(gp_search *search, gp_status status, gp_candidate *it, gp_error *err) {
    if (status == GP_OK) status = GP_GROW(&search->items, &search->capacity, search->count + 1, err);
    if (status == GP_OK)
        search->items[search->count++] = *it;
    else
        fini_candidate(it);
    return status;
}

/* Where memory suffices, less recomputing is none, and that may have been tried. */
static bool is_known(const gp_search *search, const gp_candidate *it) {
    for (size_t i = 0; i < search->count; i++) {
        const gp_candidate *other = &search->items[i];
        if (other->micro_batches == it->micro_batches && other->way == it->way &&
            strcmp(other->schedule, it->schedule) == 0 && strcmp(other->checkpoint, it->checkpoint) == 0 &&
            memcmp(other->layers, it->layers, (size_t)it->stages * sizeof *it->layers) == 0)
            return true;
    }
    return false;
}

/* The cut of a session that recomputes everywhere, with less of that where there is room. */
static gp_status try_stages(searcher *s, const gp_session *session, const gp_candidate *always, gp_error *err) {
    gp_stage_policy policy;
    gp_candidate it = {.way = s->way, .micro_batches = always->micro_batches, .schedule = always->schedule};
    gp_status status = gp_search_stages(session, &policy, err);
    if (status == GP_OK && policy.plan) {
        status = take_plan(session, policy.plan, &it, err);
        if (status == GP_OK) status = gp_stage_policy_text(session, &policy, &it.checkpoint, err);
        bool known = status == GP_OK && is_known(s->search, &it);
        s->search->tried += !known;
        if (known)
            fini_candidate(&it);
        else
            status = add(s->search, status, &it, err);
    }
    gp_stage_policy_fini(&policy);
    if (!is_refusal(status)) return status;
    *err = (gp_error){0}; /* the candidates with one mode say why */
    return GP_OK;
}

static gp_status add_fitting(searcher *s, const gp_session *session, gp_candidate *it, gp_checkpoint_mode checkpoint,
                             gp_error *err) {
    gp_status status = gp_copy_text(&it->checkpoint, gp_checkpoint_mode_name(checkpoint), err);
    if (status == GP_OK) status = take_plan(session, session->plan, it, err);
    status = add(s->search, status, it, err);
    if (status != GP_OK || checkpoint != GP_CHECKPOINT_ALWAYS || !s->limited) return status;
    return try_stages(s, session, it, err);
}

static void note_profile(gp_search *search, const gp_profile *profile) {
    double slowdown = gp_profile_slowdown(profile), spread = gp_profile_spread(profile);
    if (profile->taken > 0 && (search->oldest == 0 || profile->taken < search->oldest)) search->oldest = profile->taken;
    if (slowdown > search->slowdown) search->slowdown = slowdown;
    if (spread > search->spread) search->spread = spread;
    if (search->disturbed || !gp_profile_is_disturbed(profile)) return;
    search->disturbed = true;
    (void)gp_profile_disturbance(search->disturbance, profile);
}

static gp_status try(searcher *s, int micro_batches, const char *schedule, gp_checkpoint_mode checkpoint,
                     gp_error *err) {
    gp_search *search = s->search;
    gp_session *session = NULL;
    gp_candidate it = {.way = s->way, .micro_batches = micro_batches, .schedule = schedule};
    set_overrides(s, micro_batches, schedule, checkpoint);
    search->tried++;
    if (leaves_idle(search, s->way, micro_batches)) {
        search->refused++;
        note_why(search, &it, gp_checkpoint_mode_name(checkpoint), "a replica would have no sample of a mini-batch");
        return GP_OK;
    }
    gp_status status = open_candidate(s, micro_batches, &session, err);
    if (is_refusal(status)) {
        search->refused++;
        note_why(search, &it, gp_checkpoint_mode_name(checkpoint), err->text);
        *err = (gp_error){0};
        return GP_OK;
    }
    if (status != GP_OK) return status;
    search->measured += session->measured.rounds > 0;
    note_profile(search, session->profile);
    if (session->unfit.status == GP_OK) {
        status = add_fitting(s, session, &it, checkpoint, err);
    } else {
        search->too_large++;
        note_why(search, &it, gp_checkpoint_mode_name(checkpoint), session->unfit.text);
    }
    if (!s->request->profile) {
        find_profile(s, s->way, micro_batches)->profile = session->profile;
        session->profile = NULL;
    }
    gp_session_close(&session);
    return status;
}

static void add_size(searcher *s, int64_t size) {
    for (int i = 0; i < s->size_count; i++)
        if (s->sizes[i] == size) return;
    if (s->size_count < MOST_SIZES) s->sizes[s->size_count++] = (int)size;
}

/* What is wrong with the model is so with all plans. */
static gp_status check_model(const gp_config *config, int *layers, gp_error *err) {
    gp_graph *graph = NULL;
    gp_status status = gp_graph_build(config->model, &graph, err);
    if (status == GP_OK) *layers = graph->layer_count;
    gp_graph_destroy(&graph);
    return status;
}

/* A profile that the user names may have no times of CPU devices with other threads. */
static gp_status drop_untimed(searcher *s, gp_error *err) {
    gp_search_ways *ways = &s->search->ways;
    gp_profile *profile = NULL;
    if (!s->request->profile) return GP_OK;
    GP_RETURN_IF_FAILED(gp_profile_read(s->request->profile, &profile, err));
    size_t left = 0;
    for (size_t w = 0; w < ways->count; w++) {
        bool timed = ways->items[w].threads == 0;
        for (int d = 0; d < profile->device_count; d++)
            timed = timed || (strcmp(profile->devices[d].kind, "cpu") == 0 &&
                              profile->devices[d].threads == ways->items[w].threads);
        if (!timed) s->search->untimed = ways->items[w].threads;
        if (timed)
            ways->items[left++] = ways->items[w];
        else
            gp_search_way_fini(&ways->items[w]);
    }
    ways->count = left;
    gp_profile_destroy(&profile);
    return GP_OK;
}

/* Not if there are several processes: each thread belongs to one. */
static gp_status list_ways(searcher *s, int layers, gp_error *err) {
    const gp_pipeline_config *pipeline = &s->search->config->pipeline;
    bool alone = s->request->processes <= 1 && pipeline->links.processes <= 1;
    for (int d = 0; d < pipeline->device_count; d++) alone = alone && pipeline->devices[d].rank < 0;
    const gp_search_ways_request request = {.pipeline = pipeline,
                                            .replicas = s->request->frees_replicas,
                                            .few = s->search->few,
                                            .processors = alone ? s->search->processors : 0,
                                            .most = layers};
    GP_RETURN_IF_FAILED(gp_search_ways_list(&request, &s->search->ways, err));
    return drop_untimed(s, err);
}

static int threads_of(const gp_device_config *device) {
    return strcmp(device->kind, "cuda") == 0 ? 0 : device->threads > 1 ? device->threads : 1;
}

/* As many of the first devices as have a processor for each of their threads, and one at least. */
static void find_few(searcher *s) {
    gp_search *search = s->search;
    const gp_pipeline_config *pipeline = &search->config->pipeline;
    int count = pipeline->device_count, threads = 0;
    search->processors = s->request->processors > 0 ? s->request->processors : gp_machine_processors();
    for (int d = 0; d < count; d++) {
        search->threads += threads_of(&pipeline->devices[d]);
        if (search->threads <= search->processors) threads = d + 1;
    }
    bool fewer = search->threads > search->processors && count > 1 && !pipeline->replicated;
    if (fewer) search->few = threads > 0 ? threads : 1;
}

/* Each number of samples is measured once. */
static gp_status list_profiles(searcher *s, gp_error *err) {
    for (size_t w = 0; w < s->search->ways.count; w++)
        for (int i = 0; i < s->size_count; i++) {
            const gp_search_way *way = &s->search->ways.items[w];
            if (find_profile(s, way, s->sizes[i])) continue;
            GP_RETURN_IF_FAILED(GP_GROW(&s->profiles, &s->profile_capacity, s->profile_count + 1, err));
            s->profiles[s->profile_count++] =
                (kept_profile){samples_of(s->search, way, s->sizes[i]), way->threads, NULL};
        }
    s->seconds = s->request->seconds / (double)s->profile_count;
    return GP_OK;
}

/* What the configuration says; if it is searched too, powers of two and a micro-batch for each sample. */
static gp_status find_sizes(searcher *s, gp_error *err) {
    int layers = 0;
    GP_RETURN_IF_FAILED(
        gp_search_load(s->request->config, s->request->overrides, s->request->override_count, &s->search->config, err));
    const gp_config *config = s->search->config;
    GP_RETURN_IF_FAILED(check_model(config, &layers, err));
    int64_t batch = config->data.batch;
    int64_t most = batch < GP_MAX_MICRO_BATCHES ? batch : GP_MAX_MICRO_BATCHES;
    bool frees = s->request->frees_micro_batches;
    if (!frees || config->pipeline.micro_batches <= most) add_size(s, config->pipeline.micro_batches);
    for (int64_t m = 1; m <= most && frees; m *= 2) add_size(s, m);
    if (frees) add_size(s, most);
    for (int d = 0; d < config->pipeline.device_count; d++) s->limited |= config->pipeline.devices[d].memory > 0;
    find_few(s);
    GP_RETURN_IF_FAILED(list_ways(s, layers, err));
    return list_profiles(s, err);
}

static int compare(const void *a, const void *b) {
    const gp_candidate *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    if (x->memory != y->memory) return x->memory < y->memory ? -1 : 1;
    return x->micro_batches - y->micro_batches;
}

/* Fewest stages, then fewest micro-batches, then fewest workers. */
static int compare_simplicity(const gp_candidate *x, const gp_candidate *y) {
    if (x->stages != y->stages) return x->stages - y->stages;
    if (x->micro_batches != y->micro_batches) return x->micro_batches - y->micro_batches;
    return x->workers - y->workers;
}

static int compare_unranked(const void *a, const void *b) {
    int order = compare_simplicity(a, b);
    return order ? order : compare(a, b);
}

/* See gp_search.items. */
static void recommend(gp_search *search) {
    gp_candidate *items = search->items;
    size_t from = 0, best;
    while (from < search->count && items[from].threads > search->processors) from++;
    bool few = from < search->count && items[from].seconds <= (1 + GP_SEARCH_GAIN) * items[0].seconds;
    if (!few) from = 0;
    best = from;
    for (size_t i = from; i < search->count; i++) {
        if (items[i].seconds > (1 + search->spread) * items[from].seconds) break;
        if (few && items[i].threads > search->processors) continue;
        items[i].equal = true;
        if (compare_simplicity(&items[i], &items[best]) < 0) best = i;
    }
    gp_candidate chosen = items[best];
    memmove(items + 1, items, best * sizeof *items);
    items[0] = chosen;
}

static int count_schedules(const gp_search_way *way) {
    return way->entries > 1 ? SCHEDULES : ON_ONE_DEVICE;
}

static void tell_progress(searcher *s) {
    if (!gp_ticker_is_due(&s->ticker)) return;
    int kinds = 0;
    for (size_t w = 0; w < s->search->ways.count; w++) kinds += count_schedules(&s->search->ways.items[w]);
    gp_ticker_say(&s->ticker, "trying plans: %d of %d", s->begun + 1,
                  s->size_count * kinds * (GP_CHECKPOINT_ALWAYS + 1));
}

static gp_status try_size(searcher *s, int micro_batches, gp_error *err) {
    for (int k = 0; k < count_schedules(s->way); k++) {
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            tell_progress(s);
            s->begun++;
            GP_RETURN_IF_FAILED(try(s, micro_batches, schedules[k], (gp_checkpoint_mode)mode, err));
        }
    }
    return GP_OK;
}

/* A profile has the times of all devices, and so of fewer. */
static gp_status try_all(searcher *s, gp_error *err) {
    for (int i = 0; i < s->size_count; i++)
        for (size_t w = 0; w < s->search->ways.count; w++) {
            s->way = &s->search->ways.items[w];
            GP_RETURN_IF_FAILED(try_size(s, s->sizes[i], err));
        }
    if (s->search->count == 0)
        return gp_fail(err, GP_CONFIG, "none of %d plans fits; the first one, %s", s->search->tried, s->search->why);
    qsort(s->search->items, s->search->count, sizeof *s->search->items,
          s->search->disturbed ? compare_unranked : compare);
    if (!s->search->disturbed) recommend(s->search);
    return GP_OK;
}

gp_status gp_search_run(const gp_search_request *request, gp_search *out, gp_error *err) {
    *out = (gp_search){.request = request};
    searcher s = {.request = request, .search = out, .ticker = gp_ticker_on(request->notice)};
    GP_RETURN_IF_FAILED(GP_NEW(&s.overrides, request->override_count + OWN_OVERRIDES, err));
    for (int i = 0; i < request->override_count; i++) s.overrides[i] = request->overrides[i];
    gp_status status = find_sizes(&s, err);
    if (status == GP_OK) status = try_all(&s, err);
    gp_ticker_end(&s.ticker);
    for (size_t i = 0; i < s.profile_count; i++) gp_profile_destroy(&s.profiles[i].profile);
    free(s.profiles);
    free(s.overrides);
    return status;
}

void gp_search_fini(gp_search *search) {
    for (size_t i = 0; i < search->count; i++) fini_candidate(&search->items[i]);
    free(search->items);
    gp_search_ways_fini(&search->ways);
    gp_config_destroy(&search->config);
    *search = (gp_search){0};
}

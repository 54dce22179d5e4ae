/* Runs of several processes, without MPI: each process is a run of this one, and messages go over a wire between them
 * that delivers late and in other orders. The bits are those of one run; what fails ends all. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/follow.h"
#include "pipeline/harness.h"
#include "pipeline/lookout.h"
#include "pipeline/channel.h"
#include "pipeline/networks.h"
#include "pipeline/wrapper.h"
#include "plan/loads.h"
#include "process/loop_wire.h"

enum { MOST = 4, WORKERS = 8, TEXT = 4096 };

/* One process: a run, and the thread that is its trainer's. */
typedef struct member {
    harness h;
    pthread_t thread;
    gp_error err;
    gp_status status;
    struct team *team;
} member;

typedef struct team {
    member member[MOST];
    int processes;
    loop_hub *hub;
    pthread_mutex_t lock; /* nothing is cancelled while runs are destroyed */
    bool over;
} team;

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* Steps, then evaluations one right after the other: only the workers hold them up. */
static uint64_t steps_and_evaluations(harness *h, int steps) {
    gp_error err = {0};
    gp_step_result result;
    uint64_t found = harness_steps(h, steps);
    for (uint32_t i = 0; i < 4; i++) {
        must(harness_step(h, h->options.evaluation, false, 1 + i, &result, &err), &err);
        found = gp_hash_bytes(found, &result.loss_sum, sizeof result.loss_sum);
    }
    return found;
}

/* ---- a team ------------------------------------------------------------------------------------------------------ */

/* As the guards of the processes do. */
static void end_all(team *its, const gp_error *cause) {
    pthread_mutex_lock(&its->lock);
    for (int p = 0; p < its->processes && !its->over; p++)
        if (its->member[p].h.run) (void)gp_cancel_raise(gp_run_cancel(its->member[p].h.run), cause);
    pthread_mutex_unlock(&its->lock);
}

static void message_failed(void *context, int rank, const gp_error *cause) {
    gp_error named = *cause;
    snprintf(named.text, sizeof named.text, "rank %d: %.400s", rank, cause->text);
    end_all(context, &named);
}

/* What the process loads stays, and all else becomes garbage: 0xFF is not a number, and no class. */
static void spoil_rest(harness *h, int value, int64_t samples, bool training, char *memory, size_t sample) {
    const gp_mini_plan *mini = &h->plan->minis[gp_plan_find(h->plan, training, samples)];
    gp_share kept = {0, 0};
    for (int64_t from = 0; from < samples; from = kept.first + kept.count) {
        kept = gp_mini_loads(h->plan, mini, h->plan->rank, value, from);
        memset(memory + (size_t)from * sample, 0xFF, (size_t)(kept.first - from) * sample);
        if (kept.count == 0) return;
    }
}

/* Targets of even classes, of those that the process loads: more or fewer than there are if it lies. */
static int64_t count_even(const harness *h, const gp_mini_plan *mini, int64_t lie) {
    int64_t counted = lie;
    for (gp_share its = {0, 0};;) {
        its = gp_mini_loads(h->plan, mini, h->plan->rank, GP_VALUE_TARGET, its.first + its.count);
        if (its.count == 0) return counted;
        for (int64_t i = its.first; i < its.first + its.count; i++) counted += ((int64_t *)h->target)[i] % 2 == 0;
    }
}

static int64_t lie; /* of all that follow */

static gp_status take(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      int64_t *counted, gp_error *err) {
    harness *h = context;
    if (epoch != 0) return gp_fail(err, GP_INTERNAL, "epoch %d", (int)epoch);
    harness_make_data(h, samples, (uint32_t)index);
    *counted = count_even(h, &h->plan->minis[gp_plan_find(h->plan, training, samples)], lie);
    size_t real = gp_dtype_size(h->plan->types.storage), class = sizeof(int64_t);
    spoil_rest(h, GP_VALUE_INPUT, samples, training, h->input, (size_t)h->input_elements * real);
    spoil_rest(h, GP_VALUE_TARGET, samples, training, h->target, class);
    out->input = h->input;
    out->target = h->target;
    return GP_OK;
}

static void *follow(void *argument) {
    member *own = argument;
    const gp_feed feed = {&own->h, take, NULL};
    bool goes_on = true;
    own->status = gp_run_follow(own->h.run, &feed, &goes_on, &own->err);
    if (own->status == GP_OK && goes_on) own->status = gp_fail(&own->err, GP_INTERNAL, "no other run follows");
    if (own->status != GP_OK) end_all(own->team, &own->err);
    return NULL;
}

/* Plans and runs; hooks of the process `hooked` only, −1: of all. */
static void begin(team *its, const harness_options *options, int processes, const int *process, uint64_t seed,
                  const gp_hooks *hooks, int hooked) {
    gp_error err = {0};
    memset(its, 0, sizeof *its);
    its->processes = processes;
    pthread_mutex_init(&its->lock, NULL);
    its->hub = loop_open(processes, seed, seed % 2 ? 300 : 0, message_failed, its);
    for (int p = 0; p < processes; p++) {
        harness_options own = *options;
        own.processes = processes;
        own.rank = p;
        own.process = process;
        harness_plan(&its->member[p].h, &own);
        its->member[p].team = its;
        const gp_hooks *use = hooked < 0 || hooked == p ? hooks : NULL;
        must(gp_run_create_team(its->member[p].h.plan, use, loop_wire_of(its->hub, p), &its->member[p].h.run, &err),
             &err);
    }
    for (int p = 1; p < processes; p++)
        assert_int_equal(gp_thread_start(&its->member[p].thread, 0, follow, &its->member[p]), 0);
}

/* After a failure all runs are cancelled; else process 0 calls for the end when its run is destroyed. */
static void end(team *its) {
    gp_run *first = its->member[0].h.run;
    bool failed = gp_cancelled(gp_run_cancel(first));
    if (!failed) gp_run_destroy(&its->member[0].h.run);
    for (int p = 1; p < its->processes; p++) pthread_join(its->member[p].thread, NULL);
    pthread_mutex_lock(&its->lock);
    its->over = true;
    pthread_mutex_unlock(&its->lock);
    for (int p = 0; p < its->processes; p++) harness_end(&its->member[p].h);
    if (!failed) assert_int_equal(loop_held(its->hub), 0);
    loop_close(&its->hub);
    pthread_mutex_destroy(&its->lock);
    for (int p = 1; p < its->processes && !failed; p++) must(its->member[p].status, &its->member[p].err);
}

static uint64_t train_alone(const harness_options *options, int steps) {
    harness h;
    harness_plan(&h, options);
    harness_start(&h, NULL);
    uint64_t found = steps_and_evaluations(&h, steps);
    harness_end(&h);
    return found;
}

static uint64_t train(const harness_options *options, int processes, const int *process, uint64_t seed, int steps) {
    static team its;
    gp_error err = {0};
    begin(&its, options, processes, process, seed, NULL, -1);
    must(harness_fill(&its.member[0].h, &err), &err);
    uint64_t found = steps_and_evaluations(&its.member[0].h, steps);
    assert_true(loop_delivered(its.hub) > 0);
    end(&its);
    return found;
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

typedef struct way {
    const char *name;
    gp_schedule schedule;
    gp_checkpoint_mode checkpoint;
    int stages;
    int64_t layers[WORKERS];
    int replicas[WORKERS];
    int processes, process[WORKERS];
    bool lockstep, shards;
    double clip_norm;
    const char *sync; /* of all batch norms; NULL: none */
    size_t bucket;    /* 0: as chosen */
} way;

#define SCHEDULED(its, n)                                                                                              \
    { .kind = GP_SCHEDULE_##its, .chunks = (n) }
static const way ways[] = {
    {"gpipe, 2",
     SCHEDULED(GPIPE, 0),
     GP_CHECKPOINT_EXCEPT_LAST,
     2,
     {6, 11},
     {1, 1},
     2,
     .process = {0, 1},
     .clip_norm = 0.5},
    {"in lockstep",
     SCHEDULED(GPIPE, 0),
     GP_CHECKPOINT_ALWAYS,
     3,
     {2, 6, 9},
     {1, 1, 1},
     3,
     .process = {0, 1, 2},
     .lockstep = true},
    {"the last one first", SCHEDULED(GPIPE, 0), GP_CHECKPOINT_NEVER, 3, {2, 6, 9}, {1, 1, 1}, 2, .process = {1, 0, 1}},
    {"1f1b", SCHEDULED(1F1B, 0), GP_CHECKPOINT_EXCEPT_LAST, 4, {2, 4, 2, 9}, {1, 1, 1, 1}, 3, .process = {0, 1, 1, 2}},
    {"1f1b, 4",
     SCHEDULED(1F1B, 0),
     GP_CHECKPOINT_ALWAYS,
     4,
     {2, 4, 2, 9},
     {1, 1, 1, 1},
     4,
     .process = {3, 2, 1, 0},
     .clip_norm = 0.5},
    {"interleaved", SCHEDULED(INTERLEAVED, 2), GP_CHECKPOINT_ALWAYS, 4, {2, 3, 4, 8}, {1, 1}, 2, .process = {0, 1}},
    {"zb_h1", SCHEDULED(ZB_H1, 0), GP_CHECKPOINT_NEVER, 3, {2, 6, 9}, {1, 1, 1}, 3, .process = {2, 0, 1}},
    {"zb_h2", SCHEDULED(ZB_H2, 0), GP_CHECKPOINT_NEVER, 4, {1, 1, 4, 11}, {1, 1, 1, 1}, 2, .process = {0, 0, 1, 1}},
    {"zb_v", SCHEDULED(ZB_V, 0), GP_CHECKPOINT_EXCEPT_LAST, 4, {2, 3, 4, 8}, {1, 1}, 2, .process = {1, 0}},
    {"replicas", SCHEDULED(GPIPE, 0), GP_CHECKPOINT_EXCEPT_LAST, 2, {6, 11}, {2, 2}, 2, .process = {0, 1, 0, 1}},
    {"replicas, mixed",
     SCHEDULED(1F1B, 0),
     GP_CHECKPOINT_NEVER,
     2,
     {6, 11},
     {2, 2},
     3,
     .process = {0, 0, 1, 2},
     .clip_norm = 0.5},
    {"unequal replicas", SCHEDULED(GPIPE, 0), GP_CHECKPOINT_ALWAYS, 2, {6, 11}, {3, 1}, 2, .process = {0, 1, 1, 0}},
    {"shards", SCHEDULED(1F1B, 0), GP_CHECKPOINT_NEVER, 2, {6, 11}, {2, 2}, 4, .process = {0, 1, 2, 3}, .shards = true},
    {"synchronised",
     SCHEDULED(1F1B, 0),
     GP_CHECKPOINT_EXCEPT_LAST,
     2,
     {6, 11},
     {3, 2},
     3,
     .process = {0, 1, 2, 1, 0},
     .sync = "true",
     .bucket = 512},
    {"synchronised by twos",
     SCHEDULED(GPIPE, 0),
     GP_CHECKPOINT_ALWAYS,
     1,
     {17},
     {4},
     4,
     .process = {0, 1, 2, 3},
     .shards = true,
     .sync = "2"},
};

/* The model, with a rule for its batch norms. */
static const char *model_of(const way *its, char text[TEXT]) {
    assert_true(strlen(network_skips) + 64 < TEXT);
    strcpy(text, network_skips);
    if (its->sync) sprintf(text + strlen(text), "rules: {batch_norm: {sync: %s}}\n", its->sync);
    return text;
}

static harness_options options_of(const way *its, char text[TEXT]) {
    return (harness_options){.model = model_of(its, text),
                             .bucket = its->bucket,
                             .layers = its->layers,
                             .stages = its->stages,
                             .schedule = its->schedule,
                             .replicas = its->replicas,
                             .kind = &gp_cpu_kind,
                             .checkpoint = its->checkpoint,
                             .lockstep = its->lockstep,
                             .shard_optimizer = its->shards,
                             .clip_norm = its->clip_norm,
                             .micro_batches = 3,
                             .batch = 27,
                             .last = 18,
                             .evaluation = 27};
}

static void processes_change_no_bit(void **state) {
    (void)state;
    int steps = test_pick(2, 3, 8), seeds = test_pick(1, 2, 10);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        char text[TEXT];
        const harness_options options = options_of(&ways[w], text);
        uint64_t expected = train_alone(&options, steps);
        for (int s = 0; s < seeds; s++) {
            uint64_t seed = (uint64_t)test_seed() * 100 + w + (uint64_t)s;
            if (train(&options, ways[w].processes, ways[w].process, seed, steps) != expected)
                fail_msg("%s, seed %d: other bits", ways[w].name, (int)seed);
        }
    }
}

/* ---- sums within a backward -------------------------------------------------------------------------------------- */

/* Process 0, which has replica 0. */
typedef struct summing {
    const gp_run *run;
    bool within, found; /* its last backward; an addition of parts */
} summing;

/* The instruction that collects the gradients of bucket 0. */
static const gp_instr *first_collect(const gp_plan *plan, const gp_mini_plan *mini) {
    const gp_early_sum *sums = mini->early[0].sums;
    if (mini->early[0].sum_count != (size_t)plan->stages->stage[0].buckets) return NULL;
    return &mini->programs->worker[0].instrs[sums[0].collect];
}

/* Within the last backward each op after the post of bucket 0 waits until the other replica's part of it is there. */
static gp_status await_part(void *context, const wrapper_call *call, gp_error *err) {
    summing *its = context;
    if (!its->run || call->kind != WRAPPER_RUN) return GP_OK;
    const gp_worker *worker = &its->run->workers[0];
    if (call->arena != (unsigned char *)worker->arena || !its->within) return GP_OK;
    const gp_plan *plan = its->run->plan;
    const gp_mini_plan *mini = &plan->minis[0];
    const gp_stage_plan *stage = &plan->stage[0];
    const char *parts = worker->arena + stage->base + stage->parts;
    its->found = its->found || (call->prepared->desc.kind == GP_OP_ADD && call->operands[GP_ADD_B] == parts);
    const gp_instr *collect = first_collect(plan, mini);
    if (!collect) return gp_fail(err, GP_INTERNAL, "not all buckets can be added up early");
    const gp_joining *own = &its->run->joinings[gp_stages_place(plan->stages, collect->collective, 0)];
    if (!gp_signal_reached(&own->joined, 2 * worker->command)) return GP_OK;
    for (int tenth = 0; tenth < 600 && !gp_channel_is_there(worker, mini, collect); tenth++) usleep(100000);
    return gp_channel_is_there(worker, mini, collect) ? GP_OK : gp_fail(err, GP_INTERNAL, "no part arrives");
}

static gp_status enter(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    if (site->worker == 0) ((summing *)context)->within = site->instr->op == GP_INSTR_BACKWARD;
    return GP_OK;
}

/* What has arrived is added up before the backward is over. */
static void sums_are_found_within_a_backward(void **state) {
    (void)state;
    static team its;
    static const int64_t layers[] = {17};
    static const int replicas[] = {2}, process[] = {0, 1};
    summing seen = {.run = NULL};
    gp_error err = {0};
    const gp_hooks hooks = {.before = enter, .context = &seen};
    harness_options options = {.model = network_skips,
                               .layers = layers,
                               .stages = 1,
                               .replicas = replicas,
                               .bucket = 500,
                               .micro_batches = 1,
                               .batch = 24,
                               .kind = wrapper_kind(&gp_cpu_kind, &(wrapper_hooks){&seen, await_part, NULL})};
    begin(&its, &options, 2, process, 0, &hooks, 0);
    must(harness_fill(&its.member[0].h, &err), &err);
    seen.run = its.member[0].h.run;
    uint64_t bits = harness_steps(&its.member[0].h, 2);
    assert_true(seen.found);
    end(&its);
    options.kind = &gp_cpu_kind;
    assert_true(harness_train(&options, NULL, 2) == bits);
}

/* Buckets that each worker may add up early: between processes only, and only if its last backwards make no gradient
 * that another stage waits for. */
static void passes_that_others_wait_for_are_not_held_up(void **state) {
    (void)state;
    static const int64_t layers[][4] = {{6, 11}, {2, 3, 4, 8}};
    static const int replicas[] = {2, 2}, process[] = {0, 1, 0, 1};
    for (int n = 0; n < 3; n++) {
        harness h;
        harness_options options = {.model = network_skips,
                                   .layers = layers[n == 1],
                                   .stages = n == 1 ? 4 : 2,
                                   .schedule = SCHEDULED(GPIPE, 0),
                                   .replicas = replicas,
                                   .bucket = 500,
                                   .kind = &gp_cpu_kind,
                                   .micro_batches = 3,
                                   .batch = 27};
        if (n == 1) options.schedule = (gp_schedule)SCHEDULED(INTERLEAVED, 2);
        if (n < 2) options.processes = 2, options.process = process;
        harness_plan(&h, &options);
        const gp_stages *stages = h.plan->stages;
        for (int w = 0; w < 4; w++) {
            size_t buckets = 0, early = h.plan->minis[0].early[w].sum_count;
            for (int s = 0; s < stages->count; s++)
                buckets += h.plan->stage[s].worker == w ? (size_t)stages->stage[s].buckets : 0;
            assert_true(buckets > 1 && (n == 1 || (stages->stage[w].grad_out.count > 0) == (w >= 2)));
            /* Of an interleaved pair the first worker has stage 0, whose backwards are the last ones. */
            assert_int_equal(early, n == 2 || w >= 2 ? 0 : buckets);
        }
        harness_end(&h);
    }
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* Of each mini-batch, in whichever process the last stage is: the sum is that of all targets. */
static void the_processes_count_together(void **state) {
    (void)state;
    static team its;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        char text[TEXT];
        const harness_options options = options_of(&ways[w], text);
        gp_error err = {0};
        begin(&its, &options, ways[w].processes, ways[w].process, w, NULL, -1);
        harness *h = &its.member[0].h;
        for (int m = 0; m < h->plan->mini_count; m++) {
            const gp_mini_plan *mini = &h->plan->minis[m];
            const gp_step_input input = {.step = 1, .index = 10 + m};
            int64_t found, expected = 0;
            harness_make_data(h, mini->samples, (uint32_t)input.index);
            for (int64_t i = 0; i < mini->samples; i++) expected += ((int64_t *)h->target)[i] % 2 == 0;
            must(gp_run_count(h->run, m, &input, count_even(h, mini, 0), &found, &err), &err);
            if (found != expected) fail_msg("%s: %d targets of %d", ways[w].name, (int)found, (int)expected);
        }
        end(&its);
    }
}

/* A count that cannot be is refused. */
static void a_count_is_checked(void **state) {
    (void)state;
    static team its;
    static const int64_t lies[] = {-1000, 28, INT64_MAX / 2};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char text[TEXT];
        const harness_options options = options_of(&ways[0], text);
        const gp_step_input input = {.step = 1, .index = 1};
        int64_t found;
        gp_error err = {0};
        begin(&its, &options, 2, ways[0].process, 1, NULL, -1);
        lie = lies[i];
        gp_status status = gp_run_count(its.member[0].h.run, 0, &input, 0, &found, &err);
        lie = 0;
        assert_int_equal(status, GP_INTERNAL);
        assert_string_equal(err.text, "process 1 has counted more targets than there are");
        end_all(&its, &err);
        end(&its);
    }
}

/* ---- what fails -------------------------------------------------------------------------------------------------- */

static gp_status fail_late(void *context, const gp_site *site, gp_error *err) {
    const int *at = context;
    if (site->step != 2 || (int)site->pc != at[0]) return GP_OK;
    return gp_fail(err, GP_DATA, "the instruction %d failed", at[0]);
}

/* An instruction fails in one process: all end, with that cause. */
static void a_failure_ends_all(void **state) {
    (void)state;
    static team its;
    char text[TEXT];
    const harness_options options = options_of(&ways[1], text);
    for (int p = 0; p < 3; p++)
        for (int pc = 0; pc < 12; pc += 3) {
            gp_error err = {0};
            gp_step_result result;
            gp_hooks hooks = {.before = fail_late, .context = &pc};
            begin(&its, &options, 3, ways[1].process, (uint64_t)(p + pc), &hooks, p);
            must(harness_fill(&its.member[0].h, &err), &err);
            gp_status status = GP_OK;
            for (uint32_t s = 1; s < 4 && status == GP_OK; s++)
                status = harness_step(&its.member[0].h, options.batch, true, s, &result, &err);
            assert_int_equal(status, GP_DATA);
            char expected[64];
            snprintf(expected, sizeof expected, "the instruction %d failed", pc);
            if (!strstr(err.text, expected)) fail_msg("process %d, instruction %d: %s", p, pc, err.text);
            end_all(&its, &err);
            end(&its);
        }
}

/* An instruction of process 1 does not end until it is released. */
typedef struct hanging {
    gp_run *run;
    team *team;
    atomic_bool holds, released;
    gp_status status; /* of the looks */
} hanging;

static gp_status hold(void *context, const gp_site *site, gp_error *err) {
    hanging *its = context;
    (void)err;
    if (site->step != 2 || site->instr->op != GP_INSTR_FORWARD || site->instr->micro != 1) return GP_OK;
    atomic_store(&its->holds, true);
    while (!atomic_load(&its->released)) sched_yield();
    return GP_OK;
}

/* The guard of process 1. */
static void *look(void *argument) {
    hanging *its = argument;
    gp_lookout *lookout = NULL;
    gp_error err = {0};
    while (!atomic_load(&its->holds)) sched_yield();
    its->status = gp_lookout_create(its->run, 60, false, NULL, &lookout, &err);
    for (int s = 0; s < 70 && its->status == GP_OK; s++) its->status = gp_lookout_look(lookout, 1, &err);
    end_all(its->team, &err);
    atomic_store(&its->released, true);
    gp_lookout_destroy(&lookout);
    return NULL;
}

static void a_worker_that_hangs_ends_all(void **state) {
    (void)state;
    static team its;
    static hanging at;
    gp_error err = {0};
    gp_step_result result;
    pthread_t guard;
    char text[TEXT];
    const harness_options options = options_of(&ways[0], text);
    const gp_hooks hooks = {.before = hold, .context = &at};
    begin(&its, &options, 2, ways[0].process, 1, &hooks, 1);
    at.team = &its;
    at.run = its.member[1].h.run;
    must(harness_fill(&its.member[0].h, &err), &err);
    assert_int_equal(gp_thread_start(&guard, 0, look, &at), 0);
    gp_status status = GP_OK;
    for (uint32_t s = 1; s < 4 && status == GP_OK; s++)
        status = harness_step(&its.member[0].h, options.batch, true, s, &result, &err);
    pthread_join(guard, NULL);
    assert_int_equal(at.status, GP_LOST);
    assert_int_equal(status, GP_LOST);
    assert_string_equal(err.text, "process 1: worker 1 (cpu) has computed F s1 m1 for 61.0 s, longer than "
                                  "pipeline.timeout (60 s)");
    end(&its);
}

/* The two processes have other ideas of a mini-batch: one says which sizes are wrong, and both end. */
static void a_message_of_another_size_ends_all(void **state) {
    (void)state;
    static team its;
    gp_error err = {0};
    gp_step_result result;
    char text[TEXT];
    const harness_options options = options_of(&ways[0], text);
    begin(&its, &options, 2, ways[0].process, 1, NULL, -1);
    must(harness_fill(&its.member[0].h, &err), &err);
    char part[4] = {0};
    gp_parcel parcel;
    gp_parcel_init(&parcel);
    /* Before all others with this tag: the first micro-batch of the first edge, from process 0 to process 1. */
    gp_wire_send(loop_wire_of(its.hub, 0), &parcel, 1, 1, 0, part, sizeof part);
    gp_status status = harness_step(&its.member[0].h, options.batch, true, 1, &result, &err);
    assert_int_equal(status, GP_IO);
    assert_non_null(strstr(err.text, "rank 1: process 0 sent a message of another size than planned: 4 bytes, not "));
    end(&its);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_change_no_bit),
        cmocka_unit_test(sums_are_found_within_a_backward),
        cmocka_unit_test(passes_that_others_wait_for_are_not_held_up),
        cmocka_unit_test(the_processes_count_together),
        cmocka_unit_test(a_count_is_checked),
        cmocka_unit_test(a_failure_ends_all),
        cmocka_unit_test(a_worker_that_hangs_ends_all),
        cmocka_unit_test(a_message_of_another_size_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whole trainings on the CUDA device without a GPU: the recorder finds whatever no event orders, and executes what was
 * enqueued late and in strange orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/recorder.h"
#include "cuda/training.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda_staging.h"
#include "pipeline/networks.h"

/* `a` is used on every stage behind it. */
static const char network_a[] = "input: {shape: [2, 5, 4]}\n"
                                "layers:\n"
                                "  - conv: {out: 4, kernel: 3, pad: 1}\n"              /* 0 */
                                "  - batch_norm: {name: a}\n"                          /* 1 */
                                "  - relu\n"                                           /* 2 */
                                "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n" /* 3 */
                                "  - add: [-1, a]\n"                                   /* 4 */
                                "  - gelu\n"                                           /* 5 */
                                "  - concat: [-1, a, -1]\n"                            /* 6 */
                                "  - group_norm: 2\n"                                  /* 7 */
                                "  - conv: {out: 4, kernel: 1}\n"                      /* 8 */
                                "  - add: [a, -1]\n"                                   /* 9 */
                                "  - flatten\n"                                        /* 10 */
                                "  - linear: 5\n"                                      /* 11 */
                                "loss: cross_entropy\n";
static const char network_b[] = "input: {shape: [9]}\n"
                                "layers: [linear: 12, {relu: {name: a}}, linear: 12, silu, {add: [a, -1]}, linear: 7, "
                                "tanh, linear: 5]\n"
                                "loss: cross_entropy\n";
static const training_cut skips[] = {{network_a, 1, {12}}, {network_a, 2, {5, 7}}, {network_a, 4, {3, 3, 3, 3}}};
static const training_cut vectors[] = {{network_b, 1, {8}}, {network_b, 3, {3, 3, 2}}};

static training_outcome train_in(const harness_options *options, recorder_policy policy, uint64_t seed, bool alone) {
    gp_error err = {0};
    training_outcome out = {0};
    recorder_counts counts;
    recorder_begin(&(recorder_options){policy, seed, 4, -1, -1, 0, 0, 0});
    gp_status status = training_run(options, TRAINING_STEPS, alone, &out, &err);
    const char *sentence = recorder_end(&counts);
    if (sentence || status != GP_OK)
        fail_msg("%d stages, checkpoint %d, lockstep %d, policy %d: %s", options->stages, options->checkpoint,
                 options->lockstep, policy, sentence ? sentence : err.text);
    assert_true(counts.launches > 0 && counts.plans > 0 && counts.copies > 0);
    return out;
}

static training_outcome train_recorded(const harness_options *options, recorder_policy policy, uint64_t seed) {
    return train_in(options, policy, seed, false);
}

/* Every cut, mode, order, steps alone and behind one another: the same bits; and the CPU's numbers. */
static void check_network(const training_cut *cuts, size_t count) {
    harness_options options = training_options(&cuts[0], GP_CHECKPOINT_NEVER, false, 1);
    training_outcome first = train_in(&options, RECORDER_EAGER, 0, true), on_cpu = {0};
    gp_error err = {0};
    options.kind = &gp_cpu_kind;
    assert_int_equal(training_run(&options, TRAINING_STEPS, false, &on_cpu, &err), GP_OK);
    for (int i = 0; i < TRAINING_STEPS; i++)
        assert_true(fabs(first.losses[i] - on_cpu.losses[i]) <= 2e-5 * on_cpu.losses[i]);
    uint64_t seed = 0;
    for (size_t c = 0; c < count; c++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            for (int lockstep = 0; lockstep < 2; lockstep++)
                for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
                    if (!test_is_large() && (mode + lockstep + policy) % 2 != test_first(2)) continue;
                    options = training_options(&cuts[c], (gp_checkpoint_mode)mode, lockstep, policy % 2 ? 1 : 3);
                    training_outcome its = train_recorded(&options, (recorder_policy)policy, seed++);
                    assert_int_equal(its.hash, first.hash);
                }
}

static void skips_are_in_order(void **state) {
    (void)state;
    check_network(skips, sizeof skips / sizeof *skips);
}

static void vectors_are_in_order(void **state) {
    (void)state;
    check_network(vectors, sizeof vectors / sizeof *vectors);
}

/* The networks of the other devices' tests: dropout, pools, groups, dilation. */
static void other_networks_are_in_order(void **state) {
    (void)state;
    static const training_cut cuts[][2] = {
        {{network_skips, 1, {17}}, {network_skips, 4, {3, 4, 3, 7}}},
        {{network_pictures, 1, {16}}, {network_pictures, 3, {4, 6, 6}}},
        {{network_residual, 1, {22}}, {network_residual, 4, {6, 3, 9, 4}}},
    };
    const size_t block = gp_cuda_staging_block, most = gp_cuda_staging_most;
    for (size_t n = 0; n < sizeof cuts / sizeof *cuts; n++) {
        harness_options options = training_options(&cuts[n][0], GP_CHECKPOINT_NEVER, false, 1);
        training_outcome whole = train_recorded(&options, RECORDER_LAZY, 0);
        for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
            gp_checkpoint_mode mode = policy % 2 ? GP_CHECKPOINT_ALWAYS : GP_CHECKPOINT_EXCEPT_LAST;
            options = training_options(&cuts[n][1], mode, policy < 2, 2);
            /* Staging that a step fills more than once. */
            gp_cuda_staging_block = policy < 2 ? block : 1024;
            gp_cuda_staging_most = policy < 2 ? most : 1024;
            assert_int_equal(train_recorded(&options, (recorder_policy)policy, 7).hash, whole.hash);
        }
        gp_cuda_staging_block = block;
        gp_cuda_staging_most = most;
    }
}

/* Several stages on a worker, backward for inputs and for weights apart: the same sums as 1F1B's on one stage. */
static void schedules_are_in_order(void **state) {
    (void)state;
    static const training_cut two[] = {{network_a, 2, {5, 7}}};
    static const struct {
        const training_cut *cut;
        gp_schedule schedule;
    } ways[] = {
        {&skips[2], {.kind = GP_SCHEDULE_1F1B}}, {&skips[2], {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}},
        {&two[0], {.kind = GP_SCHEDULE_ZB_H1}},  {&skips[2], {.kind = GP_SCHEDULE_ZB_H2}},
        {&skips[2], {.kind = GP_SCHEDULE_ZB_V}},
    };
    harness_options options = training_options(&skips[0], GP_CHECKPOINT_NEVER, false, 1);
    options.schedule.kind = GP_SCHEDULE_1F1B;
    training_outcome whole = train_recorded(&options, RECORDER_LAZY, 0);
    uint64_t seed = 0;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
            gp_checkpoint_mode mode = (gp_checkpoint_mode)((policy + (int)w) % 3);
            options = training_options(ways[w].cut, mode, false, policy % 2 ? 1 : 2);
            options.schedule = ways[w].schedule;
            assert_int_equal(train_recorded(&options, (recorder_policy)policy, seed++).hash, whole.hash);
        }
}

/* Stages with replicas, of which some have no sample of a micro-batch of two or one, and some none of any. Buckets are
 * small, so that most are posted before their backward pass is over. */
static void replicas_are_in_order(void **state) {
    (void)state;
    static const training_cut cuts[] = {{network_a, 1, {12}}, {network_a, 2, {5, 7}}};
    static const int replicas[][2] = {{2, 2}, {4, 4}, {3, 1}, {1, 3}};
    uint64_t seed = 0;
    for (size_t r = 0; r < sizeof replicas / sizeof *replicas; r++) {
        training_outcome first = {0};
        for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
            bool even = replicas[r][0] == replicas[r][1];
            gp_checkpoint_mode mode = (gp_checkpoint_mode)((policy + (int)r) % 3);
            harness_options options = training_options(&cuts[even ? policy % 2 : 1], mode, policy == 1, policy % 3 + 1);
            options.replicas = replicas[r];
            options.bucket = policy == 1 ? 0 : 300;
            options.shard_optimizer = policy == 2;
            training_outcome its = train_in(&options, (recorder_policy)policy, seed++, policy == 0);
            if (policy == 0) first = its;
            assert_int_equal(its.hash, first.hash);
        }
    }
}

/* Batch norm, addition and relu are one op here too, with the bits of their parts. */
static void groups_are_fused(void **state) {
    (void)state;
    static const training_cut whole = {network_residual, 1, {22}};
    harness_options options = training_options(&whole, GP_CHECKPOINT_NEVER, false, 1);
    harness h;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 4, -1, -1, 0, 0, 0}); /* who plans asks the toolkit */
    harness_plan(&h, &options);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_KEEP, GP_OP_NORM_APPLY_RELU), 5);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_EVALUATE, GP_OP_NORM_APPLY_RELU), 5);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_NORM_RELU_BACKWARD_REDUCE), 3);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_NORM_RELU_BACKWARD_DATA), 3);
    assert_int_equal(harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE), 2);
    harness_end(&h);
    assert_null(recorder_end(NULL));
    uint64_t fused = train_recorded(&options, RECORDER_LAZY, 0).hash;
    options.unfused = true;
    assert_int_equal(train_recorded(&options, RECORDER_LAZY, 0).hash, fused);
}

/* Every second stage on the CPU: copies go through the host, which waits for the GPU there. */
static void gpus_and_cpus_train_together(void **state) {
    (void)state;
    harness_options options = training_options(&skips[0], GP_CHECKPOINT_NEVER, false, 1);
    training_outcome alone = train_recorded(&options, RECORDER_EAGER, 0), first = {0};
    for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
        options = training_options(&skips[2], GP_CHECKPOINT_EXCEPT_LAST, policy % 2, 2);
        options.odd = &gp_cpu_kind;
        training_outcome its = train_recorded(&options, (recorder_policy)policy, 1);
        if (policy == 0) first = its;
        assert_int_equal(its.hash, first.hash);
        for (int i = 0; i < TRAINING_STEPS; i++)
            assert_true(fabs(its.losses[i] - alone.losses[i]) <= 2e-5 * alone.losses[i]);
    }
}

/* Without any one of them, nothing orders something. `within`: only of those that stand within passes, and there are
 * some. */
static void expect_all_needed(const harness_options *options, bool within, int stride) {
    recorder_counts counts;
    gp_error err = {0};
    training_outcome out = {0};
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 4, -1, -1, 0, 0, 0});
    assert_int_equal(training_run(options, TRAINING_STEPS, false, &out, &err), GP_OK);
    assert_null(recorder_end(&counts));
    long needless = 0, left_out = 0;
    for (long wait = test_first(stride); wait < counts.waits; wait += stride) {
        recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 4, wait, -1, 0, 0, 0});
        gp_status status = training_run(options, TRAINING_STEPS, false, &out, &err);
        const char *sentence = recorder_end(NULL);
        if (within && !recorder_failed()->mark[0]) continue;
        left_out++;
        if (!sentence && status == GP_OK) needless++;
    }
    assert_true(left_out > 0);
    if (needless > 0) fail_msg("%ld of %ld waits are not needed", needless, counts.waits);
}

static void every_wait_is_needed(void **state) {
    (void)state;
    harness_options options = training_options(&skips[2], GP_CHECKPOINT_EXCEPT_LAST, true, 2);
    expect_all_needed(&options, false, test_pick(5, 3, 1));
}

/* Replicas that exchange statistics within their passes: 3 samples as 2 and 1; groups of 2 of 4 replicas on 3 GPUs.
 * Uneven numbers of exchanges in a pass, since their events come in turns. */
static const char network_joint[] = "input: {shape: [2, 5, 4]}\n"
                                    "layers:\n"
                                    "  - conv: {out: 4, kernel: 3, pad: 1}\n"
                                    "  - batch_norm: {name: a}\n"
                                    "  - relu\n"
                                    "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n"
                                    "  - batch_norm\n"
                                    "  - add: [-1, a]\n"
                                    "  - relu\n"
                                    "  - batch_norm: {affine: false}\n"
                                    "  - flatten\n"
                                    "  - linear: 5\n"
                                    "loss: cross_entropy\n"
                                    "rules: {batch_norm: {sync: 2}}\n";

static harness_options joint_options(const training_cut *cut, const int *replicas, gp_checkpoint_mode mode) {
    harness_options options = training_options(cut, mode, false, 3);
    options.replicas = replicas;
    options.batch = options.evaluation = replicas[0] == 2 ? 9 : 23; /* 4 replicas: 8, 8, 7 samples */
    options.last = replicas[0] == 2 ? 6 : 13;                       /* 5, 5 and 3: shares of 2, 2, 1 and none */
    return options;
}

static void replicas_that_synchronise_are_in_order(void **state) {
    (void)state;
    static const training_cut cuts[] = {{network_joint, 1, {10}}, {network_joint, 2, {4, 6}}};
    static const int replicas[][2] = {{2, 2}, {4, 4}};
    for (size_t r = 0; r < 2; r++) {
        harness_options options = joint_options(&cuts[0], replicas[r], GP_CHECKPOINT_NEVER);
        training_outcome first = train_in(&options, RECORDER_EAGER, 0, true), on_cpu = {0};
        gp_error err = {0};
        options.kind = &gp_cpu_kind;
        assert_int_equal(training_run(&options, TRAINING_STEPS, false, &on_cpu, &err), GP_OK);
        for (int i = 0; i < TRAINING_STEPS; i++)
            assert_true(fabs(first.losses[i] - on_cpu.losses[i]) <= 2e-5 * on_cpu.losses[i]);
        for (size_t c = 0; c < 2; c++)
            for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
                options = joint_options(&cuts[c], replicas[r], (gp_checkpoint_mode)(policy % 3));
                assert_int_equal(train_recorded(&options, (recorder_policy)policy, 3).hash, first.hash);
            }
    }
}

static void every_wait_for_a_part_is_needed(void **state) {
    (void)state;
    static const training_cut cut = {network_joint, 1, {10}};
    static const int replicas[] = {2};
    harness_options options = joint_options(&cut, replicas, GP_CHECKPOINT_EXCEPT_LAST);
    expect_all_needed(&options, true, test_pick(5, 3, 1));
}

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

static void begin_with(harness *h, float value, uint32_t step) {
    gp_error err = {0};
    int mini = gp_plan_find(h->plan, true, h->options.batch);
    gp_step_input input = {h->input, h->target, 7, step, 0.05, (double)(h->options.batch * h->target_elements), 0, 0};
    harness_make_data(h, h->options.batch, step);
    if (value != 0) ((float *)h->input)[3] = value;
    must(gp_run_begin(h->run, mini, &input, &err), &err);
}

/* A step that was begun behind one that is not finite changes nothing either; one that was begun afterwards does. */
static void what_is_not_finite_stops_the_step_behind(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof skips / sizeof *skips; c++) {
        harness_options options = training_options(&skips[c], GP_CHECKPOINT_NEVER, false, 2);
        harness h;
        gp_error err = {0};
        gp_step_result result;
        recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 2, -1, -1, 0, 0, 0});
        harness_plan(&h, &options);
        harness_start(&h, NULL);
        begin_with(&h, 0, 1);
        begin_with(&h, NAN, 2);
        must(gp_run_end(h.run, &result, &err), &err);
        assert_true(result.finite);
        begin_with(&h, 0, 3);
        must(gp_run_end(h.run, &result, &err), &err);
        assert_false(result.finite || isfinite(result.loss_sum));
        must(gp_run_end(h.run, &result, &err), &err);
        assert_true(!result.finite && isfinite(result.loss_sum));
        uint64_t kept = harness_hash(&h);
        recorder_meet();
        must(harness_step(&h, options.batch, true, 4, &result, &err), &err);
        assert_true(result.finite && harness_hash(&h) != kept);
        harness_end(&h);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("%s", sentence);
        /* As if the two had not been. */
        recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 2, -1, -1, 0, 0, 0});
        harness_plan(&h, &options);
        harness_start(&h, NULL);
        must(harness_step(&h, options.batch, true, 1, &result, &err), &err);
        assert_true(harness_hash(&h) == kept);
        harness_end(&h);
        assert_null(recorder_end(NULL));
    }
}

/* What may not be is refused, and changes nothing. */
static void steps_under_way_are_left_alone(void **state) {
    (void)state;
    harness_options options = training_options(&skips[1], GP_CHECKPOINT_NEVER, false, 1);
    harness h;
    gp_error err = {0};
    gp_step_result result;
    float value;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 1, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    assert_int_equal(gp_run_end(h.run, &result, &err), GP_INTERNAL);
    begin_with(&h, 0, 1);
    assert_int_equal(harness_begin(&h, options.last, true, 2, &err), GP_INTERNAL);
    assert_int_equal(harness_begin(&h, options.evaluation, false, 2, &err), GP_INTERNAL);
    assert_int_equal(harness_step(&h, options.batch, true, 2, &result, &err), GP_INTERNAL);
    assert_int_equal(gp_run_read(h.run, &(gp_tensor_copy){0, -1, &value}, 1, &err), GP_INTERNAL);
    begin_with(&h, 0, 2);
    assert_int_equal(harness_begin(&h, options.batch, true, 3, &err), GP_INTERNAL);
    must(gp_run_end(h.run, &result, &err), &err);
    harness_end(&h); /* with a step under way */
    const char *sentence = recorder_end(NULL);
    if (sentence) fail_msg("%s", sentence);
}

static gp_status fail_in_step_2(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    return site->step == 2 ? gp_fail(err, GP_DEVICE, "made to fail") : GP_OK;
}

/* With a step under way when it failed. */
static void a_run_that_failed_says_why(void **state) {
    (void)state;
    harness_options options = training_options(&skips[1], GP_CHECKPOINT_NEVER, false, 1);
    const gp_hooks hooks = {.before = fail_in_step_2};
    harness h;
    gp_error err = {0};
    gp_step_result result;
    float value;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 1, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    harness_start(&h, &hooks);
    begin_with(&h, 0, 1);
    assert_int_equal(harness_begin(&h, options.batch, true, 2, &err), GP_DEVICE);
    assert_int_equal(harness_step(&h, options.batch, true, 3, &result, &err), GP_DEVICE);
    assert_int_equal(gp_run_read(h.run, &(gp_tensor_copy){0, -1, &value}, 1, &err), GP_DEVICE);
    assert_int_equal(gp_run_end(h.run, &result, &err), GP_DEVICE);
    assert_non_null(strstr(err.text, "made to fail"));
    harness_end(&h);
    const char *sentence = recorder_end(NULL);
    if (sentence) fail_msg("%s", sentence);
}

/* Each queue's spans follow one another, by the device's own time. */
static void spans_have_the_devices_times(void **state) {
    (void)state;
    harness_options options = training_options(&skips[1], GP_CHECKPOINT_ALWAYS, false, 2);
    harness h;
    gp_error err = {0};
    gp_step_result result;
    gp_recorder *spans = NULL;
    recorder_begin(&(recorder_options){RECORDER_LAST_FIRST, 0, 2, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    assert_int_equal(gp_recorder_create(2, &spans, &err), GP_OK);
    const gp_mini_plan *mini = &h.plan->minis[gp_plan_find(h.plan, true, options.batch)];
    for (int w = 0; w < 2; w++)
        assert_int_equal(gp_lane_reserve(&spans->lanes[w], mini->programs->worker[w].count, &err), GP_OK);
    gp_run_record(h.run, spans);
    recorder_meet();
    if (harness_step(&h, options.batch, true, 1, &result, &err) != GP_OK) fail_msg("%s", err.text);
    for (int w = 0; w < 2; w++) {
        uint64_t ended[GP_QUEUES] = {0};
        assert_int_equal(spans->lanes[w].count, mini->programs->worker[w].count);
        for (size_t pc = 0; pc < spans->lanes[w].count; pc++) {
            const gp_span *span = &spans->lanes[w].spans[pc];
            const gp_instr *instr = &mini->programs->worker[w].instrs[pc];
            gp_queue queue = gp_instr_queue(h.plan->stages, instr);
            assert_int_equal(span->index, pc);
            assert_true(span->started >= ended[queue] && span->ended >= span->started);
            if (instr->op != GP_INSTR_SEND && instr->op != GP_INSTR_POST) assert_true(span->ended > span->started);
            ended[queue] = span->ended;
        }
    }
    recorder_meet();
    harness_end(&h);
    gp_recorder_destroy(&spans);
    const char *sentence = recorder_end(NULL);
    if (sentence) fail_msg("%s", sentence);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(skips_are_in_order),
                                       cmocka_unit_test(vectors_are_in_order),
                                       cmocka_unit_test(other_networks_are_in_order),
                                       cmocka_unit_test(groups_are_fused),
                                       cmocka_unit_test(gpus_and_cpus_train_together),
                                       cmocka_unit_test(schedules_are_in_order),
                                       cmocka_unit_test(replicas_are_in_order),
                                       cmocka_unit_test(what_is_not_finite_stops_the_step_behind),
                                       cmocka_unit_test(steps_under_way_are_left_alone),
                                       cmocka_unit_test(a_run_that_failed_says_why),
                                       cmocka_unit_test(replicas_that_synchronise_are_in_order),
                                       cmocka_unit_test(every_wait_for_a_part_is_needed),
                                       cmocka_unit_test(every_wait_is_needed),
                                       cmocka_unit_test(spans_have_the_devices_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whole trainings on a GPU: the same bits however the network is cut over stages on it, recomputed and scheduled; the
 * CPU's losses but for rounding; CPU stages beside GPU stages; evaluation included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "gpu/gpu.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { MAX_STAGES = 4, CUTS = 3, STEPS = 4, BATCH = 10, LAST = 7, EVALUATED = 9, MICRO_BATCHES = 4 };
/* Of a loss, after a few steps: both sides compute in f32 and round in other orders. */
static const double tolerance = 1e-5;

typedef struct network {
    const char *name, *model;
    int64_t layers[CUTS][MAX_STAGES]; /* of 1, 2 and 4 stages */
} network;

static const int stages_of_cut[CUTS] = {1, 2, 4};
static const network networks[] = {
    {"skips", network_skips, {{17}, {6, 11}, {3, 4, 3, 7}}},
    {"pictures", network_pictures, {{16}, {7, 9}, {2, 3, 6, 5}}},
    {"vectors", network_vectors, {{9}, {4, 5}, {1, 2, 4, 2}}},
    {"samples", network_samples, {{23}, {11, 12}, {4, 3, 9, 7}}},
    {"rows", network_rows, {{10}, {2, 8}, {2, 1, 3, 4}}},
    {"pixels", network_pixels, {{16}, {5, 11}, {3, 4, 6, 3}}},
    {"numbers", network_numbers, {{7}, {1, 6}, {1, 2, 3, 1}}},
    {"mask", network_mask, {{5}, {2, 3}, {1, 2, 1, 1}}},
    {"frozen", network_frozen, {{17}, {6, 11}, {2, 3, 4, 8}}},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* What a training leaves. */
typedef struct outcome {
    uint64_t hash;            /* of losses, parameters, states */
    double losses[STEPS + 1]; /* the evaluation's is the last */
} outcome;

static harness_options options_of(const network *net, int cut, const gp_device_kind *kind) {
    return (harness_options){.model = net->model,
                             .layers = net->layers[cut],
                             .stages = stages_of_cut[cut],
                             .kind = kind,
                             .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                             .lockstep = true,
                             .micro_batches = MICRO_BATCHES,
                             .batch = BATCH,
                             .last = LAST,
                             .evaluation = EVALUATED,
                             .clip_norm = 0.5};
}

static int64_t samples_of(uint32_t step) {
    return step > STEPS ? EVALUATED : step == STEPS ? LAST : BATCH;
}

static void end_step(harness *h, uint32_t step, outcome *out) {
    gp_error err = {0};
    gp_step_result result;
    if (gp_run_end(h->run, &result, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(result.finite);
    out->losses[step - 1] = result.loss_sum;
}

/* Steps of one size begin behind one another, where the devices have it so; or each when the one before is over. */
static outcome train_in(const harness_options *options, bool alone) {
    harness h;
    gp_error err = {0};
    outcome out = {0};
    uint32_t ended = 0;
    harness_plan(&h, options);
    if (harness_try_start(&h, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    for (uint32_t step = 1; step <= STEPS + 1; step++) {
        bool training = step <= STEPS, behind = !alone && step > 1 && samples_of(step) == samples_of(step - 1);
        if (!gp_plan_overlaps(h.plan, gp_plan_find(h.plan, training, samples_of(step)))) behind = false;
        while (step - 1 - ended > behind) end_step(&h, ++ended, &out);
        if (harness_begin(&h, samples_of(step), training, step, &err) != GP_OK) fail_msg("%s", err.text);
    }
    while (ended <= STEPS) end_step(&h, ++ended, &out);
    uint64_t kept = harness_hash(&h);
    out.hash = gp_hash_bytes(gp_hash_bytes(0, out.losses, sizeof out.losses), &kept, sizeof kept);
    harness_end(&h);
    return out;
}

static outcome train(const harness_options *options) {
    return train_in(options, false);
}

static void assert_same(const network *net, const harness_options *options, const outcome *got, const outcome *want) {
    if (got->hash == want->hash) return;
    int step = 0;
    while (step < STEPS && got->losses[step] == want->losses[step]) step++;
    fail_msg("%s, %d stages of %d … layers, checkpoint mode %d, lockstep %d%s: %016llx instead of %016llx; loss %d is "
             "%.17g and %.17g",
             net->name, options->stages, (int)options->layers[0], options->checkpoint, options->lockstep,
             options->odd ? ", cpu among them" : "", (unsigned long long)got->hash, (unsigned long long)want->hash,
             step + 1, got->losses[step], want->losses[step]);
}

/* What it judges is printed: whether a difference is rounding, or is not, shows how it grows from step to step. */
static void assert_near(const network *net, const outcome *got, const outcome *want) {
    int far = -1;
    print_message("%s: losses differ from the cpu's by", net->name);
    for (int i = 0; i <= STEPS; i++) {
        double difference = fabs(got->losses[i] - want->losses[i]) / fabs(want->losses[i]);
        print_message(" %.1e", difference);
        if (far < 0 && !(difference <= tolerance)) far = i;
    }
    print_message(" of them (the last: an evaluation)\n");
    if (far >= 0)
        fail_msg("%s: loss %d is %.9g, on the cpu %.9g", net->name, far + 1, got->losses[far], want->losses[far]);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------
 */

/* Checkpoint modes and lockstep of a cut: all of them, or one of each that change with the cut. */
static void check_cut(const network *net, int cut, bool all, const outcome *expected) {
    harness_options options = options_of(net, cut, &gp_cuda_kind);
    options.devices = gpu_count() < options.stages ? 1 : gpu_count();
    for (int way = 0; way < 6; way++) {
        if (!all && way != cut && way != 5 - cut) continue;
        options.checkpoint = (gp_checkpoint_mode)(way / 2);
        options.lockstep = way % 2;
        outcome got = train(&options);
        assert_same(net, &options, &got, expected);
    }
}

static void check_network(const network *net, bool all) {
    harness_options options = options_of(net, 0, &gp_cpu_kind);
    outcome cpu = train(&options);
    options.kind = &gp_cuda_kind;
    outcome one_stage = train_in(&options, true);
    assert_near(net, &one_stage, &cpu);
    for (int cut = 0; cut < CUTS; cut++) check_cut(net, cut, all, &one_stage);
}

/* The first network goes through all; for minutes that are dear, and for sanitizers. */
static void test_smallest(void **state) {
    (void)state;
    harness_options options = options_of(&networks[0], 1, &gp_cpu_kind);
    outcome cpu = train(&options);
    options.kind = &gp_cuda_kind;
    outcome gpu = train(&options);
    assert_near(&networks[0], &gpu, &cpu);
}

static void test_bits(void **state) {
    (void)state;
    check_network(&networks[0], gpu_is_real());
    for (int n = 1; n < NETWORKS && gpu_is_real(); n++) check_network(&networks[n], false);
}

/* Every second stage on the CPU: the same bits in all ways to run it, and the CPU's losses. */
static void check_mixed(const network *net, int cut, const gp_device_kind *kind, const gp_device_kind *odd) {
    harness_options options = options_of(net, cut, &gp_cpu_kind);
    outcome cpu = train(&options), first = {0};
    options.kind = kind;
    options.odd = odd;
    for (int way = 0; way < 6; way++) {
        options.checkpoint = (gp_checkpoint_mode)(way / 2);
        options.lockstep = way % 2;
        outcome got = train(&options);
        if (way == 0) first = got;
        assert_same(net, &options, &got, &first);
    }
    assert_near(net, &first, &cpu);
}

static void test_cpu_beside_gpu(void **state) {
    (void)state;
    check_mixed(&networks[0], 2, &gp_cpu_kind, &gp_cuda_kind);
    check_mixed(&networks[0], 1, &gp_cuda_kind, &gp_cpu_kind);
}

/* The hash would show a difference: of a network, and of what is clipped. */
static void test_hash_tells(void **state) {
    (void)state;
    harness_options options = options_of(&networks[0], 1, &gp_cuda_kind);
    outcome one = train(&options);
    outcome again = train(&options);
    assert_true(one.hash == again.hash);
    options.clip_norm = 0.4;
    outcome other = train(&options);
    assert_true(one.hash != other.hash);
}

/* test_gpu_train [TEST]: one alone. */
int main(int argc, char **argv) {
    if (!gpu_is_there()) return GPU_SKIPPED;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_cpu_beside_gpu),
        cmocka_unit_test(test_hash_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

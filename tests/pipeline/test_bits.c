/* Promise 3: parameters, optimizer states and losses have the same bits however the network is cut, recomputed and
 * scheduled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { MAX_STAGES = 5 };

/* By the test's size: steps of a training, of a short one, and every nth of many ways to the same bits. */
static int steps_long, steps_short, every;

static int choose_size(void **state) {
    (void)state;
    steps_long = test_pick(4, 5, 30); /* the fourth has the last mini-batch of an epoch */
    steps_short = test_pick(2, 4, 4);
    every = test_pick(3, 1, 1); /* 3: cuts into one stage and into the most */
    return 0;
}

typedef struct cut {
    int stages;
    int64_t layers[MAX_STAGES];
} cut;

/* The first four are the grid of 1, 2, 3 and 5 stages; then other cuts into as many. */
enum { GRID_CUTS = 4, CUTS = 8 };

typedef struct network {
    const char *name, *model;
    cut cuts[CUTS];
} network;

static const network skips = {
    "skips",
    network_skips,
    {{1, {17}},
     {2, {6, 11}},
     {3, {2, 6, 9}},
     {5, {2, 3, 4, 4, 4}},
     {2, {16, 1}},
     {2, {2, 15}},
     {3, {5, 7, 5}},
     {5, {1, 1, 1, 1, 13}}},
};
static const network pictures = {
    "pictures",
    network_pictures,
    {{1, {16}},
     {2, {7, 9}},
     {3, {1, 6, 9}},
     {5, {2, 3, 3, 4, 4}},
     {2, {1, 15}},
     {3, {3, 4, 9}},
     {3, {5, 1, 10}},
     {5, {1, 4, 1, 2, 8}}},
};
static const network vectors = {
    "vectors",
    network_vectors,
    {{1, {9}},
     {2, {4, 5}},
     {3, {2, 3, 4}},
     {5, {1, 2, 2, 2, 2}},
     {2, {1, 8}},
     {2, {8, 1}},
     {3, {1, 1, 7}},
     {5, {2, 1, 3, 1, 2}}},
};

static const network samples = {
    "samples",
    network_samples,
    {{1, {23}},
     {2, {11, 12}},
     {3, {2, 9, 12}},
     {5, {4, 3, 5, 6, 5}},
     {2, {1, 22}},
     {2, {18, 5}},
     {3, {14, 4, 5}},
     {5, {2, 1, 4, 7, 9}}},
};

static const network rows = {
    "rows",
    network_rows,
    {{1, {10}},
     {2, {2, 8}},
     {3, {1, 5, 4}},
     {5, {2, 1, 3, 1, 3}},
     {2, {7, 3}},
     {2, {1, 9}},
     {3, {4, 2, 4}},
     {5, {1, 1, 1, 1, 6}}},
};

static const network pixels = {
    "pixels",
    network_pixels,
    {{1, {16}},
     {2, {5, 11}},
     {3, {4, 4, 8}},
     {5, {3, 4, 2, 4, 3}},
     {2, {13, 3}},
     {3, {8, 5, 3}},
     {3, {1, 3, 12}},
     {5, {2, 2, 5, 5, 2}}},
};

static const network numbers = {
    "numbers",
    network_numbers,
    {{1, {7}},
     {2, {1, 6}},
     {3, {2, 3, 2}},
     {5, {1, 1, 3, 1, 1}},
     {2, {5, 2}},
     {2, {6, 1}},
     {3, {1, 4, 2}},
     {5, {2, 1, 2, 1, 1}}},
};

static const network mask = {
    "mask",
    network_mask,
    {{1, {5}},
     {2, {1, 4}},
     {3, {2, 1, 2}},
     {5, {1, 1, 1, 1, 1}},
     {2, {2, 3}},
     {2, {4, 1}},
     {3, {1, 1, 3}},
     {4, {1, 2, 1, 1}}},
};

static const network frozen = {
    "frozen",
    network_frozen,
    {{1, {17}},
     {2, {6, 11}},
     {3, {2, 6, 9}},
     {5, {2, 3, 4, 4, 4}},
     {2, {16, 1}},
     {2, {2, 15}},
     {3, {5, 7, 5}},
     {5, {1, 1, 1, 1, 13}}},
};

/* How mini-batches are cut. */
typedef struct sizes {
    int micro_batches;
    int64_t batch, last, evaluation;
} sizes;

static uint64_t train(const network *net, const cut *its, harness_options options, int steps) {
    options.model = net->model;
    options.layers = its->layers;
    options.stages = its->stages;
    return harness_train(&options, NULL, steps);
}

/* All of a cut's six ways to run it. */
static void check_cut(const network *net, const cut *its, harness_options options, int steps, uint64_t expected) {
    for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
        for (int lockstep = 0; lockstep < 2; lockstep++) {
            options.checkpoint = (gp_checkpoint_mode)mode;
            options.lockstep = lockstep;
            uint64_t hash = train(net, its, options, steps);
            if (hash != expected)
                fail_msg("%s on %s, %d threads, %d stages of %d … layers, checkpoint mode %d, lockstep %d, %d "
                         "micro-batches: %016llx instead of %016llx",
                         net->name, options.kind->name, options.threads, its->stages, (int)its->layers[0], mode,
                         lockstep, options.micro_batches, (unsigned long long)hash, (unsigned long long)expected);
        }
    }
}

static void check_network(const network *net, sizes cutting, const gp_device_kind *kind, gp_dtype real, int threads,
                          int steps, bool other_cuts) {
    harness_options options = {.kind = kind,
                               .real = real,
                               .threads = threads,
                               .micro_batches = cutting.micro_batches,
                               .batch = cutting.batch,
                               .last = cutting.last,
                               .evaluation = cutting.evaluation};
    uint64_t expected = train(net, &net->cuts[0], options, steps);
    for (int c = test_first(every); c < GRID_CUTS; c += every) check_cut(net, &net->cuts[c], options, steps, expected);
    if (!other_cuts) return;
    expected = train(net, &net->cuts[0], options, steps_short);
    for (int c = GRID_CUTS + test_first(every); c < CUTS; c += every)
        check_cut(net, &net->cuts[c], options, steps_short, expected);
}

/* 4 micro-batches of 3, 3, 3, 1; of 2, 2, 2, 1 at an epoch's end; of 3, 3, 3 to evaluate. */
static const sizes uneven = {4, 10, 7, 9};
/* Of 3, 3, 2; of 2, 2, 1; of 2, 2. */
static const sizes three = {3, 8, 5, 4};
/* Pieces of one sample, fewer than asked for; and a mini-batch of one sample. */
static const sizes few_samples = {8, 5, 1, 3};
static const sizes one_piece = {1, 4, 3, 5};

static void test_skips_ref(void **state) {
    (void)state;
    check_network(&skips, uneven, &gp_ref_kind, GP_F32, 1, steps_long, true);
}

static void test_skips_cpu(void **state) {
    (void)state;
    check_network(&skips, uneven, &gp_cpu_kind, GP_F32, 1, steps_long, true);
}

static void test_pictures_ref(void **state) {
    (void)state;
    check_network(&pictures, three, &gp_ref_kind, GP_F32, 1, test_pick(2, 4, 10), false);
}

static void test_pictures_cpu(void **state) {
    (void)state;
    check_network(&pictures, three, &gp_cpu_kind, GP_F32, 1, steps_long, true);
}

static void test_vectors_ref(void **state) {
    (void)state;
    check_network(&vectors, uneven, &gp_ref_kind, GP_F32, 1, steps_long, true);
}

static void test_vectors_cpu(void **state) {
    (void)state;
    check_network(&vectors, uneven, &gp_cpu_kind, GP_F32, 1, steps_long, true);
}

static void test_samples_ref(void **state) {
    (void)state;
    check_network(&samples, three, &gp_ref_kind, GP_F32, 1, steps_short, true);
    check_network(&rows, three, &gp_ref_kind, GP_F32, 1, steps_short, false);
}

static void test_samples_cpu(void **state) {
    (void)state;
    check_network(&samples, uneven, &gp_cpu_kind, GP_F32, 1, test_pick(2, 4, 10), true);
    check_network(&samples, few_samples, &gp_cpu_kind, GP_F32, 1, steps_short, false);
    check_network(&rows, uneven, &gp_cpu_kind, GP_F32, 1, steps_short, true);
}

static void test_pixels(void **state) {
    (void)state;
    check_network(&pixels, uneven, &gp_ref_kind, GP_F32, 1, 3, false);
    check_network(&pixels, uneven, &gp_cpu_kind, GP_F32, 1, steps_short, true);
}

static void test_numbers(void **state) {
    (void)state;
    check_network(&numbers, uneven, &gp_ref_kind, GP_F64, 1, steps_short, false);
    check_network(&numbers, three, &gp_cpu_kind, GP_F32, 1, steps_long, true);
    check_network(&mask, uneven, &gp_ref_kind, GP_F64, 1, steps_short, false);
    check_network(&mask, few_samples, &gp_cpu_kind, GP_F32, 1, steps_short, true);
}

static void test_frozen(void **state) {
    (void)state;
    check_network(&frozen, uneven, &gp_ref_kind, GP_F32, 1, steps_short, true);
    check_network(&frozen, few_samples, &gp_cpu_kind, GP_F32, 1, steps_short, true);
}

/* Gradients go as far back as something is trained, and no further. */
static void test_frozen_takes_no_gradients(void **state) {
    (void)state;
    for (int c = 0; c < CUTS; c++) {
        const cut *its = &frozen.cuts[c];
        harness h;
        harness_plan(&h, &(harness_options){.model = frozen.model,
                                            .layers = its->layers,
                                            .stages = its->stages,
                                            .kind = &gp_ref_kind,
                                            .micro_batches = 4,
                                            .batch = 10});
        const gp_stages *stages = h.plan->stages;
        int first = stages->stage_of_node[7], gradients = 0;
        for (size_t e = 0; e < stages->edge_count; e++) {
            if (stages->edges[e].kind != GP_EDGE_GRADIENT) continue;
            gradients++;
            assert_true(stages->edges[e].to >= first);
        }
        assert_int_equal(gradients > 0, first < its->stages - 1);
        for (int s = 0; s < first; s++) {
            assert_int_equal(h.plan->stage[s].memory[GP_MEMORY_GRADIENTS], 0);
            assert_int_equal(h.plan->stage[s].memory[GP_MEMORY_OPTIMIZER], 0);
        }
        harness_end(&h);
    }
}

static void test_double(void **state) {
    (void)state;
    check_network(&vectors, three, &gp_ref_kind, GP_F64, 1, steps_long, false);
    check_network(&skips, uneven, &gp_ref_kind, GP_F64, 1, steps_short, false);
}

static void test_few_samples(void **state) {
    (void)state;
    check_network(&vectors, few_samples, &gp_ref_kind, GP_F32, 1, steps_long, true);
    check_network(&vectors, few_samples, &gp_cpu_kind, GP_F32, 1, steps_long, true);
    check_network(&skips, few_samples, &gp_cpu_kind, GP_F32, 1, steps_short, false);
}

static void test_one_micro_batch(void **state) {
    (void)state;
    check_network(&vectors, one_piece, &gp_ref_kind, GP_F32, 1, steps_long, false);
    check_network(&vectors, one_piece, &gp_cpu_kind, GP_F32, 1, steps_long, false);
    check_network(&skips, one_piece, &gp_cpu_kind, GP_F32, 1, steps_long, false);
}

/* Two threads may give other bits than one, but the same ones wherever the cut runs. Few steps: OpenMP's threads spin
 * while they wait, and here are more of them than processors. */
static void test_two_threads(void **state) {
    (void)state;
    if (TEST_WATCHES_THREADS) skip();
    check_network(&skips, uneven, &gp_cpu_kind, GP_F32, 2, 3, false);
    check_network(&pictures, three, &gp_cpu_kind, GP_F32, 2, 3, false);
    check_network(&samples, three, &gp_cpu_kind, GP_F32, 2, 2, false);
}

static void check_clipped(const network *net, sizes cutting, const gp_device_kind *kind, gp_dtype real, int threads,
                          double clip_norm, int steps) {
    harness_options options = {.kind = kind,
                               .real = real,
                               .threads = threads,
                               .micro_batches = cutting.micro_batches,
                               .batch = cutting.batch,
                               .last = cutting.last,
                               .evaluation = cutting.evaluation};
    uint64_t unclipped = train(net, &net->cuts[0], options, steps);
    options.norms = true;
    assert_true(train(net, &net->cuts[1], options, steps) == unclipped); /* to look changes nothing */
    options.norms = false;
    options.clip_norm = clip_norm;
    uint64_t expected = train(net, &net->cuts[0], options, steps);
    assert_true(expected != unclipped);
    for (int c = 0; c < CUTS; c++) check_cut(net, &net->cuts[c], options, steps, expected);
}

/* Gradients of all stages together decide how much each is clipped. */
static void test_clipping(void **state) {
    (void)state;
    check_clipped(&skips, uneven, &gp_ref_kind, GP_F32, 1, 0.5, steps_short);
    check_clipped(&skips, uneven, &gp_cpu_kind, GP_F32, 1, 0.5, steps_short);
    check_clipped(&pictures, three, &gp_cpu_kind, GP_F32, 1, 0.5, steps_short);
    check_clipped(&vectors, one_piece, &gp_cpu_kind, GP_F32, 1, 0.5, steps_short);
    check_clipped(&vectors, few_samples, &gp_ref_kind, GP_F64, 1, 0.5, steps_short);
    if (!TEST_WATCHES_THREADS) check_clipped(&skips, three, &gp_cpu_kind, GP_F32, 2, 0.5, 2);
}

/* ---- shared bytes ------------------------------------------------------------------------------------------------ */

/* Values, workspaces and gradients lie over one another where one is dead before the next is written: as if each had
 * bytes of its own. */
static void check_unshared(const network *net, sizes cutting, const gp_device_kind *kind) {
    static const gp_schedule h1 = {.kind = GP_SCHEDULE_ZB_H1};
    harness_options options = {.kind = kind,
                               .micro_batches = cutting.micro_batches,
                               .batch = cutting.batch,
                               .last = cutting.last,
                               .evaluation = cutting.evaluation};
    for (int c = 0; c < GRID_CUTS; c += 2)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            for (int split = 0; split < 2; split++) {
                options.checkpoint = (gp_checkpoint_mode)mode;
                options.schedule = split ? h1 : (gp_schedule){0};
                options.unshared = true;
                uint64_t expected = train(net, &net->cuts[c], options, 2);
                options.unshared = false;
                if (train(net, &net->cuts[c], options, 2) != expected)
                    fail_msg("%s on %s, cut %d, checkpoint mode %d: shared bytes change the result", net->name,
                             kind->name, c, mode);
            }
}

static void test_shared_bytes(void **state) {
    (void)state;
    check_unshared(&skips, three, &gp_cpu_kind);
    check_unshared(&pictures, one_piece, &gp_cpu_kind);
    check_unshared(&pictures, three, &gp_ref_kind);
    check_unshared(&vectors, one_piece, &gp_ref_kind);
    check_unshared(&samples, three, &gp_cpu_kind);
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

typedef struct scheduled {
    int stages;
    int64_t layers[4];
    gp_schedule schedule;
} scheduled;

static void check_schedule(const network *net, const scheduled *its, harness_options options, uint64_t expected) {
    options.model = net->model;
    options.layers = its->layers;
    options.stages = its->stages;
    options.schedule = its->schedule;
    for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
        options.checkpoint = (gp_checkpoint_mode)mode;
        uint64_t hash = harness_train(&options, NULL, steps_short);
        if (hash != expected)
            fail_msg("%s on %s, schedule %s, %d stages, checkpoint mode %d, %d micro-batches: %016llx instead of "
                     "%016llx",
                     net->name, options.kind->name, gp_schedule_kind_name(its->schedule.kind), its->stages, mode,
                     options.micro_batches, (unsigned long long)hash, (unsigned long long)expected);
    }
}

/* All that take micro-batches in ascending order do the same sums. */
static void check_schedules(const network *net, sizes cutting, const gp_device_kind *kind, gp_dtype real,
                            double clip_norm) {
    static const gp_schedule one_f_one_b = {.kind = GP_SCHEDULE_1F1B}, h1 = {.kind = GP_SCHEDULE_ZB_H1},
                             h2 = {.kind = GP_SCHEDULE_ZB_H2}, v = {.kind = GP_SCHEDULE_ZB_V},
                             twice = {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                             four_times = {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 4};
    int64_t all = net->cuts[0].layers[0];
    const scheduled ways[] = {
        {2, {2, all - 2}, one_f_one_b},
        {4, {1, 2, 3, all - 6}, one_f_one_b},
        {3, {2, 3, all - 5}, h1},
        {4, {3, 1, 2, all - 6}, h1},
        {4, {1, 1, 4, all - 6}, h2},
        {2, {all - 1, 1}, h2},
        {4, {2, 2, 1, all - 5}, twice},
        {4, {1, 3, 1, all - 5}, four_times},
        {4, {1, 2, 2, all - 5}, v},
        {2, {3, all - 3}, v},
        {1, {all}, h1},
    };
    harness_options options = {.kind = kind,
                               .real = real,
                               .micro_batches = cutting.micro_batches,
                               .batch = cutting.batch,
                               .last = cutting.last,
                               .evaluation = cutting.evaluation,
                               .clip_norm = clip_norm,
                               .schedule = one_f_one_b};
    uint64_t expected = train(net, &net->cuts[0], options, steps_short);
    for (size_t i = (size_t)test_first(every); i < sizeof ways / sizeof *ways; i += (size_t)every)
        check_schedule(net, &ways[i], options, expected);
}

/* ---- a mode for each stage, and outputs that are kept ------------------------------------------------------------ */

/* No two stages next to each other recompute alike; masks of nodes: all, every other, a few. */
static void check_mixed(const network *net, sizes cutting, const gp_device_kind *kind, gp_dtype real) {
    static const gp_checkpoint_mode modes[][4] = {
        {GP_CHECKPOINT_ALWAYS, GP_CHECKPOINT_NEVER, GP_CHECKPOINT_EXCEPT_LAST, GP_CHECKPOINT_ALWAYS},
        {GP_CHECKPOINT_EXCEPT_LAST, GP_CHECKPOINT_ALWAYS, GP_CHECKPOINT_NEVER, GP_CHECKPOINT_ALWAYS},
    };
    static const uint64_t keeps[] = {0, UINT64_MAX, UINT64_C(0x5555555555555555), UINT64_C(0x1248124812481248)};
    static const gp_schedule schedules[] = {{.kind = GP_SCHEDULE_GPIPE},
                                            {.kind = GP_SCHEDULE_1F1B},
                                            {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                                            {.kind = GP_SCHEDULE_ZB_H1},
                                            {.kind = GP_SCHEDULE_ZB_V}};
    int64_t all = net->cuts[0].layers[0];
    cut its = {4, {1, 3, 2, all - 6}};
    harness_options options = {.kind = kind,
                               .real = real,
                               .micro_batches = cutting.micro_batches,
                               .batch = cutting.batch,
                               .last = cutting.last,
                               .evaluation = cutting.evaluation};
    uint64_t expected[2];
    for (int later = 0; later < 2; later++) {
        options.schedule = schedules[later];
        expected[later] = train(net, &net->cuts[0], options, steps_short);
    }
    for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++)
        for (size_t k = (size_t)test_first(every); k < sizeof keeps / sizeof *keeps; k += (size_t)every) {
            size_t m = (s + k) % 2;
            options.schedule = schedules[s];
            options.lockstep = s == 0 && k % 2;
            options.checkpoints = modes[m];
            options.keeps = keeps[k];
            uint64_t hash = train(net, &its, options, steps_short);
            if (hash != expected[s > 0])
                fail_msg("%s on %s, schedule %s, modes %zu, keeps %zu: %016llx instead of %016llx", net->name,
                         kind->name, gp_schedule_kind_name(schedules[s].kind), m, k, (unsigned long long)hash,
                         (unsigned long long)expected[s > 0]);
        }
}

static void test_mixed_checkpoints(void **state) {
    (void)state;
    check_mixed(&skips, uneven, &gp_cpu_kind, GP_F32);
    check_mixed(&pictures, three, &gp_cpu_kind, GP_F32);
    check_mixed(&samples, three, &gp_ref_kind, GP_F64);
    check_mixed(&vectors, one_piece, &gp_ref_kind, GP_F32);
}

static void test_schedules(void **state) {
    (void)state;
    check_schedules(&skips, uneven, &gp_cpu_kind, GP_F32, 0);
    check_schedules(&skips, few_samples, &gp_ref_kind, GP_F64, 0.5);
    check_schedules(&pictures, three, &gp_cpu_kind, GP_F32, 0.5);
    check_schedules(&samples, three, &gp_cpu_kind, GP_F32, 0);
    check_schedules(&frozen, uneven, &gp_ref_kind, GP_F32, 0);
}

/* GPipe takes the micro-batches in the other order, so that its sums round otherwise, and no more than that. With one
 * micro-batch there is one order. */
static void test_gpipe_differs_by_rounding(void **state) {
    (void)state;
    harness_options options = {.model = skips.model,
                               .layers = skips.cuts[1].layers,
                               .stages = 2,
                               .kind = &gp_ref_kind,
                               .real = GP_F64,
                               .micro_batches = 4,
                               .batch = 10};
    double loss[2];
    for (int i = 0; i < 2; i++) {
        harness h;
        gp_error err = {0};
        gp_step_result result = {0};
        options.schedule.kind = i ? GP_SCHEDULE_1F1B : GP_SCHEDULE_GPIPE;
        harness_plan(&h, &options);
        harness_start(&h, NULL);
        for (uint32_t step = 1; step <= 10; step++)
            assert_int_equal(harness_step(&h, 10, true, step, &result, &err), GP_OK);
        loss[i] = result.loss_sum;
        harness_end(&h);
    }
    assert_true(loss[0] != 0 && fabs(loss[0] - loss[1]) <= 1e-12 * fabs(loss[0]));
    options.micro_batches = 1;
    uint64_t one = harness_train(&options, NULL, steps_short);
    options.schedule.kind = GP_SCHEDULE_GPIPE;
    assert_true(one == harness_train(&options, NULL, steps_short));
}

/* The hash would show a difference: another step, another batch, other micro-batches under batch norm. */
static void test_hash_tells(void **state) {
    (void)state;
    enum { MET_STEPS = 4 }; /* the last mini-batch of an epoch among them */
    harness_options options = {.kind = &gp_ref_kind, .real = GP_F32, .micro_batches = 4, .batch = 10, .last = 7};
    uint64_t hash = train(&skips, &skips.cuts[1], options, MET_STEPS);
    assert_true(hash == train(&skips, &skips.cuts[1], options, MET_STEPS));
    assert_true(hash != train(&skips, &skips.cuts[1], options, MET_STEPS - 1));
    options.last = 8;
    assert_true(hash != train(&skips, &skips.cuts[1], options, MET_STEPS));
    options.last = 7;
    options.micro_batches = 3;
    assert_true(hash != train(&skips, &skips.cuts[1], options, MET_STEPS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skips_ref),       cmocka_unit_test(test_skips_cpu),
        cmocka_unit_test(test_pictures_ref),    cmocka_unit_test(test_pictures_cpu),
        cmocka_unit_test(test_vectors_ref),     cmocka_unit_test(test_vectors_cpu),
        cmocka_unit_test(test_samples_ref),     cmocka_unit_test(test_samples_cpu),
        cmocka_unit_test(test_pixels),          cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_frozen),          cmocka_unit_test(test_frozen_takes_no_gradients),
        cmocka_unit_test(test_double),          cmocka_unit_test(test_few_samples),
        cmocka_unit_test(test_one_micro_batch), cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_clipping),        cmocka_unit_test(test_shared_bytes),
        cmocka_unit_test(test_hash_tells),      cmocka_unit_test(test_mixed_checkpoints),
        cmocka_unit_test(test_schedules),       cmocka_unit_test(test_gpipe_differs_by_rounding),
    };
    return cmocka_run_group_tests(tests, choose_size, NULL);
}

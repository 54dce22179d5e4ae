/* Promise 4: the bytes of the plan are those that are reserved and used; nothing is read that was not written, nothing
 * written outside its place. What is checked how stands in shadow.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/networks.h"
#include "pipeline/shadow.h"
#include "plan/touches.h"

enum { MAX_STAGES = 5, BATCH = 10, LAST = 7, EVALUATED = 9 };

typedef struct cut {
    const char *model;
    int stages;
    int64_t layers[MAX_STAGES];
    int replicas[MAX_STAGES]; /* 0: no stage has replicas */
} cut;

static const cut cuts[] = {
    {network_skips, 3, {2, 6, 9}, {0}},       {network_skips, 1, {17}, {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {0}}, {network_pictures, 2, {7, 9}, {0}},
    {network_pictures, 2, {5, 11}, {0}},      {network_vectors, 1, {9}, {0}},
    {network_vectors, 4, {1, 2, 4, 2}, {0}},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

/* Micro-batches of 3, 2 and 1 samples: some shares are empty. */
static const cut replicated[] = {
    {network_skips, 2, {6, 11}, {2, 2}},  {network_vectors, 3, {2, 3, 4}, {1, 4, 2}}, {network_skips, 1, {17}, {4}},
    {network_vectors, 2, {4, 5}, {3, 1}}, {network_pictures, 1, {16}, {2}},
};

static harness_options options_of(const cut *its, const gp_device_kind *kind, gp_checkpoint_mode mode, bool lockstep) {
    return (harness_options){.model = its->model,
                             .layers = its->layers,
                             .stages = its->stages,
                             .replicas = its->replicas[0] ? its->replicas : NULL,
                             .kind = kind,
                             .checkpoint = mode,
                             /* Every third output is kept where there is no lockstep. */
                             .keeps = lockstep ? 0 : UINT64_C(0x2492492492492492),
                             .lockstep = lockstep,
                             .micro_batches = 4,
                             .batch = BATCH,
                             .last = LAST,
                             .evaluation = EVALUATED};
}

/* Two steps, an evaluation, a smaller step, a step, an evaluation: all that is kept, and every loss, as a hash. */
static uint64_t train(harness *h, const gp_hooks *hooks) {
    static const struct {
        int64_t samples;
        bool training;
    } steps[] = {{BATCH, true}, {BATCH, true}, {EVALUATED, false}, {LAST, true}, {BATCH, true}, {EVALUATED, false}};
    gp_step_result result;
    gp_error err = {0};
    uint64_t losses = 0;
    harness_start(h, hooks);
    for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (harness_step(h, steps[i].samples, steps[i].training, i + 1, &result, &err) != GP_OK)
            fail_msg("%d stages, checkpoint mode %d: %s", h->plan->workers, h->plan->checkpoints[0], err.text);
        losses = gp_hash_bytes(losses, &result.loss_sum, sizeof result.loss_sum);
    }
    uint64_t kept = harness_hash(h);
    return gp_hash_bytes(losses, &kept, sizeof kept);
}

static uint64_t train_plainly(const harness_options *options) {
    harness h;
    harness_plan(&h, options);
    uint64_t hash = train(&h, NULL);
    harness_end(&h);
    return hash;
}

static uint64_t train_watched(const harness_options *options, unsigned char pattern) {
    harness h;
    wrapper_hooks device_hooks = shadow_device_hooks();
    harness_options wrapped = *options;
    wrapped.kind = wrapper_kind(options->kind, &device_hooks);
    harness_plan(&h, &wrapped);
    shadow *s = shadow_create(&h, pattern);
    gp_hooks hooks = shadow_run_hooks(s);
    uint64_t hash = train(&h, &hooks);
    gp_run_destroy(&h.run);
    shadow_destroy(&s);
    harness_end(&h);
    return hash;
}

/* Some of the cuts find norms, and some of these clip. */
static void ask_for_norms(harness_options *options, int number) {
    options->norms = number % 2 == 0;
    options->clip_norm = number % 4 == 0 ? 0.5 : 0;
}

/* Two patterns: as floating-point numbers one is NaN, the other is small and harmless. */
static void check(const cut *its, const gp_device_kind *kind, gp_checkpoint_mode mode, bool lockstep, int threads) {
    harness_options options = options_of(its, kind, mode, lockstep);
    options.threads = threads;
    ask_for_norms(&options, (int)(its - cuts));
    uint64_t hash = train_watched(&options, 0xFF);
    assert_true(train_watched(&options, 0x21) == hash);
    assert_true(train_plainly(&options) == hash);
}

static void check_kind(const gp_device_kind *kind) {
    for (int c = 0; c < CUTS; c += test_pick(3, 1, 1))
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            check(&cuts[c], kind, (gp_checkpoint_mode)mode, (c + mode) % 2, 1);
}

static void test_ref(void **state) {
    (void)state;
    check_kind(&gp_ref_kind);
}

static void test_cpu(void **state) {
    (void)state;
    check_kind(&gp_cpu_kind);
}

static void test_replicas(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (size_t c = 0; c < sizeof replicated / sizeof *replicated; c++)
        for (int way = 0; way < 6; way++) {
            harness_options options =
                options_of(&replicated[c], kinds[way % 2], (gp_checkpoint_mode)(way % 3), way > 3);
            options.norms = way % 2 == 0;
            options.clip_norm = way == 2 ? 0.5 : 0;
            options.shard_optimizer = way > 2;
            uint64_t hash = train_watched(&options, 0xFF);
            assert_true(train_watched(&options, 0x21) == hash);
            assert_true(train_plainly(&options) == hash);
        }
}

static void test_cpu_of_two_threads(void **state) {
    (void)state;
    if (TEST_WATCHES_THREADS) skip();
    check(&cuts[0], &gp_cpu_kind, GP_CHECKPOINT_EXCEPT_LAST, false, 2);
}

/* On one stage and with one micro-batch the backward pass updates parameters, if no norms are asked for: it reads no
 * parameter and no gradient after that. */
static void test_updates_in_the_backward(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    const cut whole[] = {
        {network_skips, 1, {17}, {0}}, {network_pictures, 1, {16}, {0}}, {network_vectors, 1, {9}, {0}}};
    for (int k = 0; k < 2; k++)
        for (size_t c = 0; c < sizeof whole / sizeof *whole; c++)
            for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode += 2) {
                harness_options options = options_of(&whole[c], kinds[k], (gp_checkpoint_mode)mode, false);
                options.micro_batches = 1;
                options.norms = true;
                options.clip_norm = 0;
                uint64_t hash = train_plainly(&options);
                options.norms = false;
                harness h;
                harness_plan(&h, &options);
                assert_true(h.plan->stage[0].consumes);
                assert_int_equal(h.plan->stage[0].memory[GP_MEMORY_GRADIENTS], 0);
                for (int p = 0; p < h.plan->stage[0].param_count; p++)
                    assert_true(h.plan->stage[0].params[p].grad == GP_NO_OFFSET);
                harness_end(&h);
                assert_true(train_watched(&options, 0xFF) == hash);
                assert_true(train_plainly(&options) == hash);
            }
}

/* Which units of an arena some instruction or the refresh touches; a unit is what everything is aligned to. */
static void check_use(const gp_plan *plan, int worker) {
    size_t units = plan->arena[worker] / GP_ALIGNMENT;
    arena_touches touches = {0};
    gp_error err = {0};
    bool *used = NULL;
    assert_int_equal(GP_NEW(&used, units, &err), GP_OK);
    for (int m = 0; m < plan->mini_count; m++)
        for (size_t pc = 0; pc < plan->minis[m].programs->worker[worker].count; pc++)
            assert_int_equal(touches_list(plan, &plan->minis[m], worker, pc, &touches, &err), GP_OK);
    for (size_t t = 0; t < touches.count; t++) {
        const arena_touch *touch = &touches.items[t];
        assert_true(touch->offset + touch->bytes <= plan->arena[worker]);
        for (size_t u = touch->offset / GP_ALIGNMENT; u * GP_ALIGNMENT < touch->offset + touch->bytes; u++)
            used[u] = true;
    }
    size_t idle = 0;
    for (size_t u = 0; u < units; u++) idle += !used[u];
    if (idle) fail_msg("worker %d of %d: %zu of %zu units are never used", worker, plan->workers, idle, units);
    free(used);
    free(touches.items);
}

/* Nothing is reserved that is not used. Micro-batches are of one size, as slots are: a smaller one leaves its slot's
 * end idle. */
static void test_all_is_used(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (int k = 0; k < 2; k++) {
        for (int c = 0; c < CUTS; c++) {
            for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
                harness h;
                harness_options options = options_of(&cuts[c], kinds[k], (gp_checkpoint_mode)mode, true);
                options.batch = options.evaluation = 12;
                ask_for_norms(&options, c);
                harness_plan(&h, &options);
                for (int w = 0; w < h.plan->workers; w++) check_use(h.plan, w);
                harness_end(&h);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_cpu_of_two_threads),
        cmocka_unit_test(test_updates_in_the_backward),
        cmocka_unit_test(test_all_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Outputs that a stage keeps although it recomputes: what is computed again, and what it takes, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"

/* Nodes: linear 0, sigmoid 1, linear 2, sigmoid 3, linear 4. */
static const char chain[] = "input: {shape: [8]}\n"
                            "layers: [{linear: 8}, sigmoid, {linear: 8}, sigmoid, {linear: 3}]\n"
                            "loss: cross_entropy\n";
enum { NODES = 5, SAMPLES = 16, BYTES = SAMPLES * 8 * 4, KEEP_FIRST_SIGMOID = 1 << 1 };

static const int64_t whole[] = {NODES}, halves[] = {2, 3};

static void plan(harness *h, int stages, const gp_checkpoint_mode *modes, uint64_t keeps) {
    harness_options options = {.model = chain,
                               .layers = stages == 1 ? whole : halves,
                               .stages = stages,
                               .kind = &gp_ref_kind,
                               .real = GP_F32,
                               .checkpoints = modes,
                               .keeps = keeps,
                               .micro_batches = 3,
                               .batch = 3 * SAMPLES};
    harness_plan(h, &options);
}

static const gp_checkpoint_mode always[] = {GP_CHECKPOINT_ALWAYS, GP_CHECKPOINT_ALWAYS},
                                never[] = {GP_CHECKPOINT_NEVER, GP_CHECKPOINT_NEVER},
                                mixed[] = {GP_CHECKPOINT_NEVER, GP_CHECKPOINT_ALWAYS};

/* Whether node n is computed again on a stage. */
static bool repeats(const harness *h, int stage, int node) {
    const gp_routine *again = &h->plan->stage[stage].sized[0].routine[GP_ROUTINE_RECOMPUTE];
    for (size_t o = 0; o < again->count; o++)
        if (again->ops[o].node == node) return true;
    return false;
}

static size_t stride(const harness *h, int stage, gp_frame frame) {
    return h->plan->stage[stage].frame_stride[frame];
}

static void test_what_is_kept_is_not_computed_again(void **state) {
    (void)state;
    harness without, with;
    plan(&without, 1, always, 0);
    plan(&with, 1, always, KEEP_FIRST_SIGMOID);
    for (int n = 0; n < NODES - 1; n++) assert_true(repeats(&without, 0, n));
    for (int n = 0; n < NODES - 1; n++) assert_int_equal(repeats(&with, 0, n), n > 1);
    /* It moves from what recomputing makes, once, to what each micro-batch has. */
    assert_int_equal(stride(&with, 0, GP_FRAME_STASH), stride(&without, 0, GP_FRAME_STASH) + BYTES);
    assert_int_equal(stride(&with, 0, GP_FRAME_SAVED), stride(&without, 0, GP_FRAME_SAVED) - BYTES);
    assert_int_equal(with.plan->stage[0].slots[GP_FRAME_STASH], 3);
    assert_int_equal(without.plan->stage[0].kept, 0);
    assert_int_equal(with.plan->stage[0].kept, 1);
    harness_end(&with);
    harness_end(&without);
}

/* Sigmoid's backward reads its output, and nobody's reads the first linear layer's: with both kept the latter would
 * take room for nothing. */
static void test_what_spares_nothing_is_not_kept(void **state) {
    (void)state;
    harness one, both;
    plan(&one, 1, always, KEEP_FIRST_SIGMOID);
    plan(&both, 1, always, KEEP_FIRST_SIGMOID | 1);
    assert_int_equal(both.plan->arena[0], one.plan->arena[0]);
    harness_end(&both);
    harness_end(&one);
    plan(&one, 1, always, 0);
    plan(&both, 1, always, 1);
    assert_false(repeats(&both, 0, 0));
    assert_true(repeats(&both, 0, 1));
    assert_int_equal(stride(&both, 0, GP_FRAME_STASH), stride(&one, 0, GP_FRAME_STASH) + BYTES);
    assert_int_equal(stride(&both, 0, GP_FRAME_SAVED), stride(&one, 0, GP_FRAME_SAVED));
    harness_end(&both);
    harness_end(&one);
}

static void test_all_kept_leaves_nothing_to_compute(void **state) {
    (void)state;
    harness h;
    plan(&h, 1, always, UINT64_MAX);
    for (int n = 0; n < NODES; n++) assert_false(repeats(&h, 0, n));
    harness_end(&h);
}

/* What leaves is sent from where it always was, and kept beside that. */
static void test_what_leaves_is_kept_too(void **state) {
    (void)state;
    harness without, with;
    plan(&without, 2, always, 0);
    plan(&with, 2, always, KEEP_FIRST_SIGMOID);
    assert_true(repeats(&without, 0, 1));
    assert_false(repeats(&with, 0, 0));
    assert_false(repeats(&with, 0, 1));
    assert_int_equal(stride(&with, 0, GP_FRAME_OUTBOX), stride(&without, 0, GP_FRAME_OUTBOX));
    assert_int_equal(stride(&with, 0, GP_FRAME_STASH), stride(&without, 0, GP_FRAME_STASH) + BYTES);
    harness_end(&with);
    harness_end(&without);
}

/* A stage that does not recompute is planned as if the others did not either, and the reverse. */
static void test_each_stage_has_its_own_mode(void **state) {
    (void)state;
    harness a, n, m, kept;
    plan(&a, 2, always, 0);
    plan(&n, 2, never, 0);
    plan(&m, 2, mixed, 0);
    plan(&kept, 2, never, UINT64_MAX);
    assert_int_equal(m.plan->arena[0], n.plan->arena[0]);
    assert_int_equal(m.plan->arena[1], a.plan->arena[1]);
    assert_true(a.plan->arena[1] < n.plan->arena[1]);
    assert_int_equal(m.plan->stage[0].sized[0].routine[GP_ROUTINE_DISCARD].count, 0);
    assert_int_equal(m.plan->stage[1].sized[0].routine[GP_ROUTINE_KEEP].count, 0);
    for (int w = 0; w < 2; w++) assert_int_equal(kept.plan->arena[w], n.plan->arena[w]);
    harness_end(&kept);
    harness_end(&m);
    harness_end(&n);
    harness_end(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_kept_is_not_computed_again),
        cmocka_unit_test(test_what_spares_nothing_is_not_kept),
        cmocka_unit_test(test_all_kept_leaves_nothing_to_compute),
        cmocka_unit_test(test_what_leaves_is_kept_too),
        cmocka_unit_test(test_each_stage_has_its_own_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

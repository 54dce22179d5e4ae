/* Copies that move nothing are no ops, in the forward pass, in evaluation and backward; and no bit changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"

enum { SAMPLES = 6 };

#define MODEL(layers) "input: {shape: [2, 4, 4]}\nlayers: [" layers ", flatten, linear: 3]\nloss: cross_entropy\n"
#define CONV          "conv: {out: 3, kernel: 1}"

/* Copies and flattenings of the forward pass, of an evaluation, and of the backward pass, those of parameters'
 * gradients left out: as they are, and each op by itself. */
static const struct {
    const char *model;
    int64_t layers[3];
    uint64_t keeps;
    int forward, evaluate, backward, unfused[3];
} cases[] = {
    {MODEL(CONV ", identity"), {4}, 0, 1, 1, 1, {2, 2, 1}},
    {MODEL("identity, " CONV), {4}, 0, 1, 1, 1, {2, 2, 1}}, /* of what the stage takes */
    {MODEL(CONV ", identity, identity, relu"), {6}, 0, 1, 1, 1, {3, 3, 1}},
    /* as in a ResNet */
    {MODEL(CONV ", identity: {name: i}, conv: {out: 3, kernel: 1}, add: [i, -1]"), {6}, 0, 1, 1, 1, {2, 2, 1}},
    {MODEL(CONV ", identity: {name: i}, conv: {out: 3, kernel: 1}, add: [i, -1]"), {1, 5}, 0, 1, 1, 1, {2, 2, 1}},
    /* the copy leaves the stage, or its source does; backward, two inputs of a sum get one gradient */
    {MODEL(CONV ", identity, relu"), {2, 3}, 0, 2, 2, 1, {2, 2, 1}},
    {MODEL(CONV ", identity: {name: i}, conv: {out: 3, kernel: 1}, add: [i, -1]"), {3, 3}, 0, 2, 2, 2, {2, 2, 2}},
    {MODEL("conv: {out: 3, kernel: 1, name: c}, identity, relu, add: [c, -1]"), {3, 3}, 0, 1, 1, 2, {2, 2, 2}},
    /* it is kept, though its stage recomputes; no evaluation keeps anything */
    {MODEL(CONV ", identity, relu"), {5}, 1 << 1, 2, 1, 1, {2, 2, 1}},
    /* dropout copies in an evaluation, where there is nothing else to do */
    {MODEL(CONV ", dropout: 0.5, relu"), {5}, 0, 1, 1, 1, {1, 2, 1}},
    /* one position: nothing changes its place */
    {MODEL(CONV ", avg_pool: 4"), {4}, 0, 0, 0, 0, {1, 1, 1}},
    {MODEL(CONV ", avg_pool: [4, 2]"), {4}, 0, 1, 1, 1, {1, 1, 1}},
    /* part of a value, and a value of parts */
    {MODEL(CONV ", concat: [-1, input]"), {4}, 0, 3, 3, 2, {3, 3, 2}},
    {MODEL(CONV ", concat: [-1, input], identity"), {5}, 0, 3, 3, 2, {4, 4, 2}},
};

static harness_options options_of(size_t c, gp_checkpoint_mode mode) {
    harness_options options = {.model = cases[c].model,
                               .layers = cases[c].layers,
                               .kind = &gp_cpu_kind,
                               .checkpoint = mode,
                               .micro_batches = 2,
                               .batch = SAMPLES,
                               .evaluation = SAMPLES,
                               .keeps = cases[c].keeps};
    while (options.stages < 3 && cases[c].layers[options.stages]) options.stages++;
    return options;
}

static int moves_of(const harness *h, gp_routine_kind kind) {
    int count = 0;
    for (int s = 0; s < h->plan->stages->count; s++) {
        const gp_routine *its = &h->plan->stage[s].sized[0].routine[kind];
        for (size_t o = 0; o < its->count; o++) {
            gp_op_kind op = its->ops[o].prepared->desc.kind;
            count += its->ops[o].when == GP_WHEN_ALWAYS &&
                     (op == GP_OP_COPY || op == GP_OP_FLATTEN || op == GP_OP_UNFLATTEN);
        }
    }
    return count;
}

static void check_moves(const harness_options *options, size_t c, gp_routine_kind forward) {
    harness h;
    harness_plan(&h, options);
    const int *unfused = cases[c].unfused;
    int counts[] = {moves_of(&h, forward), moves_of(&h, GP_ROUTINE_EVALUATE), moves_of(&h, GP_ROUTINE_BACKWARD)};
    int expected[] = {cases[c].forward, cases[c].evaluate, cases[c].backward};
    for (int i = 0; i < 3; i++) {
        int its = options->unfused ? unfused[i] : expected[i];
        if (counts[i] != its)
            fail_msg("case %zu, unfused %d, list %d: %d copies, not %d", c, options->unfused, i, counts[i], its);
    }
    harness_end(&h);
}

static void test_copies(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool recomputes = cases[c].keeps != 0;
        harness_options options = options_of(c, recomputes ? GP_CHECKPOINT_ALWAYS : GP_CHECKPOINT_NEVER);
        gp_routine_kind forward = recomputes ? GP_ROUTINE_DISCARD : GP_ROUTINE_KEEP;
        check_moves(&options, c, forward);
        options.unfused = true;
        check_moves(&options, c, forward);
    }
}

static void test_bits(void **state) {
    (void)state;
    static const gp_device_kind *const kinds[] = {&gp_cpu_kind, &gp_ref_kind};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            for (int k = 0; k < 2; k++) {
                harness_options options = options_of(c, (gp_checkpoint_mode)mode);
                options.kind = kinds[k];
                uint64_t hash = harness_train(&options, NULL, 3);
                options.unfused = true;
                if (harness_train(&options, NULL, 3) != hash)
                    fail_msg("case %zu, mode %d: other bits than unfused", c, mode);
            }
}

/* What is saved, is saved once. */
static void test_memory(void **state) {
    (void)state;
    const char *model = MODEL(CONV ", identity: {name: i}, conv: {out: 3, kernel: 1}, add: [i, -1]");
    harness_options options = {.model = model,
                               .layers = (const int64_t[]){6},
                               .stages = 1,
                               .kind = &gp_cpu_kind,
                               .micro_batches = 1,
                               .batch = SAMPLES};
    harness once, twice;
    harness_plan(&once, &options);
    options.model = MODEL("conv: {out: 3, kernel: 1, name: i}, conv: {out: 3, kernel: 1}, add: [i, -1]");
    options.layers = (const int64_t[]){5};
    harness_plan(&twice, &options);
    assert_int_equal(once.plan->arena[0], twice.plan->arena[0]);
    harness_end(&once);
    harness_end(&twice);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

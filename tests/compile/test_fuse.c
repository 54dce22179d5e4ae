/* Batch norm, addition and relu become one op wherever they stand together on a stage, and nothing else changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { MOST_STAGES = NETWORK_RESIDUAL_LAYERS };

static harness_options options_of(const char *model, const int64_t *layers, int stages, const gp_device_kind *kind) {
    return (harness_options){.model = model,
                             .layers = layers,
                             .stages = stages,
                             .kind = kind,
                             .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                             .micro_batches = 3,
                             .batch = 9,
                             .evaluation = 9};
}

/* ---- what is found ----------------------------------------------------------------------------------------------- */

typedef struct found {
    gp_routine_kind routine;
    gp_op_kind kind;
    int count, unfused;
} found;

/* Of network_residual: layers 2, 6, 13 without an addend, 10 and 19 with one. */
static const found residual[] = {
    {GP_ROUTINE_KEEP, GP_OP_NORM_STATISTICS, 6, 6},
    {GP_ROUTINE_KEEP, GP_OP_NORM_APPLY_RELU, 5, 0},
    {GP_ROUTINE_KEEP, GP_OP_NORM_APPLY, 1, 6},
    {GP_ROUTINE_KEEP, GP_OP_RELU_FORWARD, 0, 5},
    {GP_ROUTINE_KEEP, GP_OP_ADD, 0, 2},
    {GP_ROUTINE_RECOMPUTE, GP_OP_NORM_APPLY_RELU, 5, 0},
    {GP_ROUTINE_EVALUATE, GP_OP_NORM_STATISTICS, 0, 0},
    {GP_ROUTINE_EVALUATE, GP_OP_NORM_APPLY_RELU, 5, 0},
    {GP_ROUTINE_EVALUATE, GP_OP_NORM_APPLY, 1, 6},
    {GP_ROUTINE_EVALUATE, GP_OP_RELU_FORWARD, 0, 5},
    {GP_ROUTINE_EVALUATE, GP_OP_ADD, 0, 2},
    {GP_ROUTINE_BACKWARD, GP_OP_NORM_RELU_BACKWARD_REDUCE, 3, 0},
    {GP_ROUTINE_BACKWARD, GP_OP_NORM_RELU_BACKWARD_DATA, 3, 0},
    {GP_ROUTINE_BACKWARD, GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, 2, 0},
    {GP_ROUTINE_BACKWARD, GP_OP_NORM_BACKWARD_REDUCE, 1, 6},
    {GP_ROUTINE_BACKWARD, GP_OP_NORM_BACKWARD_DATA, 3, 6},
    {GP_ROUTINE_BACKWARD, GP_OP_RELU_BACKWARD, 0, 5},
};

static void check_found(const gp_device_kind *kind, bool unfused) {
    const int64_t layers[] = {NETWORK_RESIDUAL_LAYERS};
    harness h;
    harness_options options = options_of(network_residual, layers, 1, kind);
    options.unfused = unfused;
    harness_plan(&h, &options);
    for (size_t i = 0; i < sizeof residual / sizeof *residual; i++) {
        int count = harness_ops(&h, residual[i].routine, residual[i].kind);
        int expected = unfused ? residual[i].unfused : residual[i].count;
        if (count != expected)
            fail_msg("%s, routine %d: %d of %s instead of %d", kind->name, residual[i].routine, count,
                     gp_op_name(residual[i].kind), expected);
    }
    harness_end(&h);
}

static void test_groups_are_found(void **state) {
    (void)state;
    for (int unfused = 0; unfused < 2; unfused++) {
        check_found(&gp_ref_kind, unfused);
        check_found(&gp_cpu_kind, unfused);
    }
}

#define MODEL(layers) "input: {shape: [2, 4, 4]}\nlayers: [" layers ", flatten, linear: 2]\nloss: cross_entropy\n"

/* Where a cut or another use stands in between, and where it only seems so. Counts of norm_apply_relu, of the two
 * reduces of the backward pass, and of those that add two shares of a gradient. */
#define SUM "conv: {out: 2, kernel: 1}, batch_norm, add: [input, -1], relu: {name: y}"

static const struct {
    const char *model;
    int64_t layers[3];
    int forward, alone, shared, sums;
} others[] = {
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, relu"), {5}, 1, 1, 0, 0},
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, relu"), {2, 3}, 0, 0, 0, 0},
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, relu"), {3, 2}, 1, 1, 0, 0},
    /* nothing is trained before it: no gradient of the input */
    {MODEL("batch_norm, relu"), {4}, 1, 1, 0, 0},
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, gelu"), {5}, 0, 0, 0, 0},
    /* a copy that moves nothing, and one that leaves the stage */
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, identity, relu"), {6}, 1, 1, 0, 0},
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, identity, relu"), {3, 3}, 0, 0, 0, 0},
    /* what the norm makes is used again, on this stage or on the next */
    {MODEL("batch_norm: {name: n}, relu, add: [n, -1]"), {5}, 0, 0, 0, 0},
    {MODEL("batch_norm: {name: n}, relu, add: [n, -1]"), {2, 3}, 0, 0, 0, 0},
    {MODEL("batch_norm, add: [-1, -1], relu"), {5}, 0, 0, 0, 0},
    /* so is the sum */
    {MODEL("batch_norm, add: {from: [-1, input], name: s}, relu, add: [s, -1]"), {6}, 0, 0, 0, 0},
    /* what relu makes may be */
    {MODEL("batch_norm, relu: {name: y}, conv: {out: 2, kernel: 1}, add: [y, -1]"), {6}, 1, 1, 0, 0},
    /* nobody wants the addend's gradient */
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm, add: [input, -1], relu"), {6}, 1, 0, 1, 0},
    /* of three addends, the last one alone is added to all that is before */
    {MODEL("conv: {out: 2, kernel: 1, name: c}, batch_norm, add: [input, c, -1], relu"), {6}, 1, 0, 1, 0},
    {MODEL("conv: {out: 2, kernel: 1, name: c}, batch_norm, add: [-1, c, input], relu"), {6}, 0, 0, 1, 0},
    {MODEL("conv: {out: 2, kernel: 1, name: c}, batch_norm, add: [c, -1], relu"), {4, 2}, 1, 0, 1, 0},
    {MODEL("conv: {out: 2, kernel: 1, name: c}, batch_norm, add: [c, -1], relu"), {3, 3}, 0, 0, 0, 0},
    {MODEL("conv: {out: 2, kernel: 1, name: c}, batch_norm, add: [c, -1], relu"), {2, 4}, 0, 0, 0, 0},
    /* two users of what relu makes: their shares meet where the sums are found */
    {MODEL(SUM ", conv: {out: 2, kernel: 1}, add: [y, -1]"), {8}, 1, 0, 1, 1},
    {MODEL(SUM ", conv: {out: 2, kernel: 1}, add: [y, -1]"), {5, 3}, 1, 0, 1, 1},
    /* on the next stage already */
    {MODEL(SUM ", conv: {out: 2, kernel: 1}, add: [y, -1]"), {4, 4}, 1, 0, 1, 0},
    /* three: only the last addition */
    {MODEL(SUM ", conv: {out: 2, kernel: 1}, conv: {out: 2, kernel: 1}, add: [y, -2, -1]"), {9}, 1, 0, 1, 1},
    {MODEL(SUM ", conv: {out: 2, kernel: 1}, conv: {out: 2, kernel: 1, from: y}, add: [y, -2, -1]"), {9}, 1, 0, 1, 1},
    /* one share, twice */
    {MODEL(SUM ", add: [y, y]"), {7}, 1, 0, 1, 1},
    /* a copy in between that moves nothing, as in a ResNet */
    {MODEL(SUM ", identity: {name: i}, conv: {out: 2, kernel: 1}, add: [i, -1]"), {9}, 1, 0, 1, 1},
    /* statistics that stand: the gradient has none either */
    {MODEL("conv: {out: 2, kernel: 1}, batch_norm: {freeze: true}, relu"), {5}, 1, 0, 0, 0},
};

static int count_sums(const harness *h) {
    int count = 0;
    for (int s = 0; s < h->plan->stages->count; s++) {
        const gp_routine *its = &h->plan->stage[s].sized[0].routine[GP_ROUTINE_BACKWARD];
        for (size_t o = 0; o < its->count; o++) {
            const gp_op_desc *desc = &its->ops[o].prepared->desc;
            count += desc->kind == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE &&
                     desc->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND].present;
        }
    }
    return count;
}

static void test_what_stands_between(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int stages = 0;
        while (stages < 3 && others[i].layers[stages]) stages++;
        harness_options options = options_of(others[i].model, others[i].layers, stages, &gp_cpu_kind);
        uint64_t hash = harness_train(&options, NULL, 3);
        harness h;
        harness_plan(&h, &options);
        int forward = harness_ops(&h, GP_ROUTINE_KEEP, GP_OP_NORM_APPLY_RELU);
        int alone = harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_NORM_RELU_BACKWARD_REDUCE);
        int shared = harness_ops(&h, GP_ROUTINE_BACKWARD, GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE);
        int sums = count_sums(&h);
        if (forward != others[i].forward || alone != others[i].alone || shared != others[i].shared ||
            sums != others[i].sums)
            fail_msg("model %zu: %d forward, %d alone, %d shared, %d sums", i, forward, alone, shared, sums);
        harness_end(&h);
        options.unfused = true;
        if (harness_train(&options, NULL, 3) != hash) fail_msg("model %zu: other bits than unfused", i);
    }
}

/* ---- and nothing else changes ------------------------------------------------------------------------------------ */

static void check_bits(const gp_device_kind *kind, gp_dtype real, int threads, int step) {
    int64_t layers[MOST_STAGES] = {NETWORK_RESIDUAL_LAYERS};
    harness_options options = options_of(network_residual, layers, 1, kind);
    options.real = real;
    options.threads = threads;
    options.unfused = true;
    uint64_t expected = harness_train(&options, NULL, 4);
    options.unfused = false;
    assert_true(harness_train(&options, NULL, 4) == expected);
    for (int64_t first = 1 + test_first(step); first < NETWORK_RESIDUAL_LAYERS; first += step) {
        options.layers = (const int64_t[]){first, NETWORK_RESIDUAL_LAYERS - first};
        options.stages = 2;
        options.checkpoint = (gp_checkpoint_mode)(first % (GP_CHECKPOINT_ALWAYS + 1));
        options.lockstep = first % 2;
        if (harness_train(&options, NULL, 4) != expected)
            fail_msg("%s, %d threads: other bits with %d layers on the first stage", kind->name, threads, (int)first);
    }
    for (int i = 0; i < MOST_STAGES; i++) layers[i] = 1;
    options.layers = layers;
    options.stages = MOST_STAGES;
    assert_true(harness_train(&options, NULL, 4) == expected); /* of every group a cut has left nothing */
}

static void test_bits(void **state) {
    (void)state;
    /* A step that 2 and 3 do not divide meets every checkpoint mode, with lockstep and without. */
    check_bits(&gp_cpu_kind, GP_F32, 1, test_pick(5, 1, 1));
    check_bits(&gp_ref_kind, GP_F32, 1, test_pick(5, 5, 1));
    check_bits(&gp_ref_kind, GP_F64, 1, test_pick(7, 5, 1));
    if (!TEST_WATCHES_THREADS) check_bits(&gp_cpu_kind, GP_F32, 2, 5);
}

/* Where backward for weights stands apart, the norm's sums and the gradient of the sum wait for it. */
static void test_split_backward(void **state) {
    (void)state;
    static const struct {
        gp_schedule schedule;
        int stages;
        int64_t layers[4];
    } ways[] = {
        {{.kind = GP_SCHEDULE_1F1B}, 2, {9, 13}},
        {{.kind = GP_SCHEDULE_ZB_H1}, 2, {9, 13}},
        {{.kind = GP_SCHEDULE_ZB_H1}, 2, {12, 10}},
        {{.kind = GP_SCHEDULE_ZB_H2}, 2, {11, 11}},
        {{.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 4, {2, 8, 3, 9}},
        {{.kind = GP_SCHEDULE_ZB_V}, 4, {3, 8, 2, 9}},
    };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            harness_options options = options_of(network_residual, ways[w].layers, ways[w].stages, &gp_cpu_kind);
            options.micro_batches = 4;
            options.batch = options.evaluation = 12;
            options.schedule = ways[w].schedule;
            options.checkpoint = (gp_checkpoint_mode)mode;
            uint64_t fused = harness_train(&options, NULL, 3);
            options.unfused = true;
            if (harness_train(&options, NULL, 3) != fused) fail_msg("way %zu, mode %d: other bits", w, mode);
        }
}

/* What a backward that is not the first one reads and writes. */
static double bytes_of(const gp_routine *routine) {
    double bytes = 0;
    for (size_t o = 0; o < routine->count; o++)
        if (routine->ops[o].when != GP_WHEN_FIRST) bytes += routine->ops[o].prepared->bytes;
    return bytes;
}

/* What lies between is never written, and layer 2's output, which only its own backward pass wants, is not kept. */
static void test_bytes(void **state) {
    (void)state;
    const int64_t layers[] = {NETWORK_RESIDUAL_LAYERS};
    harness whole, parts;
    harness_options options = options_of(network_residual, layers, 1, &gp_cpu_kind);
    harness_plan(&whole, &options);
    options.unfused = true;
    harness_plan(&parts, &options);
    const gp_stage_plan *a = &whole.plan->stage[0], *b = &parts.plan->stage[0];
    assert_true(whole.plan->arena[0] < parts.plan->arena[0]);
    size_t stem = 3 * 4 * 8 * 8 * sizeof(float);
    assert_int_equal(b->frame_stride[GP_FRAME_SAVED] - a->frame_stride[GP_FRAME_SAVED], stem);
    /* In tensors of 3·4·8·8 and the like: norm and relu read and write 2 less, with an addend 4; backward it is 3
     * and 1, and for two shares of a gradient 2. */
    double alone = 3 * (4 * 8 * 8 + 4 * 4 * 4 + 6 * 2 * 2), shared = 3 * (4 * 4 * 4 + 6 * 2 * 2);
    const gp_routine *of_a = a->sized[0].routine, *of_b = b->sized[0].routine;
    assert_true(bytes_of(&of_b[GP_ROUTINE_KEEP]) - bytes_of(&of_a[GP_ROUTINE_KEEP]) == 4 * (2 * alone + 4 * shared));
    double vectors = 4 * 3 * (4 + 4 + 6); /* gamma once and beta twice, to find relu's input again */
    assert_true(bytes_of(&of_b[GP_ROUTINE_BACKWARD]) - bytes_of(&of_a[GP_ROUTINE_BACKWARD]) ==
                4 * (3 * alone + shared + 2 * (3 * 4 * 4 * 4)) - vectors);
    harness_end(&whole);
    harness_end(&parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_are_found),
        cmocka_unit_test(test_what_stands_between),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_split_backward),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

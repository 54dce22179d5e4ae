/* Promise 4, as numbers: what the plan says of its bytes. Whether they are what is used is test_arena's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/memory.h"

/* Everything here takes less than one unit of alignment, 128 bytes: so bytes are units counted. */
enum { UNIT = GP_ALIGNMENT };

static const char small_one[] = "input: {shape: [4]}\nlayers: [{linear: 3}]\nloss: cross_entropy\n";
static const char small_two[] = "input: {shape: [4]}\nlayers: [{linear: 3}, {linear: 2}]\nloss: cross_entropy\n";
static const int64_t one_layer[] = {1}, two_layers[] = {1, 1};

/* Two micro-batches of one sample on ref. */
static void plan_small_with(harness *h, int stages, gp_checkpoint_mode mode, bool norms) {
    harness_options options = {.model = stages == 1 ? small_one : small_two,
                               .layers = stages == 1 ? one_layer : two_layers,
                               .stages = stages,
                               .kind = &gp_ref_kind,
                               .checkpoint = mode,
                               .micro_batches = 2,
                               .batch = 2,
                               .norms = norms};
    harness_plan(h, &options);
}

static void plan_small(harness *h, int stages, gp_checkpoint_mode mode) {
    plan_small_with(h, stages, mode, false);
}

typedef struct expectation {
    size_t arena, peak; /* units */
    const char *at;     /* the instruction of the peak */
    size_t memory[GP_MEMORY_KINDS];
} expectation;

static void expect_worker(const harness *h, int worker, const expectation *expected) {
    gp_memory_peak peak;
    gp_error err = {0};
    char text[GP_INSTR_TEXT];
    assert_int_equal(h->plan->arena[worker], expected->arena * UNIT);
    for (int k = 0; k < GP_MEMORY_KINDS; k++)
        if (h->plan->stage[worker].memory[k] != expected->memory[k] * UNIT)
            fail_msg("worker %d: %s take %zu bytes", worker, gp_memory_kind_name((gp_memory_kind)k),
                     h->plan->stage[worker].memory[k]);
    assert_int_equal(gp_memory_find_peak(h->plan, worker, &peak, &err), GP_OK);
    assert_int_equal(peak.mini, 0);
    assert_string_equal(gp_instr_text(text, &h->plan->minis[0].programs->worker[worker].instrs[peak.pc]), expected->at);
    assert_int_equal(peak.bytes, expected->peak * UNIT);
}

/* Of fixed size: weight and bias; a gradient and a momentum of each; the scalars, and the partial losses.
 * A micro-batch takes input and target; it keeps its prediction, which the loss's gradient overwrites. */
static void test_one_stage_by_hand(void **state) {
    (void)state;
    harness h;
    plan_small(&h, 1, GP_CHECKPOINT_NEVER);
    /* All is alive when the last forward keeps its prediction: 8 + 2·2 + 2·1. */
    expect_worker(&h, 0,
                  &(expectation){14,
                                 14,
                                 "F s0 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 2,
                                  [GP_MEMORY_STASH] = 4,
                                  [GP_MEMORY_SAVED] = 2}});
    harness_end(&h);
    plan_small(&h, 1, GP_CHECKPOINT_ALWAYS);
    /* Forward's prediction is a transient; of what was computed again one micro-batch is alive at a time. Never both
     * at once: 8 + 2·2 + 1. */
    expect_worker(&h, 0,
                  &(expectation){14,
                                 13,
                                 "F s0 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 2,
                                  [GP_MEMORY_STASH] = 4,
                                  [GP_MEMORY_SAVED] = 1,
                                  [GP_MEMORY_TRANSIENT] = 1}});
    harness_end(&h);
}

static void test_two_stages_keeping_by_hand(void **state) {
    (void)state;
    harness h;
    plan_small(&h, 2, GP_CHECKPOINT_NEVER);
    /* The first stage has no partial losses and no target. Both outputs wait to be pulled when the first gradient
     * comes: 7 + 2·1 + 2·1 + 1. */
    expect_worker(&h, 0,
                  &(expectation){12,
                                 12,
                                 "recv s0 m1 e1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 1,
                                  [GP_MEMORY_STASH] = 2,
                                  [GP_MEMORY_SAVED] = 2,
                                  [GP_MEMORY_COPIES] = 1}});
    /* The first backward makes a gradient beside all that was kept: 8 + 2·2 + 2·1 + 1; the second one has a slot of its
     * own, since the first gradient may not have been pulled yet, but by then a micro-batch is through. */
    expect_worker(&h, 1,
                  &(expectation){16,
                                 15,
                                 "B s1 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 2,
                                  [GP_MEMORY_STASH] = 4,
                                  [GP_MEMORY_SAVED] = 2,
                                  [GP_MEMORY_COPIES] = 2}});
    harness_end(&h);
}

static void test_two_stages_recomputing_by_hand(void **state) {
    (void)state;
    harness h;
    plan_small(&h, 2, GP_CHECKPOINT_ALWAYS);
    /* Backward needs nothing of the forward but the input; two outputs to send, one gradient to receive. */
    expect_worker(&h, 0,
                  &(expectation){12,
                                 10,
                                 "F s0 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 1,
                                  [GP_MEMORY_STASH] = 2,
                                  [GP_MEMORY_COPIES] = 3}});
    /* While the other micro-batch is computed again there is time to pull the gradient: one slot. */
    expect_worker(&h, 1,
                  &(expectation){15,
                                 14,
                                 "B s1 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 2,
                                  [GP_MEMORY_STASH] = 4,
                                  [GP_MEMORY_SAVED] = 1,
                                  [GP_MEMORY_COPIES] = 1,
                                  [GP_MEMORY_TRANSIENT] = 1}});
    harness_end(&h);
}

/* A stage has its own squares, the last one those of all; more scratch than there is takes none of them. */
static void test_norms_by_hand(void **state) {
    (void)state;
    harness h;
    plan_small_with(&h, 2, GP_CHECKPOINT_NEVER, true);
    for (int s = 0; s < 2; s++) {
        const gp_stage_plan *stage = &h.plan->stage[s];
        assert_int_equal(stage->square_count, 2);
        assert_int_equal(stage->squares_before, 2 * s);
        assert_int_equal(stage->norm.count, 2);
        assert_int_equal(stage->clip.count, s);
        assert_int_equal(stage->norm.transient + stage->norm.workspace, 0);
    }
    expect_worker(&h, 0,
                  &(expectation){13,
                                 13,
                                 "recv s0 m1 e1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 2,
                                  [GP_MEMORY_STASH] = 2,
                                  [GP_MEMORY_SAVED] = 2,
                                  [GP_MEMORY_COPIES] = 1}});
    expect_worker(&h, 1,
                  &(expectation){17,
                                 16,
                                 "B s1 m1",
                                 {[GP_MEMORY_PARAMETERS] = 2,
                                  [GP_MEMORY_GRADIENTS] = 2,
                                  [GP_MEMORY_OPTIMIZER] = 2,
                                  [GP_MEMORY_STATISTICS] = 3,
                                  [GP_MEMORY_STASH] = 4,
                                  [GP_MEMORY_SAVED] = 2,
                                  [GP_MEMORY_COPIES] = 2}});
    /* Stage 0 contributes two squares. On the last stage they come before its own. */
    gp_move move;
    const gp_instr post = {.op = GP_INSTR_POST, .stage = 0}, collect = {.op = GP_INSTR_COLLECT, .stage = 1};
    assert_true(gp_instr_move(h.plan, &h.plan->minis[0], &post, 0, &move));
    assert_int_equal(move.bytes, 2 * sizeof(double));
    assert_int_equal(move.offset, h.plan->stage[0].base + h.plan->stage[0].squares);
    assert_false(gp_instr_move(h.plan, &h.plan->minis[0], &post, 1, &move));
    assert_true(gp_instr_move(h.plan, &h.plan->minis[0], &collect, 0, &move));
    assert_int_equal(move.bytes, 2 * sizeof(double));
    assert_int_equal(move.offset, h.plan->stage[1].base + h.plan->stage[1].squares);
    assert_int_equal(h.plan->stage[1].squares_before, 2);
    assert_false(gp_instr_move(h.plan, &h.plan->minis[0], &collect, 1, &move));
    harness_end(&h);
}

static void test_refusal(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    int worker = -1;
    plan_small(&h, 2, GP_CHECKPOINT_NEVER);
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_OK);
    h.plan->devices[0].memory = 1536;
    h.plan->devices[1].memory = 2048;
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_OK);
    assert_int_equal(worker, -1);
    h.plan->devices[1].memory = 2047;
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_MEMORY);
    assert_int_equal(worker, 1);
    assert_int_equal(err.status, GP_MEMORY);
    assert_string_equal(err.text, "worker 1 needs 2.00 KiB (2048 bytes), but its memory is 2.00 KiB (parameters 256 B, "
                                  "gradients 256 B, optimizer state 256 B, statistics 256 B, stashes 512 B, saved "
                                  "values 256 B, copy buffers 256 B)");
    h.plan->devices[0].memory = 1000;
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_MEMORY);
    assert_int_equal(worker, 0);
    assert_string_equal(err.text, "worker 0 needs 1.50 KiB (1536 bytes), but its memory is 1000 B (parameters 256 B, "
                                  "gradients 256 B, optimizer state 256 B, statistics 128 B, stashes 256 B, saved "
                                  "values 256 B, copy buffers 128 B)");
    harness_end(&h);
}

static bool is_fixed(gp_memory_kind kind) {
    return kind <= GP_MEMORY_STATISTICS;
}

/* A stage stands in its worker's arena without a gap: what is fixed, then its frames, then the transient area. Those
 * of evaluations begin with the saved frame. */
static void check_stage(const gp_plan *plan, int s) {
    static const gp_frame order[GP_FRAMES] = {GP_FRAME_STASH, GP_FRAME_OUTBOX, GP_FRAME_GRAD, GP_FRAME_SAVED};
    const gp_stage_plan *stage = &plan->stage[s];
    size_t sum = 0, fixed = 0, end = stage->fixed;
    for (int k = 0; k < GP_MEMORY_KINDS; k++) {
        sum += stage->memory[k];
        if (is_fixed((gp_memory_kind)k)) fixed += stage->memory[k];
    }
    assert_int_equal(sum, plan->arena[stage->worker]);
    assert_int_equal(fixed, stage->fixed);
    assert_int_equal(stage->base, 0);
    for (int i = 0; i < GP_FRAMES; i++) {
        gp_frame f = order[i];
        assert_int_equal(stage->frame_base[f], end);
        assert_int_equal(stage->frame_stride[f] % GP_ALIGNMENT, 0);
        end += stage->frame_stride[f] * (size_t)stage->slots[f];
    }
    assert_int_equal(stage->memory[GP_MEMORY_STASH],
                     stage->frame_stride[GP_FRAME_STASH] * (size_t)stage->slots[GP_FRAME_STASH]);
    assert_int_equal(stage->memory[GP_MEMORY_SAVED],
                     stage->frame_stride[GP_FRAME_SAVED] * (size_t)stage->slots[GP_FRAME_SAVED]);
    assert_int_equal(stage->bytes, end);
    assert_int_equal(plan->transient_base[stage->worker], end);
    size_t saved = stage->frame_base[GP_FRAME_SAVED], running = end + stage->transient + stage->workspace;
    assert_int_equal(plan->evaluation_base[stage->worker], saved);
    size_t arena = saved + stage->evaluation > running ? saved + stage->evaluation : running;
    assert_int_equal(arena, plan->arena[stage->worker]);
}

static void check_plan(const gp_plan *plan) {
    for (int s = 0; s < plan->stages->count; s++) check_stage(plan, s);
    for (int w = 0; w < plan->workers; w++) {
        gp_memory_peak peak;
        gp_error err = {0};
        assert_int_equal(gp_memory_find_peak(plan, w, &peak, &err), GP_OK);
        assert_true(peak.bytes <= plan->arena[w]);
        assert_true(peak.bytes > plan->stage[w].fixed);
        assert_true(peak.pc < plan->minis[peak.mini].programs->worker[w].count);
    }
}

typedef struct cut {
    const char *model;
    int stages;
    int64_t layers[5];
} cut;

static const cut cuts[] = {
    {network_skips, 1, {17}},      {network_skips, 3, {2, 6, 9}},          {network_skips, 5, {2, 3, 4, 4, 4}},
    {network_pictures, 2, {7, 9}}, {network_pictures, 5, {1, 4, 1, 2, 8}}, {network_vectors, 3, {2, 3, 4}}};

static void test_categories_sum_up(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (int k = 0; k < 2; k++) {
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
                harness h;
                harness_options options = {.model = cuts[c].model,
                                           .layers = cuts[c].layers,
                                           .stages = cuts[c].stages,
                                           .kind = kinds[k],
                                           .checkpoint = (gp_checkpoint_mode)mode,
                                           .lockstep = c % 2,
                                           .micro_batches = 4,
                                           .batch = 10,
                                           .last = 7,
                                           .evaluation = 13,
                                           .norms = mode == GP_CHECKPOINT_ALWAYS};
                harness_plan(&h, &options);
                check_plan(h.plan);
                harness_end(&h);
            }
        }
    }
}

static size_t arena_of(int worker, gp_checkpoint_mode mode, int micro_batches) {
    harness h;
    harness_options options = {.model = network_skips,
                               .layers = cuts[1].layers,
                               .stages = cuts[1].stages,
                               .kind = &gp_ref_kind,
                               .checkpoint = mode,
                               .lockstep = true,
                               .micro_batches = micro_batches,
                               .batch = 2 * micro_batches};
    harness_plan(&h, &options);
    size_t bytes = h.plan->arena[worker];
    harness_end(&h);
    return bytes;
}

/* Recomputing takes less the more micro-batches there are: what it saves is one micro-batch's saved values each. */
static void test_checkpointing_saves_memory(void **state) {
    (void)state;
    for (int w = 0; w < 3; w++) {
        size_t never = arena_of(w, GP_CHECKPOINT_NEVER, 16), except_last = arena_of(w, GP_CHECKPOINT_EXCEPT_LAST, 16),
               always = arena_of(w, GP_CHECKPOINT_ALWAYS, 16);
        printf("worker %d: never %zu, except last %zu, always %zu bytes\n", w, never, except_last, always);
        assert_true(except_last < never);
        assert_true(always <= except_last);
        size_t more = arena_of(w, GP_CHECKPOINT_NEVER, 32) - arena_of(w, GP_CHECKPOINT_ALWAYS, 32);
        assert_true(more > never - always);
    }
}

static int count_copies(const gp_routine *routine) {
    int count = 0;
    for (size_t o = 0; o < routine->count; o++) count += routine->ops[o].prepared->desc.kind == GP_OP_COPY;
    return count;
}

static void check_copies(const char *model, const gp_device_kind *kind) {
    const int64_t layers[] = {3};
    harness h;
    harness_options options = {.model = model,
                               .layers = layers,
                               .stages = 1,
                               .kind = kind,
                               .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                               .micro_batches = 2,
                               .batch = 4,
                               .evaluation = 4};
    harness_plan(&h, &options);
    for (int s = 0; s < h.plan->stage[0].sized_count; s++) {
        const gp_sized *sized = &h.plan->stage[0].sized[s];
        for (int r = 0; r < GP_ROUTINES; r++) assert_int_equal(count_copies(&sized->routine[r]), 0);
    }
    harness_end(&h);
}

/* identity moves no byte, be its input kept for the backward pass or not, and other users of it; its gradient is its
 * output's. */
static void test_identity_is_no_copy(void **state) {
    static const char alone[] =
        "input: {shape: [4]}\nlayers: [{linear: 3}, identity, {linear: 2}]\nloss: cross_entropy\n";
    static const char shared[] =
        "input: {shape: [4]}\nlayers: [{linear: {out: 3, name: l}}, identity, {add: [-1, l]}]\nloss: cross_entropy\n";
    (void)state;
    check_copies(alone, &gp_ref_kind);
    check_copies(alone, &gp_cpu_kind);
    check_copies(shared, &gp_ref_kind);
    check_copies(shared, &gp_cpu_kind);
}

/* Freezing takes away gradients, states, statistics, and what backward would read. */
static void test_freezing_saves_memory(void **state) {
    (void)state;
    static const char *const models[] = {network_skips, network_frozen};
    static const int64_t layers[] = {6, 11};
    size_t bytes[2][2][GP_MEMORY_KINDS];
    for (int m = 0; m < 2; m++) {
        harness h;
        harness_plan(&h, &(harness_options){.model = models[m],
                                            .layers = layers,
                                            .stages = 2,
                                            .kind = &gp_cpu_kind,
                                            .checkpoint = GP_CHECKPOINT_NEVER,
                                            .micro_batches = 4,
                                            .batch = 16});
        for (int s = 0; s < 2; s++) memcpy(bytes[m][s], h.plan->stage[s].memory, sizeof bytes[m][s]);
        harness_end(&h);
    }
    const size_t *whole = bytes[0][0], *frozen = bytes[1][0];
    assert_int_equal(frozen[GP_MEMORY_PARAMETERS], whole[GP_MEMORY_PARAMETERS]);
    assert_int_equal(frozen[GP_MEMORY_GRADIENTS], 0);
    assert_int_equal(frozen[GP_MEMORY_OPTIMIZER], 0);
    assert_true(frozen[GP_MEMORY_STATISTICS] < whole[GP_MEMORY_STATISTICS]);
    assert_true(frozen[GP_MEMORY_SAVED] < whole[GP_MEMORY_SAVED]);
    assert_true(frozen[GP_MEMORY_COPIES] < whole[GP_MEMORY_COPIES]);
    assert_true(bytes[1][1][GP_MEMORY_GRADIENTS] < bytes[0][1][GP_MEMORY_GRADIENTS]);
    assert_true(bytes[1][1][GP_MEMORY_OPTIMIZER] > 0);
}

/* The graph says the dtype of each value; a plan has the graph's types, and its devices must compute in them. */
static void test_types_are_the_graphs(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    gp_plan *plan = NULL;
    const gp_device_spec spec = {&gp_ref_kind, 0, 1, 0};
    const gp_mini_size size = {2, true};
    plan_small(&h, 1, GP_CHECKPOINT_NEVER);
    assert_int_equal(h.plan->types.master, GP_F32);
    h.graph->values[GP_VALUE_INPUT].dtype = GP_I32; /* tokens */
    gp_graph_set_types(h.graph, (gp_types){GP_F32, GP_BF16, GP_F32, GP_F64});
    assert_int_equal(gp_value_bytes(h.graph, GP_VALUE_INPUT, 3), 3 * 4 * 4);
    assert_int_equal(gp_value_bytes(h.graph, GP_VALUE_TARGET, 3), 3 * 8);
    assert_int_equal(gp_value_bytes(h.graph, GP_VALUE_TARGET + 1, 3), 3 * 3 * 2);
    const gp_plan_request request = {.graph = h.graph,
                                     .layers = one_layer,
                                     .stages = 1,
                                     .devices = &spec,
                                     .batch = 2,
                                     .micro_batches = 2,
                                     .sizes = &size,
                                     .size_count = 1};
    assert_int_equal(gp_plan_create(&request, &plan, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "device ref does not compute in BF16");
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stage_by_hand),
        cmocka_unit_test(test_two_stages_keeping_by_hand),
        cmocka_unit_test(test_two_stages_recomputing_by_hand),
        cmocka_unit_test(test_norms_by_hand),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_categories_sum_up),
        cmocka_unit_test(test_checkpointing_saves_memory),
        cmocka_unit_test(test_identity_is_no_copy),
        cmocka_unit_test(test_freezing_saves_memory),
        cmocka_unit_test(test_types_are_the_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Batch norm over the shares of several replicas. Statistics are those of the whole micro-batch, or of the group's part
 * of it; so the replicas find, within rounding, what one worker finds. With the same shares they find the same bits
 * wherever these are computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/replicas.h"

enum { TEXT = 4096 };

/* The model with a rule for all of its batch norms. */
static const char *synchronised(char text[TEXT], const char *model, const char *sync) {
    assert_true(snprintf(text, TEXT, "%srules: {batch_norm: {sync: %s}}\n", model, sync) < TEXT);
    return text;
}

/* Micro-batches of 8 and of 7 samples. */
static harness_options options_of(const char *model, const replicas_layout *its) {
    harness_options options = replicas_options(model, its);
    options.last = 21;
    options.evaluation = 24;
    return options;
}

/* ---- the same as one worker -------------------------------------------------------------------------------------- */

/* `micro_batches`: of one worker, whose batch norm has the statistics of each. */
static void expect_like_one(const char *model, const char *sync, const replicas_layout *its, int64_t batch,
                            int64_t last, int micro_batches, const char *what) {
    char text[TEXT];
    const replicas_layout alone = {1, {0}, {1}};
    harness_options options = options_of(synchronised(text, model, sync), its);
    options.batch = batch, options.last = last, options.evaluation = batch;
    options.norms = true;
    replicas_results found = replicas_train(&options, 3);
    replicas_layout one = alone;
    for (int s = 0; s < its->stages; s++) one.layers[0] += its->layers[s];
    options.model = model;
    options.layers = one.layers, options.stages = 1, options.replicas = NULL;
    options.micro_batches = micro_batches;
    replicas_results expected = replicas_train(&options, 3);
    replicas_expect_close(&found, &expected, what);
    free(found.values);
    free(expected.values);
}

/* One value per channel on each replica. */
static const char network_single[] = "input: {shape: [5]}\n"
                                     "layers: [linear: 6, batch_norm, relu, linear: 6, {batch_norm: {affine: false}}, "
                                     "linear: 4]\n"
                                     "loss: cross_entropy\n";

static void whole_micro_batches(void **state) {
    (void)state;
    static const struct {
        const char *model;
        replicas_layout its;
    } cases[] = {
        {network_skips, {1, {17}, {2}}},
        {network_skips, {2, {6, 11}, {2, 2}}},
        {network_skips, {3, {2, 6, 9}, {3, 1, 2}}}, /* of 8 samples: 3, 3 and 2 */
        {network_pictures, {1, {16}, {3}}},
        {network_pictures, {2, {4, 12}, {4, 3}}},
        {network_residual, {1, {22}, {3}}},
        {network_residual, {3, {6, 3, 13}, {2, 3, 4}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char what[40];
        snprintf(what, sizeof what, "case %zu", c);
        expect_like_one(cases[c].model, "true", &cases[c].its, 24, 21, 3, what);
    }
}

/* The last micro-batch, of 5 samples, is smaller; shares of 8 samples on 3 replicas differ too. */
static void uneven_micro_batches(void **state) {
    (void)state;
    static const replicas_layout its = {2, {6, 11}, {3, 2}};
    expect_like_one(network_skips, "true", &its, 21, 15, 3, "21 samples"); /* 7, 7, 7: shares of 3, 3 and 1 */
    expect_like_one(network_skips, "true", &its, 23, 15, 3, "23 samples"); /* 8, 8, 7 */
}

/* 3 replicas share 4 samples as 2, 2 and none; 4 share 9 as 3, 3, 3 and none, and then 8 as 2, 2, 2, 2. */
static void empty_shares_have_no_part(void **state) {
    (void)state;
    static const replicas_layout three = {2, {6, 11}, {3, 2}}, four = {1, {17}, {4}}, both = {2, {6, 11}, {4, 3}};
    expect_like_one(network_skips, "true", &three, 24, 12, 3, "4 samples");
    expect_like_one(network_skips, "true", &four, 26, 12, 3, "9, 9 and 8 samples");
    expect_like_one(network_skips, "true", &both, 26, 12, 3, "two stages");
    expect_like_one(network_single, "true", &(replicas_layout){1, {6}, {4}}, 13, 8, 3, "5, 5 and 3 samples");
}

/* A group's part of a micro-batch is like a micro-batch. */
static void groups_are_like_micro_batches(void **state) {
    (void)state;
    static const replicas_layout four = {1, {17}, {4}}, six = {2, {6, 11}, {4, 4}};
    expect_like_one(network_skips, "2", &four, 24, 24, 6, "groups of 2");
    expect_like_one(network_skips, "4", &four, 24, 21, 3, "one group of 4");
    expect_like_one(network_skips, "2", &six, 24, 24, 6, "two stages");
}

static void single_values_are_enough(void **state) {
    (void)state;
    static const replicas_layout two = {1, {6}, {2}}, three = {2, {2, 4}, {3, 3}};
    expect_like_one(network_single, "true", &two, 6, 6, 3, "2 replicas");
    expect_like_one(network_single, "true", &three, 9, 9, 3, "3 replicas");
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static const replicas_layout thrice[] = {
    {1, {17}, {3}}, {2, {6, 11}, {3, 3}}, {3, {2, 6, 9}, {3, 3, 3}}, {4, {2, 3, 4, 8}, {3, 3, 3, 3}}};

static void cuts_and_modes_change_no_bit(void **state) {
    (void)state;
    char text[TEXT];
    uint64_t expected = 0;
    for (size_t c = 0; c < sizeof thrice / sizeof *thrice; c++)
        for (int mode = 0; mode < 3; mode++)
            for (int unfused = 0; unfused < 2; unfused++) {
                harness_options options = options_of(synchronised(text, network_skips, "true"), &thrice[c]);
                options.checkpoint = (gp_checkpoint_mode)mode;
                options.lockstep = mode == 1;
                options.last = 12; /* shares of 2, 2 and none */
                options.unfused = unfused;
                options.unshared = unfused;
                options.clip_norm = 0.5;
                uint64_t found = harness_train(&options, NULL, 3);
                if (!expected) expected = found;
                if (found != expected) fail_msg("cut %zu, mode %d, unfused %d: other bits", c, mode, unfused);
            }
}

/* But for gpipe, which adds micro-batches up in the other order. */
static void schedules_change_no_bit(void **state) {
    (void)state;
    static const gp_schedule schedules[] = {{.kind = GP_SCHEDULE_1F1B},
                                            {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                                            {.kind = GP_SCHEDULE_ZB_H1},
                                            {.kind = GP_SCHEDULE_ZB_H2},
                                            {.kind = GP_SCHEDULE_ZB_V}};
    static const replicas_layout cuts[] = {{2, {6, 11}, {4, 4}}, {4, {2, 3, 4, 8}, {4, 4, 4, 4}}};
    char text[TEXT];
    uint64_t expected = 0;
    for (size_t n = 0; n < sizeof schedules / sizeof *schedules; n++) {
        bool chunks = schedules[n].kind == GP_SCHEDULE_INTERLEAVED || schedules[n].kind == GP_SCHEDULE_ZB_V;
        harness_options options = options_of(synchronised(text, network_skips, "2"), &cuts[chunks]);
        options.schedule = schedules[n];
        options.checkpoint = GP_CHECKPOINT_NEVER;
        options.micro_batches = 4;
        options.batch = 34, options.last = 16, options.evaluation = 32; /* 9, 9, 9, 7: the last share is empty */
        uint64_t found = harness_train(&options, NULL, 3);
        if (!expected) expected = found;
        if (found != expected) fail_msg("schedule %s: other bits", gp_schedule_kind_name(schedules[n].kind));
    }
}

static gp_status dawdle(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    gp_philox draw = gp_philox_draw(*(const uint64_t *)context,
                                    (gp_philox){{(uint32_t)site->pc, (uint32_t)site->worker, (uint32_t)site->step, 0}});
    if (draw.word[0] % 4 == 0) usleep((useconds_t)(draw.word[1] % 300));
    return GP_OK;
}

/* Who comes first decides nothing, on the CPU too. */
static void who_comes_first_changes_no_bit(void **state) {
    (void)state;
    static const replicas_layout its = {3, {2, 6, 9}, {3, 1, 2}};
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    char text[TEXT];
    for (int k = 0; k < 2; k++) {
        harness_options options = options_of(synchronised(text, network_skips, "true"), &its);
        options.kind = kinds[k];
        options.real = k ? GP_F32 : GP_F64;
        uint64_t expected = harness_train(&options, NULL, 3);
        for (uint64_t seed = 0; seed < 4; seed++) {
            gp_hooks hooks = {.before = dawdle, .context = &seed};
            assert_true(harness_train(&options, &hooks, 3) == expected);
        }
    }
}

/* Without replicas `sync` says nothing. */
static void one_replica_is_as_before(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{1, {17}, {1}}, {2, {6, 11}, {1, 1}}};
    char text[TEXT];
    for (int c = 0; c < 2; c++) {
        harness_options options = options_of(network_skips, &cuts[c]);
        uint64_t expected = harness_train(&options, NULL, 3);
        options.model = synchronised(text, network_skips, c ? "4" : "true");
        assert_true(harness_train(&options, NULL, 3) == expected);
    }
}

/* ---- what is exchanged ------------------------------------------------------------------------------------------- */

static size_t exchanges_of(const harness *h, gp_routine_kind kind) {
    size_t count = 0;
    for (int s = 0; s < h->plan->stages->count; s++) count += h->plan->stage[s].sized[0].routine[kind].exchanges;
    return count;
}

/* One in each pass for each batch norm that trains; none of what needs no gradient, to recompute, and to evaluate. */
static void only_passes_exchange(void **state) {
    (void)state;
    static const replicas_layout its = {1, {17}, {2}}, pictures = {1, {16}, {2}};
    char text[TEXT];
    harness h;
    harness_options options = options_of(synchronised(text, network_skips, "true"), &its);
    options.evaluation = options.batch;
    harness_plan(&h, &options);
    size_t norms = 3 * (size_t)its.replicas[0];
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_KEEP), norms);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_DISCARD), norms);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_BACKWARD), norms);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_RECOMPUTE), 0);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_EVALUATE), 0);
    harness_end(&h);
    options = options_of(synchronised(text, network_frozen, "true"), &its);
    harness_plan(&h, &options);
    assert_int_equal(h.plan->stages->stage[0].group, 1);
    for (int k = 0; k < GP_ROUTINES; k++) assert_int_equal(exchanges_of(&h, (gp_routine_kind)k), 0);
    harness_end(&h);
    /* Of what comes in, and of a layer before it that is frozen, nothing wants the gradient. */
    options = options_of("input: {shape: [3, 4, 4]}\n"
                         "layers: [batch_norm, {conv: {out: 4, kernel: 1}}, batch_norm, flatten, linear: 3]\n"
                         "loss: cross_entropy\n"
                         "rules: {batch_norm: {sync: true}}\n",
                         &(replicas_layout){1, {5}, {2}});
    options.schedule.kind = GP_SCHEDULE_ZB_H1;
    options.checkpoint = GP_CHECKPOINT_NEVER;
    harness_plan(&h, &options);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_KEEP), 4);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_BACKWARD_INPUT), 2);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_BACKWARD_WEIGHT), 0);
    harness_end(&h);
    options = options_of(synchronised(text, network_pictures, "true"), &pictures);
    harness_plan(&h, &options);
    assert_int_equal(exchanges_of(&h, GP_ROUTINE_BACKWARD), 4);
    harness_end(&h);
}

/* Places of statistics on a replica. When the mini-batch ends all are copied, since a replica with an empty share, or
 * of another group, has not seen them. */
static void parts_are_planned(void **state) {
    (void)state;
    static const replicas_layout four = {1, {6}, {4}};
    enum { CHANNELS = 6, BYTES = CHANNELS * sizeof(double) };
    char text[TEXT];
    for (int groups = 0; groups < 2; groups++) {
        harness h;
        harness_options options = options_of(synchronised(text, network_single, groups ? "2" : "true"), &four);
        options.micro_batches = 4;
        options.batch = options.last = options.evaluation = 32;
        harness_plan(&h, &options);
        const gp_stage_plan *stage = &h.plan->stage[0];
        size_t found[3] = {stage->stats[1].offset - stage->stats[0].offset,
                           stage->stats[2].offset - stage->stats[1].offset,
                           stage->stats[3].offset - stage->stats[2].offset};
        assert_int_equal(found[0], gp_align_up(4 * 4 * 3 * BYTES, GP_ALIGNMENT));
        assert_int_equal(found[1], gp_align_up(4 * 2 * BYTES, GP_ALIGNMENT));
        assert_int_equal(found[2], gp_align_up(4 * 4 * 2 * BYTES, GP_ALIGNMENT));
        gp_instr collect = {.op = GP_INSTR_COLLECT};
        while (h.plan->stages->collectives[collect.collective].part != GP_PART_STATISTICS) collect.collective++;
        assert_int_equal(gp_instr_bytes(h.plan, &h.plan->minis[0], &collect), 2 * 3 * 4 * 3 * BYTES);
        const gp_exchange exchange = {2, groups ? 2 : 0, groups ? 2 : 4};
        gp_move move;
        int moves = 0;
        for (; gp_exchange_move(h.plan, &h.plan->stage[2], &exchange, 3, moves, &move); moves++) {
            assert_int_equal(move.bytes, 2 * BYTES);
            assert_int_equal(move.from, groups ? 3 : moves + (moves >= 2));
        }
        assert_int_equal(moves, groups ? 1 : 3);
        harness_end(&h);
    }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

typedef struct fault {
    int worker;
    gp_instr_op op;
} fault;

static gp_status fail_there(void *context, const gp_site *site, gp_error *err) {
    const fault *its = context;
    if (site->worker != its->worker || site->instr->op != its->op || site->instr->micro != 1) return GP_OK;
    return gp_fail(err, GP_DEVICE, "made to fail");
}

/* The replicas that wait for a part that never comes end with the cause. */
static void a_failure_ends_all(void **state) {
    (void)state;
    static const replicas_layout its = {2, {6, 11}, {3, 3}};
    static const gp_instr_op ops[] = {GP_INSTR_FORWARD, GP_INSTR_BACKWARD};
    char text[TEXT];
    for (int worker = 0; worker < 6; worker++)
        for (int o = 0; o < 2; o++) {
            fault where = {worker, ops[o]};
            harness h;
            gp_error err = {0};
            gp_step_result result;
            gp_hooks hooks = {.before = fail_there, .context = &where};
            harness_options options = options_of(synchronised(text, network_skips, "true"), &its);
            harness_plan(&h, &options);
            harness_start(&h, &hooks);
            assert_int_equal(harness_step(&h, options.batch, true, 1, &result, &err), GP_DEVICE);
            assert_non_null(strstr(err.text, "made to fail"));
            harness_end(&h);
        }
}

static void refuse(const harness_options *options, const char *expected) {
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_plan *plan = NULL;
    gp_error err = {0};
    gp_device_spec specs[16];
    for (int i = 0; i < 16; i++) specs[i] = (gp_device_spec){&gp_ref_kind, 0, 1, 0};
    replicas_must(gp_yaml_parse(options->model, strlen(options->model), "m.yaml", &document, &err), &err);
    replicas_must(gp_graph_build(gp_yaml_root(document), &graph, &err), &err);
    gp_graph_set_types(graph, gp_types_of(GP_F64));
    const gp_mini_size size = {options->batch, true};
    const gp_plan_request request = {.graph = graph,
                                     .layers = options->layers,
                                     .stages = options->stages,
                                     .replicas = options->replicas,
                                     .devices = specs,
                                     .update = {.op = GP_OP_SGD},
                                     .batch = options->batch,
                                     .micro_batches = options->micro_batches,
                                     .sizes = &size,
                                     .size_count = 1};
    assert_int_equal(gp_plan_create(&request, &plan, &err), GP_CONFIG);
    assert_string_equal(err.text, expected);
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
}

static void wrong_groups_are_refused(void **state) {
    (void)state;
    char text[TEXT];
    harness_options options =
        options_of(synchronised(text, network_single, "4"), &(replicas_layout){2, {2, 4}, {4, 6}});
    options.batch = 72;
    refuse(&options, "m.yaml:2:51: batch_norm \"4\": sync: 4 does not divide the 6 replicas of stage 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_micro_batches),       cmocka_unit_test(uneven_micro_batches),
        cmocka_unit_test(empty_shares_have_no_part), cmocka_unit_test(groups_are_like_micro_batches),
        cmocka_unit_test(single_values_are_enough),  cmocka_unit_test(cuts_and_modes_change_no_bit),
        cmocka_unit_test(schedules_change_no_bit),   cmocka_unit_test(who_comes_first_changes_no_bit),
        cmocka_unit_test(one_replica_is_as_before),  cmocka_unit_test(only_passes_exchange),
        cmocka_unit_test(parts_are_planned),         cmocka_unit_test(a_failure_ends_all),
        cmocka_unit_test(wrong_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

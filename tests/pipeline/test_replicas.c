/* Replicas of stages. What a share of a micro-batch finds does not depend on where it is computed: parameters,
 * optimizer states and losses have the same bits for all cuts, schedules and modes with the same shares. And they are,
 * within rounding, what one worker finds with micro-batches as large as the shares. */
#include <float.h>
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
#include "schedule/schedule_file.h"

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static const replicas_layout twice[] = {
    {1, {17}, {2}}, {2, {6, 11}, {2, 2}}, {3, {2, 6, 9}, {2, 2, 2}}, {4, {2, 3, 4, 8}, {2, 2, 2, 2}}};

static void cuts_and_modes_change_no_bit(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        uint64_t expected = 0;
        for (size_t c = 0; c < sizeof twice / sizeof *twice; c++)
            for (int mode = 0; mode < 3; mode++) {
                harness_options options = replicas_options(network_skips, &twice[c]);
                options.checkpoint = (gp_checkpoint_mode)mode;
                options.lockstep = mode == 1;
                options.norms = norms;
                options.clip_norm = norms ? 0.5 : 0;
                uint64_t found = harness_train(&options, NULL, 3);
                if (!expected) expected = found;
                if (found != expected) fail_msg("cut %zu, mode %d, norms %d: other bits", c, mode, norms);
            }
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
    uint64_t expected[2] = {0};
    for (size_t i = 0; i < 2 * (sizeof schedules / sizeof *schedules); i++) {
        size_t n = i / 2, norms = i % 2;
        bool chunks = schedules[n].kind == GP_SCHEDULE_INTERLEAVED || schedules[n].kind == GP_SCHEDULE_ZB_V;
        harness_options options = replicas_options(network_skips, &twice[chunks ? 3 : 1]);
        options.schedule = schedules[n];
        options.checkpoint = GP_CHECKPOINT_NEVER;
        options.clip_norm = norms ? 0.5 : 0;
        uint64_t found = harness_train(&options, NULL, 3);
        if (!expected[norms]) expected[norms] = found;
        if (found != expected[norms]) fail_msg("schedule %s: other bits", gp_schedule_kind_name(schedules[n].kind));
    }
}

/* ---- schedules of files ------------------------------------------------------------------------------------------ */

/* Trains with what a text says, which is read for these replicas. */
static uint64_t train_as(const harness_options *like, const char *text, bool programs) {
    const gp_replicas replicas = {like->replicas, like->stages};
    harness_options options = *like;
    gp_schedule_file *file = NULL;
    gp_error err = {0};
    if (gp_schedule_file_parse(text, "a.txt", &replicas, &file, &err) != GP_OK) fail_msg("%s", err.text);
    options.schedule = (gp_schedule){.kind = GP_SCHEDULE_FILE, .file = file};
    assert_int_equal(gp_schedule_has_programs(&options.schedule, true, file->order->pieces), programs);
    assert_int_equal(file->order->stages, like->stages);
    uint64_t found = harness_train(&options, NULL, 3);
    gp_schedule_file_destroy(&file);
    return found;
}

/* The programs of a mini-batch; the caller frees them. */
static char *write_programs(const harness_options *options) {
    harness h;
    char *text = NULL;
    gp_error err = {0};
    harness_plan(&h, options);
    if (gp_programs_write(h.plan->minis[gp_plan_largest_mini(h.plan)].programs, &text, &err) != GP_OK)
        fail_msg("%s", err.text);
    harness_end(&h);
    return text;
}

/* An order, and programs, each for the stages and for their replicas. */
static void schedules_of_files_change_no_bit(void **state) {
    (void)state;
    static const replicas_layout layouts[] = {{2, {6, 11}, {2, 2}}, {2, {6, 11}, {3, 1}}};
    static const char first[] = "F0 F1 B0 F2 B1 B2\n", second[] = "F0 B0 F1 B1 F2 B2\n";
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char order[200] = "", each[200] = "";
        harness_options options = replicas_options(network_skips, &layouts[i]);
        options.batch = options.last = options.evaluation = 36;
        options.schedule = (gp_schedule){.kind = GP_SCHEDULE_1F1B};
        uint64_t expected = harness_train(&options, NULL, 3);
        for (int s = 0; s < 2; s++) {
            strcat(order, s ? second : first);
            for (int r = 0; r < layouts[i].replicas[s]; r++) strcat(each, s ? second : first);
        }
        assert_true(train_as(&options, order, false) == expected);
        assert_true(train_as(&options, each, false) == expected);
        char *of_replicas = write_programs(&options);
        assert_true(train_as(&options, of_replicas, true) == expected);
        harness_options alone = options;
        alone.replicas = NULL;
        char *of_stages = write_programs(&alone);
        assert_true(train_as(&options, of_stages, false) == expected);
        free(of_replicas);
        free(of_stages);
    }
}

static void check_refused(const char *text, const char *message) {
    static const int of[] = {2, 1};
    const gp_replicas replicas = {of, 2};
    gp_schedule_file *file = NULL;
    gp_error err = {0};
    assert_int_equal(gp_schedule_file_parse(text, "a.txt", &replicas, &file, &err), GP_CONFIG);
    assert_string_equal(err.text, message);
}

static void files_for_other_replicas_are_refused(void **state) {
    (void)state;
    check_refused("F0 F1 B0 B1\nF1 F0 B0 B1\nF0 B0 F1 B1\n",
                  "a.txt:2:1: worker 1 is a replica of worker 0, but its tasks are others, or in another order");
    check_refused("F0 F1 B0 B1\nF0 F1 B0\nF0 B0 F1 B1 B1\n",
                  "a.txt: worker 1 is a replica of worker 0, but its tasks are others, or in another order");
    check_refused("on 0 2 1\nF0 B0\nF0 B0\nF0 B0\n",
                  "a.txt: stage 1 is on worker 2, but it must be on worker 1: the replicas of a stage stand together, "
                  "from the first to the last");
    check_refused("on 0 1 2 0\n0F0 1F0 1B0 0B0\nF0 B0\nF0 B0\n",
                  "a.txt: there are 4 stages, but stage 2 has no replica on worker 1");
}

static gp_status dawdle(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    gp_philox draw = gp_philox_draw(*(const uint64_t *)context,
                                    (gp_philox){{(uint32_t)site->pc, (uint32_t)site->worker, (uint32_t)site->step, 0}});
    if (draw.word[0] % 4 == 0) usleep((useconds_t)(draw.word[1] % 300));
    return GP_OK;
}

/* Who comes first decides nothing: with replicas of all numbers, on the CPU too. */
static void who_comes_first_changes_no_bit(void **state) {
    (void)state;
    static const replicas_layout its = {3, {2, 6, 9}, {3, 1, 2}};
    enum { SAMPLES = 36 };
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (int k = 0; k < 2; k++) {
        harness_options options = replicas_options(network_skips, &its);
        options.kind = kinds[k];
        options.real = k ? GP_F32 : GP_F64;
        options.batch = options.last = options.evaluation = SAMPLES;
        uint64_t expected = harness_train(&options, NULL, 3);
        for (uint64_t seed = 0; seed < 4; seed++) {
            gp_hooks hooks = {.before = dawdle, .context = &seed};
            assert_true(harness_train(&options, &hooks, 3) == expected);
        }
    }
}

/* ---- the same as one worker -------------------------------------------------------------------------------------- */

/* One worker with as many micro-batches as there are shares: batch norm's statistics too are those of the shares. */
static void shares_are_like_micro_batches(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {
        {1, {17}, {2}}, {2, {6, 11}, {2, 2}}, {3, {2, 6, 9}, {2, 2, 2}}, {1, {17}, {4}}};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (int norms = 0; norms < 2; norms++) {
            char what[40];
            harness_options options = replicas_options(network_skips, &cuts[c]);
            options.micro_batches = 3;
            options.batch = 24, options.last = 12, options.evaluation = 24;
            options.norms = norms;
            options.clip_norm = norms ? 0.1 : 0;
            replicas_results found = replicas_train(&options, 3);
            static const replicas_layout alone = {1, {17}, {1}};
            options.layers = alone.layers, options.stages = 1, options.replicas = NULL;
            options.micro_batches = 3 * cuts[c].replicas[0];
            replicas_results expected = replicas_train(&options, 3);
            snprintf(what, sizeof what, "cut %zu, norms %d", c, norms);
            replicas_expect_close(&found, &expected, what);
            free(found.values);
            free(expected.values);
        }
}

/* Without batch norm nothing depends on how a micro-batch is shared out; shares here differ. */
static void uneven_shares_find_the_same(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{1, {9}, {3}},
                                           {2, {4, 5}, {2, 1}},
                                           {2, {4, 5}, {1, 3}},
                                           {3, {2, 3, 4}, {3, 2, 1}},
                                           {3, {2, 3, 4}, {2, 4, 3}},
                                           {4, {2, 2, 2, 3}, {1, 3, 1, 2}}};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        char what[40];
        harness_options options = replicas_options(network_vectors, &cuts[c]);
        options.batch = 42, options.last = 33,
        options.evaluation = 41; /* micro-batches of 14, 11, and 14 and 13 samples */
        options.norms = true;
        replicas_results found = replicas_train(&options, 3);
        static const replicas_layout alone = {1, {9}, {1}};
        options.layers = alone.layers, options.stages = 1, options.replicas = NULL;
        replicas_results expected = replicas_train(&options, 3);
        snprintf(what, sizeof what, "layout %zu", c);
        replicas_expect_close(&found, &expected, what);
        free(found.values);
        free(expected.values);
    }
}

/* Without batch norm, in f32 on the CPU: the gradient of a bias is a sum in f64. One worker adds it to those of earlier
 * micro-batches before it rounds; a replica rounds the sum of its share first. All else is added in one order. */
static void shares_on_the_cpu_are_like_micro_batches_within_rounding(void **state) {
    (void)state;
    static const replicas_layout alone = {1, {9}, {1}},
                                 cuts[] = {{1, {9}, {4}}, {2, {4, 5}, {4, 4}}, {3, {2, 3, 4}, {4, 4, 4}}};
    const double bound = 4 * FLT_EPSILON;
    harness_options options = replicas_options(network_vectors, &alone);
    options.kind = &gp_cpu_kind;
    options.real = GP_F32;
    options.schedule = (gp_schedule){.kind = GP_SCHEDULE_1F1B};
    options.micro_batches = 4;
    replicas_results expected = replicas_train(&options, 3);
    options.micro_batches = 1;
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        options.stages = cuts[c].stages, options.layers = cuts[c].layers, options.replicas = cuts[c].replicas;
        replicas_results found = replicas_train(&options, 3);
        assert_int_equal(found.count, expected.count);
        for (int64_t i = 0; i < found.count; i++)
            if (!(fabs(found.values[i] - expected.values[i]) <= bound))
                fail_msg("layout %zu: value %lld is %.9g, not %.9g", c, (long long)i, found.values[i],
                         expected.values[i]);
        free(found.values);
    }
    free(expected.values);
}

/* ---- empty shares ------------------------------------------------------------------------------------------------ */

/* One micro-batch, of which each replica has a share, is for one worker as many micro-batches: with the same bits,
 * since 1f1b adds them up in order. Of 9 samples 4 replicas have 3, 3, 3 and none, of 5 samples 2, 2, 1 and none, of 2
 * samples 1, 1 and none; one sample is the first one's. */
static void empty_shares_are_no_terms(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{9, 5, 2}, {13, 9, 5}, {13, 2, 9}, {6, 6, 5}, {2, 1, 1}};
    static const replicas_layout alone = {1, {17}, {1}}, cuts[] = {{1, {17}, {4}}, {3, {2, 6, 9}, {4, 4, 4}}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += (size_t)test_pick(2, 1, 1))
        for (int norms = 0; norms < 2; norms++) {
            harness_options options = replicas_options(network_skips, &alone);
            options.schedule = (gp_schedule){.kind = GP_SCHEDULE_1F1B};
            options.micro_batches = 4;
            options.batch = sizes[i][0], options.last = sizes[i][1], options.evaluation = sizes[i][2];
            options.norms = norms;
            options.clip_norm = norms ? 0.1 : 0;
            uint64_t expected = harness_train(&options, NULL, 6);
            options.micro_batches = 1;
            for (size_t c = 0; c < 2 * (sizeof cuts / sizeof *cuts); c++) {
                const replicas_layout *cut = &cuts[c / 2];
                options.shard_optimizer = c % 2;
                options.stages = cut->stages, options.layers = cut->layers, options.replicas = cut->replicas;
                if (harness_train(&options, NULL, 6) != expected)
                    fail_msg("sizes %zu, norms %d, cut %zu, sharded %zu: other bits", i, norms, c / 2, c % 2);
            }
        }
}

/* Micro-batches of 9 and 8, 7 and 6, 3 and 2 samples for 4 replicas: the last one has samples of the second, of the
 * first and of neither of them. */
static harness_options with_empty_shares(const replicas_layout *its) {
    harness_options options = replicas_options(network_skips, its);
    options.micro_batches = 2;
    options.batch = 17, options.last = 13, options.evaluation = 5;
    return options;
}

static const replicas_layout fourfold[] = {
    {1, {17}, {4}}, {2, {6, 11}, {4, 4}}, {3, {2, 6, 9}, {4, 4, 4}}, {4, {2, 3, 4, 8}, {4, 4, 4, 4}}};

static void empty_shares_change_no_bit_of_another_cut(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        uint64_t expected = 0;
        for (size_t c = 0; c < sizeof fourfold / sizeof *fourfold; c++)
            for (int mode = 0; mode < 3; mode++) {
                harness_options options = with_empty_shares(&fourfold[c]);
                options.checkpoint = (gp_checkpoint_mode)mode;
                options.lockstep = mode != 1;
                options.shard_optimizer = mode == 2;
                options.clip_norm = norms ? 0.5 : 0;
                uint64_t found = harness_train(&options, NULL, 3);
                if (!expected) expected = found;
                if (found != expected) fail_msg("cut %zu, mode %d, norms %d: other bits", c, mode, norms);
            }
    }
}

static const gp_schedule rising[] = {{.kind = GP_SCHEDULE_1F1B},
                                     {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                                     {.kind = GP_SCHEDULE_ZB_H1},
                                     {.kind = GP_SCHEDULE_ZB_H2},
                                     {.kind = GP_SCHEDULE_ZB_V}};

static void empty_shares_change_no_bit_of_another_schedule(void **state) {
    (void)state;
    uint64_t expected[2] = {0};
    for (size_t i = 0; i < 6 * (sizeof rising / sizeof *rising); i += (size_t)test_pick(5, 1, 1)) {
        size_t n = i / 6, norms = i % 2;
        bool chunks = rising[n].kind == GP_SCHEDULE_INTERLEAVED || rising[n].kind == GP_SCHEDULE_ZB_V;
        harness_options options = with_empty_shares(&fourfold[chunks ? 3 : 1]);
        options.schedule = rising[n];
        options.checkpoint = (gp_checkpoint_mode)(i / 2 % 3);
        options.clip_norm = norms ? 0.5 : 0;
        uint64_t found = harness_train(&options, NULL, 3);
        if (!expected[norms]) expected[norms] = found;
        if (found != expected[norms]) fail_msg("schedule %s: other bits", gp_schedule_kind_name(rising[n].kind));
    }
}

/* Some stages have empty shares and others do not. Neither mode, schedule nor order of arrival changes a bit. */
static void some_stages_have_empty_shares(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {
        {3, {2, 3, 4}, {1, 4, 2}}, {3, {2, 3, 4}, {4, 1, 3}}, {3, {2, 3, 4}, {2, 3, 4}}};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        static const replicas_layout alone = {1, {9}, {1}};
        static const gp_schedule_kind kinds[] = {GP_SCHEDULE_GPIPE, GP_SCHEDULE_1F1B, GP_SCHEDULE_ZB_H1,
                                                 GP_SCHEDULE_ZB_H2};
        uint64_t expected[2] = {0}; /* of gpipe, of others */
        char what[40];
        harness_options options = with_empty_shares(&cuts[c]);
        options.model = network_vectors;
        options.norms = true;
        for (int i = 0; i < 12; i++) {
            uint64_t seed = (uint64_t)i;
            gp_hooks hooks = {.before = dawdle, .context = &seed};
            options.schedule = (gp_schedule){.kind = kinds[i % 4]};
            options.checkpoint = (gp_checkpoint_mode)(i / 4);
            options.lockstep = i % 4 == 0 && i > 0;
            uint64_t found = harness_train(&options, i / 4 == 1 ? &hooks : NULL, 3);
            if (!expected[i % 4 > 0]) expected[i % 4 > 0] = found;
            if (found != expected[i % 4 > 0]) fail_msg("cut %zu, way %d: other bits", c, i);
        }
        replicas_results found = replicas_train(&options, 3);
        options.layers = alone.layers, options.stages = 1, options.replicas = NULL;
        replicas_results wanted = replicas_train(&options, 3);
        snprintf(what, sizeof what, "cut %zu", c);
        replicas_expect_close(&found, &wanted, what);
        free(found.values);
        free(wanted.values);
    }
}

/* Ranges that collects copy. */
static int count_moves(const gp_plan *plan, int mini, gp_collective_kind kind, gp_part_kind part) {
    const gp_programs *programs = plan->minis[mini].programs;
    int count = 0;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            gp_move move;
            if (instr->op != GP_INSTR_COLLECT) continue;
            const gp_collective *its = &plan->stages->collectives[instr->collective];
            if (its->kind != kind || its->part != part) continue;
            for (int i = 0; gp_instr_move(plan, &plan->minis[mini], instr, i, &move); i++) count++;
        }
    return count;
}

/* The last of 4 replicas has samples of the second of two micro-batches, or is idle. */
static void empty_shares_are_not_copied(void **state) {
    (void)state;
    harness_options options = with_empty_shares(&fourfold[0]);
    options.batch = 18, options.last = 17;
    harness h;
    harness_plan(&h, &options);
    int idle = gp_plan_find(h.plan, true, 18), late = gp_plan_find(h.plan, true, 17), norms = 0;
    for (size_t i = 0; i < h.plan->stage[0].stats_count; i++)
        norms += h.plan->stage[0].stats[i].node != h.graph->node_count - 1;
    assert_true(norms > 0);
    /* Three replicas copy from two others, and the last one from three. */
    const int of_three = 3 * 2 + 3, of_four = 4 * 3;
    assert_int_equal(count_moves(h.plan, idle, GP_COLLECTIVE_SCATTER, GP_PART_GRADIENTS), of_three);
    assert_int_equal(count_moves(h.plan, late, GP_COLLECTIVE_SCATTER, GP_PART_GRADIENTS), of_four);
    assert_int_equal(count_moves(h.plan, idle, GP_COLLECTIVE_EXCHANGE, GP_PART_GRADIENTS), of_four);
    assert_int_equal(count_moves(h.plan, idle, GP_COLLECTIVE_EXCHANGE, GP_PART_STATISTICS), 2 * of_three * norms);
    assert_int_equal(count_moves(h.plan, late, GP_COLLECTIVE_EXCHANGE, GP_PART_STATISTICS),
                     (of_three + of_four) * norms);
    assert_int_equal(count_moves(h.plan, idle, GP_COLLECTIVE_GATHER, GP_PART_LOSSES), 2 + 2);
    assert_int_equal(count_moves(h.plan, late, GP_COLLECTIVE_GATHER, GP_PART_LOSSES), 2 + 3);
    harness_end(&h);
}

/* What evaluations keep of the prediction, of each sample. */
static void predictions_leave_out_empty_shares(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{1, {9}, {1}}, {1, {9}, {4}}, {2, {4, 5}, {1, 4}}};
    enum { SAMPLES = 5, MOST_VALUES = 64 };
    double expected[MOST_VALUES] = {0};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        double found[MOST_VALUES] = {0};
        harness h;
        gp_error err = {0};
        gp_step_result result;
        harness_options options = with_empty_shares(&cuts[c]);
        options.model = network_vectors;
        options.predict = true;
        harness_plan(&h, &options);
        harness_start(&h, NULL);
        replicas_must(harness_step(&h, SAMPLES, false, 1, &result, &err), &err);
        replicas_must(gp_run_prediction(h.run, gp_plan_find(h.plan, false, SAMPLES), found, &err), &err);
        if (c == 0) memcpy(expected, found, sizeof found);
        assert_memory_equal(found, expected, sizeof found);
        harness_end(&h);
    }
    assert_true(expected[SAMPLES] != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_and_modes_change_no_bit),
        cmocka_unit_test(schedules_change_no_bit),
        cmocka_unit_test(schedules_of_files_change_no_bit),
        cmocka_unit_test(files_for_other_replicas_are_refused),
        cmocka_unit_test(who_comes_first_changes_no_bit),
        cmocka_unit_test(shares_are_like_micro_batches),
        cmocka_unit_test(uneven_shares_find_the_same),
        cmocka_unit_test(shares_on_the_cpu_are_like_micro_batches_within_rounding),
        cmocka_unit_test(empty_shares_are_no_terms),
        cmocka_unit_test(empty_shares_change_no_bit_of_another_cut),
        cmocka_unit_test(empty_shares_change_no_bit_of_another_schedule),
        cmocka_unit_test(some_stages_have_empty_shares),
        cmocka_unit_test(empty_shares_are_not_copied),
        cmocka_unit_test(predictions_leave_out_empty_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

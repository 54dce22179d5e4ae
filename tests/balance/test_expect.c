/* Times of instructions from a profile, against sums worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "balance/expect.h"
#include "balance/longest.h"
#include "base/memory.h"
#include "device/ref/ref.h"
#include "pipeline/lookout.h"
#include "profile/profile_file.h"

/* Powers of two of milliseconds: each sum says what is in it. */
static const char profile_text[] =
    "{\"gpipe_profile\": 2, \"micro_batch\": 8, \"devices\": [{\"device\": \"ref\", \"slowdown\": 2, \"layers\": [\n"
    "{\"forward\": 1, \"backward_input\": 0, \"backward_weight\": 16, \"recompute\": 256, \"update\": 4096},\n"
    "{\"forward\": 2, \"backward_input\": 32, \"backward_weight\": 0, \"recompute\": 512, \"update\": 0},\n"
    "{\"forward\": 4, \"backward_input\": 64, \"backward_weight\": 128, \"recompute\": 1024, \"update\": 8192},\n"
    "{\"forward\": 8, \"backward_input\": 65536, \"backward_weight\": 131072, \"recompute\": 2048, \"update\": 16384}\n"
    "]}], \"copies\": [{\"from\": \"host\", \"to\": \"ref\", \"latency\": 1, \"per_mib\": 1024},\n"
    "{\"from\": \"ref\", \"to\": \"ref\", \"latency\": 3, \"per_mib\": 2048}]}";

typedef struct planned {
    gp_yaml_document *document;
    gp_graph *graph;
    gp_profile *profile;
    gp_plan *plan;
    gp_durations durations;
} planned;

/* `request`: all but the graph. */
static planned plan_model(const char *model, gp_plan_request request) {
    planned p = {0};
    gp_error err = {0};
    gp_status status = gp_yaml_parse(model, strlen(model), "m.yaml", &p.document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(p.document), &p.graph, &err);
    request.graph = p.graph;
    if (status == GP_OK) status = gp_plan_create(&request, &p.plan, &err);
    if (status == GP_OK) status = gp_profile_parse(profile_text, strlen(profile_text), "p.json", &p.profile, &err);
    if (status == GP_OK) status = gp_durations_init(p.plan, 0, p.profile, &p.durations, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    return p;
}

static const gp_device_spec devices[] = {{&gp_ref_kind, 0, 1, 0}, {&gp_ref_kind, 0, 1, 0}, {&gp_ref_kind, 0, 1, 0}};

/* Four layers on one stage or two; the first of two ends with a linear, whose output no backward of its stage looks at.
 */
static planned make_cut(int stages, int micro_batches, gp_schedule_kind schedule, int64_t samples) {
    static const char model[] = "input: {shape: [16]}\n"
                                "layers: [linear: {out: 16}, relu: {name: a}, linear: {out: 16}, linear: {out: 16}]\n"
                                "loss: cross_entropy\n";
    const int64_t layers[] = {stages == 1 ? 4 : 3, 1};
    const gp_mini_size size = {samples, true};
    return plan_model(model, (gp_plan_request){.layers = layers,
                                               .stages = stages,
                                               .devices = devices,
                                               .update = {.op = GP_OP_SGD},
                                               .batch = 32,
                                               .micro_batches = micro_batches,
                                               .schedule = {.kind = schedule},
                                               .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                               .sizes = &size,
                                               .size_count = 1});
}

/* One stage of three replicas, which normalise their shares together: 3, 3 and 2 samples. */
static planned make_synced(const gp_links *links) {
    static const char model[] = "input: {shape: [16]}\n"
                                "layers: [linear: {out: 16}, relu: {name: a}, batch_norm: {sync: true}, "
                                "linear: {out: 16}]\n"
                                "loss: cross_entropy\n";
    static const int64_t layers[] = {4};
    static const int replicas[] = {3};
    const gp_mini_size size = {32, true};
    return plan_model(model, (gp_plan_request){.layers = layers,
                                               .stages = 1,
                                               .replicas = replicas,
                                               .devices = devices,
                                               .update = {.op = GP_OP_SGD},
                                               .batch = 32,
                                               .micro_batches = 4,
                                               .schedule = {.kind = GP_SCHEDULE_GPIPE},
                                               .checkpoint = GP_CHECKPOINT_ALWAYS,
                                               .sizes = &size,
                                               .size_count = 1,
                                               .links = links});
}

static planned make(gp_schedule_kind schedule, int64_t samples) {
    return make_cut(2, 4, schedule, samples);
}

static void release(planned *p) {
    gp_durations_fini(&p->durations);
    gp_profile_destroy(&p->profile);
    gp_plan_destroy(&p->plan);
    gp_graph_destroy(&p->graph);
    gp_yaml_destroy(&p->document);
}

static void expect_milliseconds(double is, double should) {
    if (!(fabs(is * 1e3 - should) <= 1e-9 * should)) fail_msg("%.17g ms is not %.17g", is * 1e3, should);
}

/* Every instruction of that operation, stage and micro-batch; how many there are. */
static int expect_computing(const planned *p, gp_instr_op op, int stage, int micro, double milliseconds) {
    int found = 0;
    const gp_programs *programs = p->plan->minis[0].programs;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            if (instr->op != op || instr->stage != stage || (micro >= 0 && instr->micro != micro)) continue;
            expect_milliseconds(gp_durations_computing(&p->durations, instr), milliseconds);
            found++;
        }
    return found;
}

/* Twice everything: the slowdown. Of recomputing, what the stage computes again. */
static void instructions_take_the_sum_of_their_layers(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_GPIPE, 32);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, -1, 2 * (1 + 2 + 4)), 4);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 1, -1, 2 * 8), 4);
    assert_int_equal(expect_computing(&p, GP_INSTR_RECOMPUTE, 0, -1, 2 * (256 + 512)), 3);
    assert_int_equal(expect_computing(&p, GP_INSTR_RECOMPUTE, 1, -1, 2 * 2048), 3);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD, 0, -1, 2 * (16 + 32 + 64 + 128)), 4);
    assert_int_equal(expect_computing(&p, GP_INSTR_STEP, 0, -1, 2 * (4096 + 8192)), 1);
    assert_int_equal(expect_computing(&p, GP_INSTR_SEND, 0, -1, 0), 4);
    release(&p);
}

/* One stage and one micro-batch: four times the profile's samples, and the update once. */
static void a_backward_that_updates_takes_the_update(void **state) {
    (void)state;
    planned p = make_cut(1, 1, GP_SCHEDULE_GPIPE, 32);
    assert_true(p.plan->stage[0].consumes);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, -1, 2 * 4 * (1 + 2 + 4 + 8)), 1);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD, 0, -1,
                                      2 * 4 * (16 + 32 + 64 + 128 + 65536 + 131072) + 2 * (4096 + 8192 + 16384)),
                     1);
    assert_int_equal(expect_computing(&p, GP_INSTR_STEP, 0, -1, 0), 1);
    release(&p);
}

static void halves_of_backward_stand_apart(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_ZB_H1, 32);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD_INPUT, 0, -1, 2 * (32 + 64)), 4);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD_WEIGHT, 0, -1, 2 * (16 + 128)), 4);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD_INPUT, 1, -1, 2 * 65536), 4);
    release(&p);
}

/* 25 samples in pieces of 7, 7, 7 and 4. */
static void smaller_micro_batches_take_their_share(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_GPIPE, 25);
    for (int m = 0; m < 4; m++)
        assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, m, 2 * (1 + 2 + 4) * (m == 3 ? 4 : 7) / 8.0), 1);
    assert_int_equal(expect_computing(&p, GP_INSTR_STEP, 1, -1, 2 * 16384), 1);
    release(&p);
}

/* 8 samples of 16 numbers or a class; a load of the input and one of the targets. */
static void copies_take_latency_and_bytes(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_GPIPE, 32);
    const gp_programs *programs = p.plan->minis[0].programs;
    int loads = 0, receives = 0, collects = 0;
    for (int w = 0; w < 2; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            double seconds = gp_durations_copying(&p.durations, instr);
            if (instr->op == GP_INSTR_LOAD) {
                expect_milliseconds(seconds, 1 + 1024 * (w == 0 ? 8 * 16 * 4 : 8 * 8) * 0x1p-20);
                loads++;
            } else if (instr->op == GP_INSTR_RECV) {
                expect_milliseconds(seconds, 3 + 2048 * (8 * 16 * 4) * 0x1p-20);
                receives++;
            } else if (instr->op == GP_INSTR_COLLECT) {
                expect_milliseconds(seconds, 3 + 2048 * 40 * 0x1p-20);
                collects++;
            } else {
                assert_true(seconds == 0);
            }
        }
    assert_int_equal(loads, 8);
    assert_int_equal(receives, 8);
    assert_int_equal(collects, 1);
    release(&p);
}

/* Of synchronised batch norm: a pass copies the parts of both other replicas, three or two numbers for each of 16
 * channels. Messages come at the same time. A recompute copies nothing. */
static void passes_take_their_exchanges(void **state) {
    (void)state;
    const double forward = 2 * (1 + 2 + 4 + 8) * 3 / 8.0,
                 backward = 2 * (16 + 32 + 64 + 128 + 65536 + 131072) * 3 / 8.0;
    planned p = make_synced(NULL);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, 0, forward + 2 * (3 + 2048 * (3 * 16 * 4) * 0x1p-20)),
                     1);
    assert_int_equal(expect_computing(&p, GP_INSTR_BACKWARD, 0, 0, backward + 2 * (3 + 2048 * (2 * 16 * 4) * 0x1p-20)),
                     1);
    assert_int_equal(expect_computing(&p, GP_INSTR_RECOMPUTE, 0, 0, 2 * (256 + 512 + 1024 + 2048) * 3 / 8.0), 1);
    release(&p);
    gp_links *links = NULL;
    gp_error err = {0};
    assert_int_equal(gp_links_create(3, &links, &err), GP_OK);
    links->processes = 3;
    for (int w = 0; w < 3; w++) links->process[w] = w;
    links->of[GP_LINK_HOST] = (gp_link){.given = true, .latency = 5e-3, .bandwidth = 0x1p20};
    p = make_synced(links);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, 0, forward + 5 + 2e3 * (3 * 16 * 4) * 0x1p-20), 1);
    release(&p);
    links->process[1] = 0; /* one of the others is in the process */
    p = make_synced(links);
    assert_int_equal(expect_computing(&p, GP_INSTR_FORWARD, 0, 0,
                                      forward + 3 + 2048 * (3 * 16 * 4) * 0x1p-20 + 5 + 1e3 * (3 * 16 * 4) * 0x1p-20),
                     1);
    release(&p);
    gp_links_destroy(&links);
}

/* Of micro-batches of 7, 7, 7 and 4 samples, the largest. */
static void the_longest_of_each_stage_and_operation(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_GPIPE, 25);
    double *longest = NULL;
    gp_error err = {0};
    assert_int_equal(GP_NEW(&longest, gp_lookout_expected_count(p.plan), &err), GP_OK);
    memset(longest, 0x7f, gp_lookout_expected_count(p.plan) * sizeof *longest);
    assert_int_equal(gp_expect_longest(p.plan, p.profile, longest, &err), GP_OK);
    const struct {
        gp_instr_op op;
        uint16_t stage;
        double milliseconds;
    } rows[] = {
        {GP_INSTR_LOAD, 0, 1 + 1024 * (7 * 16 * 4) * 0x1p-20},
        {GP_INSTR_LOAD, 1, 1 + 1024 * (7 * 8) * 0x1p-20},
        {GP_INSTR_FORWARD, 0, 2 * (1 + 2 + 4) * 7 / 8.0},
        {GP_INSTR_FORWARD, 1, 2 * 8 * 7 / 8.0},
        {GP_INSTR_RECV, 1, 3 + 2048 * (7 * 16 * 4) * 0x1p-20},
        {GP_INSTR_STEP, 1, 2 * 16384},
        {GP_INSTR_SEND, 0, 0},
        {GP_INSTR_UPDATE, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const gp_instr instr = {.op = (uint8_t)rows[i].op, .stage = rows[i].stage};
        expect_milliseconds(longest[gp_lookout_expected_index(p.plan, 0, &instr)], rows[i].milliseconds);
    }
    free(longest);
    release(&p);
}

/* The step is as long as the play of these times, and busy their sums. */
static void a_step_is_played_with_them(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_GPIPE, 32);
    gp_expectation expected = {0};
    gp_error err = {0};
    if (gp_expect(p.plan, 0, p.profile, &expected, &err) != GP_OK) fail_msg("%s", err.text);
    double first = 2 * (4 * 7 + 3 * 768 + 4 * 240 + 12288), last = 2 * (4 * 8 + 3 * 2048 + 4 * 196608.0 + 16384);
    expect_milliseconds(expected.busy[0], first);
    expect_milliseconds(expected.busy[1], last);
    assert_true(expected.seconds * 1e3 > last && expected.seconds * 1e3 < first + last + 100);
    assert_true(fabs(1 - expected.bubble - (first + last) / (2 * expected.seconds * 1e3)) < 1e-9);
    free(expected.busy);
    release(&p);
}

/* What instructions are expected to take, `computing` and `copying` times over, in the order of the programs. */
static double replayed(const planned *p, double computing, double copying, bool copies) {
    const gp_programs *programs = p->plan->minis[0].programs;
    double *seconds[2];
    gp_play *play = NULL;
    gp_error err = {0};
    for (int w = 0; w < 2; w++) {
        seconds[w] = calloc(programs->worker[w].count, sizeof **seconds);
        assert_non_null(seconds[w]);
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            seconds[w][pc] = computing * gp_durations_computing(&p->durations, instr) +
                             copying * gp_durations_copying(&p->durations, instr);
        }
    }
    const gp_replay replay = {seconds, copies};
    if (gp_expect_replay(p->plan, 0, p->profile, &replay, &play, &err) != GP_OK) fail_msg("%s", err.text);
    double length = play->length;
    gp_play_destroy(&play);
    free(seconds[0]);
    free(seconds[1]);
    return length;
}

/* With the same times it is the same step; copies are taken from the profile until they are asked for. */
static void a_step_is_played_again_with_what_it_took(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_1F1B, 32);
    gp_play *play = NULL;
    gp_error err = {0};
    if (gp_expect_play(p.plan, 0, p.profile, &play, &err) != GP_OK) fail_msg("%s", err.text);
    double expected = play->length, twice = replayed(&p, 2, 1, true);
    gp_play_destroy(&play);
    assert_true(replayed(&p, 1, 1, true) == expected && replayed(&p, 1, 1, false) == expected);
    assert_true(replayed(&p, 2, 2, true) == 2 * expected);
    assert_true(replayed(&p, 2, 7, false) == twice && twice > 1.9 * expected && twice < 2 * expected);
    assert_true(replayed(&p, 1, 7, true) > expected);
    release(&p);
}

static double step_on(planned *p, int processors, double busy[2]) {
    gp_expectation expected = {0};
    gp_error err = {0};
    p->plan->processors = processors;
    if (gp_expect(p->plan, 0, p->profile, &expected, &err) != GP_OK) fail_msg("%s", err.text);
    busy[0] = expected.busy[0];
    busy[1] = expected.busy[1];
    free(expected.busy);
    return expected.seconds;
}

/* On one processor a step takes all computations and copies of both workers; a worker is busy for longer, since it
 * takes turns. What is played again with the times that it took takes as long, and shares nothing a second time. */
static void workers_share_processors(void **state) {
    (void)state;
    planned p = make(GP_SCHEDULE_1F1B, 32);
    double alone[2], busy[2], work = 0;
    const gp_programs *programs = p.plan->minis[0].programs;
    for (int w = 0; w < 2; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            work += gp_durations_computing(&p.durations, &programs->worker[w].instrs[pc]) +
                    gp_durations_copying(&p.durations, &programs->worker[w].instrs[pc]);
    double free_step = step_on(&p, 0, alone);
    assert_int_equal(gp_plan_threads(p.plan), 2);
    assert_true(step_on(&p, 2, busy) == free_step && busy[0] == alone[0] && !gp_plan_shares(p.plan));
    double step = step_on(&p, 1, busy);
    assert_true(gp_plan_shares(p.plan));
    expect_milliseconds(step, 1e3 * work);
    assert_true(step > free_step && busy[0] > alone[0] && busy[1] >= alone[1]);
    gp_play *play = NULL;
    gp_error err = {0};
    double *seconds[2] = {NULL};
    if (gp_expect_play(p.plan, 0, p.profile, &play, &err) != GP_OK) fail_msg("%s", err.text);
    for (int w = 0; w < 2; w++) {
        seconds[w] = calloc(programs->worker[w].count, sizeof **seconds);
        assert_non_null(seconds[w]);
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            seconds[w][pc] = play->worker[w].end[pc] - play->worker[w].start[pc];
    }
    gp_play_destroy(&play);
    for (int copies = 0; copies < 2; copies++) {
        const gp_replay replay = {seconds, copies};
        if (gp_expect_replay(p.plan, 0, p.profile, &replay, &play, &err) != GP_OK) fail_msg("%s", err.text);
        expect_milliseconds(play->length, 1e3 * step);
        gp_play_destroy(&play);
    }
    free(seconds[0]);
    free(seconds[1]);
    release(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_take_the_sum_of_their_layers),
        cmocka_unit_test(a_backward_that_updates_takes_the_update),
        cmocka_unit_test(halves_of_backward_stand_apart),
        cmocka_unit_test(smaller_micro_batches_take_their_share),
        cmocka_unit_test(copies_take_latency_and_bytes),
        cmocka_unit_test(passes_take_their_exchanges),
        cmocka_unit_test(the_longest_of_each_stage_and_operation),
        cmocka_unit_test(a_step_is_played_with_them),
        cmocka_unit_test(a_step_is_played_again_with_what_it_took),
        cmocka_unit_test(workers_share_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The marks that a profiler of a GPU shows: one for each instruction, and in it one for each op where layers are
 * recorded. One worker, so that marks come from one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "cuda/recorder.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_api.h"
#include "pipeline/harness.h"

static const char network[] = "input: {shape: [2, 4, 4]}\n"
                              "layers: [conv: {out: 2, kernel: 3, pad: 1, name: c}, batch_norm: {name: n}, relu: "
                              "{name: r}, flatten: {name: f}, linear: {out: 2, name: l}]\n"
                              "loss: cross_entropy\n";

enum { LOG = 8192 };
static char marks[LOG]; /* "F s0 m0(c()n())": each mark with those in it */
static gp_cuda_api table;
static const gp_cuda_api *before;

static void add(const char *text, const char *end) {
    size_t used = strlen(marks);
    snprintf(marks + used, LOG - used, "%s%s", text, end);
}

static bool mark_begin(const char *name) {
    add(name, "(");
    return before->mark_begin(name);
}

static void mark_end(void) {
    add("", ")");
    before->mark_end();
}

/* One step that trains, on one micro-batch. */
static void run_step(bool records, bool layers) {
    gp_error err = {0};
    gp_step_result result;
    gp_recorder *recorder = NULL;
    recorder_counts counts;
    harness h;
    recorder_begin(&(recorder_options){RECORDER_EAGER, 1, 1, -1, -1, 0, 0, 0});
    before = gp_cuda;
    table = *gp_cuda;
    table.mark_begin = mark_begin;
    table.mark_end = mark_end;
    gp_cuda = &table;
    marks[0] = '\0';
    harness_plan(&h, &(harness_options){.model = network,
                                        .layers = (const int64_t[]){5},
                                        .stages = 1,
                                        .kind = &gp_cuda_kind,
                                        .micro_batches = 1,
                                        .batch = 2});
    harness_start(&h, NULL);
    if (records) {
        assert_int_equal(gp_recorder_create(1, &recorder, &err), GP_OK);
        if (layers) assert_int_equal(gp_recorder_add_ticks(recorder, &err), GP_OK);
        size_t count = h.plan->minis[0].programs->worker[0].count;
        assert_int_equal(gp_lane_reserve(&recorder->lanes[0], count, &err), GP_OK);
        gp_run_record(h.run, recorder);
    }
    assert_int_equal(harness_step(&h, 2, true, 1, &result, &err), GP_OK);
    gp_run_record(h.run, NULL);
    if (layers) assert_int_equal(recorder->ticks[0].count, 0); /* the host's clock does not tell them */
    gp_recorder_destroy(&recorder);
    recorder_meet();
    harness_end(&h);
    gp_cuda = before;
    const char *sentence = recorder_end(&counts);
    if (sentence) fail_msg("%s", sentence);
}

static void expect(const char *part) {
    if (!strstr(marks, part)) fail_msg("\"%s\" is not in\n%s", part, marks);
}

static void layers_are_marked_in_their_instructions(void **state) {
    (void)state;
    run_step(true, true);
    expect("F s0 m0(c()n()n + r()f()l()loss()loss())");
    expect("load s0 m0()");
    expect("B s0 m0(loss()");
    expect("step s0(n()sgd of 6 parameters())");
}

static void without_layers_only_instructions_are(void **state) {
    (void)state;
    for (int records = 0; records < 2; records++) {
        run_step(records, false);
        expect("F s0 m0()");
        expect("B s0 m0()");
        expect("step s0()");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_marked_in_their_instructions),
                                       cmocka_unit_test(without_layers_only_instructions_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every call of the CUDA device's table made to fail, one after another, and work that fails after it was enqueued: the
 * training ends with a sentence that says which and where, all workers are joined, and everything is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/labels.h"
#include "cuda/recorder.h"
#include "cuda/training.h"
#include "device/cuda/cuda_lost.h"
#include "pipeline/notes.h"

static const char model[] = "input: {shape: [2, 5, 4]}\n"
                            "layers:\n"
                            "  - conv: {out: 3, kernel: 3, pad: 1}\n"
                            "  - batch_norm: {name: a}\n"
                            "  - relu\n"
                            "  - conv: {out: 3, kernel: 1}\n"
                            "  - add: [-1, a]\n"
                            "  - flatten\n"
                            "  - linear: 4\n"
                            "loss: cross_entropy\n";
static const training_cut cut = {model, 2, {3, 4}};

/* Calls, with a note behind each layer; the last ones, while all is given back, may fail unseen. */
static void each_call_fails(void **state) {
    (void)state;
    harness_options options = training_options(&cut, GP_CHECKPOINT_ALWAYS, false, 2);
    recorder_counts counts;
    gp_error err = {0};
    const double seconds = gp_note_seconds;
    gp_note_seconds = 0;
    recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, -1, 0, 0, 0});
    assert_int_equal(training_run(&options, 2, false, NULL, &err), GP_OK);
    assert_null(recorder_end(&counts));
    long failed = 0, ended_well = 0;
    const long stride = test_pick(7, 3, 1);
    for (long call = test_first((int)stride); call < counts.calls; call += stride) {
        err = (gp_error){0};
        recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, call, 0, 0, 0});
        gp_status status = training_run(&options, 2, false, NULL, &err);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("call %ld: %s", call, sentence);
        if (status == GP_OK) {
            ended_well++;
            continue;
        }
        failed++;
        if (!strstr(err.text, "made to fail")) fail_msg("call %ld: %s", call, err.text);
        if (!strstr(err.text, "worker ") || strstr(err.text, " failed in ")) fail_msg("call %ld: %s", call, err.text);
        const recorder_fault *fault = recorder_failed();
        if (!strstr(err.text, fault->mark)) fail_msg("call %ld, in %s: %s", call, fault->mark, err.text);
        bool computes = strchr("FRB", fault->mark[0]) && fault->mark[0];
        if (computes && (!strcmp(fault->what, "launch") || !strcmp(fault->what, "plan_run")) &&
            !strstr(err.text, "layer \""))
            fail_msg("call %ld, in %s: %s", call, fault->mark, err.text);
    }
    print_message("%ld calls: %ld failed, %ld while all was given back\n", counts.calls, failed, ended_well);
    assert_true(failed > counts.calls / stride / 2);
    gp_note_seconds = seconds;
}

/* Ops that are one for several layers, alone on the first stage and with an addend on the second. */
static const char fused_model[] = "input: {shape: [2, 5, 4]}\n"
                                  "layers:\n"
                                  "  - conv: {name: a, out: 3, kernel: 3, pad: 1}\n"
                                  "  - batch_norm: {name: b}\n"
                                  "  - relu: {name: c}\n"
                                  "  - conv: {name: d, out: 3, kernel: 1}\n"
                                  "  - batch_norm: {name: e}\n"
                                  "  - add: {name: f, from: [-1, c]}\n"
                                  "  - relu: {name: g}\n"
                                  "  - flatten: {name: h}\n"
                                  "  - linear: {name: i, out: 4}\n"
                                  "loss: cross_entropy\n";
static const training_cut fused = {fused_model, 2, {3, 6}};
static const char *const layers[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "loss"};
enum { LAYERS = sizeof layers / sizeof *layers, CUT = 3 };

static int layer_of(const char *name) {
    int at = 0;
    while (at < LAYERS && strcmp(layers[at], name) != 0) at++;
    if (at == LAYERS) fail_msg("no layer \"%s\"", name);
    return at;
}

static void read_layers(const char *text, int *first, int *last) {
    char name[2][16];
    int read = sscanf(text, "layers \"%15[^\"]\" to \"%15[^\"]\"", name[0], name[1]);
    if (read != 2) read = sscanf(text, "layer \"%15[^\"]\"", name[0]);
    if (read < 1) fail_msg("no layers: %s", text);
    *first = layer_of(name[0]);
    *last = layer_of(name[read - 1]);
}

typedef struct tally {
    long named, alone, narrowed;
} tally;

/* Of what the sentence says before where it came out: that it names the instruction, and layers among which are those
 * of the op; no others where `exact`. All of the stage's where it was no layer's op. */
static void check_place(const char *text, const recorder_fault *fault, bool exact, tally *counted) {
    char place[256], said[1024] = "";
    const char *end = strstr(text, "; reported by worker ");
    if (!end) fail_msg("%s in %s: %s", fault->what, fault->mark, text);
    snprintf(said, sizeof said, "%.*s", (int)(end - text), text);
    snprintf(place, sizeof place, "cuda:%d failed in ", fault->device);
    if (!strstr(said, place)) fail_msg("%s in %s: %s", fault->what, fault->mark, text);
    int stage = strstr(fault->mark, " s0") == NULL, first, last;
    int from = stage ? CUT : 0, to = stage ? LAYERS - 1 : CUT - 1;
    snprintf(place, sizeof place, "%s (worker %d, stage %d, ", fault->mark, stage, stage);
    const char *at = strstr(said, place);
    if (!at) fail_msg("%s in %s: \"%s\" is not in: %s", fault->what, fault->mark, place, text);
    read_layers(at + strlen(place), &first, &last);
    bool right = first >= from && last <= to;
    counted->narrowed += last - first < to - from;
    if (fault->label[0]) read_layers(fault->label, &from, &to);
    right &= first <= from && last >= to;
    if (exact || !fault->label[0]) right &= first == from && last == to;
    if (!right) fail_msg("%s in %s, %s: %s", fault->what, fault->mark, fault->label, text);
    counted->named++;
    counted->alone += !strstr(said, ", or in ");
}

/* What was enqueued fails when it is carried out: eagerly, so that one instruction has begun, and each once; or late,
 * when there is one in each queue. */
static void fail_late(double seconds, int devices, recorder_policy policy, tally *counted) {
    harness_options options = training_options(&fused, GP_CHECKPOINT_EXCEPT_LAST, false, devices);
    options.kind = labels_kind();
    gp_note_seconds = seconds;
    gp_status status = GP_OK;
    const bool every = policy == RECORDER_EAGER && devices == 1;
    const long stride = every ? test_pick(29, 3, 1) : test_pick(29, 23, 1);
    for (long work = 1 + (long)policy; status != GP_OK || work == 1 + (long)policy; work += stride) {
        gp_error err = {0};
        recorder_begin(&(recorder_options){policy, 3, devices, -1, -1, work, 0, 0});
        status = training_run(&options, 2, false, NULL, &err);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("%d devices, policy %d, work %ld: %s", devices, (int)policy, work, sentence);
        const recorder_fault *fault = recorder_failed();
        if (status == GP_OK) assert_null(fault->what);
        if (status != GP_OK && fault->mark[0]) check_place(err.text, fault, seconds == 0, counted);
    }
}

/* With a note behind each layer, behind some, and behind none: the network is small. */
static void late_failures_are_placed(void **state) {
    (void)state;
    const long patience = gp_cuda_lost_patience;
    const double seconds[] = {0, 8e-6, gp_note_seconds};
    gp_cuda_lost_patience = 100;
    for (int s = 0; s < 3; s++) {
        tally counted = {0};
        for (int devices = 1; devices <= 2; devices++)
            for (int policy = 0; policy < RECORDER_POLICIES; policy++)
                fail_late(seconds[s], devices, (recorder_policy)policy, &counted);
        print_message("%ld failures named, %ld alone, %ld not with all layers of the stage\n", counted.named,
                      counted.alone, counted.narrowed);
        assert_true(counted.named > 40 && 3 * counted.alone > counted.named);
        assert_true(s == 2 || 2 * counted.narrowed > counted.named);
    }
    gp_note_seconds = seconds[2];
    gp_cuda_lost_patience = patience;
}

/* Without notes the sentence says how to find out more. */
static void a_late_failure_without_notes_says_what_to_do(void **state) {
    (void)state;
    const long patience = gp_cuda_lost_patience;
    harness_options options = training_options(&fused, GP_CHECKPOINT_EXCEPT_LAST, false, 1);
    gp_error err = {0};
    options.no_notes = true;
    gp_cuda_lost_patience = 100;
    recorder_begin(&(recorder_options){RECORDER_EAGER, 3, 1, -1, -1, 40, 0, 0});
    assert_int_equal(training_run(&options, 2, false, NULL, &err), GP_DEVICE);
    assert_null(recorder_end(NULL));
    if (!strstr(err.text, "cuda:0 failed (-v finds out in which instruction); reported by worker "))
        fail_msg("%s", err.text);
    gp_cuda_lost_patience = patience;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails), cmocka_unit_test(late_failures_are_placed),
                                       cmocka_unit_test(a_late_failure_without_notes_says_what_to_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

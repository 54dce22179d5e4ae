/* Every call of the CUDA device's table made to fail, one after another, and work that fails after it was enqueued: the
 * training ends with a sentence that says which and where, all workers are joined, and everything is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/recorder.h"
#include "cuda/training.h"
#include "device/cuda/cuda_lost.h"

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

/* Calls; the last ones, while all is given back, may fail unseen. */
static void each_call_fails(void **state) {
    (void)state;
    harness_options options = training_options(&cut, GP_CHECKPOINT_ALWAYS, false, 2);
    recorder_counts counts;
    gp_error err = {0};
    recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, -1, 0, 0, 0});
    assert_int_equal(training_run(&options, 2, NULL, &err), GP_OK);
    assert_null(recorder_end(&counts));
    long failed = 0, ended_well = 0;
    for (long call = 0; call < counts.calls; call++) {
        err = (gp_error){0};
        recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, call, 0, 0, 0});
        gp_status status = training_run(&options, 2, NULL, &err);
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
    assert_true(failed > counts.calls / 2);
}

/* Of what the sentence says before where it came out: that it names the instruction, with its stage's layers. True
 * where it names no other. */
static bool check_place(const char *text, const recorder_fault *fault) {
    char place[256], said[1024] = "";
    const char *end = strstr(text, "; it came out in worker ");
    if (!end) fail_msg("%s in %s: %s", fault->what, fault->mark, text);
    snprintf(said, sizeof said, "%.*s", (int)(end - text), text);
    snprintf(place, sizeof place, "cuda:%d failed in ", fault->device);
    if (!strstr(said, place)) fail_msg("%s in %s: %s", fault->what, fault->mark, text);
    bool first = strstr(fault->mark, " s0") != NULL;
    snprintf(place, sizeof place, "%s (worker %d, stage %d, layers \"%s\" to \"%s\")", fault->mark, !first, !first,
             first ? "0" : "3", first ? "2" : "loss");
    if (!strstr(said, place)) fail_msg("%s in %s: \"%s\" is not in: %s", fault->what, fault->mark, place, text);
    return !strstr(said, ", or in ");
}

/* What was enqueued fails when it is carried out: eagerly, so that one instruction has begun; or late, when there is
 * one in each queue. */
static void late_failures_are_placed(void **state) {
    (void)state;
    const long patience = gp_cuda_lost_patience;
    long named = 0, alone = 0;
    gp_cuda_lost_patience = 100;
    for (int devices = 1; devices <= 2; devices++)
        for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
            harness_options options = training_options(&cut, GP_CHECKPOINT_EXCEPT_LAST, false, devices);
            gp_status status = GP_OK;
            for (long work = 1 + policy; status != GP_OK || work == 1 + policy; work += 11) {
                gp_error err = {0};
                recorder_begin(&(recorder_options){(recorder_policy)policy, 3, devices, -1, -1, work, 0, 0});
                status = training_run(&options, 2, NULL, &err);
                const char *sentence = recorder_end(NULL);
                if (sentence) fail_msg("%d devices, policy %d, work %ld: %s", devices, policy, work, sentence);
                const recorder_fault *fault = recorder_failed();
                if (status == GP_OK) assert_null(fault->what);
                if (status == GP_OK || !fault->mark[0]) continue;
                alone += check_place(err.text, fault);
                named++;
            }
        }
    print_message("%ld failures named, %ld alone\n", named, alone);
    assert_true(named > 60 && 2 * alone > named);
    gp_cuda_lost_patience = patience;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails), cmocka_unit_test(late_failures_are_placed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every call of the CUDA device's table made to fail, one after another: the training ends with a sentence that says
 * which, all workers are joined, and everything is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/recorder.h"
#include "cuda/training.h"

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
    recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, -1});
    assert_int_equal(training_run(&options, 2, NULL, &err), GP_OK);
    assert_null(recorder_end(&counts));
    long failed = 0, ended_well = 0;
    for (long call = 0; call < counts.calls; call++) {
        err = (gp_error){0};
        recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 2, -1, call});
        gp_status status = training_run(&options, 2, NULL, &err);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("call %ld: %s", call, sentence);
        if (status == GP_OK) {
            ended_well++;
            continue;
        }
        failed++;
        if (!strstr(err.text, "made to fail")) fail_msg("call %ld: %s", call, err.text);
        if (!strstr(err.text, "worker ")) fail_msg("call %ld: %s", call, err.text);
    }
    print_message("%ld calls: %ld failed, %ld while all was given back\n", counts.calls, failed, ended_well);
    assert_true(failed > counts.calls / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

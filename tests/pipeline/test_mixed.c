/* Stages on devices of different kinds in one pipeline: copies between them go through the host's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { STEPS = 4, BATCH = 10 };

static void train(const gp_device_kind *kind, const gp_device_kind *odd, double losses[STEPS]) {
    harness h;
    gp_error err = {0};
    gp_step_result result;
    harness_plan(&h, &(harness_options){.model = network_skips,
                                        .layers = (const int64_t[]){3, 4, 3, 7},
                                        .stages = 4,
                                        .kind = kind,
                                        .odd = odd,
                                        .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                        .lockstep = true,
                                        .micro_batches = 4,
                                        .batch = BATCH,
                                        .evaluation = BATCH,
                                        .clip_norm = 0.5});
    harness_start(&h, NULL);
    for (uint32_t step = 1; step <= STEPS; step++) {
        assert_int_equal(harness_step(&h, BATCH, step < STEPS, step, &result, &err), GP_OK);
        losses[step - 1] = result.loss_sum;
    }
    harness_end(&h);
}

static void two_kinds_train_together(void **state) {
    (void)state;
    double alone[STEPS], together[STEPS], other_way[STEPS];
    train(&gp_cpu_kind, NULL, alone);
    train(&gp_cpu_kind, &gp_ref_kind, together);
    train(&gp_ref_kind, &gp_cpu_kind, other_way);
    for (int i = 0; i < STEPS; i++) {
        assert_true(fabs(together[i] - alone[i]) <= 1e-5 * alone[i]);
        assert_true(fabs(other_way[i] - alone[i]) <= 1e-5 * alone[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_kinds_train_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

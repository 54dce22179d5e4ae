/* Plans of several processes that are refused: the sentence names replicas as the user numbers them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "schedule/stages.h"

enum { LAYERS = 3 };

static const char model[] = "input: {shape: [2, 4, 4]}\n"
                            "layers:\n"
                            "  - conv: {out: 3, kernel: 3}\n"
                            "  - batch_norm: {sync: true}\n"
                            "  - flatten\n"
                            "loss: mse\n";

static void gpus_of_two_processes_without_lines(void **state) {
    (void)state;
    gp_device_kind gpu = gp_ref_kind;
    harness h;
    gpu.on_host = false;
    const harness_options options = {.model = model,
                                     .layers = (const int64_t[]){1, LAYERS - 1},
                                     .stages = 2,
                                     .replicas = (const int[]){1, 2},
                                     .kind = &gpu,
                                     .micro_batches = 2,
                                     .batch = 8,
                                     .processes = 2,
                                     .process = (const int[]){0, 0, 1},
                                     .carrier = GP_CARRIER_LINES,
                                     .refused = "stage 0 and replica 1 of stage 1 are on GPUs of different processes, "
                                                "but this program was built without NCCL: "};
    harness_plan(&h, &options);
    harness_end(&h);
}

static void names_of_stages(void **state) {
    (void)state;
    harness h;
    char text[GP_STAGE_NAME];
    const harness_options options = {.model = model,
                                     .layers = (const int64_t[]){1, LAYERS - 1},
                                     .stages = 2,
                                     .replicas = (const int[]){1, 2},
                                     .kind = &gp_ref_kind,
                                     .micro_batches = 2,
                                     .batch = 8};
    harness_plan(&h, &options);
    assert_string_equal(gp_stage_name(h.plan->stages, 0, text), "stage 0");
    assert_string_equal(gp_stage_name(h.plan->stages, 1, text), "replica 0 of stage 1");
    assert_string_equal(gp_stage_name(h.plan->stages, 2, text), "replica 1 of stage 1");
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_of_two_processes_without_lines),
        cmocka_unit_test(names_of_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

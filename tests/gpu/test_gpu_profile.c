/* Layers timed on a GPU: every op of a network with convolutions, norms, skips and updates in one launch is run and
 * timed by events, in one arena and, where that must be small, part by part; copies from the host and within the GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "gpu/gpu.h"
#include "pipeline/networks.h"
#include "profile/measure.h"

/* Bytes that timing may take; 0: as many as there are. */
typedef struct limits {
    size_t device; /* of the device's memory, libraries included */
    size_t arena;
} limits;

static gp_status measure(const char *model, limits limit, gp_profile **out, gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_profile_identity identity = {.samples = 4};
    gp_measured came;
    const gp_device_spec spec = {&gp_cuda_kind, 0, 1, limit.device};
    gp_status status = gp_yaml_parse(model, strlen(model), "m.yaml", &document, err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(document), &graph, err);
    if (status == GP_OK) status = gp_profile_create(&identity, graph, &spec, 1, out, err);
    if (status == GP_OK) {
        const gp_measure_request request = {
            .graph = graph,
            .devices = &spec,
            .device_count = 1,
            .update = {.op = GP_OP_ADAM, .states = 2, .adam = {0.9, 0.999, 1e-8, 0, 0, 0}},
            .clip_norm = 1,
            .samples = 4,
            .mix = {0.25, 0.25},
            .seconds = 0.5,
            .memory = limit.arena};
        status = gp_profile_measure(&request, *out, &came, err);
    }
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
    return status;
}

static void expect_times(const gp_profile *profile) {
    double sum = 0;
    for (int i = 0; i < profile->layer_count; i++)
        for (int t = 0; t < GP_PROFILE_TIMES; t++) {
            double time = profile->devices[0].layers[i].time[t];
            assert_true(time >= 0 && time < 1);
            sum += time;
        }
    if (gpu_is_real()) assert_true(sum > 0);
    assert_int_equal(profile->copy_count, 2);
    assert_non_null(gp_profile_find_copy(profile, "host", "cuda"));
    assert_non_null(gp_profile_find_copy(profile, "cuda", "cuda"));
}

static void networks_are_timed(void **state) {
    (void)state;
    static const char *const networks[] = {network_skips, network_pictures, network_vectors, network_samples};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        gp_profile *profile = NULL;
        gp_error err = {0};
        if (measure(networks[i], (limits){0, 0}, &profile, &err) != GP_OK) fail_msg("network %zu: %s", i, err.text);
        expect_times(profile);
        gp_profile_destroy(&profile);
    }
}

static void expect_held(limits limit, bool held) {
    gp_profile *profile = NULL;
    gp_error err = {0};
    gp_status status = measure(network_skips, limit, &profile, &err);
    if (status != (held ? GP_OK : GP_UNSUPPORTED))
        fail_msg("%zu bytes of the device, %zu of the arena: %s", limit.device, limit.arena, err.text);
    if (held) expect_times(profile);
    gp_profile_destroy(&profile);
}

/* The bytes that the plan of the largest part takes, as a refusal names them. */
static size_t bytes_of_a_part(void) {
    gp_profile *profile = NULL;
    gp_error err = {0};
    size_t bytes = 0;
    assert_int_equal(measure(network_skips, (limits){0, 1}, &profile, &err), GP_UNSUPPORTED);
    gp_profile_destroy(&profile);
    if (sscanf(err.text, "timing the layers needs %zu bytes at a time, but may use 1", &bytes) != 1)
        fail_msg("%s", err.text);
    return bytes;
}

/* The plan says what the largest part takes, workspaces of libraries included. So much is enough, and one byte less is
 * refused: for the arena, and for the device with what plans count for libraries beside it. A real GPU's libraries may
 * take more than that, as measured. */
static void a_small_memory_holds_a_part_at_a_time(void **state) {
    (void)state;
    size_t part = bytes_of_a_part(), beside = gp_cuda_kind.beside;
    expect_held((limits){0, part}, true);
    expect_held((limits){0, part - 1}, false);
    if (gpu_is_real()) return;
    expect_held((limits){beside + part, 0}, true);
    expect_held((limits){beside + part - 1, 0}, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_timed),
        cmocka_unit_test(a_small_memory_holds_a_part_at_a_time),
    };
    if (!gpu_is_there()) return GPU_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a run costs beside its instructions: which workers a command wakes. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { STAGES = 3, SAMPLES = 6 };

static const int64_t cut[STAGES] = {2, 6, 9};

static const harness_options options = {
    .model = network_skips,
    .layers = cut,
    .stages = STAGES,
    .kind = &gp_ref_kind,
    .micro_batches = 3,
    .batch = SAMPLES,
};

static uint64_t wakes_since(const harness *h, uint64_t *before) {
    uint64_t now = gp_run_wakes(h->run), since = now - *before;
    *before = now;
    return since;
}

static int stage_of(const harness *h, int param) {
    return h->plan->stages->stage_of_node[h->graph->params[param].node];
}

/* Each tensor's place in one block. */
static gp_tensor_copy *list_params(const harness *h, double *block) {
    gp_tensor_copy *copies = calloc((size_t)h->graph->param_count, sizeof *copies);
    assert_non_null(copies);
    for (int p = 0; p < h->graph->param_count; p++) {
        copies[p] = (gp_tensor_copy){p, -1, block};
        block += gp_run_largest_param(h->plan) / sizeof *block + 1;
    }
    return copies;
}

static void a_command_wakes_the_workers_that_it_concerns(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    gp_step_result result;
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    int count = h.graph->param_count;
    double *block = calloc((size_t)count, gp_run_largest_param(h.plan) + sizeof *block);
    gp_tensor_copy *copies = list_params(&h, block);
    uint64_t before = gp_run_wakes(h.run);
    assert_int_equal(harness_step(&h, SAMPLES, true, 1, &result, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), STAGES);
    assert_int_equal(gp_run_refresh(h.run, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), STAGES);
    assert_int_equal(gp_run_read(h.run, copies, 1, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), 1);
    assert_int_equal(gp_run_read(h.run, copies, count, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), STAGES);
    assert_int_equal(gp_run_write(h.run, copies, count, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), STAGES);
    int others = 0;
    while (others < count && stage_of(&h, others) == stage_of(&h, 0)) others++;
    assert_in_range(others, 2, count - 1);
    assert_int_equal(gp_run_read(h.run, copies, others, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), 1);
    assert_int_equal(gp_run_read(h.run, copies, 0, &err), GP_OK);
    assert_int_equal(wakes_since(&h, &before), 0);
    free(copies);
    free(block);
    harness_end(&h);
}

/* A list has the same values as its tensors one by one, whatever stages they are on. */
static void a_list_is_what_its_tensors_are(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    int count = h.graph->param_count;
    size_t most = gp_run_largest_param(h.plan);
    double *block = calloc((size_t)count, most + sizeof *block), *one = calloc(1, most);
    gp_tensor_copy *copies = list_params(&h, block);
    for (int round = 0; round < 2; round++) {
        uint64_t hash = harness_hash(&h);
        assert_int_equal(gp_run_read(h.run, copies, count, &err), GP_OK);
        for (int p = 0; p < count; p++) {
            size_t bytes = gp_stage_plan_param(&h.plan->stage[stage_of(&h, p)], p)->bytes;
            assert_int_equal(gp_run_read(h.run, &(gp_tensor_copy){p, -1, one}, 1, &err), GP_OK);
            assert_memory_equal(one, copies[p].host, bytes);
            ((float *)copies[p].host)[0] += 1;
        }
        assert_int_equal(gp_run_write(h.run, copies, count, &err), GP_OK);
        assert_int_not_equal(harness_hash(&h), hash);
    }
    free(copies);
    free(block);
    free(one);
    harness_end(&h);
}

/* The processors that each worker's thread may run on. */
static gp_status look_at_processors(void *context, const gp_site *site, gp_error *err) {
    cpu_set_t *sets = context;
    (void)err;
    assert_int_equal(sched_getaffinity(0, sizeof *sets, &sets[site->worker]), 0);
    return GP_OK;
}

/* Trains one step. Whether workers are pinned. */
static bool step_pinned(const harness_options *its, cpu_set_t sets[STAGES], uint32_t *spin) {
    harness h;
    gp_error err = {0};
    gp_step_result result;
    const gp_hooks hooks = {.context = sets, .before = look_at_processors};
    harness_plan(&h, its);
    harness_start(&h, &hooks);
    assert_int_equal(harness_step(&h, SAMPLES, true, 1, &result, &err), GP_OK);
    bool pinned = gp_run_is_pinned(h.run);
    *spin = gp_run_spin(h.run);
    harness_end(&h);
    return pinned;
}

static void pinned_workers_share_no_processor(void **state) {
    (void)state;
    harness_options its = options;
    cpu_set_t own, sets[STAGES], both;
    uint32_t spin;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    its.kind = &gp_cpu_kind;
    its.stages = 2;
    its.layers = (const int64_t[]){8, 9};
    assert_false(step_pinned(&its, sets, &spin));
    assert_true(CPU_EQUAL(&sets[0], &own) && CPU_EQUAL(&sets[1], &own));
    its.pin = true;
    if (!step_pinned(&its, sets, &spin)) skip();
    assert_true(spin > 0);
    CPU_AND(&both, &sets[0], &sets[1]);
    assert_int_equal(CPU_COUNT(&sets[0]), 1);
    assert_int_equal(CPU_COUNT(&sets[1]), 1);
    assert_int_equal(CPU_COUNT(&both), 0);
    assert_int_equal(sched_getaffinity(0, sizeof both, &both), 0);
    assert_true(CPU_EQUAL(&both, &own));
    cpu_set_t one = sets[0];
    its.pin = false;
    assert_false(step_pinned(&its, sets, &spin));
    assert_true(spin > 0);
    /* One processor is too few: workers that spun would take it from one another. */
    its.pin = true;
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_false(step_pinned(&its, sets, &spin));
    assert_true(CPU_EQUAL(&sets[0], &one) && CPU_EQUAL(&sets[1], &one));
    assert_true(spin == 0);
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
}

/* The time for which workers of these kinds spin. */
static uint32_t spin_of(const gp_device_kind *kind, const gp_device_kind *odd) {
    harness h;
    harness_options its = options;
    its.stages = 2;
    its.layers = (const int64_t[]){8, 9};
    its.kind = kind;
    its.odd = odd;
    harness_plan(&h, &its);
    harness_start(&h, NULL);
    uint32_t spin = gp_run_spin(h.run);
    harness_end(&h);
    return spin;
}

/* It spins too, so a CPU worker needs a processor beside it. */
static void a_worker_of_a_gpu_counts_as_one_thread(void **state) {
    (void)state;
    gp_device_kind gpu = gp_ref_kind;
    cpu_set_t own, one;
    size_t first = 0;
    gpu.name = "gpu";
    gpu.on_host = false;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(first, &own)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    uint32_t mixed = spin_of(&gp_ref_kind, &gpu), gpus = spin_of(&gpu, &gpu);
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
    assert_int_equal(mixed, 0);
    assert_int_equal(gpus, 0);
    if (gp_machine_spin(2) == 0) skip();
    assert_true(spin_of(&gp_ref_kind, &gpu) > 0);
    assert_true(spin_of(&gpu, &gpu) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_wakes_the_workers_that_it_concerns),
        cmocka_unit_test(a_list_is_what_its_tensors_are),
        cmocka_unit_test(pinned_workers_share_no_processor),
        cmocka_unit_test(a_worker_of_a_gpu_counts_as_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* From the second step on, a step of a run calls neither malloc nor free: on ref and cpu, with one stage and with two,
 * with recomputing, in evaluations, with dropout, batch norm, clipping and skips. oneDNN is counted apart: it keeps the
 * arguments of each execution in a hash table. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/allocations.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/bound.h"

/* Each mini-batch of the plan once. Data are made before anything is counted. */
static void run_minis(harness *h, uint32_t step) {
    const int64_t samples[] = {h->options.batch, h->options.last, h->options.evaluation};
    enum { MINIS = sizeof samples / sizeof *samples };
    gp_step_result result;
    gp_error err = {0};
    for (int m = 0; m < MINIS; m++)
        if (harness_run(h, samples[m], m < MINIS - 1, step, &result, &err) != GP_OK) fail_msg("%s", err.text);
}

static void count(const harness_options *options) {
    harness h;
    harness_plan(&h, options);
    harness_start(&h, NULL);
    harness_make_data(&h, options->batch, 1);
    run_minis(&h, 1);
    allocations_begin();
    for (uint32_t step = 2; step < 5; step++) run_minis(&h, step);
    allocations_end();
    harness_end(&h);
}

static void of_libraries_only(const harness_options *options, bool onednn) {
    count(options);
    long libraries = allocations_of("libdnnl") + allocations_of("libstdc++") + allocations_of("libgomp");
    if (allocations_of_all() != libraries || (libraries > 0) != onednn) {
        allocations_print();
        fail_msg("%s, %d stages, checkpoint %d, %d threads: %ld calls of malloc and free, %ld of them of libraries",
                 options->kind->name, options->stages, options->checkpoint, options->threads, allocations_of_all(),
                 libraries);
    }
}

static void no_step_allocates(const gp_device_kind *kind, int threads) {
    if (!allocations_are_counted()) skip();
    for (int way = 0; way < ALLOCATIONS_WAYS; way++) {
        harness_options options = allocations_way(way, kind);
        options.threads = threads;
        of_libraries_only(&options, kind == &gp_cpu_kind);
    }
}

/* Replicas that exchange statistics in their passes. */
static void no_step_of_replicas_allocates(void **state) {
    (void)state;
    static const int replicas[] = {2, 2};
    char model[4096];
    if (!allocations_are_counted()) skip();
    snprintf(model, sizeof model, "%srules: {batch_norm: {sync: true}}\n", network_skips);
    for (int way = 0; way < ALLOCATIONS_WAYS; way += 5) {
        harness_options options = allocations_way(way, &gp_ref_kind);
        options.model = model;
        options.replicas = replicas;
        options.last = options.evaluation = 6;
        of_libraries_only(&options, false);
    }
}

static void no_step_of_ref_allocates(void **state) {
    (void)state;
    no_step_allocates(&gp_ref_kind, 1);
}

static void no_step_of_cpu_allocates(void **state) {
    (void)state;
    no_step_allocates(&gp_cpu_kind, 1);
    printf("oneDNN, in the last runs: %ld calls; libstdc++: %ld; libgomp: %ld\n", allocations_of("libdnnl"),
           allocations_of("libstdc++"), allocations_of("libgomp"));
}

static void no_step_of_two_threads_allocates(void **state) {
    (void)state;
    no_step_allocates(&gp_cpu_kind, 2);
}

/* The counter sees what it is there for: this program's calls, libc's and the libraries'. */
static void calls_are_counted_by_file(void **state) {
    (void)state;
    if (!allocations_are_counted()) skip();
    allocations_begin();
    void *volatile block = malloc(100);
    free(block);
    allocations_excuse(true);
    block = malloc(100);
    free(block);
    allocations_excuse(false);
    FILE *file = fopen("/dev/null", "r");
    allocations_end();
    assert_non_null(file);
    fclose(file);
    assert_int_equal(allocations_of_program(), 2);
    assert_true(allocations_of("libc.so") > 0);
    assert_int_equal(allocations_of_all(), 2 + allocations_of("libc.so"));
}

/* Within a fifth: oneDNN says nowhere how large its objects are. Micro-batches share what is bound. */
static void bound_ops_take_what_the_plan_says(void **state) {
    (void)state;
    static const int64_t two[] = {8, 9};
    harness_options options = {.model = network_skips,
                               .layers = two,
                               .stages = 2,
                               .kind = &gp_cpu_kind,
                               .real = GP_F32,
                               .micro_batches = 3,
                               .batch = 6};
    harness few, many;
    harness_plan(&few, &options);
    options.micro_batches = 300;
    options.batch = 600;
    harness_plan(&many, &options);
    for (int w = 0; w < 2; w++) {
        gp_bindings bindings;
        gp_error err = {0};
        assert_int_equal(few.plan->bound[w], many.plan->bound[w]);
        if (!allocations_are_counted()) continue;
        size_t before = mallinfo2().uordblks;
        assert_int_equal(gp_bindings_init(few.plan, w, &bindings, &err), GP_OK);
        size_t taken = mallinfo2().uordblks - before;
        gp_bindings_fini(&bindings);
        assert_in_range(taken, few.plan->bound[w] * 4 / 5, few.plan->bound[w] * 6 / 5);
    }
    harness_end(&few);
    harness_end(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_file),        cmocka_unit_test(no_step_of_replicas_allocates),
        cmocka_unit_test(no_step_of_ref_allocates),         cmocka_unit_test(no_step_of_cpu_allocates),
        cmocka_unit_test(no_step_of_two_threads_allocates), cmocka_unit_test(bound_ops_take_what_the_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

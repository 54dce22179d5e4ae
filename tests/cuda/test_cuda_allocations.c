/* From the second step on, a step on the CUDA device calls neither malloc nor free, and a worker's program is what a
 * CUDA graph could capture: between its first instruction and its last, nothing is created, no memory is reserved, and
 * no event is asked whether it has happened. A step that overlaps has staging of its own, which its first one makes.
 *
 * Notes for late failures are written only if a run was asked for them.
 *
 * The table of calls works on host memory (host_api.h). What launches and plans allocate there is not counted: a GPU
 * has its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "cuda/host_api.h"
#include "device/cuda/cuda.h"
#include "pipeline/allocations.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

/* ---- a table that looks -------------------------------------------------------------------------------------------
 */

static _Thread_local bool is_in_program;
static atomic_long notes;
static atomic_long inside, outside; /* calls that no capture may have, within programs and without */

static void look(void) {
    atomic_fetch_add(is_in_program ? &inside : &outside, 1);
}

static gp_status note(_Atomic uint32_t *host_at, uint32_t number, gp_cuda_stream *stream, gp_error *err) {
    atomic_fetch_add(&notes, 1);
    return gp_host_api.note(host_at, number, stream, err);
}

static gp_status launch(const gp_cuda_launch *its, gp_cuda_stream *stream, gp_error *err) {
    allocations_excuse(true);
    gp_status status = gp_host_api.launch(its, stream, err);
    allocations_excuse(false);
    return status;
}

static gp_status plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                          void *workspace, gp_error *err) {
    allocations_excuse(true);
    gp_status status = gp_host_api.plan_run(library, prepared, operands, workspace, err);
    allocations_excuse(false);
    return status;
}

static gp_status allocate(size_t bytes, void **out, gp_error *err) {
    look();
    return gp_host_api.allocate(bytes, out, err);
}

static gp_status host_allocate(size_t bytes, void **out, gp_error *err) {
    look();
    return gp_host_api.host_allocate(bytes, out, err);
}

static gp_status event_create(bool timed, gp_cuda_event **out, gp_error *err) {
    look();
    return gp_host_api.event_create(timed, out, err);
}

static gp_status event_done(gp_cuda_event *event, bool *out, gp_error *err) {
    look();
    return gp_host_api.event_done(event, out, err);
}

static gp_status begin_program(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    (void)err;
    if (site->pc == 0) is_in_program = true;
    return GP_OK;
}

static gp_status end_program(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    (void)err;
    if (site->pc + 1 == h->plan->minis[site->mini].programs->worker[site->worker].count) is_in_program = false;
    return GP_OK;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------
 */

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* Two steps, the second behind the first where the plan has it so; a smaller one; an evaluation. */
static void run_minis(harness *h, uint32_t step) {
    gp_step_result result;
    gp_error err = {0};
    bool overlaps = gp_plan_overlaps(h->plan, gp_plan_find(h->plan, true, BATCH));
    must(harness_begin(h, BATCH, true, step, &err), &err);
    if (!overlaps) must(gp_run_end(h->run, &result, &err), &err);
    must(harness_begin(h, BATCH, true, step, &err), &err);
    if (overlaps) must(gp_run_end(h->run, &result, &err), &err);
    must(gp_run_end(h->run, &result, &err), &err);
    must(harness_step(h, LAST, true, step, &result, &err), &err);
    must(harness_step(h, EVALUATED, false, step, &result, &err), &err);
}

static void look_at(const harness_options *options) {
    harness h;
    const gp_hooks hooks = {.before = begin_program, .after = end_program, .context = &h};
    harness_plan(&h, options);
    harness_start(&h, &hooks);
    run_minis(&h, 1);
    atomic_store(&notes, 0);
    atomic_store(&inside, 0);
    atomic_store(&outside, 0);
    allocations_begin();
    for (uint32_t step = 2; step < 4; step++) run_minis(&h, step);
    allocations_end();
    long within = atomic_load(&inside), without = atomic_load(&outside), calls = allocations_of_all();
    harness_end(&h);
    assert_int_equal(atomic_load(&notes) == 0, options->no_notes);
    if (calls > 0) allocations_print();
    if (calls > 0 || within > 0 || without == 0)
        fail_msg(
            "%d stages, checkpoint %d: %ld calls of malloc and free; %ld calls in programs that no graph captures, "
            "%ld outside of them",
            options->stages, options->checkpoint, calls, within, without);
}

static void no_step_allocates_or_waits(void **state) {
    (void)state;
    gp_cuda_api table = gp_host_api;
    table.note = note;
    table.launch = launch;
    table.plan_run = plan_run;
    table.allocate = allocate;
    table.host_allocate = host_allocate;
    table.event_create = event_create;
    table.event_done = event_done;
    gp_cuda = &table;
    gp_host_api_set_care(GP_HOST_ONCE);
    for (int way = 0; way < ALLOCATIONS_WAYS; way++) {
        harness_options options = allocations_way(way, &gp_cuda_kind);
        options.devices = 2;
        options.no_notes = way % 4 < 2;
        look_at(&options);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_step_allocates_or_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

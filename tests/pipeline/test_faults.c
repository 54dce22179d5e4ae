/* Promise 5: whatever fails, wherever, the run ends with that cause and leaves no thread behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/wrapper.h"
#include "threads.h"

enum {
    PATIENCE = 60, /* seconds until a run that does not end is ended by SIGALRM */
    SAMPLES = 6,
    EVALUATED = 4,
};

static int at_rest; /* threads while no run is there */

static void expect_threads(int expected) {
    if (!test_threads_become(expected)) fail_msg("%d threads, not %d", test_threads(), expected);
}

/* Where a worker's hook fails. */
typedef struct fault {
    int worker, mini;
    size_t pc;
    bool after;
    int delay; /* microseconds before it fails */
} fault;

static gp_status fail_at(const fault *f, const gp_site *site, bool after, gp_error *err) {
    if (site->worker != f->worker || site->mini != f->mini || site->pc != f->pc || after != f->after) return GP_OK;
    if (f->delay) usleep((useconds_t)f->delay);
    return gp_fail(err, GP_INJECTED, "injected %s", after ? "after" : "before");
}

static gp_status fail_before(void *context, const gp_site *site, gp_error *err) {
    return fail_at(context, site, false, err);
}

static gp_status fail_after(void *context, const gp_site *site, gp_error *err) {
    return fail_at(context, site, true, err);
}

/* Every later call returns the cause, too. */
static void expect_cause(harness *h, const char *expected) {
    gp_step_result result;
    double values[256];
    gp_error err = {0};
    assert_int_equal(harness_step(h, SAMPLES, true, 2, &result, &err), GP_INJECTED);
    assert_string_equal(err.text, expected);
    err = (gp_error){0};
    assert_int_equal(gp_run_read(h->run, &(gp_tensor_copy){0, -1, values}, 1, &err), GP_INJECTED);
    assert_string_equal(err.text, expected);
    err = (gp_error){0};
    assert_int_equal(gp_run_write(h->run, &(gp_tensor_copy){0, -1, values}, 1, &err), GP_INJECTED);
    assert_string_equal(err.text, expected);
    err = (gp_error){0};
    assert_int_equal(gp_run_refresh(h->run, &err), GP_INJECTED);
    assert_string_equal(err.text, expected);
}

static void inject(harness *h, const fault *f) {
    const gp_mini_plan *mini = &h->plan->minis[f->mini];
    gp_hooks hooks = {(void *)(uintptr_t)f, fail_before, fail_after};
    gp_step_result result = {.loss_sum = -1, .right = -1, .finite = true};
    gp_error err = {0};
    char instr[GP_INSTR_TEXT], expected[256];
    snprintf(expected, sizeof expected, "worker %d, %s: injected %s", f->worker,
             gp_instr_text(instr, &mini->programs->worker[f->worker].instrs[f->pc]), f->after ? "after" : "before");
    int threads = at_rest;
    alarm(PATIENCE);
    harness_start(h, &hooks);
    assert_int_equal(harness_step(h, mini->samples, mini->training, 1, &result, &err), GP_INJECTED);
    assert_string_equal(err.text, expected);
    assert_true(result.loss_sum == -1); /* outputs are set on success only */
    expect_cause(h, expected);
    gp_run_destroy(&h->run);
    alarm(0);
    assert_null(h->run);
    expect_threads(threads);
}

static const int64_t two[] = {4, 5}, three[] = {2, 3, 4};

static harness_options options_of(int stages, gp_checkpoint_mode checkpoint, bool lockstep) {
    return (harness_options){.model = network_vectors,
                             .layers = stages == 2 ? two : three,
                             .stages = stages,
                             .kind = &gp_ref_kind,
                             .checkpoint = checkpoint,
                             .lockstep = lockstep,
                             .micro_batches = 2,
                             .batch = SAMPLES,
                             .evaluation = EVALUATED};
}

static void inject_everywhere(const harness_options *options) {
    harness h;
    harness_plan(&h, options);
    for (int m = 0; m < h.plan->mini_count; m++)
        for (int w = 0; w < h.plan->workers; w++)
            for (size_t pc = 0; pc < h.plan->minis[m].programs->worker[w].count; pc++)
                for (int after = 0; after < 2; after++) inject(&h, &(fault){w, m, pc, after, 0});
    harness_end(&h);
}

static void test_every_instruction(void **state) {
    (void)state;
    for (int stages = 2; stages <= 3; stages++) {
        for (int lockstep = 0; lockstep < 2; lockstep++) {
            harness_options options = options_of(stages, GP_CHECKPOINT_ALWAYS, lockstep);
            inject_everywhere(&options);
        }
    }
    harness_options options = options_of(3, GP_CHECKPOINT_EXCEPT_LAST, true);
    inject_everywhere(&options);
}

/* All others have long been waiting in the barrier when one fails on its way there; each barrier, each worker. */
static void test_while_others_wait_in_a_barrier(void **state) {
    (void)state;
    harness h;
    harness_options options = options_of(3, GP_CHECKPOINT_ALWAYS, true);
    harness_plan(&h, &options);
    int mini = gp_plan_find(h.plan, true, SAMPLES);
    for (int w = 0; w < h.plan->workers; w++) {
        const gp_program *program = &h.plan->minis[mini].programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++)
            if (program->instrs[pc].op == GP_INSTR_BARRIER) inject(&h, &(fault){w, mini, pc, false, 15000});
    }
    harness_end(&h);
}

static gp_status fail_first(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    return site->pc == 0 ? gp_fail(err, GP_INJECTED, "all at once") : GP_OK;
}

/* One of them is the cause, and stays it. */
static void test_all_fail(void **state) {
    (void)state;
    harness_options options = options_of(3, GP_CHECKPOINT_NEVER, false);
    for (int i = 0; i < 10; i++) {
        harness h;
        gp_step_result result;
        gp_error err = {0};
        gp_hooks hooks = {NULL, fail_first, NULL};
        harness_plan(&h, &options);
        int threads = at_rest;
        alarm(PATIENCE);
        harness_start(&h, &hooks);
        assert_int_equal(harness_step(&h, SAMPLES, true, 1, &result, &err), GP_INJECTED);
        assert_memory_equal(err.text, "worker ", 7);
        assert_non_null(strstr(err.text, ": all at once"));
        expect_cause(&h, err.text);
        harness_end(&h);
        alarm(0);
        expect_threads(threads);
    }
}

/* A worker that is slow to notice. */
typedef struct slow {
    atomic_bool inside, working;
} slow;

static gp_status fail_beside_slow(void *context, const gp_site *site, gp_error *err) {
    slow *s = context;
    if (site->worker == 1) {
        if (atomic_exchange(&s->inside, true)) return GP_OK;
        atomic_store(&s->working, true);
        usleep(50000);
        atomic_store(&s->working, false);
        return GP_OK;
    }
    for (int i = 0; i < 10000 && !atomic_load(&s->inside); i++) usleep(100);
    return gp_fail(err, GP_INJECTED, "beside a slow one");
}

/* Input, target and result belong to the caller again when a call returns, failed or not. */
static void test_returns_when_all_are_done(void **state) {
    (void)state;
    harness h;
    slow s = {false, false};
    gp_step_result result;
    gp_error err = {0};
    gp_hooks hooks = {&s, fail_beside_slow, NULL};
    harness_options options = options_of(2, GP_CHECKPOINT_NEVER, true);
    harness_plan(&h, &options);
    alarm(PATIENCE);
    harness_start(&h, &hooks);
    assert_int_equal(harness_step(&h, SAMPLES, true, 1, &result, &err), GP_INJECTED);
    assert_true(atomic_load(&s.inside));
    assert_false(atomic_load(&s.working));
    harness_end(&h);
    alarm(0);
}

/* The n-th call of a kind fails, whichever worker makes it. */
typedef struct device_fault {
    wrapper_call_kind kind;
    int nth;
    atomic_int calls;
} device_fault;

static gp_status fail_call(void *context, const wrapper_call *call, gp_error *err) {
    device_fault *f = context;
    if (call->kind != f->kind || atomic_fetch_add(&f->calls, 1) + 1 != f->nth) return GP_OK;
    return gp_fail(err, GP_DEVICE, "the device broke");
}

/* Start, a training step, an evaluation, a read: what fails first. */
static gp_status attempt(harness *h, gp_error *err) {
    double values[256];
    gp_step_result result;
    GP_RETURN_IF_FAILED(harness_try_start(h, NULL, err));
    GP_RETURN_IF_FAILED(harness_step(h, SAMPLES, true, 1, &result, err));
    GP_RETURN_IF_FAILED(harness_step(h, EVALUATED, false, 1, &result, err));
    return gp_run_read(h->run, &(gp_tensor_copy){0, -1, values}, 1, err);
}

/* Every call of a kind, one after another; the number of them. Only a device that is not the host has events. */
static int break_device(wrapper_call_kind kind, bool on_host) {
    static gp_device_kind device;
    for (int n = 1;; n++) {
        device_fault f = {.kind = kind, .nth = n};
        wrapper_hooks hooks = {&f, fail_call, NULL};
        harness_options options = options_of(3, GP_CHECKPOINT_ALWAYS, n % 2);
        harness h;
        gp_error err = {0}, again = {0};
        double values[256];
        int threads = at_rest;
        device = *wrapper_kind(&gp_ref_kind, &hooks);
        device.on_host = on_host;
        options.kind = &device;
        harness_plan(&h, &options);
        alarm(PATIENCE);
        gp_status status = attempt(&h, &err);
        if (status != GP_OK) {
            assert_int_equal(status, GP_DEVICE);
            assert_memory_equal(err.text, "worker ", 7);
            assert_string_equal(err.text + strlen(err.text) - strlen(": the device broke"), ": the device broke");
            if (h.run) {
                assert_int_equal(gp_run_read(h.run, &(gp_tensor_copy){0, -1, values}, 1, &again), GP_DEVICE);
                assert_string_equal(again.text, err.text);
            }
        }
        harness_end(&h);
        alarm(0);
        expect_threads(threads);
        if (status == GP_OK) {
            assert_true(atomic_load(&f.calls) < n);
            return n - 1;
        }
    }
}

static void test_device_does_not_open(void **state) {
    (void)state;
    assert_int_equal(break_device(WRAPPER_OPEN, true), 3);
    assert_int_equal(break_device(WRAPPER_STREAM, true), 3 * GP_QUEUES);
    assert_int_equal(break_device(WRAPPER_RESERVE, true), 3);
    assert_true(break_device(WRAPPER_EVENT, false) > 20);
    assert_int_equal(break_device(WRAPPER_EVENT, true), 0);
}

static void test_device_breaks(void **state) {
    (void)state;
    assert_true(break_device(WRAPPER_RUN, true) > 50);
    assert_true(break_device(WRAPPER_PULL, true) > 10);
    assert_true(break_device(WRAPPER_COPY_IN, true) > 10);
    assert_true(break_device(WRAPPER_COPY_OUT, true) > 2);
}

/* An op that fails names its layer. */
static void test_op_names_its_layer(void **state) {
    (void)state;
    device_fault f = {.kind = WRAPPER_RUN, .nth = 1};
    wrapper_hooks hooks = {&f, fail_call, NULL};
    const int64_t one[] = {NETWORK_VECTORS_LAYERS};
    harness_options options = options_of(2, GP_CHECKPOINT_NEVER, false);
    options.stages = 1;
    options.layers = one;
    options.kind = wrapper_kind(&gp_ref_kind, &hooks);
    harness h;
    gp_error err = {0};
    harness_plan(&h, &options);
    assert_int_equal(attempt(&h, &err), GP_DEVICE);
    assert_string_equal(err.text, "worker 0, F s0 m0: layer \"a\": the device broke");
    harness_end(&h);
}

static void *nothing(void *argument) {
    return argument;
}

/* ThreadSanitizer starts a thread of its own beside the first. */
static int start_first_thread(void **state) {
    (void)state;
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL)) return 1;
    at_rest = test_threads();
    for (int i = 0; i < 100; i++, usleep(1000)) /* a joined one may be listed for a moment */
        if (test_threads() < at_rest) at_rest = test_threads();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instruction),
        cmocka_unit_test(test_while_others_wait_in_a_barrier),
        cmocka_unit_test(test_all_fail),
        cmocka_unit_test(test_returns_when_all_are_done),
        cmocka_unit_test(test_device_does_not_open),
        cmocka_unit_test(test_device_breaks),
        cmocka_unit_test(test_op_names_its_layer),
    };
    return cmocka_run_group_tests(tests, start_first_thread, NULL);
}

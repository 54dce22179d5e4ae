/* Workers that hang are found, and those that wait for them are not blamed. The clock is the test's: it goes on only
 * where all workers have come to rest, in an instruction that is held, or in a wait for it. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/lookout.h"
#include "pipeline/networks.h"
#include "pipeline/notes.h"
#include "pipeline/run_internal.h"
#include "pipeline/wrapper.h"

enum { WORKERS = 2, NONE = -1 };

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* ---- one worker's pulse ------------------------------------------------------------------------------------------ */

static void a_pulse_tells_what_takes_long(void **state) {
    (void)state;
    gp_pulse pulse = {0};
    gp_pulse_seen seen = {0};
    assert_true(gp_pulse_look(&seen, &pulse, 100) == 0); /* it has done nothing yet */
    gp_pulse_begin(&pulse, 3, 17);
    assert_true(gp_pulse_look(&seen, &pulse, 200) == 0);
    assert_true(gp_pulse_look(&seen, &pulse, 250) == 50);
    assert_int_equal(seen.mini, 3);
    assert_int_equal(seen.pc, 17);
    gp_pulse_pause(&pulse);
    assert_true(gp_pulse_look(&seen, &pulse, 300) == 0);
    assert_true(gp_pulse_look(&seen, &pulse, 900) == 0); /* however long it waits */
    gp_pulse_resume(&pulse);
    assert_true(gp_pulse_look(&seen, &pulse, 1000) == 0);
    assert_true(gp_pulse_look(&seen, &pulse, 1001) == 1);
    gp_pulse_end(&pulse);
    gp_pulse_begin(&pulse, 3, 17); /* the same again: another one */
    assert_true(gp_pulse_look(&seen, &pulse, 2000) == 0);
    gp_pulse_pause(&pulse);
    gp_pulse_end(&pulse); /* a wait that fails ends the instruction */
    assert_true(gp_pulse_look(&seen, &pulse, 3000) == 0);
    assert_true(gp_pulse_look(&seen, &pulse, 4000) == 0);
}

/* ---- a run with an instruction that is held ---------------------------------------------------------------------- */

typedef struct scene {
    harness h;
    /* Where the held worker is, and where the other one comes to rest. */
    int worker;
    size_t held_at, rests_at;
    gp_op_kind op;    /* it is held in the first op of this kind, of whichever worker; GP_OP_KINDS: before all */
    atomic_int holds; /* worker; NONE: none yet */
    atomic_bool goes_on;
    atomic_size_t at[WORKERS]; /* pc + 1 of the last instruction that it began */
    gp_status status;          /* of the step */
    gp_error err;
    pthread_t trainer;
} scene;

static _Thread_local int own_worker = NONE;

static void hold(scene *its) {
    int none = NONE;
    if (!atomic_compare_exchange_strong(&its->holds, &none, own_worker)) return;
    while (!atomic_load(&its->goes_on)) sched_yield();
}

static gp_status before_instr(void *context, const gp_site *site, gp_error *err) {
    scene *its = context;
    (void)err;
    own_worker = site->worker;
    atomic_store(&its->at[site->worker], site->pc + 1);
    if (its->op == GP_OP_KINDS && site->worker == its->worker && site->pc == its->held_at) hold(its);
    return GP_OK;
}

static gp_status before_call(void *context, const wrapper_call *call, gp_error *err) {
    scene *its = context;
    (void)err;
    if (call->kind == WRAPPER_RUN && own_worker != NONE && call->prepared->desc.kind == its->op) hold(its);
    return GP_OK;
}

static void *train(void *argument) {
    scene *its = argument;
    gp_step_result result;
    its->status = harness_step(&its->h, its->h.options.batch, true, 1, &result, &its->err);
    return NULL;
}

static size_t find(const scene *its, int worker, gp_instr_op op, int micro) {
    const gp_program *program = &its->h.plan->minis[0].programs->worker[worker];
    for (size_t pc = 0; pc < program->count; pc++)
        if (program->instrs[pc].op == op && program->instrs[pc].micro == micro) return pc;
    fail_msg("worker %d has no such instruction", worker);
    return 0;
}

static void prepare(scene *its, const harness_options *options, gp_op_kind op) {
    memset(its, 0, sizeof *its);
    its->op = op;
    atomic_store(&its->holds, NONE);
    harness_plan(&its->h, options);
}

/* Until all have come to rest. */
static void begin(scene *its) {
    const gp_hooks hooks = {.before = before_instr, .context = its};
    harness_start(&its->h, &hooks);
    assert_int_equal(gp_thread_start(&its->trainer, 0, train, its), 0);
    while (atomic_load(&its->holds) == NONE) sched_yield();
    int other = 1 - atomic_load(&its->holds);
    const gp_pulse *pulse = &its->h.run->workers[other].pulse;
    while (atomic_load(&its->at[other]) != its->rests_at + 1 || atomic_load(&pulse->beats) % 2 == 1) sched_yield();
}

static void end(scene *its) {
    atomic_store(&its->goes_on, true);
    pthread_join(its->trainer, NULL);
    must(its->status, &its->err);
    harness_end(&its->h);
}

static gp_lookout *look_out_for(const scene *its, bool alone, const double *expected) {
    gp_lookout *lookout = NULL;
    gp_error err = {0};
    must(gp_lookout_create(its->h.run, 2, alone, expected, &lookout, &err), &err);
    must(gp_lookout_look(lookout, 1, &err), &err); /* what came before does not count */
    return lookout;
}

static gp_lookout *look_out(const scene *its, const double *expected) {
    return look_out_for(its, false, expected);
}

/* `text`: the instruction. */
static void expect_hung(const scene *its, const char *text) {
    gp_lookout *lookout = look_out(its, NULL);
    char sentence[256];
    gp_error err = {0};
    must(gp_lookout_look(lookout, 1.9, &err), &err);
    for (int i = 0; i < 100; i++) must(gp_lookout_look(lookout, 0, &err), &err); /* the process is stopped */
    assert_int_equal(gp_lookout_look(lookout, 0.2, &err), GP_LOST);
    snprintf(sentence, sizeof sentence,
             "process 0: worker %d (ref) has computed %s for 2.1 s, longer than pipeline.timeout (2 s)",
             atomic_load(&its->holds), text);
    assert_string_equal(err.text, sentence);
    gp_lookout_destroy(&lookout);
}

static const int64_t layers[] = {6, 11};

static harness_options options_of(void) {
    return (harness_options){.model = network_skips,
                             .layers = layers,
                             .stages = 2,
                             .kind = &gp_ref_kind,
                             .real = GP_F64,
                             .checkpoint = GP_CHECKPOINT_NEVER,
                             .micro_batches = 3,
                             .batch = 12};
}

/* Worker 1 is held in its first forward. The other one waits for its first gradient; in lockstep, at the barrier after
 * its second forward. */
static void begin_two_stages(scene *its, bool lockstep) {
    harness_options options = options_of();
    options.lockstep = lockstep;
    prepare(its, &options, GP_OP_KINDS);
    its->worker = 1;
    its->held_at = find(its, 1, GP_INSTR_FORWARD, 0);
    const gp_program *program = &its->h.plan->minis[0].programs->worker[0];
    if (lockstep) {
        its->rests_at = find(its, 0, GP_INSTR_FORWARD, 1);
        while (program->instrs[its->rests_at].op != GP_INSTR_BARRIER) its->rests_at++;
    } else {
        while (program->instrs[its->rests_at + 1].op != GP_INSTR_RECV) its->rests_at++;
    }
    begin(its);
}

static void a_worker_that_hangs_is_named(void **state) {
    (void)state;
    static scene its;
    begin_two_stages(&its, false);
    expect_hung(&its, "F s1 m0");
    end(&its);
}

static void who_waits_at_a_barrier_does_not_hang(void **state) {
    (void)state;
    static scene its;
    begin_two_stages(&its, true);
    expect_hung(&its, "F s1 m0");
    end(&its);
}

/* What was expected to take long may take long. */
static void a_long_instruction_does_not_hang(void **state) {
    (void)state;
    static scene its;
    double *expected = NULL;
    gp_error err = {0};
    begin_two_stages(&its, false);
    const gp_plan *plan = its.h.plan;
    const gp_instr *held = &plan->minis[0].programs->worker[1].instrs[its.held_at];
    must(GP_NEW(&expected, gp_lookout_expected_count(plan), &err), &err);
    for (size_t i = 0; i < gp_lookout_expected_count(plan); i++) expected[i] = 1e-3;
    expected[gp_lookout_expected_index(plan, 0, held)] = 0.5;
    gp_lookout *lookout = look_out(&its, expected);
    must(gp_lookout_look(lookout, 9.9, &err), &err);
    assert_int_equal(gp_lookout_look(lookout, 0.2, &err), GP_LOST);
    assert_string_equal(err.text,
                        "process 0: worker 1 (ref) has computed F s1 m0 for 10.1 s, more than 20 times as long "
                        "as predicted (0.5 s)");
    gp_lookout_destroy(&lookout);
    expected[gp_lookout_expected_index(plan, 0, held)] = 0.05; /* so short that the timeout counts */
    lookout = look_out(&its, expected);
    must(gp_lookout_look(lookout, 1.9, &err), &err);
    assert_int_equal(gp_lookout_look(lookout, 0.2, &err), GP_LOST);
    gp_lookout_destroy(&lookout);
    expected[gp_lookout_expected_index(plan, 0, held)] = 1234.5;
    lookout = look_out(&its, expected);
    assert_int_equal(gp_lookout_look(lookout, 24700, &err), GP_LOST);
    assert_non_null(strstr(err.text, "as long as predicted (1234 s)"));
    gp_lookout_destroy(&lookout);
    free(expected);
    end(&its);
}

static harness_options joint_options(char text[4096]) {
    static const int64_t all[] = {NETWORK_SKIPS_LAYERS};
    static const int replicas[] = {2};
    harness_options options = options_of();
    snprintf(text, 4096, "%srules: {batch_norm: {sync: true}}\n", network_skips);
    options.model = text;
    options.layers = all;
    options.stages = 1;
    options.replicas = replicas;
    return options;
}

static void begin_replicas(scene *its, char text[4096], gp_op_kind op) {
    harness_options options = joint_options(text);
    const wrapper_hooks hooks = {.before = before_call, .context = its};
    options.unfused = true;
    options.kind = wrapper_kind(&gp_ref_kind, &hooks);
    prepare(its, &options, op);
    its->worker = 1;
    its->held_at = find(its, 1, GP_INSTR_FORWARD, 0);
}

/* A replica waits within its forward for the statistics of the one that is held. */
static void who_waits_within_an_instruction_does_not_hang(void **state) {
    (void)state;
    static scene its;
    char text[4096];
    begin_replicas(&its, text, GP_OP_KINDS);
    its.rests_at = find(&its, 0, GP_INSTR_FORWARD, 0);
    begin(&its);
    expect_hung(&its, "F s1 m0");
    end(&its);
}

/* One replica is held in a pool, after an exchange. The other one waits in its next forward. */
static void a_worker_that_hangs_after_a_wait_is_named(void **state) {
    (void)state;
    static scene its;
    char text[4096], instr[32];
    begin_replicas(&its, text, GP_OP_MAX_POOL_FORWARD);
    its.rests_at = find(&its, 0, GP_INSTR_FORWARD, 1);
    assert_int_equal(find(&its, 1, GP_INSTR_FORWARD, 1), its.rests_at);
    begin(&its);
    snprintf(instr, sizeof instr, "F s%d m0", atomic_load(&its.holds));
    expect_hung(&its, instr);
    end(&its);
}

/* ---- a queue that does not go on --------------------------------------------------------------------------------- */

/* A device that works on its own, as far as its notes tell: from one note on, a queue of computations tells no other.
 */
static struct {
    gp_device_kind kind;
    const gp_run *run;
    int worker;
    uint32_t stuck_at;
    _Atomic(uint32_t) noted[WORKERS]; /* of the queue of computations */
    atomic_int waiting;               /* workers that wait for their queues */
    atomic_bool goes_on;
} gpu;

static int worker_of(const gp_stream *stream) {
    for (int w = 0; gpu.run && w < WORKERS; w++)
        if (gpu.run->workers[w].queue[GP_QUEUE_COMPUTE] == stream) return w;
    return NONE;
}

static gp_status note(gp_stream *stream, uint32_t number, gp_error *err) {
    int worker = worker_of(stream);
    (void)err;
    bool stuck = worker == gpu.worker && atomic_load(&gpu.noted[worker]) == gpu.stuck_at;
    if (worker != NONE && !stuck) atomic_store(&gpu.noted[worker], number);
    return GP_OK;
}

static uint32_t noted(const gp_stream *stream) {
    return atomic_load(&gpu.noted[worker_of(stream)]);
}

static bool is_lost(const gp_device *device) {
    (void)device;
    return false;
}

static gp_status finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    if (worker_of(stream) != NONE) {
        atomic_fetch_add(&gpu.waiting, 1);
        while (!atomic_load(&gpu.goes_on)) sched_yield();
    }
    return gp_ref_kind.stream_finish(stream, cancel, err);
}

/* The number of the note before an instruction. */
static uint32_t note_before(const gp_program *program, size_t pc) {
    uint32_t number = 0;
    for (size_t i = 0; i <= pc; i++)
        number += gp_instr_computes(&program->instrs[i]) || gp_instr_copies(&program->instrs[i]);
    return number;
}

/* The queue of worker 0 never gets beyond its first instruction of this operation and micro-batch. */
static void prepare_stuck(scene *its, harness_options options, gp_instr_op op, int micro) {
    memset(&gpu, 0, sizeof gpu);
    gpu.kind = gp_ref_kind;
    gpu.kind.stream_note = note;
    gpu.kind.stream_noted = noted;
    gpu.kind.lost = is_lost;
    gpu.kind.stream_finish = finish;
    gp_note_seconds = 1e9; /* none within an instruction */
    options.kind = &gpu.kind;
    options.clip_norm = 0.5;
    prepare(its, &options, GP_OP_KINDS);
    its->worker = NONE;
    gpu.stuck_at = note_before(&its->h.plan->minis[0].programs->worker[0], find(its, 0, op, micro));
}

static void start_stuck(scene *its, const gp_hooks *hooks) {
    harness_start(&its->h, hooks);
    gpu.run = its->h.run;
    assert_int_equal(gp_thread_start(&its->trainer, 0, train, its), 0);
}

/* All is enqueued. */
static void begin_stuck(scene *its, gp_instr_op op, int micro) {
    prepare_stuck(its, options_of(), op, micro);
    start_stuck(its, NULL);
    while (atomic_load(&gpu.waiting) < WORKERS) sched_yield();
    assert_int_equal(atomic_load(&gpu.noted[0]), gpu.stuck_at);
}

static void end_stuck(scene *its) {
    atomic_store(&gpu.goes_on, true);
    end(its);
}

static void a_kernel_that_never_ends_is_named(void **state) {
    (void)state;
    static scene its;
    begin_stuck(&its, GP_INSTR_FORWARD, 1);
    atomic_store(&its.holds, 0);
    expect_hung(&its, "F s0 m1");
    end_stuck(&its);
}

static void expect_still(gp_lookout *lookout, double seconds, const char *sentence) {
    gp_error err = {0};
    must(gp_lookout_look(lookout, seconds - 0.1, &err), &err);
    for (int i = 0; i < 100; i++) must(gp_lookout_look(lookout, 0, &err), &err); /* the process is stopped */
    assert_int_equal(gp_lookout_look(lookout, 0.2, &err), GP_LOST);
    assert_string_equal(err.text, sentence);
    gp_lookout_destroy(&lookout);
}

/* No other process has what it waits for: in whichever instruction the queue is, and without notes. */
static void a_run_that_is_alone_hangs_where_nothing_goes_on(void **state) {
    (void)state;
    static scene its;
    double *expected = NULL;
    gp_error err = {0};
    begin_stuck(&its, GP_INSTR_COLLECT, 0);
    gp_run_note(its.h.run, false); /* for the lookout */
    const gp_plan *plan = its.h.plan;
    expect_still(look_out_for(&its, true, NULL), 2,
                 "no worker has gone on for 2.1 s, longer than pipeline.timeout (2 s): a device hangs (-v finds out in "
                 "which instruction)");
    must(GP_NEW(&expected, gp_lookout_expected_count(plan), &err), &err);
    const gp_instr update = {.op = GP_INSTR_STEP, .stage = 1}; /* of the two steps, one */
    expected[gp_lookout_expected_index(plan, 0, &update)] = 0.5;
    expect_still(
        look_out_for(&its, true, expected), 10,
        "no worker has gone on for 10.1 s, more than 20 times as long as predicted (0.5 s): a device hangs (-v "
        "finds out in which instruction)");
    /* What goes on does not hang, however slowly. */
    gp_lookout *lookout = look_out_for(&its, true, NULL);
    for (int i = 0; i < 10; i++) {
        gp_pulse_begin(&its.h.run->workers[1].pulse, 0, 0);
        gp_pulse_end(&its.h.run->workers[1].pulse);
        must(gp_lookout_look(lookout, 1.9, &err), &err);
    }
    /* A worker of the host that computes is looked at by itself. */
    expected[gp_lookout_expected_index(plan, 0, &plan->minis[0].programs->worker[1].instrs[0])] = 1e6;
    gp_lookout_destroy(&lookout);
    lookout = look_out_for(&its, true, expected);
    gp_pulse_begin(&its.h.run->workers[1].pulse, 0, 0);
    for (int i = 0; i < 10; i++) must(gp_lookout_look(lookout, 1000, &err), &err);
    gp_pulse_end(&its.h.run->workers[1].pulse);
    gp_lookout_destroy(&lookout);
    free(expected);
    end_stuck(&its);
}

/* Nothing is given to the workers: between two steps they may rest for ever. */
static void a_run_that_has_nothing_to_do_does_not_hang(void **state) {
    (void)state;
    static scene its;
    gp_error err = {0};
    harness_options options = options_of();
    prepare(&its, &options, GP_OP_KINDS);
    harness_start(&its.h, NULL);
    gp_lookout *lookout = look_out_for(&its, true, NULL);
    for (int i = 0; i < 10; i++) must(gp_lookout_look(lookout, 1000, &err), &err);
    gp_lookout_destroy(&lookout);
    harness_end(&its.h);
}

/* It may come from another process. */
static void a_queue_that_waits_for_parts_does_not_hang(void **state) {
    (void)state;
    static scene its;
    gp_error err = {0};
    begin_stuck(&its, GP_INSTR_COLLECT, 0);
    gp_lookout *lookout = look_out(&its, NULL);
    must(gp_lookout_look(lookout, 1000, &err), &err);
    gp_lookout_destroy(&lookout);
    end_stuck(&its);
}

/* The thread of worker 0 is held in a call that enqueues the update. It may wait for what its queue waits for: it hangs
 * only if the queue computes, and waits for no other replica meanwhile. */
static void a_call_that_waits_for_its_queue_does_not_hang(void **state) {
    (void)state;
    static scene its;
    const gp_hooks hooks = {.before = before_instr, .context = &its};
    gp_error err = {0};
    char text[4096];
    for (int turn = 0; turn < 3; turn++) {
        bool computes = turn == 1;
        prepare_stuck(&its, turn == 2 ? joint_options(text) : options_of(),
                      turn == 0 ? GP_INSTR_COLLECT : GP_INSTR_FORWARD, 0);
        its.worker = 0;
        its.held_at = find(&its, 0, GP_INSTR_STEP, 0);
        start_stuck(&its, &hooks);
        while (atomic_load(&its.holds) == NONE || atomic_load(&gpu.waiting) < WORKERS - 1) sched_yield();
        assert_int_equal(atomic_load(&gpu.noted[0]), gpu.stuck_at);
        gp_lookout *lookout = look_out(&its, NULL);
        assert_int_equal(gp_lookout_look(lookout, 1000, &err), computes ? GP_LOST : GP_OK);
        gp_lookout_destroy(&lookout);
        end_stuck(&its);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pulse_tells_what_takes_long),
        cmocka_unit_test(a_worker_that_hangs_is_named),
        cmocka_unit_test(who_waits_at_a_barrier_does_not_hang),
        cmocka_unit_test(a_long_instruction_does_not_hang),
        cmocka_unit_test(who_waits_within_an_instruction_does_not_hang),
        cmocka_unit_test(a_worker_that_hangs_after_a_wait_is_named),
        cmocka_unit_test(a_kernel_that_never_ends_is_named),
        cmocka_unit_test(a_run_that_is_alone_hangs_where_nothing_goes_on),
        cmocka_unit_test(a_run_that_has_nothing_to_do_does_not_hang),
        cmocka_unit_test(a_queue_that_waits_for_parts_does_not_hang),
        cmocka_unit_test(a_call_that_waits_for_its_queue_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

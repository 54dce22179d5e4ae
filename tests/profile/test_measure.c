/* Measuring, on a device whose ops take as long as the test says: no result here depends on a clock. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/machine_processors.h"
#include "base/sync.h"
#include "device/ref/ref.h"
#include "profile/bench.h"
#include "profile/measure.h"
#include "profile/median.h"
#include "profile/rounds.h"

/* ---- the device -------------------------------------------------------------------------------------------------- */

enum { EVENTS = 256 };

/* ref, with a time of its own. */
static struct {
    uint64_t now; /* nanoseconds */
    uint64_t takes[GP_OP_KINDS], accumulating;
    uint64_t unit;     /* nanoseconds of an op that is not in `takes` */
    int every, factor; /* one op of so many, ever another one, takes so many times as long; 0: none */
    uint64_t cold;     /* the first ops, which take ten times as long */
    uint64_t busy;     /* from this op on, all take three times as long; 0: none */
    int slow_kind;     /* ops of this kind take twenty times as long up to op `slow`; 0: none do */
    uint64_t slow;
    uint64_t runs, together;
    int turns;       /* how often another device's ops came */
    const void *was; /* the stream that worked last */
    struct {
        const gp_event *event;
        uint64_t at;
    } events[EVENTS];
    size_t event_count;
    const gp_device *here; /* that the first stream is of */
    int pulls, pulls_within;
    size_t memory; /* that the bench may have; 0: all */
} fake;

static uint64_t fake_clock(void) {
    return fake.now;
}

static void spend(const gp_op_desc *desc) {
    uint64_t takes = fake.takes[desc->kind] ? fake.takes[desc->kind] : fake.unit;
    if (desc->flags & GP_OP_ACCUMULATE) takes += fake.accumulating;
    fake.runs++;
    if (desc->kind == (gp_op_kind)fake.slow_kind && fake.runs <= fake.slow) takes *= 20;
    if (fake.runs <= fake.cold) takes *= 10;
    if (fake.busy && fake.runs > fake.busy) takes *= 3;
    if (fake.every && fake.runs * 618 % 1000 < 1000 / (uint64_t)fake.every) takes *= (uint64_t)fake.factor;
    fake.now += takes;
}

static gp_status run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    spend(&op->prepared->desc);
    if (fake.was != stream) fake.turns++;
    fake.was = stream;
    return gp_ref_kind.run(stream, op, args, err);
}

static gp_status run_many(gp_stream *stream, const gp_device_op *ops, int count, const gp_op_args *args,
                          gp_error *err) {
    fake.together += (uint64_t)count;
    spend(&ops[0].prepared->desc);
    for (int i = 0; i < count; i++) GP_RETURN_IF_FAILED(gp_ref_kind.run(stream, &ops[i], args, err));
    return GP_OK;
}

static gp_status record(gp_event *event, gp_stream *stream, gp_error *err) {
    size_t e = 0;
    while (e < fake.event_count && fake.events[e].event != event) e++;
    if (e == fake.event_count) fake.event_count++;
    assert_true(fake.event_count <= EVENTS);
    fake.events[e].event = event;
    fake.events[e].at = fake.now;
    return gp_ref_kind.event_record(event, stream, err);
}

static uint64_t recorded(const gp_event *event) {
    for (size_t e = 0; e < fake.event_count; e++)
        if (fake.events[e].event == event) return fake.events[e].at;
    fail_msg("an event that nobody recorded");
    return 0;
}

static gp_status elapsed(const gp_event *from, const gp_event *to, double *out, gp_error *err) {
    (void)err;
    *out = (double)(recorded(to) - recorded(from));
    return GP_OK;
}

/* There are as many of it as are asked for. */
static gp_status open_any(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    gp_device_spec first = *spec;
    first.index = 0;
    return gp_ref_kind.open(&first, out, err);
}

static gp_status create_stream(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    if (!fake.here) fake.here = device;
    return gp_ref_kind.stream_create(device, copies, out, err);
}

static gp_status pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                      gp_error *err) {
    fake.pulls++;
    fake.pulls_within += from == fake.here;
    return gp_ref_kind.pull(stream, to, from, address, bytes, err);
}

/* By the clock, or by events. */
static const gp_device_kind *make_kind(bool events) {
    static gp_device_kind kind;
    kind = gp_ref_kind;
    kind.run = run;
    kind.open = open_any;
    kind.stream_create = create_stream;
    kind.pull = pull;
    if (events) {
        kind.event_record = record;
        kind.event_elapsed = elapsed;
    }
    memset(&fake, 0, sizeof fake);
    fake.unit = 1000;
    fake.takes[GP_OP_LINEAR_FORWARD] = 10000;
    fake.takes[GP_OP_LINEAR_BACKWARD_DATA] = 20000;
    fake.takes[GP_OP_LINEAR_BACKWARD_WEIGHTS] = 30000;
    fake.takes[GP_OP_RELU_FORWARD] = 2000;
    fake.takes[GP_OP_RELU_BACKWARD] = 3000;
    fake.takes[GP_OP_CROSS_ENTROPY_FORWARD] = 5000;
    fake.takes[GP_OP_CROSS_ENTROPY_BACKWARD] = 7000;
    fake.takes[GP_OP_LOSS_TOTAL] = 11000;
    fake.takes[GP_OP_SGD] = 13000;
    return &kind;
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

#define MODEL                                                                                                          \
    "input: {shape: [6]}\n"                                                                                            \
    "layers:\n"                                                                                                        \
    "  - linear: {out: 8, bias: false}\n"                                                                              \
    "  - relu\n"                                                                                                       \
    "  - linear: {out: 8, bias: false}\n"                                                                              \
    "loss: cross_entropy\n"

typedef struct measured {
    gp_yaml_document *document;
    gp_graph *graph;
    gp_profile *profile;
    gp_measured came;
    gp_status status;
    gp_error err;
} measured;

/* `with`: what of the request is not usual; its devices and what company they have. */
static measured measure_as(const char *model, const gp_measure_request *with) {
    measured m = {0};
    const gp_device_spec *devices = with->devices;
    int count = with->device_count;
    gp_profile_identity identity = {.samples = 4};
    gp_status status = gp_yaml_parse(model, strlen(model), "m.yaml", &m.document, &m.err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(m.document), &m.graph, &m.err);
    if (status == GP_OK) status = gp_profile_create(&identity, m.graph, devices, count, &m.profile, &m.err);
    if (status != GP_OK) fail_msg("%s", m.err.text);
    gp_measure_request request = *with;
    request.graph = m.graph;
    request.update = (gp_update){.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}};
    request.samples = 4;
    request.mix = (gp_measure_mix){0.25, 0.25};
    m.status = gp_profile_measure(&request, m.profile, &m.came, &m.err);
    return m;
}

static measured measure(const char *model, const gp_device_spec *devices, int count, double seconds) {
    return measure_as(
        model,
        &(gp_measure_request){
            .devices = devices, .device_count = count, .seconds = seconds, .memory = fake.memory, .clock = fake_clock});
}

static void release(measured *m) {
    gp_profile_destroy(&m->profile);
    gp_graph_destroy(&m->graph);
    gp_yaml_destroy(&m->document);
}

static void expect_near(double is, double should) {
    if (!(fabs(is - should) <= 1e-5 * should)) fail_msg("%.17g is not %.17g", is, should);
}

/* Microseconds: forward, backward for inputs, for weights, recompute, update. */
static void expect_layer(const measured *m, int layer, const double micro[GP_PROFILE_TIMES]) {
    for (int t = 0; t < GP_PROFILE_TIMES; t++)
        expect_near(m->profile->devices[0].layers[layer].time[t], micro[t] * 1e-6);
}

/* A quarter of all backwards overwrites, the others add, which takes 4 µs more. Nothing is before the first layer that
 * wants its gradient; the loss is part of the last. */
static void expect_model(const measured *m) {
    expect_layer(m, 0, (const double[]){10, 0, 33, 10, 13});
    expect_layer(m, 1, (const double[]){2, 3, 0, 2, 0});
    expect_layer(m, 2, (const double[]){15, 27, 33, 10, 24});
}

static void layers_are_sums_of_their_ops(void **state) {
    (void)state;
    for (int events = 0; events < 2; events++) {
        const gp_device_spec spec = {make_kind(events), 0, 1, 0};
        fake.accumulating = 4000;
        measured m = measure(MODEL, &spec, 1, 100);
        if (m.status != GP_OK) fail_msg("%s", m.err.text);
        expect_model(&m);
        /* All rounds are equal, so the first look ends it. */
        assert_int_equal(m.came.rounds, GP_MEASURE_ROUNDS);
        assert_true(m.came.width < 1e-12);
        expect_near(m.profile->devices[0].slowdown, 1);
        assert_int_equal(fake.together, 0);
        release(&m);
    }
}

/* Some ops take ten times as long: no median changes, and rounds take as long as they take. A third of the ops widens
 * the quartiles, so the rounds go on until the time is over; a fifth does not. */
static void a_noisy_neighbour_changes_no_median(void **state) {
    (void)state;
    for (int events = 0; events < 2; events++) {
        int rounds[2];
        for (int i = 0; i < 2; i++) {
            const gp_device_spec spec = {make_kind(events), 0, 1, 0};
            fake.accumulating = 4000;
            fake.every = i ? 5 : 3;
            fake.factor = 10;
            measured m = measure(MODEL, &spec, 1, 0.5);
            if (m.status != GP_OK) fail_msg("%s", m.err.text);
            expect_model(&m);
            rounds[i] = m.came.rounds;
            double slowdown = m.profile->devices[0].slowdown;
            if (!(slowdown > 1.5 && slowdown < 5)) fail_msg("slowdown %g", slowdown);
            release(&m);
        }
        if (!(rounds[0] > 100 && rounds[1] < rounds[0] / 2)) fail_msg("%d, %d rounds", rounds[0], rounds[1]);
    }
}

/* Other programs begin after six rounds, the first of which is cold: most rounds are three times as long, and none of
 * them counts. */
static void a_disturbed_phase_does_not_count(void **state) {
    (void)state;
    const gp_device_spec spec = {make_kind(true), 0, 1, 0};
    fake.accumulating = 4000;
    fake.busy = 6 * 24; /* ops of a round */
    measured m = measure(MODEL, &spec, 1, 0.01);
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    assert_true(m.came.rounds >= GP_MEASURE_ROUNDS);
    expect_model(&m);
    expect_near(m.profile->devices[0].slowdown, 1);
    release(&m);
}

/* The forward pass of a layer with weights takes longer than its backward pass in the first ten rounds. They all agree,
 * but more rounds follow, and those count. */
static void an_outlier_is_measured_again(void **state) {
    (void)state;
    const gp_device_spec spec = {make_kind(true), 0, 1, 0};
    fake.accumulating = 4000;
    fake.slow_kind = GP_OP_LINEAR_FORWARD;
    fake.slow = 10 * 24; /* ops of a round */
    measured m = measure(MODEL, &spec, 1, 100);
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    assert_true(m.came.rounds >= 10 + GP_MEASURE_FEW_ROUNDS && m.came.rounds < 40);
    expect_model(&m);
    release(&m);
}

/* One that stays is the layer's own: the time is half as long again, and no longer. */
static void an_outlier_that_stays_ends_with_the_time(void **state) {
    (void)state;
    const gp_device_spec spec = {make_kind(true), 0, 1, 0};
    fake.accumulating = 4000;
    fake.slow_kind = GP_OP_LINEAR_FORWARD;
    fake.slow = UINT64_MAX;
    measured m = measure(MODEL, &spec, 1, 0.1);
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    assert_true(m.came.seconds >= 0.15 && m.came.seconds < 0.16);
    release(&m);
}

/* A second for each op, and half a minute for all: after five rounds, since few say little. One round if that takes
 * more than three times the time. */
static void the_time_is_kept_where_it_can_be(void **state) {
    (void)state;
    gp_device_spec spec = {make_kind(true), 0, 1, 0};
    for (size_t k = 0; k < GP_OP_KINDS; k++) fake.takes[k] = 1000000000;
    measured m = measure(MODEL, &spec, 1, 60);
    assert_int_equal(m.came.rounds, GP_MEASURE_FEW_ROUNDS);
    release(&m);
    spec.kind = make_kind(true);
    for (size_t k = 0; k < GP_OP_KINDS; k++) fake.takes[k] = 1000000000;
    m = measure(MODEL, &spec, 1, 0.1);
    assert_int_equal(m.came.rounds, 1);
    expect_layer(&m, 1, (const double[]){1e6, 1e6, 0, 1e6, 0});
    expect_near(m.profile->devices[0].slowdown, 1);
    release(&m);
}

/* The first round counts only if there is no other. */
static void the_cold_round_is_left_out(void **state) {
    (void)state;
    const gp_device_spec spec = {make_kind(true), 0, 1, 0};
    fake.cold = 24; /* ops of a round */
    measured one = measure(MODEL, &spec, 1, 1e-9);
    assert_int_equal(one.came.rounds, 1);
    expect_near(one.profile->devices[0].layers[1].time[GP_PROFILE_TIME_FORWARD], 20e-6);
    double seconds = one.came.seconds;
    release(&one);
    make_kind(true);
    fake.cold = 24;
    measured two = measure(MODEL, &spec, 1, seconds * 1.02 / 3); /* few rounds may take three times the time */
    assert_int_equal(two.came.rounds, 2);
    expect_near(two.profile->devices[0].layers[1].time[GP_PROFILE_TIME_FORWARD], 2e-6);
    expect_near(two.profile->devices[0].slowdown, 1);
    release(&two);
}

/* Equal ops count as one, so one disturbed op of five changes nothing. */
static void equal_ops_share_their_times(void **state) {
    (void)state;
    static const char layers[] = "input: {shape: [8]}\nlayers: [tanh: {name: a}, tanh: {name: b}, tanh: {name: c}, "
                                 "linear: {out: 8}, tanh: {name: d}, tanh: {name: e}]\nloss: mse\n";
    const gp_device_spec spec = {make_kind(true), 0, 1, 0};
    fake.cold = 1;
    measured m = measure(layers, &spec, 1, 1e-9);
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    assert_int_equal(m.came.rounds, 1);
    for (int layer = 0; layer < 5; layer++)
        if (layer != 3) expect_near(m.profile->devices[0].layers[layer].time[GP_PROFILE_TIME_FORWARD], 1e-6);
    release(&m);
}

/* In parts, where the whole does not fit, the times are the same. */
static void a_small_memory_holds_a_part_at_a_time(void **state) {
    (void)state;
    gp_device_spec spec = {make_kind(true), 0, 1, 0};
    uint64_t least = UINT64_MAX;
    for (size_t memory = 16384; memory >= 256; memory -= 256) {
        spec.kind = make_kind(true);
        fake.accumulating = 4000;
        fake.memory = memory;
        measured m = measure(MODEL, &spec, 1, 100);
        if (m.status == GP_OK) {
            least = memory;
            expect_model(&m);
        } else {
            assert_int_equal(m.status, GP_UNSUPPORTED);
            assert_non_null(strstr(m.err.text, " bytes at a time, but may use "));
        }
        release(&m);
    }
    /* A third of the model takes less than the whole. */
    assert_true(least < 16384 && least > 256);
}

/* Rounds go over all devices, one after another. */
static void devices_take_turns(void **state) {
    (void)state;
    gp_device_kind kind = *make_kind(true), other = kind;
    other.name = "other";
    const gp_device_spec specs[] = {{&kind, 0, 1, 0}, {&other, 0, 1, 0}};
    measured m = measure(MODEL, specs, 2, 100);
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    assert_int_equal(fake.turns, 2 * m.came.rounds);
    assert_string_equal(m.profile->devices[1].kind, "other");
    expect_near(m.profile->devices[1].layers[1].time[GP_PROFILE_TIME_FORWARD], 2e-6);
    static const char *const pairs[][2] = {{"host", "ref"},   {"ref", "ref"},   {"other", "ref"},
                                           {"host", "other"}, {"ref", "other"}, {"other", "other"}};
    assert_int_equal(m.profile->copy_count, 6);
    for (size_t i = 0; i < 6; i++) assert_non_null(gp_profile_find_copy(m.profile, pairs[i][0], pairs[i][1]));
    release(&m);
}

/* What a copy between two devices of a kind takes is not measured within one of them, where there are two. */
static void copies_are_between_devices(void **state) {
    (void)state;
    const gp_device_kind *kind = make_kind(true);
    const gp_device_spec specs[] = {{kind, 0, 1, 0}, {kind, 1, 1, 0}};
    for (int count = 1; count <= 2; count++) {
        (void)make_kind(true);
        measured m = measure(MODEL, specs, count, 100);
        if (m.status != GP_OK) fail_msg("%s", m.err.text);
        assert_int_equal(m.profile->copy_count, 2);
        assert_true(fake.pulls > 0);
        assert_int_equal(fake.pulls_within, count == 1 ? fake.pulls : 0);
        release(&m);
    }
}

/* Updates in one launch are handed over as a worker would, and their time shared out by bytes: 6·8 and 8·8 numbers. */
static void updates_in_one_launch_share_its_time(void **state) {
    (void)state;
    for (int events = 0; events < 2; events++) {
        gp_device_kind kind = *make_kind(events);
        kind.run_many = run_many;
        const gp_device_spec spec = {&kind, 0, 1, 0};
        measured m = measure(MODEL, &spec, 1, 100);
        if (m.status != GP_OK) fail_msg("%s", m.err.text);
        assert_int_equal(fake.together, 2 * m.came.rounds);
        double first = m.profile->devices[0].layers[0].time[GP_PROFILE_TIME_UPDATE];
        double last = m.profile->devices[0].layers[2].time[GP_PROFILE_TIME_UPDATE] - 11e-6;
        expect_near(first + last, 13e-6);
        assert_true(first < last);
        release(&m);
    }
}

/* A device that fails ends it, with all given back (AddressSanitizer looks). */
static gp_status fails(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    if (++fake.runs == 30) return gp_fail(err, GP_DEVICE, "it broke");
    return gp_ref_kind.run(stream, op, args, err);
}

static void a_failure_is_told(void **state) {
    (void)state;
    gp_device_kind kind = *make_kind(true);
    kind.run = fails;
    const gp_device_spec spec = {&kind, 0, 1, 0};
    measured m = measure(MODEL, &spec, 1, 100);
    assert_int_equal(m.status, GP_DEVICE);
    assert_string_equal(m.err.text, "timing on ref: it broke");
    release(&m);
}

/* ---- at the same time -------------------------------------------------------------------------------------------- */

/* Each thread's first op waits until as many threads are at theirs, and then until the one that fails has failed. */
static struct {
    pthread_barrier_t all;
    atomic_int threads;
    atomic_bool failed;
    int failing; /* thread whose second op fails; 0: none */
} meeting;
static _Thread_local int thread_number;
static _Thread_local bool has_met;

static gp_status meet(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    if (!has_met) {
        has_met = true;
        thread_number = atomic_fetch_add(&meeting.threads, 1) + 1;
        pthread_barrier_wait(&meeting.all);
    } else if (thread_number == meeting.failing) {
        atomic_store(&meeting.failed, true);
        return gp_fail(err, GP_DEVICE, "it broke");
    }
    while (meeting.failing && thread_number != meeting.failing && !atomic_load(&meeting.failed)) sched_yield();
    return gp_ref_kind.run(stream, op, args, err);
}

/* A device that is not on the host may be called by the thread alone that opened it, this one. */
static atomic_bool was_called_elsewhere;
static pthread_t this_thread;

static gp_status meet_at_home(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    if (!pthread_equal(pthread_self(), this_thread)) atomic_store(&was_called_elsewhere, true);
    return meet(stream, op, args, err);
}

static gp_status fetch_nothing(gp_device *device, void *host_to, const void *address, size_t bytes,
                               const gp_cancel *cancel, gp_error *err) {
    (void)device;
    (void)host_to;
    (void)address;
    (void)bytes;
    (void)cancel;
    (void)err;
    return GP_OK;
}

/* Of two devices, one of another kind, which may be away from the host, and one like the first in company: three
 * threads. */
static measured measure_together(int failing, bool away) {
    static gp_device_kind kind, other;
    kind = other = gp_ref_kind;
    kind.open = other.open = open_any;
    kind.run = meet;
    other.run = meet_at_home;
    other.name = "other";
    other.on_host = !away;
    other.fetch = fetch_nothing;
    this_thread = pthread_self();
    atomic_store(&was_called_elsewhere, false);
    const gp_device_spec specs[] = {{&kind, 0, 1, 0}, {&other, 0, 1, 0}, {&kind, 1, 1, 0}};
    assert_int_equal(pthread_barrier_init(&meeting.all, NULL, 3), 0);
    atomic_store(&meeting.threads, 0);
    atomic_store(&meeting.failed, false);
    meeting.failing = failing;
    has_met = false;
    alarm(60); /* they wait for ever where fewer work at a time */
    measured m = measure_as(MODEL, &(gp_measure_request){.devices = specs,
                                                         .device_count = 2,
                                                         .at_once = true,
                                                         .company = &specs[2],
                                                         .company_count = 1,
                                                         .seconds = 0.01});
    alarm(0);
    assert_int_equal(atomic_load(&meeting.threads), 3);
    pthread_barrier_destroy(&meeting.all);
    return m;
}

static void devices_of_the_host_work_at_the_same_time(void **state) {
    (void)state;
    for (int away = 0; away < 2; away++) {
        measured m = measure_together(0, away);
        if (m.status != GP_OK) fail_msg("%s", m.err.text);
        assert_int_equal(m.profile->identity.together, 3 - away);
        assert_true(atomic_load(&was_called_elsewhere) != away);
        assert_true(m.came.rounds > 0);
        for (int d = 0; d < 2; d++)
            for (int l = 0; l < 3; l++) assert_true(m.profile->devices[d].layers[l].time[GP_PROFILE_TIME_FORWARD] > 0);
        release(&m);
    }
}

static void whoever_fails_ends_it_for_all(void **state) {
    (void)state;
    for (int failing = 1; failing <= 3; failing++) {
        measured m = measure_together(failing, false);
        assert_int_equal(m.status, GP_DEVICE);
        assert_non_null(strstr(m.err.text, ": it broke"));
        release(&m);
    }
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* The least and the most time of spinning, of the threads that open devices and that run ops. */
static struct { atomic_uint least, most; } spun;

static void look_at_spin(void) {
    unsigned now = gp_wait_spins();
    if (now < atomic_load(&spun.least)) atomic_store(&spun.least, now);
    if (now > atomic_load(&spun.most)) atomic_store(&spun.most, now);
}

static gp_status open_spinning(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    const gp_device_spec one = {spec->kind, 0, 1, spec->memory};
    look_at_spin();
    return gp_ref_kind.open(&one, out, err);
}

static gp_status run_spinning(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    look_at_spin();
    return gp_ref_kind.run(stream, op, args, err);
}

static void expect_spin(bool at_once, int threads, bool away, uint32_t expected) {
    static gp_device_kind kind, other;
    kind = other = gp_ref_kind;
    kind.open = other.open = open_spinning;
    kind.run = other.run = run_spinning;
    other.name = "other";
    other.on_host = !away;
    other.fetch = fetch_nothing;
    const gp_device_spec specs[] = {{&kind, 0, threads, 0}, {&other, 0, 1, 0}};
    atomic_store(&spun.least, UINT32_MAX);
    atomic_store(&spun.most, 0);
    measured m = measure_as(
        MODEL, &(gp_measure_request){.devices = specs, .device_count = 2, .at_once = at_once, .seconds = 0.01});
    if (m.status != GP_OK) fail_msg("%s", m.err.text);
    release(&m);
    assert_int_equal(atomic_load(&spun.least), expected);
    assert_int_equal(atomic_load(&spun.most), expected);
    assert_int_equal(gp_wait_spins(), 0);
}

static void threads_spin_as_in_a_run(void **state) {
    (void)state;
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    int processors = CPU_COUNT(&own);
    for (int away = 0; away < 2; away++) {
        expect_spin(true, processors, away, 0);
        expect_spin(true, 1, away, gp_machine_spin(2));
        expect_spin(false, processors + 1, away, 0);
        expect_spin(false, processors, away, gp_machine_spin(processors));
    }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void expect_median(double *values, size_t count, double median, double spread) {
    gp_median its = gp_median_of(values, count);
    if (!(its.median == median && its.spread == spread)) fail_msg("%g, %g", its.median, its.spread);
}

static void medians_and_their_spread(void **state) {
    (void)state;
    expect_median((double[]){7}, 1, 7, 0);
    expect_median((double[]){3, 1, 2}, 3, 2, 2);
    expect_median((double[]){4, 1, 3, 2}, 4, 2.5, 1);
    expect_median((double[]){1, 1000, 2, 3, 2, 2, 2, 2}, 8, 2, 0);
    double many[100];
    for (int i = 0; i < 100; i++) many[i] = 100 - i;
    expect_median(many, 100, 50.5, 49); /* 26 … 75 */
}

static void copies_are_fitted(void **state) {
    (void)state;
    double bytes[] = {1024, 8192, 65536, 524288}, seconds[4], latency, per_byte;
    for (int i = 0; i < 4; i++) seconds[i] = 2e-6 + 1e-10 * bytes[i];
    gp_fit_copies(bytes, seconds, 4, &latency, &per_byte);
    assert_true(fabs(latency - 2e-6) < 1e-12 && fabs(per_byte - 1e-10) < 1e-16);
    for (int i = 0; i < 4; i++) seconds[i] = 1e-10 * bytes[i] * (i == 0 ? 0.5 : 1); /* the line would begin below 0 */
    gp_fit_copies(bytes, seconds, 4, &latency, &per_byte);
    assert_true(latency == 0 && per_byte > 0);
    for (int i = 0; i < 4; i++) seconds[i] = 5e-6 - 1e-7 * i; /* and fall */
    gp_fit_copies(bytes, seconds, 4, &latency, &per_byte);
    assert_true(latency > 4e-6 && latency < 5e-6 && per_byte == 0);
    gp_fit_copies(bytes, seconds, 1, &latency, &per_byte);
    assert_true(fabs(latency - 5e-6) < 1e-12 && per_byte == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_sums_of_their_ops),
        cmocka_unit_test(a_noisy_neighbour_changes_no_median),
        cmocka_unit_test(a_disturbed_phase_does_not_count),
        cmocka_unit_test(an_outlier_is_measured_again),
        cmocka_unit_test(an_outlier_that_stays_ends_with_the_time),
        cmocka_unit_test(the_time_is_kept_where_it_can_be),
        cmocka_unit_test(the_cold_round_is_left_out),
        cmocka_unit_test(equal_ops_share_their_times),
        cmocka_unit_test(a_small_memory_holds_a_part_at_a_time),
        cmocka_unit_test(devices_take_turns),
        cmocka_unit_test(copies_are_between_devices),
        cmocka_unit_test(updates_in_one_launch_share_its_time),
        cmocka_unit_test(a_failure_is_told),
        cmocka_unit_test(devices_of_the_host_work_at_the_same_time),
        cmocka_unit_test(whoever_fails_ends_it_for_all),
        cmocka_unit_test(threads_spin_as_in_a_run),
        cmocka_unit_test(medians_and_their_spread),
        cmocka_unit_test(copies_are_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Timelines of devices that work on their own: a track per queue, the time at which each instruction was enqueued, no
 * waits of the worker's. tests/train/test_tracing.c has those of the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "timeline/timeline.h"
#include "timeline/waits.h"
#include "plan/layer_ticks.h"

enum { WORKERS = 2 };
static const uint64_t origin = 5000000000; /* nanoseconds */

static gp_device_kind queued; /* ref, but for its clock; nothing runs on it */

static gp_status no_time(const gp_event *from, const gp_event *to, double *out, gp_error *err) {
    (void)from;
    (void)to;
    (void)out;
    return gp_fail(err, GP_INTERNAL, "nothing runs");
}

/* Instruction pc of worker w is enqueued w·7 + pc µs after the beginning, and runs from 500 + 2·pc µs on. */
static void make_spans(const gp_plan *plan, gp_recorder *recorder) {
    gp_error err = {0};
    for (int w = 0; w < plan->workers; w++) {
        size_t count = plan->minis[0].programs->worker[w].count;
        assert_int_equal(gp_lane_reserve(&recorder->lanes[w], count, &err), GP_OK);
        for (size_t pc = 0; pc < count; pc++) {
            uint64_t start = origin + 500000 + 2000 * pc;
            gp_lane_add(&recorder->lanes[w], (gp_span){.issued = origin + (uint64_t)w * 7000 + 1000 * pc,
                                                       .started = start,
                                                       .ended = start + 1500,
                                                       .step = 1,
                                                       .index = pc});
        }
    }
}

/* Two stages, or one with two replicas. */
static json_t *timeline_of(const gp_device_kind *kind, bool replicas, harness *h) {
    gp_error err = {0};
    gp_chrome *chrome;
    gp_recorder *recorder;
    json_error_t broken;
    char path[] = "/tmp/gp_timeline_XXXXXX";
    harness_plan(h, &(harness_options){.model = network_vectors,
                                       .layers = replicas ? (const int64_t[]){9} : (const int64_t[]){4, 5},
                                       .stages = replicas ? 1 : WORKERS,
                                       .replicas = replicas ? (const int[]){WORKERS} : NULL,
                                       .kind = kind,
                                       .checkpoint = GP_CHECKPOINT_ALWAYS,
                                       .micro_batches = 2,
                                       .batch = 4});
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(gp_recorder_create(WORKERS, &recorder, &err), GP_OK);
    make_spans(h->plan, recorder);
    assert_int_equal(gp_chrome_open(path, &chrome, &err), GP_OK);
    assert_int_equal(gp_timeline_write(h->plan, recorder, UINT64_MAX, chrome, &err), GP_OK);
    assert_int_equal(gp_chrome_close(&chrome, &err), GP_OK);
    json_t *root = json_load_file(path, 0, &broken);
    if (!root) fail_msg("%s at %d", broken.text, broken.line);
    unlink(path);
    gp_recorder_destroy(&recorder);
    json_t *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    return events;
}

static const char *text_of(json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}

static json_int_t track_of(json_t *event) {
    return json_integer_value(json_object_get(event, "tid"));
}

static void check_span(const harness *h, json_t *event) {
    json_t *args = json_object_get(event, "args");
    json_t *issued = json_object_get(args, "issued");
    json_int_t pc = json_integer_value(json_object_get(args, "pc"));
    int worker = (int)((track_of(event) - 1) % WORKERS), queue = (int)((track_of(event) - 1) / WORKERS);
    const gp_instr *instr = &h->plan->minis[0].programs->worker[worker].instrs[pc];
    assert_true(json_is_number(issued));
    assert_true(fabs(json_number_value(issued) - (worker * 7 + (double)pc)) < 1e-6);
    assert_int_equal(queue, gp_instr_queue(h->plan->stages, instr));
}

static void check_queues(bool replicas) {
    static const char *const ends[GP_QUEUES] = {": computes", ": receives", ": receives gradients",
                                                ": collects gradients"};
    harness h;
    json_t *event;
    size_t i, spans = 0, expected = 0;
    int named = 0;
    queued = gp_ref_kind;
    queued.event_elapsed = no_time;
    json_t *events = timeline_of(&queued, replicas, &h);
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "name"), "thread_name") == 0) {
            const char *name = text_of(json_object_get(event, "args"), "name");
            const char *end = ends[(track_of(event) - 1) / WORKERS];
            assert_string_equal(name + strlen(name) - strlen(end), end);
            named++;
        }
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        assert_string_not_equal(text_of(event, "name"), "wait");
        check_span(&h, event);
        spans++;
    }
    for (int w = 0; w < WORKERS; w++) expected += h.plan->minis[0].programs->worker[w].count;
    assert_int_equal(spans, expected);
    assert_int_equal(named, WORKERS * (replicas ? GP_QUEUES : GP_QUEUE_SUMS));
    json_decref(events);
    harness_end(&h);
}

static void test_queues(void **state) {
    (void)state;
    check_queues(false);
    check_queues(true);
}

/* One track, its waits, and nothing that is enqueued. */
static void test_without_queues(void **state) {
    (void)state;
    harness h;
    json_t *event;
    size_t i, waits = 0;
    json_t *events = timeline_of(&gp_ref_kind, false, &h);
    json_array_foreach(events, i, event) {
        assert_true(track_of(event) <= WORKERS);
        assert_null(json_object_get(json_object_get(event, "args"), "issued"));
        waits += strcmp(text_of(event, "name"), "wait") == 0;
    }
    assert_true(waits > 0);
    json_decref(events);
    harness_end(&h);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static const char network_layers[] = "input: {shape: [2, 4, 4]}\n"
                                     "layers:\n"
                                     "  - conv: {out: 2, kernel: 3, pad: 1, bias: false, name: c}\n"
                                     "  - batch_norm: {name: n}\n"
                                     "  - relu: {name: r}\n"
                                     "  - conv: {out: 2, kernel: 3, pad: 1, name: d}\n"
                                     "  - batch_norm: {name: o}\n"
                                     "  - add: {from: [-1, r], name: s}\n"
                                     "  - relu: {name: t}\n"
                                     "  - flatten: {name: f}\n"
                                     "  - linear: {out: 2, name: l}\n"
                                     "loss: cross_entropy\n";

/* What each instruction that computes has in it, by hand: the layers of the cut in their order, a batch norm's
 * statistics before what is done with them, and not again in a recompute (R). relu, and an addition before it, are done
 * with the norm. Backward: gradients of weights before those of the input, which two layers use, so that d's is added
 * to s's; the first backward copies gradients where the later ones add. */
static const char *const expected_layers[WORKERS][32] = {
    {
        "F s0 m0: c conv_forward, n norm_statistics, n + r norm_apply_relu, d conv_forward",
        "F s0 m1: c conv_forward, n norm_statistics, n + r norm_apply_relu, d conv_forward",
        "B s0 m1: d conv_backward_weights, d conv_backward_data, d add, n + r norm_relu_backward_reduce, "
        "n + r norm_relu_backward_data, n copy, n copy, c conv_backward_weights",
        "R s0 m0: c conv_forward, n + r norm_apply_relu",
        "B s0 m0: d conv_backward_weights, d conv_backward_data, d add, n + r norm_relu_backward_reduce, "
        "n + r norm_relu_backward_data, n add, n add, c conv_backward_weights",
        "norm s0: c.weight square_sum, n.weight square_sum, n.bias square_sum, d.weight square_sum, d.bias square_sum",
        "step s0: n norm_commit, c.weight sgd, n.weight sgd, n.bias sgd, d.weight sgd, d.bias sgd",
    },
    {
        "F s1 m0: o norm_statistics, o + s + t norm_apply_relu, f flatten, l linear_forward, loss "
        "cross_entropy_forward",
        "F s1 m1: o norm_statistics, o + s + t norm_apply_relu, f flatten, l linear_forward, loss "
        "cross_entropy_forward, loss loss_total",
        "B s1 m1: loss cross_entropy_backward, l linear_backward_weights, l linear_backward_data, f unflatten, "
        "o + t norm_add_relu_backward_reduce, o norm_backward_data, o copy, o copy",
        "R s1 m0: o + s + t norm_apply_relu, f flatten, l linear_forward",
        "B s1 m0: loss cross_entropy_backward, l linear_backward_weights, l linear_backward_data, f unflatten, "
        "o + t norm_add_relu_backward_reduce, o norm_backward_data, o add, o add",
        "norm s1: o.weight square_sum, o.bias square_sum, l.weight square_sum, l.bias square_sum",
        "clip s1: clip_total clip_total",
        "step s1: o norm_commit, o.weight sgd, o.bias sgd, l.weight sgd, l.bias sgd",
    },
};
/* One time for each of these, and one for each routine: an instruction has one, but the last F of a stage has two: the
 * loss's total, which is empty on stage 0. */
static const size_t expected_ticks[WORKERS] = {37 + 8, 40 + 9};

/* A run of one step that is recorded with its layers, as a timeline. */
static json_t *record_step(harness *h, const harness_options *options, gp_recorder **recorder) {
    gp_error err = {0};
    gp_chrome *chrome;
    gp_step_result result;
    json_error_t broken;
    char path[] = "/tmp/gp_timeline_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    harness_plan(h, options);
    harness_start(h, NULL);
    assert_int_equal(gp_recorder_create(h->plan->workers, recorder, &err), GP_OK);
    assert_int_equal(gp_recorder_add_ticks(*recorder, &err), GP_OK);
    const gp_mini_plan *mini = &h->plan->minis[0];
    for (int w = 0; w < h->plan->workers; w++) {
        size_t ticks = gp_mini_ticks(h->plan, mini, w);
        assert_int_equal(gp_lane_reserve(&(*recorder)->lanes[w], mini->programs->worker[w].count, &err), GP_OK);
        assert_int_equal(gp_ticks_reserve(&(*recorder)->ticks[w], ticks, &err), GP_OK);
    }
    gp_run_record(h->run, *recorder);
    assert_int_equal(harness_step(h, options->batch, true, 1, &result, &err), GP_OK);
    gp_run_record(h->run, NULL);
    assert_int_equal(gp_chrome_open(path, &chrome, &err), GP_OK);
    assert_int_equal(gp_timeline_write(h->plan, *recorder, UINT64_MAX, chrome, &err), GP_OK);
    assert_int_equal(gp_chrome_close(&chrome, &err), GP_OK);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &broken);
    if (!root) fail_msg("%s at %d", broken.text, broken.line);
    unlink(path);
    json_t *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    return events;
}

enum { LINE = 1024 };

static bool is_layer(json_t *event) {
    const char *category = text_of(event, "cat");
    return category && strcmp(category, "layer") == 0;
}

/* "c conv_forward", or "c.weight sgd". */
static void add_layer(char line[LINE], json_t *event) {
    json_t *args = json_object_get(event, "args");
    const char *parameter = text_of(args, "parameter");
    size_t used = strlen(line);
    snprintf(line + used, LINE - used, "%s %s%s%s %s", strchr(line, ':')[1] ? "," : "", text_of(event, "name"),
             parameter ? "." : "", parameter ? parameter : "", text_of(args, "kind"));
}

/* The layers of each instruction of a worker that computes, in the order of the file: "F s0 m0: c conv_forward, …". */
static size_t list_layers(json_t *events, int worker, char lines[][LINE], size_t most) {
    json_t *event;
    size_t i, count = 0;
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "ph"), "X") != 0 || track_of(event) != worker + 1) continue;
        if (strcmp(text_of(event, "cat"), "compute") == 0) {
            assert_true(count < most);
            snprintf(lines[count++], LINE, "%s:", text_of(event, "name"));
        }
        if (is_layer(event)) add_layer(lines[count - 1], event);
    }
    return count;
}

static const harness_options layered = {.model = network_layers,
                                        .layers = (const int64_t[]){4, 5},
                                        .stages = WORKERS,
                                        .kind = &gp_ref_kind,
                                        .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                        .micro_batches = 2,
                                        .batch = 4,
                                        .clip_norm = 1};

static double begin_of(json_t *event) {
    return json_number_value(json_object_get(event, "ts"));
}

static double end_of(json_t *event) {
    return begin_of(event) + json_number_value(json_object_get(event, "dur"));
}

/* Each layer lies in its instruction, behind the layer before it, and says where it belongs. */
static void check_places(json_t *events, int worker) {
    const double rounding = 1e-4; /* microseconds; times have nanoseconds */
    json_t *event, *instr = NULL;
    double before = 0;
    size_t i;
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "ph"), "X") != 0 || track_of(event) != worker + 1) continue;
        if (!is_layer(event)) {
            instr = event;
            before = begin_of(event);
            continue;
        }
        json_t *its = json_object_get(event, "args"), *whole = json_object_get(instr, "args");
        const char *name = text_of(instr, "name"), *op = text_of(its, "op");
        assert_true(begin_of(event) >= before - rounding);
        assert_true(end_of(event) <= end_of(instr) + rounding);
        before = end_of(event);
        assert_int_equal(strncmp(name, op, strlen(op)), 0);
        assert_int_equal(name[strlen(op)], ' ');
        assert_true(json_equal(json_object_get(its, "pc"), json_object_get(whole, "pc")));
        assert_true(json_equal(json_object_get(its, "step"), json_object_get(whole, "step")));
        assert_true(json_equal(json_object_get(its, "pass"), json_object_get(whole, "pass")));
    }
}

static void test_layers(void **state) {
    (void)state;
    static char lines[32][LINE];
    harness h;
    gp_recorder *recorder;
    json_t *events = record_step(&h, &layered, &recorder);
    for (int w = 0; w < WORKERS; w++) {
        size_t count = list_layers(events, w, lines, 32);
        for (size_t i = 0; i < count && expected_layers[w][i]; i++)
            assert_string_equal(lines[i], expected_layers[w][i]);
        assert_null(expected_layers[w][count]);
        check_places(events, w);
        assert_int_equal(recorder->ticks[w].count, expected_ticks[w]);
        assert_int_equal(gp_mini_ticks(h.plan, &h.plan->minis[0], w), expected_ticks[w]);
    }
    json_decref(events);
    gp_recorder_destroy(&recorder);
    harness_end(&h);
}

/* Names that are too long are cut behind a whole character. */
static void test_long_names(void **state) {
    (void)state;
    char name[402], whole[402], text[GP_LAYER_TEXT];
    for (int i = 0; i < 400; i += 2) memcpy(name + i, "\xc3\xa9", 3);
    memcpy(whole, name, sizeof whole);
    gp_node nodes[2] = {{.name = name}, {.name = whole}};
    const gp_graph graph = {.nodes = nodes, .node_count = 2};
    const gp_exec_op alone = {.node = 1}, both = {.node = 0, .beyond = 1};
    assert_string_equal(gp_layer_text(text, &graph, &alone), name);
    gp_layer_text(text, &graph, &both);
    /* 400 bytes, " + ", and of the 108 that are left 54 characters of two bytes. */
    assert_int_equal(strlen(text), 400 + 3 + 108);
    assert_memory_equal(text + 400, " + \xc3\xa9", 5);
    assert_memory_equal(text + strlen(text) - 2, "\xc3\xa9", 2);
    name[399] = '\0'; /* an odd length: one byte is left over */
    name[398] = 'x';
    gp_layer_text(text, &graph, &both);
    assert_int_equal(strlen(text), 399 + 3 + 108);
}

/* A device that works on its own records no times: the host's clock would not tell them. */
static void test_queues_have_no_layers(void **state) {
    (void)state;
    harness h;
    queued = gp_ref_kind;
    queued.event_elapsed = no_time;
    harness_options options = layered;
    options.kind = &queued;
    harness_plan(&h, &options);
    for (int w = 0; w < WORKERS; w++) assert_int_equal(gp_mini_ticks(h.plan, &h.plan->minis[0], w), 0);
    harness_end(&h);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* Stage 1 gets the output of layer 2, and a for its sum. Micro-batch 0 is recomputed, 1 is not. */
static const char network_waits[] = "input: {shape: [7]}\n"
                                    "layers: [linear: {out: 9, name: a}, relu, linear: 9, {add: [-1, a]}, relu, "
                                    "linear: 4]\n"
                                    "loss: cross_entropy\n";

typedef struct happening {
    int mini_batch, worker;
    const char *instr;
    int issued, started, ended; /* microseconds */
} happening;

/* Two mini-batches, of which every instruction is over at once but for those of the list. */
static void make_happenings(const gp_plan *plan, gp_recorder *recorder, const happening *list, size_t count) {
    gp_error err = {0};
    for (int w = 0; w < WORKERS; w++) {
        const gp_program *program = &plan->minis[0].programs->worker[w];
        assert_int_equal(gp_lane_reserve(&recorder->lanes[w], 2 * program->count, &err), GP_OK);
        for (int m = 0; m < 2; m++) {
            for (size_t pc = 0; pc < program->count; pc++) {
                uint64_t zero = origin + (uint64_t)m * 1000000;
                gp_span span = {.issued = zero, .started = zero, .ended = zero, .step = (uint32_t)m + 1, .index = pc};
                char text[GP_INSTR_TEXT];
                gp_instr_text(text, &program->instrs[pc]);
                for (size_t i = 0; i < count; i++) {
                    const happening *its = &list[i];
                    if (its->mini_batch != m || its->worker != w || strcmp(its->instr, text) != 0) continue;
                    span.issued = zero + 1000 * (uint64_t)its->issued;
                    span.started = zero + 1000 * (uint64_t)its->started;
                    span.ended = zero + 1000 * (uint64_t)its->ended;
                }
                gp_lane_add(&recorder->lanes[w], span);
            }
        }
    }
}

static void check_wait(const gp_plan *plan, const gp_recorder *recorder, happening its, const char *expected) {
    gp_error err = {0};
    gp_wait_finder *finder;
    char text[GP_INSTR_TEXT], found[GP_WAIT_TEXT];
    const gp_program *program = &plan->minis[0].programs->worker[its.worker];
    size_t pc = 0;
    while (strcmp(gp_instr_text(text, &program->instrs[pc]), its.instr) != 0) assert_true(++pc < program->count);
    assert_int_equal(gp_wait_finder_create(plan, recorder, &finder, &err), GP_OK);
    gp_wait_finder_text(finder, its.worker, (size_t)its.mini_batch * program->count + pc,
                        program->instrs[pc].op == GP_INSTR_BARRIER, found);
    gp_wait_finder_destroy(&finder);
    assert_string_equal(found, expected);
}

static void plan_waits(harness *h, bool lockstep, gp_recorder **recorder) {
    gp_error err = {0};
    harness_plan(h, &(harness_options){.model = network_waits,
                                       .layers = (const int64_t[]){3, 3},
                                       .stages = WORKERS,
                                       .kind = &gp_ref_kind,
                                       .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                       .lockstep = lockstep,
                                       .micro_batches = 2,
                                       .batch = 4});
    assert_int_equal(gp_recorder_create(WORKERS, recorder, &err), GP_OK);
}

/* Worker 1 receives what is sent to it when it is sent. Worker 0 recomputes micro-batch 0 into the slot from which it
 * sent micro-batch 1, so that worker 1 must have received both copies: the later one is what it waited for, e1 in the
 * first mini-batch and e0 in the second. The gradient e3 is there before worker 0 comes. F waits for nothing. */
static void test_waits_for_copies(void **state) {
    (void)state;
    harness h;
    gp_recorder *recorder;
    const happening list[] = {
        {0, 0, "send s0 m0 e0", 150, 150, 199}, {0, 1, "recv s1 m0 e0", 100, 200, 210},
        {0, 1, "recv s1 m1 e0", 340, 340, 350}, {0, 1, "recv s1 m1 e1", 340, 340, 399},
        {0, 0, "R s0 m0", 300, 400, 450},       {0, 1, "send s1 m1 e3", 440, 440, 445},
        {0, 0, "recv s0 m1 e3", 500, 502, 510}, {0, 0, "F s0 m0", 10, 20, 30},
        {1, 1, "recv s1 m1 e0", 340, 340, 399}, {1, 1, "recv s1 m1 e1", 340, 340, 350},
        {1, 0, "R s0 m0", 300, 400, 450},
    };
    plan_waits(&h, false, &recorder);
    make_happenings(h.plan, recorder, list, sizeof list / sizeof *list);
    check_wait(h.plan, recorder, list[1],
               "\"for\":\"send s0 m0 e0 on worker 0 (activation)\",\"for_worker\":0,\"for_pc\":2");
    check_wait(h.plan, recorder, list[4],
               "\"for\":\"slot: recv s1 m1 e1 on worker 1 (activation)\",\"for_worker\":1,\"for_pc\":6");
    check_wait(h.plan, recorder, list[6], "\"for\":\"nothing: the worker's thread did not run\"");
    check_wait(h.plan, recorder, list[7], "\"for\":\"nothing: the worker's thread did not run\"");
    check_wait(h.plan, recorder, list[10],
               "\"for\":\"slot: recv s1 m1 e0 on worker 1 (activation)\",\"for_worker\":1,\"for_pc\":5");
    gp_recorder_destroy(&recorder);
    harness_end(&h);
}

/* Worker 0's barrier at clock 1 waits until worker 1 has received micro-batch 0; at clock 2 it has micro-batch 1
 * already. Where all workers meet, the last to come ends the wait of the other, and waits for nothing. */
static void test_waits_at_barriers(void **state) {
    (void)state;
    harness h;
    gp_recorder *recorder;
    const happening list[] = {
        {0, 1, "recv s1 m0 e0", 100, 100, 120},    {0, 1, "recv s1 m0 e1", 120, 120, 180},
        {0, 0, "barrier, clock 1", 110, 110, 181}, {0, 1, "recv s1 m1 e0", 190, 190, 195},
        {0, 1, "recv s1 m1 e1", 195, 195, 199},    {0, 0, "barrier, clock 2", 200, 200, 200},
        {0, 1, "barrier, clock 1", 182, 182, 183}, {0, 1, "barrier, clock 0", 50, 50, 100},
    };
    plan_waits(&h, true, &recorder);
    make_happenings(h.plan, recorder, list, sizeof list / sizeof *list);
    check_wait(h.plan, recorder, list[2],
               "\"for\":\"barrier: recv s1 m0 e1 on worker 1 (activation)\",\"for_worker\":1,\"for_pc\":3");
    check_wait(h.plan, recorder, list[5], "\"for\":\"nothing: the other workers had come\"");
    gp_waits *meets = h.plan->minis[0].meets;
    h.plan->minis[0].meets = NULL;
    check_wait(h.plan, recorder, list[2], "\"for\":\"barrier, clock 1 on worker 1\",\"for_worker\":1,\"for_pc\":4");
    check_wait(h.plan, recorder, list[6], "\"for\":\"nothing: the other workers had come\"");
    h.plan->minis[0].meets = meets;
    gp_recorder_destroy(&recorder);
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_queues),
                                       cmocka_unit_test(test_without_queues),
                                       cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_long_names),
                                       cmocka_unit_test(test_queues_have_no_layers),
                                       cmocka_unit_test(test_waits_for_copies),
                                       cmocka_unit_test(test_waits_at_barriers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

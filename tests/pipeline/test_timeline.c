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
#include "pipeline/timeline.h"

enum { STAGES = 2 };
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

static json_t *timeline_of(const gp_device_kind *kind, harness *h) {
    gp_error err = {0};
    gp_chrome *chrome;
    gp_recorder *recorder;
    json_error_t broken;
    char path[] = "/tmp/gp_timeline_XXXXXX";
    harness_plan(h, &(harness_options){.model = network_vectors,
                                       .layers = (const int64_t[]){4, 5},
                                       .stages = STAGES,
                                       .kind = kind,
                                       .real = GP_F32,
                                       .checkpoint = GP_CHECKPOINT_ALWAYS,
                                       .micro_batches = 2,
                                       .batch = 4});
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(gp_recorder_create(STAGES, false, &recorder, &err), GP_OK);
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
    int worker = (int)((track_of(event) - 1) % STAGES), queue = (int)((track_of(event) - 1) / STAGES);
    const gp_instr *instr = &h->plan->minis[0].programs->worker[worker].instrs[pc];
    assert_true(json_is_number(issued));
    assert_true(fabs(json_number_value(issued) - (worker * 7 + (double)pc)) < 1e-6);
    assert_int_equal(queue, gp_instr_queue(h->plan->stages, instr));
}

static void test_queues(void **state) {
    (void)state;
    static const char *const ends[GP_QUEUES] = {": computes", ": receives", ": receives gradients"};
    harness h;
    json_t *event;
    size_t i, spans = 0, expected = 0;
    int named = 0;
    queued = gp_ref_kind;
    queued.event_elapsed = no_time;
    json_t *events = timeline_of(&queued, &h);
    json_array_foreach(events, i, event) {
        if (strcmp(text_of(event, "name"), "thread_name") == 0) {
            const char *name = text_of(json_object_get(event, "args"), "name");
            const char *end = ends[(track_of(event) - 1) / STAGES];
            assert_string_equal(name + strlen(name) - strlen(end), end);
            named++;
        }
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        assert_string_not_equal(text_of(event, "name"), "wait");
        check_span(&h, event);
        spans++;
    }
    for (int w = 0; w < STAGES; w++) expected += h.plan->minis[0].programs->worker[w].count;
    assert_int_equal(spans, expected);
    assert_int_equal(named, STAGES * GP_QUEUES);
    json_decref(events);
    harness_end(&h);
}

/* One track, its waits, and nothing that is enqueued. */
static void test_without_queues(void **state) {
    (void)state;
    harness h;
    json_t *event;
    size_t i, waits = 0;
    json_t *events = timeline_of(&gp_ref_kind, &h);
    json_array_foreach(events, i, event) {
        assert_true(track_of(event) <= STAGES);
        assert_null(json_object_get(json_object_get(event, "args"), "issued"));
        waits += strcmp(text_of(event, "name"), "wait") == 0;
    }
    assert_true(waits > 0);
    json_decref(events);
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_queues), cmocka_unit_test(test_without_queues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

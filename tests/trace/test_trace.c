/* Recorder and JSON, without a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/chrome.h"
#include "trace/recorder.h"

static char path[] = "/tmp/gp_test_trace_XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static json_t *written(gp_chrome **chrome) {
    gp_error err = {0};
    json_error_t broken;
    assert_int_equal(gp_chrome_close(chrome, &err), GP_OK);
    assert_null(*chrome);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &broken);
    if (!root) fail_msg("%s at %d", broken.text, broken.line);
    json_t *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    assert_true(json_is_array(events));
    return events;
}

static gp_chrome *opened(void) {
    gp_error err = {0};
    gp_chrome *chrome = NULL;
    assert_int_equal(gp_chrome_open(path, &chrome, &err), GP_OK);
    return chrome;
}

static const char *text_of(json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}

static void an_empty_timeline_is_json(void **state) {
    (void)state;
    gp_chrome *chrome = opened();
    json_t *events = written(&chrome);
    assert_int_equal(json_array_size(events), 0);
    json_decref(events);
}

/* Nanoseconds survive after weeks of uptime, and texts whatever is in them. */
static void spans_have_their_times_and_texts(void **state) {
    (void)state;
    const uint64_t origin = UINT64_C(9000000000000001);
    gp_chrome *chrome = opened();
    gp_chrome_origin(chrome, origin);
    gp_chrome_name_track(chrome, 3, 3, "a \"b\" \\ \n\x01 \xc3\xa9");
    gp_chrome_span(chrome, 3, "compute", "F s1 m3", origin + 1234567, origin + 1234567 + 89, "\"step\":7");
    gp_chrome_arrow(chrome, false, 3, "copy", INT64_MAX, origin + 5);
    gp_chrome_arrow(chrome, true, 4, "copy", INT64_MAX, origin + 1006);
    gp_chrome_counter(chrome, "memory", "bytes", origin, 77);
    json_t *events = written(&chrome);
    assert_int_equal(json_array_size(events), 6);
    json_t *name = json_array_get(events, 0), *span = json_array_get(events, 2), *from = json_array_get(events, 3);
    assert_string_equal(text_of(json_object_get(name, "args"), "name"), "a \"b\" \\ \n\x01 \xc3\xa9");
    assert_string_equal(text_of(span, "ph"), "X");
    assert_string_equal(text_of(span, "name"), "F s1 m3");
    assert_true(json_real_value(json_object_get(span, "ts")) == 1234.567);
    assert_true(json_real_value(json_object_get(span, "dur")) == 0.089);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(span, "args"), "step")), 7);
    assert_string_equal(text_of(from, "ph"), "s");
    assert_true(json_real_value(json_object_get(json_array_get(events, 4), "ts")) == 1.006);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json_array_get(events, 5), "args"), "bytes")),
                     77);
    json_decref(events);
}

static void a_file_that_cannot_be_made_is_named(void **state) {
    (void)state;
    gp_error err = {0};
    gp_chrome *chrome = NULL;
    char none[sizeof path + 20], sentence[100];
    snprintf(none, sizeof none, "%s.none/t.json", path);
    snprintf(sentence, sizeof sentence, "%s: cannot be written: No such file or directory", none);
    assert_int_equal(gp_chrome_open(none, &chrome, &err), GP_IO);
    assert_string_equal(err.text, sentence);
    assert_null(chrome);
}

/* A mistyped name. */
static void nothing_else_is_written_over(void **state) {
    (void)state;
    static const char text[] = "model: {}\n";
    char sentence[200], found[sizeof text] = "";
    gp_error err = {0};
    gp_chrome *chrome = NULL;
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(gp_chrome_open(path, &chrome, &err), GP_IO);
    assert_null(chrome);
    snprintf(sentence, sizeof sentence, "%s: the file exists, and is not a timeline: choose another name", path);
    assert_string_equal(err.text, sentence);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found - 1, file), sizeof text - 1);
    fclose(file);
    assert_string_equal(found, text);
    assert_int_equal(gp_chrome_open("/tmp", &chrome, &err), GP_IO);
    assert_string_equal(err.text, "/tmp: cannot be written: it is not a regular file");
    /* An empty file, and a timeline, are. */
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gp_chrome_open(path, &chrome, &err), GP_OK);
        assert_int_equal(gp_chrome_close(&chrome, &err), GP_OK);
    }
}

static void a_full_disk_is_reported_at_the_end(void **state) {
    (void)state;
    gp_error err = {0};
    gp_chrome *chrome = NULL;
    if (gp_chrome_open("/dev/full", &chrome, &err) != GP_OK) skip();
    for (int i = 0; i < 1000; i++) gp_chrome_counter(chrome, "memory", "bytes", 0, 1);
    assert_int_equal(gp_chrome_close(&chrome, &err), GP_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot be written: "));
}

static void a_lane_keeps_its_spans_while_it_grows(void **state) {
    (void)state;
    gp_error err = {0};
    gp_recorder *recorder = NULL;
    assert_int_equal(gp_recorder_create(2, &recorder, &err), GP_OK);
    gp_lane *lane = &recorder->lanes[1];
    for (size_t i = 0; i < 300; i++) {
        assert_int_equal(gp_lane_reserve(lane, 3, &err), GP_OK);
        assert_true(lane->capacity >= lane->count + 3);
        for (size_t k = 0; k < 3; k++) gp_lane_add(lane, (gp_span){.index = 3 * i + k});
    }
    assert_int_equal(lane->count, 900);
    for (size_t i = 0; i < 900; i++) assert_int_equal(lane->spans[i].index, i);
    assert_int_equal(recorder->lanes[0].count, 0);
    gp_recorder_destroy(&recorder);
    assert_null(recorder);
}

static void ticks_are_kept_beside_the_spans(void **state) {
    (void)state;
    gp_error err = {0};
    gp_recorder *recorder = NULL;
    assert_int_equal(gp_recorder_create(2, &recorder, &err), GP_OK);
    assert_null(recorder->ticks);
    assert_int_equal(gp_recorder_add_ticks(recorder, &err), GP_OK);
    gp_ticks *ticks = &recorder->ticks[1];
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(gp_ticks_reserve(ticks, 2, &err), GP_OK);
        assert_true(ticks->capacity >= ticks->count + 2);
        assert_int_equal(gp_ticks_bytes(ticks->count + 2), ticks->capacity * sizeof(uint64_t));
        gp_ticks_add(ticks, 10 * i);
        gp_ticks_add(ticks, 10 * i + 5);
    }
    for (uint64_t i = 0; i < 200; i++) assert_int_equal(ticks->times[i], 5 * i);
    assert_int_equal(recorder->ticks[0].count, 0);
    assert_int_equal(gp_ticks_bytes(0), 0);
    assert_true(gp_ticks_bytes(SIZE_MAX / 4) == SIZE_MAX);
    gp_recorder_destroy(&recorder);
}

static void a_track_may_be_on_top(void **state) {
    (void)state;
    gp_chrome *chrome = opened();
    gp_chrome_name_track(chrome, 3, 3, "below");
    gp_chrome_name_track(chrome, 7, 0, "above");
    json_t *events = written(&chrome);
    static const json_int_t tracks[] = {3, 7}, orders[] = {3, 0};
    for (size_t i = 0; i < 2; i++) {
        json_t *order = json_array_get(events, 2 * i + 1);
        assert_string_equal(text_of(order, "name"), "thread_sort_index");
        assert_int_equal(json_integer_value(json_object_get(order, "tid")), tracks[i]);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(order, "args"), "sort_index")), orders[i]);
    }
    json_decref(events);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_timeline_is_json),           cmocka_unit_test(spans_have_their_times_and_texts),
        cmocka_unit_test(a_file_that_cannot_be_made_is_named), cmocka_unit_test(nothing_else_is_written_over),
        cmocka_unit_test(a_full_disk_is_reported_at_the_end),  cmocka_unit_test(a_lane_keeps_its_spans_while_it_grows),
        cmocka_unit_test(ticks_are_kept_beside_the_spans),     cmocka_unit_test(a_track_may_be_on_top),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

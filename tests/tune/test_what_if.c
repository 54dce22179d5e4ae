#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "tune/what_if.h"

static gp_status try_read(const char *text, size_t bytes, gp_what_if *out, gp_error *err) {
    gp_yaml_document *document = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, bytes, "a.yaml", &document, err));
    gp_status status = gp_what_if_read(gp_yaml_root(document), "a.yaml", out, err);
    gp_yaml_destroy(&document);
    return status;
}

static gp_what_if_answer play_text(const char *text) {
    gp_what_if question;
    gp_what_if_answer answer;
    gp_error err = {0};
    if (try_read(text, strlen(text), &question, &err) != GP_OK) fail_msg("%s", err.text);
    if (gp_what_if_play(&question, &answer, &err) != GP_OK) fail_msg("%s", err.text);
    gp_what_if_fini(&question);
    return answer;
}

/* ---- what is published ------------------------------------------------------------------------------------------- */

/* Zero Bubble Pipeline Parallelism (Qi et al., 2401.10241), times of table 9, bubble rates of table 5. */
static void published_rates_come_out(void **state) {
    (void)state;
    static const char *const times[] = {
        "stages: 8, micro_batches: 24, forward: 18.522, backward_input: 18.086, backward_weight: 9.337, copy: 0.601",
        "stages: 8, micro_batches: 24, forward: 29.718, backward_input: 29.444, backward_weight: 19.927, copy: 0.527"};
    static const char *const schedules[] = {"1f1b", "zb_h1", "zb_h2"};
    static const double rates[2][3] = {{0.2431, 0.1585, 0.1083}, {0.2347, 0.1323, 0.0698}};
    for (int model = 0; model < 2; model++)
        for (int s = 0; s < 3; s++) {
            char text[256];
            snprintf(text, sizeof text, "{schedule: %s, %s}", schedules[s], times[model]);
            gp_what_if_answer answer = play_text(text);
            assert_true(fabs(answer.bubble - rates[model][s]) < 0.00005);
            gp_what_if_answer_fini(&answer);
        }
}

typedef struct law {
    const char *schedule;
    int chunks;
    int f, b, w; /* idle for (p−1)·(f·F + b·B + w·W) of a chunk */
    int least;   /* micro-batches: 0: any; 1: p; 2: 2p−1; 3: a multiple of p */
    bool equal;  /* where F = B = W */
} law;

static bool holds_for(const law *its, int p, int m, const int each[3]) {
    if (its->equal && (each[0] != each[1] || each[1] != each[2])) return false;
    return its->least == 0 || (its->least == 1 && m >= p) || (its->least == 2 && m >= 2 * p - 1) ||
           (its->least == 3 && m % p == 0);
}

static void check_law(const law *its, int p, int m, const int each[3]) {
    char text[256];
    if (!holds_for(its, p, m, each)) return;
    snprintf(text, sizeof text,
             "{schedule: %s, chunks: %d, stages: %d, micro_batches: %d, forward: %d, backward_input: %d, "
             "backward_weight: %d}",
             its->schedule, its->chunks, p, m, each[0] * its->chunks, each[1] * its->chunks, each[2] * its->chunks);
    gp_what_if_answer answer = play_text(text);
    double busy = (double)m * its->chunks * (each[0] + each[1] + each[2]);
    double idle = (p - 1) * (double)(its->f * each[0] + its->b * each[1] + its->w * each[2]);
    if (answer.cost != busy + idle) fail_msg("%s: idle for %g, not %g", text, answer.cost - busy, idle);
    assert_true(answer.bubble == idle / (busy + idle));
    for (int d = 0; d < p; d++) assert_true(answer.device[d].busy == busy);
    gp_what_if_answer_fini(&answer);
}

/* With whole numbers all sums are exact. GPipe's (p−1)/(m+p−1) of the time is this idle time. */
static void bubbles_are_as_the_formulas_say(void **state) {
    (void)state;
    static const law laws[] = {{"gpipe", 1, 1, 1, 1, 0, false},       {"1f1b", 1, 1, 1, 1, 0, false},
                               {"interleaved", 1, 1, 1, 1, 0, false}, {"interleaved", 2, 1, 1, 1, 3, false},
                               {"interleaved", 3, 1, 1, 1, 3, false}, {"zb_h1", 1, 1, 1, -1, 1, false},
                               {"zb_h2", 1, 1, 1, -2, 2, false},      {"zb_v", 2, 0, 0, 0, 2, true}};
    static const int times[][3] = {{1, 1, 1}, {2, 2, 1}, {2, 3, 1}, {3, 2, 2}, {5, 5, 5}};
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++)
        for (size_t t = 0; t < sizeof times / sizeof *times; t++)
            for (int p = 1; p <= 6; p++)
                for (int m = 1; m <= 16; m++) check_law(&laws[l], p, m, times[t]);
}

static void check_in_flight(const char *schedule, const double expected[4]) {
    char text[256];
    snprintf(text, sizeof text,
             "{schedule: %s, stages: 4, micro_batches: 12, forward: 1, backward_input: 1, backward_weight: 1}",
             schedule);
    gp_what_if_answer answer = play_text(text);
    for (int d = 0; d < 4; d++)
        if (answer.device[d].in_flight != expected[d])
            fail_msg("%s: stage %d has %g in flight, not %g", schedule, d, answer.device[d].in_flight, expected[d]);
    gp_what_if_answer_fini(&answer);
}

static void micro_batches_in_flight_are_as_published(void **state) {
    (void)state;
    check_in_flight("gpipe", (double[]){12, 12, 12, 12});
    check_in_flight("1f1b", (double[]){4, 3, 2, 1});
    check_in_flight("zb_h1", (double[]){4, 3, 2, 1});
    check_in_flight("zb_h2", (double[]){7, 5, 3, 1});
    check_in_flight("zb_v", (double[]){4, 4, 4, 4});
    check_in_flight("interleaved", (double[]){5.5, 4.5, 3.5, 2.5});
}

/* ---- what the file says ------------------------------------------------------------------------------------------ */

static void check_step(const char *text, double step) {
    gp_what_if_answer answer = play_text(text);
    if (answer.step != step) fail_msg("%s: %g, not %g", text, answer.step, step);
    gp_what_if_answer_fini(&answer);
}

static void times_are_taken_as_written(void **state) {
    (void)state;
    /* one per stage; the slower one leads */
    check_step("{schedule: gpipe, stages: 2, micro_batches: 3, forward: [1, 4], backward_input: 1, backward_weight: 1}",
               1 + 3 * 4 + 3 * 2 + 2);
    /* a device's time is shared by its chunks; of a list of all stages each has its own */
    check_step("{schedule: {interleaved: {chunks: 2}}, stages: 2, micro_batches: 1, forward: 2, backward_input: 4, "
               "backward_weight: 6}",
               4 * (1 + 2 + 3));
    check_step("{schedule: zb_v, stages: 2, micro_batches: 1, forward: [1, 2, 3, 4], backward_input: 0, "
               "backward_weight: 0}",
               1 + 2 + 3 + 4);
    check_step("{schedule: zb_v, stages: 2, micro_batches: 1, forward: [2, 8], backward_input: 0, backward_weight: 0}",
               1 + 4 + 4 + 1);
    /* copies: between devices only, and both ways; of a list, between a stage and the one before */
    check_step("{schedule: zb_v, stages: 2, micro_batches: 1, forward: 2, backward_input: 0, backward_weight: 0, "
               "copy: 10}",
               4 + 4 * 10);
    check_step("{schedule: 1f1b, stages: 3, micro_batches: 1, forward: 1, backward_input: 0, backward_weight: 0, "
               "copy: [99, 10, 20]}",
               3 + 60);
    /* 2 MB at 0.5 GB/s: 4 ms, one at a time */
    check_step("{schedule: 1f1b, stages: 2, micro_batches: 2, forward: 1, backward_input: 0, backward_weight: 0, "
               "latency: 10, bytes: 2000000, bandwidth: 0.5}",
               1 + 4 + 4 + 10 + 1 + 4 + 10);
    /* recomputing, as long as the forward where nothing else is said; and an update at the end */
    check_step("{schedule: gpipe, stages: 1, micro_batches: 3, checkpoint: except_last, forward: 2, backward_input: 1, "
               "backward_weight: 1, update: 7}",
               3 * (2 + 2) + 2 * 2 + 7);
    check_step("{schedule: gpipe, stages: 1, micro_batches: 3, checkpoint: always, forward: 2, backward_input: 1, "
               "backward_weight: 1, recompute: 5}",
               3 * (2 + 2) + 3 * 5);
    /* in lockstep a clock is as long as its longest computation */
    check_step("{schedule: gpipe, stages: 2, micro_batches: 2, lockstep: true, forward: [1, 4], backward_input: 1, "
               "backward_weight: 0}",
               1 + 4 + 4 + 1 + 1 + 1);
}

/* The tables of tests/schedule/test_issue.c, read from files. */
static void devices_are_taken_as_written(void **state) {
    (void)state;
#define TWO                                                                                                            \
    "{schedule: gpipe, stages: 2, micro_batches: 3, forward: 4, backward_input: 2, backward_weight: 2, copy: 1, "
    check_step(TWO "device: {}}", 34);
    check_step(TWO "device: {copies: beside, hosts: one}}", 34);
    check_step(TWO "device: {copies: queued, hosts: one}}", 38);
    check_step(TWO "device: {copies: queued, hosts: one}, lockstep: true}", 34);
    check_step(TWO "device: {copies: queued}}", 50);
    check_step(TWO "device: {copies: queued, launch: 2, launch_copy: 1}}", 42);
    check_step(TWO "device: {copies: queued, launch: 2, launch_copy: 1, wake: 1}, lockstep: true}", 36);
    check_step(TWO "device: {copies: same_queue}, lockstep: true}", 38);
    /* 2 MB at 2 GB/s: 1 ms for which a copy holds its queue; besides, 0.5 ms on its way. c0s1 5.5, F0s1 to 9.5, … */
    check_step("{schedule: gpipe, stages: 2, micro_batches: 3, forward: 4, backward_input: 2, backward_weight: 2, "
               "latency: 0.5, bytes: 2000000, bandwidth: 2, device: {}}",
               35);
#undef TWO
}

#define TIMES ", forward: 1, backward_input: 1, backward_weight: 1"

static void wrong_files_are_sentences(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a.yaml: the file is empty"},
        {"[1, 2]", "a.yaml:1:1: simulation: needs a mapping (key: value), not a list"},
        {"{stages: 2, micro_batches: 2" TIMES "}", "a.yaml:1:1: schedule: is missing"},
        {"{schedule: 1f1b, micro_batches: 2" TIMES "}", "a.yaml:1:1: stages: is missing"},
        {"{schedule: 1f1b, stages: 2" TIMES "}", "a.yaml:1:1: micro_batches: is missing"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, forward: 1, backward_weight: 1}",
         "a.yaml:1:1: backward_input: is missing"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, forward: 1, backward_input: 1}",
         "a.yaml:1:1: backward_weight: is missing"},
        {"{schedule: 1f1b, stages: 0, micro_batches: 2" TIMES "}",
         "a.yaml:1:26: stages: 0 is too small; it must be at least 1"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 1e3" TIMES "}",
         "a.yaml:1:44: micro_batches: \"1e3\" is not an integer; write 1000"},
        {"{schedule: 1f1b, stages: 4096, micro_batches: 4096" TIMES "}",
         "a.yaml:1:26: stages: 4096 stages times 4096 micro-batches are more than 8388608"},
        {"{schedule: interleaved, chunks: 4096, stages: 2, micro_batches: 4" TIMES "}",
         "a.yaml:1:47: stages: 4096 chunks on each of 2 devices are more than 4096 stages"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, processors: 0" TIMES "}",
         "a.yaml:1:59: processors: 0 is too small; it must be at least 1"},
        {"{schedule: zb_v, chunks: 3, stages: 2, micro_batches: 4" TIMES "}",
         "a.yaml:1:26: chunks: zb_v has 2 chunks per device, not 3"},
        {"{schedule: {interleaved: {chunks: 3}}, chunks: 2, stages: 2, micro_batches: 4" TIMES "}",
         "a.yaml:1:48: chunks: 2 here, but 3 in the schedule; give one of them"},
        {"{schedule: {file: a.txt}, stages: 2, micro_batches: 4" TIMES "}",
         "a.yaml:1:12: schedule: a schedule of a file cannot be simulated; name one, such as 1f1b"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, forward: -1, backward_input: 1, backward_weight: 1}",
         "a.yaml:1:56: forward: -1 is too small; it must be at least 0"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, forward: [1, x], backward_input: 1, backward_weight: 1}",
         "a.yaml:1:60: forward: \"x\" is not a number"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, forward: [1, 2, 3], backward_input: 1, backward_weight: 1}",
         "a.yaml:1:56: forward: the list has 3 numbers; give one number, or a list of 2"},
        {"{schedule: zb_v, stages: 2, micro_batches: 2, forward: [1, 2, 3], backward_input: 1, backward_weight: 1}",
         "a.yaml:1:56: forward: the list has 3 numbers; give one number, or a list of 2 or 4"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, copy: 1, latency: 1" TIMES "}",
         "a.yaml:1:65: latency: cannot be combined with copy"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, bytes: 1 MiB" TIMES "}",
         "a.yaml:1:54: bytes: needs the key bandwidth as well"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, bytes: 1 MiB, bandwidth: 0" TIMES "}",
         "a.yaml:1:72: bandwidth: 0 is too small; it must be more than 0"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, bytes: 1 TiB, bandwidth: 1e-9" TIMES "}",
         "a.yaml:1:54: bytes: a copy at this bandwidth takes longer than 1000000000 ms"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, lockstep: true" TIMES "}",
         "a.yaml:1:57: lockstep: only the schedule gpipe has it, not 1f1b"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: queued" TIMES "}",
         "a.yaml:1:55: device: needs a mapping (key: value), not \"queued\""},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: [queued]" TIMES "}",
         "a.yaml:1:55: device: needs a mapping (key: value), not a list"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {copy: queued}" TIMES "}",
         "a.yaml:1:56: device: unknown key \"copy\"; known are copies, hosts, launch, launch_copy, wake"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {copies: behind}" TIMES "}",
         "a.yaml:1:64: device.copies: \"behind\" is none of beside, queued, same_queue"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {copies: [queued]}" TIMES "}",
         "a.yaml:1:64: device.copies: needs one of beside, queued, same_queue, not a list"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {hosts: 2}" TIMES "}",
         "a.yaml:1:63: device.hosts: \"2\" is none of per_device, one"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {launch: -1}" TIMES "}",
         "a.yaml:1:64: device.launch: -1 is too small; it must be at least 0"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {launch: .inf}" TIMES "}",
         "a.yaml:1:64: device.launch: \".inf\" is not a number"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {launch: 2e9}" TIMES "}",
         "a.yaml:1:64: device.launch: 2e9 is too large; it must be at most 1000000000"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {launch_copy: fast}" TIMES "}",
         "a.yaml:1:69: device.launch_copy: \"fast\" is not a number"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {wake: 1 ms}" TIMES "}",
         "a.yaml:1:62: device.wake: \"1 ms\" is not a number"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {hosts: one, wake: 1}" TIMES "}",
         "a.yaml:1:74: device.wake: one host thread waits for no other; remove it, or write hosts: per_device"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, processors: 2, device: {}" TIMES "}",
         "a.yaml:1:70: device: cannot be combined with processors; remove one of the two keys"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, device: {}, device: {}" TIMES "}",
         "a.yaml:1:59: key \"device\" occurs twice; the first is in line 1"},
        {"{schedule: 1f1b, stages: 2, micro_batches: 2, checkpoint: often" TIMES "}",
         "a.yaml:1:59: checkpoint: \"often\" is none of never, except_last, always"},
        {"{schedule: 1f1b, stage: 2, micro_batches: 2" TIMES "}",
         "a.yaml:1:18: simulation: unknown key \"stage\"; did you mean stages?"},
        {"{schedule: zb_h3, stages: 2, micro_batches: 2" TIMES "}",
         "a.yaml:1:12: pipeline.schedule: unknown \"zb_h3\"; did you mean zb_h1?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_what_if question = {0};
        gp_error err = {0};
        gp_status status = try_read(cases[i].text, strlen(cases[i].text), &question, &err);
        if (status == GP_OK) fail_msg("%s: is taken", cases[i].text);
        assert_int_equal(gp_status_exit(status), 2);
        assert_string_equal(err.text, cases[i].message);
        assert_null(question.forward);
    }
}

/* Files with some bytes changed: a sentence, or numbers that add up. */
static void broken_files_do_no_harm(void **state) {
    (void)state;
    static const char good[] = "schedule: {interleaved: {chunks: 2}}\nstages: 3\nmicro_batches: 6\nforward: [1, 2, 3]\n"
                               "backward_input: 2.5\nbackward_weight: 1e0\nlatency: 0.1\nbytes: 2 MiB\nbandwidth: 9\n"
                               "checkpoint: always\nupdate: 1\ndevice: {copies: queued, launch: 0.1, wake: 1}\n";
    static const char bytes[] = "0123456789-+.eE{}[]:, \n\"'#abfz&*";
    int taken = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        char text[sizeof good];
        gp_what_if question = {0};
        gp_error err = {0};
        memcpy(text, good, sizeof good);
        for (uint32_t change = 0; change < 1 + i % 3; change++) {
            gp_philox draw = gp_philox_draw(7, (gp_philox){{i, change, 0, 0}});
            text[draw.word[0] % (sizeof good - 1)] = bytes[draw.word[1] % (sizeof bytes - 1)];
        }
        gp_status status = try_read(text, sizeof good - 1, &question, &err);
        if (status != GP_OK) {
            assert_true(status == GP_CONFIG && strncmp(err.text, "a.yaml", 6) == 0);
            continue;
        }
        gp_what_if_answer answer = {0};
        if (question.devices * question.micro_batches <= 1000 && ++taken) {
            if (gp_what_if_play(&question, &answer, &err) != GP_OK) fail_msg("%s: %s", text, err.text);
            assert_true(answer.step >= answer.cost && answer.bubble >= 0 && answer.bubble < 1);
        }
        gp_what_if_answer_fini(&answer);
        gp_what_if_fini(&question);
    }
    assert_true(taken > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_rates_come_out),
        cmocka_unit_test(bubbles_are_as_the_formulas_say),
        cmocka_unit_test(micro_batches_in_flight_are_as_published),
        cmocka_unit_test(times_are_taken_as_written),
        cmocka_unit_test(devices_are_taken_as_written),
        cmocka_unit_test(wrong_files_are_sentences),
        cmocka_unit_test(broken_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "schedule/emit.h"
#include "schedule/schedule_file.h"
#include "schedule/slots.h"
#include "schedule/toy_graph.h"
#include "schedule/validate.h"

static gp_schedule_file *parse(const char *text) {
    gp_schedule_file *file = NULL;
    gp_error err = {0};
    if (gp_schedule_file_parse(text, "a.txt", NULL, &file, &err) != GP_OK) fail_msg("%s", err.text);
    return file;
}

static void check_refused(const char *text, const char *message) {
    gp_schedule_file *file = NULL;
    gp_error err = {0};
    assert_int_equal(gp_schedule_file_parse(text, "a.txt", NULL, &file, &err), GP_CONFIG);
    assert_null(file);
    assert_string_equal(err.text, message);
}

static void an_order_is_read(void **state) {
    (void)state;
    gp_schedule_file *file = parse("# a V\n\non 0, 1 1 0 # four stages\n"
                                   "0F0 0F1 1F0,1B0 1W0 1F1 1B1 1W1 0B0 0W0 0B1 0W1\n"
                                   "0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1");
    const gp_order *order = file->order;
    static const int on[] = {0, 1, 1, 0};
    assert_null(file->programs);
    assert_int_equal(order->workers, 2);
    assert_int_equal(order->stages, 4);
    assert_int_equal(order->pieces, 2);
    assert_false(order->descending);
    assert_memory_equal(order->worker_of_stage, on, sizeof on);
    assert_int_equal(order->worker[0].count, 12);
    assert_int_equal(order->worker[0].tasks[3].op, GP_TASK_BACKWARD_INPUT); /* a W follows */
    assert_int_equal(order->worker[0].tasks[3].stage, 3);
    assert_int_equal(order->worker[1].tasks[4].op, GP_TASK_BACKWARD);
    assert_int_equal(order->worker[1].tasks[4].stage, 2);
    gp_schedule_file_destroy(&file);
}

static void bad_orders_are_refused_with_their_place(void **state) {
    (void)state;
    check_refused("", "a.txt:1:1: there is no worker: the text is empty");
    check_refused("# nothing\n\n", "a.txt:3:1: there is no worker: the text is empty");
    check_refused("F0 X1 B0\n", "a.txt:1:4: expected F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's "
                                "second stage, not \"X1\"");
    check_refused("F0 B\n", "a.txt:1:4: expected F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's second "
                            "stage, not \"B\"");
    check_refused("F0 B0x\n", "a.txt:1:4: expected F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's "
                              "second stage, not \"B0x\"");
    check_refused("F0 B9999\n", "a.txt:1:4: expected F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's "
                                "second stage, not \"B9999\"");
    /* What may be any file is not shown. */
    check_refused("root:x:0:0\n",
                  "a.txt:1:1: this is no schedule: expected F, B, I or W and a micro-batch, as in F0, or "
                  "1F0 on a worker's second stage");
    check_refused("on secret\n", "a.txt:1:4: this is no schedule: expected the number of a worker");
    check_refused("programs_secret 1\n", "a.txt:1:1: expected a header that begins with \"programs\"");
    check_refused("programs secret\n", "a.txt:1:10: expected workers= and a number from 1 to 4096");
    check_refused("4096F0 B0\n",
                  "a.txt:1:1: this is no schedule: expected F, B, I or W and a micro-batch, as in F0, or "
                  "1F0 on a worker's second stage");
    check_refused("on 0 x\nF0 B0\n", "a.txt:1:6: expected the number of a worker, not \"x\"");
    check_refused("F0 B0\non 0\n", "a.txt:2:1: \"on\" may occur only once, before the first worker");
    check_refused("on 0 2\nF0 B0\nF0 B0\n",
                  "a.txt:1:1: stage 1 is on worker 2, but there are 2 workers, counted from 0");
    check_refused("on 0\nF0 B0\nF0 B0\n",
                  "a.txt:1:1: 1 stages are too few for 2 workers: each worker needs at least one");
    check_refused("on 0 0\nF0 B0\n1F0 1B0\n", "a.txt:3:1: worker 1 has no stage: \"on\" must name each worker");
    check_refused("on 0 1\nF0 B0\n1F0 1B0\n",
                  "a.txt:3:1: worker 1 has 1 stage: the number before the letter must be from 0 to 0, not 1");
    check_refused("F0 F1 B0 B1\nF0 B0\n",
                  "a.txt:3:1: 6 tasks are too few for 2 stages and 2 micro-batches: 8 are needed");
    check_refused("4095F4095 B0",
                  "a.txt:1:13: 2 tasks are too few for 4096 stages and 4096 micro-batches: 33554432 are needed");
    check_refused("F0 F1 B0 B1\nF0 F1 B1 B0\n",
                  "a.txt:2:7: worker 1, B1 of stage 1: comes too early: gradients add up in "
                  "ascending order of micro-batches, and 0 is next");
    check_refused("F0 F0 B0 B0\nF0 B0\n", "a.txt:1:4: worker 0, F0 of stage 0: a second forward");
    check_refused("F0 B0\nB0 F0\n", "a.txt:2:1: worker 1, B0 of stage 1: comes before its forward");
    check_refused("F0 W0 I0\nF0 B0\n", "a.txt:1:4: worker 0, W0 of stage 0: comes before its backward for inputs");
    check_refused("F0 I0 I0\nF0 B0\n", "a.txt:1:7: worker 0, I0 of stage 0: a second backward");
    check_refused("F0 I0\nF0 B0\n", "a.txt: stage 0: micro-batch 0 has no backward for weights");
    check_refused(
        "F1 B0 B1 W0 W1\nF0 F1 B0 W0 B1 W1\n",
        "a.txt:2:1: worker 1, F0 of stage 1: needs the forward of micro-batch 0 on stage 0, which is missing");
    /* Each waits for the other. */
    check_refused("F0 B0 F1 B1\nF0 F1 B0 B1\n",
                  "a.txt:1:4: worker 0, B0 of stage 0: can never begin: it waits for a task that waits for it");
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static const char lines[] = "programs workers=2 stages=2 pieces=1 training ascending on=0,1\n"
                            "worker 0:\n"
                            "load s0 m0\n"
                            "F s0 m0 keep last\n"
                            "send s0 m0 e0 keep\n"
                            "recv s0 m0 e1\n"
                            "B s0 m0 first @4294967295\n"
                            "collect s0 c0\n"
                            "step s0\n"
                            "worker 1:\n"
                            "load s1 m0\n"
                            "recv s1 m0 e0\n"
                            "F s1 m0 keep last\n"
                            "post s1 c0\n"
                            "B s1 m0 first\n"
                            "send s1 m0 e1\n"
                            "step s1\n";

/* The text with one line left out, or another in its place. */
static const char *with(const char *line, const char *instead) {
    static char text[2048];
    const char *at = strstr(lines, line);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - lines), lines, instead, at + strlen(line));
    return text;
}

static gp_status make_programs(const char *text, gp_programs **out, gp_error *err) {
    toy t;
    gp_schedule_file *file = NULL;
    toy_init_chain(&t, 2, false);
    gp_status status = gp_schedule_file_parse(text, "p.txt", NULL, &file, err);
    gp_emit_request request = {.stages = t.stages,
                               .pieces = {.count = 1},
                               .training = true,
                               .schedule = {.kind = GP_SCHEDULE_FILE, .file = file}};
    if (status == GP_OK) status = gp_programs_emit(&request, out, err);
    if (status == GP_OK) status = gp_slots_assign(t.stages, *out, NULL, err);
    if (status == GP_OK) status = gp_programs_validate(t.stages, *out, err);
    if (status != GP_OK) gp_programs_destroy(out);
    gp_schedule_file_destroy(&file);
    toy_fini(&t);
    return status;
}

static void programs_are_carried_out_as_they_stand(void **state) {
    (void)state;
    gp_programs *programs = NULL;
    gp_error err = {0};
    if (make_programs(lines, &programs, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(programs->worker[0].count, 7);
    assert_int_equal(programs->worker[1].instrs[3].op, GP_INSTR_POST); /* before the backward here */
    assert_int_equal(programs->worker[1].instrs[3].collective, 0);
    assert_int_equal(programs->worker[0].instrs[4].clock, 3); /* F0, F1, B1, B0: whatever the file said */
    gp_programs_destroy(&programs);
}

/* Copies may leave whenever what they carry is there: behind the backward for weights, with others' loads between. */
static void sends_stand_where_they_like(void **state) {
    (void)state;
    gp_programs *programs = NULL;
    gp_error err = {0};
    const char *late = with("B s1 m0 first\n", "I s1 m0 first\nW s1 m0 first\n");
    if (make_programs(late, &programs, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(programs->worker[1].instrs[5].op, GP_INSTR_BACKWARD_WEIGHT);
    assert_int_equal(programs->worker[1].instrs[6].op, GP_INSTR_SEND);
    gp_programs_destroy(&programs);
}

static void check_bad_programs(const char *text, const char *message) {
    gp_programs *programs = NULL;
    gp_error err = {0};
    assert_int_not_equal(make_programs(text, &programs, &err), GP_OK);
    assert_string_equal(err.text, message);
}

static void bad_programs_are_refused_with_their_line(void **state) {
    (void)state;
    check_bad_programs(with("send s0 m0 e0 keep\n", ""),
                       "p.txt:11:1: worker 1, instruction 1 (recv s1 m0 e0): no instruction sends it");
    check_bad_programs(with("post s1 c0\n", ""), "collective 0 (broadcast of scalars): stage 1 has no post");
    check_bad_programs(with("collect s0 c0\n", ""), "collective 0 (broadcast of scalars): stage 0 has no collect");
    check_bad_programs(with("collect s0 c0\n", "recv s0 m0 e2\n"),
                       "p.txt:8:1: worker 0, instruction 5 (recv s0 m0 e2): edge 2 does not exist: there are 2 edges, "
                       "counted from 0; older programs had edges for flags and norms, now there are post and collect");
    check_bad_programs(
        with("F s1 m0 keep last\n", "F s2 m0 keep last\n"),
        "p.txt:13:1: worker 1, instruction 2 (F s2 m0): there is no such stage on the worker, or no such "
        "micro-batch");
    check_bad_programs(with("send s1 m0 e1\n", "send s1 m0 e9\n"),
                       "p.txt:16:1: worker 1, instruction 5 (send s1 m0 e9): edge 9 does not exist: there are 2 edges, "
                       "counted from 0");
    check_bad_programs(
        with("B s0 m0 first @4294967295\n", "B s0 m0\n"),
        "p.txt:7:1: worker 0, instruction 4 (B s0 m0): is the stage's first backward, but has no flag first");
    check_bad_programs(with("on=0,1", "on=0,0"), "p.txt:1:63: worker 1 has no stage: each worker needs at least one");
    check_bad_programs(with("send s0 m0 e0 keep", "send s0 m0 e0"),
                       "p.txt:5:1: worker 0, instruction 2 (send s0 m0 e0): needs the flag keep: the "
                       "forward kept the value in its saved slot");
    check_bad_programs(with("training", "evaluation"),
                       "p.txt: its programs are for evaluation; a schedule needs programs for training");
    check_bad_programs(with("F s1 m0", "G s1 m0"), "p.txt:13:1: unknown instruction \"G\"");
}

/* ---- what comes of it -------------------------------------------------------------------------------------------- */

/* 1F1B written down by hand: an epoch's last mini-batch has fewer micro-batches, and there is an evaluation. */
static void an_order_trains_to_the_bits_of_its_schedule(void **state) {
    (void)state;
    static const int64_t layers[] = {4, 5};
    gp_schedule_file *file = parse("F0 F1 B0 F2 B1 F3 B2 F4 B3 B4\nF0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
    harness_options options = {.model = network_vectors,
                               .layers = layers,
                               .stages = 2,
                               .kind = &gp_cpu_kind,
                               .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                               .micro_batches = 4,
                               .batch = 10,
                               .last = 3,
                               .evaluation = 9,
                               .schedule = {.kind = GP_SCHEDULE_1F1B}};
    uint64_t expected = harness_train(&options, NULL, 4);
    options.schedule = (gp_schedule){.kind = GP_SCHEDULE_FILE, .file = file};
    assert_true(harness_train(&options, NULL, 4) == expected);
    gp_schedule_file_destroy(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_read),
        cmocka_unit_test(bad_orders_are_refused_with_their_place),
        cmocka_unit_test(programs_are_carried_out_as_they_stand),
        cmocka_unit_test(sends_stand_where_they_like),
        cmocka_unit_test(bad_programs_are_refused_with_their_line),
        cmocka_unit_test(an_order_trains_to_the_bits_of_its_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

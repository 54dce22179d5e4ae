#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/slots.h"
#include "schedule/toy_graph.h"
#include "schedule/validate.h"

/* A worker's order in one line; the stage stands before the letter where a worker has several, as its how manyeth. */
static const char *render(const gp_order *order, int worker) {
    static char line[4096];
    static const char letters[] = "FBIW";
    size_t used = 0;
    line[0] = 0;
    for (size_t i = 0; i < order->worker[worker].count; i++) {
        const gp_task *task = &order->worker[worker].tasks[i];
        char chunk[8] = "";
        if (order->stages > order->workers) snprintf(chunk, sizeof chunk, "%d", task->stage / order->workers);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s%c%u", i ? " " : "", chunk, letters[task->op],
                                 task->micro);
        assert_true(used < sizeof line);
    }
    return line;
}

static gp_order *make(gp_schedule schedule, int workers, int pieces) {
    gp_order *order = NULL;
    gp_error err = {0};
    if (gp_order_create(&schedule, workers, pieces, &order, &err) != GP_OK)
        fail_msg("schedule %d, %d workers, %d micro-batches: %s", schedule.kind, workers, pieces, err.text);
    return order;
}

static void check_table(gp_schedule schedule, int workers, int pieces, const char *const *expected) {
    gp_order *order = make(schedule, workers, pieces);
    for (int w = 0; w < workers; w++) assert_string_equal(render(order, w), expected[w]);
    gp_order_destroy(&order);
}

static void tables_of_small_sizes(void **state) {
    (void)state;
    check_table((gp_schedule){.kind = GP_SCHEDULE_GPIPE}, 2, 3,
                (const char *[]){"F0 F1 F2 B2 B1 B0", "F0 F1 F2 B2 B1 B0"});
    check_table((gp_schedule){.kind = GP_SCHEDULE_1F1B}, 3, 4,
                (const char *[]){
                    "F0 F1 F2 B0 F3 B1 B2 B3",
                    "F0 F1 B0 F2 B1 F3 B2 B3",
                    "F0 B0 F1 B1 F2 B2 F3 B3",
                });
    check_table((gp_schedule){.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, 4,
                (const char *[]){
                    "0F0 0F1 1F0 1F1 0F2 1B0 0F3 1B1 1F2 0B0 1F3 0B1 1B2 1B3 0B2 0B3",
                    "0F0 0F1 1F0 1B0 1F1 1B1 0F2 0B0 0F3 0B1 1F2 1B2 1F3 1B3 0B2 0B3",
                });
    /* Groups of three and of two, not of two, two and one. */
    check_table((gp_schedule){.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, 5,
                (const char *[]){
                    "0F0 0F1 0F2 1F0 1F1 1F2 1B0 0F3 1B1 0F4 1B2 1F3 0B0 1F4 0B1 0B2 1B3 1B4 0B3 0B4",
                    "0F0 0F1 0F2 1F0 1B0 1F1 1B1 1F2 1B2 0F3 0B0 0F4 0B1 1F3 0B2 1F4 1B3 1B4 0B3 0B4",
                });
    check_table((gp_schedule){.kind = GP_SCHEDULE_ZB_H1}, 3, 4,
                (const char *[]){
                    "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3",
                    "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3",
                    "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3",
                });
    check_table((gp_schedule){.kind = GP_SCHEDULE_ZB_H2}, 2, 4,
                (const char *[]){
                    "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3",
                    "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3",
                });
    check_table((gp_schedule){.kind = GP_SCHEDULE_ZB_V}, 2, 4,
                (const char *[]){
                    "0F0 0F1 0F2 1F0 1I0 1W0 1F1 1I1 1W1 0F3 0I0 0W0 1F2 1I2 1W2 0I1 0W1 1F3 1I3 1W3 0I2 0W2 0I3 0W3",
                    "0F0 1F0 0F1 1F1 1I0 1W0 0F2 0I0 0W0 1F2 1I1 1W1 0F3 0I1 0W1 1F3 1I2 1W2 0I2 1I3 0I3 0W2 1W3 0W3",
                });
}

/* Fewer micro-batches than fill the pipeline: the V without those that are not there. */
static void zb_v_of_few_micro_batches(void **state) {
    (void)state;
    check_table((gp_schedule){.kind = GP_SCHEDULE_ZB_V}, 3, 3,
                (const char *[]){
                    "0F0 0F1 0F2 1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2 0I0 0W0 0I1 0W1 0I2 0W2",
                    "0F0 0F1 0F2 1F0 1F1 1I0 1W0 1F2 1I1 1W1 0I0 0W0 1I2 1W2 0I1 0W1 0I2 0W2",
                    "0F0 1F0 0F1 1F1 0F2 1F2 1I0 1W0 0I0 0W0 1I1 1W1 0I1 0W1 1I2 1W2 0I2 0W2",
                });
}

/* ---- many sizes -------------------------------------------------------------------------------------------------- */

static const gp_schedule all_schedules[] = {
    {.kind = GP_SCHEDULE_GPIPE},
    {.kind = GP_SCHEDULE_1F1B},
    {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 1},
    {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
    {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 3},
    {.kind = GP_SCHEDULE_ZB_H1},
    {.kind = GP_SCHEDULE_ZB_H2},
    {.kind = GP_SCHEDULE_ZB_V},
};
enum { SCHEDULES = sizeof all_schedules / sizeof *all_schedules };

static void check_programs(const toy *t, gp_schedule schedule, int pieces, int how) {
    gp_error err = {0};
    toy_run run = {pieces, (gp_checkpoint_mode)(how % 3), false, how % 4 != 3};
    gp_programs *programs = toy_programs_of(t, schedule, run);
    if (gp_programs_validate(t->stages, programs, &err) != GP_OK)
        fail_msg("schedule %d of %d stages, %d micro-batches: %s", schedule.kind, t->stages->count, pieces, err.text);
    gp_programs_destroy(&programs);
}

static void programs_of_many_sizes_are_right(void **state) {
    (void)state;
    for (int i = 0; i < SCHEDULES; i++)
        for (int workers = 1; workers <= 8; workers++) {
            toy t;
            toy_init_chain(&t, gp_schedule_stages(&all_schedules[i], workers), workers % 2 == 0);
            if (workers % 3 == 0) toy_add_norms(&t);
            for (int pieces = 1; pieces <= 16; pieces++) check_programs(&t, all_schedules[i], pieces, pieces + workers);
            toy_fini(&t);
        }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Micro-batches of a worker's stages that are between forward and backward at once. */
static int most_in_flight(const gp_order *order, int worker) {
    int now = 0, most = 0;
    for (size_t i = 0; i < order->worker[worker].count; i++) {
        uint8_t op = order->worker[worker].tasks[i].op;
        now += op == GP_TASK_FORWARD;
        now -= op == GP_TASK_BACKWARD || op == GP_TASK_BACKWARD_INPUT;
        if (now > most) most = now;
    }
    return most;
}

static void activations_in_flight_are_as_published(void **state) {
    (void)state;
    enum { P = 8, M = 24 };
    for (int i = 0; i < SCHEDULES; i++) {
        gp_order *order = make(all_schedules[i], P, M);
        for (int s = 0; s < P; s++) {
            int chunks = order->stages / P, in_flight = most_in_flight(order, s);
            switch (all_schedules[i].kind) {
            case GP_SCHEDULE_GPIPE: assert_int_equal(in_flight, M); break;
            case GP_SCHEDULE_1F1B:
            case GP_SCHEDULE_ZB_H1: assert_int_equal(in_flight, P - s); break;
            case GP_SCHEDULE_INTERLEAVED: assert_int_equal(in_flight, 2 * (P - s - 1) + (chunks - 1) * P + 1); break;
            case GP_SCHEDULE_ZB_H2: assert_int_equal(in_flight, 2 * (P - s) - 1); break;
            case GP_SCHEDULE_ZB_V: assert_int_equal(in_flight, 2 * P); break;
            default: fail();
            }
        }
        gp_order_destroy(&order);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

typedef struct bad_task {
    int worker;
    gp_task_op op;
    int stage, micro;
} bad_task;

/* Two workers, a stage on each, one micro-batch. */
static void check_refused(const bad_task *tasks, int count, const char *message) {
    gp_order *order = NULL;
    gp_error err = {0};
    assert_int_equal(gp_order_create_empty(2, 2, 1, false, &order, &err), GP_OK);
    order->worker_of_stage[1] = 1;
    for (int i = 0; i < count; i++)
        assert_int_equal(gp_order_add(order, tasks[i].worker, tasks[i].op, tasks[i].stage, tasks[i].micro, &err),
                         GP_OK);
    assert_int_equal(gp_order_set_clocks(order, true, &err), GP_PROGRAM);
    assert_string_equal(err.text, message);
    gp_order_destroy(&order);
}

static void bad_orders_are_refused(void **state) {
    (void)state;
    check_refused((bad_task[]){{0, GP_TASK_FORWARD, 0, 0}, {1, GP_TASK_FORWARD, 1, 0}, {1, GP_TASK_BACKWARD, 1, 0}}, 3,
                  "stage 0: micro-batch 0 has no backward");
    check_refused((bad_task[]){{0, GP_TASK_BACKWARD, 0, 0},
                               {0, GP_TASK_FORWARD, 0, 0},
                               {1, GP_TASK_FORWARD, 1, 0},
                               {1, GP_TASK_BACKWARD, 1, 0}},
                  4, "worker 0, B0 of stage 0: can never begin: it waits for a task that waits for it");
    check_refused((bad_task[]){{0, GP_TASK_FORWARD, 0, 0}, {0, GP_TASK_BACKWARD, 0, 0}, {1, GP_TASK_FORWARD, 1, 0}}, 3,
                  "worker 0, B0 of stage 0: needs the backward of micro-batch 0 on stage 1, which is missing");
    check_refused((bad_task[]){{0, GP_TASK_FORWARD, 0, 0}, {0, GP_TASK_FORWARD, 0, 0}}, 2,
                  "worker 0, F0 of stage 0: a second forward");
    check_refused(
        (bad_task[]){{0, GP_TASK_FORWARD, 0, 0}, {1, GP_TASK_FORWARD, 1, 0}, {1, GP_TASK_BACKWARD_WEIGHT, 1, 0}}, 3,
        "worker 1, W0 of stage 1: comes before its backward for inputs");
    check_refused((bad_task[]){{0, GP_TASK_FORWARD, 0, 0},
                               {1, GP_TASK_FORWARD, 1, 0},
                               {1, GP_TASK_BACKWARD_INPUT, 1, 0},
                               {0, GP_TASK_BACKWARD, 0, 0}},
                  4, "stage 1: micro-batch 0 has no backward for weights");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_small_sizes),
        cmocka_unit_test(zb_v_of_few_micro_batches),
        cmocka_unit_test(programs_of_many_sizes_are_right),
        cmocka_unit_test(activations_in_flight_are_as_published),
        cmocka_unit_test(bad_orders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

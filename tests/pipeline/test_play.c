#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pipeline/play.h"
#include "pipeline/toy_graph.h"

/* Times are small whole numbers, so that sums are exact. */
typedef struct times {
    double forward, recompute, backward, copy;
} times;

static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    const times *t = context;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return t->forward;
    case GP_INSTR_RECOMPUTE: return t->recompute;
    case GP_INSTR_BACKWARD: return t->backward;
    case GP_INSTR_RECV: return t->copy;
    default: return 0;
    }
}

static gp_status try_play(const toy *t, const gp_programs *programs, times each, gp_play **out, gp_error *err) {
    gp_waits *waits = NULL;
    GP_RETURN_IF_FAILED(gp_waits_create(t->stages, programs, true, &waits, err));
    gp_status status = gp_play_create(t->stages, programs, waits, duration, &each, out, err);
    gp_waits_destroy(&waits);
    return status;
}

static double play_length(int n, toy_run run, times each) {
    toy t;
    toy_init_chain(&t, n, false);
    gp_programs *programs = toy_programs(&t, run);
    gp_play *play = NULL;
    gp_error err = {0};
    if (try_play(&t, programs, each, &play, &err) != GP_OK) fail_msg("%s", err.text);
    double length = play->length;
    gp_play_destroy(&play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
    return length;
}

/* GPipe, section 2.3: idle for (n−1)/(m+n−1) of the time. Each worker computes for 3·m, so that
 * (length − 3·m) / length is that share where length·(n−1) = (length − 3·m)·(m+n−1). */
static void bubble_is_gpipes(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n++)
        for (int m = 1; m <= 16; m++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                double length = play_length(n, (toy_run){m, GP_CHECKPOINT_NEVER, lockstep, true}, (times){1, 0, 2, 0});
                assert_true(length == 3.0 * (m + n - 1));
                assert_true(length * (n - 1) == (length - 3.0 * m) * (m + n - 1));
                length = play_length(n, (toy_run){m, GP_CHECKPOINT_NEVER, lockstep, false}, (times){1, 0, 2, 0});
                assert_true(length == m + n - 1);
            }
}

/* Only the last stage's recomputes lengthen the step: the others' are done before the gradient has come. */
static void recompute_precedes_the_gradient(void **state) {
    (void)state;
    for (int n = 2; n <= 6; n++)
        for (int m = 2; m <= 9; m++) {
            double length = play_length(n, (toy_run){m, GP_CHECKPOINT_ALWAYS, false, true}, (times){1, 1, 2, 0});
            assert_true(length == (m + n - 1) + 3.0 * m + 2.0 * (n - 1));
            /* In lockstep a clock is as long as its longest stage: all but the last two recompute. */
            length = play_length(n, (toy_run){m, GP_CHECKPOINT_ALWAYS, true, true}, (times){1, 1, 2, 0});
            assert_true(length == (m + n) + 3.0 * (m + n - 2) + 2);
        }
}

/* A chain of two by hand: copies of 1 between forwards of 2. */
static void starts_and_ends_are_known(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, false, false});
    gp_play *play = NULL;
    gp_error err = {0};
    assert_int_equal(try_play(&t, programs, (times){2, 0, 0, 1}, &play, &err), GP_OK);
    /* worker 0: load F send, load F send; worker 1: load recv F, load recv F */
    const double start0[] = {0, 0, 2, 2, 2, 4}, start1[] = {0, 2, 3, 5, 5, 6};
    assert_int_equal(programs->worker[0].count, 6);
    assert_int_equal(programs->worker[1].count, 6);
    assert_memory_equal(play->worker[0].start, start0, sizeof start0);
    assert_memory_equal(play->worker[1].start, start1, sizeof start1);
    assert_true(play->worker[1].end[1] == 3);
    assert_true(play->length == 8);
    gp_play_destroy(&play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

static void remove_instr(gp_program *program, size_t pc) {
    memmove(&program->instrs[pc], &program->instrs[pc + 1], (program->count - pc - 1) * sizeof *program->instrs);
    program->count--;
}

static void deadlocks_are_named(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_play *play = NULL;
    gp_error err = {0};
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false});
    assert_int_equal(programs->worker[0].instrs[2].op, GP_INSTR_SEND);
    remove_instr(&programs->worker[0], 2);
    assert_int_equal(try_play(&t, programs, (times){1, 0, 2, 0}, &play, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 1, instruction 1 (recv s1 m0 e0): deadlock: waits for micro-batch 0 to be "
                                  "sent on edge 0, which cannot happen before");
    gp_programs_destroy(&programs);
    programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, true, false});
    assert_int_equal(programs->worker[0].instrs[4].op, GP_INSTR_BARRIER);
    remove_instr(&programs->worker[0], 4);
    assert_int_equal(try_play(&t, programs, (times){1, 0, 2, 0}, &play, &err), GP_PROGRAM);
    assert_non_null(strstr(err.text, "waits in a barrier that 1 of 2 workers reach"));
    assert_null(play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubble_is_gpipes),
        cmocka_unit_test(recompute_precedes_the_gradient),
        cmocka_unit_test(starts_and_ends_are_known),
        cmocka_unit_test(deadlocks_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

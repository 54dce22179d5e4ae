#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/play.h"
#include "schedule/slots.h"
#include "schedule/toy_graph.h"
#include "schedule/validate.h"

enum { STAGES = 8 };

static void count_slots(const toy *t, toy_run run, gp_slot_counts counts[STAGES]) {
    gp_programs *programs = toy_programs(t, run);
    memset(counts, 0, STAGES * sizeof *counts);
    gp_slots_count(t->stages, programs, counts);
    gp_programs_destroy(&programs);
}

/* GPipe's memory: what entered the stage of every micro-batch, and one recomputed set. */
static void always_saves_one_set(void **state) {
    (void)state;
    for (int n = 1; n <= STAGES; n++)
        for (int m = 1; m <= 12; m++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                toy t;
                gp_slot_counts counts[STAGES];
                toy_init_chain(&t, n, false);
                count_slots(&t, (toy_run){m, GP_CHECKPOINT_ALWAYS, lockstep, true}, counts);
                for (int s = 0; s < n; s++) {
                    assert_int_equal(counts[s].frame[GP_FRAME_STASH], m);
                    assert_int_equal(counts[s].frame[GP_FRAME_SAVED], 1);
                    assert_in_range(counts[s].frame[GP_FRAME_OUTBOX], s < n - 1, s < n - 1 ? 2 : 0);
                    assert_in_range(counts[s].frame[GP_FRAME_GRAD], 1, 2);
                }
                toy_fini(&t);
            }
}

static void never_saves_every_set(void **state) {
    (void)state;
    for (int n = 1; n <= STAGES; n++)
        for (int m = 1; m <= 12; m++) {
            toy t;
            gp_slot_counts counts[STAGES];
            toy_init_chain(&t, n, true);
            count_slots(&t, (toy_run){m, GP_CHECKPOINT_NEVER, m % 2, true}, counts);
            for (int s = 0; s < n; s++) {
                assert_int_equal(counts[s].frame[GP_FRAME_STASH], m);
                assert_int_equal(counts[s].frame[GP_FRAME_SAVED], m);
                assert_int_equal(counts[s].frame[GP_FRAME_OUTBOX], 0);
            }
            toy_fini(&t);
        }
}

/* The last micro-batch's set lives until its backward, which comes first: the recomputed ones follow it. */
static void except_last_saves_one_set(void **state) {
    (void)state;
    toy t;
    gp_slot_counts counts[STAGES];
    toy_init_chain(&t, 4, false);
    count_slots(&t, (toy_run){8, GP_CHECKPOINT_EXCEPT_LAST, true, true}, counts);
    for (int s = 0; s < 4; s++) {
        assert_int_equal(counts[s].frame[GP_FRAME_STASH], 8);
        assert_int_equal(counts[s].frame[GP_FRAME_SAVED], 1);
    }
    toy_fini(&t);
}

static void evaluation_needs_few(void **state) {
    (void)state;
    toy t;
    gp_slot_counts counts[STAGES];
    toy_init_chain(&t, 4, false);
    count_slots(&t, (toy_run){12, GP_CHECKPOINT_ALWAYS, true, false}, counts);
    for (int s = 0; s < 4; s++) {
        assert_in_range(counts[s].frame[GP_FRAME_STASH], 1, 2);
        assert_int_equal(counts[s].frame[GP_FRAME_SAVED], 0);
        assert_in_range(counts[s].frame[GP_FRAME_OUTBOX], s < 3, s < 3 ? 2 : 0);
        assert_int_equal(counts[s].frame[GP_FRAME_GRAD], 0);
    }
    toy_fini(&t);
}

/* What skips over d stages is pulled d clocks after it was made: so many outbox slots does its maker need, and no
 * stage between them any more than without the skip. */
static void skips_lengthen_the_outbox(void **state) {
    (void)state;
    for (int d = 2; d <= 6; d++) {
        toy t;
        gp_slot_counts counts[STAGES];
        int64_t balance[STAGES] = {1, 1, 1, 1, 1, 1, 1, 1};
        toy_init(&t, balance, STAGES, &(toy_skip){0, d}, 1);
        count_slots(&t, (toy_run){12, GP_CHECKPOINT_ALWAYS, true, true}, counts);
        assert_in_range(counts[0].frame[GP_FRAME_OUTBOX], d, d + 1);
        for (int s = 1; s < STAGES - 1; s++) assert_in_range(counts[s].frame[GP_FRAME_OUTBOX], 1, 2);
        for (int s = 0; s < STAGES; s++) {
            assert_int_equal(counts[s].frame[GP_FRAME_STASH], 12);
            assert_int_equal(counts[s].frame[GP_FRAME_SAVED], 1);
        }
        toy_fini(&t);
    }
}

static double unit(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)worker;
    (void)pc;
    return instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE ? 1
           : instr->op == GP_INSTR_BACKWARD                                 ? 2
                                                                            : 0;
}

static double play_length(const toy *t, const gp_programs *programs, bool slots) {
    gp_waits *waits = NULL;
    gp_play *play = NULL;
    gp_error err = {0};
    if (gp_waits_create(t->stages, programs, slots, &waits, &err) != GP_OK) fail_msg("%s", err.text);
    gp_play_request request = {.stages = t->stages, .programs = programs, .waits = waits, .duration = unit};
    if (gp_play_run(&request, &play, &err) != GP_OK) fail_msg("%s", err.text);
    double length = play->length;
    gp_play_destroy(&play);
    gp_waits_destroy(&waits);
    return length;
}

/* No worker waits for a slot where all takes equal time. */
static void slots_cost_no_time(void **state) {
    (void)state;
    for (int i = 0; i < 48; i++) {
        toy t;
        toy_init_chain(&t, 1 + i % 6, true);
        gp_programs *programs = toy_programs(&t, (toy_run){1 + i % 9, (gp_checkpoint_mode)(i % 3), i % 2, i % 5 != 0});
        assert_true(play_length(&t, programs, true) == play_length(&t, programs, false));
        gp_programs_destroy(&programs);
        toy_fini(&t);
    }
}

/* A program that sends before it has computed has no slot to send from, and the validator says so. */
static void senseless_programs_are_the_validators(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_schedule(&t, (toy_run){1, GP_CHECKPOINT_ALWAYS, false, true});
    gp_program *first = &programs->worker[0];
    gp_instr forward = first->instrs[1];
    assert_int_equal(forward.op, GP_INSTR_FORWARD);
    first->instrs[1] = first->instrs[2];
    first->instrs[2] = forward;
    gp_error err = {0};
    assert_int_equal(gp_slots_assign(t.stages, programs, NULL, &err), GP_OK);
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_non_null(strstr(err.text, "instruction 1 (send s0 m0 e0): is sent before the forward that computes it"));
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

static bool computes(const gp_instr *instr) {
    return instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE || gp_instr_is_backward(instr);
}

/* The stash or gradient slot of what is received, where the computation right before it uses the same one. */
static bool waits_for_computation(const toy *t, const gp_program *program, size_t pc) {
    const gp_instr *recv = &program->instrs[pc];
    if (recv->op != GP_INSTR_RECV) return false;
    while (pc > 0 && !computes(&program->instrs[pc])) pc--;
    const gp_instr *before = &program->instrs[pc];
    if (!computes(before) || before->stage != recv->stage) return false;
    if (t->stages->edges[recv->edge].kind != GP_EDGE_GRADIENT) return before->slot == recv->slot;
    return gp_instr_is_backward(before) && before->grad == recv->slot;
}

static size_t count_waiting(const toy *t, const gp_programs *programs) {
    size_t count = 0;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            count += waits_for_computation(t, &programs->worker[w], pc);
    return count;
}

/* On devices that receive by themselves no receive waits for the computation before it; elsewhere it may, and a slot
 * is saved. */
static void receives_go_ahead(void **state) {
    (void)state;
    static const gp_schedule_kind kinds[] = {GP_SCHEDULE_GPIPE, GP_SCHEDULE_1F1B, GP_SCHEDULE_ZB_H1, GP_SCHEDULE_ZB_H2};
    bool ahead[4] = {true, true, true, true};
    size_t waiting = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            toy t;
            gp_error err = {0};
            toy_init_chain(&t, 4, k % 2);
            gp_programs *programs = toy_programs_of(&t, (gp_schedule){.kind = kinds[k]},
                                                    (toy_run){9, (gp_checkpoint_mode)mode, false, true});
            waiting += count_waiting(&t, programs);
            assert_int_equal(gp_slots_assign(t.stages, programs, ahead, &err), GP_OK);
            assert_int_equal(count_waiting(&t, programs), 0);
            if (gp_programs_validate(t.stages, programs, &err) != GP_OK) fail_msg("%s", err.text);
            gp_programs_destroy(&programs);
            toy_fini(&t);
        }
    assert_true(waiting > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always_saves_one_set),
        cmocka_unit_test(never_saves_every_set),
        cmocka_unit_test(except_last_saves_one_set),
        cmocka_unit_test(evaluation_needs_few),
        cmocka_unit_test(skips_lengthen_the_outbox),
        cmocka_unit_test(slots_cost_no_time),
        cmocka_unit_test(senseless_programs_are_the_validators),
        cmocka_unit_test(receives_go_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/toy_graph.h"

/* A worker's program in one line: "@3" begins a clock; L load, r receive and s send with their edge, F and B with the
 * flags k (keep), ^ (first), $ (last), R, | barrier, N norm, C clip, S step, p post and c collect with the collective.
 */
static const char *render(const gp_program *program) {
    static char line[4096];
    static const char names[] = "LFRBIWsr|NCTDUSpc";
    size_t used = 0;
    uint32_t clock = UINT32_MAX;
    line[0] = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        char *at = line + used;
        size_t room = sizeof line - used;
        if (instr->clock != clock) used += (size_t)snprintf(at, room, "%s@%u:", pc ? " " : "", instr->clock);
        clock = instr->clock;
        at = line + used;
        room = sizeof line - used;
        bool copy = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
        if (instr->op == GP_INSTR_POST || instr->op == GP_INSTR_COLLECT)
            used += (size_t)snprintf(at, room, " %c%u", names[instr->op], instr->collective);
        else if (instr->op >= GP_INSTR_BARRIER)
            used += (size_t)snprintf(at, room, " %c", names[instr->op]);
        else if (copy)
            used += (size_t)snprintf(at, room, " %c%u/%u%s", names[instr->op], instr->micro, instr->edge,
                                     instr->flags & GP_INSTR_KEEP ? "k" : "");
        else
            used += (size_t)snprintf(at, room, " %c%u%s%s%s", names[instr->op], instr->micro,
                                     instr->flags & GP_INSTR_KEEP ? "k" : "", instr->flags & GP_INSTR_FIRST ? "^" : "",
                                     instr->flags & GP_INSTR_LAST ? "$" : "");
        assert_true(used < sizeof line);
    }
    return line;
}

static void check_table(const toy *t, toy_run run, const char *const *expected) {
    gp_programs *programs = toy_schedule(t, run);
    assert_int_equal(programs->workers, t->stages->count);
    for (int w = 0; w < programs->workers; w++) assert_string_equal(render(&programs->worker[w]), expected[w]);
    gp_programs_destroy(&programs);
}

static void one_stage_one_micro_batch(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 1, false);
    check_table(&t, (toy_run){1, GP_CHECKPOINT_ALWAYS, false, true}, (const char *[]){"@0: L0 F0$ R0 @1: B0^ S"});
    check_table(&t, (toy_run){1, GP_CHECKPOINT_EXCEPT_LAST, false, true}, (const char *[]){"@0: L0 F0k$ @1: B0^ S"});
    check_table(&t, (toy_run){1, GP_CHECKPOINT_NEVER, true, true}, (const char *[]){"@0: L0 | F0k$ @1: | B0^ S"});
    check_table(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false}, (const char *[]){"@0: L0 F0$"});
    toy_fini(&t);
}

/* Edges of a chain of three: 0 from stage 0 to 1, 1 from 1 to 2, gradients 2 from 2 to 1 and 3 from 1 to 0. Collective
 * 0 broadcasts the scalars. */
static void three_by_three_lockstep(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 3, false);
    check_table(&t, (toy_run){3, GP_CHECKPOINT_ALWAYS, true, true},
                (const char *[]){
                    "@0: L0 | F0 s0/0 @1: L1 | F1 s1/0 @2: L2 | F2$ s2/0 @3: | @4: | @5: | @6: | R2 "
                    "@7: r2/3 | B2^ R1 @8: r1/3 | B1 R0 @9: r0/3 | B0 c0 S",
                    "@0: | @1: r0/0 | F0 s0/1 @2: r1/0 | F1 s1/1 @3: r2/0 | F2$ s2/1 @4: | @5: | R2 "
                    "@6: r2/2 | B2^ s2/3 R1 @7: r1/2 | B1 s1/3 R0 @8: r0/2 | B0 s0/3 @9: | c0 S",
                    "@0: | @1: | @2: L0 r0/1 | F0 @3: L1 r1/1 | F1 @4: L2 r2/1 | F2$ p0 R2 "
                    "@5: | B2^ s2/2 R1 @6: | B1 s1/2 R0 @7: | B0 s0/2 @8: | @9: | S",
                });
    check_table(&t, (toy_run){3, GP_CHECKPOINT_NEVER, true, false},
                (const char *[]){
                    "@0: L0 | F0 s0/0 @1: L1 | F1 s1/0 @2: L2 | F2$ s2/0 @3: | @4: |",
                    "@0: | @1: r0/0 | F0 s0/1 @2: r1/0 | F1 s1/1 @3: r2/0 | F2$ s2/1 @4: |",
                    "@0: | @1: | @2: L0 r0/1 | F0 @3: L1 r1/1 | F1 @4: L2 r2/1 | F2$",
                });
    toy_fini(&t);
}

static void four_by_two(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    check_table(&t, (toy_run){4, GP_CHECKPOINT_EXCEPT_LAST, false, true},
                (const char *[]){
                    "@0: L0 F0 s0/0 @1: L1 F1 s1/0 @2: L2 F2 s2/0 @3: L3 F3k$ s3/0k "
                    "@6: r3/1 B3^ R2 @7: r2/1 B2 R1 @8: r1/1 B1 R0 @9: r0/1 B0 c0 S",
                    "@1: L0 r0/0 F0 @2: L1 r1/0 F1 @3: L2 r2/0 F2 @4: L3 r3/0 F3k$ p0 "
                    "@5: B3^ s3/1 R2 @6: B2 s2/1 R1 @7: B1 s1/1 R0 @8: B0 s0/1 @9: S",
                });
    check_table(&t, (toy_run){4, GP_CHECKPOINT_NEVER, false, true},
                (const char *[]){
                    "@0: L0 F0k s0/0k @1: L1 F1k s1/0k @2: L2 F2k s2/0k @3: L3 F3k$ s3/0k "
                    "@6: r3/1 B3^ @7: r2/1 B2 @8: r1/1 B1 @9: r0/1 B0 c0 S",
                    "@1: L0 r0/0 F0k @2: L1 r1/0 F1k @3: L2 r2/0 F2k @4: L3 r3/0 F3k$ p0 "
                    "@5: B3^ s3/1 @6: B2 s2/1 @7: B1 s1/1 @8: B0 s0/1 @9: S",
                });
    check_table(&t, (toy_run){4, GP_CHECKPOINT_ALWAYS, false, false},
                (const char *[]){
                    "@0: L0 F0 s0/0 @1: L1 F1 s1/0 @2: L2 F2 s2/0 @3: L3 F3$ s3/0",
                    "@1: L0 r0/0 F0 @2: L1 r1/0 F1 @3: L2 r2/0 F2 @4: L3 r3/0 F3$",
                });
    toy_fini(&t);
}

/* Layer 0's value is used on stages 1 and 2: it goes straight to both (edges 0, 1); its gradient goes from 2 by way of
 * 1 to 0 (edges 3, 5). */
static void skip_goes_straight_and_folds_back(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 3, true);
    check_table(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, true, true},
                (const char *[]){
                    "@0: L0 | F0 s0/0 s0/1 @1: L1 | F1$ s1/0 s1/1 @2: | @3: | @4: | @5: | R1 "
                    "@6: r1/5 | B1^ R0 @7: r0/5 | B0 c0 S",
                    "@0: | @1: r0/0 | F0 s0/2 @2: r1/0 | F1$ s1/2 @3: | @4: | R1 "
                    "@5: r1/3 r1/4 | B1^ s1/5 R0 @6: r0/3 r0/4 | B0 s0/5 @7: | c0 S",
                    "@0: | @1: | @2: L0 r0/1 r0/2 | F0 @3: L1 r1/1 r1/2 | F1$ p0 R1 "
                    "@4: | B1^ s1/3 s1/4 R0 @5: | B0 s0/3 s0/4 @6: | @7: | S",
                });
    assert_int_equal(t.stages->edges[1].kind, GP_EDGE_SKIP);
    assert_int_equal(t.stages->edges[1].from, 0);
    assert_int_equal(t.stages->edges[1].to, 2);
    assert_int_equal(t.stages->edges[3].to, 1);
    toy_fini(&t);
}

/* Collective 0 gathers squares: a stage posts when it is through with its gradients. Collective 1 broadcasts scalars
 * once the last stage has them all. */
static void squares_come_before_scalars(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 1, false);
    toy_add_norms(&t);
    check_table(&t, (toy_run){1, GP_CHECKPOINT_ALWAYS, false, true}, (const char *[]){"@0: L0 F0$ R0 @1: B0^ N C S"});
    check_table(&t, (toy_run){1, GP_CHECKPOINT_NEVER, true, true}, (const char *[]){"@0: L0 | F0k$ @1: | B0^ N C S"});
    check_table(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false}, (const char *[]){"@0: L0 F0$"});
    toy_fini(&t);
    toy_init_chain(&t, 3, false);
    toy_add_norms(&t);
    check_table(&t, (toy_run){3, GP_CHECKPOINT_ALWAYS, true, true},
                (const char *[]){
                    "@0: L0 | F0 s0/0 @1: L1 | F1 s1/0 @2: L2 | F2$ s2/0 @3: | @4: | @5: | @6: | R2 "
                    "@7: r2/3 | B2^ R1 @8: r1/3 | B1 R0 @9: r0/3 | B0 N p0 c1 S",
                    "@0: | @1: r0/0 | F0 s0/1 @2: r1/0 | F1 s1/1 @3: r2/0 | F2$ s2/1 @4: | @5: | R2 "
                    "@6: r2/2 | B2^ s2/3 R1 @7: r1/2 | B1 s1/3 R0 @8: r0/2 | B0 s0/3 N p0 @9: | c1 S",
                    "@0: | @1: | @2: L0 r0/1 | F0 @3: L1 r1/1 | F1 @4: L2 r2/1 | F2$ R2 "
                    "@5: | B2^ s2/2 R1 @6: | B1 s1/2 R0 @7: | B0 s0/2 N @8: | @9: | c0 C p1 S",
                });
    toy_fini(&t);
    toy_init_chain(&t, 2, false);
    toy_add_norms(&t);
    check_table(&t, (toy_run){4, GP_CHECKPOINT_EXCEPT_LAST, false, true},
                (const char *[]){
                    "@0: L0 F0 s0/0 @1: L1 F1 s1/0 @2: L2 F2 s2/0 @3: L3 F3k$ s3/0k "
                    "@6: r3/1 B3^ R2 @7: r2/1 B2 R1 @8: r1/1 B1 R0 @9: r0/1 B0 N p0 c1 S",
                    "@1: L0 r0/0 F0 @2: L1 r1/0 F1 @3: L2 r2/0 F2 @4: L3 r3/0 F3k$ "
                    "@5: B3^ s3/1 R2 @6: B2 s2/1 R1 @7: B1 s1/1 R0 @8: B0 s0/1 N @9: c0 C p1 S",
                });
    check_table(&t, (toy_run){4, GP_CHECKPOINT_ALWAYS, false, false},
                (const char *[]){
                    "@0: L0 F0 s0/0 @1: L1 F1 s1/0 @2: L2 F2 s2/0 @3: L3 F3$ s3/0",
                    "@1: L0 r0/0 F0 @2: L1 r1/0 F1 @3: L2 r2/0 F2 @4: L3 r3/0 F3$",
                });
    toy_fini(&t);
}

static int tasks_at(const gp_programs *programs, gp_instr_op op, uint32_t clock, char *text, size_t room) {
    int count = 0;
    size_t used = 0;
    text[0] = 0;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            if (instr->op != op || instr->clock != clock) continue;
            used += (size_t)snprintf(text + used, room - used, "(%u,%u)", instr->micro, instr->stage);
            count++;
        }
    return count;
}

static void check_clocks(int m, int n, const char *const *forward, const char *const *backward) {
    toy t;
    char text[256];
    toy_init_chain(&t, n, false);
    gp_programs *programs = toy_schedule(&t, (toy_run){m, GP_CHECKPOINT_ALWAYS, true, true});
    int tasks = 0;
    for (int k = 0; k < m + n - 1; k++) {
        tasks += tasks_at(programs, GP_INSTR_FORWARD, (uint32_t)k, text, sizeof text);
        assert_string_equal(text, forward[k]);
        tasks += tasks_at(programs, GP_INSTR_BACKWARD, (uint32_t)(m + n - 1 + k), text, sizeof text);
        assert_string_equal(text, backward[k]);
    }
    assert_int_equal(tasks, 2 * m * n);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* torchgpipe's clock_cycles; tasks of a clock in the order of stages. */
static void clocks_are_those_of_torchgpipe(void **state) {
    (void)state;
    check_clocks(1, 1, (const char *[]){"(0,0)"}, (const char *[]){"(0,0)"});
    check_clocks(3, 3, (const char *[]){"(0,0)", "(1,0)(0,1)", "(2,0)(1,1)(0,2)", "(2,1)(1,2)", "(2,2)"},
                 (const char *[]){"(2,2)", "(2,1)(1,2)", "(2,0)(1,1)(0,2)", "(1,0)(0,1)", "(0,0)"});
    check_clocks(4, 2, (const char *[]){"(0,0)", "(1,0)(0,1)", "(2,0)(1,1)", "(3,0)(2,1)", "(3,1)"},
                 (const char *[]){"(3,1)", "(3,0)(2,1)", "(2,0)(1,1)", "(1,0)(0,1)", "(0,0)"});
}

/* Whatever the size: in each clock all copies stand before the barrier and all computations behind it. */
static void lockstep_copies_first(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        toy t;
        int n = 1 + i % 5;
        toy_init_chain(&t, n, true);
        if (i >= 5) toy_add_norms(&t);
        gp_programs *programs = toy_schedule(&t, (toy_run){4, GP_CHECKPOINT_EXCEPT_LAST, true, true});
        for (int w = 0; w < n; w++) {
            uint32_t met = 0; /* barriers so far: clock k has met when it is k + 1 */
            for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
                const gp_instr *instr = &programs->worker[w].instrs[pc];
                bool copy = instr->op == GP_INSTR_LOAD || instr->op == GP_INSTR_RECV;
                if (instr->op == GP_INSTR_BARRIER)
                    assert_int_equal(instr->clock, met++);
                else
                    assert_int_equal(met, copy ? instr->clock : instr->clock + 1);
            }
            assert_int_equal(met, 2 * (4 + n - 1));
        }
        gp_programs_destroy(&programs);
        toy_fini(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_one_micro_batch),
        cmocka_unit_test(three_by_three_lockstep),
        cmocka_unit_test(four_by_two),
        cmocka_unit_test(skip_goes_straight_and_folds_back),
        cmocka_unit_test(squares_come_before_scalars),
        cmocka_unit_test(clocks_are_those_of_torchgpipe),
        cmocka_unit_test(lockstep_copies_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

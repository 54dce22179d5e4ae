/* Where notes stand in routines, from made-up ones; and whose work the ops of a real one are, where one does that of
 * several layers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/notes.h"

static void ops_are_estimated(void **state) {
    (void)state;
    static const struct {
        double flops, bytes;
        uint32_t flags;
        double microseconds;
    } cases[] = {
        {0, 0, 0, 2}, {1e9, 0, 0, 12}, {1e9, 0, GP_OP_TF32, 4}, {0, 5e7, 0, 12}, {2e9, 5e7, 0, 22}, {1e9, 1e8, 0, 22},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        gp_prepared op = {.flops = cases[c].flops, .bytes = cases[c].bytes, .desc.flags = cases[c].flags};
        assert_true(fabs(gp_note_estimate(&op) * 1e6 - cases[c].microseconds) < 1e-6);
    }
}

enum { MOST_OPS = 20 };

/* Ops a word each: its node ("-" none), "!" where it is for the first backward, "+" for the others, and its
 * microseconds beside its launch; "|" after those with a note behind them. */
static void check(double microseconds, gp_when skipped, const char *text) {
    gp_prepared prepared[MOST_OPS] = {{.flops = 0}};
    gp_exec_op ops[MOST_OPS] = {{.node = 0}};
    bool expected[MOST_OPS] = {false};
    gp_routine routine = {.ops = ops};
    double since = 0;
    for (const char *at = text; *at; at++) {
        if (*at == ' ') continue;
        if (*at == '|') {
            expected[routine.count - 1] = true;
            continue;
        }
        gp_exec_op *op = &ops[routine.count];
        op->node = *at == '-' ? -1 : *at - 'a';
        op->when = at[1] == '!' ? GP_WHEN_FIRST : at[1] == '+' ? GP_WHEN_REST : GP_WHEN_ALWAYS;
        if (op->when != GP_WHEN_ALWAYS) at++;
        op->prepared = &prepared[routine.count];
        for (; at[1] >= '0' && at[1] <= '9'; at++)
            prepared[routine.count].bytes = 10 * prepared[routine.count].bytes + 5e6 * (at[1] - '0');
        assert_true(++routine.count < MOST_OPS);
    }
    gp_note_seconds = microseconds * 1e-6;
    for (size_t o = 0; o < routine.count; o++)
        if (gp_note_behind(&routine, o, skipped, &since) != expected[o])
            fail_msg("%g µs, %s: op %zu", microseconds, text, o);
}

static void notes_stand_between_layers(void **state) {
    (void)state;
    const double usual = gp_note_seconds;
    /* enough work, and another layer next; nothing behind the last */
    check(30, GP_WHEN_REST, "a28 | b28 | c28");
    check(30, GP_WHEN_REST, "a27 b28 | c28");
    check(30, GP_WHEN_REST, "a28 | b20 c20 | d28");
    check(30, GP_WHEN_REST, "a a a a a a a a a a a a a a a");
    check(29, GP_WHEN_REST, "a b a b a b a b a b a b a b a | b");
    /* a layer is not divided */
    check(30, GP_WHEN_REST, "a90 a90 | b b");
    check(0, GP_WHEN_REST, "a a | b | c c c | a | - - -");
    /* what is skipped is no work, and nobody's next */
    check(30, GP_WHEN_REST, "a20 b+90 c10 | d");
    check(30, GP_WHEN_FIRST, "a20 b+90 | c10 d");
    check(0, GP_WHEN_REST, "a b+ a | b");
    check(0, GP_WHEN_FIRST, "a b! a b!");
    gp_note_seconds = usual;
}

/* ---- whose work an op is ----------------------------------------------------------------------------------------- */

/* Those ops of a routine of network_residual that do the work of several layers. */
static void check_nodes(const harness *h, gp_routine_kind kind, const char *expected) {
    const gp_routine *routine = &h->plan->stage[0].sized[0].routine[kind];
    char found[1024] = "";
    for (size_t o = 0; o < routine->count; o++) {
        int first, last;
        const gp_exec_op *op = &routine->ops[o];
        assert_true(gp_note_nodes(op, &first, &last));
        assert_true(first <= op->node && op->node <= last);
        size_t at = strlen(found);
        if (first < last)
            snprintf(found + at, sizeof found - at, "%s %s-%s\n", gp_op_name(op->prepared->desc.kind),
                     h->graph->nodes[first].name, h->graph->nodes[last].name);
    }
    assert_string_equal(found, expected);
}

static void fused_ops_are_all_their_layers(void **state) {
    (void)state;
    const int64_t layers[] = {NETWORK_RESIDUAL_LAYERS};
    harness h;
    int first, last;
    harness_plan(&h, &(harness_options){.model = network_residual,
                                        .layers = layers,
                                        .stages = 1,
                                        .kind = &gp_ref_kind,
                                        .checkpoint = GP_CHECKPOINT_NEVER,
                                        .micro_batches = 3,
                                        .batch = 9});
    check_nodes(&h, GP_ROUTINE_KEEP,
                "norm_apply_relu 1-2\n"
                "norm_apply_relu 5-6\n"
                "norm_apply_relu 8-b\n"
                "norm_apply_relu 12-13\n"
                "norm_apply_relu c-19\n");
    check_nodes(&h, GP_ROUTINE_BACKWARD,
                "norm_add_relu_backward_reduce 17-19\n"
                "norm_relu_backward_reduce 12-13\n"
                "norm_relu_backward_data 12-13\n"
                "norm_add_relu_backward_reduce 8-11\n" /* two shares of b's gradient meet in 11 */
                "norm_relu_backward_reduce 5-6\n"
                "norm_relu_backward_data 5-6\n"
                "norm_relu_backward_reduce 1-2\n"
                "norm_relu_backward_data 1-2\n");
    const gp_routine *step = &h.plan->minis[0].step[0];
    assert_true(step->count > 0 && !gp_note_nodes(&step->ops[step->count - 1], &first, &last));
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops_are_estimated),
                                       cmocka_unit_test(notes_stand_between_layers),
                                       cmocka_unit_test(fused_ops_are_all_their_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Plans of many workers: what they consist of grows in proportion to the stages, and to the replicas beside what these
 * send one another. A quadratic loop or table would make a plan of 1,024 workers slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"

enum { REPLICAS = 8, PIECES = 4, MOST = 128 };

typedef struct amounts {
    size_t workers, edges, members, events, instrs, waits;
} amounts;

/* `stages` stages of one layer with 8 replicas each. */
static amounts plan(int stages, double clip_norm) {
    static char model[MOST * 32 + 200];
    int64_t layers[MOST];
    int replicas[MOST];
    harness h;
    char *at = model + sprintf(model, "input: {shape: [3]}\nlayers:\n");
    for (int s = 0; s < stages; s++) {
        layers[s] = 1;
        replicas[s] = REPLICAS;
        at += sprintf(at, "  - linear: {out: 3}\n");
    }
    sprintf(at, "loss: cross_entropy\n");
    const harness_options options = {.model = model,
                                     .layers = layers,
                                     .stages = stages,
                                     .replicas = replicas,
                                     .schedule = {.kind = GP_SCHEDULE_1F1B},
                                     .kind = &gp_ref_kind,
                                     .real = GP_F64,
                                     .checkpoint = GP_CHECKPOINT_ALWAYS,
                                     .clip_norm = clip_norm,
                                     .micro_batches = PIECES,
                                     .batch = (int64_t)PIECES * REPLICAS};
    harness_plan(&h, &options);
    const gp_stages *its = h.plan->stages;
    const gp_mini_plan *mini = &h.plan->minis[0];
    amounts out = {
        .workers = (size_t)h.plan->workers, .edges = its->edge_count, .events = gp_event_count(its, mini->pieces)};
    for (size_t c = 0; c < its->collective_count; c++)
        out.members += its->collectives[c].contributors.count + its->collectives[c].collectors.count;
    for (int w = 0; w < h.plan->workers; w++) {
        out.instrs += mini->programs->worker[w].count;
        out.waits += mini->waits->worker[w].count;
    }
    harness_end(&h);
    return out;
}

static void expect_proportional(const char *what, size_t first, size_t second, size_t third) {
    if (third - second != 2 * (second - first))
        fail_msg("%s: %zu, %zu and %zu with 32, 64 and 128 stages", what, first, second, third);
}

static void a_plan_grows_with_its_stages(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        amounts a = plan(32, norms), b = plan(64, norms), c = plan(128, norms);
        assert_int_equal(c.workers, 1024);
        assert_int_equal(c.edges, 2 * 127 * REPLICAS);
        expect_proportional("edges", a.edges, b.edges, c.edges);
        expect_proportional("members of collectives", a.members, b.members, c.members);
        expect_proportional("events", a.events, b.events, c.events);
        expect_proportional("instructions", a.instrs, b.instrs, c.instrs);
        expect_proportional("waits", a.waits, b.waits, c.waits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_grows_with_its_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

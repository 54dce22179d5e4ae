/* Promise 3, the harder half: the bits are the same whenever a worker comes late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { SHORT = 2000, LONG = 20000 }; /* delays, in microseconds */

/* Who comes late. */
typedef struct delays {
    uint64_t seed;
    int worker; /* always; −1: none */
    int op;     /* always at these instructions; −1: none */
} delays;

/* One in four up to 2 ms late, one in 250 by 20 ms. */
static gp_status delay(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    const delays *d = context;
    gp_philox draw = gp_philox_draw(
        d->seed, (gp_philox){{(uint32_t)site->worker, (uint32_t)site->pc, (uint32_t)site->step, (uint32_t)site->mini}});
    if (site->worker == d->worker || site->instr->op == d->op) usleep(draw.word[0] % SHORT);
    if (d->seed && draw.word[1] % 4 == 0) usleep(draw.word[2] % SHORT);
    if (d->seed && draw.word[1] % 251 == 1) usleep(LONG);
    return GP_OK;
}

static const int64_t one_skips[] = {17}, two_skips[] = {6, 11}, three_skips[] = {2, 6, 9},
                     five_skips[] = {2, 3, 4, 4, 4};
static const int64_t one_vectors[] = {9}, three_vectors[] = {2, 3, 4};

static const harness_options skips = {
    .model = network_skips,
    .layers = one_skips,
    .stages = 1,
    .kind = &gp_cpu_kind,
    .micro_batches = 4,
    .batch = 10,
    .last = 7,
    .evaluation = 9,
};

static void expect_same(harness_options options, delays d, int steps, uint64_t expected) {
    gp_hooks hooks = {&d, delay, d.seed % 2 ? delay : NULL};
    uint64_t hash = harness_train(&options, &hooks, steps);
    if (hash != expected)
        fail_msg("%d stages, checkpoint mode %d, lockstep %d, seed %d, late worker %d, late instruction %d: %016llx "
                 "instead of %016llx",
                 options.stages, options.checkpoint, options.lockstep, (int)d.seed, d.worker, d.op,
                 (unsigned long long)hash, (unsigned long long)expected);
}

static void test_random_delays(void **state) {
    (void)state;
    int steps = test_pick(5, 8, 30);
    uint64_t expected = harness_train(&skips, NULL, steps), seed = 1 + 6 * test_seed();
    const int64_t *cuts[] = {two_skips, three_skips, five_skips};
    const int stages[] = {2, 3, 5};
    for (int c = 0; c < 3; c++) {
        for (int lockstep = 0; lockstep < 2; lockstep++) {
            harness_options options = skips;
            options.layers = cuts[c];
            options.stages = stages[c];
            options.lockstep = lockstep;
            options.checkpoint = (gp_checkpoint_mode)(seed % 3);
            expect_same(options, (delays){seed++, -1, -1}, steps, expected);
        }
    }
}

/* One worker is always the last; then one kind of instruction, receives above all, so that their senders run ahead. */
static void test_slow_ones(void **state) {
    (void)state;
    harness_options options = skips;
    options.kind = &gp_ref_kind;
    options.model = network_vectors;
    options.layers = one_vectors;
    options.micro_batches = 6;
    options.batch = 12;
    options.last = 10;
    int steps = test_pick(2, 3, 5);
    uint64_t expected = harness_train(&options, NULL, steps);
    options.layers = three_vectors;
    options.stages = 3;
    for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
        options.checkpoint = (gp_checkpoint_mode)mode;
        options.lockstep = mode == GP_CHECKPOINT_EXCEPT_LAST;
        for (int w = 0; w < 3; w++) expect_same(options, (delays){0, w, -1}, steps, expected);
        for (int op = GP_INSTR_LOAD; op < GP_INSTR_OPS; op++)
            expect_same(options, (delays){0, -1, op}, steps, expected);
    }
}

/* ---- what lockstep promises ------------------------------------------------------------------------------------- */

enum { PIECES = 4, MOST_EDGES = 64 };

/* Which receives have begun in a step. */
typedef struct watcher {
    harness h;
    delays late;
    atomic_int received[MOST_EDGES][PIECES]; /* the last step in which it did */
} watcher;

/* The receives of this clock out of the worker's memory must have come before its computation. */
static gp_status check_copies(watcher *it, const gp_site *site, gp_error *err) {
    const gp_programs *programs = it->h.plan->minis[site->mini].programs;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            if (instr->op != GP_INSTR_RECV || instr->clock != site->instr->clock) continue;
            const gp_edge *edge = &it->h.plan->stages->edges[instr->edge];
            if (programs->worker_of_stage[edge->from] != site->worker) continue;
            if (atomic_load(&it->received[instr->edge][instr->micro]) < (int)site->step)
                return gp_fail(err, GP_INTERNAL, "computes before its copies of clock %u", instr->clock);
        }
    return GP_OK;
}

static gp_status watch(void *context, const gp_site *site, gp_error *err) {
    watcher *it = context;
    GP_RETURN_IF_FAILED(delay(&it->late, site, err));
    if (site->instr->op == GP_INSTR_RECV)
        atomic_store(&it->received[site->instr->edge][site->instr->micro], (int)site->step);
    bool computes = site->instr->op == GP_INSTR_FORWARD || gp_instr_is_backward(site->instr);
    return computes ? check_copies(it, site, err) : GP_OK;
}

/* In every clock all copies out of a worker's memory are issued before it computes, however late a receiver comes. */
static void test_copies_come_first_in_lockstep(void **state) {
    (void)state;
    for (int w = 0; w < 5; w++) {
        watcher it = {.late = {0, w, -1}};
        gp_hooks hooks = {.context = &it, .before = watch};
        gp_error err = {0};
        gp_step_result result;
        harness_options options = skips;
        options.kind = &gp_ref_kind;
        options.layers = five_skips;
        options.stages = 5;
        options.lockstep = true;
        options.checkpoint = GP_CHECKPOINT_ALWAYS;
        harness_plan(&it.h, &options);
        assert_non_null(it.h.plan->minis[0].meets);
        assert_true(it.h.plan->stages->edge_count <= MOST_EDGES);
        harness_start(&it.h, &hooks);
        for (uint32_t step = 1; step <= 2; step++)
            if (harness_step(&it.h, 10, true, step, &result, &err) != GP_OK) fail_msg("%s", err.text);
        harness_end(&it.h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_delays),
        cmocka_unit_test(test_slow_ones),
        cmocka_unit_test(test_copies_come_first_in_lockstep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

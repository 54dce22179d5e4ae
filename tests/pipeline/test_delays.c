/* Promise 3, the harder half: the bits are the same whenever a worker comes late. */
#include <setjmp.h>
#include <stdarg.h>
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
    .real = GP_F32,
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_delays),
        cmocka_unit_test(test_slow_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

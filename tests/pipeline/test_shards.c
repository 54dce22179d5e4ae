/* Replicas that share out the optimizer (pipeline.shard_optimizer): each keeps a part of its state and updates a part
 * of the parameters. Nothing else differs from replicas that each update all: not a bit, wherever a parameter is
 * divided. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/replicas.h"

/* On ref some parameters have several blocks of squares, so that shards begin within them. */
static const char network_wide[] = "input: {shape: [12]}\n"
                                   "layers:\n"
                                   "  - linear: {out: 20, freeze: true}\n"
                                   "  - linear: {out: 24, name: a}\n"
                                   "  - relu\n"
                                   "  - linear: 40\n"
                                   "  - layer_norm\n"
                                   "  - dropout: 0.25\n"
                                   "  - linear: {out: 24, bias: false}\n"
                                   "  - add: [-1, a]\n"
                                   "  - linear: 30\n"
                                   "  - relu\n"
                                   "  - linear: 4\n"
                                   "loss: cross_entropy\n";

/* The same on the CPU, whose blocks are larger; convolutions have formats there, and are not divided. The second one
 * has a working copy. */
static const char network_wider[] = "input: {shape: [16, 9, 8]}\n"
                                    "layers:\n"
                                    "  - conv: {out: 16, kernel: 3, pad: 1, groups: 2}\n"
                                    "  - batch_norm\n"
                                    "  - relu\n"
                                    "  - conv: {out: 16, kernel: 3, stride: 3, pad: 1, groups: 2}\n"
                                    "  - flatten\n"
                                    "  - linear: 150\n"
                                    "  - relu\n"
                                    "  - linear: 110\n"
                                    "  - relu\n"
                                    "  - linear: 5\n"
                                    "loss: cross_entropy\n";

static const gp_update updates[] = {
    {.op = GP_OP_SGD},
    {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9, .decay = 0.01}, .no_decay = true},
    {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.8, .nesterov = 1}},
    {.op = GP_OP_ADAM, .states = 2, .adam = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1}},
    {.op = GP_OP_ADAM,
     .states = 2,
     .adam = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1, .decoupled = 1},
     .no_decay = true}};
enum { UPDATES = sizeof updates / sizeof *updates };

static harness_options options_of(const char *model, const replicas_layout *its) {
    harness_options options = replicas_options(model, its);
    options.batch = options.evaluation = 36;
    options.last = 24;
    options.update = &updates[3];
    return options;
}

static harness_options on_cpu(const replicas_layout *its) {
    harness_options options = options_of(network_wider, its);
    options.kind = &gp_cpu_kind;
    options.real = GP_F32;
    return options;
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static void expect_same(harness_options options, const char *what, int a, int b) {
    uint64_t expected = harness_train(&options, NULL, 4);
    options.shard_optimizer = true;
    if (harness_train(&options, NULL, 4) != expected) fail_msg("%s %d, %d: other bits", what, a, b);
}

static void optimizers_find_the_same(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {
        {1, {11}, {2}}, {1, {11}, {3}}, {2, {4, 7}, {3, 2}}, {3, {2, 2, 7}, {1, 4, 1}}};
    for (int c = 0; c < (int)(sizeof cuts / sizeof *cuts); c++)
        for (int u = 0; u < UPDATES; u++)
            for (int norms = 0; norms < 3; norms++) {
                harness_options options = options_of(network_wide, &cuts[c]);
                options.update = &updates[u];
                options.norms = norms > 0;
                options.clip_norm = norms == 2 ? 0.1 : 0;
                expect_same(options, "cut and optimizer", c, u);
            }
}

/* Of a network with batch norm, whose running statistics the step commits. */
static void modes_and_schedules_find_the_same(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{2, {6, 11}, {2, 2}}, {4, {2, 3, 4, 8}, {2, 2, 2, 2}}};
    static const gp_schedule schedules[] = {
        {.kind = GP_SCHEDULE_GPIPE}, {.kind = GP_SCHEDULE_1F1B},  {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
        {.kind = GP_SCHEDULE_ZB_H1}, {.kind = GP_SCHEDULE_ZB_H2}, {.kind = GP_SCHEDULE_ZB_V}};
    uint64_t expected[2][2] = {{0}};
    for (int n = 0; n < 6; n++)
        for (int mode = 0; mode < 3; mode++)
            for (int norms = 0; norms < 2; norms++) {
                bool chunks = schedules[n].kind == GP_SCHEDULE_INTERLEAVED || schedules[n].kind == GP_SCHEDULE_ZB_V;
                harness_options options = options_of(network_skips, &cuts[chunks]);
                options.schedule = schedules[n];
                options.checkpoint = (gp_checkpoint_mode)mode;
                options.lockstep = n == 0 && mode == 1;
                options.clip_norm = norms ? 0.5 : 0;
                uint64_t *wanted = &expected[n > 0][norms];
                if (!*wanted) *wanted = harness_train(&options, NULL, 3);
                options.shard_optimizer = true;
                if (harness_train(&options, NULL, 3) != *wanted)
                    fail_msg("schedule %s, mode %d, norms %d: other bits", gp_schedule_kind_name(schedules[n].kind),
                             mode, norms);
            }
}

static gp_status dawdle(void *context, const gp_site *site, gp_error *err) {
    (void)err;
    gp_philox draw = gp_philox_draw(*(const uint64_t *)context,
                                    (gp_philox){{(uint32_t)site->pc, (uint32_t)site->worker, (uint32_t)site->step, 0}});
    if (draw.word[0] % 4 == 0) usleep((useconds_t)(draw.word[1] % 300));
    return GP_OK;
}

/* Working copies follow the exchange. The order in which replicas come changes no bit. */
static void cpus_find_the_same(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{1, {10}, {2}}, {2, {4, 6}, {2, 3}}, {3, {2, 4, 4}, {1, 2, 4}}};
    for (int c = 0; c < 3; c++)
        for (int norms = 0; norms < 2; norms++) {
            harness_options options = on_cpu(&cuts[c]);
            options.clip_norm = norms ? 0.2 : 0;
            uint64_t expected = harness_train(&options, NULL, 4);
            options.shard_optimizer = true;
            for (uint64_t seed = 0; seed < 3; seed++) {
                gp_hooks hooks = {.before = dawdle, .context = &seed};
                assert_true(harness_train(&options, &hooks, 4) == expected);
            }
        }
}

/* A single replica has nothing to share out. */
static void one_replica_is_as_before(void **state) {
    (void)state;
    static const replicas_layout cuts[] = {{1, {11}, {1}}, {2, {4, 7}, {1, 1}}};
    for (int c = 0; c < 2; c++) expect_same(options_of(network_wide, &cuts[c]), "cut", c, 0);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Bytes of a state of one parameter, whose parts must lie one after another on the replicas. */
static size_t check_parts(const gp_plan *plan, int first, int replicas, int p, int *pieces) {
    size_t end = 0;
    const gp_param_plan *param = &plan->stage[first].params[p];
    size_t block = (size_t)plan->stage[first].spec.kind->square_block * gp_dtype_size(plan->types.accumulate);
    for (int r = 0; r < replicas; r++) {
        const gp_share *own = &plan->stage[first + r].params[p].own;
        if (own->count == 0) continue;
        assert_int_equal(own->first, end);
        assert_int_equal(own->first % (int64_t)block, 0);
        end = (size_t)(own->first + own->count);
        ++*pieces;
    }
    assert_int_equal(end, param->stored);
    return end;
}

/* Each replica has its part of the state, and all together have all of it. */
static void states_are_shared_out(void **state) {
    (void)state;
    int divided = 0;
    for (int replicas = 2; replicas <= REPLICAS_MOST; replicas++)
        for (int kind = 0; kind < 2; kind++) {
            const replicas_layout its = {1, {kind ? 10 : 11}, {replicas}};
            harness_options options = kind ? on_cpu(&its) : options_of(network_wide, &its);
            harness whole, h;
            harness_plan(&whole, &options);
            options.shard_optimizer = true;
            harness_plan(&h, &options);
            size_t all = whole.plan->stage[0].memory[GP_MEMORY_OPTIMIZER], sum = 0, largest = 0;
            for (int p = 0; p < h.plan->stage[0].param_count; p++) {
                int pieces = 0;
                if (!h.plan->stage[0].params[p].trained) continue;
                size_t stored = check_parts(h.plan, 0, replicas, p, &pieces);
                if (pieces == 1 && stored > largest) largest = stored;
                divided += pieces > 1;
            }
            for (int r = 0; r < replicas; r++) {
                size_t own = h.plan->stage[r].memory[GP_MEMORY_OPTIMIZER];
                sum += own;
                /* Half of a block more at each end, or half of a parameter that is not divided; in two states. */
                assert_true(own <= all / (size_t)replicas + 2 * largest + (kind ? 2 * 4096 * 4 : 2 * 64 * 8));
                assert_true(h.plan->arena[r] < whole.plan->arena[r]);
            }
            assert_int_equal(sum, all);
            harness_end(&h);
            harness_end(&whole);
        }
    assert_true(divided >= 6);
}

static size_t exchanged(const harness *h, gp_part_kind part) {
    const gp_plan *plan = h->plan;
    size_t sum = 0;
    for (uint32_t c = 0; c < plan->stages->collective_count; c++)
        for (size_t m = 0;
             plan->stages->collectives[c].part == part && m < plan->stages->collectives[c].collectors.count; m++) {
            const gp_collective *its = &plan->stages->collectives[c];
            gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)its->collectors.items[m]};
            collect.collective = c;
            sum += gp_instr_bytes(plan, &plan->minis[0], &collect);
        }
    return sum;
}

/* As many bytes go: parameters in place of gradients. */
static void as_many_bytes_go(void **state) {
    (void)state;
    static const replicas_layout its = {2, {4, 7}, {3, 2}};
    harness_options options = options_of(network_wide, &its);
    harness whole, h;
    harness_plan(&whole, &options);
    options.shard_optimizer = true;
    harness_plan(&h, &options);
    assert_int_equal(exchanged(&whole, GP_PART_PARAMETERS), 0);
    assert_int_equal(exchanged(&h, GP_PART_GRADIENTS) + exchanged(&h, GP_PART_PARAMETERS),
                     exchanged(&whole, GP_PART_GRADIENTS));
    harness_end(&h);
    harness_end(&whole);
}

/* ---- from one run to another --------------------------------------------------------------------------------------
 */

/* Every parameter, buffer and state of one run, as a snapshot has them, into another one. */
static void hand_over(harness *from, harness *to) {
    gp_error err = {0};
    for (int p = 0; p < from->graph->param_count; p++) {
        int64_t elements;
        assert_true(gp_shape_elements(from->graph->params[p].spec.shape, &elements));
        int states = from->graph->params[p].trained ? from->plan->update.states : 0;
        double *values = calloc((size_t)elements, sizeof *values);
        assert_non_null(values);
        for (int s = -1; s < states; s++) {
            const gp_tensor_copy copy = {p, s, values};
            replicas_must(gp_run_read(from->run, &copy, 1, &err), &err);
            replicas_must(gp_run_write(to->run, &copy, 1, &err), &err);
        }
        free(values);
    }
    replicas_must(gp_run_refresh(to->run, &err), &err);
}

static void steps(harness *h, uint32_t first, uint32_t last) {
    gp_error err = {0};
    gp_step_result result;
    for (uint32_t s = first; s <= last; s++)
        replicas_must(harness_step(h, h->options.batch, true, s, &result, &err), &err);
}

/* Runs that share out the optimizer go on as those that do not, with another cut. */
static void runs_go_on_from_one_another(void **state) {
    (void)state;
    static const replicas_layout wide[] = {{1, {11}, {3}}, {2, {5, 6}, {3, 3}}},
                                 wider[] = {{1, {10}, {3}}, {2, {6, 4}, {3, 3}}};
    for (int way = 0; way < 4; way++)
        for (int kind = 0; kind < 2; kind++) {
            harness h[3];
            for (int i = 0; i < 3; i++) {
                int cut = i == 1;
                harness_options options = kind ? on_cpu(&wider[cut]) : options_of(network_wide, &wide[cut]);
                options.shard_optimizer = i == 0 ? way & 1 : i == 1 && way & 2;
                harness_plan(&h[i], &options);
                harness_start(&h[i], NULL);
            }
            steps(&h[0], 1, 2);
            hand_over(&h[0], &h[1]);
            assert_true(harness_hash(&h[1]) == harness_hash(&h[0]));
            steps(&h[1], 3, 4);
            steps(&h[2], 1, 4);
            if (harness_hash(&h[1]) != harness_hash(&h[2])) fail_msg("way %d, device %d: other bits", way, kind);
            for (int i = 0; i < 3; i++) harness_end(&h[i]);
        }
}

/* A loss that is not finite changes nothing, on any replica. */
static void what_is_not_finite_changes_nothing(void **state) {
    (void)state;
    static const replicas_layout its = {2, {4, 7}, {3, 2}};
    for (int norms = 0; norms < 2; norms++) {
        harness h;
        gp_error err = {0};
        gp_step_result result;
        harness_options options = options_of(network_wide, &its);
        options.shard_optimizer = true;
        options.clip_norm = norms ? 0.1 : 0;
        harness_plan(&h, &options);
        harness_start(&h, NULL);
        steps(&h, 1, 2);
        uint64_t before = harness_hash(&h);
        harness_make_data(&h, options.batch, 3);
        ((double *)h.input)[5] = NAN;
        replicas_must(harness_run(&h, options.batch, true, 3, &result, &err), &err);
        assert_false(result.finite);
        assert_true(harness_hash(&h) == before);
        steps(&h, 4, 4);
        assert_true(harness_hash(&h) != before);
        harness_end(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_find_the_same),    cmocka_unit_test(modes_and_schedules_find_the_same),
        cmocka_unit_test(cpus_find_the_same),          cmocka_unit_test(one_replica_is_as_before),
        cmocka_unit_test(states_are_shared_out),       cmocka_unit_test(as_many_bytes_go),
        cmocka_unit_test(runs_go_on_from_one_another), cmocka_unit_test(what_is_not_finite_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

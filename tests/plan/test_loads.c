/* What a process loads (plan/loads.h), against the load instructions of its workers: for each mini-batch, each process
 * and either value the same positions, no more and no fewer. */
#include "plan/loads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { MOST_STAGES = 4, WORKERS = 8, PROCESSES = 5, BATCH = 27 };

typedef struct way {
    const char *model;
    int stages;
    int64_t layers[MOST_STAGES];
    gp_schedule schedule;
    int replicas[MOST_STAGES]; /* of each worker of the schedule */
    int process[WORKERS];      /* of each worker */
    int64_t last, evaluation;
} way;

#define SCHEDULED(its, n)                                                                                              \
    { .kind = GP_SCHEDULE_##its, .chunks = (n) }
/* Mini-batches of 27 are cut into micro-batches of 9. In 13, 10 and 4 the last micro-batch is smaller; of 1 and 4 some
 * replicas have nothing. The vectors' input and the pictures' are used on several stages. */
static const way ways[] = {
    {network_vectors, 2, {5, 4}, SCHEDULED(GPIPE, 0), {1, 1}, {0, 1}, 13, 27},
    {network_vectors, 2, {5, 4}, SCHEDULED(GPIPE, 0), {1, 1}, {1, 0}, 1, 10},
    {network_vectors, 1, {9}, SCHEDULED(GPIPE, 0), {4}, {0, 1, 2, 3}, 4, 13},
    {network_vectors, 1, {9}, SCHEDULED(GPIPE, 0), {4}, {0, 1, 1, 0}, 1, 10},
    {network_vectors, 3, {2, 3, 4}, SCHEDULED(1F1B, 0), {1, 4, 2}, {0, 1, 2, 3, 0, 4, 1}, 4, 10},
    {network_vectors, 3, {2, 3, 4}, SCHEDULED(1F1B, 0), {3, 1, 4}, {0, 1, 2, 3, 0, 1, 0, 3}, 13, 4},
    {network_pictures, 3, {1, 4, 11}, SCHEDULED(GPIPE, 0), {2, 3, 1}, {0, 1, 2, 0, 1, 3}, 10, 13},
    {network_vectors, 4, {2, 2, 2, 3}, SCHEDULED(INTERLEAVED, 2), {2, 2}, {0, 1, 1, 2}, 13, 10},
    {network_vectors, 3, {2, 3, 4}, SCHEDULED(ZB_H1, 0), {2, 2, 2}, {0, 0, 1, 1, 2, 2}, 10, 1},
    {network_vectors, 3, {2, 3, 4}, SCHEDULED(ZB_H2, 0), {1, 2, 3}, {4, 3, 2, 1, 0, 0}, 4, 13},
    {network_vectors, 4, {2, 2, 2, 3}, SCHEDULED(ZB_V, 0), {2, 3}, {0, 1, 2, 3, 4}, 13, 4},
};

static void make_plan(harness *h, const way *its, int processes, int rank) {
    const harness_options options = {.model = its->model,
                                     .layers = its->layers,
                                     .stages = its->stages,
                                     .schedule = its->schedule,
                                     .replicas = its->replicas,
                                     .kind = &gp_ref_kind,
                                     .checkpoint = GP_CHECKPOINT_NEVER,
                                     .micro_batches = 3,
                                     .batch = BATCH,
                                     .last = its->last,
                                     .evaluation = its->evaluation,
                                     .processes = processes,
                                     .rank = rank,
                                     .process = its->process};
    harness_plan(h, &options);
}

/* Positions that the load instructions of the process's workers copy. */
static void mark_instructions(const gp_plan *plan, const gp_mini_plan *mini, int process, int value, char *marks) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_program *program = &mini->programs->worker[w];
        for (size_t pc = 0; pc < program->count && plan->process[w] == process; pc++) {
            gp_move move;
            if (program->instrs[pc].op != GP_INSTR_LOAD) continue;
            for (int i = 0; gp_instr_move(plan, mini, &program->instrs[pc], i, &move); i++)
                if (move.value == value)
                    memset(marks + move.first, 1, move.bytes / gp_value_bytes(plan->graph, value, 1));
        }
    }
}

/* Those of the ranges. Each begins where the one before ends, or later, and says the same from any position on. */
static void mark_ranges(const gp_plan *plan, const gp_mini_plan *mini, int process, int value, char *marks) {
    for (int64_t from = 0;;) {
        gp_share range = gp_mini_loads(plan, mini, process, value, from);
        if (range.count == 0) return;
        assert_true(range.first >= from && range.first + range.count <= mini->samples);
        for (int64_t within = from; within < range.first + range.count; within++) {
            gp_share rest = gp_mini_loads(plan, mini, process, value, within);
            assert_int_equal(rest.first, within > range.first ? within : range.first);
            assert_true(rest.first + rest.count >= range.first + range.count);
        }
        memset(marks + range.first, 1, (size_t)range.count);
        from = range.first + range.count;
    }
}

static void the_ranges_are_what_the_instructions_load(void **state) {
    (void)state;
    bool idle = false, partly = false;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        harness h = {0};
        make_plan(&h, &ways[w], PROCESSES, 0);
        for (int m = 0; m < h.plan->mini_count; m++)
            for (int value = GP_VALUE_INPUT; value <= GP_VALUE_TARGET; value++) {
                const gp_mini_plan *mini = &h.plan->minis[m];
                char all[BATCH] = {0};
                for (int p = 0; p < PROCESSES; p++) {
                    char expected[BATCH] = {0}, found[BATCH] = {0};
                    mark_instructions(h.plan, mini, p, value, expected);
                    mark_ranges(h.plan, mini, p, value, found);
                    for (int64_t i = 0; i < mini->samples; i++)
                        if (expected[i] != found[i])
                            fail_msg("way %zu, mini-batch of %d, process %d, value %d: position %d", w,
                                     (int)mini->samples, p, value, (int)i);
                    bool any = memchr(found, 1, BATCH) != NULL, loads = gp_plan_loads(h.plan, p, value);
                    assert_true(loads || !any);
                    idle = idle || (loads && !any);
                    partly = partly || (any && memchr(found, 0, (size_t)mini->samples));
                    for (int i = 0; i < BATCH; i++) all[i] |= found[i];
                }
                assert_null(memchr(all, 0, (size_t)mini->samples)); /* some process reads each position */
            }
        harness_end(&h);
    }
    assert_true(idle && partly);
}

/* A target is loaded by one process only: their counts add up to that of the mini-batch. */
static void no_target_is_loaded_twice(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        harness h = {0};
        make_plan(&h, &ways[w], PROCESSES, 0);
        for (int m = 0; m < h.plan->mini_count; m++) {
            int loads[BATCH] = {0};
            for (int p = 0; p < PROCESSES; p++) {
                char found[BATCH] = {0};
                mark_ranges(h.plan, &h.plan->minis[m], p, GP_VALUE_TARGET, found);
                for (int i = 0; i < BATCH; i++) loads[i] += found[i];
            }
            for (int64_t i = 0; i < h.plan->minis[m].samples; i++) assert_int_equal(loads[i], 1);
        }
        harness_end(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ranges_are_what_the_instructions_load),
        cmocka_unit_test(no_target_is_loaded_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

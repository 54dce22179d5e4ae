/* The validator's word against the executor's. Programs of real networks are changed at random; each mutant is refused,
 * or it runs: in the interpreter over several interleavings, then on workers, watched by the shadow, with the bits of
 * the programs that it was made from. The last lines say how often which rule refused.
 *
 *   test_mutants [MUTANTS [SEED]]
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/networks.h"
#include "pipeline/shadow.h"
#include "plan/meets.h"
#include "plan/memory.h"
#include "schedule/emit.h"
#include "schedule/interpreter.h"
#include "schedule/mutate.h"
#include "schedule/slots.h"
#include "schedule/toy_graph.h"
#include "schedule/validate.h"

enum { MOST_STAGES = 4, MOST_PIECES = 5, STEPS = 2, INTERLEAVINGS = 5, MOST_REASONS = 100, SEEDS_PER_MUTANT = 1 << 12 };

static int64_t mutants;
static uint64_t first_seed;

typedef struct cut {
    const char *model;
    const gp_device_kind *kind;
    int stages;
    int64_t layers[MOST_STAGES];
    gp_schedule schedule;
} cut;

static const cut cuts[] = {
    {network_vectors, &gp_ref_kind, 1, {9}, {0}},
    {network_vectors, &gp_cpu_kind, 2, {4, 5}, {0}},
    {network_vectors, &gp_ref_kind, 3, {2, 3, 4}, {0}},
    {network_vectors, &gp_cpu_kind, 4, {1, 2, 4, 2}, {0}},
    {network_vectors, &gp_ref_kind, 4, {2, 1, 3, 3}, {0}},
    {network_skips, &gp_ref_kind, 4, {2, 4, 5, 6}, {0}},
    {network_vectors, &gp_ref_kind, 3, {2, 3, 4}, {.kind = GP_SCHEDULE_1F1B}},
    {network_skips, &gp_ref_kind, 4, {2, 4, 5, 6}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}},
    {network_vectors, &gp_cpu_kind, 4, {1, 2, 4, 2}, {.kind = GP_SCHEDULE_ZB_H1}},
    {network_skips, &gp_ref_kind, 4, {2, 4, 5, 6}, {.kind = GP_SCHEDULE_ZB_V}},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

/* ---- what became of the mutants ---------------------------------------------------------------------------------- */

typedef struct reason {
    char text[160];
    int64_t count;
} reason;

typedef struct tally {
    int64_t harmless, refused, refused_rightly;
    reason reasons[MOST_REASONS];
    int reason_count;
} tally;

/* The rule that a message states: without its place and with its numbers made N. */
static void find_rule(const char *message, char text[160]) {
    const char *place = strstr(message, "): "), *from = place ? place + 3 : message;
    size_t used = 0;
    for (bool digit = false; *from && used < 159; from++) {
        bool now = *from >= '0' && *from <= '9';
        if (!now)
            text[used++] = *from;
        else if (!digit)
            text[used++] = 'N';
        digit = now;
    }
    text[used] = '\0';
}

static void count_refusal(tally *all, const char *message, bool harmless) {
    char text[160];
    int i = 0;
    find_rule(message, text);
    while (i < all->reason_count && strcmp(all->reasons[i].text, text) != 0) i++;
    if (i == all->reason_count) {
        assert_true(i < MOST_REASONS);
        memcpy(all->reasons[all->reason_count++].text, text, sizeof text);
    }
    all->reasons[i].count++;
    all->refused++;
    all->refused_rightly += !harmless;
}

static int compare_reasons(const void *a, const void *b) {
    int64_t first = ((const reason *)a)->count, second = ((const reason *)b)->count;
    return first < second ? 1 : first > second ? -1 : 0;
}

static void print_tally(tally *all) {
    qsort(all->reasons, (size_t)all->reason_count, sizeof *all->reasons, compare_reasons);
    for (int i = 0; i < all->reason_count; i++)
        printf("%8" PRId64 " refused: %s\n", all->reasons[i].count, all->reasons[i].text);
    printf("%8" PRId64 " refused, of which %" PRId64 " do harm by the interpreter's word\n", all->refused,
           all->refused_rightly);
    printf("%8" PRId64 " accepted: ran, watched, to the same bits\n", all->harmless);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct trial {
    harness h;
    const cut *its;
    int mini, pieces;
    bool training;
} trial;

/* A plan with every kind of routine, for a mini-batch of `pieces` micro-batches: the full one of 10 samples keeps and
 * discards, and it is the smaller ones that are tried. */
static void make_trial(trial *t, const cut *its, int pieces, bool training) {
    int64_t samples = pieces == MOST_PIECES ? 9 : pieces;
    wrapper_hooks device_hooks = shadow_device_hooks();
    harness_options options = {.model = its->model,
                               .layers = its->layers,
                               .stages = its->stages,
                               .schedule = its->schedule,
                               .kind = wrapper_kind(its->kind, &device_hooks),
                               .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                               .micro_batches = MOST_PIECES,
                               .batch = 10,
                               .last = samples,
                               .evaluation = samples};
    *t = (trial){.its = its, .pieces = pieces, .training = training};
    harness_plan(&t->h, &options);
    t->mini = gp_plan_find(t->h.plan, training, samples);
    assert_true(t->mini >= 0 && t->h.plan->minis[t->mini].pieces == pieces);
}

/* The plan carries out these programs from now on, which become its own. */
static void put_programs(trial *t, gp_programs *programs) {
    gp_plan *plan = t->h.plan;
    gp_mini_plan *mini = &plan->minis[t->mini];
    gp_error err = {0};
    gp_programs_destroy(&mini->programs);
    gp_waits_destroy(&mini->waits);
    gp_waits_destroy(&mini->meets);
    gp_queues_destroy(&mini->queues);
    mini->programs = programs;
    assert_int_equal(gp_waits_create(plan->stages, programs, true, &mini->waits, &err), GP_OK);
    assert_int_equal(gp_meets_create(plan->stages, programs, plan->devices, &mini->meets, &err), GP_OK);
    assert_int_equal(gp_mini_queues(plan, mini, GP_QUEUES_MEMORY, &err), GP_OK);
    for (int w = 0; w < plan->workers; w++) plan->arena[w] = 0;
    assert_int_equal(gp_memory_lay_out(plan, &err), GP_OK);
}

/* Losses and all that is kept after some steps, as a hash. */
static gp_status run_watched(trial *t, uint64_t *hash, gp_error *err) {
    shadow *s = shadow_create(&t->h, 0xFF);
    gp_hooks hooks = shadow_run_hooks(s);
    gp_status status = GP_OK;
    harness_start(&t->h, &hooks);
    *hash = 0;
    for (uint32_t step = 1; step <= STEPS && status == GP_OK; step++) {
        gp_step_result result;
        status = harness_step(&t->h, t->h.plan->minis[t->mini].samples, t->training, step, &result, err);
        if (status == GP_OK) *hash = gp_hash_bytes(*hash, &result.loss_sum, sizeof result.loss_sum);
    }
    if (status == GP_OK) *hash = gp_hash_bytes(*hash, &(uint64_t){harness_hash(&t->h)}, sizeof(uint64_t));
    gp_run_destroy(&t->h.run);
    shadow_destroy(&s);
    return status;
}

/* ---- mutants ----------------------------------------------------------------------------------------------------- */

static gp_programs *make_programs(const trial *t, gp_checkpoint_mode mode, bool lockstep) {
    gp_programs *programs = NULL;
    gp_error err = {0};
    gp_emit_request request = {.stages = t->h.plan->stages,
                               .pieces = {.count = t->pieces},
                               .checkpoint = mode,
                               .lockstep = lockstep,
                               .training = t->training,
                               .schedule = t->h.plan->schedule};
    assert_int_equal(gp_programs_emit(&request, &programs, &err), GP_OK);
    assert_int_equal(gp_slots_assign(t->h.plan->stages, programs, NULL, &err), GP_OK);
    return programs;
}

static bool is_harmless(const trial *t, const gp_programs *programs, uint64_t *random, gp_error *err) {
    for (int i = 0; i < INTERLEAVINGS; i++) {
        interleaving how = i < 2 ? (interleaving)i : RANDOM_WORKER;
        if (interpret(t->h.plan->stages, programs, how, random, err) != GP_OK) return false;
    }
    return true;
}

static void check_mutant(trial *t, const gp_programs *programs, uint64_t seed, uint64_t expected, tally *all) {
    const gp_stages *stages = t->h.plan->stages;
    gp_error err = {0}, harm = {0};
    uint64_t random = seed, hash = 0;
    gp_programs *mutant = mutate_copy(programs);
    for (uint32_t edits = 1 + toy_random(&random, 5) / 3; edits > 0; edits--) mutate(mutant, stages, &random);
    bool accepted = gp_programs_validate(stages, mutant, &err) == GP_OK;
    bool harmless = is_harmless(t, mutant, &random, &harm);
    if (!accepted) {
        count_refusal(all, err.text, harmless);
        gp_programs_destroy(&mutant);
        return;
    }
    if (!harmless) fail_msg("mutant of seed %" PRIu64 " is valid, but %s", seed, harm.text);
    put_programs(t, mutant);
    if (run_watched(t, &hash, &err) != GP_OK) fail_msg("mutant of seed %" PRIu64 " is valid, but %s", seed, err.text);
    if (hash != expected) fail_msg("mutant of seed %" PRIu64 " is valid, but ends with other bits", seed);
    all->harmless++;
}

/* All programs of a cut, a number of micro-batches and a kind of mini-batch end with the same bits. */
static void check_programs(trial *t, int64_t count, uint64_t *seed, tally *all) {
    enum { MODES = 3, VARIANTS = 2 * MODES };
    uint64_t expected = 0;
    for (int i = 0; i < VARIANTS; i++) {
        gp_programs *programs = make_programs(t, (gp_checkpoint_mode)(i % MODES), i / MODES);
        gp_error err = {0};
        uint64_t random = *seed, hash = 0;
        if (!is_harmless(t, programs, &random, &err)) fail_msg("interpreter: %s", err.text);
        put_programs(t, mutate_copy(programs));
        if (run_watched(t, &hash, &err) != GP_OK) fail_msg("%s", err.text);
        if (i == 0) expected = hash;
        assert_true(hash == expected);
        for (int64_t k = 0; k < count; k++, *seed += SEEDS_PER_MUTANT) check_mutant(t, programs, *seed, expected, all);
        gp_programs_destroy(&programs);
    }
}

static void mutants_are_refused_or_run_to_the_same_bits(void **state) {
    (void)state;
    enum { PROGRAMS = CUTS * MOST_PIECES * 2 * 6 };
    uint64_t seed = first_seed * SEEDS_PER_MUTANT << 20;
    int64_t wanted = 0, made = 0;
    tally *all = calloc(1, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < CUTS * MOST_PIECES * 2; i++) {
        trial t;
        /* Three of four are of training. */
        wanted += mutants * (i % 2 ? 1 : 3) * 6 / 2 / PROGRAMS;
        int64_t count = (wanted - made + 5) / 6;
        made += count * 6;
        make_trial(&t, &cuts[i / 2 / MOST_PIECES], 1 + i / 2 % MOST_PIECES, i % 2 == 0);
        check_programs(&t, count, &seed, all);
        harness_end(&t.h);
    }
    print_tally(all);
    /* Both sides have teeth. */
    assert_true(all->harmless > mutants / 20);
    assert_true(all->refused_rightly > all->refused / 10 * 7);
    free(all);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutants_are_refused_or_run_to_the_same_bits)};
    mutants = test_pick(400, 3000, 200000);
    first_seed = 1 + test_seed();
    if (argc > 1) mutants = strtoll(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Gradients of replicas go in buckets, and each is posted within the last backward, as soon as it is complete. How
 * large buckets are decides no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/replicas.h"
#include "schedule/validate.h"

static const gp_schedule schedules[] = {{.kind = GP_SCHEDULE_GPIPE},
                                        {.kind = GP_SCHEDULE_1F1B},
                                        {.kind = GP_SCHEDULE_ZB_H1},
                                        {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                                        {.kind = GP_SCHEDULE_ZB_V}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };
static const replicas_layout cuts[] = {{2, {6, 11}, {2, 2}}, {4, {2, 3, 4, 8}, {2, 2, 2, 2}}};

static harness_options scheduled(int n) {
    bool chunks = schedules[n].kind == GP_SCHEDULE_INTERLEAVED || schedules[n].kind == GP_SCHEDULE_ZB_V;
    harness_options options = replicas_options(network_skips, &cuts[chunks]);
    options.schedule = schedules[n];
    return options;
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void sizes_change_no_bit(void **state) {
    (void)state;
    static const size_t sizes[] = {100, 700, 3000};
    for (int n = 0; n < SCHEDULES; n++)
        for (int way = 0; way < 4; way++) {
            harness_options options = scheduled(n);
            options.clip_norm = way & 1 ? 0.5 : 0;
            options.shard_optimizer = way & 2;
            options.checkpoint = (gp_checkpoint_mode)(way % 3);
            uint64_t expected = harness_train(&options, NULL, 3);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                options.bucket = sizes[s];
                if (harness_train(&options, NULL, 3) != expected)
                    fail_msg("schedule %d, way %d, buckets of %zu bytes: other bits", n, way, sizes[s]);
            }
        }
}

static void cpus_find_the_same(void **state) {
    (void)state;
    static const replicas_layout its = {3, {2, 6, 9}, {3, 1, 2}};
    harness_options options = replicas_options(network_skips, &its);
    options.kind = &gp_cpu_kind;
    options.real = GP_F32;
    options.batch = options.last = options.evaluation = 36;
    uint64_t expected = harness_train(&options, NULL, 3);
    options.bucket = 200;
    assert_true(harness_train(&options, NULL, 3) == expected);
}

/* ---- what the plan says ------------------------------------------------------------------------------------------ */

/* Whether an op of the routine writes into the range, by way of its addresses in the arena. */
static bool writes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *backward, size_t op,
                   const gp_move *range) {
    const gp_stage_plan *stage = &plan->stage[backward->stage];
    const gp_exec_op *its = &gp_instr_routine(mini, stage, backward)->ops[op];
    const gp_slot_choice slots = gp_instr_slots(plan->stages, backward);
    if (its->when == gp_instr_skips(backward)) return false;
    for (uint32_t i = 0; i < its->prepared->desc.operands; i++) {
        if (its->operand[i].area == GP_AREA_NONE || !gp_op_writes(its->prepared->desc.kind, (int)i)) continue;
        size_t at = gp_plan_offset(plan, stage, &slots, backward->micro, its->operand[i]);
        if (at < range->offset + range->bytes && range->offset < at + its->prepared->operand[i].bytes) return true;
    }
    return false;
}

/* Every bucket is posted once, within the last backward, after the last op that makes a part of it. */
static void check_mini(const gp_plan *plan, const gp_mini_plan *mini, int *buckets, int *early) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_program *program = &mini->programs->worker[w];
        size_t found = 0;
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            if (instr->op != GP_INSTR_POST ||
                plan->stages->collectives[instr->collective].kind != GP_COLLECTIVE_SCATTER)
                continue;
            const gp_early_post *its = NULL;
            for (size_t i = 0; i < mini->early[w].count; i++)
                if (mini->early[w].items[i].post == pc) {
                    assert_null(its);
                    its = &mini->early[w].items[i];
                }
            assert_non_null(its);
            found++;
            const gp_instr *backward = &program->instrs[its->pc];
            assert_true(backward->stage == instr->stage && gp_instr_ends_backward(backward) && its->pc < pc);
            for (size_t after = its->pc + 1; after < program->count; after++)
                assert_false(program->instrs[after].stage == instr->stage &&
                             gp_instr_is_backward(&program->instrs[after]));
            gp_move range;
            assert_true(gp_instr_move(plan, mini, instr, 0, &range));
            size_t ops = gp_instr_routine(mini, &plan->stage[instr->stage], backward)->count;
            for (size_t o = its->ops; o < ops; o++) assert_false(writes(plan, mini, backward, o, &range));
            assert_true(its->ops == 0 || its->share > 0);
            assert_true(its->share <= 1);
            *early += its->ops < ops;
            ++*buckets;
        }
        assert_int_equal(found, mini->early[w].count);
    }
}

static void buckets_are_posted_when_they_are_complete(void **state) {
    (void)state;
    int buckets = 0, early = 0;
    for (int n = 0; n < SCHEDULES; n++) {
        harness h;
        harness_options options = scheduled(n);
        options.bucket = 300;
        harness_plan(&h, &options);
        for (int m = 0; m < h.plan->mini_count; m++)
            if (h.plan->minis[m].training) check_mini(h.plan, &h.plan->minis[m], &buckets, &early);
        harness_end(&h);
    }
    assert_true(buckets >= 100 && early >= buckets / 2);
}

/* What replica `to` copies of others in all buckets is its shard, once from each. */
static void check_parts(const gp_plan *plan, int first, int replicas, int to) {
    const gp_stage_plan *stage = &plan->stage[first + to];
    size_t shard = 0, sum = 0;
    for (int b = 0; b < plan->stages->stage[first].buckets; b++)
        shard += (size_t)gp_stage_plan_part(stage, plan->stages, b, to).count;
    char *copied = calloc(shard * (size_t)(replicas - 1) + 1, 1);
    assert_non_null(copied);
    for (uint32_t c = 0; c < plan->stages->collective_count; c++) {
        const gp_collective *its = &plan->stages->collectives[c];
        if (its->kind != GP_COLLECTIVE_SCATTER || gp_indices_find(&its->collectors, first + to) < 0) continue;
        gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)(first + to)};
        collect.collective = c;
        gp_move move;
        for (int i = 0; gp_instr_move(plan, &plan->minis[0], &collect, i, &move); i++)
            for (size_t b = 0; b < move.bytes; b++) {
                size_t at = move.offset - stage->base - stage->parts + b;
                assert_true(at < shard * (size_t)(replicas - 1) && !copied[at]);
                copied[at] = 1;
                sum++;
            }
    }
    assert_int_equal(sum, shard * (size_t)(replicas - 1));
    free(copied);
}

/* What replica `to` copies of the sums of others in all buckets, and what it adds up itself, is all gradients once. */
static void check_sums(const gp_plan *plan, int first, int replicas, int to) {
    const gp_stage_plan *stage = &plan->stage[first + to];
    char *copied = calloc(stage->grads_bytes, 1);
    size_t sum = 0;
    assert_non_null(copied);
    for (int b = 0; b < plan->stages->stage[first].buckets; b++) {
        gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)(first + to)};
        collect.collective = (uint32_t)gp_stages_exchange(plan->stages, plan->stages->stage[first].scatter + (size_t)b);
        gp_share bucket = gp_stage_plan_bucket(stage, b, plan->stages->stage[first].buckets);
        gp_share own = gp_stage_plan_part(stage, plan->stages, b, to);
        gp_move moves[8] = {{.offset = stage->base + stage->grads + (size_t)own.first, .bytes = (size_t)own.count}};
        int count = 1;
        while (gp_instr_move(plan, &plan->minis[0], &collect, count - 1, &moves[count])) count++;
        assert_int_equal(count, replicas);
        for (int i = 0; i < count; i++) {
            size_t at = moves[i].offset - stage->base - stage->grads;
            assert_true(moves[i].bytes <= (size_t)bucket.count / (size_t)replicas + GP_ALIGNMENT); /* equal parts */
            assert_true(at >= (size_t)bucket.first && at + moves[i].bytes <= (size_t)(bucket.first + bucket.count));
            for (size_t n = 0; n < moves[i].bytes; n++, sum++) assert_false(copied[at + n]++);
        }
    }
    assert_int_equal(sum, stage->grads_bytes);
    free(copied);
}

static void buckets_carry_each_gradient_once(void **state) {
    (void)state;
    static const replicas_layout its = {1, {17}, {3}};
    for (int shards = 0; shards < 2; shards++)
        for (size_t bucket = 64; bucket <= 4096; bucket *= 4) {
            harness h;
            harness_options options = replicas_options(network_skips, &its);
            options.batch = options.evaluation = 36, options.last = 27;
            options.bucket = bucket;
            options.shard_optimizer = shards;
            harness_plan(&h, &options);
            for (int r = 0; r < 3; r++) {
                check_parts(h.plan, 0, 3, r);
                if (!shards) check_sums(h.plan, 0, 3, r);
            }
            harness_end(&h);
        }
}

/* ---- the validator ----------------------------------------------------------------------------------------------- */

/* Programs without one of their instructions are refused. */
static void lost_instructions_are_refused(void **state) {
    (void)state;
    static const replicas_layout its = {1, {17}, {2}};
    harness h;
    harness_options options = replicas_options(network_skips, &its);
    gp_error err = {0};
    options.bucket = 500;
    harness_plan(&h, &options);
    const gp_programs *all = h.plan->minis[0].programs;
    int tried = 0;
    for (size_t pc = 0; pc < all->worker[0].count; pc++) {
        const gp_instr *lost = &all->worker[0].instrs[pc];
        if (!gp_instr_has_collective(lost) ||
            h.plan->stages->collectives[lost->collective].kind != GP_COLLECTIVE_SCATTER)
            continue;
        gp_programs *less = NULL;
        assert_int_equal(gp_programs_copy(all, &less, &err), GP_OK);
        gp_program *its_program = &less->worker[0];
        memmove(&its_program->instrs[pc], &its_program->instrs[pc + 1],
                (--its_program->count - pc) * sizeof *its_program->instrs);
        assert_int_equal(gp_programs_validate(h.plan->stages, less, &err), GP_PROGRAM);
        const char *rule = lost->op == GP_INSTR_POST      ? "comes before the stage's own post"
                           : lost->op == GP_INSTR_COLLECT ? "must come after the collect of the gradients"
                                                          : "comes before the reduce of its bucket";
        if (!strstr(err.text, rule)) fail_msg("%s", err.text);
        gp_programs_destroy(&less);
        tried++;
    }
    assert_true(tried >= 12);
    harness_end(&h);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    const gp_plan *plan;
    atomic_int collected; /* buckets that replica 1 has copied */
} meeting;

static const gp_collective *scatter_of(const meeting *m, const gp_site *site) {
    if (!gp_instr_joins(site->instr)) return NULL;
    const gp_collective *its = &m->plan->stages->collectives[site->instr->collective];
    return its->kind == GP_COLLECTIVE_SCATTER ? its : NULL;
}

/* Replica 0 stays before its first post until replica 1 has copied that bucket. */
static gp_status hold_up(void *context, const gp_site *site, gp_error *err) {
    meeting *m = context;
    const gp_collective *its = scatter_of(m, site);
    if (site->worker != 0 || !its || its->bucket > 0 || site->instr->op != GP_INSTR_POST) return GP_OK;
    for (int tenth = 0; tenth < 600; tenth++) {
        if (atomic_load(&m->collected) > 0) return GP_OK;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    return gp_fail(err, GP_INTERNAL, "the bucket was not posted within the backward");
}

static gp_status note(void *context, const gp_site *site, gp_error *err) {
    meeting *m = context;
    (void)err;
    if (site->worker == 1 && scatter_of(m, site) && site->instr->op == GP_INSTR_COLLECT)
        atomic_fetch_add(&m->collected, 1);
    return GP_OK;
}

/* A bucket can be copied before its sender has come to the instruction `post`. */
static void a_bucket_is_there_before_its_post(void **state) {
    (void)state;
    static const replicas_layout its = {1, {17}, {2}};
    meeting m = {0};
    harness h;
    gp_error err = {0};
    gp_step_result result;
    harness_options options = replicas_options(network_skips, &its);
    options.bucket = 500;
    harness_plan(&h, &options);
    m.plan = h.plan;
    gp_hooks hooks = {.context = &m, .before = hold_up, .after = note};
    harness_start(&h, &hooks);
    if (harness_step(&h, options.batch, true, 1, &result, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(atomic_load(&m.collected) > 1);
    harness_end(&h);
}

static const gp_collective *sums_of(const meeting *m, const gp_site *site) {
    if (!gp_instr_joins(site->instr)) return NULL;
    const gp_collective *its = &m->plan->stages->collectives[site->instr->collective];
    return gp_collective_has_sums(its) ? its : NULL;
}

/* Replica 0 does not collect the last bucket until replica 1 has the sums of the first one. */
static gp_status hold_up_last(void *context, const gp_site *site, gp_error *err) {
    meeting *m = context;
    const gp_collective *its = scatter_of(m, site);
    if (site->worker != 0 || !its || its->bucket < its->buckets - 1 || site->instr->op != GP_INSTR_COLLECT)
        return GP_OK;
    for (int tenth = 0; tenth < 600; tenth++) {
        if (atomic_load(&m->collected) > 0) return GP_OK;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    return gp_fail(err, GP_INTERNAL, "the sums of the first bucket were not posted before the last one was there");
}

static gp_status note_sums(void *context, const gp_site *site, gp_error *err) {
    meeting *m = context;
    (void)err;
    if (site->worker == 1 && sums_of(m, site) && site->instr->op == GP_INSTR_COLLECT)
        atomic_fetch_add(&m->collected, 1);
    return GP_OK;
}

/* One bucket's sums can be copied while another one's gradients are still under way. */
static void sums_go_bucket_by_bucket(void **state) {
    (void)state;
    static const replicas_layout its = {1, {17}, {2}};
    meeting m = {0};
    harness h;
    gp_error err = {0};
    gp_step_result result;
    harness_options options = replicas_options(network_skips, &its);
    options.bucket = 500;
    harness_plan(&h, &options);
    m.plan = h.plan;
    gp_hooks hooks = {.context = &m, .before = hold_up_last, .after = note_sums};
    harness_start(&h, &hooks);
    if (harness_step(&h, options.batch, true, 1, &result, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(atomic_load(&m.collected) > 1);
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_change_no_bit),
        cmocka_unit_test(cpus_find_the_same),
        cmocka_unit_test(buckets_are_posted_when_they_are_complete),
        cmocka_unit_test(buckets_carry_each_gradient_once),
        cmocka_unit_test(lost_instructions_are_refused),
        cmocka_unit_test(a_bucket_is_there_before_its_post),
        cmocka_unit_test(sums_go_bucket_by_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

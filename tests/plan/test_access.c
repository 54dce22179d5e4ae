/* The table of accesses (schedule/access.h) against the plan's own word for what each instruction touches: in no slot
 * but those that its row names, only as the row says, and every use of every row occurs. The first instruction that
 * touches a slot for a micro-batch begins its lifetime, the last one ends it. */
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
#include "plan/touches.h"
#include "schedule/slots.h"

enum { MAX_STAGES = 5 };

typedef struct cut {
    const char *model;
    int stages;
    int64_t layers[MAX_STAGES];
    gp_schedule schedule;
    gp_checkpoint_mode checkpoint;
    uint64_t keeps;
    int replicas[MAX_STAGES]; /* 0: no stage has replicas */
} cut;

static const cut cuts[] = {
    {network_skips, 3, {2, 6, 9}, {0}, GP_CHECKPOINT_EXCEPT_LAST, 0x5555, {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {0}, GP_CHECKPOINT_NEVER, 0, {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {0}, GP_CHECKPOINT_ALWAYS, 0xAAAA, {0}},
    {network_pictures, 2, {7, 9}, {.kind = GP_SCHEDULE_1F1B}, GP_CHECKPOINT_ALWAYS, 0, {0}},
    {network_vectors, 1, {9}, {0}, GP_CHECKPOINT_EXCEPT_LAST, 0, {0}},
    {network_skips, 4, {3, 5, 4, 5}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, GP_CHECKPOINT_EXCEPT_LAST, 0, {0}},
    {network_pictures, 2, {7, 9}, {.kind = GP_SCHEDULE_ZB_H1}, GP_CHECKPOINT_ALWAYS, 0, {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {.kind = GP_SCHEDULE_ZB_H2}, GP_CHECKPOINT_NEVER, 0, {0}},
    {network_vectors, 4, {1, 2, 4, 2}, {.kind = GP_SCHEDULE_ZB_V}, GP_CHECKPOINT_EXCEPT_LAST, 0, {0}},
    /* Of 3 samples and 2, the last replicas have none. */
    {network_vectors, 3, {2, 3, 4}, {.kind = GP_SCHEDULE_1F1B}, GP_CHECKPOINT_EXCEPT_LAST, 0, {1, 4, 2}},
    {network_skips, 3, {2, 6, 9}, {0}, GP_CHECKPOINT_NEVER, 0, {4, 1, 3}},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

/* By another road than schedule/access.c: which variant of its row an instruction has. */
static gp_access_variant variant_of(const gp_stages *stages, const gp_instr *instr) {
    bool copies = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
    if (copies && stages->edges[instr->edge].kind == GP_EDGE_GRADIENT) return GP_ACCESS_GRADIENT;
    return instr->flags & GP_INSTR_KEEP ? GP_ACCESS_KEEP : GP_ACCESS_PLAIN;
}

/* Uses of all rows that have occurred. */
static unsigned seen[GP_INSTR_OPS][GP_ACCESS_VARIANTS][GP_FRAMES];

static void see(const gp_stages *stages, const gp_instr *instr, int frame, unsigned use) {
    unsigned claimed = gp_instr_accesses(stages, instr).frame[frame].uses;
    char text[GP_INSTR_TEXT];
    if (!(claimed & use))
        fail_msg("%s: %s slot: use %u is not in its row", gp_instr_text(text, instr), gp_frame_name((gp_frame)frame),
                 use);
    seen[instr->op][variant_of(stages, instr)][frame] |= use;
}

/* The slot that a range lies in, in whole; false: it lies outside all slots. */
static bool find_slot(const gp_stage_plan *stage, const arena_touch *touch, int *frame, uint16_t *slot, size_t *start) {
    for (int f = 0; f < GP_FRAMES; f++) {
        size_t base = stage->base + stage->frame_base[f], stride = stage->frame_stride[f];
        if (touch->offset < base || touch->offset >= base + stride * (size_t)stage->slots[f]) continue;
        *frame = f;
        *slot = (uint16_t)((touch->offset - base) / stride);
        *start = base + *slot * stride;
        assert_true(touch->offset + touch->bytes <= *start + stride);
        return true;
    }
    return false;
}

/* What it writes itself and reads later is no read of the slot. */
static void check_touches(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc, char *written) {
    const gp_instr *instr = &mini->programs->worker[worker].instrs[pc];
    arena_touches touches = {0};
    gp_error err = {0};
    memset(written, 0, plan->arena[worker]);
    assert_int_equal(touches_list(plan, mini, worker, pc, &touches, &err), GP_OK);
    for (size_t i = 0; i < touches.count; i++) {
        const arena_touch *touch = &touches.items[i];
        int frame = 0;
        uint16_t slot = 0;
        size_t start = 0;
        if (!mini->training && touch->offset >= plan->evaluation_base[worker]) continue; /* transients */
        if (!find_slot(&plan->stage[instr->stage], touch, &frame, &slot, &start)) continue;
        gp_access access = gp_instr_accesses(plan->stages, instr).frame[frame];
        bool reads = !touch->write && memchr(written + touch->offset, 0, touch->bytes);
        if (touch->write) memset(written + touch->offset, 1, touch->bytes);
        if (touch->write) see(plan->stages, instr, frame, GP_WRITES);
        if (reads) see(plan->stages, instr, frame, instr->op == GP_INSTR_SEND ? GP_SENDS : GP_READS);
        assert_int_equal(gp_instr_get_slot(instr, access), slot);
    }
    free(touches.items);
}

/* For each frame and micro-batch of a stage: the lifetime of its slot. */
typedef struct lifetime {
    bool begun, ended;
    const gp_instr *last; /* the stage's last use, by its row */
} lifetime;

static void check_use(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr, lifetime *lifetimes,
                      gp_life *life) {
    const gp_accesses its = gp_instr_accesses(plan->stages, instr);
    unsigned ends = gp_life_end(plan->stages, mini->programs, instr, life);
    unsigned whole = mini->training ? GP_ENDS : GP_ENDS | GP_ENDS_FORWARD;
    for (int f = 0; f < GP_FRAMES; f++) {
        lifetime *of = &lifetimes[f];
        if (!its.frame[f].uses) {
            assert_false(ends & 1U << f);
            continue;
        }
        if (!of->begun) see(plan->stages, instr, f, GP_BEGINS);
        assert_false(of->ended);
        of->begun = true;
        of->ended = ends & 1U << f;
        if (its.frame[f].uses & whole) of->last = instr;
        if (of->ended) see(plan->stages, of->last, f, gp_instr_accesses(plan->stages, of->last).frame[f].uses & whole);
    }
}

static void check_lifetimes(const gp_plan *plan, const gp_mini_plan *mini, int worker) {
    const gp_program *program = &mini->programs->worker[worker];
    size_t all = (size_t)plan->stages->count * (size_t)mini->pieces;
    lifetime *lifetimes = calloc(all * GP_FRAMES, sizeof *lifetimes);
    gp_life *lives = calloc(all, sizeof *lives);
    assert_non_null(lifetimes);
    assert_non_null(lives);
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        size_t at = instr->stage * (size_t)mini->pieces + instr->micro;
        check_use(plan, mini, instr, &lifetimes[at * GP_FRAMES], &lives[at]);
    }
    for (size_t i = 0; i < all * GP_FRAMES; i++) assert_int_equal(lifetimes[i].begun, lifetimes[i].ended);
    free(lifetimes);
    free(lives);
}

static void check_cut(const cut *c) {
    harness h;
    const harness_options options = {.model = c->model,
                                     .layers = c->layers,
                                     .stages = c->stages,
                                     .schedule = c->schedule,
                                     .replicas = c->replicas[0] ? c->replicas : NULL,
                                     .kind = &gp_ref_kind,
                                     .checkpoint = c->checkpoint,
                                     .keeps = c->keeps,
                                     .micro_batches = 3,
                                     .batch = 8,
                                     .evaluation = 8,
                                     .norms = true};
    harness_plan(&h, &options);
    for (int m = 0; m < h.plan->mini_count; m++) {
        const gp_mini_plan *mini = &h.plan->minis[m];
        for (int w = 0; w < h.plan->workers; w++) {
            char *written = malloc(h.plan->arena[w]);
            assert_non_null(written);
            for (size_t pc = 0; pc < mini->programs->worker[w].count; pc++) check_touches(h.plan, mini, w, pc, written);
            free(written);
            check_lifetimes(h.plan, mini, w);
        }
    }
    harness_end(&h);
}

/* No range of bytes shows GP_BESIDE: test_queues finds waits that are not needed. */
static void test_rows_say_what_happens(void **state) {
    (void)state;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < CUTS; i++) check_cut(&cuts[i]);
    for (int op = 0; op < GP_INSTR_OPS; op++)
        for (int v = 0; v < GP_ACCESS_VARIANTS; v++)
            for (int f = 0; f < GP_FRAMES; f++) {
                unsigned claimed = gp_instr_rows[op].slots[v].frame[f].uses & ~(unsigned)GP_BESIDE;
                if (claimed != seen[op][v][f])
                    fail_msg("%s, variant %d, %s slot: its row says %u, but %u occur", gp_instr_op_name(op), v,
                             gp_frame_name((gp_frame)f), claimed, seen[op][v][f]);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_say_what_happens)};
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}

/* Packing by lifetimes: no two buffers that live at once share a byte, and not much is wasted. */
#include "compile/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

static size_t place(gp_packing *packing, size_t limit, size_t bytes, int64_t first, int64_t last) {
    gp_packed stretch = {.bytes = bytes, .first = first, .last = last};
    gp_error err = {0};
    bool placed = false;
    assert_int_equal(gp_packing_place(packing, limit, &stretch, &placed, &err), GP_OK);
    return placed ? stretch.offset : SIZE_MAX;
}

static void buffers_take_turns(void **state) {
    (void)state;
    gp_packing packing = {0};
    assert_int_equal(place(&packing, SIZE_MAX, 100, 0, 3), 0);
    assert_int_equal(place(&packing, SIZE_MAX, 50, 3, 5), 100); /* both live at 3 */
    assert_int_equal(place(&packing, SIZE_MAX, 80, 4, 9), 0);
    assert_int_equal(place(&packing, SIZE_MAX, 20, 5, 5), 80); /* the gap between those of 4 and 5 */
    assert_int_equal(place(&packing, SIZE_MAX, 30, 5, 5), 150);
    assert_int_equal(packing.high, 180);
    gp_packing_fini(&packing);
}

/* The smallest gap, and none that ends behind the limit. */
static void a_limit_is_kept(void **state) {
    (void)state;
    gp_packing packing = {0};
    gp_error err = {0};
    const gp_packed taken[] = {{60, 40, INT64_MIN, INT64_MAX}, {120, 10, -1, 7}, {0, 30, 8, INT64_MAX}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_int_equal(gp_packing_take(&packing, taken[i], &err), GP_OK);
    assert_int_equal(place(&packing, 130, 20, 0, 7), 100); /* before 8 there are 0 … 60 and 100 … 120 */
    assert_int_equal(place(&packing, 130, 60, 0, 7), 0);
    assert_int_equal(place(&packing, 130, 1, 0, 0), SIZE_MAX);
    assert_int_equal(place(&packing, 130, 31, 8, 8), SIZE_MAX);
    assert_int_equal(place(&packing, 130, 30, 8, 8), 30);
    gp_packing_fini(&packing);
}

/* Any lifetimes, from large to small: apart where they meet, and at most a quarter more than is alive at once. */
static void many_buffers_lie_apart(void **state) {
    (void)state;
    enum { COUNT = 300, TIMES = 60 };
    gp_packed all[COUNT];
    gp_packing packing = {0};
    gp_error err = {0};
    size_t alive[TIMES] = {0}, most = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const gp_philox random = gp_philox_draw(17, (gp_philox){{i}});
        int64_t first = random.word[0] % TIMES, length = random.word[1] % 8;
        all[i] =
            (gp_packed){.bytes = (size_t)(COUNT - i) * 8 + random.word[2] % 8, .first = first, .last = first + length};
        for (int64_t t = first; t <= first + length && t < TIMES; t++) alive[t] += all[i].bytes;
        bool placed = false;
        assert_int_equal(gp_packing_place(&packing, SIZE_MAX, &all[i], &placed, &err), GP_OK);
        assert_true(placed);
    }
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++) {
            bool meet = all[i].first <= all[j].last && all[j].first <= all[i].last;
            bool apart = all[i].offset + all[i].bytes <= all[j].offset || all[j].offset + all[j].bytes <= all[i].offset;
            assert_true(!meet || apart);
        }
    for (int t = 0; t < TIMES; t++)
        if (alive[t] > most) most = alive[t];
    assert_in_range(packing.high, most, most + most / 4);
    gp_packing_fini(&packing);
}

/* ---- of whole stages --------------------------------------------------------------------------------------------- */

/* Units of the saved frame and the transient area, of one micro-batch: forward, then backward. */
typedef struct units {
    size_t saved, count;
    int64_t *written, *read; /* [unit]: time of the last write; of the last read of what that wrote. −1: none */
    size_t *change;          /* [time + 1]: units that begin to live less those that end */
    int64_t time, times;
} units;

static void end_life(units *u, size_t unit) {
    if (u->written[unit] < 0 || u->read[unit] < 0) return;
    u->change[u->written[unit]]++;
    u->change[u->read[unit] + 1]--;
}

static void touch(units *u, gp_address at, size_t bytes, bool reads, bool writes) {
    if (at.area != GP_AREA_SAVED && at.area != GP_AREA_TRANSIENT) return;
    size_t first = (at.offset + (at.area == GP_AREA_TRANSIENT ? u->saved : 0)) / GP_ALIGNMENT;
    for (size_t unit = first; unit * GP_ALIGNMENT < first * GP_ALIGNMENT + bytes; unit++) {
        assert_true(unit < u->count);
        if (reads) u->read[unit] = u->time;
        if (!writes) continue;
        if (!reads || u->written[unit] < 0) {
            if (u->read[unit] == u->time) u->read[unit]--; /* in the place of what it reads */
            end_life(u, unit);
            u->written[unit] = u->time;
        }
        u->read[unit] = u->time;
    }
}

static void follow(units *u, const gp_routine *routine) {
    for (size_t o = 0; o < routine->count; o++, u->time++) {
        const gp_exec_op *op = &routine->ops[o];
        gp_op_kind kind = op->prepared->desc.kind;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < GP_MAX_OPERANDS; i++) {
                bool writes = gp_op_writes(kind, i);
                if (op->operand[i].area != GP_AREA_NONE && writes == (pass == 1))
                    touch(u, op->operand[i], op->prepared->operand[i].bytes, gp_op_reads(kind, i), writes);
            }
        if (op->workspace.area != GP_AREA_NONE) touch(u, op->workspace, op->prepared->workspace, false, true);
    }
}

/* What is alive at once, in units: no packing takes less. */
static size_t most_alive(const gp_stage_plan *stage, const gp_sized *sized) {
    const gp_routine *forward = &sized->routine[GP_ROUTINE_KEEP], *backward = &sized->routine[GP_ROUTINE_BACKWARD];
    units u = {.saved = sized->frame[GP_FRAME_SAVED], .times = (int64_t)(forward->count + backward->count)};
    size_t alive = 0, most = 0;
    u.count = (u.saved + stage->transient + stage->workspace) / GP_ALIGNMENT;
    u.written = malloc((u.count + 1) * sizeof *u.written);
    u.read = malloc((u.count + 1) * sizeof *u.read);
    u.change = calloc((size_t)u.times + 2, sizeof *u.change);
    assert_true(u.written && u.read && u.change);
    for (size_t i = 0; i < u.count; i++) u.written[i] = u.read[i] = -1;
    follow(&u, forward);
    follow(&u, backward);
    for (size_t i = 0; i < u.count; i++) end_life(&u, i);
    for (int64_t t = 0; t <= u.times; t++) {
        alive += u.change[t];
        if (alive > most) most = alive;
    }
    free(u.written);
    free(u.read);
    free(u.change);
    return most;
}

static size_t largest_workspace(const gp_sized *sized) {
    size_t most = 0;
    for (int r = 0; r < GP_ROUTINES; r++)
        for (size_t o = 0; o < sized->routine[r].count; o++)
            if (sized->routine[r].ops[o].prepared->workspace > most)
                most = sized->routine[r].ops[o].prepared->workspace;
    return most;
}

/* A workspace lies in one piece, in free bytes of the saved frame or behind it: so it may come on top. */
static void a_stage_takes_little_more_than_is_alive_at_once(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    const struct {
        const char *model;
        int64_t layers[1];
    } nets[] = {{network_skips, {17}}, {network_pictures, {16}}, {network_vectors, {9}}, {network_pixels, {16}}};
    for (int k = 0; k < 2; k++)
        for (size_t n = 0; n < sizeof nets / sizeof *nets; n++)
            for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
                harness h;
                harness_options options = {.model = nets[n].model,
                                           .layers = nets[n].layers,
                                           .stages = 1,
                                           .kind = kinds[k],
                                           .checkpoint = GP_CHECKPOINT_NEVER,
                                           .micro_batches = micro_batches,
                                           .batch = 32};
                harness_plan(&h, &options);
                const gp_stage_plan *stage = &h.plan->stage[0];
                size_t alive = most_alive(stage, &stage->sized[0]) * GP_ALIGNMENT;
                size_t planned = stage->sized[0].frame[GP_FRAME_SAVED] + stage->transient + stage->workspace;
                if (planned > alive + alive / 10 + largest_workspace(&stage->sized[0]))
                    fail_msg("network %zu on %s, %d micro-batches: %zu bytes are alive at once, and %zu planned", n,
                             kinds[k]->name, micro_batches, alive, planned);
                assert_true(planned >= alive);
                harness_end(&h);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_take_turns),
        cmocka_unit_test(a_limit_is_kept),
        cmocka_unit_test(many_buffers_lie_apart),
        cmocka_unit_test(a_stage_takes_little_more_than_is_alive_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

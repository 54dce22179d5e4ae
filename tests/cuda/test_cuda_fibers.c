/* The fibers that stand for a GPU's threads: that right kernels come out right in every order, and that wrong ones
 * show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "cuda/fiber_kernels.h"
#include "cuda/fibers_run.h"

enum { THREADS = 96, MOST = 5 * THREADS, BLOCKS = 5, SEEDS = 8 };

typedef struct kernel {
    const char *name;
    void (*run)(const void *args);
} kernel;
#define KERNEL(name) ((kernel){#name, name})

static float input(int i) {
    return (float)(i * 37 % 101) - 50;
}

/* Runs the kernel; the result of a text is one where it failed. */
static int run(kernel k, int blocks, gp_fiber_order order, uint64_t seed, unsigned char poison, float y[MOST],
               char text[GP_FIBERS_TEXT]) {
    static float x[BLOCKS * THREADS];
    for (int i = 0; i < BLOCKS * THREADS; i++) x[i] = input(i);
    memset(y, 0, MOST * sizeof *y);
    fiber_args args = {y, x, MOST};
    gp_fiber_run r = {.name = k.name,
                      .kernel = k.run,
                      .args = &args,
                      .grid = {(uint32_t)blocks, 1, 1},
                      .block = THREADS,
                      .order = order,
                      .seed = seed,
                      .poison = poison};
    return gp_fibers_run(&r, text);
}

/* Whether all orders give the same bits; y holds those of the first. */
static bool same_in_all_orders(kernel k, int blocks, float y[MOST]) {
    char text[GP_FIBERS_TEXT];
    float other[MOST];
    bool same = true;
    if (run(k, blocks, GP_FIBERS_ASCENDING, 0, 0xff, y, text) != 0) fail_msg("%s", text);
    if (run(k, blocks, GP_FIBERS_DESCENDING, 0, 0x3f, other, text) != 0) fail_msg("%s", text);
    same = same && memcmp(y, other, sizeof other) == 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (run(k, blocks, GP_FIBERS_RANDOM, seed, 0x3f, other, text) != 0) fail_msg("%s", text);
        same = same && memcmp(y, other, sizeof other) == 0;
    }
    return same;
}

static void test_places(void **state) {
    (void)state;
    static const uint32_t grids[][3] = {{5, 1, 1}, {1, 5, 1}, {2, 1, 2}, {1, 2, 2}};
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        for (int order = 0; order < 3; order++) {
            float y[MOST] = {0};
            char text[GP_FIBERS_TEXT];
            uint32_t blocks = grids[g][0] * grids[g][1] * grids[g][2];
            fiber_args args = {y, NULL, (int)blocks * THREADS - 3};
            gp_fiber_run r = {.name = "places",
                              .kernel = fiber_places,
                              .args = &args,
                              .grid = {grids[g][0], grids[g][1], grids[g][2]},
                              .block = THREADS,
                              .order = (gp_fiber_order)order};
            assert_int_equal(gp_fibers_run(&r, text), 0);
            for (int i = 0; i < MOST; i++)
                assert_true(y[i] == (i < args.count ? (float)(i / THREADS * 1000 + i % THREADS) : 0.0F));
        }
    }
}

static void test_sums(void **state) {
    (void)state;
    float y[MOST];
    assert_true(same_in_all_orders(KERNEL(fiber_sum), BLOCKS, y));
    for (int block = 0; block < BLOCKS; block++) {
        float sum = 0;
        for (int i = 0; i < THREADS; i++) sum += input(block * THREADS + i);
        assert_true(y[block] == sum);
    }
    assert_true(same_in_all_orders(KERNEL(fiber_reuse), 1, y));
    assert_true(same_in_all_orders(KERNEL(fiber_warp), 1, y));
    for (int i = 0; i < THREADS; i++) assert_true(y[i] == input(i ^ 1));
}

static void test_shuffles(void **state) {
    (void)state;
    float y[MOST];
    assert_true(same_in_all_orders(KERNEL(fiber_shuffles), 1, y));
    for (int i = 0; i < THREADS; i++) {
        float whole = 0, before = 0, part = 0;
        for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) whole += input(k);
        for (int k = i / 32 * 32; k <= i; k++) before += input(k);
        for (int k = i / 8 * 8; k < i / 8 * 8 + 8; k++) part += input(k);
        if (i % 32 == 0) assert_true(y[5 * i] == whole);
        assert_true(y[5 * i + 1] == whole && y[5 * i + 2] == before && y[5 * i + 3] == whole && y[5 * i + 4] == part);
    }
}

static void test_missing_barriers_show(void **state) {
    (void)state;
    float y[MOST];
    assert_false(same_in_all_orders(KERNEL(fiber_sum_no_barrier), BLOCKS, y));
    assert_false(same_in_all_orders(KERNEL(fiber_reuse_no_barrier), 1, y));
    assert_false(same_in_all_orders(KERNEL(fiber_warp_no_barrier), 1, y));
    assert_false(same_in_all_orders(KERNEL(fiber_unwritten), 1, y));
}

static void test_wrong_threads(void **state) {
    (void)state;
    static const struct {
        kernel kernel;
        const char *words;
    } wrong[] = {
        {{"half_barrier", fiber_half_barrier}, "is at __syncthreads in "},
        {{"early_exit", fiber_early_exit}, "thread 95 has left"},
        {{"half_shuffle", fiber_half_shuffle}, "thread 33 has left"},
        {{"two_barriers", fiber_two_barriers}, "is at __syncthreads in "},
        {{"misaligned", fiber_misaligned}, "is at __stwb to an address that is no multiple of its size in "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (int order = 0; order < 3; order++) {
            float y[MOST];
            char text[GP_FIBERS_TEXT] = "";
            assert_int_equal(run(wrong[i].kernel, 2, (gp_fiber_order)order, 3, 0xff, y, text), -1);
            if (!strstr(text, wrong[i].words) || !strstr(text, wrong[i].kernel.name)) fail_msg("%s", text);
            /* What was left standing does no harm to what comes next. */
            if (run(KERNEL(fiber_sum), BLOCKS, (gp_fiber_order)order, 3, 0xff, y, text) != 0) fail_msg("%s", text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_shuffles),      cmocka_unit_test(test_missing_barriers_show),
        cmocka_unit_test(test_wrong_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

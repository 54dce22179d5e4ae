#include "device/op_commit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/op_bench.h"

enum { ROWS = 96, WIDTH = 3, MOST_PIECES = 8 };

/* Rounding to the nearest float changes a number by at most this share of it. */
static const double unit = 0x1p-24;

/* f32 sums go over ROWS numbers at most. Squared differences: ROWS roundings. The mean of a piece is off by ROWS
 * roundings of the mean difference, which counts twice between pieces. Two more: a piece's variance, the result. */
static const double bound = (3 * ROWS + 2) * 0x1p-24;

static void fill(double *x) {
    uint64_t state = 7;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        double sum = 0; /* of twelve uniform numbers: deviation 1 */
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            sum += (double)(state >> 40) * 0x1p-24;
        }
        x[i] = (double)(float)(1e5 + sum - 6);
    }
}

/* Statistics of rows [first, first+count), to one piece of the commit's. */
static void find_piece(const gp_device_kind *kind, const double *x, int64_t first, int64_t count, double *stats) {
    op_bench b;
    op_bench_init(&b, kind, GP_OP_NORM_STATISTICS);
    b.op_case.desc.attributes.norm.eps = 1e-5;
    op_bench_set(&b, GP_NORM_STATISTICS_X, op_plain(GP_F32, 2, count, WIDTH, 0, 0), x + first * WIDTH);
    op_bench_set(&b, GP_NORM_STATISTICS_STATS, op_plain(GP_F32, 2, 3, WIDTH, 0, 0), NULL);
    op_bench_run(&b);
    for (int i = 0; i < 3 * WIDTH; i++) stats[i] = op_bench_get(&b, GP_NORM_STATISTICS_STATS, i);
    op_bench_fini(&b);
}

static void expect_exact(const op_bench *commit, const double *x) {
    for (int c = 0; c < WIDTH; c++) {
        double mean = 0, squares = 0;
        for (int r = 0; r < ROWS; r++) mean += (x[r * WIDTH + c] - 1e5) / ROWS;
        for (int r = 0; r < ROWS; r++) squares += pow(x[r * WIDTH + c] - 1e5 - mean, 2);
        double found_mean = op_bench_get(commit, GP_NORM_COMMIT_MEAN, c);
        double found = op_bench_get(commit, GP_NORM_COMMIT_VARIANCE, c), variance = squares / (ROWS - 1);
        assert_true(fabs(found_mean / (1e5 + mean) - 1) <= 2 * unit);
        if (!(fabs(found / variance - 1) <= bound)) {
            fail_msg("%lld pieces, channel %d: variance %.9g is %.9g, which is off by %.2g",
                     (long long)commit->op_case.desc.operand[GP_NORM_COMMIT_STATS].dim[0], c, variance, found,
                     fabs(found / variance - 1));
        }
    }
}

static void check_pieces(const gp_device_kind *kind, const double *x, int64_t rows_full) {
    double stats[MOST_PIECES * 3 * WIDTH];
    int64_t pieces = (ROWS + rows_full - 1) / rows_full, last = ROWS - (pieces - 1) * rows_full;
    for (int64_t p = 0; p < pieces; p++)
        find_piece(kind, x, p * rows_full, p == pieces - 1 ? last : rows_full, stats + p * 3 * WIDTH);
    op_bench b;
    op_bench_init(&b, kind, GP_OP_NORM_COMMIT);
    b.op_case.desc.attributes.norm =
        (gp_norm_attributes){.eps = 1e-5, .momentum = 1, .rows_full = rows_full, .rows_last = last};
    op_bench_scalars(&b, GP_NORM_COMMIT_SCALARS, (gp_step_scalars){.finite = 1});
    op_bench_set(&b, GP_NORM_COMMIT_STATS, op_plain(GP_F32, 3, pieces, 3, WIDTH, 0), stats);
    op_bench_set(&b, GP_NORM_COMMIT_MEAN, op_plain(GP_F32, 1, WIDTH, 0, 0, 0), (const double[WIDTH]){0});
    op_bench_set(&b, GP_NORM_COMMIT_VARIANCE, op_plain(GP_F32, 1, WIDTH, 0, 0, 0), (const double[WIDTH]){0});
    op_bench_run(&b);
    expect_exact(&b, x);
    op_bench_fini(&b);
}

void check_large_mean_commit(const gp_device_kind *kind) {
    static const int64_t rows_full[] = {ROWS, ROWS / 2, ROWS / 4, 29, 14};
    double x[ROWS * WIDTH];
    fill(x);
    for (size_t i = 0; i < sizeof rows_full / sizeof rows_full[0]; i++) check_pieces(kind, x, rows_full[i]);
}

/* Norms of each sample alone. */
#include <math.h>

#include "device/cpu/cpu_column.h"
#include "device/cpu/loops/loops.h"

/* Columns are channels. What a thread does at once is an item: a group of one sample, in tiles of columns, or as many
 * whole groups as fit one tile. Sums run in f64 down the rows of each column, then over the columns of a group. */
typedef struct group_loop {
    gp_cpu_views at;
    gp_cpu_view to; /* what is written, of x's dimensions */
    int64_t rows;   /* of a sample */
    int64_t groups; /* of a sample */
    int64_t width;  /* of a group */
    int64_t groups_of_item, items_of_sample;
    double eps;
    double *partial; /* backward_weights: [blocks, 2, columns] */
    bool accumulate;
} group_loop;

static void begin(const gp_cpu_call *call, group_loop *loop) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_cpu_find_views(call, &loop->at);
    loop->to = loop->at.y.at ? loop->at.y : loop->at.dx;
    loop->groups = desc->attributes.group_norm.groups;
    loop->eps = desc->attributes.group_norm.eps;
    loop->partial = call->workspace;
    loop->accumulate = desc->flags & GP_OP_ACCUMULATE;
    loop->rows = loop->at.x.rows.count / desc->operand[0].dim[0];
    loop->width = loop->at.x.rows.width / loop->groups;
    loop->groups_of_item = loop->width < GP_COLUMN_TILE ? GP_COLUMN_TILE / loop->width : 1;
    loop->items_of_sample = (loop->groups + loop->groups_of_item - 1) / loop->groups_of_item;
}

static float *stats_at(const group_loop *loop, int64_t sample, int64_t group) {
    return loop->at.stats.at + (sample * loop->groups + group) * loop->at.stats.rows.pitch;
}

typedef struct group_item {
    int64_t sample, group, groups;
    int64_t column, columns; /* of all its groups */
    int64_t elements;        /* of one group */
    int64_t row;             /* first */
} group_item;

static group_item item_at(const group_loop *loop, int64_t i) {
    group_item item = {.sample = i / loop->items_of_sample};
    item.group = i % loop->items_of_sample * loop->groups_of_item;
    int64_t left = loop->groups - item.group;
    item.groups = left < loop->groups_of_item ? left : loop->groups_of_item;
    item.column = item.group * loop->width;
    item.columns = item.groups * loop->width;
    item.elements = loop->rows * loop->width;
    item.row = item.sample * loop->rows;
    return item;
}

/* A tile of an item's columns. */
typedef struct tile {
    int64_t column, columns;
    int64_t first; /* of its columns, counted from the item's */
} tile;

static bool next_tile(const group_item *item, tile *t) {
    t->first += t->columns;
    t->column = item->column + t->first;
    int64_t left = item->columns - t->first;
    t->columns = left < GP_COLUMN_TILE ? left : GP_COLUMN_TILE;
    return left > 0;
}

/* Every column's share of what each of the item's groups has. */
static void spread(const group_loop *loop, const group_item *item, const tile *t, const double *of_group,
                   double *of_column) {
    if (item->groups == 1) {
        for (int64_t c = 0; c < t->columns; c++) of_column[c] = of_group[0];
        return;
    }
    for (int64_t g = 0; g < item->groups; g++)
        for (int64_t c = 0; c < loop->width; c++) of_column[g * loop->width + c] = of_group[g];
}

static double sum_of(const double *values, int64_t count) {
    double lane[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int l = 0; l < 4; l++) lane[l] += values[i + l];
    for (; i < count; i++) lane[0] += values[i];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* The reverse: adds up the columns of each group. */
static void gather(const group_loop *loop, const group_item *item, const tile *t, const double *of_column,
                   double *of_group) {
    if (item->groups == 1) {
        of_group[0] += sum_of(of_column, t->columns);
        return;
    }
    for (int64_t g = 0; g < item->groups; g++) of_group[g] += sum_of(of_column + g * loop->width, loop->width);
}

/* Forward: the mean, then the squares of what is left, then y. */

static void find_means(const group_loop *loop, const group_item *item, double mean[GP_COLUMN_TILE]) {
    for (int64_t g = 0; g < item->groups; g++) mean[g] = 0;
    for (tile t = {0}; next_tile(item, &t);) {
        double sum[GP_COLUMN_TILE] = {0};
        for (int64_t r = 0; r < loop->rows; r++) {
            const float *x = loop->at.x.at + (item->row + r) * loop->at.x.rows.pitch + t.column;
            for (int64_t c = 0; c < t.columns; c++) sum[c] += (double)x[c];
        }
        gather(loop, item, &t, sum, mean);
    }
    for (int64_t g = 0; g < item->groups; g++) mean[g] /= (double)item->elements;
}

static void find_inverses(const group_loop *loop, const group_item *item, const double mean[GP_COLUMN_TILE],
                          double inverse[GP_COLUMN_TILE]) {
    double center[GP_COLUMN_TILE];
    for (int64_t g = 0; g < item->groups; g++) inverse[g] = 0;
    for (tile t = {0}; next_tile(item, &t);) {
        double squares[GP_COLUMN_TILE] = {0};
        spread(loop, item, &t, mean, center);
        for (int64_t r = 0; r < loop->rows; r++) {
            const float *x = loop->at.x.at + (item->row + r) * loop->at.x.rows.pitch + t.column;
            for (int64_t c = 0; c < t.columns; c++) {
                double difference = (double)x[c] - center[c];
                squares[c] += difference * difference;
            }
        }
        gather(loop, item, &t, squares, inverse);
    }
    for (int64_t g = 0; g < item->groups; g++) inverse[g] = 1 / sqrt(inverse[g] / (double)item->elements + loop->eps);
}

/* y = (x − m)·scale + shift, with the mean's rounding to m made up for in the shift. */
static void apply_tile(const group_loop *loop, const group_item *item, const tile *t, const double *mean,
                       const double *inverse) {
    double center[GP_COLUMN_TILE], factor[GP_COLUMN_TILE];
    float m[GP_COLUMN_TILE], scale[GP_COLUMN_TILE], shift[GP_COLUMN_TILE];
    spread(loop, item, t, mean, center);
    spread(loop, item, t, inverse, factor);
    for (int64_t c = 0; c < t->columns; c++) {
        if (loop->at.gamma.at) factor[c] *= (double)loop->at.gamma.at[t->column + c];
        m[c] = (float)center[c];
        scale[c] = (float)factor[c];
        shift[c] = (float)(((double)m[c] - center[c]) * factor[c] +
                           (loop->at.beta.at ? (double)loop->at.beta.at[t->column + c] : 0));
    }
    for (int64_t r = 0; r < loop->rows; r++) {
        const float *x = loop->at.x.at + (item->row + r) * loop->at.x.rows.pitch + t->column;
        float *y = loop->to.at + (item->row + r) * loop->to.rows.pitch + t->column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < t->columns; c++) y[c] = (x[c] - m[c]) * scale[c] + shift[c];
    }
}

static void forward_items(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        double mean[GP_COLUMN_TILE], inverse[GP_COLUMN_TILE];
        group_item item = item_at(loop, i);
        find_means(loop, &item, mean);
        find_inverses(loop, &item, mean, inverse);
        for (tile t = {0}; next_tile(&item, &t);) apply_tile(loop, &item, &t, mean, inverse);
        for (int64_t g = 0; g < item.groups && loop->at.stats.at; g++) {
            float *stats = stats_at(loop, item.sample, item.group + g);
            stats[0] = (float)mean[g];
            stats[1] = (float)inverse[g];
        }
    }
}

static void run_items(const gp_cpu_call *call, gp_cpu_range range) {
    group_loop loop;
    begin(call, &loop);
    int64_t items = loop.at.x.rows.count / loop.rows * loop.items_of_sample;
    gp_cpu_pool_for(call->pool, items, gp_cpu_grain(loop.rows * loop.width * loop.groups_of_item), range, &loop);
}

static void run_group_norm_forward(const gp_cpu_call *call) {
    run_items(call, forward_items);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_forward) = {.compute = run_group_norm_forward};

/* Gradient of the input, with g = dy·gamma and k elements in a group: dx = d·(g − Σg/k − (x−m)·d²·Σg·(x−m)/k). */

static void find_sums(const group_loop *loop, const group_item *item, const double *mean, double sum[GP_COLUMN_TILE],
                      double product[GP_COLUMN_TILE]) {
    double center[GP_COLUMN_TILE];
    for (int64_t g = 0; g < item->groups; g++) sum[g] = product[g] = 0;
    for (tile t = {0}; next_tile(item, &t);) {
        double sums[GP_COLUMN_TILE] = {0}, products[GP_COLUMN_TILE] = {0};
        spread(loop, item, &t, mean, center);
        for (int64_t r = 0; r < loop->rows; r++) {
            const float *x = loop->at.x.at + (item->row + r) * loop->at.x.rows.pitch + t.column;
            const float *dy = loop->at.dy.at + (item->row + r) * loop->at.dy.rows.pitch + t.column;
            for (int64_t c = 0; c < t.columns; c++) {
                sums[c] += (double)dy[c];
                products[c] += (double)dy[c] * ((double)x[c] - center[c]);
            }
        }
        for (int64_t c = 0; c < t.columns && loop->at.gamma.at; c++) {
            sums[c] *= (double)loop->at.gamma.at[t.column + c];
            products[c] *= (double)loop->at.gamma.at[t.column + c];
        }
        gather(loop, item, &t, sums, sum);
        gather(loop, item, &t, products, product);
    }
}

/* dx = d·(dy·gamma − shift − (x − m)·slope): what cancels does so before it is multiplied by d, which may be large. */
static void backward_tile(const group_loop *loop, const group_item *item, const tile *t, const double *mean,
                          const double *inverse, const double *sum, const double *product) {
    double column[4][GP_COLUMN_TILE];
    const double *each[4] = {mean, inverse, sum, product};
    float m[GP_COLUMN_TILE], d[GP_COLUMN_TILE], gamma[GP_COLUMN_TILE], shift[GP_COLUMN_TILE], slope[GP_COLUMN_TILE];
    for (int i = 0; i < 4; i++) spread(loop, item, t, each[i], column[i]);
    for (int64_t c = 0; c < t->columns; c++) {
        m[c] = (float)column[0][c];
        d[c] = (float)column[1][c];
        gamma[c] = loop->at.gamma.at ? loop->at.gamma.at[t->column + c] : 1;
        shift[c] = (float)(column[2][c] / (double)item->elements);
        slope[c] = (float)(column[1][c] * column[1][c] * column[3][c] / (double)item->elements);
    }
    for (int64_t r = 0; r < loop->rows; r++) {
        const float *x = loop->at.x.at + (item->row + r) * loop->at.x.rows.pitch + t->column;
        const float *dy = loop->at.dy.at + (item->row + r) * loop->at.dy.rows.pitch + t->column;
        float *dx = loop->to.at + (item->row + r) * loop->to.rows.pitch + t->column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < t->columns; c++)
            dx[c] = d[c] * (dy[c] * gamma[c] - shift[c] - (x[c] - m[c]) * slope[c]);
    }
}

static void backward_items(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        double mean[GP_COLUMN_TILE], inverse[GP_COLUMN_TILE], sum[GP_COLUMN_TILE], product[GP_COLUMN_TILE];
        group_item item = item_at(loop, i);
        for (int64_t g = 0; g < item.groups; g++) {
            mean[g] = (double)stats_at(loop, item.sample, item.group + g)[0];
            inverse[g] = (double)stats_at(loop, item.sample, item.group + g)[1];
        }
        find_sums(loop, &item, mean, sum, product);
        for (tile t = {0}; next_tile(&item, &t);) backward_tile(loop, &item, &t, mean, inverse, sum, product);
    }
}

static void run_group_norm_backward_data(const gp_cpu_call *call) {
    run_items(call, backward_items);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_backward_data) = {.compute = run_group_norm_backward_data};

/* Gradients of gamma and beta: over the rows of all samples, in blocks, then the blocks in their order. */

/* Mean and 1/deviation of columns [column, column+columns) of one sample. */
static void load_stats(const group_loop *loop, int64_t sample, int64_t column, int64_t columns, float *mean,
                       float *inverse) {
    int64_t group = column / loop->width;
    for (int64_t c = 0; c < columns; group++) {
        int64_t last = (group + 1) * loop->width - column;
        const float *stats = stats_at(loop, sample, group);
        for (; c < columns && c < last; c++) {
            mean[c] = stats[0];
            inverse[c] = stats[1];
        }
    }
}

static void weights_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const group_loop *loop = context;
    double products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    float mean[GP_COLUMN_TILE] = {0}, inverse[GP_COLUMN_TILE] = {0};
    int64_t sample = -1;
    for (int64_t r = row; r < row + rows; r++) {
        if (r / loop->rows != sample) {
            sample = r / loop->rows;
            load_stats(loop, sample, column, columns, mean, inverse);
        }
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch + column,
                    *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch + column;
        for (int64_t c = 0; c < columns; c++) {
            products[c] += (double)(dy[c] * ((x[c] - mean[c]) * inverse[c]));
            sums[c] += (double)dy[c];
        }
    }
    double *partial = loop->partial + block * 2 * loop->at.x.rows.width + column;
    for (int64_t c = 0; c < columns; c++) {
        partial[c] = products[c];
        partial[loop->at.x.rows.width + c] = sums[c];
    }
}

static void merge_weights(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->at.x.rows.count), width = loop->at.x.rows.width;
    for (int64_t c = begin; c < end; c++) {
        double product = loop->accumulate ? (double)loop->at.dgamma.at[c] : 0;
        double sum = loop->accumulate ? (double)loop->at.dbeta.at[c] : 0;
        for (int64_t b = 0; b < blocks; b++) {
            product += loop->partial[b * 2 * width + c];
            sum += loop->partial[(b * 2 + 1) * width + c];
        }
        loop->at.dgamma.at[c] = (float)product;
        loop->at.dbeta.at[c] = (float)sum;
    }
}

static void run_group_norm_backward_weights(const gp_cpu_call *call) {
    group_loop loop;
    begin(call, &loop);
    gp_cpu_column_blocks(call->pool, loop.at.x.rows.count, loop.at.x.rows.width, weights_block, &loop);
    gp_cpu_pool_for(call->pool, loop.at.x.rows.width, GP_COLUMN_TILE, merge_weights, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_backward_weights) = {.compute = run_group_norm_backward_weights};

/* Norms of each sample alone: of pictures, whose columns are channels, and of rows that lie alone, as of layer norm. */
#include <math.h>

#include "device/cpu/loops/columns.h"
#include "device/cpu/loops/span.h"

/* What a thread does at once is an item: one sample, and either a group or as many whole groups as fit a tile. Sums run
 * down the rows of each column in blocks (columns.h), then over the columns of a group in f64. */
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

enum { TILE = 256 }; /* columns that are done together */
_Static_assert((int)TILE <= (int)GP_COLUMN_WIDE, "blocks of columns.h hold a tile");

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
    loop->groups_of_item = loop->width < TILE ? TILE / loop->width : 1;
    if (loop->groups_of_item > loop->groups) loop->groups_of_item = loop->groups;
    loop->items_of_sample = (loop->groups + loop->groups_of_item - 1) / loop->groups_of_item;
}

static float *stats_at(const group_loop *loop, int64_t sample, int64_t group) {
    return loop->at.stats.at + (sample * loop->groups + group) * loop->at.stats.rows.pitch;
}

static const float *row_of(const gp_cpu_view *view, int64_t row, int64_t column) {
    return view->at + row * view->rows.pitch + column;
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

/* A tile of an item's columns: all of them, or a part of its only group. */
typedef struct tile {
    int64_t column, columns;
    int64_t first; /* of its columns, counted from the item's */
} tile;

static bool next_tile(const group_item *item, tile *t) {
    t->first += t->columns;
    t->column = item->column + t->first;
    int64_t left = item->columns - t->first;
    t->columns = left < TILE ? left : TILE;
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

/* Forward. */

/* Mean and squares of each column of a tile, over the rows of the sample. */
static void column_statistics(const group_loop *loop, const group_item *item, const tile *t, double *mean,
                              double *squares) {
    for (int64_t row = 0; row < loop->rows; row += GP_COLUMN_ROWS) {
        double its_mean[TILE], its_squares[TILE];
        int64_t more = loop->rows - row < GP_COLUMN_ROWS ? loop->rows - row : GP_COLUMN_ROWS;
        bool first = row == 0;
        gp_block_statistics(row_of(&loop->at.x, item->row + row, t->column), loop->at.x.rows.pitch, more, t->columns,
                            first ? mean : its_mean, first ? squares : its_squares);
        if (!first) gp_merge_statistics(mean, squares, (double)row, its_mean, its_squares, (double)more, t->columns);
    }
}

/* Joins columns of one group, of which `before` elements are known. */
static void join_columns(const group_loop *loop, const double *mean, const double *squares, int64_t columns,
                         double before, double *group_mean, double *group_squares) {
    double middle = sum_of(mean, columns) / (double)columns, rest[TILE];
    for (int64_t c = 0; c < columns; c++) rest[c] = (mean[c] - middle) * (mean[c] - middle);
    double all = sum_of(squares, columns) + (double)loop->rows * sum_of(rest, columns);
    gp_merge_statistics(group_mean, group_squares, before, &middle, &all, (double)(columns * loop->rows), 1);
}

static void find_statistics(const group_loop *loop, const group_item *item, double *mean, double *inverse) {
    double squares[TILE];
    for (int64_t g = 0; g < item->groups; g++) mean[g] = squares[g] = 0;
    for (tile t = {0}; next_tile(item, &t);) {
        double column_mean[TILE], column_squares[TILE];
        column_statistics(loop, item, &t, column_mean, column_squares);
        for (int64_t g = 0; g < item->groups; g++) {
            int64_t first = g * loop->width, columns = item->groups == 1 ? t.columns : loop->width;
            join_columns(loop, column_mean + first, column_squares + first, columns, (double)(t.first * loop->rows),
                         &mean[g], &squares[g]);
        }
    }
    for (int64_t g = 0; g < item->groups; g++) inverse[g] = 1 / sqrt(squares[g] / (double)item->elements + loop->eps);
}

static inline void apply_lanes(const group_loop *loop, const float *x, float *y, int64_t rows, const float *m,
                               const float *scale, const float *shift, int64_t vectors, int64_t lanes) {
    for (int64_t r = 0; r < rows; r++, x += loop->at.x.rows.pitch, y += loop->to.rows.pitch) {
        for (int64_t v = 0; v < vectors; v++) {
            int64_t c = v * GP_WIDE;
            gp_wide difference = gp_wide_load(x + c, lanes) - gp_wide_load(m + c, lanes);
            gp_wide_store(y + c, difference * gp_wide_load(scale + c, lanes) + gp_wide_load(shift + c, lanes), lanes);
        }
    }
}

/* y = (x − m)·scale + shift, with the mean's rounding to m made up for in the shift. */
static void apply_tile(const group_loop *loop, const group_item *item, const tile *t, const double *mean,
                       const double *inverse) {
    double center[TILE], factor[TILE];
    float m[TILE], scale[TILE], shift[TILE];
    int64_t columns = t->columns;
    spread(loop, item, t, mean, center);
    spread(loop, item, t, inverse, factor);
    for (int64_t c = 0; c < columns; c++) {
        if (loop->at.gamma.at) factor[c] *= (double)loop->at.gamma.at[t->column + c];
        m[c] = (float)center[c];
        scale[c] = (float)factor[c];
        shift[c] = (float)(((double)m[c] - center[c]) * factor[c] +
                           (loop->at.beta.at ? (double)loop->at.beta.at[t->column + c] : 0));
    }
    for (int64_t row = 0; row < loop->rows; row += GP_ROWS_AT_ONCE) {
        int64_t rows = loop->rows - row < GP_ROWS_AT_ONCE ? loop->rows - row : GP_ROWS_AT_ONCE, c = 0;
        const float *x = row_of(&loop->at.x, item->row + row, t->column);
        float *y = loop->to.at + (item->row + row) * loop->to.rows.pitch + t->column;
        for (; c + GP_FEW <= columns; c += GP_FEW)
            apply_lanes(loop, x + c, y + c, rows, m + c, scale + c, shift + c, GP_VECTORS, GP_WIDE);
        for (; c + GP_WIDE <= columns; c += GP_WIDE)
            apply_lanes(loop, x + c, y + c, rows, m + c, scale + c, shift + c, 1, GP_WIDE);
        for (; c + GP_WIDE / 2 <= columns; c += GP_WIDE / 2)
            apply_lanes(loop, x + c, y + c, rows, m + c, scale + c, shift + c, 1, GP_WIDE / 2);
        for (; c < columns; c++)
            for (int64_t r = 0; r < rows; r++)
                y[r * loop->to.rows.pitch + c] = (x[r * loop->at.x.rows.pitch + c] - m[c]) * scale[c] + shift[c];
    }
}

static void store_stats(const group_loop *loop, int64_t sample, int64_t group, double mean, double inverse) {
    if (!loop->at.stats.at) return;
    float *stats = stats_at(loop, sample, group);
    stats[0] = (float)mean;
    stats[1] = (float)inverse;
}

static void forward_items(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        double mean[TILE], inverse[TILE];
        group_item item = item_at(loop, i);
        find_statistics(loop, &item, mean, inverse);
        for (tile t = {0}; next_tile(&item, &t);) apply_tile(loop, &item, &t, mean, inverse);
        for (int64_t g = 0; g < item.groups; g++) store_stats(loop, item.sample, item.group + g, mean[g], inverse[g]);
    }
}

/* Samples of one row: a group lies in one piece. Items are groups. */

/* y = ((x − m)·d + rest)·gamma + beta, where rest makes up for the mean's rounding to m. */
static void apply_span(const group_loop *loop, int64_t item, const float *x, double mean, double squares) {
    int64_t width = loop->width, row = item / loop->groups, group = item % loop->groups, column = group * width;
    const float *gamma = loop->at.gamma.at, *beta = loop->at.beta.at;
    float *y = loop->to.at + row * loop->to.rows.pitch + column;
    double inverse = 1 / sqrt(squares / (double)width + loop->eps);
    float m = (float)mean, d = (float)inverse, rest = (float)(((double)m - mean) * inverse);
    GP_INDEPENDENT
    for (int64_t c = 0; c < width; c++) {
        float value = (x[c] - m) * d + rest;
        if (gamma) value *= gamma[column + c];
        if (beta) value += beta[column + c];
        y[c] = value;
    }
    store_stats(loop, row, group, mean, inverse);
}

static inline void apply_spans(const group_loop *loop, int64_t item, int64_t spans) {
    const float *x[GP_SPANS];
    double mean[GP_SPANS], squares[GP_SPANS];
    for (int64_t s = 0; s < spans; s++)
        x[s] = row_of(&loop->at.x, (item + s) / loop->groups, (item + s) % loop->groups * loop->width);
    gp_span_statistics(x, spans, loop->width, mean, squares);
    for (int64_t s = 0; s < spans; s++) apply_span(loop, item + s, x[s], mean[s], squares[s]);
}

static void forward_spans(void *context, int64_t begin, int64_t end) {
    for (; begin + GP_SPANS <= end; begin += GP_SPANS) apply_spans(context, begin, GP_SPANS);
    for (; begin < end; begin++) apply_spans(context, begin, 1);
}

/* Items, or single groups where a sample is one row. */
static void run_items(const gp_cpu_call *call, gp_cpu_range items, gp_cpu_range spans) {
    group_loop loop;
    begin(call, &loop);
    int64_t samples = loop.at.x.rows.count / loop.rows;
    if (loop.rows == 1) {
        gp_cpu_pool_for(call->pool, samples * loop.groups, gp_cpu_grain(loop.width), spans, &loop);
        return;
    }
    int64_t work = loop.rows * loop.width * loop.groups_of_item;
    gp_cpu_pool_for(call->pool, samples * loop.items_of_sample, gp_cpu_grain(work), items, &loop);
}

static void run_group_norm_forward(const gp_cpu_call *call) {
    run_items(call, forward_items, forward_spans);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_forward) = {.compute = run_group_norm_forward};

/* Gradient of the input, with g = dy·gamma and k elements in a group: dx = d·(g − Σg/k − (x−m)·d²·Σg·(x−m)/k). */

/* Σ dy·(x − m) and Σ dy of each column of a tile, over the rows of the sample. */
static void column_gradients(const group_loop *loop, const group_item *item, const tile *t, const float *center,
                             double *products, double *sums) {
    for (int64_t c = 0; c < t->columns; c++) products[c] = sums[c] = 0;
    for (int64_t row = 0; row < loop->rows; row += GP_COLUMN_ROWS) {
        double its_products[TILE], its_sums[TILE];
        int64_t rows = loop->rows - row < GP_COLUMN_ROWS ? loop->rows - row : GP_COLUMN_ROWS;
        gp_gradients its = {.x = row_of(&loop->at.x, item->row + row, t->column),
                            .dy = row_of(&loop->at.dy, item->row + row, t->column),
                            .x_pitch = loop->at.x.rows.pitch,
                            .dy_pitch = loop->at.dy.rows.pitch,
                            .mean = center};
        gp_block_gradients(&its, GP_THROUGH_ALL, rows, t->columns, its_products, its_sums);
        for (int64_t c = 0; c < t->columns; c++) products[c] += its_products[c];
        for (int64_t c = 0; c < t->columns; c++) sums[c] += its_sums[c];
    }
}

static void find_sums(const group_loop *loop, const group_item *item, const double *mean, double *sum,
                      double *product) {
    for (int64_t g = 0; g < item->groups; g++) sum[g] = product[g] = 0;
    for (tile t = {0}; next_tile(item, &t);) {
        double sums[TILE], products[TILE], wide[TILE];
        float center[TILE];
        spread(loop, item, &t, mean, wide);
        for (int64_t c = 0; c < t.columns; c++) center[c] = (float)wide[c];
        column_gradients(loop, item, &t, center, products, sums);
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
                          const double *inverse, const double *its_shift, const double *its_slope) {
    double column[4][TILE];
    const double *each[4] = {mean, inverse, its_shift, its_slope};
    float m[TILE], d[TILE], gamma[TILE], shift[TILE], slope[TILE];
    int64_t columns = t->columns;
    for (int i = 0; i < 4; i++) spread(loop, item, t, each[i], column[i]);
    for (int64_t c = 0; c < columns; c++) {
        m[c] = (float)column[0][c];
        d[c] = (float)column[1][c];
        gamma[c] = loop->at.gamma.at ? loop->at.gamma.at[t->column + c] : 1;
        shift[c] = (float)column[2][c];
        slope[c] = (float)column[3][c];
    }
    for (int64_t r = 0; r < loop->rows; r++) {
        const float *x = row_of(&loop->at.x, item->row + r, t->column);
        const float *dy = row_of(&loop->at.dy, item->row + r, t->column);
        float *dx = loop->to.at + (item->row + r) * loop->to.rows.pitch + t->column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < columns; c++) dx[c] = d[c] * (dy[c] * gamma[c] - shift[c] - (x[c] - m[c]) * slope[c]);
    }
}

static void backward_items(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        double mean[TILE], inverse[TILE], sum[TILE], product[TILE], shift[TILE], slope[TILE];
        group_item item = item_at(loop, i);
        for (int64_t g = 0; g < item.groups; g++) {
            mean[g] = (double)stats_at(loop, item.sample, item.group + g)[0];
            inverse[g] = (double)stats_at(loop, item.sample, item.group + g)[1];
        }
        find_sums(loop, &item, mean, sum, product);
        for (int64_t g = 0; g < item.groups; g++) {
            shift[g] = sum[g] / (double)item.elements;
            slope[g] = inverse[g] * inverse[g] * product[g] / (double)item.elements;
        }
        for (tile t = {0}; next_tile(&item, &t);) backward_tile(loop, &item, &t, mean, inverse, shift, slope);
    }
}

/* Samples of one row. Items are groups. */

static void backward_span(const group_loop *loop, int64_t item, const gp_gradient_span *span, double product,
                          double sum) {
    int64_t width = loop->width, row = item / loop->groups, group = item % loop->groups;
    const float *x = span->x, *dy = span->dy, *gamma = span->gamma;
    float *dx = loop->to.at + row * loop->to.rows.pitch + group * width;
    float m = span->mean, d = stats_at(loop, row, group)[1];
    float shift = (float)(sum / (double)width);
    float slope = (float)((double)d * (double)d * product / (double)width);
    if (gamma) {
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) dx[c] = d * (dy[c] * gamma[c] - shift - (x[c] - m) * slope);
    } else {
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) dx[c] = d * (dy[c] - shift - (x[c] - m) * slope);
    }
}

static inline void find_span_gradients(const group_loop *loop, int64_t item, int64_t spans) {
    gp_gradient_span span[GP_SPANS];
    double products[GP_SPANS], sums[GP_SPANS];
    for (int64_t s = 0; s < spans; s++) {
        int64_t row = (item + s) / loop->groups, group = (item + s) % loop->groups, column = group * loop->width;
        span[s].x = row_of(&loop->at.x, row, column);
        span[s].dy = row_of(&loop->at.dy, row, column);
        span[s].gamma = loop->at.gamma.at ? loop->at.gamma.at + column : NULL;
        span[s].mean = stats_at(loop, row, group)[0];
    }
    gp_span_gradients(span, spans, loop->width, products, sums);
    for (int64_t s = 0; s < spans; s++) backward_span(loop, item + s, &span[s], products[s], sums[s]);
}

static void backward_spans(void *context, int64_t begin, int64_t end) {
    for (; begin + GP_SPANS <= end; begin += GP_SPANS) find_span_gradients(context, begin, GP_SPANS);
    for (; begin < end; begin++) find_span_gradients(context, begin, 1);
}

static void run_group_norm_backward_data(const gp_cpu_call *call) {
    run_items(call, backward_items, backward_spans);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_backward_data) = {.compute = run_group_norm_backward_data};

/* Gradients of gamma and beta: f32 products, added in f64 over the rows of all samples, in blocks; then the blocks in
 * their order. */

typedef struct weight_sums {
    float mean[GP_COLUMN_WIDE], inverse[GP_COLUMN_WIDE]; /* of each column, or of each row: see `by_row` */
    double products[GP_COLUMN_WIDE], sums[GP_COLUMN_WIDE];
} weight_sums;

/* Mean and 1/deviation of columns [column, column+columns) of one sample. */
static void load_stats(const group_loop *loop, int64_t sample, int64_t column, int64_t columns, weight_sums *to) {
    int64_t group = column / loop->width;
    for (int64_t c = 0; c < columns; group++) {
        int64_t last = (group + 1) * loop->width - column;
        const float *stats = stats_at(loop, sample, group);
        for (; c < columns && c < last; c++) {
            to->mean[c] = stats[0];
            to->inverse[c] = stats[1];
        }
    }
}

/* Columns from c on, `halves` of GP_WIDE: 1 or an even number. */
static inline void add_weight_lanes(const group_loop *loop, bool by_row, const float *x, const float *dy, int64_t rows,
                                    int64_t c, int64_t halves, weight_sums *to) {
    enum { HALF = (int)GP_WIDE / 2 };
    gp_wide_doubles products[4], sums[4];
    int64_t lanes = halves == 1 ? HALF : GP_WIDE;
    for (int64_t h = 0; h < halves; h++) {
        products[h] = gp_wide_load_doubles(to->products + c + h * HALF);
        sums[h] = gp_wide_load_doubles(to->sums + c + h * HALF);
    }
    for (int64_t r = 0; r < rows; r++, x += loop->at.x.rows.pitch, dy += loop->at.dy.rows.pitch) {
        for (int64_t h = 0; h < halves; h += 2) {
            int64_t at = h * HALF;
            if (at % GP_LINE == 0) gp_fetch(x + GP_ROWS_AT_ONCE * loop->at.x.rows.pitch + at);
            if (at % GP_LINE == 0) gp_fetch(dy + GP_ROWS_AT_ONCE * loop->at.dy.rows.pitch + at);
            gp_wide mean = by_row ? gp_wide_all(to->mean[r]) : gp_wide_load(to->mean + c + at, lanes);
            gp_wide inverse = by_row ? gp_wide_all(to->inverse[r]) : gp_wide_load(to->inverse + c + at, lanes);
            gp_wide gradient = gp_wide_load(dy + at, lanes);
            gp_wide product = gradient * ((gp_wide_load(x + at, lanes) - mean) * inverse);
            products[h] += gp_wide_low(product);
            sums[h] += gp_wide_low(gradient);
            if (halves == 1) continue;
            products[h + 1] += gp_wide_high(product);
            sums[h + 1] += gp_wide_high(gradient);
        }
    }
    for (int64_t h = 0; h < halves; h++) {
        gp_wide_store_doubles(to->products + c + h * HALF, products[h]);
        gp_wide_store_doubles(to->sums + c + h * HALF, sums[h]);
    }
}

/* Rows [row, row+rows), at most GP_ROWS_AT_ONCE with by_row. by_row: each row has one mean, else each column. */
static inline void add_weights(const group_loop *loop, bool by_row, int64_t row, int64_t rows, int64_t column,
                               int64_t columns, weight_sums *to) {
    int64_t x_pitch = loop->at.x.rows.pitch, dy_pitch = loop->at.dy.rows.pitch, c = 0;
    const float *x = row_of(&loop->at.x, row, column), *dy = row_of(&loop->at.dy, row, column);
    for (; c + GP_TWO_WIDE <= columns; c += GP_TWO_WIDE) add_weight_lanes(loop, by_row, x + c, dy + c, rows, c, 4, to);
    for (; c + GP_WIDE <= columns; c += GP_WIDE) add_weight_lanes(loop, by_row, x + c, dy + c, rows, c, 2, to);
    for (; c + GP_WIDE / 2 <= columns; c += GP_WIDE / 2) add_weight_lanes(loop, by_row, x + c, dy + c, rows, c, 1, to);
    for (; c < columns; c++) {
        for (int64_t r = 0; r < rows; r++) {
            int64_t which = by_row ? r : c;
            float gradient = dy[r * dy_pitch + c];
            to->products[c] += (double)(gradient * ((x[r * x_pitch + c] - to->mean[which]) * to->inverse[which]));
            to->sums[c] += (double)gradient;
        }
    }
}

/* Rows up to the end of the sample or of the block: at most GP_ROWS_AT_ONCE, but all of few columns. */
static int64_t rows_together(const group_loop *loop, bool by_row, int64_t row, int64_t last) {
    int64_t end = by_row ? last : (row / loop->rows + 1) * loop->rows;
    if (end > last) end = last;
    int64_t most = !by_row && loop->at.x.rows.width <= GP_FEW ? GP_COLUMN_ROWS : GP_ROWS_AT_ONCE;
    return end - row < most ? end - row : most;
}

static void weights_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const group_loop *loop = context;
    bool by_row = loop->rows == 1 && loop->groups == 1;
    weight_sums to;
    int64_t sample = -1, last = row + rows;
    for (int64_t c = 0; c < columns; c++) to.products[c] = to.sums[c] = 0;
    while (row < last) {
        int64_t some = rows_together(loop, by_row, row, last);
        for (int64_t r = 0; r < some && by_row; r++) {
            to.mean[r] = stats_at(loop, row + r, 0)[0];
            to.inverse[r] = stats_at(loop, row + r, 0)[1];
        }
        if (!by_row && row / loop->rows != sample) {
            sample = row / loop->rows;
            load_stats(loop, sample, column, columns, &to);
        }
        if (by_row)
            add_weights(loop, true, row, some, column, columns, &to);
        else
            add_weights(loop, false, row, some, column, columns, &to);
        row += some;
    }
    double *partial = loop->partial + block * 2 * loop->at.x.rows.width + column;
    for (int64_t c = 0; c < columns; c++) partial[c] = to.products[c];
    for (int64_t c = 0; c < columns; c++) partial[loop->at.x.rows.width + c] = to.sums[c];
}

static void merge_weights(void *context, int64_t begin, int64_t end) {
    const group_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->at.x.rows.count), width = loop->at.x.rows.width, columns;
    for (int64_t column = begin; column < end; column += columns) {
        double products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
        float *dgamma = loop->at.dgamma.at + column, *dbeta = loop->at.dbeta.at + column;
        columns = end - column < GP_COLUMN_TILE ? end - column : GP_COLUMN_TILE;
        for (int64_t c = 0; c < columns && loop->accumulate; c++) {
            products[c] = (double)dgamma[c];
            sums[c] = (double)dbeta[c];
        }
        for (int64_t b = 0; b < blocks; b++) {
            const double *partial = loop->partial + b * 2 * width + column;
            for (int64_t c = 0; c < columns; c++) products[c] += partial[c];
            for (int64_t c = 0; c < columns; c++) sums[c] += partial[width + c];
        }
        for (int64_t c = 0; c < columns; c++) dgamma[c] = (float)products[c];
        for (int64_t c = 0; c < columns; c++) dbeta[c] = (float)sums[c];
    }
}

static void run_group_norm_backward_weights(const gp_cpu_call *call) {
    group_loop loop;
    begin(call, &loop);
    gp_cpu_column_blocks(call->pool, loop.at.x.rows.count, loop.at.x.rows.width, weights_block, &loop);
    gp_cpu_pool_for(call->pool, loop.at.x.rows.width, GP_COLUMN_TILE, merge_weights, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(group_norm_backward_weights) = {.compute = run_group_norm_backward_weights};

#include "device/cpu/cpu_column.h"

typedef struct block_loop {
    int64_t rows, columns, tiles;
    gp_column_block block;
    void *context;
} block_loop;

static void do_blocks(void *context, int64_t begin, int64_t end) {
    const block_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t block = i / loop->tiles;
        int64_t row = block * GP_COLUMN_ROWS;
        int64_t column = i % loop->tiles * GP_COLUMN_TILE;
        int64_t rows = loop->rows - row < GP_COLUMN_ROWS ? loop->rows - row : GP_COLUMN_ROWS;
        int64_t columns = loop->columns - column < GP_COLUMN_TILE ? loop->columns - column : GP_COLUMN_TILE;
        loop->block(loop->context, block, row, rows, column, columns);
    }
}

void gp_cpu_column_blocks(gp_cpu_pool *pool, int64_t rows, int64_t columns, gp_column_block block, void *context) {
    block_loop loop = {rows, columns, (columns + GP_COLUMN_TILE - 1) / GP_COLUMN_TILE, block, context};
    gp_cpu_pool_for(pool, gp_column_blocks(rows) * loop.tiles, 2, do_blocks, &loop);
}

typedef struct sum_context {
    const float *x;
    gp_rows rows;
    float *partial; /* [blocks, columns] */
    float *out;
    bool accumulate;
} sum_context;

static void sum_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const sum_context *sum = context;
    float total[GP_COLUMN_TILE] = {0};
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = sum->x + r * sum->rows.pitch + column;
        for (int64_t c = 0; c < columns; c++) total[c] += x[c];
    }
    float *partial = sum->partial + block * sum->rows.width + column;
    for (int64_t c = 0; c < columns; c++) partial[c] = total[c];
}

static void add_blocks(void *context, int64_t begin, int64_t end) {
    const sum_context *sum = context;
    int64_t blocks = gp_column_blocks(sum->rows.count);
    for (int64_t c = begin; c < end; c++) {
        double total = sum->accumulate ? (double)sum->out[c] : 0.0;
        for (int64_t b = 0; b < blocks; b++) total += (double)sum->partial[b * sum->rows.width + c];
        sum->out[c] = (float)total;
    }
}

size_t gp_cpu_column_sum_bytes(gp_rows x) {
    return (size_t)(gp_column_blocks(x.count) * x.width) * sizeof(float);
}

void gp_cpu_column_sum(gp_cpu_pool *pool, const float *x, gp_rows rows, bool accumulate, float *out, void *workspace) {
    sum_context sum = {x, rows, workspace, out, accumulate};
    gp_cpu_column_blocks(pool, rows.count, rows.width, sum_block, &sum);
    gp_cpu_pool_for(pool, rows.width, GP_COLUMN_TILE, add_blocks, &sum);
}

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
        int64_t column = i % loop->tiles * GP_COLUMN_WIDE;
        int64_t rows = loop->rows - row < GP_COLUMN_ROWS ? loop->rows - row : GP_COLUMN_ROWS;
        int64_t columns = loop->columns - column < GP_COLUMN_WIDE ? loop->columns - column : GP_COLUMN_WIDE;
        loop->block(loop->context, block, row, rows, column, columns);
    }
}

void gp_cpu_column_blocks(gp_cpu_pool *pool, int64_t rows, int64_t columns, gp_column_block block, void *context) {
    block_loop loop = {rows, columns, (columns + GP_COLUMN_WIDE - 1) / GP_COLUMN_WIDE, block, context};
    gp_cpu_pool_for(pool, gp_column_blocks(rows) * loop.tiles, 2, do_blocks, &loop);
}

size_t gp_cpu_column_bytes(gp_rows x) {
    return 2 * gp_cpu_column_sum_bytes(x);
}

size_t gp_cpu_column_sum_bytes(gp_rows x) {
    return (size_t)(gp_column_blocks(x.count) * x.width) * sizeof(double);
}

#include "device/cpu/cpu_blocks.h"

typedef struct block_loop {
    gp_cpu_block block;
    const void *context;
    int64_t elements;
    double *sums; /* of each block */
} block_loop;

int64_t gp_cpu_blocks(gp_rows x) {
    return (x.count * x.width + GP_CPU_BLOCK - 1) / GP_CPU_BLOCK;
}

static void sum_each(void *context, int64_t begin, int64_t end) {
    const block_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t last = (i + 1) * GP_CPU_BLOCK;
        loop->sums[i] = loop->block(loop->context, i * GP_CPU_BLOCK, last < loop->elements ? last : loop->elements);
    }
}

double gp_cpu_sum_blocks(const gp_cpu_call *call, gp_rows x, int64_t grain, gp_cpu_block block, const void *context) {
    block_loop loop = {block, context, x.count * x.width, call->workspace};
    int64_t blocks = gp_cpu_blocks(x);
    gp_cpu_pool_for(call->pool, blocks, grain, sum_each, &loop);
    double sum = 0;
    for (int64_t i = 0; i < blocks; i++) sum += loop.sums[i];
    return sum;
}
